"""Versions that do not go together, changes that a cluster takes badly, by an export of what it runs, and tokens that end."""

from collections.abc import Iterator
from datetime import date

from fleet.facts.lifecycle import numbers
from fleet.facts.nested import text_at
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.formats.arc import object_of
from gpu_ci.audit.model import RunnerClass, Seen
from gpu_ci.audit.rules.defects import ARC_CHARTS, upgrade
from gpu_ci.audit.rules.pools import installed


def arc_versions(seen: Seen, _: date) -> Iterator[Finding]:
    """A set of another version than every controller has no listener."""
    versions = sorted({one.version for one in seen.controllers if numbers(one.version)}, key=numbers)
    for one in seen.classes:
        if versions and numbers(one.version) and one.version not in versions:
            where = next(controller.place for controller in seen.controllers if controller.version == versions[-1])
            edits = upgrade(one.at, one.version, versions[-1], *ARC_CHARTS)
            yield said("arc-versions.differ", one.at, one.name, edits, version=one.version, other=versions[-1], where=where)


def labels_changed(seen: Seen, _: date) -> Iterator[Finding]:
    """GitHub keeps the labels with which a set was registered."""
    live = {one.name: one for one in seen.classes if _is_live(one)}
    for one in seen.classes:
        was = live.get(one.name)
        if was is not None and was is not one and not _is_live(one) and one.labels != was.labels:
            old, new = (", ".join(sorted(each.labels)) or "none" for each in (was, one))
            yield said("labels.changed", one.values.get("scaleSetLabels"), one.name, old=old, new=new, where=was.place)


def _is_live(one: RunnerClass) -> bool:
    """Whether a set is the answer of a cluster: the API server gives each object a uid."""
    value = object_of(one.at).value
    return text_at(value, "kind") == "AutoscalingRunnerSet" and bool(text_at(value, "metadata", "uid"))


def operator_changes(seen: Seen, _: date) -> Iterator[Finding]:
    """A new toolkit restarts the container runtime under the jobs of a node."""
    live = [keys for keys in seen.of_kind("ClusterPolicy") if keys.text("metadata", "uid")]
    for at, chart, _version, release, values in installed(seen):
        new, waits = values.text("toolkit", "version"), values.text("daemonsets", "updateStrategy") == "OnDelete"
        for policy in live if chart == "gpu-operator" and new and not waits else ():
            if (old := policy.text("spec", "toolkit", "version")) != new:
                edit = Edit(values, ("daemonsets", "updateStrategy"), "OnDelete")
                yield said("operator.restarts", at, release, (edit,), old=old, new=new)


def tokens(seen: Seen, _: date) -> Iterator[Finding]:
    """A token of a person ends on a day that no file says."""
    for one in seen.classes:
        if "github_token" in one.values.get("githubConfigSecret"):
            yield said("credential.token", one.values.get("githubConfigSecret"), one.name)
