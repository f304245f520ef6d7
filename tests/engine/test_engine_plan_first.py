"""A merge that violates a policy creates nothing in Pulumi Deployments, which updates without a preview: its run plans first."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.deployments.builders import as_config, declared, deployment, inputs, settings
from tests.engine import staging
from tests.engine.cli import STACK_FILE
from tests.engine.staging import Site

pytestmark = pytest.mark.engine

UP = ("up", "--stack", staging.STACK, "--yes", "--skip-preview", *staging.PACK, "--suppress-progress")
RELEASE, BURST = (
    "          capacity: on-demand\n          role: release\n",
    "          capacity: on-demand\n          role: burst\n",
)
RULE = "spot-required-nonprod"


def pre_run(site: Site, tools: Path) -> subprocess.CompletedProcess[str]:
    """Runs the pre-run command of an update in the checkout. Its dependencies are installed already."""
    stack = inputs(declared(as_config(settings(stacks={staging.STACK: deployment(deployOnPush=True)}))))
    (command, _) = stack["DeploymentSettings", staging.STACK]["operationContext"]["preRunCommands"]
    tools.mkdir(exist_ok=True)
    (tools / "pulumi").write_text('#!/bin/sh\n[ "$*" = "install --no-plugins" ]\n')
    (tools / "pulumi").chmod(0o755)
    environment = dict(site.cli.environment) | {"PULUMI_CI_OPERATION": "update"}
    environment["PATH"] = f"{tools}:{environment['PATH']}"
    shell = ["/usr/bin/env", "bash", "-c", command]
    return subprocess.run(shell, cwd=site.cli.folder, env=environment, capture_output=True, text=True, check=False)


def test_a_violation_ends_the_run_before_an_update_that_would_create_until_it_meets_it(tmp_path: Path) -> None:
    with staging.built(tmp_path / "site") as site:
        assert pre_run(site, tmp_path / "tools").returncode == 0
        file = site.cli.folder / STACK_FILE.format(staging.STACK)
        text = file.read_text()
        assert text.count(RELEASE) == 1
        file.write_text(text.replace(RELEASE, BURST))
        ended = pre_run(site, tmp_path / "tools")
        assert (ended.returncode, RULE in ended.stdout) == (1, True), ended
        assert [call for provider in site.serving.values() for call in provider.asked] == []

        update = site.cli(*UP, timeout=600)
        assert update.status != 0
        assert RULE in update.text
        created = [call for provider in site.serving.values() for call in provider.asked if call.method == "Create"]
        assert created, "the pack alone stops an update too late"
