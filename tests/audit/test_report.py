"""What an audit says of classes and jobs, in every form, and the stack file of `init --from`."""

import json
import re
import subprocess
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.loading.documents import documents
from gpu_ci.app import app
from gpu_ci.audit.finding import Edit, diff_of
from gpu_ci.audit.model import Keys
from gpu_ci.audit.reading import audit
from gpu_ci.audit.rules import findings
from gpu_ci.offline.commands import audit as _command  # noqa: F401 - registers it
from gpu_ci.workflows.job import File

DAY = date(2026, 11, 26)
VALUES = """\
# Our T4 class.
githubConfigUrl: https://github.com/acme
runnerScaleSetName: gpu-t4
maxRunners: 8
unknownKey: {deep: 1}
template:
  spec:
    nodeSelector: {pool: t4}
    containers:
      - name: runner
        image: ghcr.io/actions/actions-runner:2.338.1
        resources: {limits: {nvidia.com/gpu: 1, cpu: 20, memory: 20Gi}}
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: t4}
spec:
  template:
    metadata: {labels: {pool: t4}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g4dn.12xlarge]}
        - {key: topology.kubernetes.io/zone, operator: In, values: [us-east-1a]}
      taints:
        - {key: nvidia.com/gpu, value: "true", effect: NoSchedule}
"""
TOLERATES = "    tolerations: [{key: nvidia.com/gpu, operator: Exists}]\n    nodeSelector"
JOBS = """\
on: [push, pull_request_target]
jobs:
  train:
    runs-on: ${{ github.repository == 'acme/x' && 'gpu-t4' || 'gpu-t4' }}
    steps: [{run: make}]
  open:
    runs-on: gpu-t4
    timeout-minutes: 30
    container: {image: "nvidia/cuda:13.0.1-base-ubuntu24.04", options: --gpus 2}
    steps: [{run: make}]
  old:
    runs-on: ubuntu-20.04
    steps: [{run: make}]
"""


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a class, its pool and a workflow, which is the current one."""
    monkeypatch.chdir(tmp_path)
    for name, text in (("values.yaml", VALUES), ("pool.yaml", POOL), (".github/workflows/ci.yml", JOBS)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["audit", ".", "--as-of", str(DAY), *arguments])
    return result.exit_code, result.stdout


def rules(path: Path) -> dict[str, list[str]]:
    """The levels by rule."""
    found: dict[str, list[str]] = {}
    for line in findings(audit(path), DAY):
        found.setdefault(line.rule, []).append(line.level)
    return found


def test_a_class_that_no_pool_runs_has_the_chain_and_a_diff_that_helps(fleet):
    (line,) = (line for line in findings(audit(fleet), DAY) if line.rule == "no-pool")
    assert "taint nvidia.com/gpu=true:NoSchedule" in line.message
    (fleet / "fix.diff").write_text(line.diff)
    subprocess.run(["git", "apply", "fix.diff"], cwd=fleet, check=True, capture_output=True)  # noqa: S607
    assert "no-pool" not in rules(fleet), "the diff applies, and the class then has a pool"
    assert "# Our T4 class." in (fleet / "values.yaml").read_text()


def test_a_full_node_with_idle_gpus_is_told_with_its_price(fleet):
    (fleet / "values.yaml").write_text(VALUES.replace("    nodeSelector", TOLERATES))
    _, out = run("--json")
    (one,) = json.loads(out)["classes"]
    assert (one["where"], one["stranded"], one["fromZero"]) == (["t4 (2 on g4dn.12xlarge)"], 2, True)
    assert one["nodeUsdPerHour"] == 2 * one["jobUsdPerHour"] > 0
    assert one["ends"] == [{"day": "2026-11-22", "what": "runner 2.338.1, at the earliest,"}]
    assert "gpu-cpu-memory-limits" in one["policies"]
    (job,) = (entry for entry in json.loads(out)["jobs"] if entry["name"] == "open")
    assert job["usdPerRunAtMost"] == pytest.approx(one["jobUsdPerHour"] / 2)


def test_jobs_are_judged_by_their_class(fleet):
    (fleet / "values.yaml").write_text(VALUES.replace("    nodeSelector", TOLERATES) + "    hostNetwork: true\n")
    found = rules(fleet)
    assert found["runs-on"] == ["undeterminable"], "only GitHub knows github.repository"
    assert (found["job-gpus"], found["containers"], found["old-label"]) == (["error"], ["error"], ["error"])
    assert found["job-trigger"] == ["error"]
    assert "job-timeout" not in found
    (fleet / ".github/workflows/ci.yml").write_text("on: pull_request\njobs:\n  a:\n    runs-on: gpu-t4\n")
    assert (rules(fleet)["job-trigger"], rules(fleet)["job-timeout"]) == (["warning"], ["warning"])
    (line,) = (line for line in findings(audit(fleet), DAY) if line.rule == "job-timeout")
    assert "+    timeout-minutes: 60" in line.diff


def test_a_job_that_several_classes_serve_is_told(fleet):
    (fleet / "more.yaml").write_text(
        VALUES.replace("runnerScaleSetName: gpu-t4", "runnerScaleSetName: gpu-b\nscaleSetLabels: [gpu-t4]")
    )
    (line,) = (line for line in findings(audit(fleet), DAY) if line.message.startswith("job open: several"))
    assert (line.level, "gpu-b, gpu-t4" in line.message) == ("warning", True)


def test_a_key_that_no_reader_takes_is_listed(fleet):
    assert [key for _, key in audit(fleet).unread] == ["unknownKey"]
    assert "keys not read: values.yaml: unknownKey" in run()[1]


def test_the_markdown_has_a_table_and_diffs(fleet):
    status, out = run("--format", "markdown")
    assert status == 1
    assert "| `gpu-t4` | 1 |" in out
    assert "```diff" in out


def test_sarif_has_each_finding_with_a_relative_file_and_its_line(fleet):
    status, out = run("--format", "sarif")
    document = json.loads(out)
    (made,) = document["runs"]
    assert (status, document["version"], made["tool"]["driver"]["name"]) == (1, "2.1.0", "gpu-ci")
    ids = [rule["id"] for rule in made["tool"]["driver"]["rules"]]
    assert ids == sorted({result["ruleId"] for result in made["results"]})
    for result in made["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        assert (fleet / place["artifactLocation"]["uri"]).is_file()
        assert place["region"]["startLine"] <= len((fleet / place["artifactLocation"]["uri"]).read_text().splitlines())
    prints = [result["partialFingerprints"]["finding/v1"] for result in made["results"]]
    (fleet / "values.yaml").write_text("# One more line.\n" + VALUES)
    moved = json.loads(run("--format", "sarif")[1])["runs"][0]["results"]
    assert [result["partialFingerprints"]["finding/v1"] for result in moved] == prints, (
        "a finding keeps its print when lines move"
    )


def test_annotations_begin_with_errors_and_have_one_line_each(fleet):
    lines = run("--format", "annotations")[1].splitlines()
    levels = [line.removeprefix("::").partition(" ")[0] for line in lines]
    assert levels == sorted(levels, key=["error", "warning", "notice"].index)
    assert any(line.startswith("::error file=values.yaml,line=") for line in lines)


@pytest.mark.parametrize(
    ("text", "path", "value", "changed"),
    [
        ("a: 1\nb: 2\n", ("b",), 3, "+b: 3"),
        ("a: 1\n", ("b", "c"), ["x"], "+  c:"),
        ("a: {b: 1}\n", ("a", "c"), "y", '+a: {b: 1, c: "y"}'),
        ("a: [1]\n", ("a", 1), {"k": 2}, "+a: [1, {k: 2}]"),
        ("a:\n- 1\n- 2\n", ("a", 0), None, "-- 1"),
        ("x: 1\n---\na: 1\n---\ny: 2\n", ("a",), 5, "+a: 5"),
    ],
)
def test_an_edit_is_a_diff_of_the_file_that_keeps_all_else(tmp_path, monkeypatch, text, path, value, changed):
    monkeypatch.chdir(tmp_path)
    Path("f.yaml").write_text(text)
    found = [document for document in documents(Path("f.yaml")) if isinstance(document.value, dict) and "a" in document.value]
    diff = diff_of([Edit(Keys(File(Path("f.yaml"), found[0]), found[0].value), path, value)])
    assert changed in diff.splitlines()
    Path("d").write_text(diff)
    subprocess.run(["git", "apply", "d"], check=True, capture_output=True)  # noqa: S607
    assert len(documents(Path("f.yaml"))) == len(text.split("---\n"))


@pytest.mark.parametrize("text", ['{"apiVersion": "v1", "a": 1}', "a: &x 1\nb: *x\n"])
def test_a_file_whose_form_allows_no_edit_has_no_diff(tmp_path, text):
    path = tmp_path / ("f.json" if text.startswith("{") else "f.yaml")
    path.write_text(text)
    document = documents(path)[0]
    assert diff_of([Edit(Keys(File(path, document), document.value), ("b" if "&" in text else "a",), 2)]) == ""


def test_workloads_and_flavors_that_no_pool_runs_are_told_and_those_that_run_are_not(fleet):
    job = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  template:
    spec:
      nodeSelector: {pool: t4}
TOLERATES      containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: NAME}
spec: {nodeLabels: {pool: LABEL}}
"""
    good = "      tolerations: [{key: nvidia.com/gpu, operator: Exists}]\n"
    for name, tolerates, label in (("good", good, "t4"), ("bad", "", "a100")):
        text = job.replace("NAME", name).replace("TOLERATES", tolerates).replace("LABEL", label)
        (fleet / f"{name}.yaml").write_text(text)
    told = {line.subject: line for line in findings(audit(fleet), DAY) if line.rule == "no-pool" and line.subject != "gpu-t4"}
    assert sorted(told) == ["Job bad", "bad"]
    assert "pool=a100" in told["bad"].message
    (fleet / "fix.diff").write_text(told["Job bad"].diff)
    subprocess.run(["git", "apply", "fix.diff"], cwd=fleet, check=True)  # noqa: S607
    assert "Job bad" not in {line.subject for line in findings(audit(fleet), DAY)}


