"""`gpu-ci charts`: what it compares, with a stand-in for helm, and its exit status."""

from __future__ import annotations

import hashlib
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.facts.versions import CHARTS
from gpu_ci.cli import app

HELM = """\
#!/bin/sh
# helm pull NAME --repo URL --version V --destination DIR, or with an oci:// reference and without --repo
echo "$*" >> {calls}
case "$2" in
  oci://*) [ "$5" = --destination ] && echo "Digest: sha256:{manifest}" >&2 ;;
  *) [ "$7" = --destination ] && printf '%s' {content} > "$8/$2-$6.tgz" ;;
esac
"""
CONTENT = "an archive"
ARCHIVE = hashlib.sha256(CONTENT.encode()).hexdigest()
MANIFEST = "5" * 64


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A helm on PATH, and the digests that it serves as the recorded ones. Returns the file of its calls."""
    path = tmp_path / "calls"
    install(tmp_path, monkeypatch, HELM.format(calls=path, manifest=MANIFEST, content=f"'{CONTENT}'"))
    for name, chart in CHARTS.items():
        digest = MANIFEST if chart.repository.startswith("oci://") else ARCHIVE
        monkeypatch.setitem(CHARTS, name, replace(chart, sha256=digest))
    return path


def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    helm = tmp_path / "bin" / "helm"
    helm.parent.mkdir()
    helm.write_text(script)
    helm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{helm.parent}:/usr/bin:/bin")


def charts(*words: str) -> Any:
    return CliRunner().invoke(app, ["charts", *words])


def test_every_chart_is_downloaded_at_its_version_and_compared(calls: Path) -> None:
    done = charts()
    assert done.exit_code == 0, done.stderr
    found = done.stdout.splitlines()
    assert [line.split()[:3] for line in found] == [["ok:", name, chart.version] for name, chart in CHARTS.items()]
    assert f"ok: kueue {CHARTS['kueue'].version} sha256:{MANIFEST}" in found
    assert f"ok: argo-cd {CHARTS['argo-cd'].version} sha256:{ARCHIVE}" in found
    made = [line.split(" --destination ")[0] for line in calls.read_text().splitlines()]
    kueue, argo_cd = CHARTS["kueue"], CHARTS["argo-cd"]
    assert f"pull {kueue.repository}/kueue --version {kueue.version}" in made
    assert f"pull argo-cd --repo {argo_cd.repository} --version {argo_cd.version}" in made


def packed(path: Path, name: str) -> str:
    """Write a chart's archive; gives its digest."""
    folder = path.parent / "source" / name
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text(f"name: {name}\n")
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, name)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("recorded", [True, False])
def test_a_chart_with_its_recorded_digest_is_kept_where_tests_read_charts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: bool
) -> None:
    digest = packed(tmp_path / "made.tgz", "argo-cd")
    chart = replace(CHARTS["argo-cd"], sha256=digest if recorded else "0" * 64)
    monkeypatch.setattr("gpu_ci.offline.commands.charts.CHARTS", {"argo-cd": chart})
    install(tmp_path, monkeypatch, f'#!/bin/sh\ncp {tmp_path}/made.tgz "$8/$2-$6.tgz"\n')
    # Python 3.11.2 has no filter of archives.
    unpacks = hasattr(tarfile, "data_filter")
    for _ in range(2):
        done = charts("--keep", str(tmp_path / "kept"))
        assert done.exit_code == ((0 if unpacks else 2) if recorded else 1)
        if recorded and not unpacks:
            (line,) = done.stderr.splitlines()
            assert line == f"error: Python: {sys.version.split()[0]} unpacks no archive safely; use 3.11.4 or later"
    kept = tmp_path / "kept" / "argo-cd" / chart.version
    assert (kept / "templates").is_dir() == (recorded and unpacks), "tests read no chart that differs"
    assert (kept / "Chart.yaml").exists() == (recorded and unpacks)


def test_a_stack_has_its_own_charts_each_once(calls: Path) -> None:
    done = charts("homelab")
    assert done.exit_code == 0, done.stderr
    names = [line.split()[1] for line in done.stdout.splitlines()]
    assert len(names) == len(set(names))
    assert {"gpu-operator", "gha-runner-scale-set", "gha-runner-scale-set-controller", "metrics-server"} <= set(names)
    assert "cluster-autoscaler" not in names, "only EKS gets it"


@pytest.mark.parametrize(("name", "now"), [("kueue", MANIFEST), ("argo-cd", ARCHIVE)])
def test_another_digest_is_exit_status_1_with_both_digests(
    calls: Path, monkeypatch: pytest.MonkeyPatch, name: str, now: str
) -> None:
    recorded = "0" * 64
    monkeypatch.setitem(CHARTS, name, replace(CHARTS[name], sha256=recorded))
    done = charts()
    assert done.exit_code == 1, done.stderr
    assert f"differs: {name} {CHARTS[name].version} is sha256:{now}, recorded is sha256:{recorded}" in done.stdout.splitlines()
    assert done.stdout.count("ok: ") == len(CHARTS) - 1, "the others are compared too"


def test_a_chart_without_a_recorded_digest_is_named_with_the_digest_to_add(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CHARTS, "kueue", replace(CHARTS["kueue"], sha256=""))
    done = charts()
    assert done.exit_code == 0, done.stderr
    line = f"no digest is recorded: kueue {CHARTS['kueue'].version} sha256:{MANIFEST}; add it to fleet/facts/data/versions.toml"
    assert line in done.stdout.splitlines()


def test_without_helm_nothing_is_downloaded_and_one_line_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    done = charts("staging")
    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: PATH: helm is missing")
    assert "https://helm.sh/docs/intro/install/" in line


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("#!/bin/sh\necho first\necho 'Error: no such host' >&2\nexit 1\n", "fails: Error: no such host; check the network"),
        ("#!/bin/sh\ntrue\n", "prints no digest; use Helm 3.8 or later"),
    ],
)
def test_a_download_that_fails_is_one_line_and_exit_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    install(tmp_path, monkeypatch, script)
    for name in set(CHARTS) - {"kueue"}:
        monkeypatch.delitem(CHARTS, name)
    done = charts()
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: helm: `helm pull oci://registry.k8s.io/kueue/charts/kueue")
    assert reason in line


def test_an_unknown_stack_is_exit_status_2_before_any_download(calls: Path) -> None:
    done = charts("nowhere")
    assert done.exit_code == 2
    assert "Pulumi.nowhere.yaml" in done.stderr
    assert not calls.exists()
