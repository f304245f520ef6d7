"""What the pods of a runner class have besides their size: environment, pull secrets and volumes."""

import ipaddress
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar

from pydantic import Field

from fleet.facts.pods import Mount, claimed
from fleet.facts.quantities import memory_text
from fleet.settings.environment import EnvName, EnvValue
from fleet.settings.github import is_app_secret
from fleet.settings.gitops import ObjectName
from fleet.settings.model import IN_ANY_ORDER, DnsLabel, Memory, Model
from fleet.settings.refusals import Form, accepted, matching, problem, refusal, refuse, refuse_if, refuses, require_once, words
from fleet.settings.template import Template


def _job_secret(name: str) -> None:
    refuse_if("app_secret", is_app_secret(name), name=name)


JobSecret = Annotated[ObjectName, refuses(_job_secret)]
"""Name of a Secret in the namespace of the class that its jobs may read."""


Account = Annotated[DnsLabel, accepted("account_name", lambda name: name not in ("default", "launcher"))]
"""Name of a service account of the program's."""
DataKey = Annotated[str, matching("data_key", r"[-._a-zA-Z0-9]+", most=253)]
"""A key of a Secret or ConfigMap (Kubernetes core/v1, Secret, `data`)."""

_PATH = r"(/(?!\.\.?(/|$))[^/:\s]+)+"
_TAKEN = ("/dev", "/proc", "/sys", "/home/runner", "/var/run/secrets", "/run/secrets", "/etc/gpu-ci")
"""Where the container runtime, the runner's image and we have files. A mount there hides them."""


def _mount_path(path: str) -> None:
    mounted = PurePosixPath(path)
    for taken in map(PurePosixPath, _TAKEN):
        refuse_if("mount_taken", mounted.is_relative_to(taken) or taken.is_relative_to(mounted), taken=taken)


_PATH_FORM = Form("mount path", words("mount_path"), "/[^:]*[^:/]", 4096)
MountPath = Annotated[str, matching("mount_path", _PATH, form=_PATH_FORM), refuses(_mount_path)]
"""Where a container has a volume."""


class SecretValue(Model):
    """One value of a Secret in the namespace of the class."""

    secret: JobSecret
    """Name of the Secret. It must exist before the first job. Example: `wandb`"""
    key: DataKey
    """Key of the value in the Secret. Example: `api-key`"""


class ExtraVolume(Model):
    """A volume of each runner: one of `size`, `claim`, `configMap` and `secret`."""

    path: MountPath
    """Where the runner has it. Example: `/data`"""
    size: Memory | None = None
    """Size of an empty directory of each runner, which ends with it. Kubelet evicts a pod that writes more.
    Example: `20Gi`"""
    in_memory: bool = False
    """Whether the empty directory is in memory. Its files then count against the memory limit, otherwise against the disk.
    Example: `true`"""
    claim: ObjectName | None = None
    """Name of a PersistentVolumeClaim in the namespace of the class. All its runners share it. Example: `models`"""
    config_map: ObjectName | None = None
    """Name of a ConfigMap in the namespace of the class. Example: `pip-conf`"""
    secret: JobSecret | None = None
    """Name of a Secret in the namespace of the class. Every job of the class can read it. Example: `kaggle`"""
    read_only: bool = False
    """Whether jobs can only read it. ConfigMaps and Secrets are always read-only. Example: `true`"""

    @property
    def disk(self) -> int:
        """The node's disk that it may fill, in MiB."""
        return 0 if self.in_memory else self.size or 0

    @property
    def memory(self) -> int:
        """The runner's memory that it may fill, in MiB."""
        return self.size or 0 if self.in_memory else 0

    def mount(self, name: str) -> Mount:
        """The volume and its mount, under a name."""
        if self.claim is not None:
            return claimed(name, self.path, self.claim, self.read_only)
        if self.size is not None:
            medium = {"medium": "Memory"} if self.in_memory else {}
            return Mount(name, self.path, {"emptyDir": medium | {"sizeLimit": memory_text(self.size)}})
        of_map, of_secret = {"configMap": {"name": self.config_map}}, {"secret": {"secretName": self.secret}}
        return Mount(name, self.path, of_secret if self.config_map is None else of_map, read_only=True)

    @refusal
    def _rules(self) -> None:
        """Refuse none or several kinds of volumes, and settings of an empty directory for another kind."""
        refuse(volume_kind=[self.size, self.claim, self.config_map, self.secret].count(None) != 3)
        refuse("inMemory", volume_memory=self.in_memory and self.size is None)
        refuse("readOnly", volume_read_only=self.read_only and self.size is not None)


