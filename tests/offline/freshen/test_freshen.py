"""`gpu-ci freshen` against sources on loopback: what it writes, what it leaves, and what it says."""

from __future__ import annotations

import csv
import json
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.facts.support import Support
from fleet.facts.versions import KUBERNETES, TALOS, TALOS_KUBERNETES
from fleet.providers.eks import sources as eks
from fleet.providers.finding import SourceError
from gpu_ci.app import app
from gpu_ci.doctor.sources import web
from gpu_ci.doctor.sources.web import RENEWAL
from gpu_ci.offline.commands import freshen
from gpu_ci.offline.commands.freshen import effect, plan_of
from gpu_ci.offline.freshen.rows import Edit, Tables
from tests.builders import ROOT
from tests.doctor.loopback import Answers, Loopback, serve
from tests.doctor.test_sources import TOKEN, notes, release
from tests.offline.freshen.world import ARC, DAY, FILES, NEXT_ARC, OLD, RUNNER, manifest, pulls, tables, world

PLAN = {"result": "ok", "price": {"idle": {"usd": 0.348}, "worst": {"usd": 9.776}}, "resources": [], "remarks": []}


@pytest.fixture(autouse=True)
def no_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are no credentials, and no plan runs."""

    def session() -> Any:
        raise SourceError("there are no AWS credentials")

    monkeypatch.setattr(eks, "session", session)
    monkeypatch.setattr(freshen, "plan_of", lambda *_: PLAN)
    monkeypatch.setenv("GH_TOKEN", TOKEN)


@contextmanager
def running(monkeypatch: pytest.MonkeyPatch, data: Path, answers: Answers) -> Iterator[tuple[Loopback, Callable[..., Any]]]:
    """The sources, and a function that runs the command for staging with these words."""
    with serve(answers) as server:
        monkeypatch.setattr(freshen, "DATA", data)
        for host in FILES:
            monkeypatch.setitem(web.INSTEAD, f"https://{host}", f"{server.url}/{host}")
        yield server, lambda *words: CliRunner().invoke(app, ["freshen", "staging", "--as-of", DAY, *words])


def versions(data: Path) -> dict[str, Any]:
    """The content of versions.toml."""
    return tomllib.loads((data / "versions.toml").read_text())


def csv_rows(data: Path, name: str) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with (data / name).open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_newer_version_is_written_with_digest_day_and_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tables(tmp_path)
    before = versions(data)
    with running(monkeypatch, data, world()) as (server, run):
        done = run("--json")
    assert done.exit_code == 0, done.output
    after = versions(data)
    runner = f"ghcr.io/actions/actions-runner:{RUNNER}"
    row = after["images"]["actions-runner"]
    assert row["reference"] == f"{runner}@{manifest(runner)[1]}", "the runner is taken on its first day"
    assert (row["source"], row["date"]) == ("registry ghcr.io/actions/actions-runner, freshen", DAY)
    place = "ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set"
    chart = after["charts"]["gha-runner-scale-set"]
    assert chart["version"] == after["charts"]["gha-runner-scale-set-controller"]["version"] == ARC
    assert chart["sha256"] == manifest(f"{place}:{ARC}")[1].removeprefix("sha256:")
    image = after["chart-images"]["gha-runner-scale-set-controller"]["image"]["reference"]
    assert image.startswith(f"ghcr.io/actions/gha-runner-scale-set-controller:{ARC}@sha256:")
    table = {row["version"]: row for row in csv_rows(data, "arc_releases.csv")}
    assert [*table][-1] == NEXT_ARC
    assert table[NEXT_ARC]["set_chart"] == manifest(f"{place}:{NEXT_ARC}")[1]
    assert (bool(table[NEXT_ARC]["missing"]), table[ARC]["missing"], table[ARC]["image"]) == (True, "", image.partition("@")[2])
    for minor, row in after["kubernetes"].items():
        assert (row["released"], row["ends"]) == ("2099-12-01", before["kubernetes"][minor]["ends"])
        assert (row["ami-release"], row["driver"], row["toolkit"]) == (f"{minor}.99-20991201", "580.178.04", "1.19.1")
        assert row["cluster-autoscaler"].startswith(f"v{minor}.99@sha256:")
        assert row["source"].startswith("autoscaler: kubernetes/autoscaler and registry.k8s.io")
        assert "; node image: awslabs/amazon-eks-ami v20991201, freshen; " in row["source"]
        assert row["source"].endswith(before["kubernetes"][minor]["source"]), "the sources of other parts stay"
    assert {minor: row["release"] for minor, row in after["talos"].items()} == {minor: f"v{minor}.99" for minor in TALOS}
    assert {row["production"] for row in after["talos"].values()} == {"595.999.01"}
    found = {minor: row["version"] for minor, row in after["talos-kubernetes"].items()}
    assert found == {minor: f"v{minor}.99" for minor in TALOS_KUBERNETES}
    assert [row["version"] for row in csv_rows(data, "runner_releases.csv")][-2:] == ["2.999.0", RUNNER]
    images = [row["release"] for row in csv_rows(data, "eks_images.csv")]
    assert [name for name in images if "2099" in name] == [f"{minor}.99-20991201" for minor in KUBERNETES]
    prices = [row for row in csv_rows(data, "prices.csv") if row["usd_per_hour"] == "9.8765"]
    assert [(row["item"], row["region"], row["capacity"]) for row in prices] == [("g4dn.xlarge", "us-west-2", "on-demand")]
    told = json.loads(done.stdout)
    assert told["written"]
    minor = next(iter(KUBERNETES))
    assert f"kubernetes.{minor}: {minor}.99-20991202 is newer, but its notes name no driver; not taken" in told["left"]
    skipped = {each["source"] for each in told["sources"] if not each["asked"]}
    assert skipped >= {"eks support dates", "eks add-ons"}
    assert not [name for name in skipped if not name.startswith(("eks ", "digest of "))]
    renewed = RENEWAL["freshen"]["rows"]
    assert [
        each["row"] for each in told["newer"] if not any(fnmatchcase(each["row"], f"{pattern}*") for pattern in renewed)
    ] == []
    with_token = {
        path.split("/")[1] for (_, path), sent in zip(server.asked, server.sent, strict=True) if "Authorization" in sent
    }
    assert with_token == {"api.github.com"}
    assert TOKEN not in done.output


def test_comments_order_and_every_other_row_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tables(tmp_path)
    old = {path.name: path.read_text() for path in data.iterdir() if path.is_file()}
    with running(monkeypatch, data, world()) as (_, run):
        assert run("--only", "runner").exit_code == 0
    new = {path.name: path.read_text() for path in data.iterdir() if path.is_file()}
    assert {name for name in old if old[name] != new[name]} == {"versions.toml", "runner_releases.csv"}
    kept = [line for line in old["versions.toml"].splitlines() if line.startswith(("#", "["))]
    assert [line for line in new["versions.toml"].splitlines() if line.startswith(("#", "["))] == kept
    assert set(new) == set(old), "no scratch file is left"


def test_a_second_run_finds_nothing_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tables(tmp_path)
    with running(monkeypatch, data, world()) as (_, run):
        assert run().exit_code == 0
        written = (data / "versions.toml").read_text()
        again = run("--check")
    assert again.exit_code == 0, again.output
    assert "0 rows would change" in again.stdout
    assert (data / "versions.toml").read_text() == written


def test_check_writes_nothing_and_fails_if_a_row_is_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tables(tmp_path)
    old = (data / "versions.toml").read_text()
    monkeypatch.setattr(freshen, "plan_of", lambda *_: pytest.fail("a check plans nothing"))
    with running(monkeypatch, data, world()) as (_, run):
        done = run("--check", "--only", "talos")
    assert done.exit_code == 1
    minor = [*TALOS][-1]
    lines = done.stdout.splitlines()
    drivers = "production 595.999.01, lts 580.999.01, toolkit 1.99.1"
    assert f"newer   versions.toml:talos.{minor}: release v{minor}.99, {drivers}, released {OLD}" in lines
    assert lines[-1] == f"2 of 2 sources asked; {len(TALOS) + len(TALOS_KUBERNETES)} rows would change"
    assert (data / "versions.toml").read_text() == old


def without(*beginnings: str) -> Answers:
    """The sources without the answers of these paths."""
    return {path: answer for path, answer in world().items() if not path.startswith(beginnings)}


def test_a_source_that_fails_gives_no_row_and_the_others_give_all_of_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The registry has one of ARC's two charts and not the other."""
    data = tables(tmp_path)
    place = "/ghcr.io/v2/actions/actions-runner-controller-charts/gha-runner-scale-set/"
    old = versions(data)
    with running(monkeypatch, data, without(place)) as (_, run):
        done = run("--only", "arc", "--only", "talos kubernetes")
    assert done.exit_code == 0
    path = f"{place.removeprefix('/ghcr.io')}manifests/{ARC}"
    assert f"skipped arc: ghcr.io answers 404 to {path}" in done.stdout.splitlines()
    assert versions(data)["charts"] == old["charts"]
    assert versions(data)["talos-kubernetes"] != old["talos-kubernetes"]


