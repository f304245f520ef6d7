"""Plain arguments that several components have.

This module and those of packaged components do not use `from __future__ import annotations`: the SDK infers the package's schema
from the annotations, and fails on annotations that are strings.
"""

from typing import Any, NotRequired, TypedDict


class TolerationArgs(TypedDict):
    """A pod toleration (Kubernetes core/v1)."""

    key: str
    """Key of the taint."""
    operator: NotRequired[str]
    """Exists or Equal. Default: Exists."""
    value: NotRequired[str]
    """Value of the taint, with operator Equal."""
    effect: NotRequired[str]
    """NoSchedule, PreferNoSchedule or NoExecute. Default: NoSchedule. An empty text tolerates every effect."""


class SharingArgs(TypedDict):
    """How several containers share a GPU."""

    strategy: str
    """time-slicing, mps or mig."""
    replicas: NotRequired[int]
    """Units of each GPU, with time-slicing and mps. At least 2."""
    rename: NotRequired[bool]
    """Whether the units are named nvidia.com/gpu.shared, with time-slicing and mps. Default: true."""
    allow_several: NotRequired[bool]
    """Whether a container may request several units, with time-slicing and mps. Default: false."""
    profile: NotRequired[str]
    """The MIG profile, such as 1g.10gb, with mig."""
    naming: NotRequired[str]
    """mixed (nvidia.com/mig-<profile>) or single (nvidia.com/gpu), with mig. Default: mixed."""


class GpuAccessArgs(TypedDict):
    """How the containers of one kind of node get their GPUs."""

    sharing: NotRequired[SharingArgs]
    """How containers share a GPU. Default: a container gets whole GPUs."""
    cdi: NotRequired[bool]
    """Whether containers get GPUs by the Container Device Interface. Default: false."""


class SpanArgs(TypedDict):
    """A request and a limit of a container."""

    request: str
    """What the scheduler reserves."""
    limit: str
    """At least the request."""


class SecretValueArgs(TypedDict):
    """One value of a Secret in the namespace of the pods."""

    secret: str
    """Name of the Secret."""
    key: str
    """Key of the value in the Secret."""


class ExtraVolumeArgs(TypedDict):
    """A volume of each runner: one of `size`, `claim`, `configMap` and `secret`."""

    path: str
    """Where the runner has it."""
    size: NotRequired[str]
    """Size of an empty directory of each runner, in Mi or Gi."""
    in_memory: NotRequired[bool]
    """Whether the empty directory is in memory. Default: false."""
    claim: NotRequired[str]
    """Name of a PersistentVolumeClaim."""
    config_map: NotRequired[str]
    """Name of a ConfigMap."""
    secret: NotRequired[str]
    """Name of a Secret."""
    read_only: NotRequired[bool]
    """Whether jobs can only read it. Default: false for claims, true for ConfigMaps and Secrets."""


class ServicesArgs(TypedDict):
    """The containers beside a job: its services, and a container action while it runs."""

    most: NotRequired[int]
    """Most services of one job. Default: 2."""
    cpu: NotRequired[str]
    """CPU of each, in cores ("1") or millicores ("500m"). Default: 250m."""
    memory: NotRequired[str]
    """Memory of each, in Mi or Gi. Default: 512Mi."""


class KeepFailedArgs(TypedDict):
    """How long the pod of a failed job stays, and who may look inside."""

    time: str
    """How long the pod stays after the last step, from 1m to 60m."""
    group: str
    """The Kubernetes group that may run commands in all pods of the set."""


class ProxyArgs(TypedDict):
    """The HTTP proxy by which listener and jobs reach everything."""

    url: str
    """URL of the proxy, without credentials."""
    secret: NotRequired[str]
    """Name of a Secret with the keys username and password. Default: none."""
    no_proxy: NotRequired[list[str]]
    """Hosts, domains and networks that are reached without the proxy. Default: none."""


class CaBundleArgs(TypedDict):
    """A ConfigMap with the certificates of all authorities that listener and jobs trust."""

    config_map: str
    """Name of the ConfigMap."""
    key: NotRequired[str]
    """Key of the certificates. Default: ca.crt."""


class TemplateArgs(TypedDict):
    """More of a runner's pod, in Kubernetes' words (core/v1, PodSpec)."""

    init_containers: NotRequired[list[dict[str, Any]]]
    """Containers that end before the runner starts."""
    containers: NotRequired[list[dict[str, Any]]]
    """Containers beside the runner."""
    volumes: NotRequired[list[dict[str, Any]]]
    """Volumes of these containers."""
    host_aliases: NotRequired[list[dict[str, Any]]]
    """Lines of /etc/hosts."""
    dns_config: NotRequired[dict[str, Any]]
    """Name servers and search domains."""
    dns_policy: NotRequired[str]
    """ClusterFirst, Default or None."""
    enable_service_links: NotRequired[bool]
    """Whether jobs find services as environment variables."""


class GitOpsArgs(TypedDict):
    """Where ArgoCD finds its Applications. With it a component declares an Application for Git instead of a Helm release."""

    repository: str
    """URL of the Git repository, without user and password."""
    path: str
    """Folder of the cluster in the repository."""
    revision: NotRequired[str]
    """Branch, tag or commit. Default: main."""
    namespace: NotRequired[str]
    """Namespace of ArgoCD. Default: argocd."""
    project: NotRequired[str]
    """ArgoCD's project. Default: default."""