_PROXY = r"https?://[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
API_SERVER = ("kubernetes.default.svc", ".svc", ".cluster.local", "10.96.0.1", "10.97.0.1", "10.100.0.1", "172.20.0.1")
"""Names of services, and the addresses that the API server has in the pods of OKE, Talos and EKS: the first of the services.

Sources: EKS, CreateCluster, serviceIpv4Cidr; Talos, cluster.network.serviceSubnets; the clusters of the program on OKE. The
listener calls that address by the proxy of its environment (actions/actions-runner-controller#2286).
"""
CA_VARIABLES = ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "REQUESTS_CA_BUNDLE")
"""Where OpenSSL, .NET and Go, curl, git, and Python's requests read the path of the authorities that they trust."""


def _covers(name: str, host: str) -> bool:
    """Whether an entry of noProxy names a host: itself, its domain, its network, or all (golang.org/x/net, http/httpproxy)."""
    with suppress(ValueError):
        return ipaddress.ip_address(host) in ipaddress.ip_network(name, strict=False)
    return name == "*" or f".{host}".endswith(f".{name.removeprefix('*').lstrip('.')}")


_ProxyHost = Annotated[str, matching("proxy_host", r"[A-Za-z0-9*.:/-]+", most=253)]


class Proxy(Model):
    """The HTTP proxy by which listener and jobs of a class reach everything."""

    url: Annotated[str, matching("proxy_url", _PROXY, private=True)]
    """URL of the proxy, without credentials. Example: `http://proxy.example.com:3128`"""
    secret: JobSecret | None = None
    """Name of a Secret in the namespace of the class with the keys `username` and `password`. Jobs can read both. Example:
    `proxy`"""
    no_proxy: Annotated[tuple[_ProxyHost, ...], IN_ANY_ORDER] = ()
    """Hosts, domains and networks that are reached without the proxy. Example: `[github.example.com]`"""

    def carries(self, host: str) -> bool:
        """Whether requests to a host go to the proxy."""
        return not any(_covers(name.lower(), host.lower()) for name in self.no_proxy)


class CaBundle(Model):
    """A ConfigMap with the certificates of all authorities that listener and jobs of a class trust."""

    config_map: ObjectName
    """Name of the ConfigMap in the namespace of the class. Example: `ca`"""
    key: DataKey = "ca.crt"
    """Key of the certificates, in PEM format: public authorities and your own. Example: `ca-certificates.crt`"""

    FOLDER: ClassVar[str] = "/etc/gpu-ci/ca"

    @property
    def path(self) -> str:
        """Where the runner has it."""
        return f"{self.FOLDER}/{self.key}"