def test_a_digest_that_differs_from_the_recorded_one_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tables(tmp_path)
    recorded = Tables(data)
    recorded.apply(
        [
            Edit(
                "arc_releases.csv",
                (NEXT_ARC,),
                dict.fromkeys(csv_rows(data, "arc_releases.csv")[0], "sha256:0") | {"version": NEXT_ARC},
            )
        ]
    )
    recorded.write()
    old = versions(data)
    with running(monkeypatch, data, world()) as (_, run):
        done = run("--only", "arc")
    assert f"skipped arc: ghcr.io has another digest of ARC {NEXT_ARC} than arc_releases.csv" in done.stdout.splitlines()
    assert versions(data) == old, "its patch is not taken either"


def test_a_chart_whose_version_somebody_changed_gets_its_digest_and_an_image_without_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = tables(tmp_path)
    charts = Tables(data)
    charts.apply([Edit("versions.toml", ("charts", name), {"sha256": "", "version": "9.9.9"}) for name in ("kueue", "argo-cd")])
    charts.apply([Edit("versions.toml", ("images", "python"), {"reference": "docker.io/library/python:9.9"})])
    charts.write()
    index = f'entries:\n  argo-cd:\n  - created: "{OLD}T00:00:00Z"\n    digest: {"a" * 64}\n    version: 9.9.9\n'
    answers = pulls("registry.k8s.io/kueue/charts/kueue:9.9.9", "docker.io/library/python:9.9")
    with running(monkeypatch, data, answers | {"/argo/index.yaml": (200, index)}) as (server, run):
        monkeypatch.setitem(web.INSTEAD, "https://argoproj.github.io/argo-helm", f"{server.url}/argo")
        done = run("--only", "digest")
    row = versions(data)["charts"]["argo-cd"]
    assert (row["sha256"], row["released"], row["version"]) == ("a" * 64, OLD, "9.9.9"), done.output
    assert row["source"] == "argo-cd 9.9.9; sha256: https://argoproj.github.io/argo-helm/index.yaml, freshen"
    digest = manifest("registry.k8s.io/kueue/charts/kueue:9.9.9")[1]
    assert f"sha256:{versions(data)['charts']['kueue']['sha256']}" == digest
    image = "docker.io/library/python:9.9"
    assert versions(data)["images"]["python"]["reference"] == f"{image}@{manifest(image)[1]}"


