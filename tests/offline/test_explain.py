"""`gpu-ci explain`: what it prints about manifests, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpu_ci.cli import app
from tests.builders import GUARD, ROOT, read_stack

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "worker", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]} | spec}


def explain(path: Path, *words: str) -> Any:
    return CliRunner().invoke(app, ["explain", "staging", str(path), *words])


def write(path: Path, *objects: dict[str, Any]) -> Path:
    path.write_text("\n---\n".join(map(json.dumps, objects)))
    return path


def test_a_pod_that_runs_exits_with_0(tmp_path: Path) -> None:
    done = explain(write(tmp_path / "pod.yaml", pod("a", tolerations=[TOLERATION])))
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("Pod a: would run in usw2/t4-spot (g4dn.2xlarge, g4dn.4xlarge; 1 x T4; spot), from zero nodes")


def test_one_pod_that_waits_is_enough_for_exit_status_1(tmp_path: Path) -> None:
    done = explain(write(tmp_path / "pods.yaml", pod("a", tolerations=[TOLERATION]), pod("b")), "--cluster", "usw2")
    assert done.exit_code == 1, done.stderr
    assert done.stdout.index("Pod a: would run") < done.stdout.index("Pod b: would stay pending")
    assert "    fix: pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}\n" in done.stdout


def test_each_reason_has_its_fix_as_json(tmp_path: Path) -> None:
    done = explain(write(tmp_path / "pod.yaml", pod("b")), "--json")
    nearest = json.loads(done.stdout)["pods"][0]["pools"][0]
    assert nearest == {
        "pool": "usw2/t4-spot",
        "runs": False,
        "reasons": [
            {
                "reason": "it does not tolerate the taint nvidia.com/gpu=true:NoSchedule",
                "fix": "pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
            }
        ],
    }


def test_another_stack_file_is_read(tmp_path: Path) -> None:
    config = read_stack(ROOT / "Pulumi.staging.yaml")
    config["clusters"]["usw2"]["pools"]["t4-spot"]["labels"] = {"example.com/team": "vision"}
    text = json.dumps({"config": GUARD | {f"gpu-ci:{key}": value for key, value in config.items()}})
    stack = tmp_path / "Pulumi.other.yaml"
    stack.write_text(text)
    asked = write(tmp_path / "pod.yaml", pod("a", tolerations=[TOLERATION], nodeSelector={"example.com/team": "vision"}))
    assert explain(asked).exit_code == 1
    assert explain(asked, "--file", str(stack)).exit_code == 0


@pytest.mark.parametrize(("objects", "words", "message"), [
    ([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}], [], "has no object with a pod; name a Pod, a Job"),
    ([pod("a")], ["--cluster", "usw9"], "error: --cluster: the stack has no cluster 'usw9'; name one of: usw2"),
    ([pod("a", nodeSelector={"gpu": True})], [], "pod.yaml:1: spec.nodeSelector.gpu: the value of a label is a text; got True"),
    ([{"kind": "Pod", "spec": {}}], [], "an object has apiVersion and kind; apiVersion is not set; add it"),
])  # fmt: skip
def test_wrong_input_is_one_line_and_exit_status_2(
    tmp_path: Path, objects: list[dict[str, Any]], words: list[str], message: str
) -> None:
    done = explain(write(tmp_path / "pod.yaml", *objects), *words)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_credentials_in_a_manifest_are_masked(tmp_path: Path) -> None:
    secret = "ghp_" + "a" * 36
    done = explain(write(tmp_path / "pod.yaml", pod("a", tolerations=[TOLERATION], nodeSelector={"key": secret})))
    assert done.exit_code == 1
    assert secret not in done.output
    assert "key=***" in done.stdout
