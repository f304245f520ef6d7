"""Karpenter: NodePool (v1) and the node classes of AWS, of EKS Auto Mode and of OCI.

A pool's machine is a set of types: all that meet its requirements, the cheapest first, as Karpenter buys them. Sources: the CRDs
of karpenter-provider-aws 1.14.1 and karpenter-provider-oci of 2026-04-21. `karpenter.toml` has the keys of the node classes.
"""

import re
from collections.abc import Iterable, Iterator
from os.path import commonpath
from typing import Any

from fleet.facts.hardware import ON_DEMAND, RESERVED, SPOT, find, machine
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import GPU_RESOURCE, INSTANCE_TYPE_LABEL
from fleet.facts.tables import beside
from gpu_ci.audit.formats.types import bare, cheapest, meeting, meets, node_labels, region_of
from gpu_ci.audit.model import Keys, Pool, Seen, taints

ZONE_LABEL, REGION_LABEL = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
POOL_LABEL, CAPACITY_LABEL = "karpenter.sh/nodepool", "karpenter.sh/capacity-type"
_TABLE = beside(__file__, "karpenter.toml")
_CLASSES: dict[str, dict[str, Any]] = {row["kind"]: row for row in _TABLE["class"]}
_ORDER = (RESERVED, SPOT, ON_DEMAND)
"""Karpenter buys in this order what the requirements allow (docs, NodePools, "Capacity Type")."""
_KNOWN = frozenset(key for name in ("g4dn.metal", "BM.GPU.H100.8") for key in node_labels(machine(name)))
_ROOT_GIB = 20
"""The root volume of a class without `blockDeviceMappings` (karpenter-provider-aws pkg/providers/amifamily/resolver.go)."""
_GPU_FAMILY = re.compile(r"(?:g|p)\d|(?:VM|BM)\.GPU")
_Requirement = tuple[str, str, tuple[str, ...]]


def read(keys: Keys, seen: Seen) -> bool:
    """Read a NodePool or a node class; `finish` joins them."""
    kind, group = keys.text("kind"), keys.text("apiVersion").partition("/")[0]
    if group != ("karpenter.sh" if kind == "NodePool" else _CLASSES.get(kind, {}).get("group")):
        return False
    seen.add(kind, keys)
    keys.pass_over("metadata", "status", *_TABLE["skip"])
    return True


def finish(seen: Seen) -> None:
    """Make a pool of each NodePool and its node class."""
    classes = list(seen.of_kind(*_CLASSES))
    for keys in seen.of_kind("NodePool"):
        ref = keys.get("spec", "template", "spec", "nodeClassRef")
        kind, name = ref.text("kind") or "EC2NodeClass", ref.text("name")
        same = [one for one in classes if one.text("kind") == kind and one.text("metadata", "name") == name]
        row = _CLASSES.get(kind, {"cloud": ""})
        # Folders of several clusters may have a class of the same name: the nearest file has the pool's.
        near = max(same, key=lambda one: len(commonpath((one.file.path, keys.file.path))), default=None)
        seen.pools.append(_pool(keys, row["cloud"], _class(near.get("spec"), row) if near else {}))


