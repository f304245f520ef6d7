"""Labels, taints, tolerations and selectors. No other module spells them; `data/vocabulary.csv` lists them with their sources.

Standard library only, because the policy pack contains this module.

Every provider (EKS, OKE, Talos) keeps the *scheduling contract*: GPU nodes have one taint key and the labels of `pool_labels`,
and advertise one resource name. A pod with `GPU_TOLERATION` and a selector on `POOL_LABEL` runs on them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from fleet.facts.manifest import filled
from fleet.facts.record import Record
from fleet.facts.tables import entry, rows, toml

GPU_RESOURCE = "nvidia.com/gpu"
VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
"""The variable by which NVIDIA's container runtime gives GPUs to a container, also to one that requests none."""
NO_GPU = {"name": VISIBLE_DEVICES, "value": "void"}
"""Keeps the runtime from giving a container GPUs: CUDA's images ask for all."""
RUNTIME_CLASS = "nvidia"
GPU_PRESENT_LABEL = "nvidia.com/gpu.present"
"""The label that the device plugin's node affinity requires if node feature discovery does not run."""

HOST_LABEL = "kubernetes.io/hostname"
"""The label by which each node is a place of its own for pods that must not share a node."""

PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""The label that selects one of the device plugin's configs for a node."""
PLUGIN_CONFIG_CDI = "cdi"
"""The config of pools whose containers get their GPUs through the Container Device Interface."""

SHARED_SUFFIX = ".shared"
"""The suffix that the device plugin appends to the name of a shared resource, if it renames shared resources."""
MIG_RESOURCE = "nvidia.com/mig-"
"""Prefix of a MIG profile's resource under strategy `mixed`."""
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""The label with the MIG config that the GPU operator's MIG manager applies to a node's GPUs."""
MPS_LABEL = "nvidia.com/mps.capable"
"""The label that the MPS control daemon's node selector requires. Only GPU feature discovery sets it by itself."""

SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
"""Pod annotation: "false" keeps the autoscaler from removing the node under a running job."""

TASK = "gpu-ci/task-id"
"""Annotation of a GPU job and its pods: the owner's name of the task. A label too, if the name is a valid label value."""

PER_NODE = "gpu-ci/per-node"
"""Annotation of pods that wait or always run on GPU nodes: how many of them a node holds. Without it policies count one."""

MACHINE_SHAPES = "gpu-ci/machine-shapes"
MACHINE_CAPACITY = "gpu-ci/machine-capacity"
MACHINE_DISK = "gpu-ci/machine-disk-gb"
MACHINE_REGIONS = "gpu-ci/machine-regions"
"""Pod annotations of a launcher that boots a machine for a job; `machine_annotations` creates them."""

CONTAINER_JOBS = "container-jobs"
"""The ConfigMap of a runner set whose jobs run in containers. The hooks of its runners read there what pods they create."""
JOB_TEMPLATE, STEP_TEMPLATE = "job.json", "step.json"
"""Keys of that ConfigMap: the pod of a job, and the pod of a container action beside it, as JSON of a pod template."""

JOB_HASH = "gpu-ci/job-hash"
"""Annotation of a Job that `submit` sent: a hash of its contents, by which `submit` recognizes it when it is sent again."""

REGION = "gpu-ci/region"
"""Annotation of a storage class: the region of its volumes, which determines their price."""

POOL_LABEL = "gpu-ci/pool"
ROLE_LABEL = "gpu-ci/role"
CAPACITY_LABEL = "gpu-ci/capacity"
CLUSTER_LABEL = "gpu-ci/cluster"
FLAVOR_LABEL = "gpu-ci/flavor"
"""Label of the nodes of several pools that one ResourceFlavor of Kueue has."""
ACCELERATOR_LABEL = "accelerator"
"""Seed 001's label for the model of a node's GPUs, in Cluster Autoscaler's spelling. Pods without a pool select nodes by it."""
INSTANCE_TYPE_LABEL = "node.kubernetes.io/instance-type"
"""Label of every node: its machine type in the cloud's spelling."""

