"""DaemonSets that do not reach the nodes for which they are, and those that take all jobs of a node with them."""

import re
from collections.abc import Iterator
from datetime import date

from fleet.facts.hardware import find
from fleet.facts.nested import at, items, parts, text_at
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import INSTANCE_TYPE_LABEL, Toleration
from fleet.prove.pod import Pod as Spec
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.homes import pools_near
from gpu_ci.audit.keys import Keys
from gpu_ci.audit.model import Pool, Seen
from gpu_ci.audit.rules.pools import has_gpus, most_gpus, refused, workloads

_FOR_DEVICES = re.compile(r"(?:nvidia|gpu|efa).*(?:driver|plugin|installer)|dcgm-exporter", re.IGNORECASE)
"""Names and images of DaemonSets without which a node offers no GPU or no EFA."""
_GIVEN = (
    "kubernetes.io/",
    "k8s.io/",
    "k8s.aws/",
    "karpenter.",
    "amazonaws.com/",
    "oraclecloud.com/",
    "feature.node",
    "nvidia.com/gpu.",
)
"""Parts of keys of labels that kubelet, a cloud or feature discovery sets."""
_POD = ("spec", "template", "spec")
_TERMS = (*_POD, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def daemons(seen: Seen, _: date) -> Iterator[Finding]:
    """Each DaemonSet against the pools with GPUs."""
    for keys, spec in workloads(seen, "DaemonSet"):
        pools = [pool for pool in pools_near(keys.file.path, seen.pools, seen) if has_gpus(pool)]
        if any(_FOR_DEVICES.search(str(name)) for name in (spec.name, *(one.get("image") for one in spec.containers))):
            yield from _taints(keys, spec, pools)
            yield from _labels(keys, spec, pools)
        yield from _types(keys, spec, pools)
        yield from _limit(keys, spec, [pool for pool in pools if not refused(spec, pool)])


def _taints(keys: Keys, spec: Spec, pools: list[Pool]) -> Iterator[Finding]:
    for pool in pools:
        if {one.filter for one in refused(spec, pool)} == {"TaintToleration"}:
            open_ = [taint for taint in pool.taints if not any(one.covers(taint) for one in spec.tolerations)]
            place = (*_POD, "tolerations", len(spec.each("tolerations")))
            edit = Edit(keys, place, Toleration(open_[0].key, effect=open_[0].effect).manifest())
            taints = ", ".join(map(str, open_))
            yield said("daemonset.untolerated", keys.get("metadata", "name"), spec.name, (edit,), pool=pool.name, taints=taints)


def _labels(keys: Keys, spec: Spec, pools: list[Pool]) -> Iterator[Finding]:
    """Labels that it asks of its nodes and that no pool has."""
    asked = set(spec.selector)
    if len(spec.terms) == 1:
        asked |= {
            text_at(one, "key") for one in parts(spec.terms[0], "matchExpressions") if one.get("operator") in ("In", "Exists")
        }
    unset = [key for key in sorted(asked) if not any(part in key for part in _GIVEN)]
    missing = [key for key in unset if not any(key in pool.labels or key in pool.choices for pool in pools)]
    if pools and missing:
        yield said("daemonset.unlabelled", keys.get("metadata", "name"), spec.name, labels=", ".join(missing))


def _types(keys: Keys, spec: Spec, pools: list[Pool]) -> Iterator[Finding]:
    """A list of machine types that lacks one of the pools."""
    for index, one in enumerate(parts(spec.terms[0], "matchExpressions") if len(spec.terms) == 1 else ()):
        if (one.get("key"), one.get("operator")) != (INSTANCE_TYPE_LABEL, "In"):
            continue
        listed, efa = [*map(str, items(one, "values"))], "efa" in spec.name
        machines = [machine for pool in pools for machine in map(find, pool.types) if machine]
        lacking = sorted(
            {machine.name for machine in machines if machine.efa_interfaces or (machine.gpus and not efa)} - {*listed}
        )
        # A plugin of one kind of machines is not for the others.
        if lacking and any(machine.name in listed for machine in machines):
            place = (*_TERMS, 0, "matchExpressions", index, "values")
            edits = [Edit(keys, (*place, len(listed) + more), name) for more, name in enumerate(lacking)]
            yield said("daemonset.unlisted", keys.get("metadata", "name"), spec.name, edits, types=", ".join(lacking))


def _limit(keys: Keys, spec: Spec, pools: list[Pool]) -> Iterator[Finding]:
    """A memory limit of what all jobs of a node depend on: a mount that it serves, or a startup taint that it takes away."""
    sizes = [most_gpus(pool) for pool in pools]
    awaited = [taint.key for pool in pools for taint in pool.startup_taints if spec.name in taint.key]
    for one in spec.containers:
        limit, request = (at(one, "resources", kind, "memory") for kind in ("limits", "requests"))
        serves = any(mount.get("mountPropagation") == "Bidirectional" for mount in parts(one, "volumeMounts"))
        if limit is None or "csi" in f"{spec.name} {one.get('name')}" or not sizes:
            continue
        place, facts = keys.get("metadata", "name"), {"limit": limit, "most": max(sizes), "least": min(sizes)}
        if serves and min(sizes) < max(sizes):
            yield said("daemonset.limit", place, spec.name, **facts)
        elif awaited and (quantity(request) or 0) >= (quantity(limit) or 0):
            yield said("daemonset.headroom", place, spec.name, taint=awaited[0], **facts)
