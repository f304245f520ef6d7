"""Labels, taints, tolerations and selectors: the only place where they are spelled.

Standard library only: the policy pack ships this module.

A *scheduling contract* is what every target (EKS, OKE, Talos) promises to a pod: GPU nodes carry one taint key, the labels
of `pool_labels`, and advertise one resource name; a pod with `GPU_TOLERATION` and a selector on `POOL_LABEL` lands there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

GPU_RESOURCE = "nvidia.com/gpu"
RUNTIME_CLASS = "nvidia"
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
"""The label that the device plugin's affinity matches without node feature discovery."""

PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""The label by which the device plugin's chart gives a node one of several configs."""
PLUGIN_CONFIG_CDI = "cdi"
"""The config of pools whose containers get their GPUs by the Container Device Interface."""

SHARED_SUFFIX = ".shared"
"""What the device plugin appends to the name of a resource whose units are shares, if it renames it."""
MIG_RESOURCE = "nvidia.com/mig-"
"""Prefix of a MIG profile's resource under strategy `mixed`."""
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""The label by which the operator's MIG manager cuts a node's GPUs."""
MPS_LABEL = "nvidia.com/mps.capable"
"""The label that the MPS control daemon's node selector asks for; feature discovery sets it where it runs, nobody else does."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Pod annotation: "false" keeps the autoscaler from removing the node under a running job."""

TASK = "gpu-ci/task-id"
"""Annotation of a GPU job and of its pods: the task as its owner names it. A label too, where that is a label's value."""

MACHINE_SHAPES = "gpu-ci/machine-shapes"
MACHINE_CAPACITY = "gpu-ci/machine-capacity"
MACHINE_DISK = "gpu-ci/machine-disk-gb"
MACHINE_REGIONS = "gpu-ci/machine-regions"
"""Pod annotations of a launcher that boots a machine for its job: `machine_annotations`."""

JOB_HASH = "gpu-ci/job-hash"
"""Annotation of a Job that `submit` sent: a hash of what was sent, by which it is known when it is sent again."""

REGION = "gpu-ci/region"
"""Annotation of a storage class: the region of its volumes, by which a bill knows their price."""

POOL_LABEL = "gpu-ci/pool"
ROLE_LABEL = "gpu-ci/role"
CAPACITY_LABEL = "gpu-ci/capacity"
CLUSTER_LABEL = "gpu-ci/cluster"
ACCELERATOR_LABEL = "accelerator"
"""Alias of seed 001's: the model of a node's GPUs, in Cluster Autoscaler's words. Pods choose by it where they know no pool."""
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
"""Label of every node: its machine, as the cloud spells it."""

SYSTEM_POOL = "system"
"""Name and role of the untainted CPU pool: controllers, listeners, CoreDNS."""


class Effect(StrEnum):
    """Taint effects in Kubernetes' spelling; `EKS_EFFECT` has the EKS API's."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


EKS_EFFECT = {Effect.NO_SCHEDULE: "NO_SCHEDULE", Effect.PREFER_NO_SCHEDULE: "PREFER_NO_SCHEDULE", Effect.NO_EXECUTE: "NO_EXECUTE"}
"""Kubernetes' effect to the EKS API's: node groups refuse the Kubernetes spelling, and the reverse."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint. `value` is what the provider really sets."""

    key: str
    value: str
    effect: Effect

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod toleration; `value` is empty exactly when `operator` is Exists. An empty effect tolerates every effect."""

    key: str
    operator: str = "Exists"
    value: str = ""
    effect: str = Effect.NO_SCHEDULE

    def covers(self, taint: Taint) -> bool:
        """Whether this toleration lets a pod onto a node with `taint` (Kubernetes' rules, key-less Exists included)."""
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        if self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in ("Equal", "") and self.value == taint.value)

    def manifest(self) -> dict[str, str]:
        """The toleration as a pod spec holds it."""
        fields = {"key": self.key, "operator": self.operator, "value": self.value, "effect": str(self.effect)}
        return {name: value for name, value in fields.items() if value}


