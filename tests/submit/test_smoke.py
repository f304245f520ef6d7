"""Smoke tests on a cluster: the requests, the report, and that everything is deleted."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from ruamel.yaml import YAML
from typer.testing import CliRunner

from fleet.loading.config import load
from fleet.loading.home import ROOT
from fleet.render.workloads.catalogue import TESTS, Smoke, smoke_tests
from fleet.settings.namespaces import SMOKE_NAMESPACE
from gpu_ci.cli import app
from gpu_ci.submit import RunOptions, connect, smoke
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import ApiError, InputError
from tests.builders import cluster as cluster_settings, config as config_of, oke_cluster, oke_pool, pool, staging
from tests.submit.conftest import TIMING, Told
from tests.submit.life import ctrl_c, until
from tests.submit.objects import ended, pod as pod_of, running, true, unscheduled
from tests.submit.server import ApiServer, Reply, status

TWO = {"t4": pool(), "big": pool(instanceTypes=["g4dn.12xlarge"])}
OPTIONS = replace(smoke.OPTIONS, timing=TIMING)
SOON = replace(OPTIONS, start_within=2.0)
"""For a test that starts too late. The other tests have enough time on a busy machine."""


def smokes(**changes: Any) -> tuple[Smoke, ...]:
    """The tests of an EKS cluster."""
    fleet = load(config_of(clusters={"usw2": cluster_settings(runners={}, **changes)}))
    return smoke_tests(fleet.clusters["usw2"])


@pytest.fixture
def home(config: Path) -> Iterator[Cluster]:
    """The namespace of smoke tests on the loopback server."""
    found = connect(config, None, SMOKE_NAMESPACE)
    found.timeouts = (2, 2)
    yield found
    found.api.close()


def named(of: dict[str, Any], container: str) -> dict[str, Any]:
    """A pod's status with the name of its container."""
    return of | {"containerStatuses": [each | {"name": container} for each in of["containerStatuses"]]}


class Worker:
    """Creates and ends the pods of Jobs, as the controllers of a cluster do. `verdict` gives the exit code for each Job."""

    def __init__(self, server: ApiServer, verdict: Callable[[str], int | None]) -> None:
        self._server, self._verdict = server, verdict
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Worker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _run(self) -> None:
        seen: set[str] = set()
        while not self._stopping.wait(0.02):
            for request in self._server.asked("create", "jobs"):
                name = request.body["metadata"]["name"]
                if name not in seen and self._made(name):
                    seen.add(name)
                    self._work(name)

    def _made(self, name: str) -> bool:
        """Whether the server has this Job, and not an older one of its name."""
        return "selector" in self._server._objects.get(("jobs", name), {"spec": {}})["spec"]

    def _work(self, name: str) -> None:
        job = self._server.get("jobs", name)
        code = self._verdict(name)
        if code is None:
            self._server.put("pods", pod_of(job, f"{name}-abcde", unscheduled("0/3 nodes are available")))
            return
        container = job["spec"]["template"]["spec"]["containers"][0]["name"]
        pod = pod_of(job, f"{name}-abcde", named(running(), container))
        self._server.put("pods", pod)
        self._server.write(f"{name}-abcde", f"{name} says hello", container=container)
        self._server.put("pods", pod | {"status": named(ended(code), container)})
        kind = "Complete" if code == 0 else "Failed"
        self._server.put("jobs", job | {"status": {"conditions": [true(kind, "" if code == 0 else "BackoffLimitExceeded")]}})


def run(
    server: ApiServer, home: Cluster, told: Told, verdict: Callable[[str], int | None], ways: RunOptions = OPTIONS, **changes: Any
) -> tuple[smoke.Row, ...]:
    with Worker(server, verdict):
        return smoke.run_smoke(smokes(**changes), home, told, ways)


def states(rows: tuple[smoke.Row, ...]) -> dict[tuple[str, str], str]:
    return {(row.pool, row.test): row.state for row in rows}


def left(server: ApiServer) -> list[str]:
    """Jobs and namespaces that still exist."""
    return [f"{resource}/{thing}" for resource, thing in list(server._objects) if resource in ("jobs", "namespaces")]


# -- on a cluster ------------------------------------------------------------------------------------------------------


def test_every_test_of_every_pool_passes_and_nothing_is_left(server, home, told):
    rows = run(server, home, told, lambda _: 0, pools=TWO)
    assert states(rows) == {(name, test): "pass" for name in ("t4", "big") for test in TESTS}
    assert [(row.pool, row.test) for row in rows] == [(name, test) for name in ("t4", "big") for test in TESTS]
    assert left(server) == []
    assert told.logs, "what the tests say is shown"


