"""The whole run on the real Pulumi CLI and engine: file backend, policy pack, simulated providers, simulated Kubernetes and AWS.

Every command of the script runs as it is. Two things are replaced: the address in the kubeconfig, because the simulated control
plane serves nothing, and `aws`, of which doctor only asks the version.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import pytest
from moto import mock_aws

from fleet.facts.pricing import total
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import load
from fleet.prove.bill import bill
from gpu_ci.acceptance import cli as command
from gpu_ci.acceptance import record
from gpu_ci.acceptance.runner import NOT_RUN, OK, Run, Shell, StepError
from gpu_ci.acceptance.steps import Scan, Steps
from tests.day import AS_OF
from tests.doctor.fleets import OWN
from tests.doctor.test_github import KEY
from tests.engine import staging
from tests.engine.conftest import _missing
from tests.engine.live import Asked
from tests.engine.staging import STACK, Site
from tests.submit.server import TOKEN, ApiServer
from tests.submit.test_smoke import Worker

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900), pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")]


class Rehearsed(Shell):
    """Runs every command for real. `fails` names a part of a command that fails instead."""

    def __init__(self, folder: Path, environment: dict[str, str], server: ApiServer) -> None:
        super().__init__(folder, environment, grace=60)
        self.server = server
        self.fails = ""
        self.lines: list[str] = []
        self.commands: list[str] = []

    def say(self, line: str) -> None:
        super().say(line)
        self.lines.append(line)

    def _execute(self, words: tuple[str, ...], out: int | None) -> str:
        self.commands.append(" ".join(words))
        if self.fails and self.fails in self.commands[-1]:
            raise StepError("the cloud has no capacity")
        if "smoke" in words:
            path = Path(words[words.index("--kubeconfig") + 1])
            held = json.loads(path.read_text())
            held["clusters"][0]["cluster"] = {"server": self.server.url}
            held["users"][0]["user"] = {"token": TOKEN}
            path.write_text(json.dumps(held))
        return super()._execute(words, out)


@dataclass
class Rehearsal:
    """A run that can be started, and its shell and stack file."""

    run: Run
    shell: Rehearsed
    file: Path
    private: Path


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with staging.built(tmp_path_factory.mktemp("acceptance")) as found:
        file = found.cli.folder / f"Pulumi.{STACK}.yaml"
        text = file.read_text()
        for before, after in OWN:
            assert before in text
            text = text.replace(before, after)
        file.write_text(text)
        found.cli.ok("config", "set", "--stack", STACK, "--secret", staging.KEY, given=KEY)
        yield found


@pytest.fixture
def rehearsal(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rehearsal]:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "aws").write_text("#!/bin/sh\necho aws-cli/2.31.0\n")
    (programs / "aws").chmod(0o755)
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    # moto would make thousands of images for each region.
    for name, value in (keys | {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}).items():
        monkeypatch.setenv(name, value)
    environment = {**site.cli.environment, **keys, "PATH": f"{programs}{os.pathsep}{site.cli.environment['PATH']}"}
    config = load(STACK, site.cli.folder)
    fleet = fleet_of(config)
    with ApiServer() as server, Worker(server, lambda _: 0), mock_aws():
        shell = Rehearsed(site.cli.folder, environment, server)
        private = tmp_path / "private"
        private.mkdir()
        script = Steps(STACK, config.path, fleet, shell, private, Scan(config.project, STACK, fleet)).script()
        _, worst = total(bill(fleet, AS_OF))
        yield Rehearsal(Run(shell, script, worst.usd, 90.0), shell, config.path, private)


def statuses(run: Run) -> dict[str, str]:
    return {each.step.name: each.status for each in run.all_results}


def test_the_whole_run_is_accepted_and_leaves_nothing(rehearsal: Rehearsal, site: Site, tmp_path: Path) -> None:
    before = rehearsal.file.read_bytes()
    assert rehearsal.run.run(), rehearsal.shell.lines
    command.summary(rehearsal.run, tmp_path / "record.json", STACK)
    assert set(statuses(rehearsal.run).values()) == {OK}
    assert rehearsal.file.read_bytes() == before, "the user's stack file is not edited"
    edited = [
        call
        for provider in site.serving.values()
        for call in provider.asked
        if call.method == "Update" and not call.preview and "acceptance" in json.dumps(call.inputs)
    ]
    assert edited, "the edit reached the providers"
    created, deleted = (
        {call.urn for provider in site.serving.values() for call in provider.asked if call.method == method and not call.preview}
        for method in ("Create", "Delete")
    )
    assert len(created) > 90
    assert created == deleted, "what was created was deleted"

    assert len(rehearsal.shell.server.asked("create", "jobs")) == 9, "three tests of each of the three pools"
    held = record.document(rehearsal.run, fleet_of(load(STACK, site.cli.folder)), date(2026, 11, 23), site.cli.environment)
    assert (held["ok"], held["cloud"], held["versions"]["pulumi CLI"] != "") == (True, False, True)
    assert KEY.splitlines()[1] not in json.dumps(held) + "".join(rehearsal.shell.lines)


def test_ctrl_c_during_the_update_destroys_on_the_engine(rehearsal: Rehearsal, site: Site) -> None:
    """The CLI is interrupted as by hand, after the engine has created something."""

    def interrupt() -> None:
        before = len(created())
        while len(created()) < before + 20:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    def created() -> list[Asked]:
        return [
            call for each in site.serving.values() for call in tuple(each.asked) if call.method == "Create" and not call.preview
        ]

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    rehearsal.run.run()
    watcher.join(10)
    found = statuses(rehearsal.run)
    assert found == dict.fromkeys(found, OK) | {"up": "failed", "again": NOT_RUN, "job": NOT_RUN, "edit": NOT_RUN}
    assert [each.why for each in rehearsal.run.results if each.why] == ["interrupted by SIGINT"]
    export = json.loads(site.cli.ok("stack", "export", "--stack", STACK).out)
    assert not export["deployment"].get("resources")
    assert not export["deployment"].get("pending_operations")


def test_a_failure_in_the_middle_destroys_on_the_engine(rehearsal: Rehearsal, site: Site, tmp_path: Path) -> None:
    rehearsal.shell.fails = "gpu_ci smoke"
    rehearsal.run.run()
    command.summary(rehearsal.run, tmp_path / "record.json", STACK)
    found = statuses(rehearsal.run)
    assert found == dict.fromkeys(found, OK) | {"job": "failed", "edit": NOT_RUN}
    export = json.loads(site.cli.ok("stack", "export", "--stack", STACK).out)
    assert not export["deployment"].get("resources")
