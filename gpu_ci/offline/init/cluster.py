"""Reads a cluster that exists already, through its Kubernetes API and by GET requests only.

Import this module late: it loads the Kubernetes client.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from fleet.facts import hardware
from fleet.facts.errors import InputError, quoted
from fleet.facts.hardware import ON_DEMAND, SPOT
from fleet.facts.nested import at, part, parts
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.tables import beside
from fleet.providers.registry import PROVIDERS
from gpu_ci.offline.init.parts import Found, Group
from gpu_ci.submit.errors import SubmitError
from gpu_ci.submit.kubeconfig import connect
from gpu_ci.submit.objects import Kind, Object, name, text

_KINDS = (Kind("v1", "nodes", False), Kind("apps/v1", "deployments", False), Kind("apps/v1", "daemonsets", False))
"""What is read, in all namespaces."""
_REGION, _ZONE, _TYPE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"
_NODES = beside(__file__, "nodes.toml")
_GROUPS: list[str] = _NODES["groups"]
"""Labels of node groups. The first one that a node has selects its pool, together with the instance type."""
_CLOUDS = {word: name for name, row in PROVIDERS.items() if row.starter is not None for word in row.starter.node_ids}
"""The provider by the first word of a node's providerID."""
_IMAGES: dict[str, str] = _NODES["images"]
"""The kind of node image by a word of `osImage`."""


def read(context: str) -> Found:
    """The cluster of a kubeconfig context. Raises InputError if it cannot be read."""
    try:
        api = connect(context=context)
        server = api.version()
        nodes, deployments, daemonsets = (api.list(kind, {}) for kind in _KINDS)
    except SubmitError as error:
        raise InputError(f"--from-context: {error}") from None
    installed, controller = _installed(deployments, daemonsets)
    labels = [_labels(node) for node in nodes]
    region = next((found for each in labels if (found := text(each, _REGION))), "")
    groups = tuple(_groups(nodes, region, "gpu-operator" in installed))
    if any("Bottlerocket" in group.system for group in groups):
        # Its images run a device plugin of their own.
        installed = tuple(sorted({*installed, "device-plugin"}))
    clouds = (re.split(r"[:.]", text(node, "spec", "providerID"))[0] for node in nodes)
    provider = next((_CLOUDS[cloud] for cloud in clouds if cloud in _CLOUDS), "")
    cluster = next((found for each in labels if (found := text(each, "alpha.eksctl.io/cluster-name"))), "")
    version = f"{text(server, 'major')}.{text(server, 'minor').rstrip('+')}"
    zones = tuple(sorted({text(each, _ZONE) for each in labels} - {""}))
    return Found(context, provider, cluster, version, region, zones, installed, controller, groups)


def _labels(node: Object) -> Mapping[str, str]:
    return part(node, "metadata", "labels")


def _groups(nodes: list[Object], region: str, operator: bool) -> Iterator[Group]:
    """The GPU nodes by the label that selects them. Raises InputError for a machine that the hardware table lacks.

    Without the GPU operator the nodes of an image without driver must have one that somebody installed. No kind of image says
    that, so these nodes get the kind that has a driver, a container toolkit and no device plugin.
    """
    alike: dict[tuple[tuple[str, str], ...], list[Object]] = defaultdict(list)
    machine_types = {machine_type.name: machine_type for machine_type in hardware.machines()}
    for node in nodes:
        kind = text(_labels(node), _TYPE)
        advertised = str(at(node, "status", "capacity", "nvidia.com/gpu") or "0") != "0"
        if not advertised and not (kind in machine_types and machine_types[kind].gpus):
            continue
        if kind not in machine_types:
            why = f"node {name(node)} has GPUs and instance type {quoted(kind)}"
            fix = "describe it below machines in a stack file (docs/talos.md#your-machines)"
            raise InputError(f"--from-context: {why}, which fleet/facts/data/instances.csv does not have; {fix}")
        group = [(key, value) for key in _GROUPS if (value := text(_labels(node), key))]
        alike[*group[:1], (_TYPE, kind)].append(node)
    repeats: Counter[str] = Counter()
    for selector, nodes_alike in alike.items():
        machine = hardware.machine(text(_labels(nodes_alike[0]), _TYPE))
        base = re.sub(r"[^a-z0-9]+", "-", machine.gpu.name.lower()) if machine.gpu is not None else "gpu"
        repeats[base] += 1
        # Kubernetes sets and removes some taints by itself.
        passing = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
        every = (taint for node in nodes_alike for taint in parts(node, "spec", "taints"))
        texts = {(text(taint, "key"), text(taint, "value"), text(taint, "effect")) for taint in every}
        taints = {taint for taint in texts if taint[2] in ("NoSchedule", "NoExecute") and not taint[0].startswith(passing)}
        system = text(nodes_alike[0], "status", "nodeInfo", "osImage")
        image = next((kind for word, kind in _IMAGES.items() if word in system), "ubuntu")
        closest = not operator and (NODE_IMAGES[image].advertises or not NODE_IMAGES[image].driver)
        labels = _labels(nodes_alike[0])
        sold = {text(labels, "eks.amazonaws.com/capacityType"), text(labels, "karpenter.sh/capacity-type")}
        label = base if repeats[base] == 1 else f"{base}-{repeats[base]}"
        capacity = SPOT if sold & {"SPOT", "spot"} else ON_DEMAND
        image, system = ("al2023-nvidia", system) if closest else (image, "")
        yield Group(label, machine, len(nodes_alike), capacity, image, selector, tuple(sorted(taints)), region, system)


def _installed(deployments: list[Object], daemonsets: list[Object]) -> tuple[tuple[str, ...], tuple[str, str] | None]:
    """What the cluster has of the things in `existing.installed`, and its ARC controller."""
    installed, controller = set(), None
    for deployment in deployments:
        labels = _labels(deployment)
        if "gha-rs-controller" in (text(labels, "app.kubernetes.io/part-of"), text(labels, "app.kubernetes.io/component")):
            account = text(deployment, "spec", "template", "spec", "serviceAccountName")
            controller = (text(deployment, "metadata", "namespace"), account)
            installed.add("arc-controller")
        installed |= {kind for kind in ("cluster-autoscaler", "gpu-operator", "metrics-server") if kind in name(deployment)}
    for daemonset in daemonsets:
        installed |= {kind for kind in ("device-plugin", "dcgm-exporter", "eks-node-monitoring-agent") if kind in name(daemonset)}
    if "gpu-operator" in installed:
        # The operator runs a device plugin and an exporter of its own.
        installed -= {"device-plugin", "dcgm-exporter"}
    return tuple(sorted(installed)), controller
