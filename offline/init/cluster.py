"""Reads a cluster that exists already, through its Kubernetes API and by GET requests only.

Import this module late: `submit.kubeconfig` loads the Kubernetes client.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.facts import hardware
from fleet.facts.errors import InputError, quoted
from fleet.facts.hardware import ON_DEMAND, SPOT, Machine
from submit.cluster import Cluster
from submit.errors import SubmitError
from submit.objects import Kind, Object, at, name, part, parts, text

_NODES = Kind("v1", "nodes", namespaced=False)
_DEPLOYMENTS, _DAEMONSETS = (Kind("apps/v1", kind, namespaced=False) for kind in ("deployments", "daemonsets"))
_REGION, _ZONE, _TYPE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
_GROUPS = (
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "oke.oraclecloud.com/pool.name",
    "nvidia.com/gpu.product",
    _TYPE,
)
"""Labels of which the first that a node has selects its group. Cloud providers, Karpenter and NVIDIA's operator set them."""
_CLOUDS = {"aws": "eks", "ocid1": "oke", "oci": "oke"}
"""The provider by the first word of a node's providerID."""
_IMAGES = {
    "Amazon Linux": "al2023-nvidia",
    "Bottlerocket": "bottlerocket-nvidia",
    "Oracle Linux": "oke-gpu",
    "Talos": "talos",
    "Ubuntu": "ubuntu",
}
"""The kind of node image by a word of `osImage`."""
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes sets and removes by itself."""


@dataclass(frozen=True, slots=True)
class Group:
    """GPU nodes that are alike. `selector` is the label that selects them, `taints` have key, value and effect."""

    name: str
    machine: Machine
    count: int
    capacity: str
    image: str
    selector: tuple[str, str]
    taints: tuple[tuple[str, str, str], ...]
    region: str

    def lines(self) -> Iterator[str]:
        """The pool as YAML."""
        price = hardware.price(self.machine.name, self.region, ON_DEMAND)
        yield f"{self.name}:"
        yield f"  instanceTypes: [{self.machine.name}]"
        yield f"  capacity: {self.capacity}"
        yield f"  image: {self.image}"
        yield "  role: burst"
        yield f"  nodes: {{min: {self.count}, max: {self.count}}}"
        yield f"  selector: {{{self.selector[0]}: {json.dumps(self.selector[1])}}}"
        if self.taints:
            rows = (
                f"key: {key}" + f", value: {json.dumps(value)}" * bool(value) + f", effect: {how}"
                for key, value, how in self.taints
            )
            yield f"  taints: [{', '.join(f'{{{row}}}' for row in rows)}]"
        if price is not None:
            yield "  # The list price on demand. Write what you pay."
            yield f"  usdPerHour: {price.usd_per_hour}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a cluster shows. `provider` is eks, oke or empty; `cluster` its name in the cloud, if a node tells it.

    `controller` is the namespace and the service account of an ARC controller.
    """

    context: str
    provider: str
    cluster: str
    version: str
    region: str
    zones: tuple[str, ...]
    installed: tuple[str, ...]
    controller: tuple[str, str] | None
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """The context's name as that of a cluster in a stack file."""
        last = re.sub(r"[^a-z0-9]+", "-", self.context.rpartition("/")[2].rpartition("@")[2].lower()).strip("-")
        return (last if last[:1].isalpha() else f"k8s-{last}")[:20].strip("-")

    @property
    def enablement(self) -> str:
        """What advertises the GPUs: the GPU operator if the cluster has it, else the device plugin."""
        return "gpu-operator" if "gpu-operator" in self.installed else "device-plugin"