SCALE_SET_LABEL = "actions.github.com/scale-set-name"
"""ARC's label of listener and runner pods: the name of their runner set."""
EPHEMERAL_LABEL = "actions-ephemeral-runner"
"""ARC's label of every runner's pod, with the value True (0.14.2, resourcebuilder.go)."""
SCALE_SET_SPACE = "actions.github.com/scale-set-namespace"
"""ARC's label of listener pods: the namespace of their runner set."""
RUNNER_POD_LABEL = "runner-pod"
"""Label of a job's pod in ARC's kubernetes modes: its runner's pod (actions/runner-container-hooks)."""

FALLBACK = "fallback"
"""Role of a pool that runs jobs only while a spot pool before it has no capacity."""
SYSTEM_POOL = "system"
"""Name and role of the untainted CPU pool: controllers, listeners, CoreDNS."""


class Effect(StrEnum):
    """Taint effects in Kubernetes' spelling. `EKS_EFFECT` has the EKS API's spelling."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


EKS_EFFECT = {effect: effect.name for effect in Effect}
"""The EKS API's spelling of each effect. Node groups reject Kubernetes' spelling, and Kubernetes rejects the EKS API's."""


class Taint(Record):
    """A node taint. `value` is the value that the provider sets."""

    key: str
    value: str
    effect: Effect

    @classmethod
    def read(cls, text: str) -> "Taint":
        """A taint of the form key=value:Effect."""
        pair, _, effect = text.partition(":")
        key, _, value = pair.partition("=")
        return cls(key, value, Effect(effect))

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}"


class Toleration(Record):
    """A pod toleration. `value` is empty if and only if `operator` is Exists. An empty effect tolerates every effect."""

    key: str
    operator: str = "Exists"
    value: str = ""
    effect: str = Effect.NO_SCHEDULE

    def covers(self, taint: Taint) -> bool:
        """Whether a pod with this toleration may run on a node with `taint`. Exists without a key covers every key."""
        if self.effect and self.effect != taint.effect:
            return False
        if not self.key:
            return self.operator == "Exists"
        if self.key != taint.key:
            return False
        return self.operator == "Exists" or (self.operator in ("Equal", "") and self.value == taint.value)

    def manifest(self) -> dict[str, str]:
        """The toleration for a pod spec."""
        return filled({"key": self.key, "operator": self.operator, "value": self.value, "effect": str(self.effect)})


class SchedulingProfile(Record):
    """What one provider sets on its GPU nodes, and what its autoscaler can do.

    `gpu_taint`: the taint of the nodes. `accelerator_label`: the label key by which the provider's autoscaler recognizes a GPU
    node that is still booting; empty if it uses none. `reserved_prefixes`: label domains that the provider or kubelet rejects.
    `idle_delay_per_pool`: whether each pool can have its own delay before the autoscaler removes an idle node. `from_zero`:
    whether the autoscaler can start the first node of an empty pool. `shares_from_zero`: whether it can do so if the pool shares
    its GPUs. `spot_taint`: a second taint that the provider sets on spot nodes.
    """

    gpu_taint: Taint
    reserved_prefixes: tuple[str, ...]
    accelerator_label: str = ""
    idle_delay_per_pool: bool = False
    from_zero: bool = True
    shares_from_zero: bool = False
    spot_taint: Taint | None = None

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """The tolerations that a pod needs to run on any GPU node of this provider."""
        return (GPU_TOLERATION,) if self.spot_taint is None else (GPU_TOLERATION, Toleration(self.spot_taint.key))

    def pod_tolerations(self, capacity: str, *, gpus: bool = True) -> tuple[Toleration, ...]:
        """The tolerations that a pod needs to run on nodes of this capacity type, with GPUs or without."""
        first = GPU_TOLERATION if gpus else CPU_TOLERATION
        return (first, *self.tolerations[1:]) if capacity == "spot" else (first,)

    def taints(self, capacity: str, *, gpus: bool) -> tuple[Taint, ...]:
        """The taints of nodes of this capacity type, with GPUs or without."""
        first, spot = self.gpu_taint if gpus else CPU_TAINT, self.spot_taint if capacity == "spot" else None
        return (first,) if spot is None else (first, spot)

    def reserves(self, key: str) -> bool:
        """Whether a user's label key is in a reserved domain or its subdomain. Kubelet exits on node-role.kubernetes.io/… too."""
        domain, slash, _ = key.partition("/")
        return bool(slash) and f".{domain}/".endswith(tuple(f".{prefix}" for prefix in self.reserved_prefixes))