class Aws:
    """Answers of AWS' API, in place of clients."""

    default = "v9.999.0-eksbuild.1"

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from datetime import date

        days = (date(2099, 1, 1), date(2099, 6, 1), date(2099, 12, 1))
        monkeypatch.setattr(eks, "session", lambda: None)
        monkeypatch.setattr(eks, "client", lambda *_: None)
        monkeypatch.setattr(eks, "minors", lambda _: [Support("1.30", *days), Support("1.36", *days), Support("1.99", *days)])
        monkeypatch.setattr(eks, "default_addon", lambda *_: self.default)


def test_aws_gives_support_dates_and_add_ons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tables(tmp_path)
    old = versions(data)["kubernetes"]
    Aws(monkeypatch)
    with running(monkeypatch, data, {}) as (_, run):
        done = run("--only", "eks s", "--only", "eks a")
    assert done.exit_code == 0, done.output
    support = {row["minor"]: row for row in csv_rows(data, "eks_support.csv")}
    assert [*support][-1] == "1.99"
    assert "1.30" not in support
    assert support["1.36"]["standard_until"] == "2099-06-01"
    for minor, row in versions(data)["kubernetes"].items():
        assert {*row["addons"].values(), *row["drivers"].values()} == {Aws.default}
        assert row["cloudwatch"] == Aws.default
        assert row["ami-release"] == old[minor]["ami-release"]
    Aws.default = "v0.0.1-eksbuild.1"
    with running(monkeypatch, data, {}) as (_, run):
        assert run("--check", "--only", "eks a").exit_code == 0, "an older default changes nothing"


