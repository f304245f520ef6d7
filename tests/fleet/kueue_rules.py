"""What Kueue refuses though the schemas of its CRDs take it: their CEL rules and its webhooks, written again.

kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2/*_types.go and pkg/webhooks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

_SUFFIX: dict[str, int | Fraction] = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 1000,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_QUANTITY = re.compile(r"([0-9]+)(m|k|Ki|Mi|Gi|Ti)?")


def quantity(written: str | int) -> Fraction:
    """A quantity as Kubernetes reads it. Raises ValueError for what ours never are."""
    match = _QUANTITY.fullmatch(str(written))
    if match is None:
        raise ValueError(f"no quantity: {written!r}")
    return Fraction(match[1]) * _SUFFIX[match[2] or ""]


def refused(manifest: Mapping[str, Any]) -> list[str]:
    """Why Kueue would not take an object; nothing where it would."""
    return list(_RULES.get(manifest["kind"], _no_rules)(manifest))


def dangling(manifests: Sequence[Mapping[str, Any]]) -> list[str]:
    """References to objects that are not among these, or that come later: each must exist when another names it."""
    standing: set[tuple[str, str]] = set()
    found = []
    for each in manifests:
        found += [f"{each['metadata']['name']} → {' '.join(wanted)}" for wanted in _named(each) if wanted not in standing]
        standing.add((each["kind"], each["metadata"]["name"]))
    return found


def _named(manifest: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if manifest["kind"] == "LocalQueue":
        yield "ClusterQueue", manifest["spec"]["clusterQueue"]
    if manifest["kind"] == "ClusterQueue":
        for group in manifest["spec"]["resourceGroups"]:
            yield from (("ResourceFlavor", flavor["name"]) for flavor in group["flavors"])


def _no_rules(_: Mapping[str, Any]) -> Iterator[str]:
    yield from ()


def _cluster_queue(manifest: Mapping[str, Any]) -> Iterator[str]:
    spec = manifest["spec"]
    groups = spec.get("resourceGroups", [])
    yield from _twice("resource in two places", [name for group in groups for name in group["coveredResources"]])
    yield from _twice("flavor in two places", [flavor["name"] for group in groups for flavor in group["flavors"]])
    for group in groups:
        for flavor in group["flavors"]:
            if [quota["name"] for quota in flavor["resources"]] != list(group["coveredResources"]):
                yield f"{flavor['name']}: its resources are not the covered ones in their order"
            for quota in flavor["resources"]:
                yield from _quota(f"{flavor['name']}/{quota['name']}", quota, bool(spec.get("cohortName")))
    preemption = spec.get("preemption", {})
    if preemption.get("reclaimWithinCohort", "Never") == "Never" and _borrows(preemption) != "Never":
        yield "borrowWithinCohort beside reclaimWithinCohort Never"
    if "fairSharing" in spec and 0 < (weight := quantity(spec["fairSharing"]["weight"])) <= Fraction(1, 10**9):
        yield f"weight {weight} is as good as 0"
    if "namespaceSelector" not in spec:
        yield "no namespaceSelector: no namespace is admitted"


def _borrows(preemption: Mapping[str, Any]) -> str:
    return str(preemption.get("borrowWithinCohort", {}).get("policy", "Never"))


def _quota(where: str, quota: Mapping[str, Any], cohort: bool) -> Iterator[str]:
    for limit in ("borrowingLimit", "lendingLimit"):
        if limit in quota and not cohort:
            yield f"{where}: {limit} without a cohort"
    if "lendingLimit" in quota and quantity(quota["lendingLimit"]) > quantity(quota["nominalQuota"]):
        yield f"{where}: lendingLimit above nominalQuota"


def _flavor(manifest: Mapping[str, Any]) -> Iterator[str]:
    spec = manifest["spec"]
    taints = spec.get("nodeTaints", [])
    yield from _twice("taint", [(taint["key"], taint["effect"]) for taint in taints])
    for taint in taints:
        if taint["effect"] not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
            yield f"effect {taint['effect']}"
    for toleration in spec.get("tolerations", []):
        if toleration.get("operator", "Equal") not in ("Equal", "Exists"):
            yield f"operator {toleration['operator']}"
        if toleration.get("operator") == "Exists" and "value" in toleration:
            yield "operator Exists with a value"
        if "key" not in toleration and toleration.get("operator") != "Exists":
            yield "a toleration of every key that is not Exists"


def _twice(what: str, names: Sequence[Any]) -> Iterator[str]:
    yield from (f"{what}: {name}" for name, count in Counter(names).items() if count > 1)


_RULES = {"ClusterQueue": _cluster_queue, "ResourceFlavor": _flavor}
