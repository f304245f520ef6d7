"""Versions of the runner, of ARC and of all else: too old, with known defects, not together, and changed under a live cluster.

`known_defects.csv` has the defects, each with the condition under which it harms.
"""

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from fleet.facts.hardware import RESERVED, SPOT
from fleet.facts.lifecycle import RUNNER_REPOSITORY, numbers, of_image
from fleet.facts.nested import parts, text_at
from fleet.facts.places import leaves
from fleet.facts.tables import rows
from fleet.facts.yaml_text import text_of
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.formats.arc import CONTROLLER_CHART, SET_CHART, object_of
from gpu_ci.audit.model import Keys, RunnerClass, Seen
from gpu_ci.audit.rules.pools import installed, reached

_IN_WORKFLOWS = re.compile(r"\b(nvidia-container-toolkit)(?:=|@|:|_VERSION:? ?[\"']?)v?(\d+\.\d+\.\d+)")
_IMAGES = {"karpenter/controller": "karpenter", "k8s/container-toolkit": "nvidia-container-toolkit", "kindest/node": "kubernetes"}
"""The component of an image by the end of its repository."""
ARC_CHARTS = (SET_CHART, CONTROLLER_CHART)
_Found = tuple[str, str, Keys | str, RunnerClass | None]


def defects(seen: Seen, _: date) -> Iterator[Finding]:
    """Each version in the files that has a known defect under the conditions of the files."""
    for component, text, at, one in _versions(seen):
        version = numbers(text.partition("-")[0])
        for row in rows("known_defects.csv"):
            first, fixed = numbers(row["from"]), numbers(row["before"])
            affected = row["component"] == component and first <= version and not (fixed and version >= fixed)
            if version and affected and (cause := next(_causes(row["with"], seen, one), "")):
                facts = {key: row[key] for key in ("component", "effect", "fix", "source")}
                charts = ARC_CHARTS if component == "arc" else (component,)
                edits = [*upgrade(at, text, row["before"], *charts)] if isinstance(at, Keys) else []
                if row["with"] == "ghes-labels" and one:
                    edits = [Edit(one.values, ("scaleSetLabels",), None)]
                yield said("known-defect.affected", at, one.name if one else "", edits, version=text, cause=cause, **facts)


def upgrade(at: Keys, old: str, new: str, *charts: str) -> Iterator[Edit]:
    """The edits that give releases of these charts in the document of a value another version."""
    top = Keys(at.file, at.file.document.value)
    for path, leaf in leaves(top.value) if new else ():
        if path and path[-1] in ("version", "targetRevision") and str(leaf) == old:
            holder: Any = top.value
            for key in path[:-1]:
                holder = holder[key]
            if any(str(value).endswith(charts) for value in holder.values()):
                yield Edit(top, path, new)


def _versions(seen: Seen) -> Iterator[_Found]:
    """Component, version, place and class of each version in the files."""
    for one in seen.classes:
        yield "arc", one.version, one.at, one
    yield from (("arc", controller.version, controller.at, None) for controller in seen.controllers)
    for at, chart, version, _, values in installed(seen):
        yield chart, version, at, None
        yield "nvidia-container-toolkit", values.text("toolkit", "version").removeprefix("v"), at, None
    for keys in seen.of_kind("Node"):
        kubelet = keys.get("status", "nodeInfo", "kubeletVersion")
        yield "kubernetes", str(kubelet.value or ""), kubelet, None
    yield from (("kubernetes", pool.kubernetes, pool.at, None) for pool in seen.pools)
    for keys in seen.of_kind("Deployment", "DaemonSet", "Cluster"):
        for path, leaf in leaves(keys.value):
            name, _, tag = str(leaf).partition("@")[0].rpartition(":")
            component = next((component for end, component in _IMAGES.items() if name.endswith(end)), "")
            if path and path[-1] == "image" and component:
                yield component, tag, keys.file.place(*keys.path, *path), None
    for file in _workflows(seen):
        for number, line in enumerate(text_of(file).splitlines(), 1):
            yield from ((match[1], match[2], f"{file}:{number}", None) for match in _IN_WORKFLOWS.finditer(line))


