"""`submit explain`: what the cluster says about a Job or a pod that waits, and what the model of its stack adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.facts.scheduling import QUEUE_LABEL
from gpu_ci.submit.cli import app
from tests.submit.objects import disrupted, ended, event, job, pod, running, true, unscheduled, waiting, workload
from tests.submit.server import NAMESPACE, ApiServer, Reply, made, status

FULL = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."


@pytest.fixture
def explain(config: Path) -> Any:
    """Run `submit explain train`; gives the exit status, the lines of stdout, and stderr."""

    def run(*words: str, called: str = "train") -> tuple[int, list[str], str]:
        done = CliRunner().invoke(app, ["explain", called, "--kubeconfig", str(config), *words])
        return done.exit_code, done.stdout.splitlines(), done.stderr

    return run


@pytest.fixture
def train(server: ApiServer) -> dict[str, Any]:
    """The Job train, which the server stores."""
    return server.put("jobs", made(job(), "uid-train"))


def suspend(server: ApiServer) -> None:
    held = made(job(suspend=True), "uid-train")
    held["metadata"]["labels"] = {QUEUE_LABEL: "vision"}
    server.put("jobs", held)


def test_a_pending_pod_is_explained_by_its_condition_and_the_autoscalers_event(server, train, explain):
    server.put("pods", pod(train, "train-1", unscheduled(FULL), node=""))
    server.put("events", event("uid-train-1", "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached"))
    server.put("events", event("uid-train-1", "FailedScheduling", FULL, "Warning"))
    assert explain() == (
        1,
        [
            f"train-1: pending: no node for it yet: {FULL}",
            "train-1: no node can be started for it: pod didn't trigger scale-up: 1 max node group size reached",
            "pass --stack to compare the pod with the pools of its stack",
        ],
        "",
    )


def test_the_model_adds_the_chain_with_a_fix_for_each_reason(server, train, explain):
    server.put("pods", pod(train, "train-1", unscheduled("0/2 nodes are available: 2 node(s) had untolerated taints."), node=""))
    code, lines, _ = explain("--stack", "staging", "--cluster", "usw2")
    assert code == 1
    assert lines[1:5] == [
        "Pod ml/train-1: would stay pending",
        "nearest pool: usw2/t4-spot (g4dn.2xlarge, g4dn.4xlarge; 1 x T4; spot)",
        "  because it does not tolerate the taint nvidia.com/gpu=true:NoSchedule",
        "    fix: pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
    ]


def test_a_job_whose_pods_a_quota_refuses_is_explained_by_its_template(server, train, explain):
    message = 'pods "train-" is forbidden: exceeded quota: runners, requested: requests.nvidia.com/gpu=1, used: 0, limited: 0'
    server.put("events", event("uid-train", "FailedCreate", message, "Warning"))
    code, lines, _ = explain("--stack", "staging")
    assert code == 1
    assert lines[0] == f"train: its pod cannot be created: {message}"
    assert lines[1] == "Job ml/train: would stay pending"


@pytest.mark.parametrize(("conditions", "line"), [
    ([{"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no flavor has enough quota"}],
     "train: queued in vision: Pending: no flavor has enough quota"),
    ([true("Evicted", "PodsReadyTimeout", "Exceeded the PodsReady timeout")],
     "train: queued in vision: evicted: PodsReadyTimeout: Exceeded the PodsReady timeout"),
])  # fmt: skip
def test_kueues_conditions_are_shown(server, explain, conditions, line):
    suspend(server)
    server.put("workloads", workload("uid-train", *conditions))
    code, lines, _ = explain()
    assert (code, lines[0]) == (1, line)


def test_without_permission_to_read_workloads_the_queue_is_named(server, explain):
    suspend(server)
    server.reply("list", "workloads", Reply(403, status(403, "Forbidden", "workloads.kueue.x-k8s.io is forbidden")))
    code, lines, _ = explain()
    assert (code, lines[0]) == (1, "train: queued in vision: the kubeconfig has no permission to read why")


def test_without_permission_to_read_events_the_rest_is_shown(server, train, explain):
    server.put("pods", pod(train, "train-1", unscheduled(FULL), node=""))
    server.reply("list", "events", Reply(403, status(403, "Forbidden", "events is forbidden")), times=2)
    code, lines, _ = explain()
    assert code == 1
    assert lines[:2] == [
        f"train-1: pending: no node for it yet: {FULL}",
        "train: events are not shown: the kubeconfig has no permission to read them",
    ]


@pytest.mark.parametrize(("state", "line"), [
    (waiting("ImagePullBackOff", "Back-off pulling image"), "train-1: cannot start: ImagePullBackOff: Back-off pulling image"),
    (waiting("ErrImagePull", "not found"), "train-1: cannot start: ErrImagePull: not found"),
    ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "Allocate failed due to no healthy devices present"},
     "train-1: node ip-10-0-1-2 refused it, because its device plugin could not provide the requested devices: "
     "Allocate failed due to no healthy devices present"),
    (disrupted("PreemptionByScheduler", "preempted by pod x"),
     "train-1: preempted: the scheduler gave its place to a pod of higher priority (preempted by pod x)"),
])  # fmt: skip
def test_what_a_node_says_of_a_pod_is_one_plain_line(server, train, explain, state, line):
    server.put("pods", pod(train, "train-1", state))
    code, lines, _ = explain()
    assert code == 1
    assert lines[0].startswith(line)


def test_a_preempted_pod_that_is_gone_is_explained_by_its_event(server, train, explain):
    gone = event("uid-gone", "Preempted", "Preempted by pod 5f on node ip-10-0-1-2") | {
        "involvedObject": {"uid": "uid-gone", "kind": "Pod", "name": "train-0"}
    }
    server.put("events", gone)
    server.put(
        "events", event("uid-else", "Preempted", "of another Job") | {"involvedObject": {"uid": "uid-else", "name": "other-0"}}
    )
    _, lines, _ = explain()
    assert lines[0] == "train-0: preempted: Preempted by pod 5f on node ip-10-0-1-2"
    assert not any("another Job" in line for line in lines)


def test_a_job_that_runs_does_not_wait(server, train, explain):
    server.put("pods", pod(train, "train-1", running()))
    assert explain("--stack", "staging") == (0, ["train-1: running on node ip-10-0-1-2"], "")


def test_a_job_that_has_ended_does_not_wait(server, explain):
    held = made(job(), "uid-train")
    held["status"] = {"conditions": [true("Complete")]}
    server.put("jobs", held)
    server.put("pods", pod(held, "train-1", ended(0)))
    assert explain() == (0, ["train-1: done"], "")


def test_a_pod_without_a_job_is_explained_too(server, train, explain):
    alone = pod(train, "alone", unscheduled(FULL), node="")
    server.put("pods", alone)
    code, lines, _ = explain("--stack", "staging", called="alone")
    assert code == 1
    assert lines[:2] == [f"alone: pending: no node for it yet: {FULL}", "Pod ml/alone: would stay pending"]


def test_a_name_that_the_cluster_does_not_have_is_refused(explain):
    code, lines, stderr = explain(called="none")
    assert (code, lines) == (2, [])
    assert stderr == f'error: get pods none in namespace {NAMESPACE}: 404 NotFound: pods. "none" not found\n'


def test_a_cluster_of_no_stack_is_refused_before_any_request(server, explain):
    assert explain("--cluster", "usw2") == (2, [], "error: --cluster, --file: name a part of a stack; also pass --stack\n")
    assert server.requests == []


def test_a_cluster_that_the_stack_does_not_have_is_refused(server, train, explain):
    code, _, stderr = explain("--stack", "staging", "--cluster", "usw9")
    assert (code, stderr) == (2, "error: --cluster: the stack has no cluster 'usw9'; name one of: usw2\n")
