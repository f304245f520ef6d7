"""Settings of nodeadm, which starts the nodes of AL2023 images, and the user data that has them.

Source: awslabs/amazon-eks-ami 81fec2e8 (2026-07-23), nodeadm/doc/api.md, NodeConfig of node.eks.aws/v1alpha1. EKS merges the
user data of a launch template without an image id with a NodeConfig of its own, and does not document which of them wins (EKS
user guide, launch templates). So these settings have no field that EKS or this program sets, and none that changes what a node
offers to pods: the placement proof counts with nodeadm's defaults.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from fleet.facts.cloud_limits import limit
from fleet.facts.credentials import holds_credential
from fleet.facts.scheduling import Taint
from fleet.facts.yaml_text import yaml_text
from fleet.settings.kubelet import PLACEMENT, KubeletConfig, owned_fields, unowned
from fleet.settings.model import Model
from fleet.settings.refusals import limited, problem, refusal, refuse, refuse_if, refuses

MOST_BYTES = 8 * 1024
"""EC2 takes 16 KiB of user data (EC2 user guide, user data). The rest is for the cluster and all labels of the node. EKS
adds them, or this program does for an image of your own."""


class NodeadmKubelet(KubeletConfig):
    """Settings of kubelet beside those of nodeadm. `GRACE`: its defaults from Kubernetes 1.34 on."""

    GRACE: ClassVar[tuple[int, int]] = (150, 30)


class Kubelet(Model):
    """Settings of kubelet."""

    config: Annotated[NodeadmKubelet, unowned(owned_fields("EKS for the nodes of a managed node group"))]
    """Fields of kubelet's configuration that a pool may set. Example: `{podPidsLimit: 4096}`"""


_OWNED_KUBELET = {
    "flags": "would replace labels and taints that EKS gives to kubelet as flags, and kubelet's config has all else",
    "maxPodsExpression": PLACEMENT,
}


_RLIMITS = "spec.containerd.baseRuntimeSpec.process.rlimits"


class Rlimit(Model):
    """A limit of the processes in containers, as in the OCI runtime spec (POSIX process, rlimits)."""

    type: Annotated[str, limited("NodeConfig", f"{_RLIMITS}.[].type")]
    """Name of the limit: one of the sixteen that runc knows. Source: OCI runtime spec, POSIX process, rlimits. Example:
    `RLIMIT_MEMLOCK`"""
    soft: Annotated[int, Field(ge=0, le=2**64 - 1)]
    """The limit that holds, which a process may raise up to `hard`. Unit: that of the limit (bytes for RLIMIT_MEMLOCK, files for
    RLIMIT_NOFILE)."""
    hard: Annotated[int, Field(ge=0, le=2**64 - 1)]
    """The highest value of the soft limit. Unit: that of the limit (bytes for RLIMIT_MEMLOCK, files for RLIMIT_NOFILE)."""

    @refusal
    def _rlimit_rules(self) -> None:
        """Refuse a soft limit above the hard one, which the kernel refuses."""
        refuse_if("rlimit_soft", self.soft > self.hard, at=("soft",), hard=self.hard)


class RuntimeProcess(Model):
    """The process of a container."""

    rlimits: Annotated[
        tuple[Rlimit, ...],
        Field(min_length=1),
        limited("NodeConfig", _RLIMITS, "once"),
        limited("NodeConfig", _RLIMITS, "floors"),
    ]
    """Limits of the processes in containers, each type once. RLIMIT_NOFILE and RLIMIT_NPROC are at least 1024, because programs
    count on that."""


class BaseRuntimeSpec(Model):
    """What nodeadm merges into the OCI runtime spec of every container: of it, the limits of processes."""

    process: RuntimeProcess
    """The process of every container."""


_CONTAINERD = ("version", "plugins", "proxy_plugins", "timeouts", "debug", "metrics", "oom_score")
"""Top-level tables and keys of containerd's config that a pool may set."""


def _keys(table: Any) -> Iterator[str]:
    for key, value in table.items() if isinstance(table, dict) else ():
        yield key
        yield from _keys(value)


def _toml(text: str) -> None:
    if len(text) > MOST_BYTES:
        # The rule of the whole user data refuses it. Here it is not parsed.
        return
    try:
        table = tomllib.loads(text)
        keys = set(_keys(table))
    except RecursionError:
        raise problem("containerd_toml", private=True) from None
    except tomllib.TOMLDecodeError as error:
        raise problem("containerd_toml__syntax", private=True, error=error) from None
    refuse_if("containerd_credential", holds_credential(text) or {"auth", "password", "identitytoken"} & keys, private=True)
    if unknown := sorted(set(table) - set(_CONTAINERD)):
        raise problem("containerd_key", private=True, tables=", ".join(_CONTAINERD), unknown=", ".join(unknown))
    if (fault := limit("containerd", "version").fault(table.get("version"))) is not None:
        raise problem("containerd_version", private=True, fault=fault)
    if runtime_keys := sorted({"default_runtime_name", "runtimes"} & keys):
        raise problem("containerd_runtime", private=True, runtime_keys=" and ".join(runtime_keys))