def read(context: str) -> Found:
    """The cluster of a kubeconfig context. Raises InputError if it cannot be read."""
    from submit.kubeconfig import connect  # noqa: PLC0415 - it loads the Kubernetes client

    try:
        cluster = connect(context=context)
        version = _version(cluster)
        nodes, workloads = cluster.list(_NODES, {})[0], {kind: cluster.list(kind, {})[0] for kind in (_DEPLOYMENTS, _DAEMONSETS)}
    except SubmitError as error:
        raise InputError(f"--from-context: {error}") from None
    installed, controller = _installed(workloads[_DEPLOYMENTS], workloads[_DAEMONSETS])
    labels = [_labels(node) for node in nodes]
    region = next((found for each in labels if (found := text(each, _REGION))), "")
    clouds = (re.split(r"[:.]", text(node, "spec", "providerID"))[0] for node in nodes)
    return Found(
        context=context,
        provider=next((_CLOUDS[cloud] for cloud in clouds if cloud in _CLOUDS), ""),
        cluster=next((found for each in labels if (found := text(each, "alpha.eksctl.io/cluster-name"))), ""),
        version=version,
        region=region,
        zones=tuple(sorted({text(each, _ZONE) for each in labels} - {""})),
        installed=installed,
        controller=controller,
        groups=tuple(_groups(nodes, region)),
    )


def _version(cluster: Cluster) -> str:
    """The minor of the API server, such as 1.36."""
    found = cluster.version()
    return f"{text(found, 'major')}.{re.sub('[^0-9].*', '', text(found, 'minor'))}"


def _labels(node: Object) -> Mapping[str, str]:
    return part(node, "metadata", "labels")


def _groups(nodes: list[Object], region: str) -> Iterator[Group]:
    """The GPU nodes by the label that selects them. Raises InputError for a machine that the hardware table lacks."""
    alike: dict[tuple[str, str], list[Object]] = defaultdict(list)
    for node in nodes:
        kind = text(_labels(node), _TYPE)
        known = {each.name: each for each in hardware.machines()}
        advertised = str(at(node, "status", "capacity", "nvidia.com/gpu") or "0") != "0"
        if not advertised and not (kind in known and known[kind].gpus):
            continue
        if kind not in known:
            raise InputError(
                f"--from-context: node {name(node)} has GPUs and instance type {quoted(kind)}, which "
                "fleet/facts/data/instances.csv does not have; add a row: docs/conventions.md#adding"
            )
        key = next(key for key in _GROUPS if text(_labels(node), key))
        alike[key, text(_labels(node), key)].append(node)
    taken: set[str] = set()
    for selector, held in alike.items():
        machine = hardware.machine(text(_labels(held[0]), _TYPE))
        base = re.sub(r"[^a-z0-9]+", "-", machine.gpu.name.lower()) if machine.gpu is not None else "gpu"
        called = next(each for number in range(len(alike)) if (each := f"{base}-{number + 1}" if number else base) not in taken)
        taken.add(called)
        taints = {
            (text(taint, "key"), text(taint, "value"), text(taint, "effect"))
            for node in held
            for taint in parts(node, "spec", "taints")
            if text(taint, "effect") in ("NoSchedule", "NoExecute") and not text(taint, "key").startswith(_PASSING)
        }
        system = text(held[0], "status", "nodeInfo", "osImage")
        image = next((kind for word, kind in _IMAGES.items() if word in system), "ubuntu")
        spot = "SPOT" in (
            text(_labels(held[0]), "eks.amazonaws.com/capacityType"),
            text(_labels(held[0]), "karpenter.sh/capacity-type").upper(),
        )
        yield Group(called, machine, len(held), SPOT if spot else ON_DEMAND, image, selector, tuple(sorted(taints)), region)


def _installed(deployments: list[Object], daemonsets: list[Object]) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """What the cluster has of the things in `existing.installed`, and its ARC controller."""
    found, controller = set(), None
    for each in deployments:
        labels = _labels(each)
        if "gha-rs-controller" in (text(labels, "app.kubernetes.io/part-of"), text(labels, "app.kubernetes.io/component")):
            account = text(each, "spec", "template", "spec", "serviceAccountName")
            controller = (text(each, "metadata", "namespace"), account)
            found.add("arc-controller")
        found |= {kind for kind in ("cluster-autoscaler", "gpu-operator", "metrics-server") if kind in name(each)}
    for each in daemonsets:
        found |= {kind for kind in ("device-plugin", "dcgm-exporter", "eks-node-monitoring-agent") if kind in name(each)}
    if "gpu-operator" in found:
        # The operator runs a device plugin and an exporter of its own.
        found -= {"device-plugin", "dcgm-exporter"}
    return tuple(sorted(found)), controller