GPU_TAINT_KEY = "nvidia.com/gpu"


def _profile(provider: str) -> SchedulingProfile:
    row = toml("nodes.toml")["profiles"][provider]
    spot = Taint.read(row["spot-taint"]) if "spot-taint" in row else None
    return entry(SchedulingProfile, row, gpu_taint=Taint.read(row["gpu-taint"]), spot_taint=spot)


EKS_PROFILE = _profile("eks")
OKE_PROFILE = _profile("oke")
TALOS_PROFILE = _profile("talos")
KUBERNETES_PROFILE = _profile("kubernetes")

GPU_TOLERATION = Toleration(GPU_TAINT_KEY)
"""Exists instead of Equal, because the taint of EKS and Talos nodes has the value `true`, and OKE's has `present`."""

CPU_TAINT = Taint("gpu-ci/cpu", "true", Effect.NO_SCHEDULE)
"""Taint of the nodes of a pool without GPUs. It keeps off GPU jobs and the pods of the system pool."""
CPU_TOLERATION = Toleration(CPU_TAINT.key)
"""By it policies recognize a pod that is meant for pools without GPUs."""

# The prefixes are those of Cluster Autoscaler (cluster-autoscaler/utils/taints/taints.go@0af55ac5).
QUARANTINE_TAINT = Taint("status-taint.cluster-autoscaler.kubernetes.io/gpu-ci-quarantine", "", Effect.NO_SCHEDULE)
"""Taint of a sick GPU node; its value is the reason. The autoscaler counts the node as ready, but as no capacity."""


def has_generations(group: str) -> bool:
    """Whether EKS takes the name of a later generation of the node group with this logical name: 63 characters at most."""
    return len(group) + len("-3fa9c1-1a2b3c4") <= 63


GENERATION_ANNOTATION = "gpu-ci/generation"
"""The digits of the generation of the nodes on which a placeholder is to be."""
LEAVING = Taint("gpu-ci/leaving", "true", Effect.NO_SCHEDULE)
"""The nodes of an earlier generation of a pool have it: their jobs end there, and no other pod comes."""
STARTUP_GATE = Taint("startup-taint.cluster-autoscaler.kubernetes.io/gpu-ci-gpus", "pending", Effect.NO_SCHEDULE)
"""Taint of a new GPU node until it offers all its GPUs. The autoscaler counts the node as one that still starts."""
HEALTH_ANNOTATION = "gpu-ci/health"
"""Annotation of a GPU node that is or was sick: since when, and why."""

OKE_NO_PLUGIN_LABEL = "oci.oraclecloud.com/disable-gpu-device-plugin"
"""Node label: with "true", OKE's own device plugin does not run on the node (oracle-quickstart/oci-hpc-oke, NVIDIA/aicr)."""


# -- priority ----------------------------------------------------------------------------------------------------------


class Priority(Record):
    """A priority class of pods. If nodes are full, a pod that `preempts` ends pods with a lower `value`."""

    name: str
    value: int
    preempts: bool
    meaning: str


_RUNNERS = "Runners of GitHub jobs: they end no pod, and none but the system's ends them"
# None of our classes may be higher: only a higher value preempts, and a preempted GitHub job loses all its work.
RUNNER_PRIORITY = Priority("gpu-ci-runner", 1_000_000, preempts=False, meaning=_RUNNERS)

HIGH_PRIORITY = Priority("high-priority", 1_000_000, preempts=False, meaning="GPU Jobs that go first; they end no pod")
MEDIUM_PRIORITY = Priority("medium-priority", 100_000, preempts=False, meaning="GPU Jobs that take their turn; they end no pod")
JOB_PRIORITIES = (HIGH_PRIORITY, MEDIUM_PRIORITY)
"""Classes of Jobs, with seed 004's names and values. Queues, not pods, decide whether a Job may end another one."""