@dataclass(frozen=True, slots=True)
class SchedulingProfile:
    """What one provider does to its GPU nodes.

    `gpu_taint` is the taint the nodes carry; `accelerator_label` is a label key that the provider's autoscaler reads to know a
    GPU node that is still booting (empty: none); `reserved_prefixes` are label domains that the provider or kubelet refuses;
    `idle_delay_per_pool` says whether its autoscaler can wait per pool before it removes a node; `from_zero` whether it can
    start the first node of an empty pool, `shares_from_zero` whether also where that pool's GPUs are shared; `spot_taint` is one
    that the provider puts on spot nodes besides.
    """

    gpu_taint: Taint
    accelerator_label: str
    reserved_prefixes: tuple[str, ...]
    idle_delay_per_pool: bool
    from_zero: bool
    shares_from_zero: bool
    spot_taint: Taint | None = None

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """What a pod needs to run on any GPU node of this provider."""
        return (GPU_TOLERATION,) if self.spot_taint is None else (GPU_TOLERATION, Toleration(self.spot_taint.key))

    def pod_tolerations(self, capacity: str) -> tuple[Toleration, ...]:
        """What a pod needs to run on the GPU nodes of a pool of this capacity type."""
        return self.tolerations if capacity == "spot" else (GPU_TOLERATION,)

    def reserves(self, key: str) -> bool:
        """Whether a user's label key is in a reserved domain or below one: kubelet exits on node-role.kubernetes.io/…, too."""
        domain, slash, _ = key.partition("/")
        return bool(slash) and f".{domain}/".endswith(tuple(f".{prefix}" for prefix in self.reserved_prefixes))


GPU_TAINT_KEY = "nvidia.com/gpu"

EKS_PROFILE = SchedulingProfile(
    gpu_taint=Taint(GPU_TAINT_KEY, "true", Effect.NO_SCHEDULE),
    # Cluster Autoscaler's GPU label on AWS; without it a booting GPU node counts as ready and is bought twice.
    accelerator_label="k8s.amazonaws.com/accelerator",
    reserved_prefixes=("eks.amazonaws.com/", "kubernetes.io/", "k8s.io/", "node.kubernetes.io/"),
    idle_delay_per_pool=True,
    from_zero=True,
    shares_from_zero=True,
)

OKE_PROFILE = SchedulingProfile(
    # OKE sets it by itself; the autoscaler's template of an empty pool has the same key without a value.
    gpu_taint=Taint(GPU_TAINT_KEY, "present", Effect.NO_SCHEDULE),
    # Its autoscaler looks for no label.
    accelerator_label="",
    reserved_prefixes=("oci.oraclecloud.com/", "oke.oraclecloud.com/", "kubernetes.io/", "k8s.io/", "node.kubernetes.io/"),
    idle_delay_per_pool=False,
    from_zero=True,
    # Its template of a node has the GPUs of the shape under the name of whole ones, and no tag changes that.
    shares_from_zero=False,
    spot_taint=Taint("oci.oraclecloud.com/oke-is-preemptible", "present", Effect.NO_SCHEDULE),
)

TALOS_PROFILE = SchedulingProfile(
    gpu_taint=Taint(GPU_TAINT_KEY, "true", Effect.NO_SCHEDULE),
    # No autoscaler: the machines are there.
    accelerator_label="",
    # Talos sets labels with kubelet's rights, which the API server's NodeRestriction bounds.
    reserved_prefixes=("node-role.kubernetes.io/", "node-restriction.kubernetes.io/", "kubernetes.io/", "k8s.io/"),
    idle_delay_per_pool=False,
    from_zero=False,
    shares_from_zero=False,
)

GPU_TOLERATION = Toleration(GPU_TAINT_KEY)
"""Exists, not Equal: EKS and Talos nodes carry `=true`, OKE sets `=present` itself."""

OKE_NO_PLUGIN_LABEL = "oci.oraclecloud.com/disable-gpu-device-plugin"
"""Node label: "true" keeps OKE's own device plugin off a node, add-on or not (oracle-quickstart/oci-hpc-oke, NVIDIA/aicr)."""


# -- priority ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Priority:
    """A priority class of pods: where nodes are full, a pod that `preempts` makes room by ending pods of a lower `value`."""

    name: str
    value: int
    preempts: bool
    meaning: str


RUNNER_PRIORITY = Priority(
    "gpu-ci-runner",
    # No class of ours may be above it: only a greater value preempts, and a job that is cut off starts again from nothing.
    1_000_000,
    preempts=False,
    meaning="Runners of GitHub jobs: they end no pod, and none but the system's ends them",
)

