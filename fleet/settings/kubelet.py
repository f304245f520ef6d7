"""Settings of kubelet that a pool of any provider may have.

None changes the resources of a node. The policies of the CPU and topology managers decide which pods a node with enough room
still rejects; the placement proof knows them (`fleet.prove.topology`).
"""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PlainSerializer

from fleet.facts.quantities import memory_text
from fleet.facts.tables import beside
from fleet.settings.model import DURATION, Memory, Model, go_duration, seconds_of
from fleet.settings.refusals import limited, problem, refusal, refuse

_GO_DURATION = re.compile(r"(?=.)(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?")


def _go_seconds(value: Any) -> int:
    match = _GO_DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return seconds_of(value)
    hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return seconds_of(f"{min(hours * 3600 + minutes * 60 + seconds, 10**9 - 1)}s")


# The validator of a Duration would show the seconds of a wrong value instead of what a person wrote.
_GoDuration = Annotated[int, BeforeValidator(_go_seconds), PlainSerializer(go_duration), DURATION]
_Size = Annotated[Memory, PlainSerializer(memory_text)]
_KUBELET = "KubeletConfiguration"
_High = Annotated[int, limited(_KUBELET, "imageGCHighThresholdPercent")]
_Low = Annotated[int, limited(_KUBELET, "imageGCLowThresholdPercent")]
_CpuManager = Literal["none", "static"]
_TopologyManager = Literal["none", "best-effort", "restricted", "single-numa-node"]
_TopologyScope = Literal["container", "pod"]

PLACEMENT = "changes what a node offers to pods, which the plan proves with the node image's defaults"
"""Why a pool may not have a setting."""
_OPTIONS = "changes what the policy does, and the plan proves the policies without options"


def owned_fields(owner: str) -> dict[str, str]:
    """Fields of KubeletConfiguration that this program refuses, with the reason. Any other unknown field is an unknown key.

    `owner` sets some of them: the end of "is set by …".
    """
    reasons = {"placement": PLACEMENT, "options": _OPTIONS, "owner": f"is set by {owner}"}
    return {field: reasons[kind] for kind, names in beside(__file__, "kubelet.toml").items() for field in names}


def unowned(owned: dict[str, str]) -> BeforeValidator:
    """A validator that refuses keys of a mapping with the reason in `owned`."""

    def check(value: Any) -> Any:
        for key in filter(owned.__contains__, value) if isinstance(value, dict) else ():
            raise problem("node_config_owned", at=(key,), key=key, why=owned[key])
        return value

    return BeforeValidator(check)


class DescribedKubelet(Model):
    """Settings of kubelet on nodes that exist already. The program does not set them; the plan counts with them."""

    cpu_manager_policy: _CpuManager | None = None
    """`static` gives CPUs of their own to Guaranteed pods that request whole CPUs (docs/numa.md). Default: `none`. Example:
    `static`"""
    topology_manager_policy: _TopologyManager | None = None
    """How strictly kubelet keeps the CPUs and GPUs of a pod on one NUMA node (docs/numa.md). Default: `none`. Example:
    `best-effort`"""
    topology_manager_scope: _TopologyScope | None = None
    """Whether kubelet aligns each container or the whole pod. Default: `container`. Example: `pod`"""


