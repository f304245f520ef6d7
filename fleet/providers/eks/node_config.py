"""Settings of nodeadm, which starts the nodes of AL2023 images, and the user data that has them.

Source: awslabs/amazon-eks-ami 81fec2e8 (2026-07-23), nodeadm/doc/api.md, NodeConfig of node.eks.aws/v1alpha1. EKS merges the
user data of a launch template without an image id with a NodeConfig of its own, and does not document which of them wins (EKS
user guide, launch templates). So these settings have no field that EKS or this program sets, and none that changes what a node
offers to pods: the placement proof counts with nodeadm's defaults.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, model_validator

from fleet.facts.credentials import holds_credential
from fleet.facts.yaml_text import yaml_text
from fleet.settings.model import Duration, Memory, Model, go_duration, matching, memory_text, problem

MOST_BYTES = 8 * 1024
"""EC2 takes 16 KiB of user data (EC2 user guide, user data). The rest is for the NodeConfig that EKS adds, with all labels."""

_GO_DURATION = re.compile(r"(?=.)(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")


def _go_seconds(value: Any) -> Any:
    match = _GO_DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return f"{hours * 3600 + minutes * 60 + seconds}s"


_GoDuration = Annotated[Duration, BeforeValidator(_go_seconds), PlainSerializer(go_duration)]
_Size = Annotated[Memory, PlainSerializer(memory_text)]
_Percent = Annotated[int, Field(ge=0, le=100)]

_PLACEMENT = "changes what a node offers to pods, which the plan proves with the node image's defaults"
_EKS = "is set by EKS for the nodes of a managed node group"
_OWNED = {
    **dict.fromkeys(
        ("maxPods", "podsPerCore", "kubeReserved", "systemReserved", "reservedSystemCPUs", "reservedMemory"), _PLACEMENT
    ),
    **dict.fromkeys(("evictionHard", "evictionSoft", "enforceNodeAllocatable", "memoryManagerPolicy"), _PLACEMENT),
    **dict.fromkeys(("registerWithTaints", "providerID", "clusterDNS", "clusterDomain", "authentication", "authorization"), _EKS),
}
"""Fields of KubeletConfiguration that this program refuses with a reason. Any other unknown field is an unknown key."""


def _unowned(owned: dict[str, str]) -> BeforeValidator:
    """A validator that refuses keys of a mapping with the reason in `owned`."""

    def check(value: Any) -> Any:
        for key in value if isinstance(value, dict) else ():
            if key in owned:
                raise problem("node_config_owned", f"{key} {owned[key]}; remove it", at=(key,))
        return value

    return BeforeValidator(check)


class KubeletConfig(Model):
    """Fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1, Kubernetes 1.36) that leave a node's resources as they are.

    The policies that can reject a pod on a node with enough room (`restricted`, `single-numa-node`) are left out.
    """

    pod_pids_limit: Annotated[int, Field(ge=-1)] | None = None
    """Processes of a pod at most; -1: no limit."""
    cpu_manager_policy: Literal["none", "static"] | None = None
    topology_manager_policy: Literal["none", "best-effort"] | None = None
    topology_manager_scope: Literal["container", "pod"] | None = None
    serialize_image_pulls: bool | None = None
    max_parallel_image_pulls: Annotated[int, Field(ge=1)] | None = None
    registry_pull_qps: Annotated[int, Field(ge=0)] | None = Field(default=None, alias="registryPullQPS")
    registry_burst: Annotated[int, Field(ge=0)] | None = None
    image_gc_high_threshold_percent: _Percent | None = Field(default=None, alias="imageGCHighThresholdPercent")
    image_gc_low_threshold_percent: _Percent | None = Field(default=None, alias="imageGCLowThresholdPercent")
    container_log_max_size: _Size | None = None
    container_log_max_files: Annotated[int, Field(ge=2)] | None = None
    shutdown_grace_period: _GoDuration | None = None
    shutdown_grace_period_critical_pods: _GoDuration | None = None

    @model_validator(mode="after")
    def _kubelet_rules(self) -> Self:
        """Refuse what kubelet refuses (kubernetes v1.36.3, pkg/kubelet/apis/config/validation): the node would never join."""
        if self.serialize_image_pulls and (self.max_parallel_image_pulls or 1) > 1:
            raise problem(
                "serial_pulls",
                "kubelet pulls one image at a time with serializeImagePulls; remove one of the two",
                at=("maxParallelImagePulls",),
            )
        # kubelet's defaults are 85 and 80.
        high, low = self.image_gc_high_threshold_percent, self.image_gc_low_threshold_percent
        if (80 if low is None else low) >= (85 if high is None else high):
            raise problem(
                "image_gc",
                "imageGCLowThresholdPercent (default 80) is not below imageGCHighThresholdPercent (default 85); lower it",
            )
        # nodeadm's defaults from Kubernetes 1.34 on are 150 and 30 seconds.
        whole, critical = self.shutdown_grace_period, self.shutdown_grace_period_critical_pods
        if (30 if critical is None else critical) > (150 if whole is None else whole):
            raise problem(
                "shutdown_grace",
                "shutdownGracePeriodCriticalPods (default 30s) is a part of shutdownGracePeriod (default 150s); lower it",
            )
        return self


class Kubelet(Model):
    """Settings of kubelet."""

    config: Annotated[KubeletConfig, _unowned(_OWNED)]


_OWNED_KUBELET = {
    "flags": "would replace labels and taints that EKS gives to kubelet as flags, and kubelet's config has all else",
    "maxPodsExpression": _PLACEMENT,
}


class Rlimit(Model):
    """A limit of the processes in containers, as in the OCI runtime spec (POSIX process, rlimits)."""

    type: Annotated[
        str,
        matching("rlimit", "not the name of a limit; write one such as RLIMIT_MEMLOCK or RLIMIT_NOFILE", r"RLIMIT_[A-Z]{2,12}"),
    ]
    soft: Annotated[int, Field(ge=0, le=2**64 - 1)]
    hard: Annotated[int, Field(ge=0, le=2**64 - 1)]

    @model_validator(mode="after")
    def _rlimit_rules(self) -> Self:
        """Refuse a soft limit above the hard one, which the kernel refuses."""
        if self.soft > self.hard:
            raise problem("rlimit_soft", f"soft is above hard {self.hard}; lower soft or raise hard", at=("soft",))
        return self


class RuntimeProcess(Model):
    """The process of a container."""

    rlimits: Annotated[tuple[Rlimit, ...], Field(min_length=1)]


class BaseRuntimeSpec(Model):
    """What nodeadm merges into the OCI runtime spec of every container: of it, the limits of processes."""

    process: RuntimeProcess


_CONTAINERD = ("version", "plugins", "proxy_plugins", "timeouts", "debug", "metrics", "oom_score")
"""Top-level tables and keys of containerd's config that a pool may set."""
_RUNTIME_KEYS = frozenset(("default_runtime_name", "runtimes"))