HIGH_PRIORITY = Priority("high-priority", 1_000_000, preempts=False, meaning="GPU Jobs that go first; they end no pod")
MEDIUM_PRIORITY = Priority("medium-priority", 100_000, preempts=False, meaning="GPU Jobs that take their turn; they end no pod")
JOB_PRIORITIES = (HIGH_PRIORITY, MEDIUM_PRIORITY)
"""Classes of Jobs, with seed 004's names and values. Where a Job may end another one, its queue says so, not its pods."""


# -- labels ------------------------------------------------------------------------------------------------------------


class Standing(StrEnum):
    """What this project does with a label or taint that people use."""

    OURS = "ours"
    ALIAS = "alias"
    REFUSED = "refused"
    PROVIDER = "provider"


@dataclass(frozen=True, slots=True)
class Term:
    """One label, taint or annotation of the field: where it comes from, what we do with it, and what to write instead."""

    kind: str
    text: str
    standing: Standing
    instead: str
    source: str

    @property
    def key(self) -> str:
        """The key of the label, taint or annotation."""
        return self.text.partition("=")[0]


VOCABULARY: tuple[Term, ...] = (
    Term("label", f"{POOL_LABEL}=<pool>", Standing.OURS, "", "gpu-ci"),
    Term("label", f"{ROLE_LABEL}=<role>", Standing.OURS, "", "gpu-ci"),
    Term("label", f"{CAPACITY_LABEL}=<capacity type>", Standing.OURS, "", "gpu-ci"),
    Term("label", f"{CLUSTER_LABEL}=<cluster>", Standing.OURS, "", "gpu-ci"),
    Term("label", "nvidia.com/gpu=true", Standing.OURS, "", "seed 000"),
    # The device plugin's required node affinity matches this one, not seed 000's.
    Term("label", f"{GPU_PRESENT_LABEL}=true", Standing.OURS, "", "nvidia-device-plugin 0.20.0"),
    Term("label", f"{PLUGIN_CONFIG_LABEL}=<config>", Standing.OURS, "", "nvidia-device-plugin 0.20.0"),
    Term("label", f"{MIG_CONFIG_LABEL}=<all-profile>", Standing.OURS, "", "NVIDIA/mig-parted"),
    Term("label", f"{MPS_LABEL}=true", Standing.OURS, "", "nvidia-device-plugin 0.20.0"),
    Term("label", "role=gpu", Standing.ALIAS, f"{POOL_LABEL}=<pool>", "seed 000"),
    Term("label", "accelerator=<accelerator>", Standing.ALIAS, f"{POOL_LABEL}=<pool>", "seed 001"),
    Term("label", "node-type=gpu-worker", Standing.ALIAS, f"{POOL_LABEL}=<pool>", "seed 004"),
    Term("label", "gpu=true", Standing.ALIAS, f"{POOL_LABEL}=<pool>", "seed 004"),
    Term("label", "k8s.amazonaws.com/accelerator=<accelerator>", Standing.OURS, "", "Cluster Autoscaler on AWS"),
    Term("label", "node.kubernetes.io/lifecycle=spot", Standing.REFUSED, f"{CAPACITY_LABEL}=spot", "seed 001"),
    Term("label", "node.kubernetes.io/instance-type=<type>", Standing.PROVIDER, "the pool's instanceTypes", "seed 001"),
    Term("label", "eks.amazonaws.com/capacityType=SPOT", Standing.PROVIDER, f"{CAPACITY_LABEL}=spot", "EKS"),
    Term("label", "karpenter.sh/capacity-type=spot", Standing.PROVIDER, f"{CAPACITY_LABEL}=spot", "Karpenter"),
    Term("label", f"{OKE_NO_PLUGIN_LABEL}=<true|false>", Standing.OURS, "", "oracle-quickstart/oci-hpc-oke"),
    Term("label", "oci.oraclecloud.com/oke-is-preemptible=true", Standing.PROVIDER, f"{CAPACITY_LABEL}=spot", "OKE"),
    Term("taint", "nvidia.com/gpu=true:NoSchedule", Standing.OURS, "", "seeds 000, 001, 004"),
    Term("taint", "nvidia.com/gpu=present:NoSchedule", Standing.PROVIDER, "", "OKE"),
    Term("taint", "oci.oraclecloud.com/oke-is-preemptible=present:NoSchedule", Standing.PROVIDER, "", "OKE"),
    Term("taint", "sku=gpu:NoSchedule", Standing.REFUSED, "nvidia.com/gpu=true:NoSchedule", "seed 003"),
    Term("taint", "spot=true:NoSchedule", Standing.REFUSED, f"a runner's pool, or {CAPACITY_LABEL}=spot", "seed 001"),
    Term("annotation", f"{SAFE_TO_EVICT}=false", Standing.OURS, "", "Cluster Autoscaler"),
    Term("annotation", f"{TASK}=<task id>", Standing.OURS, "", "gpu-ci"),
    Term("annotation", f"{JOB_HASH}=<hash>", Standing.OURS, "", "gpu-ci"),
    Term("annotation", f"{MACHINE_SHAPES}=<shape,…>", Standing.OURS, "", "gpu-ci"),
    Term("annotation", f"{MACHINE_CAPACITY}=<capacity type>", Standing.OURS, "", "gpu-ci"),
    Term("annotation", f"{MACHINE_DISK}=<GB>", Standing.OURS, "", "gpu-ci"),
    Term("annotation", f"{MACHINE_REGIONS}=<region,…>", Standing.OURS, "", "gpu-ci"),
    Term("annotation", f"{REGION}=<region>", Standing.OURS, "", "gpu-ci"),
)
"""Every label and taint that the seeds and the charts use, and every annotation that our pods carry, once each."""