def _workflows(seen: Seen) -> list[Path]:
    return list(dict.fromkeys(Path(job.place.rpartition(":")[0]) for job in seen.jobs))


def _ghes(one: RunnerClass) -> bool:
    host = re.match(r"https?://([^/]+)", one.url)
    return host is not None and host[1] != "github.com" and not host[1].endswith(".ghe.com")


def _causes(condition: str, seen: Seen, one: RunnerClass | None) -> Iterator[str]:
    """What of the files meets a condition of the table."""
    match condition:
        case "reserved":
            found = (pool for pool in seen.pools if RESERVED in pool.capacities or pool.reservations)
            yield from (f"pool {pool.name} has reserved capacity" for pool in found)
        case "ghes":
            sets = (each for each in ([one] if one else seen.classes) if _ghes(each))
            yield from (f"set {each.name} is of a GitHub Enterprise Server" for each in sets)
        case "ghes-labels" if one and one.labels and _ghes(one):
            yield f"set {one.name} has scaleSetLabels and is of a GitHub Enterprise Server"
        case "spot" if one:
            pools = (pool for pool in reached(one, seen) if SPOT in pool.capacities)
            yield from (f"set {one.name} runs on spot nodes of {pool.name}" for pool in pools)
        case "dra":
            claims = seen.of_kind("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
            named = (f"{keys.text('kind')} {keys.text('metadata', 'name')}" for keys in claims)
            yield from (f"{name} uses dynamic resource allocation" for name in named)
        case "nvkind":
            yield from (f"{path.name} starts nvkind" for path in _workflows(seen) if re.search(r"\bnvkind\b", text_of(path)))


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


def runner_age(seen: Seen, day: date) -> Iterator[Finding]:
    """GitHub gives a runner no job that is too old."""
    for one in seen.classes:
        if not (image := one.image):
            continue
        if image.partition("@")[0].rpartition(":")[0] != RUNNER_REPOSITORY or image.endswith(":latest"):
            yield said("runner-age.unnamed", one.at, one.name, image=image, repository=RUNNER_REPOSITORY)
            continue
        if (life := of_image(image, day)) is None or (life.last is None and life.released is None):
            yield said("runner-age.unknown", one.at, one.name, image=image)
        elif life.shown(day):
            edits = [] if "@" in image else _newer(one, day)
            yield said(f"runner-age.{'ended' if life.over(day) else 'ends'}", one.at, one.name, edits, life=life.words(day))


def _newer(one: RunnerClass, day: date) -> Iterator[Edit]:
    """The newest release of the day in the image of the set, if that is another one."""
    known = (row["version"] for row in rows("runner_releases.csv") if date.fromisoformat(row["released"]) <= day)
    newest = f"{RUNNER_REPOSITORY}:{max(known, key=numbers)}"
    for index, container in enumerate(parts(one.pod, "containers")):
        if container.get("name") == "runner" and newest != one.image and one.pod_at is not None:
            yield Edit(one.values, (*one.pod_at, "spec", "containers", index, "image"), newest)


def arc_age(seen: Seen, day: date) -> Iterator[Finding]:
    """The releases of ARC after that of a set or controller."""
    releases = [row for row in rows("arc_releases.csv") if date.fromisoformat(row["released"]) <= day]
    newest = max(releases, key=lambda row: numbers(row["version"]), default=None)
    of_sets = [(one.at, one.name, one.version) for one in seen.classes if one.by in ("arc", "launcher")]
    for at, name, version in [*of_sets, *((one.at, "", one.version) for one in seen.controllers)]:
        if newest is None:
            continue
        if not numbers(version):
            yield said("arc-age.unknown", at, name)
        elif numbers(version) < numbers(newest["version"]):
            released = next((f" of {row['released']}" for row in releases if row["version"] == version), "")
            yield said("arc-age.behind", at, name, version=f"{version}{released}", newest=newest)


RULES = (runner_age, arc_age, defects, arc_versions, labels_changed, operator_changes, tokens)