# The autoscaler starts no node for pods below -10 (Cluster Autoscaler, --expendable-pods-priority-cutoff).
PLACEHOLDER_PRIORITY = Priority("gpu-ci-placeholder", -5, preempts=False, meaning="Placeholders, which any runner may end")
# Below all classes of Jobs and workloads, so that it ends none of their pods. No class that preempts is above it.
PREEMPTING_PRIORITY = Priority("gpu-ci-runner-preempts", 50_000, preempts=True, meaning="Runners that may end placeholders")
PLACEHOLDER_PRIORITIES = (PLACEHOLDER_PRIORITY, PREEMPTING_PRIORITY)
"""Classes of clusters that have placeholders, and of the runners in pools with placeholders."""


# -- labels ------------------------------------------------------------------------------------------------------------


class Standing(StrEnum):
    """How this project treats a label or taint that people use."""

    OURS = "ours"
    ALIAS = "alias"
    REFUSED = "refused"
    PROVIDER = "provider"


class Term(Record):
    """One label, taint or annotation: its source, how this project treats it, and what to write instead."""

    kind: str
    text: str
    standing: Standing
    instead: str
    source: str

    @property
    def key(self) -> str:
        """The key of the label, taint or annotation."""
        return self.text.partition("=")[0]

    @property
    def refusal(self) -> str:
        """Why a stack file may not set this label, and what to do instead."""
        by = {"ours": "set by the program", "alias": "set by the program as an alias", "provider": "set by the provider"}
        why = by.get(self.standing, "refused")
        return f"label {self.key} is {why}; remove it" + (f" and use {self.instead}" if self.instead else "")


VOCABULARY = tuple(entry(Term, row, standing=Standing(row["standing"])) for row in rows("vocabulary.csv"))
"""Every label and taint that the seeds and the charts use, and every annotation of our pods (`data/vocabulary.csv`)."""


def term(kind: str, key: str) -> Term | None:
    """The entry for a key of a kind (label, taint, annotation). None if the vocabulary does not have it."""
    return next((row for row in VOCABULARY if row.kind == kind and row.key == key), None)


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
    flavor: str = "",
) -> dict[str, str]:
    """Node labels of a GPU pool: our own, then the aliases by which the seeds' manifests select nodes.

    `resource` is the resource that the nodes advertise. `plugin_config` and `mig_config` are the configs of the device plugin and
    of the MIG manager, if they are not the default. `flavor` is the queue flavor that the pool shares with others.
    """
    aliases: dict[str, str] = toml("nodes.toml")["aliases"]
    labels = own_labels(cluster, pool, role, capacity) | {**aliases, "accelerator": accelerator}
    # Without whole GPUs the label is wrong: the autoscaler would wait forever for the GPUs of that node.
    if profile.accelerator_label and resource == GPU_RESOURCE:
        labels[profile.accelerator_label] = accelerator
    configs = {PLUGIN_CONFIG_LABEL: plugin_config, MIG_CONFIG_LABEL: mig_config}
    return labels | filled(configs | {MPS_LABEL: "true" if mps else "", FLAVOR_LABEL: flavor})


def own_labels(cluster: str, pool: str, role: str, capacity: str) -> dict[str, str]:
    """The node labels of a pool that say nothing about GPUs."""
    return {CLUSTER_LABEL: cluster, POOL_LABEL: pool, ROLE_LABEL: role, CAPACITY_LABEL: capacity}


def system_labels(cluster: str) -> dict[str, str]:
    """Node labels of the untainted system pool."""
    return {CLUSTER_LABEL: cluster, POOL_LABEL: SYSTEM_POOL, ROLE_LABEL: SYSTEM_POOL}


def pool_selector(pool: str) -> dict[str, str]:
    """The node selector that binds a pod to one pool."""
    return {POOL_LABEL: pool}


SYSTEM_SELECTOR: Mapping[str, str] = MappingProxyType(pool_selector(SYSTEM_POOL))
"""The node selector of controllers and listeners, in a cluster with this project's system pool."""


