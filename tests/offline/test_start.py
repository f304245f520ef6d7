"""`gpu-ci start`: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fleet.prove.start import PHASES
from gpu_ci.cli import app
from tests.builders import GUARD, ROOT, read_stack


def start(*words: str) -> Any:
    return CliRunner().invoke(app, ["start", "staging", "--as-of", "2026-11-23", *words])


def stack(tmp_path: Path, **changes: Any) -> Path:
    """Staging with other settings of the pool t4-release."""
    config = read_stack(ROOT / "Pulumi.staging.yaml")
    config["clusters"]["usw2"]["pools"]["t4-release"] |= changes
    path = tmp_path / "Pulumi.other.yaml"
    path.write_text(json.dumps({"config": GUARD | {f"gpu-ci:{key}": value for key, value in config.items()}}))
    return path


def test_it_shows_cold_and_warm_by_phase_with_sources_and_gaps() -> None:
    done = start()
    assert done.exit_code == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "usw2/gpu-t4, pool t4-spot, 0 USD an hour idle: the first job finds nothing" in lines
    assert [line.split()[0] for line in lines[3:9]] == list(PHASES)
    assert lines[4].split() == ["boot", "80-120", "s", "0", "s"]
    assert lines[6].split() == ["plugin", "not", "measured", "0", "s"]
    assert "130-250 s plus driver and plugin and pull (not measured)" in done.stdout
    assert (
        "  boot, 80-120 s: EC2 GPU instance from request to node; not a series of measurements (stated) [tensorfuse docs]"
        in lines
    )


def test_a_class_that_has_a_node_says_what_it_costs(tmp_path: Path) -> None:
    done = start("--file", str(stack(tmp_path, nodes={"min": 1, "max": 2})))
    assert "pool t4-release, 0.752 USD an hour idle: the first job finds a node that is ready" in done.stdout


def test_the_json_has_every_phase(tmp_path: Path) -> None:
    done = start("--json", "--file", str(stack(tmp_path, warm={"maxPrepared": 2})))
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["stack"] == "staging"
    spot, release = found["classes"]
    assert [phase["name"] for phase in spot["cold"]["phases"]] == list(PHASES)
    assert spot["cold"]["phases"][3]["high"] is None
    assert release["finds"] == "a stopped machine of the warm pool"


def test_wrong_input_is_exit_status_2() -> None:
    assert start("--file", "absent.yaml").exit_code == 2