def _keys(table: Any) -> Iterator[str]:
    for key, value in table.items() if isinstance(table, dict) else ():
        yield key
        yield from _keys(value)


def _toml(text: str) -> str:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise problem("containerd_toml", f"not TOML ({error}); correct it", private=True) from None
    if holds_credential(text) or {"auth", "password", "identitytoken"} & set(_keys(table)):
        raise problem(
            "containerd_credential",
            "anyone who can read the launch template can read its user data; use imagePullSecrets, and remove the credential",
            private=True,
        )
    if unknown := sorted(set(table) - set(_CONTAINERD)):
        known = ", ".join(_CONTAINERD)
        raise problem(
            "containerd_key", f"a pool may set {known} of containerd, not {', '.join(unknown)}; remove it", private=True
        )
    if named := sorted(_RUNTIME_KEYS & set(_keys(table))):
        message = f"the node image sets NVIDIA's runtime in {' and '.join(named)}; remove it"
        raise problem("containerd_runtime", message, private=True)
    return text


class Containerd(Model):
    """Settings of containerd."""

    config: Annotated[str, AfterValidator(_toml)] | None = None
    """TOML that nodeadm merges over the image's config."""
    base_runtime_spec: BaseRuntimeSpec | None = None


class LocalStorage(Model):
    """What nodeadm does with the local disks of a machine. Without it they are not used."""

    strategy: Literal["RAID0", "Mount"]
    """RAID0: one array, on which kubelet, containerd and pod logs have their files. Mount: each disk by itself, for hostPath."""
    mount_path: (
        Annotated[str, matching("mount_path", "not an absolute path; write one such as /mnt/k8s-disks", r"(/[A-Za-z0-9._-]+)+/?")]
        | None
    ) = None
    disabled_mounts: tuple[Literal["Containerd", "PodLogs", "SOCI"], ...] | None = None
    """What stays on the root disk although there is an array."""

    @model_validator(mode="after")
    def _storage_rules(self) -> Self:
        """Refuse mounts of an array that the strategy does not make."""
        if self.disabled_mounts is not None and self.strategy != "RAID0":
            raise problem(
                "disabled_mounts", "only RAID0 mounts directories on the local disks; remove it", at=("disabledMounts",)
            )
        return self


class Instance(Model):
    """Settings of the machine."""

    local_storage: LocalStorage


class FeatureGates(Model):
    """Experimental features of nodeadm.

    InstanceIdNodeName is left out: EKS' access entry for the node role expects the name that EC2's private DNS gives the node.
    """

    fast_image_pull: bool = Field(default=False, alias="FastImagePull")
    """Parallel download and unpacking of images (needs a root disk or array of 600 MiB/s or more)."""


class NodeConfig(Model):
    """The parts of a NodeConfig's `spec` that a pool may set."""

    kubelet: Annotated[Kubelet | None, _unowned(_OWNED_KUBELET)] = None
    containerd: Containerd | None = None
    instance: Instance | None = None
    feature_gates: FeatureGates | None = None

    @model_validator(mode="after")
    def _config_rules(self) -> Self:
        """Refuse user data that EC2 refuses for its size."""
        if (size := len(user_data(self).encode())) > MOST_BYTES:
            raise problem("node_config_size", f"user data of {size} bytes; it has {MOST_BYTES} at most, shorten it", private=True)
        return self

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
        left = self.instance.local_storage.disabled_mounts or ()
        return not {"Containerd", *(("SOCI",) if self.fast_image_pull else ())} & set(left)


def user_data(config: NodeConfig) -> str:
    """The user data of a launch template without an image id: a MIME multi-part document with one NodeConfig (not base64)."""
    spec = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    document = yaml_text({"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec})
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="BOUNDARY"\n'
    return f"{head}\n--BOUNDARY\nContent-Type: application/node.eks.aws\n\n---\n{document}--BOUNDARY--\n"