def node_choice(selectors: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """Fields of a pod spec that bind the pod to the nodes with the labels of one of `selectors`, the first choice first.

    One selector becomes a node selector. Several become a required node affinity, which the autoscaler also follows, and
    preferences with falling weights. Only the scheduler reads preferences, to choose between nodes that exist (Cluster
    Autoscaler, FAQ).
    """
    if len(selectors) < 2:
        return {"nodeSelector": dict(selectors[0]) if selectors else {}}
    terms = [_affinity_term(selector) for selector in selectors]
    # From the highest weight that the Kubernetes API has (PreferredSchedulingTerm) down to 1.
    weights = (100 - 99 * index // (len(selectors) - 1) for index in range(len(selectors) - 1))
    preferred = [{"weight": weight, "preference": preference} for weight, preference in zip(weights, terms, strict=False)]
    if len({key for selector in selectors for key in selector}) == 1:
        terms = [_affinity_term(*selectors)]
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
        "preferredDuringSchedulingIgnoredDuringExecution": preferred,
    }
    return {"affinity": {"nodeAffinity": affinity}}


def _affinity_term(*selectors: Mapping[str, str]) -> dict[str, Any]:
    """A term of a node affinity: every label has one of its values in these selectors, which have the same keys."""
    values = {key: [selector[key] for selector in selectors] for key in selectors[0]}
    return {"matchExpressions": [{"key": key, "operator": "In", "values": listed} for key, listed in values.items()]}


def near_runners() -> dict[str, Any]:
    """The affinity of a pod that prefers the node with the most runners, of any class (docs/stranded.md).

    Each class has a namespace of its own, so the term selects all namespaces. In kube-scheduler's default profile
    InterPodAffinity has weight 2, and LeastAllocated weight 1.
    """
    runners = {"labelSelector": {"matchLabels": {EPHEMERAL_LABEL: "True"}}, "namespaceSelector": {}, "topologyKey": HOST_LABEL}
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": runners}]}}


def per_node_annotation(pods: int) -> dict[str, str]:
    """The annotation of pods that always run on GPU nodes, of which a node holds so many; empty for one."""
    return {PER_NODE: str(pods)} if pods > 1 else {}


def machine_annotations(*, shapes: Iterable[str], capacity: str, disk_gb: int, regions: Iterable[str]) -> dict[str, str]:
    """Annotations of a launcher's pod that describe the machine which it boots.

    The machines are not resources, so policies calculate the cost of `maxRunners` of them from these annotations. Shapes and
    regions have the order in which the launcher tries them. A machine has one of the shapes, and a boot volume of `disk_gb`.
    Machines of an instance pool are resources and need no annotation.
    """
    bought = {MACHINE_SHAPES: ",".join(shapes), MACHINE_CAPACITY: capacity, MACHINE_DISK: str(disk_gb)}
    return bought | {MACHINE_REGIONS: ",".join(dict.fromkeys(regions))}


# -- queues ------------------------------------------------------------------------------------------------------------

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label of a Job: the LocalQueue of its namespace in which it waits."""
QUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""Label of a Job: its WorkloadPriorityClass, which orders a queue. Without it the pods' priority class orders the queue."""
DEFAULT_QUEUE = "default"
"""Name of the LocalQueue that Kueue uses for a Job without a queue (kueue v0.19.2 pkg/controller/constants)."""
QUEUED_JOB_LABEL = "kueue.x-k8s.io/job-uid"
"""Label of a Workload: the uid of its Job (the same source)."""

POD_JOB_LABEL = "batch.kubernetes.io/controller-uid"
"""Label of a pod: the uid of its Job. The Job controller sets it, and the Job's selector uses it."""

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
"""Label of every namespace with its name. The API server sets it."""

WAIT_FOR = "pulumi.com/waitFor"
"""Annotation of an object: the condition that Pulumi's Kubernetes provider waits for."""


def flavor_labels(labels: Mapping[str, str], profile: SchedulingProfile) -> dict[str, str]:
    """The node labels of a pool by which it differs from other pools.

    Kueue compares a Job's node selector with these labels only. A flavor can have at most eight.
    """
    telling = (POOL_LABEL, FLAVOR_LABEL, ROLE_LABEL, CAPACITY_LABEL, "accelerator", profile.accelerator_label)
    return {key: labels[key] for key in telling if key in labels}


# -- workloads ---------------------------------------------------------------------------------------------------------

RUNNERS = "runners-"
"""How the namespaces of runner sets begin."""
POD_SECURITY_LABEL = "pod-security.kubernetes.io/enforce"
"""Label of a namespace: the Pod Security Standard that the API server enforces for its pods."""
SKIP_AWAIT = "pulumi.com/skipAwait"
"""Annotation of an object: with "true", `pulumi up` does not wait until it is ready, or until a Job has ended."""
DELETION_PROPAGATION = "pulumi.com/deletionPropagationPolicy"
"""Annotation of an object: whether `pulumi up` deletes its dependents before it, after it, or not at all."""


def workload_labels(kind: str, name: str) -> dict[str, str]:
    """Labels of all objects of one GPU workload, and only of these (Kubernetes' recommended labels)."""
    return {"app.kubernetes.io/name": kind, "app.kubernetes.io/instance": name}


# -- resources ---------------------------------------------------------------------------------------------------------

_GPU_RESOURCE = re.compile(
    r"(nvidia\.com/(gpu|mig-\d+g\.\d+gb(\.me|\.me\.all|\.gfx|-me)?)(\.shared)?|amd\.com/gpu|gpu\.intel\.com/\w+|aws\.amazon\.com/neuron(core|device)?)"
)
GPU_RESOURCES = _GPU_RESOURCE.pattern
"""The regular expression that matches the name of each of them as a whole."""


def is_gpu_resource(name: str) -> bool:
    """Whether an extended resource is a GPU or another accelerator (MIG slices and `.shared` included)."""
    return _GPU_RESOURCE.fullmatch(name) is not None


# -- autoscaler --------------------------------------------------------------------------------------------------------

TEMPLATE = "k8s.io/cluster-autoscaler/node-template/"
"""Prefix of the tags by which Cluster Autoscaler knows a group."""
DISCOVERY_TAG = "k8s.io/cluster-autoscaler/enabled"
"""EKS sets this tag on the Auto Scaling groups of managed node groups, with the value true."""
STORAGE_TAG = "cluster-autoscaler/node-ephemeral-storage"
"""Tag of an OKE node pool: the disk of a node that does not exist yet, for the autoscaler (kubernetes/autoscaler#9637)."""
MOST_NODES_TAG = "gpu-ci/max-nodes"
"""Tag of an OKE node pool that the autoscaler scales: its maximum size. Policies read it from here: OKE has no property for it,
and a preview does not know the autoscaler's argument, because that contains the pool's OCID."""
RESERVED_NODES_TAG = "gpu-ci/reserved-nodes"
"""Tag of a pool in a capacity reservation: the number of machines that the cloud reserves and bills, used or not. Of the
reservation, the pool itself has only the id."""
SCHEDULED_NODES_TAG = "gpu-ci/scheduled-nodes"
"""Tag of the node groups of an EKS pool: the windows of its schedules, with the nodes that the whole pool keeps
(`fleet.facts.bill.written`). Scheduled actions are those of one zone, and a preview does not know their group."""

BLOCK_TYPE_TAG = "gpu-ci/instance-type"
"""Tag of an EKS node group in a capacity block: its instance type. EKS demands the type in the launch template, where rules that
judge a node group alone cannot see it."""


def owner_tag(cluster: str) -> str:
    """The tag that assigns a group to one cluster; its value is owned."""
    return f"k8s.io/cluster-autoscaler/{cluster}"


IDLE_DELAY_TAG = f"{TEMPLATE}autoscaling-options/scaledownunneededtime"
"""Tag of an Auto Scaling group: its scale-down delay as a Go duration ("10m0s")."""


def resource_tags(resources: Mapping[str, str]) -> dict[str, str]:
    """Tags of an EKS node group with the resources that a node has for pods, also before the node exists.

    Without them Cluster Autoscaler assumes the machine's whole CPU and memory, no ephemeral storage, and the GPUs of its own
    table. It reads these tags, the labels and the taints of a managed node group from the EKS API. It takes the zone from the
    Auto Scaling group, for topology.kubernetes.io/zone and topology.ebs.csi.aws.com/zone (cloudprovider/aws/aws_manager.go,
    buildNodeFromTemplate, at 1.34.5, 1.35.2 and 1.36.1). So the Auto Scaling group itself needs no tag for any of them.
    """
    return {f"{TEMPLATE}resources/{name}": quantity for name, quantity in resources.items()}