def test_the_namespace_stands_before_the_first_test_with_its_standard_and_its_wall(server, home, told):
    run(server, home, told, lambda _: 0)
    (space,), (wall,) = server.asked("create", "namespaces"), server.asked("create", "networkpolicies")
    assert space.body["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}
    assert wall.namespace == SMOKE_NAMESPACE
    order = [request.resource for request in server.requests if request.verb == "create"]
    assert order[:2] == ["namespaces", "networkpolicies"]
    assert {request.namespace for request in server.asked("create", "jobs")} == {SMOKE_NAMESPACE}


def test_a_pools_tests_run_one_after_another_and_pools_side_by_side(server, home, told):
    run(server, home, told, lambda _: 0, pools=TWO)
    made = [request.body["metadata"]["name"] for request in server.asked("create", "jobs")]
    assert [set(made[index : index + 2]) for index in (0, 2, 4)] == [{f"smoke-t4-{test}", f"smoke-big-{test}"} for test in TESTS]


def test_a_namespace_that_was_there_before_stays(server, home, told):
    server.put("namespaces", {"metadata": {"name": SMOKE_NAMESPACE}})
    server.put("networkpolicies", {"metadata": {"name": "workloads"}})
    rows = run(server, home, told, lambda _: 0)
    assert {row.state for row in rows} == {"pass"}
    assert left(server) == [f"namespaces/{SMOKE_NAMESPACE}"]


def test_a_test_that_fails_says_why_and_the_others_run(server, home, told):
    rows = run(server, home, told, lambda name: 1 if "pytorch" in name else 0, pools=TWO)
    assert {test: states(rows)["t4", test] for test in TESTS} == {"nvidia-smi": "pass", "pytorch": "fail", "device-query": "pass"}
    (failed,) = [row for row in rows if (row.pool, row.test) == ("t4", "pytorch")]
    assert failed.reason.startswith("failed")
    assert failed.result is not None
    assert failed.result.status == 1
    assert left(server) == []


def test_a_pool_that_starts_no_node_is_asked_once(server, home, told):
    rows = run(server, home, told, lambda name: None if "-big-" in name else 0, SOON, pools=TWO)
    assert [states(rows)["big", test] for test in TESTS] == ["fail", "not run", "not run"]
    assert [states(rows)["t4", test] for test in TESTS] == ["pass"] * 3
    (late, *others) = [row for row in rows if row.pool == "big"]
    assert "not started in time" in late.reason
    assert all("nvidia-smi ended so: not started in time" in row.reason for row in others)
    assert left(server) == []


def test_a_test_that_was_left_behind_gives_way(server, home, told):
    old = {"metadata": {"name": "smoke-t4-nvidia-smi", "uid": "old"}, "spec": {}}
    server.put("jobs", old)
    rows = run(server, home, told, lambda _: 0)
    assert {row.state for row in rows} == {"pass"}
    assert server.asked("delete", "jobs")[0].body["preconditions"] == {"uid": "old"}


def test_without_the_right_to_make_the_namespace_nothing_is_sent(server, home, told):
    server.reply("create", "namespaces", Reply(403, status(403, "Forbidden", 'user "me" cannot create namespaces')))
    with pytest.raises(ApiError, match="create namespaces") as caught:
        smoke.run_smoke(smokes(), home, told, OPTIONS)
    assert "in namespace" not in str(caught.value), "a namespace is in none"
    assert server.asked("create", "jobs") == []


def test_a_namespace_that_cannot_be_deleted_is_told(server, home, told):
    server.reply("delete", "namespaces", Reply(403, status(403, "Forbidden", "no")))
    rows = run(server, home, told, lambda _: 0)
    assert {row.state for row in rows} == {"pass"}
    assert told.has(f"delete it: kubectl delete namespace {SMOKE_NAMESPACE}")


def test_ctrl_c_deletes_what_runs_and_sends_no_more(server, home, told, meanwhile):
    def interrupt() -> None:
        server.wait("list", "pods", 3)
        ctrl_c()

    meanwhile(interrupt)
    rows = run(server, home, told, lambda _: None, pools=TWO)
    assert {row.state for row in rows} == {"fail", "not run"}
    assert {row.result.status for row in rows if row.result is not None} == {130}
    assert len(server.asked("create", "jobs")) == 2
    assert left(server) == []


def test_ctrl_c_while_a_test_is_sent_deletes_it_if_it_was_made(server, home, told, meanwhile):
    hang = threading.Event()
    home.timeouts = (2, 30)
    server.reply("create", "jobs", Reply(hang=hang, late=True, cut=True))

    def interrupt() -> None:
        server.wait("create", "jobs")
        until(lambda: "jobs/smoke-t4-nvidia-smi" in left(server))
        ctrl_c()

    meanwhile(interrupt)
    rows = run(server, home, told, lambda _: None)
    hang.set()
    assert [row.state for row in rows] == ["fail", "not run", "not run"]
    assert "while it was being sent" in rows[0].reason
    assert left(server) == []


def test_a_pool_that_cannot_run_a_test_is_no_failure(server, home, told, monkeypatch):
    monkeypatch.setattr("fleet.prove.image_fit.OTHER_IMAGES", {})
    fleet = load(config_of(clusters={"sjc": oke_cluster(pools={"old": oke_pool(instanceTypes=["VM.GPU2.1"])}, runners={})}))
    with Worker(server, lambda _: 0):
        rows = smoke.run_smoke(smoke_tests(fleet.clusters["sjc"]), home, told, OPTIONS)
    assert states(rows) == {("old", "nvidia-smi"): "pass", ("old", "pytorch"): "not run", ("old", "device-query"): "pass"}
    assert "P100" in rows[1].reason


def test_the_report_names_every_test_and_counts(server, home, told):
    rows = run(server, home, told, lambda name: 1 if "pytorch" in name else 0)
    out = io.StringIO()
    smoke.report("usw2", rows, Console(file=out, width=150))
    for test in TESTS:
        assert test in out.getvalue()
    assert "usw2: 2 of 3 smoke tests passed\n" in out.getvalue()


# -- the command -------------------------------------------------------------------------------------------------------


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, ["smoke", *words])