def test_the_pools_of_another_cluster_in_the_repository_do_not_count(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "clusters/a/set.yaml": VALUES.replace("gpu-t4", "in-a"),
        "clusters/b/set.yaml": VALUES.replace("    nodeSelector", TOLERATES).replace("gpu-t4", "in-b"),
        "clusters/b/pool.yaml": POOL,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert "no-pool" not in rules(tmp_path), "cluster a declares its pools elsewhere"
    (tmp_path / "clusters/b/set.yaml").unlink()
    assert rules(tmp_path)["no-pool"] == ["error"], "a folder with pools alone is that of the fleet's pools"


def test_classes_of_several_sizes_on_one_pool_are_told_what_filling_nodes_saves(fleet):
    small = VALUES.replace("    nodeSelector", TOLERATES).replace("cpu: 20", "cpu: 4")
    big = small.replace("gpu-t4", "gpu-t4-4").replace("nvidia.com/gpu: 1, cpu: 4", "nvidia.com/gpu: 4, cpu: 16")
    (fleet / "values.yaml").write_text(small)
    assert not [line for line in findings(audit(fleet), DAY) if line.rule == "stranded"]
    (fleet / "big.yaml").write_text(big)
    (line,) = (line for line in findings(audit(fleet), DAY) if line.rule == "stranded")
    spread, filled = map(float, re.findall(r"(?: at |costs )([0-9.]+[0-9])", line.message))
    assert (line.subject, spread > filled > 0) == ("t4", True)
    for name, text in (("values", small), ("big", big)):
        (fleet / f"{name}.yaml").write_text(text.replace("    nodeSelector", "    schedulerName: packs\n    nodeSelector"))
    assert not [line for line in findings(audit(fleet), DAY) if line.rule == "stranded"], "their scheduler may fill nodes"


@pytest.mark.parametrize(
    ("build", "image", "wrong"), [("20251016", "13.0.1", True), ("20251016", "12.8.1", False), ("20260505", "13.0.1", False)]
)
def test_a_container_with_a_newer_cuda_than_the_driver_of_the_pool_runs_is_an_error(fleet, build, image, wrong):
    (fleet / "values.yaml").write_text(VALUES.replace("    nodeSelector", TOLERATES))
    (fleet / "class.yaml").write_text(
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: gpu}\n"
        f'spec: {{amiSelectorTerms: [{{alias: "al2023@v{build}"}}]}}\n'
    )
    (fleet / ".github/workflows/ci.yml").write_text(JOBS.replace("13.0.1", image))
    told = [line.message for line in findings(audit(fleet), DAY) if line.rule == "job-cuda"]
    assert [("needs driver branch R580" in text, "570." in text) for text in told] == [(True, True)] * wrong