class KubeletFlags(Model):
    """Fields of KubeletConfiguration (kubelet.config.k8s.io/v1beta1, Kubernetes 1.36) that are flags of kubelet, too.

    The static CPU manager needs reserved CPUs, which every node image here has (`fleet.facts.offer`).
    """

    pod_pids_limit: Annotated[int, limited(_KUBELET, "podPidsLimit")] | None = None
    """The most processes of a pod, from 1024 to 4194304; -1 means without limit. Unit: processes."""
    cpu_manager_policy: _CpuManager | None = None
    """`static` gives CPUs of their own to Guaranteed pods that request whole CPUs (docs/numa.md). Default: `none`."""
    topology_manager_policy: _TopologyManager | None = None
    """How strictly kubelet keeps the CPUs and GPUs of a pod on one NUMA node (docs/numa.md). Default: `none`."""
    topology_manager_scope: _TopologyScope | None = None
    """Whether kubelet aligns each container or the whole pod. Default: `container`. Example: `pod`"""
    serialize_image_pulls: bool | None = None
    """Whether kubelet pulls one image at a time. Not together with `maxParallelImagePulls` above 1. Example: `false`"""
    registry_pull_qps: Annotated[int, limited(_KUBELET, "registryPullQPS")] | None = Field(default=None, alias="registryPullQPS")
    """The most image pulls per second; 0 means without limit. Kubelet's default is 5. Unit: pulls per second. Source: Kubernetes,
    kubelet.config.k8s.io/v1beta1. Example: `10`"""
    registry_burst: Annotated[int, limited(_KUBELET, "registryBurst")] | None = None
    """Image pulls that may start at once, as long as `registryPullQPS` holds. Kubelet's default is 10. Unit: pulls. Source:
    Kubernetes, kubelet.config.k8s.io/v1beta1. Example: `20`"""
    image_gc_high_threshold_percent: _High | None = Field(default=None, alias="imageGCHighThresholdPercent")
    """Use of the disk above which kubelet deletes unused images. Kubelet's default is 85. Unit: percent of the disk. Source:
    Kubernetes, kubelet.config.k8s.io/v1beta1. Example: `90`"""
    image_gc_low_threshold_percent: _Low | None = Field(default=None, alias="imageGCLowThresholdPercent")
    """Use of the disk down to which kubelet deletes unused images, below the high threshold. Kubelet's default is 80. Unit:
    percent of the disk. Source: Kubernetes, kubelet.config.k8s.io/v1beta1. Example: `75`"""
    container_log_max_size: _Size | None = None
    """Size at which kubelet rotates the log of a container. Kubelet's default is 10Mi. Source: Kubernetes,
    kubelet.config.k8s.io/v1beta1. Example: `50Mi`"""
    container_log_max_files: Annotated[int, limited(_KUBELET, "containerLogMaxFiles")] | None = None
    """The most log files of a container. Kubelet's default is 5. Unit: files. Source: Kubernetes, kubelet.config.k8s.io/v1beta1.
    Example: `3`"""

    @refusal
    def _flag_rules(self) -> None:
        """Refuse what kubelet refuses (kubernetes v1.36.3, pkg/kubelet/apis/config/validation): the node would never join."""
        # kubelet's defaults are 85 and 80.
        high, low = self.image_gc_high_threshold_percent, self.image_gc_low_threshold_percent
        refuse(image_gc=(80 if low is None else low) >= (85 if high is None else high))


ResourceManagers = DescribedKubelet | KubeletFlags
"""The settings of kubelet that decide by NUMA nodes which pods it admits; None is kubelet's default: none, container."""


class KubeletConfig(KubeletFlags):
    """The same fields, and those without a flag.

    `GRACE` has the seconds of shutdownGracePeriod and shutdownGracePeriodCriticalPods that hold without settings.
    """

    GRACE: ClassVar[tuple[int, int]] = (0, 0)

    max_parallel_image_pulls: Annotated[int, limited(_KUBELET, "maxParallelImagePulls")] | None = None
    """The most images that kubelet pulls at the same time. Default: no limit if `serializeImagePulls` is false. Unit: images.
    Example: `4`"""
    shutdown_grace_period: _GoDuration | None = None
    """Time that a node waits for its pods when it shuts down. Default: 150s on EKS, 30s on Talos. Example: `2m`"""
    shutdown_grace_period_critical_pods: _GoDuration | None = None
    """The part of `shutdownGracePeriod` that is left to critical pods. Default: 30s on EKS, 10s on Talos. Example: `20s`"""

    @refusal
    def _config_rules(self) -> None:
        """Refuse what kubelet refuses."""
        refuse("maxParallelImagePulls", serial_pulls=self.serialize_image_pulls and (self.max_parallel_image_pulls or 1) > 1)
        whole, critical = self.shutdown_grace_period, self.shutdown_grace_period_critical_pods
        of_all, of_critical = self.GRACE
        if (of_critical if critical is None else critical) > (of_all if whole is None else whole):
            raise problem("shutdown_grace", of_critical=of_critical, of_all=of_all)