def _pool(keys: Keys, cloud: str, of_class: dict[str, Any]) -> Pool:
    spec, node, name = keys.get("spec"), keys.get("spec", "template", "spec"), keys.text("metadata", "name")
    asked = list(_requirements(node.items("requirements")))
    values_of = {key: values for key, operator, values in asked if operator == "In"}
    zones = values_of.get(ZONE_LABEL, ())
    region = values_of.get(REGION_LABEL, (region_of(*zones),))[0]
    capacities = [
        one for one in _ORDER if all(meets({CAPACITY_LABEL: one}, *rule) for rule in asked if rule[0] == CAPACITY_LABEL)
    ]
    if RESERVED in capacities[:-1] and not of_class.get("reservations"):
        capacities.remove(RESERVED)
    named = {value for key in (INSTANCE_TYPE_LABEL, "instance-shape", "instance-shape-name") for value in values_of.get(key, ())}
    found = meeting(cloud, asked)
    # The table has not every type: those that the file names stay, and no other type without GPU is in it by intent.
    kept = [type_ for type_ in found if type_ in named or machine(type_).gpus]
    types = cheapest([*kept, *sorted(type_ for type_ in named if find(type_) is None)], region, next(iter(capacities), ON_DEMAND))
    gpu_types = [machine(type_) for type_ in kept if machine(type_).gpus]
    families = [value for key, values in values_of.items() if key.startswith("instance-") for value in values]
    replicas, limits = spec.count("replicas"), spec.get("limits")
    gpus, cpus, nodes = (quantity(limits.whole(what)) for what in (GPU_RESOURCE, "cpu", "nodes"))
    most = [] if gpus is None else [int(gpus)]
    if cpus is not None and gpu_types:
        most.append(max(int(cpus // one.vcpus) * one.gpus for one in gpu_types))
    own = {key: values_of.get(key, ()) for key, operator, _ in asked if _own(key) and operator in ("In", "Exists")}
    labels = {key: str(value) for key, value in spec.mapping("template", "metadata", "labels").items()}
    return Pool(
        at=keys.get("metadata", "name"),
        name=name,
        scaler="karpenter",
        types=types,
        open_types=not named and len(kept) < max(len(found), 1),
        gpus_possible=bool(gpu_types) or any(map(_GPU_FAMILY.match, (*families, *named))),
        labels=labels | {key: values[0] for key, values in own.items() if len(values) == 1} | {POOL_LABEL: name},
        choices={key: values for key, values in own.items() if len(values) != 1},
        taints=taints(node.items("taints")),
        startup_taints=taints(node.items("startupTaints")),
        minimum=replicas or 0,
        maximum=replicas if replicas is not None else int(nodes) if nodes is not None else None,
        most_gpus=min(most, default=None),
        capacities=tuple(capacities),
        weight=spec.count("weight") or 0,
        region=region,
        zones=zones,
        consolidates=spec.text("disruption", "consolidationPolicy") != "WhenEmpty",
        disruption=spec.mapping("disruption"),
        expires=node.text("expireAfter"),
        **of_class,
    )


def _own(key: str) -> bool:
    """Whether a requirement is on a label that the fleet's people made, so that its nodes get the label."""
    return bare(key) not in _KNOWN and not key.startswith(("topology.", "karpenter.")) and "kubernetes.io/" not in key


def _requirements(entries: Iterable[Keys]) -> Iterator[_Requirement]:
    for entry in entries:
        key = str(entry.get("key").value)
        if bare(key) in _KNOWN or key in (ZONE_LABEL, REGION_LABEL, CAPACITY_LABEL) or _own(key):
            entry.skip("minValues")
            yield bare(entry.text("key")), entry.text("operator"), entry.texts("values")


def _class(spec: Keys, row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a pool that its node class says."""
    spec.pass_over(*row["skip"])
    images, of_kubelet = [found.text() for path in row["images"] for found in spec.each(path)], row["kubelet"]
    image = next(filter(None, images), "")
    found: dict[str, Any] = {
        "image": image,
        "kubelet": spec.mapping(of_kubelet),
        "reservations": tuple(filter(None, (one.text() for one in spec.each(row["reservations"])))),
        "topology": spec.text(of_kubelet, "topologyManagerPolicy"),
        "instance_store": spec.text("instanceStorePolicy") == "RAID0",
    }
    if "disk" in row:
        return found | {"disk": _gib(spec.each(row["disk"])[0].whole())}
    volumes = spec.items("blockDeviceMappings")
    # The order of `ephemeralStorage` in karpenter-provider-aws pkg/providers/instancetype/types.go.
    device = "/dev/xvdb" if image.lower().startswith("bottlerocket") else "/dev/xvda"
    of_pods = sorted(volumes, key=lambda one: (one.flag("rootVolume") or False, one.text("deviceName") == device))
    return found | {"disk": _gib(of_pods[-1].whole("ebs", "volumeSize")) if of_pods else _ROOT_GIB}


def _gib(size: object) -> int:
    """A size with or without a unit; one without is in GiB already."""
    number = quantity(size) or 0
    return int(number if number < 2**20 else number / 2**30)
