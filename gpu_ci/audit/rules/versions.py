"""Versions of the runner and of ARC against the releases on record."""

from collections.abc import Iterator
from datetime import date

from fleet.facts.lifecycle import RUNNER_REPOSITORY, numbers, of_image
from fleet.facts.nested import parts
from fleet.facts.tables import rows
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.model import RunnerClass, Seen


def runner_age(seen: Seen, day: date) -> Iterator[Finding]:
    """GitHub gives a runner no job that is too old."""
    for one in seen.classes:
        image = one.image
        if not image:
            continue
        if image.partition("@")[0].rpartition(":")[0] != RUNNER_REPOSITORY or image.endswith(":latest"):
            yield said("runner-age.unnamed", one.at, one.name, image=image, repository=RUNNER_REPOSITORY)
            continue
        life = of_image(image, day)
        if life is None or (life.last is None and life.released is None):
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
