"""Each evasion has the verdict of verdicts.csv, and the number of those that pass unnoticed only falls.

GPU_CI_RENEW=1 writes the verdicts anew, unless one is worse than before. `pytest -s` prints the table of counts.
"""

from __future__ import annotations

import csv
import io
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from policies.rules import RULES, AnyRule, StackRule
from tests.cases import naming
from tests.policies import test_suites
from tests.policies.evasions import cloud, manifests, pod_kinds, settings
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
from tests.policies.suite import decided

RECORD = Path(__file__).with_name("verdicts.csv")
HEADER = ("kind", "id", "staging", "prod", "by")
MANIFEST, CLOUD = "manifest", "cloud"
MANIFESTS = (*pod_kinds.CASES, *manifests.CASES)
MOST_UNNOTICED = {MANIFEST: 55, CLOUD: 56}
"""How many cases pass unnoticed. Lower a number when fewer do; a number never rises, except with a case that is new."""
MOST_NOT_REFUSED = {MANIFEST: 26, CLOUD: 0}
"""How many other forms of refused cases are not refused themselves."""


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
    def form(self) -> bool:
        """Whether it is another form of a case."""
        return "~" in self.id


def _row(kind: str, name: str, staging: Judged, prod: Judged | None = None) -> Row:
    return Row(kind, name, staging.verdict, prod.verdict if prod else "", " ".join((prod or staging).by))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Row]:
    """Every case as it is judged today, and each other form of a refused one that is not refused."""
    with read_once():
        every = [*_of_manifests(tmp_path_factory.mktemp("case")), *_of_programs(tmp_path_factory.mktemp("stack"))]
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
            forms = (mutated_program(one, name) for name in OF_PROGRAMS) if row.verdict == REFUSED else ()
            others = (_of_program(form) for form in forms if form)
            yield from (other for other in others if other.verdict != REFUSED)
    for edited in settings.CASES:
        with naming(edited.id):
            yield _row(CLOUD, edited.id, of_settings(edited, folder))


def _of_program(one: cloud.Cloud) -> Row:
    return _row(CLOUD, one.id, of_cloud(one, "staging"), of_cloud(one, "prod"))


def recorded_rows() -> dict[str, Row]:
    """The rows of verdicts.csv."""
    with RECORD.open(encoding="utf-8", newline="") as file:
        return {row["id"]: Row(**row) for row in csv.DictReader(file)}


def text_of(rows: Mapping[str, Row]) -> str:
    """The record with these rows."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([HEADER, *rows.values()])
    return file.getvalue()


def counts(rows: Mapping[str, Row], *, forms: bool) -> Counter[tuple[str, str]]:
    """How many cases, or other forms of them, have each verdict, by kind."""
    return Counter((row.kind, row.verdict) for row in rows.values() if row.form == forms)


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
    of_cases, of_forms = counts(rows, forms=False), counts(rows, forms=True)
    for kind in (MANIFEST, CLOUD):
        passing = of_cases[kind, UNNOTICED]
        assert passing <= MOST_UNNOTICED[kind], f"{kind}: more pass than before; refuse them"
        assert passing == MOST_UNNOTICED[kind], f"{kind}: fewer pass; lower MOST_UNNOTICED to {passing}"
        loose = of_forms[kind, UNNOTICED] + of_forms[kind, REMARKED]
        assert loose <= MOST_NOT_REFUSED[kind], f"{kind}: what is refused passes in more forms than before; refuse them"
        assert loose == MOST_NOT_REFUSED[kind], f"{kind}: fewer forms pass; lower MOST_NOT_REFUSED to {loose}"


def test_the_counts_are_printed(rows: dict[str, Row]) -> None:
    """`pytest -s` shows them."""
    lines = [f"{'':18}" + "".join(f"{word:>11}" for word in VERDICTS)]
    for kind in (MANIFEST, CLOUD):
        for forms in (False, True):
            numbers = counts(rows, forms=forms)
            lines.append(
                f"{kind + (', other forms' if forms else ''):24}" + "".join(f"{numbers[kind, word]:>11}" for word in VERDICTS)
            )
    lines += [
        f"{word}, {kind}: {' '.join(row.id for row in rows.values() if (row.kind, row.verdict) == (kind, word))}"
        for word in VERDICTS[:2]
        for kind in (MANIFEST, CLOUD)
    ]
    sys.stdout.write("\n".join(("", *lines, "")))
    assert {row.verdict for row in rows.values()} <= {*VERDICTS}


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


# -- an emptied policy -------------------------------------------------------------------------------------------------


def emptied(rule: AnyRule) -> AnyRule:
    """The rule as it is after somebody wrote `return` at the start of its check."""
    nothing: Any = lambda *_: ()  # noqa: E731 - mypy knows no type of both kinds of check
    in_manifests = None if rule.in_manifests is None else (rule.in_manifests[0], nothing)
    return replace(rule, check=nothing, in_manifests=in_manifests)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_policy_that_is_emptied_is_found(rule: AnyRule, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of all suites fail for each policy that says nothing any more."""
    monkeypatch.setattr(test_suites, "RULES", [emptied(rule)])
    monkeypatch.setattr(test_suites, "STACK_RULES", [emptied(rule)] if isinstance(rule, StackRule) else [])
    finds = (
        test_suites.test_what_breaks_it_is_told_word_for_word_in_whatever_order_resources_come
        if rule in decided()
        else test_suites.test_what_leaves_it_undeterminable_is_told_word_for_word_and_whatever_a_resource_of_it_says
    )
    with pytest.raises(AssertionError):
        finds()