def term(kind: str, key: str) -> Term | None:
    """The vocabulary's entry for a key of a kind (label, taint, annotation), or None for a key that nobody claims."""
    return next((entry for entry in VOCABULARY if entry.kind == kind and entry.key == key), None)


def pool_labels(
    *,
    cluster: str,
    pool: str,
    role: str,
    capacity: str,
    accelerator: str,
    profile: SchedulingProfile,
    resource: str = GPU_RESOURCE,
    plugin_config: str = "",
    mig_config: str = "",
    mps: bool = False,
) -> dict[str, str]:
    """Node labels of a GPU pool: ours, then the aliases that the seeds' manifests select on.

    `resource` is what its nodes advertise, `plugin_config` the device plugin's config and `mig_config` the MIG manager's, if not
    their defaults.
    """
    labels = {
        CLUSTER_LABEL: cluster,
        POOL_LABEL: pool,
        ROLE_LABEL: role,
        CAPACITY_LABEL: capacity,
        "nvidia.com/gpu": "true",
        GPU_PRESENT_LABEL: "true",
        "role": "gpu",
        "accelerator": accelerator,
        "node-type": "gpu-worker",
        "gpu": "true",
    }
    # The autoscaler takes a node with its label that never has a whole GPU to offer for one that never boots.
    if profile.accelerator_label and resource == GPU_RESOURCE:
        labels[profile.accelerator_label] = accelerator
    if plugin_config:
        labels[PLUGIN_CONFIG_LABEL] = plugin_config
    if mig_config:
        labels[MIG_CONFIG_LABEL] = mig_config
    if mps:
        labels[MPS_LABEL] = "true"
    return labels


def system_labels(cluster: str) -> dict[str, str]:
    """Node labels of the untainted system pool."""
    return {CLUSTER_LABEL: cluster, POOL_LABEL: SYSTEM_POOL, ROLE_LABEL: SYSTEM_POOL}


def pool_selector(pool: str) -> dict[str, str]:
    """The node selector that binds a pod to one pool."""
    return {POOL_LABEL: pool}


def machine_annotations(*, shapes: Iterable[str], capacity: str, disk_gb: int, regions: Iterable[str]) -> dict[str, str]:
    """What a launcher's pod says of the machine that it boots, in words that a bill is made of.

    Such machines are no resources, so nothing else tells a policy what `maxRunners` of them are and cost. Shapes and regions
    stand in the order in which they are tried; a machine is one of the shapes, with a boot volume of `disk_gb`. Standing machines
    are not said: they are an instance pool.
    """
    return {
        MACHINE_SHAPES: ",".join(shapes),
        MACHINE_CAPACITY: capacity,
        MACHINE_DISK: str(disk_gb),
        MACHINE_REGIONS: ",".join(dict.fromkeys(regions)),
    }


# -- queues ------------------------------------------------------------------------------------------------------------

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label of a Job: the LocalQueue of its namespace in which it waits."""
QUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""Label of a Job: its WorkloadPriorityClass, which orders a queue. Without it the priority class of its pods does."""
DEFAULT_QUEUE = "default"
"""Name of the LocalQueue that Kueue gives a Job which names none (kueue v0.19.2 pkg/controller/constants)."""
QUEUED_JOB_LABEL = "kueue.x-k8s.io/job-uid"
"""Label of a Workload: the uid of the Job that it stands for in its queue (the same)."""

