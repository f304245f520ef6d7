"""Plans of a stack with caches and jobs of its own: a job that no pool holds fails them, in every form; changes are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.loading.home import ROOT
from gpu_ci.cli import app
from tests.offline.staging import TEXT, few_policies, line_of, plan_of, write

HEAD = "      runners:\n"
CACHES = "      caches:\n        models: {storage: efs, size: 100Gi, namespaces: [research]}\n"
FITS = "        train: {namespace: research, image: 'docker.io/library/python:3.13', pool: t4-spot, cache: models}\n"
BIG = "        big: {namespace: research, image: 'docker.io/library/python:3.13', gpuType: t4, gpus: 8}\n"
CHAT = "{kind: ollama, pool: t4-spot, gpus: 2, storage: {size: 100Gi, storageClass: cache-models}}"


def stack(folder: Path, *lines: str) -> Path:
    """A copy of the staging file with a cache and these jobs."""
    assert TEXT.count(HEAD) == 1
    return write(folder, (HEAD, CACHES + "      jobs:\n" + "".join(lines) + HEAD))


@pytest.fixture
def run():
    def call(*words: str) -> Any:
        return CliRunner().invoke(app, ["plan", "staging", *words])

    with few_policies():
        yield call


def test_a_job_that_no_pool_holds_fails_the_plan_before_anything_is_built(tmp_path):
    plan = plan_of(stack(tmp_path, FITS, BIG))
    assert plan.recording is None
    assert not plan.passes()
    assert [(found.cluster, found.workload, found.kind) for found in plan.refused] == [("usw2", "big", "job")]


def test_every_form_of_the_plan_says_which_and_why(run, tmp_path):
    path = stack(tmp_path, FITS, BIG)
    told = run("--file", str(path))
    assert told.exit_code == 1
    text = " ".join(told.stdout.split())
    assert f"{path}:{line_of(path, 'big: {namespace')}: gpu-ci:clusters.usw2.jobs.big: cannot be placed: usw2/t4-" in text
    assert "asks for 8 GPUs, g4dn.2xlarge has 1" in text
    assert "FAILED: 1 job cannot be placed, so no resource was created or judged" in text
    markdown = run("--file", str(path), "--markdown").stdout
    assert markdown.startswith("## ❌ `staging`: 1 job cannot be placed, so no resource was created or judged\n")
    (refused,) = json.loads(run("--file", str(path), "--json").stdout)["refused"]
    assert (refused["cluster"], refused["workload"], refused["kind"]) == ("usw2", "big", "job")
    line = line_of(path, "big: {namespace")
    assert f",line={line},title=big cannot be placed::" in run("--file", str(path), "--annotations").stderr


def test_wrong_arguments_are_told_with_file_and_line_and_no_secret(run, tmp_path):
    job = "        token:\n          namespace: research\n          image: 'example:1'\n          pool: t4-spot\n"
    path = stack(tmp_path, FITS, job + "          env: {HF_TOKEN: hf_abcdefghijklmnopqrst}\n")
    told = run("--file", str(path))
    assert told.exit_code == 2, "the settings are wrong, which no plan can judge"
    assert f"{path.name}:{line_of(path, 'env: {HF_TOKEN')}: gpu-ci:clusters.usw2.jobs.token.env.HF_TOKEN: " in told.stderr
    assert "hf_abc" not in told.stderr + told.stdout


def test_jobs_and_workloads_are_counted_apart(run, tmp_path):
    path = stack(tmp_path, BIG)
    path.write_text(path.read_text().replace(HEAD, f"      workloads:\n        chat: {CHAT}\n{HEAD}"))
    assert "FAILED: 1 workload and 1 job cannot be placed" in " ".join(run("--file", str(path)).stdout.split())


def test_a_stack_with_a_cache_and_a_job_is_built_judged_and_priced(tmp_path):
    plan = plan_of(stack(tmp_path, FITS))
    assert plan.recording is not None
    assert {each.name for each in plan.resources if each.type == "gpu-ci:index:GpuJob"} == {"usw2-train"}
    assert [line.item for line in plan.bill if line.item.startswith("cache")] == ["cache models"]
    assert any(remark.startswith("usw2.jobs.train: on spot") for remark in plan.remarks)


def test_changes_of_caches_and_jobs_are_told_as_such(run, tmp_path):
    changed = run("--file", str(stack(tmp_path, FITS)), "--base", str(ROOT), "--markdown").stdout
    assert "cache `usw2/models`" in changed
    assert "job `usw2/train`" in changed


def test_their_manifests_are_rendered(tmp_path):
    path, out = stack(tmp_path, FITS), tmp_path / "out"
    with few_policies():
        done = CliRunner().invoke(app, ["render", "--file", str(path), "--out", str(out), "staging"])
    assert done.exit_code == 0, done.stderr
    names = {found.name.lower() for found in (out / "gpu-ci-staging-usw2" / "manifests").iterdir()}
    for kind in ("storageclass", "persistentvolumeclaim", "job"):
        assert any(kind in name for name in names), names