@pytest.mark.parametrize(
    ("project", "answer", "task", "reason"),
    [
        ("actions/runner", [release('v2.999.9"\n[images')], "runner releases", "an answer is refused: 0.tag_name"),
        (
            "awslabs/amazon-eks-ami",
            [release("v20991202", OLD, body=notes(build="20991201"))],
            "eks images",
            "name the release 1.36.99-20991201",
        ),
        ("siderolabs/talos", {"message": "API rate limit exceeded"}, "talos", "an answer is refused"),
    ],
)
def test_a_hostile_answer_changes_nothing(
    project: str, answer: Any, task: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    data = tables(tmp_path)
    old = {path: path.read_bytes() for path in data.iterdir()}
    with running(monkeypatch, data, world(**{project: answer})) as (_, run):
        done = run("--only", task)
    assert [line for line in done.stdout.splitlines() if line.startswith(f"skipped {task}: ") and reason in line], done.output
    if task != "talos":
        assert {path: path.read_bytes() for path in old} == old


def test_a_release_of_talos_whose_drivers_no_source_names_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tables(tmp_path)
    answers = {
        path: (200, "NVIDIA_DRIVER_LTS_VERSION: 580.1.2\n") if "vars.yaml" in path else answer for path, answer in world().items()
    }
    with running(monkeypatch, data, answers) as (_, run):
        done = run("--check", "--only", "talos")
    minor = next(iter(TALOS))
    assert f"left    talos.{minor}: v{minor}.99 is newer, but https://raw.githubusercontent.com/" in done.stdout
    assert "versions.toml:talos." not in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--only", "runer image"), "error: --only: no source begins with 'runer image'; did you mean "),
        (("--as-of", "tomorrow"), "error: --as-of: "),
        (("nowhere",), "error: stack: there must be a file for the stack"),
    ],
)
def test_wrong_input_has_status_2_and_asks_nobody(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with running(monkeypatch, tables(tmp_path), {}) as (server, run):
        done = run(*words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert server.asked == []


def test_the_effect_on_each_stack_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = tables(tmp_path)
    plans = iter([PLAN, PLAN | {"remarks": ["usw2: the runner is new"]}])
    monkeypatch.setattr(freshen, "plan_of", lambda *_: next(plans))
    with running(monkeypatch, data, world()) as (_, run):
        done = run("--only", "runner")
    assert done.stdout.splitlines()[-2:] == ["stack staging", "  remark.usw2: the runner is new: nothing → yes"]


def resource(name: str, **inputs: Any) -> dict[str, Any]:
    """A resource of a plan in JSON."""
    kind = "kubernetes:helm.sh/v3:Release"
    return {"urn": f"urn:pulumi:s::p::{kind}::{name}", "type": kind, "inputs": inputs}


def test_an_effect_names_results_remarks_failures_and_resources():
    broken = {
        "policy": "nothing-expired",
        "level": "mandatory",
        "kind": "violation",
        "urn": "urn:pulumi:s::p::t::x",
        "message": "over",
    }
    before = PLAN | {
        "result": "failed",
        "verdicts": [broken],
        "resources": [resource("arc", version="1"), resource("old", version="1")],
    }
    after = PLAN | {"remarks": ["new"], "resources": [resource("arc", version="2"), resource("more", version="1")]}
    assert list(effect(before, after)) == [
        "result: failed → ok",
        "failure.over: yes → nothing",
        "resource.kubernetes.helm.sh.Release arc.version: 1 → 2",
        "resource.kubernetes.helm.sh.Release old.version: 1 → nothing",
        "remark.new: nothing → yes",
        "resource.kubernetes.helm.sh.Release more.version: nothing → 1",
    ]
    assert list(effect(after, {"errors": [{"message": "stack: no file"}]}))[:3] == [
        "result: ok → wrong input",
        "USD an hour.idle: 0.348 → nothing",
        "USD an hour.worst: 9.776 → nothing",
    ]


def test_the_plan_of_a_stack_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch):
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, stdout=json.dumps(PLAN), stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    from datetime import date

    assert plan_of("staging", ROOT, date(2026, 11, 26)) == PLAN
    assert calls[0][1:] == ["-m", "gpu_ci", "plan", "--json", "--as-of", "2026-11-26", "--", "staging"]


# -- rows --------------------------------------------------------------------------------------------------------------


def test_every_row_of_versions_toml_can_be_edited_alone():
    """`Tables.apply` compares the parsed text with what the edit should give, so that a row of a new form fails here."""
    charts = Tables(freshen.DATA)
    data = charts.versions()
    paths = [path for path, row in walk(data) if "date" in row and "released" in row]
    assert len(paths) > 50
    for path in paths[::3]:
        charts.apply([Edit("versions.toml", path, {"date": DAY, "released": OLD, "source": 'a "quoted" \\ text'})])
        found: Any = charts.versions()
        for part in path:
            found = found[part]
        assert (found["released"], found["source"]) == (OLD, 'a "quoted" \\ text')


def walk(table: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every table below a table, by its path."""
    for name, row in table.items():
        if isinstance(row, dict):
            yield (*at, name), row
            yield from walk(row, (*at, name))


def test_a_part_replaces_its_own_source_and_keeps_the_others(tmp_path: Path):
    path = tmp_path / "versions.toml"
    path.write_text('[a]\nsource = """one; \\\ntwo"""\ndate = "2026-01-01"\n')
    charts = Tables(tmp_path)
    for text in ("first", "second"):
        charts.apply([Edit("versions.toml", ("a",), {"source": text}, part="image")])
    assert charts.text("versions.toml") == '[a]\nsource = "image: second; one; two"\ndate = "2026-01-01"\n'


def test_a_new_version_has_no_end_of_the_old_one_and_a_row_without_days_gets_none(tmp_path: Path):
    days = {"released": "2026-02-02", "ends": "none published", "ends-source": ""}
    old = 'released = "2026-01-01"\nends = "2026-03-01"\nends-source = """a \\\nb"""\nkept = "1"\n'
    dated = f'source = "s"\ndate = "2026-01-01"\n{old}'
    (tmp_path / "versions.toml").write_text(f'[a]\n{dated}\n[b]\ndate = "2026-01-01"\n')
    charts = Tables(tmp_path)
    charts.apply([Edit("versions.toml", (name,), days | {"date": "2026-02-03"}) for name in ("a", "b")])
    first = {"source": "s", "date": "2026-02-03", "released": "2026-02-02", "ends": "none published", "kept": "1"}
    assert charts.versions() == {"a": first, "b": {"date": "2026-02-03"}}
    assert 'published"\nkept = "1"\n\n[b]' in charts.text("versions.toml"), "a removed key leaves no line"


def test_edits_are_made_together_or_not_at_all(tmp_path: Path):
    (tmp_path / "versions.toml").write_text('[a]\nx = "1"\n')
    charts = Tables(tmp_path)
    with pytest.raises((ValueError, KeyError)):
        charts.apply([Edit("versions.toml", ("a",), {"x": "2"}), Edit("versions.toml", ("b",), {"x": "2"})])
    assert charts.changed == {}


def test_a_new_row_of_a_csv_file_is_at_its_place_by_version(tmp_path: Path):
    (tmp_path / "a.csv").write_text('version,note\n2.9.0,"a, b"\n2.10.0,c\n')
    charts = Tables(tmp_path)
    for version in ("2.11.0", "2.9.1", "2.1.0"):
        charts.apply([Edit("a.csv", (version,), {"note": "x, y"})])
    found = [line.partition(",")[0] for line in charts.text("a.csv").splitlines()]
    assert found == ["version", "2.1.0", "2.9.0", "2.9.1", "2.10.0", "2.11.0"]
    assert '2.9.0,"a, b"\n' in charts.text("a.csv"), "other rows stay as they are"