POD_JOB_LABEL = "batch.kubernetes.io/controller-uid"
"""Label of a pod: the uid of its Job; the Job controller sets it, and the server makes the Job's selector of it."""

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""The label by which every namespace is known; the API server sets it."""

WAIT_FOR = "pulumi.com/waitFor"
"""Annotation by which Pulumi's Kubernetes provider waits for a condition of an object."""


def flavor_labels(labels: Mapping[str, str], profile: SchedulingProfile) -> dict[str, str]:
    """Of a pool's node labels those that tell it from other pools; what all pools have in common tells nothing.

    By them a queue knows which pool a Job's node selector means; it sees no other label, and it takes eight.
    """
    telling = (POOL_LABEL, ROLE_LABEL, CAPACITY_LABEL, "accelerator", profile.accelerator_label)
    return {key: labels[key] for key in telling if key in labels}


# -- workloads ---------------------------------------------------------------------------------------------------------

POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: the Pod Security Standard that the API server holds its pods to."""
SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation of an object: "true" keeps `pulumi up` from waiting until it is ready, or a Job until it ends."""
DELETION_PROPAGATION = "pulumi.com/deletionPropagationPolicy"
"""Annotation of an object: whether `pulumi up` deletes what is below it before it, after it, or not at all."""


def workload_labels(kind: str, name: str) -> dict[str, str]:
    """Labels of all objects of one GPU workload, by which its pods are told from others (Kubernetes' recommended labels)."""
    return {"app.kubernetes.io/name": kind, "app.kubernetes.io/instance": name}


# -- resources ---------------------------------------------------------------------------------------------------------

_GPU_RESOURCE = re.compile(
    r"(nvidia\.com/(gpu|mig-\d+g\.\d+gb(\.me|\.me\.all|\.gfx|-me)?)(\.shared)?|amd\.com/gpu|gpu\.intel\.com/\w+|aws\.amazon\.com/neuron(core|device)?)"
)


def is_gpu_resource(name: str) -> bool:
    """Whether an extended resource is a GPU or another accelerator (MIG slices and `.shared` included)."""
    return _GPU_RESOURCE.fullmatch(name) is not None


# -- autoscaler --------------------------------------------------------------------------------------------------------

TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
"""Prefix of the tags that describe a node before it exists."""
DISCOVERY_TAG = "k8s.io/cluster-autoscaler/enabled"
"""EKS puts it on the groups of its managed node groups, with value true."""
STORAGE_TAG = "cluster-autoscaler/node-ephemeral-storage"
"""Tag of an OKE node pool: by it the autoscaler knows the disk of a node that does not exist yet (kubernetes/autoscaler#9637)."""
MOST_NODES_TAG = "gpu-ci/max-nodes"
"""Tag of an OKE node pool that the autoscaler sizes: its most nodes. OKE has no such property, and a preview cannot know the
autoscaler's argument, which has the pool's OCID in it; so this is how a policy learns it."""
RESERVED_NODES_TAG = "gpu-ci/reserved-nodes"
"""Tag of a pool in a capacity reservation: the machines that its cloud holds and bills, used or not. The pool itself has no
more of the reservation than its id."""


def owner_tag(cluster: str) -> str:
    """The tag, with value owned, by which a group belongs to one cluster."""
    return f"k8s.io/cluster-autoscaler/{cluster}"


def autoscaler_tags(
    labels: Mapping[str, str], taints: tuple[Taint, ...], resources: Mapping[str, str], idle_delay: str
) -> dict[str, str]:
    """Auto Scaling group tags from which Cluster Autoscaler builds a node that does not exist yet.

    `resources` is what such a node offers to pods: without it the autoscaler reckons with the machine's whole CPU and memory,
    no ephemeral storage, and its own GPU table. The taint's value must read `value:Effect`; a bare effect is silently ignored
    (cloudprovider/aws, aws_manager.go). `idle_delay` is a Go duration ("10m0s"), the group's own scale-down delay.
    """
    tags = {f"{TEMPLATE}label/{key}": value for key, value in labels.items()}
    tags |= {f"{TEMPLATE}taint/{taint.key}": f"{taint.value}:{taint.effect}" for taint in taints}
    tags |= {f"{TEMPLATE}resources/{name}": quantity for name, quantity in resources.items()}
    tags[f"{TEMPLATE}autoscaling-options/scaledownunneededtime"] = idle_delay
    return tags
