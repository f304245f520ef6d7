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
from typing import Any

import boto3
import pytest

from fleet.facts.pricing import total
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import load
from fleet.prove.bill import bill
from gpu_ci.acceptance import cli as command, record
from gpu_ci.acceptance.runner import NOT_RUN, OK, Run, Shell, StepError
from gpu_ci.acceptance.steps import Scan, Steps
from tests.day import AS_OF
from tests.doctor.fleets import OWN
from tests.doctor.test_github import KEY
from tests.engine import staging
from tests.engine.conftest import _missing
from tests.engine.live import Asked
from tests.engine.staging import STACK, Site
from tests.simulated_aws import KEYS, simulated_aws
from tests.submit.server import TOKEN, ApiServer
from tests.submit.test_smoke import Worker

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900), pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")]


REGION, CLUSTER = "us-west-2", "gpu-ci-staging-usw2"


class Beside:
    """What Kubernetes and AWS create beside the stack: in the simulated AWS, and not in Pulumi's state."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        """What deletes each."""

    def appear(self) -> None:
        """A volume of a claim, the load balancer of a Service, and a network interface of the CNI."""
        owned = [{"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"}]
        tagged = [{"ResourceType": "volume", "Tags": owned}]
        volume = aws("ec2").create_volume(AvailabilityZone=f"{REGION}a", Size=1, TagSpecifications=tagged)["VolumeId"]
        subnets = [each["SubnetId"] for each in aws("ec2").describe_subnets()["Subnets"]][:2]
        balancer = aws("elbv2").create_load_balancer(Name="service", Subnets=subnets, Type="network", Tags=owned)
        arn = balancer["LoadBalancers"][0]["LoadBalancerArn"]
        of_cni = [{"ResourceType": "network-interface", "Tags": [{"Key": "cluster.k8s.amazonaws.com/name", "Value": CLUSTER}]}]
        card = aws("ec2").create_network_interface(SubnetId=subnets[0], TagSpecifications=of_cni)["NetworkInterface"]
        self.commands = [
            f"aws ec2 delete-volume --volume-id {volume} --region {REGION}",
            f"aws elbv2 delete-load-balancer --load-balancer-arn {arn} --region {REGION}",
            f"aws ec2 delete-network-interface --network-interface-id {card['NetworkInterfaceId']} --region {REGION}",
        ]

    def end(self) -> None:
        """The last lines of the deleted control plane create its log group again."""
        aws("logs").create_log_group(logGroupName=f"/aws/eks/{CLUSTER}/cluster")

    def delete(self) -> None:
        """Run the commands as the AWS CLI would: its words are the names of the API's operation and parameters."""
        for line in self.commands:
            _, service, operation, option, value, *_ = line.split()
            key = "".join(word.capitalize() for word in option.removeprefix("--").split("-"))
            getattr(aws(service), operation.replace("-", "_"))(**{key: value})


def aws(service: str) -> Any:
    return boto3.client(service, region_name=REGION)


class Rehearsed(Shell):
    """Runs every command for real. `fails` names a part of a command that fails instead.

    What is beside the stack appears with the first `up`, and is gone after `looks` looks. Pauses take no time.
    """

    def __init__(self, folder: Path, environment: dict[str, str], server: ApiServer) -> None:
        super().__init__(folder, environment, grace=60)
        self.server = server
        self.fails = ""
        self.beside = Beside()
        self.looks = 2
        self.skipped = 0.0
        self.lines: list[str] = []
        self.commands: list[str] = []

    def now(self) -> float:
        return super().now() + self.skipped

    def pause(self, seconds: float) -> None:
        self.skipped += seconds
        self.looks -= 1
        if self.looks == 0:
            self.beside.delete()

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
        printed = super()._execute(words, out)
        if "pulumi up" in self.commands[-1] and not self.beside.commands:
            self.beside.appear()
        if "pulumi destroy" in self.commands[-1]:
            self.beside.end()
        return printed


@dataclass
class Rehearsal:
    """A run that can be started, and its shell and stack file."""

    run: Run
    shell: Rehearsed
    file: Path
    scan: Scan


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
def rehearsal(site: Site, tmp_path: Path) -> Iterator[Rehearsal]:
    programs = tmp_path / "programs"
    programs.mkdir()
    # No step calls them but doctor, which must not judge the programs of the machine.
    for name, printed in (("aws", "aws-cli/2.31.0"), ("kubectl", "Client Version: v1.36.1")):
        (programs / name).write_text(f"#!/bin/sh\necho {printed}\n")
        (programs / name).chmod(0o755)
    environment = {**site.cli.environment, **KEYS, "PATH": f"{programs}{os.pathsep}{site.cli.environment['PATH']}"}
    config = load(STACK, site.cli.folder)
    fleet = fleet_of(config)
    with ApiServer() as server, Worker(server, lambda _: 0), simulated_aws():
        shell = Rehearsed(site.cli.folder, environment, server)
        private = tmp_path / "private"
        private.mkdir()
        scan = Scan(config.project, STACK, fleet)
        script = Steps(STACK, config.path, fleet, shell, private, scan).script()
        _, worst = total(bill(fleet, AS_OF))
        yield Rehearsal(Run(shell, script, worst.usd, 100.0), shell, config.path, scan)


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

    listed = [line.splitlines()[-1].strip() for line in rehearsal.shell.lines if line.startswith(f"  {REGION}: ")]
    assert sorted(listed) == sorted(rehearsal.shell.beside.commands * 2), "the clouds listed them at two looks"
    assert rehearsal.scan() == []
    assert aws("logs").describe_log_groups()["logGroups"] == [], "the log group that AWS created again is deleted late"


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
    """What Kubernetes left stays in the cloud. The commands that the run prints delete it."""
    rehearsal.shell.fails, rehearsal.shell.looks = "gpu_ci smoke", 10_000
    rehearsal.run.run()
    command.summary(rehearsal.run, tmp_path / "record.json", STACK)
    found = statuses(rehearsal.run)
    assert found == dict.fromkeys(found, OK) | {"job": "failed", "edit": NOT_RUN, "leftovers": "failed"}
    held = record.document(rehearsal.run, fleet_of(load(STACK, site.cli.folder)), date(2026, 11, 23), site.cli.environment)
    (last,) = (step for step in held["steps"] if step["name"] == "leftovers")
    assert last["why"] == "3 resources are left; delete them by the commands above"
    assert last["seconds"] >= 870, "it looked until its quarter of an hour was over"
    assert [line for line in rehearsal.shell.lines if "The stack may still exist" in line]
    assert len(rehearsal.scan()) == 3
    rehearsal.shell.beside.delete()
    assert rehearsal.scan() == []
    export = json.loads(site.cli.ok("stack", "export", "--stack", STACK).out)
    assert not export["deployment"].get("resources")