class NodeContainerd(Model):
    """Settings of containerd."""

    config: Annotated[str, refuses(_toml)] | None = None
    """TOML that nodeadm merges over the image's configuration of containerd. It may not have credentials. Example: `oom_score =
    -999`"""
    base_runtime_spec: BaseRuntimeSpec | None = None
    """What nodeadm merges into the OCI runtime spec of every container."""


class LocalStorage(Model):
    """What nodeadm does with the local disks of a machine. Without it they are not used."""

    strategy: Literal["RAID0", "Mount"]
    """`RAID0`: one array, on which kubelet, containerd and pod logs have their files. `Mount`: each disk by itself, for hostPath
    volumes."""
    mount_path: Annotated[str, limited("NodeConfig", "spec.instance.localStorage.mountPath")] | None = None
    """Folder below /mnt on the node where the disks or the array are mounted: they hide what else is in it. Default: that of
    nodeadm, /mnt/k8s-disks. Example: `/mnt/disks`"""
    disabled_mounts: tuple[Literal["Containerd", "PodLogs", "SOCI"], ...] | None = None
    """What stays on the root disk although there is an array. Only with `RAID0`. Example: `[PodLogs]`"""

    @refusal
    def _storage_rules(self) -> None:
        """Refuse mounts of an array that the strategy does not make."""
        refuse("disabledMounts", disabled_mounts=self.disabled_mounts is not None and self.strategy != "RAID0")


class Instance(Model):
    """Settings of the machine."""

    local_storage: LocalStorage
    """What nodeadm does with the local NVMe disks of a machine. Default: nothing."""


class FeatureGates(Model):
    """Experimental features of nodeadm.

    InstanceIdNodeName is left out: EKS' access entry for the node role expects the name that EC2's private DNS gives the node.
    """

    fast_image_pull: bool = Field(default=False, alias="FastImagePull")
    """Whether layers of images are downloaded and unpacked in parallel. nodeadm ignores it below 4 vCPUs or 7 GiB, and every GPU
    type has more."""


class NodeConfig(Model):
    """The parts of a NodeConfig's `spec` that a pool may set."""

    kubelet: Annotated[Kubelet | None, unowned(_OWNED_KUBELET)] = None
    """Settings of kubelet."""
    containerd: NodeContainerd | None = None
    """Settings of containerd."""
    instance: Instance | None = None
    """Settings of the machine: its local disks."""
    feature_gates: FeatureGates | None = None
    """Experimental features of nodeadm."""

    @refusal
    def _config_rules(self) -> None:
        """Refuse user data that EC2 refuses for its size."""
        if (size := len(user_data(self).encode())) > MOST_BYTES:
            raise problem("node_config_size", private=True, size=size, most=MOST_BYTES)

    @property
    def array(self) -> bool:
        """Whether the files of kubelet and of containers are on the local disks instead of the root disk."""
        return self.instance is not None and self.instance.local_storage.strategy == "RAID0"

    @property
    def fast_image_pull(self) -> bool:
        """Whether layers are downloaded and unpacked in parallel."""
        return self.feature_gates is not None and self.feature_gates.fast_image_pull

    @property
    def images_on_array(self) -> bool:
        """Whether images are unpacked on the local disks: by containerd, or with FastImagePull by the SOCI snapshotter."""
        if not self.array or self.instance is None:
            return False
        disabled = self.instance.local_storage.disabled_mounts or ()
        return not {"Containerd", *(("SOCI",) if self.fast_image_pull else ())} & set(disabled)


def joining_spec(
    name: str, endpoint: str, authority: str, service_cidr: str, labels: Mapping[str, str], taints: Sequence[Taint]
) -> dict[str, Any]:
    """Keys of a NodeConfig's `spec` with which a node joins a cluster, as eksctl writes them for an image id (eksctl 99984adb,
    pkg/nodebootstrap/al2023.go): the cluster's name, the https address of its API server, its certificate authority in base64
    and the range of its services, and the node's labels and taints.

    EKS also sets the labels and taints of the node group, but about half a minute after the node has joined
    (aws/containers-roadmap#1962). `maxPods` is left to nodeadm, which counts the addresses of each type as the plan does.
    """
    listed = ",".join(f"{key}={value}" for key, value in labels.items())
    flags = [f"--node-labels={listed}", f"--register-with-taints={','.join(map(str, taints))}"]
    cluster = {"name": name, "apiServerEndpoint": endpoint, "certificateAuthority": authority, "cidr": service_cidr}
    return {"cluster": cluster, "kubelet": {"flags": flags}}


def user_data(config: NodeConfig | None, joining: Mapping[str, Any] = MappingProxyType({})) -> str:
    """The user data of a launch template: a MIME multi-part document with one NodeConfig (not base64).

    For a template with an image id `joining` must be given, because EKS then adds nothing (EKS user guide, launch templates).
    """
    spec = {**joining}
    for key, value in config.model_dump(mode="json", by_alias=True, exclude_none=True).items() if config else ():
        spec[key] = spec.get(key, {}) | value
    document = yaml_text({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="BOUNDARY"\n'
    return f"{head}\n--BOUNDARY\nContent-Type: application/node.eks.aws\n\n---\n{document}--BOUNDARY--\n"