class PodFields(Model):
    """What a runner class adds to the pods of its runners."""

    env: Mapping[EnvName, EnvValue] = Field(default_factory=dict)
    """Environment variables of every job of the class. No credentials (docs/pod-template.md). Example: `{HF_HUB_OFFLINE: "1"}`"""
    secret_env: Mapping[EnvName, SecretValue] = Field(default_factory=dict)
    """Environment variables whose values are in Secrets of the class's namespace. Every job of the class can read them. Example:
    `{WANDB_API_KEY: {secret: wandb, key: api-key}}`"""
    pull_secrets: Annotated[tuple[JobSecret, ...], IN_ANY_ORDER] = ()
    """Names of Secrets of type kubernetes.io/dockerconfigjson in the namespace of the class, with which nodes pull its images.
    Example: `[ghcr]`"""
    service_account: Account | None = None
    """Name of a service account that the program creates for the pods of the class, for a role of a cloud. It has no rights in
    Kubernetes, and jobs get no token of it. Example: `jobs`"""
    volumes: Mapping[DnsLabel, ExtraVolume] = Field(default_factory=dict)
    """Volumes of each runner besides /dev/shm, by name (docs/pod-template.md). Example:
    `{models: {path: /models, claim: models}}`"""

    proxy: Proxy | None = None
    """HTTP proxy of the class (docs/pod-template.md#proxy-and-own-authority). Default: none."""
    ca_bundle: CaBundle | None = None
    """Certificates that the class trusts instead of those of its image, such as that of a GitHub Enterprise Server. Default: the
    image's."""

    template: Template | None = None
    """More fields of the pod, in Kubernetes' words (docs/pod-template.md#the-rest-of-a-pod). Default: none."""

    @property
    def opens(self) -> tuple[str, ...]:
        """The addresses on the node that jobs need for a role of a cloud. All others of the node are closed."""
        return ()

    @property
    def scale_set_values(self) -> dict[str, Any]:
        """What the chart of runner sets gets for proxy and authority (gha-runner-scale-set 0.14.2, values.yaml)."""
        values: dict[str, Any] = {}
        if self.proxy is not None:
            server = {"url": self.proxy.url} | ({"credentialSecretRef": self.proxy.secret} if self.proxy.secret else {})
            agents = (network.partition("/")[0] for network in self.opens)
            direct = list(dict.fromkeys((*self.proxy.no_proxy, *API_SERVER, *agents)))
            values["proxy"] = {"http": server, "https": server, "noProxy": direct}
        if (bundle := self.ca_bundle) is not None:
            source = {"configMapKeyRef": {"name": bundle.config_map, "key": bundle.key}}
            values["githubServerTLS"] = {"certificateFrom": source, "runnerMountPath": bundle.FOLDER}
        return values

    def reads(self, secret: str) -> bool:
        """Whether a pod of the class may read a Secret of its namespace."""
        names = {entry.secret for entry in self.secret_env.values()} | {volume.secret for volume in self.volumes.values()}
        names |= {*self.pull_secrets} | ({self.proxy.secret} if self.proxy is not None else set())
        return secret in names or (self.template is not None and self.template.names(secret))

    @property
    def variables(self) -> Iterator[dict[str, Any]]:
        """The environment as a container has it."""
        yield from ({"name": name, "value": value} for name, value in self.env.items())
        for name, entry in self.secret_env.items():
            yield {"name": name, "valueFrom": {"secretKeyRef": {"name": entry.secret, "key": entry.key}}}
        yield from self.trust

    @property
    def trust(self) -> Iterator[dict[str, Any]]:
        """The part of the environment that names the certificates of `ca_bundle`."""
        if self.ca_bundle is not None:
            yield from ({"name": name, "value": self.ca_bundle.path} for name in CA_VARIABLES)
            # The chart would set it to 1, and run.sh would call sudo, which has no root here (actions/runner, run.sh).
            yield {"name": "RUNNER_UPDATE_CA_CERTS", "value": ""}

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """The volumes with their mounts."""
        return tuple(volume.mount(name) for name, volume in self.volumes.items())

    @property
    def volume_disk(self) -> int:
        """The node's disk that the volumes may fill, in MiB."""
        return sum(volume.disk for volume in self.volumes.values())

    @property
    def volume_memory(self) -> int:
        """The runner's memory that the volumes may fill, in MiB."""
        return sum(volume.memory for volume in self.volumes.values())

    @refusal
    def _pod_rules(self) -> None:
        """Refuse a variable, pull secret or path that occurs twice, and the names of our own volumes."""
        if both := sorted(self.env.keys() & self.secret_env.keys()):
            raise problem("env_twice", at=("secretEnv", both[0]))
        for key, names in (("env", self.env), ("secretEnv", self.secret_env)):
            if self.ca_bundle is not None and (taken := sorted({*CA_VARIABLES, "NODE_EXTRA_CA_CERTS"} & names.keys())):
                raise problem("env_bundle", at=(key, taken[0]))
        require_once("pull_secrets", self.pull_secrets, at=("pullSecrets",))
        paths: dict[str, str] = {}
        for extra in self.template.volumes if self.template is not None else ():
            if extra["name"] in (*VOLUMES_TAKEN, *self.volumes):
                raise problem("template_volume_name", at=("template", "volumes"), value=extra["name"])
        if self.template is not None:
            there = {"shm", *self.volumes, *(extra["name"] for extra in self.template.volumes)}
            if missing := [name for name in self.template.mounted() if name not in there]:
                raise problem("template_mount", at=("template",), value=missing[0])
        for name, volume in self.volumes.items():
            if name in VOLUMES_TAKEN:
                raise problem("volume_name", at=("volumes", name), value=name, owner=VOLUMES_TAKEN[name])
            if (other := paths.setdefault(volume.path, name)) != name:
                raise problem("mount_twice", at=("volumes", name, "path"), other=other)


VOLUMES_TAKEN = {"shm": "gpu-ci", "keep-failed": "gpu-ci", "github-server-tls-cert": "ARC's chart", "work": "ARC's chart"}
"""Names of volumes of a runner's pod that are not the class's, and whose they are (gha-runner-scale-set 0.14.2, _helpers.tpl)."""