def test_without_a_context_the_tests_are_printed_and_no_cluster_is_asked(server, config, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(config))
    done = invoke("staging")
    assert done.exit_code == 0
    found = list(YAML(typ="safe", pure=True).load_all(done.stdout))
    pools = [name for each in staging().clusters.values() for name in sorted(each.pools)]
    assert [each["metadata"]["name"] for each in found if each["kind"] == "Job"] == [
        f"smoke-{name}-{test}" for name in pools for test in TESTS
    ]
    assert found[0]["kind"] == "Namespace"
    assert "the tests are only printed" in done.stderr
    assert server.requests == []


def test_a_stack_file_of_another_place_is_read(tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text((ROOT / "Pulumi.staging.yaml").read_text())
    assert invoke("other", "--file", str(other)).stdout == invoke("staging").stdout
    missing = invoke("other", "--file", str(tmp_path / "no.yaml"))
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "stack: there must be a file for the stack; " in missing.stderr
    assert "no.yaml does not exist; create it or correct its path" in missing.stderr


def test_every_cluster_of_a_stack_is_printed_and_one_is_run():
    printed = invoke("prod")
    assert [line for line in printed.stdout.splitlines() if line.startswith("#")] == ["# sjc", "# use1"]
    done = invoke("prod", "--context", "here")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "--context: selects one cluster; also pass --cluster, one of: sjc, use1" in done.stderr


def test_one_pool_of_one_cluster():
    done = invoke("oke-pods", "--file", str(ROOT / "examples" / "Pulumi.oke-pods.yaml"), "--cluster", "sjc", "--pool", "a10")
    names = [each["metadata"]["name"] for each in YAML(typ="safe", pure=True).load_all(done.stdout) if each["kind"] == "Job"]
    assert names == [f"smoke-a10-{test}" for test in TESTS]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("staging", "--context", ""), "--context: is empty; name the cluster's context"),
        (
            ("staging", "--pool", "a100"),
            "--pool: the cluster has no pool a100; it has t4-ondemand, t4-release, t4-spot; give one of them",
        ),
        (("prod", "--pool", "a10"), "--pool: the stack has several clusters; also pass --cluster, one of: sjc, use1"),
        (("prod", "--cluster", "eu"), "--cluster: the stack has no cluster 'eu'; give one of: sjc, use1"),
        (("nowhere",), "Pulumi.nowhere.yaml does not exist; create it or give one of: homelab, prod, staging"),
    ],
)
def test_wrong_input_ends_with_2_and_says_what_to_write(words, told):
    done = invoke(*words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in done.stderr


def test_a_stack_without_anything_to_test_is_told():
    fleet = load(config_of(clusters={"usw2": cluster_settings(pools={}, runners={})}))
    with pytest.raises(InputError, match="no test can be run: there is no pool"):
        smoke.chosen(fleet, None, ())


def test_a_pool_without_gpus_is_told_and_not_denied():
    pools = {"t4": pool(), "builds": pool(instanceTypes=["m6i.2xlarge"]), "more": pool(instanceTypes=["m5.2xlarge"])}
    fleet = load(config_of(clusters={"usw2": cluster_settings(pools=pools, runners={})}))
    with pytest.raises(InputError, match=r"no test can be run: a test needs a GPU, and there is none in usw2/builds; choose"):
        smoke.chosen(fleet, None, ("builds",))
    assert smoke.chosen(fleet, None, ("builds", "t4"))


def test_the_command_runs_reports_and_says_by_its_status_how_it_went(server, config, monkeypatch):
    monkeypatch.setattr(smoke, "OPTIONS", OPTIONS)
    with Worker(server, lambda name: 1 if name == "smoke-t4-spot-pytorch" else 0):
        done = invoke("staging", "--context", "here", "--kubeconfig", str(config))
    assert done.exit_code == 1
    assert "usw2: 8 of 9 smoke tests passed" in done.stdout
    assert "says hello" in done.stderr, "logs leave stdout to the report"
    assert "says hello" not in done.stdout
