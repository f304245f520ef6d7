"""Kubernetes' objects, from manifests or from `kubectl get … -o json` and `-o yaml`: nodes, workloads, quotas, queues.

`manifests.toml` has the kinds. A rule reads the specs of objects itself, so all of an object counts as read.
"""

import re
from dataclasses import replace
from pathlib import PurePosixPath

from fleet.facts.errors import InputError
from fleet.facts.groups import grouped
from fleet.facts.hardware import ON_DEMAND
from fleet.facts.nested import at, part, parts, text_at
from fleet.facts.scheduling import INSTANCE_TYPE_LABEL, Taint
from fleet.facts.tables import beside
from fleet.facts.yaml_text import kubernetes_documents
from gpu_ci.audit.formats.karpenter import REGION_LABEL, ZONE_LABEL
from gpu_ci.audit.model import Keys, Pool, RunnerClass, Seen, container, taints, variables

_TABLE = beside(__file__, "manifests.toml")
_KINDS = {(group, kind) for group, kinds in _TABLE["kinds"].items() for kind in kinds}
_OWN, _PASSING = (re.compile(_TABLE["node"][name]) for name in ("own", "passing"))
HOOK_TEMPLATE = "ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE"
"""The variable of a runner with the path of the template for its jobs' pods (actions/runner-container-hooks)."""


def read(keys: Keys, seen: Seen) -> bool:
    """Keep an object whose kind an audit knows."""
    kind, version = keys.text("kind"), keys.text("apiVersion")
    if not version or (version.rpartition("/")[0], kind) not in _KINDS:
        return False
    seen.add(kind, keys)
    keys.whole()
    return True


def finish(seen: Seen) -> None:
    """Make pools of the nodes, and give each runner class the template of its jobs' pods."""
    _nodes(seen)
    entries = ((keys.text("metadata", "name"), keys.mapping("data")) for keys in seen.of_kind("ConfigMap"))
    maps = {(name, key): str(text) for name, data in entries for key, text in data.items()}
    seen.classes[:] = [_with_job(one, maps) for one in seen.classes]


def _nodes(seen: Seen) -> None:
    """Nodes with equal type, labels and taints are one pool. Nodes of a pool that a file declares are counted there."""
    made = grouped((_alike(node), node) for node in seen.of_kind("Node"))
    declared = {pool.name: number for number, pool in enumerate(seen.pools)}
    for (machine, labels, tainted), nodes in made.items():
        held, first = dict(labels), nodes[0]
        if (name := next((held[label] for label in _TABLE["node"]["pool"] if label in held), "")) in declared:
            pool = seen.pools[declared[name]]
            seen.pools[declared[name]] = replace(pool, nodes=pool.nodes + len(nodes))
            continue
        zones = {node.text("metadata", "labels", ZONE_LABEL) for node in nodes} - {""}
        capacity = [held[label].lower().replace("_", "-") for label in _TABLE["node"]["capacity"] if label in held]
        seen.pools.append(
            Pool(
                at=first.get("metadata", "name"),
                name=name or first.text("metadata", "name"),
                scaler="none",
                types=(machine,) if machine else (),
                labels=held,
                taints=tainted,
                allocatable=first.mapping("status", "allocatable"),
                minimum=len(nodes),
                maximum=len(nodes),
                nodes=len(nodes),
                zones=tuple(sorted(zones)),
                region=first.text("metadata", "labels", REGION_LABEL),
                kubernetes=first.text("status", "nodeInfo", "kubeletVersion"),
                driver=held.get(_TABLE["node"]["driver"], ""),
                capacities=(*capacity, ON_DEMAND)[:1],
            )
        )


def _alike(node: Keys) -> tuple[str, tuple[tuple[str, str], ...], tuple[Taint, ...]]:
    labels = {key: str(value) for key, value in node.mapping("metadata", "labels").items()}
    kept = tuple(sorted((key, value) for key, value in labels.items() if not _OWN.match(key)))
    lasting = tuple(taint for taint in taints(node.items("spec", "taints")) if not _PASSING.match(taint.key))
    return labels.get(INSTANCE_TYPE_LABEL, ""), kept, lasting


def _with_job(one: RunnerClass, maps: dict[tuple[str, str], str]) -> RunnerClass:
    """The class with the pod that its hooks make for a job, if a ConfigMap of the folder has it."""
    if not (hook := variables(one.pod).get(HOOK_TEMPLATE, "")) or one.job is not None:
        return one
    path = PurePosixPath(hook)
    for mount in parts(container(one.pod), "volumeMounts"):
        under = PurePosixPath(text_at(mount, "mountPath") or "/")
        volume = next((entry for entry in parts(one.pod, "volumes") if entry.get("name") == mount.get("name")), {})
        if not path.is_relative_to(under) or "configMap" not in volume:
            continue
        file = str(path.relative_to(under)) if path != under else text_at(mount, "subPath")
        keys = {text_at(entry, "path"): text_at(entry, "key") for entry in parts(volume, "configMap", "items")}
        text = maps.get((text_at(volume, "configMap", "name"), keys.get(file, file)), "")
        try:
            values = [document.value for document in kubernetes_documents(hook, text)]
        except InputError:
            values = []
        job = next((part(value, "spec") for value in values if isinstance(at(value, "spec"), dict)), None)
        return replace(one, hook_template=hook, job=job)
    return replace(one, hook_template=hook)
