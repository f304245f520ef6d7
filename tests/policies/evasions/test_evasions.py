"""Each evasion has the verdict of verdicts.csv, and the number of those that pass unnoticed only falls.

GPU_CI_RENEW=1 writes the verdicts anew, unless one is worse than before. `pytest -s` prints the table of counts.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cases import naming
from tests.policies.evasions import cloud, manifests, pod_kinds, relatives, settings
from tests.policies.evasions.judged import (
    REFUSED,
    REMARKED,
    UNNOTICED,
    VERDICTS,
    Judged,
    of_cloud,
    of_manifest,
    of_settings,
    read_once,
)
from tests.policies.evasions.mutators import MUTATORS, OF_PROGRAMS, mutated, mutated_program
from tests.policies.evasions.objects import Object, application, case, chart, deployment, gpu_spec, job, pod, spec

RECORD = Path(__file__).with_name("verdicts.csv")
HEADER = ("kind", "id", "staging", "prod", "by")
MANIFEST, CLOUD, RELATIVE = "manifest", "cloud", "relative"
MANIFESTS = (*pod_kinds.CASES, *manifests.CASES)
MOST_UNNOTICED = {MANIFEST: 4, f"{MANIFEST}, other form": 0, CLOUD: 0, f"{CLOUD}, other form": 0, RELATIVE: 2}
"""How many pass unnoticed. Lower a number when fewer do. A number rises only with a new case or a newly refused one's forms."""


class Row(NamedTuple):
    """A case and its verdicts. Manifests are judged by staging's policies; `by` are the policies of the last verdict."""

    kind: str
    id: str
    staging: str
    prod: str
    by: str

    @property
    def verdict(self) -> str:
        """That of prod, where it has judged."""
        return self.prod or self.staging

    @property
    def group(self) -> str:
        """Its kind, and whether it is another form of a case."""
        return f"{self.kind}, other form" if "~" in self.id else self.kind


def _row(kind: str, name: str, staging: Judged, prod: Judged | None = None) -> Row:
    return Row(kind, name, staging.verdict, prod.verdict if prod else "", " ".join((prod or staging).by))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every case as it is judged today, and each other form of a refused one that is not refused."""
    with read_once():
        every = [*_of_manifests(tmp_path_factory.mktemp("case")), *_of_programs(tmp_path_factory.mktemp("stack"))]
        every += _of_relatives(tmp_path_factory.mktemp("relative"))
    named = {row.id: row for row in every}
    assert len(named) == len(every), "two cases of one id"
    return named


def _of_manifests(folder: Path) -> Iterator[Row]:
    for one in MANIFESTS:
        with naming(one.id):
            yield (row := _row(MANIFEST, one.id, of_manifest(one, folder)))
            forms = (mutated(one, name) for name in MUTATORS) if row.verdict == REFUSED else ()
            others = (_row(MANIFEST, form.id, of_manifest(form, folder)) for form in forms if form)
            yield from (other for other in others if other.verdict != REFUSED)


def _of_programs(folder: Path) -> Iterator[Row]:
    for one in cloud.CASES:
        with naming(one.id):
            yield (row := _of_program(one))
            forms = (mutated_program(one, name) for name in (*OF_PROGRAMS, *MUTATORS)) if row.verdict == REFUSED else ()
            others = (_of_program(form) for form in forms if form)
            yield from (other for other in others if other.verdict != REFUSED)
    for edited in settings.CASES:
        with naming(edited.id):
            yield _row(CLOUD, edited.id, of_settings(edited, folder))


def _of_relatives(folder: Path) -> Iterator[Row]:
    """Without other forms, which are of the cases that the policies were written against."""
    for one in relatives.MANIFESTS:
        with naming(one.id):
            yield _row(RELATIVE, one.id, of_manifest(one, folder))
    for changed in relatives.PROGRAMS:
        with naming(changed.id):
            yield _of_program(changed, RELATIVE)


def _of_program(one: cloud.Cloud, kind: str = CLOUD) -> Row:
    return _row(kind, one.id, of_cloud(one, "staging"), of_cloud(one, "prod"))


def recorded_rows() -> dict[str, Row]:
    """The rows of verdicts.csv."""
    with RECORD.open(encoding="utf-8", newline="") as file:
        return {row["id"]: Row(**row) for row in csv.DictReader(file)}


def text_of(rows: Mapping[str, Row]) -> str:
    """The record with these rows."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([HEADER, *rows.values()])
    return file.getvalue()


def passing(rows: Mapping[str, Row], group: str, verdict: str) -> list[str]:
    """The cases of a group that have this verdict."""
    return [row.id for row in rows.values() if (row.group, row.verdict) == (group, verdict)]


def test_each_evasion_has_its_recorded_verdict(rows: dict[str, Row]) -> None:
    before = recorded_rows()
    worse = [
        f"{row.id}: {old}, now {new}"
        for name, row in rows.items()
        if name in before
        for old, new in zip(before[name][2:4], row[2:4], strict=True)
        if old and VERDICTS.index(new) < VERDICTS.index(old)
    ]
    assert not worse, "an evasion that was seen passes again: fix the policy, because this record takes no worse verdict"
    if os.environ.get("GPU_CI_RENEW"):
        RECORD.write_text(text_of(rows), encoding="utf-8")
    changed = [row for row in rows.values() if before.get(row.id) != row]
    gone = sorted(before.keys() - rows.keys())
    assert os.environ.get("GPU_CI_RENEW") or not (changed or gone), "the verdicts are others; GPU_CI_RENEW=1 writes them anew"


def test_fewer_and_fewer_evasions_pass_unnoticed(rows: dict[str, Row]) -> None:
    for group, most in MOST_UNNOTICED.items():
        unnoticed = passing(rows, group, UNNOTICED)
        assert len(unnoticed) <= most, f"{group}: more pass than before; refuse them"
        assert len(unnoticed) == most, f"{group}: fewer pass; lower MOST_UNNOTICED to {len(unnoticed)}"


def test_the_counts_are_printed(rows: dict[str, Row]) -> None:
    """`pytest -s` shows them."""
    lines = [f"{'':22}" + "".join(f"{verdict:>11}" for verdict in VERDICTS)]
    for group in MOST_UNNOTICED:
        numbers = [len(passing(rows, group, verdict)) for verdict in VERDICTS]
        lines.append(f"{group:22}" + "".join(f"{number:>11}" for number in numbers))
    for group, verdict in product(MOST_UNNOTICED, (UNNOTICED, REMARKED)):
        lines.append(f"{verdict}, {group}: {' '.join(passing(rows, group, verdict)) or 'none'}")
    sys.stdout.write("\n".join(("", *lines, "")))


PLAIN: dict[str, Object] = {
    "pod": pod(spec()),
    "pod with a GPU": pod(gpu_spec()),
    "deployment": deployment(gpu_spec()),
    "job": job(gpu_spec()),
    "chart": chart("train", {}),
    "repository": application({"repoURL": "https://github.com/example/manifests", "path": ".", "targetRevision": "main"}),
}


def test_what_an_evasion_starts_from_passes_in_silence(tmp_path: Path) -> None:
    """Else a case could be refused for another reason than the evasion."""
    with read_once():
        for name, plain in PLAIN.items():
            assert of_manifest(case(name, "", "", plain), tmp_path) == Judged(UNNOTICED), name
