"""Interrupts `pulumi up` of staging in the simulated cloud, and settles what is left by the commands of `gpu-ci pending`."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpu_ci.cli import app
from gpu_ci.pending import findings
from tests.engine import kube_api, staging
from tests.engine.aws_api import Aws
from tests.engine.cli import Cli, Outcome
from tests.engine.live import Cloud, Fault, Live

UP = ("up", "--stack", staging.STACK, "--yes", "--skip-preview", "--suppress-progress")
WAIT = 120
"""Seconds after which a drill fails that waits for a call."""


@dataclass
class Drill:
    """The stack, and what the drills on it counted."""

    cli: Cli
    cloud: Cloud
    cluster: kube_api.Cluster
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def up(self) -> Outcome:
        """An update, which may fail."""
        return self.cli(*UP, timeout=300)

    def start(self) -> subprocess.Popen[bytes]:
        """An update that runs on."""
        words = ["pulumi", *UP, "--non-interactive"]
        sink = subprocess.DEVNULL
        environment = dict(self.cli.environment)
        return subprocess.Popen(words, cwd=self.cli.folder, env=environment, stdout=sink, stderr=sink, start_new_session=True)

    def kill(self, fault: Fault) -> None:
        """Kills an update by SIGKILL while the harmed call is under way: the cloud has done what was asked."""
        self.cloud.fail(fault)
        process = self.start()
        try:
            assert fault.reached.wait(WAIT), f"nothing met {fault}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            fault.release.set()
            self.cloud.faults.clear()
        self.count("kills")
        self.unlock()

    def unlock(self) -> None:
        """A killed run leaves its lock, and may leave an empty file beside the state."""
        outcome = self.cli("cancel", "--stack", staging.STACK, "--yes")
        if outcome.status and "failed to load checkpoint: EOF" in outcome.text:
            (attributes,) = Path(self.cli.environment["HOME"]).glob(f"state/.pulumi/stacks/*/{staging.STACK}.json.attrs")
            assert attributes.stat().st_size == 0
            attributes.unlink()
            self.count("empty checkpoints")
            outcome = self.cli("cancel", "--stack", staging.STACK, "--yes")
        assert outcome.status == 0, outcome

    def exported(self) -> str:
        return self.cli.ok("stack", "export", "--stack", staging.STACK).out

    def orphans(self, export: str = "") -> list[Live]:
        """What is live and in no state. The oracle: it compares types and ids, and asks no API."""
        resources = (json.loads(export or self.exported())["deployment"] or {}).get("resources") or []
        stated = {(each["type"], each.get("id")) for each in resources}
        return [each for each in self.cloud.live() if (each.type, each.id) not in stated]

    def pending(self, export: str = "") -> dict[str, Any]:
        """What `gpu-ci pending` lists, as JSON."""
        findings.connect.cache_clear()
        state, imports = self.cli.folder / "state.json", self.cli.folder / "import.json"
        state.write_text(export or self.exported())
        words = ["pending", "--state", str(state), "--import-file", str(imports), "--json", staging.STACK]
        result = CliRunner().invoke(app, words)
        assert result.exit_code in (0, 1), result.output
        document: dict[str, Any] = json.loads(result.stdout)
        assert document["notAsked"] == []
        assert result.exit_code == (1 if document["pending"] else 0)
        return document

    def created(self, where: str) -> list[Live]:
        """What is live of the resources whose URN has a match of the pattern."""
        resources = json.loads(self.exported())["deployment"]["resources"]
        ids = {(each["type"], each["id"]) for each in resources if re.search(where, each["urn"])}
        return [each for each in self.cloud.live() if (each.type, each.id) in ids]

    def lose(self, where: str) -> list[str]:
        """Deletes such resources behind Pulumi's back, so that the next update creates them again; gives their ids."""
        lost = self.created(where)
        assert lost, f"nothing is live of {where}"
        for live in lost:
            self.cloud.remove(live)
        return [each.id for each in lost]

    def settle(self) -> None:
        """Checks that `pending` lists exactly the orphans, and runs its commands in their order."""
        export = self.exported()
        orphans, document = self.orphans(export), self.pending(export)
        listed = [each for each in document["pending"] if each["needs"] in ("import", "delete")]
        found = [self._live(each) for each in listed]
        assert sorted(map(id, found)) == sorted(map(id, orphans)), f"orphans {orphans}, listed {listed}"
        assert [each for each in document["pending"] if each["needs"] == "unknown"] == []
        for needs in ("import", "delete", "clear", "replace"):
            self.count(needs, sum(each["needs"] == needs for each in document["pending"]))
        self.count("orphans", len(orphans))
        for command in document["commands"]:
            self._run(shlex.split(command))
        assert self.orphans() == []

    def _live(self, entry: dict[str, Any]) -> Live:
        identity = entry["id"] or entry["name"]
        candidates = self.cloud.live(entry["type"]) if entry["type"] else self.cloud.live()
        matching = [
            each for each in candidates if self.cloud.find(each.type, identity, each.scope) is each or each.id in identity
        ]
        assert matching, f"nothing is live as {entry}"
        return matching[0]

    def _run(self, words: Sequence[str]) -> None:
        tool, *rest = words
        if tool == "pulumi":
            more = ["--yes", "--skip-preview"] if rest[0] == "up" else ["--skip-preview"]
            self.cli.ok(*rest, *more, "--suppress-progress")
        elif rest[0] == "uninstall":
            self._remove(kube_api.RELEASE, f"{rest[3]}/{rest[1]}")
        else:
            deleted = [each for each in self.cloud.live() if each.id in rest]
            assert len(deleted) == 1, f"{words} names one thing"
            self.cloud.remove(deleted[0])

    def _remove(self, kind: str, identity: str) -> None:
        live = self.cloud.find(kind, identity, self.cluster.name)
        assert live is not None, f"there is no {identity}"
        self.cloud.remove(live)
        self.cluster.status.pop(identity, None)

    def finish(self) -> None:
        """A complete update; then a preview changes nothing, and cloud and state have the same resources."""
        self.cli.ok(*UP, timeout=300)
        self.cli.ok("preview", "--stack", staging.STACK, "--expect-no-changes", "--suppress-progress")
        assert self.orphans() == []
        assert self.pending()["pending"] == []
        resources = json.loads(self.exported())["deployment"]["resources"]
        stated = {(each["type"], each["id"]) for each in resources if each.get("id") and not each["type"].startswith("pulumi:")}
        assert stated == {(each.type, each.id) for each in self.cloud.live()}
        self.counts["resources"] = len(stated)


@contextmanager
def drill(base: Path, patch: pytest.MonkeyPatch) -> Iterator[Drill]:
    """Staging with nothing deployed, its cluster, and AWS' APIs."""
    with staging.built(base) as site:
        cloud = next(iter(site.serving.values())).cloud
        cloud.names_on_check = True
        cluster = kube_api.Cluster(cloud, "gpu-ci-staging-usw2")
        with kube_api.serve(cluster, base) as kubeconfig:
            patch.setenv("KUBECONFIG", str(kubeconfig))
            patch.setattr("fleet.providers.eks.leftovers._client", Aws(cloud, staging.STACK).client)
            # Each update is a new process, which would compile the program once more.
            cached = site.cli.having(PYTHONDONTWRITEBYTECODE="", PYTHONPYCACHEPREFIX=str(base / "bytecode"))
            yield Drill(cached, cloud, cluster)
