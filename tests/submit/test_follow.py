"""The progress lines, logs and results of Jobs on the loopback API server."""

from __future__ import annotations

import dataclasses
import re
from functools import partial

import pytest

from gpu_ci.submit import Outcome, RunOptions, follow, run
from gpu_ci.submit.errors import ApiError
from gpu_ci.submit.objects import JOBS
from tests.submit.conftest import OPTIONS, TIMING
from tests.submit.life import complete, fail, finish, polled, ready, show, until, work
from tests.submit.objects import (
    NODE,
    container,
    disrupted,
    ended,
    event,
    job,
    running,
    terminated,
    true,
    unscheduled,
    waiting,
    workload,
)
from tests.submit.server import Reply, status

# -- the good way --------------------------------------------------------------------------------------------------------


def test_a_job_is_told_from_its_sending_to_its_end(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        show(server, made, "train-a", unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu."), node="")
        server.put("events", event("uid-train-a", "TriggeredScaleUp", "pod triggered scale-up: [{eks-t4 0->1 (max: 5)}]"))
        until(lambda: told.has("a node starts"))
        show(server, made, "train-a", waiting("ContainerCreating"))
        until(lambda: told.has("starting on node"))
        server.put("events", event("uid-train-a", "Pulling", 'Pulling image "ghcr.io/example/train:1.4"'))
        until(lambda: told.has("Pulling"))
        server.write("train-a", "epoch 1", "epoch 2")
        show(server, made, "train-a", running())
        server.wait("get", "pods/log")
        server.write("train-a", "epoch 3", "", "done")
        until(lambda: told.has("running on"))
        show(server, made, "train-a", ended(0))
        complete(server)

    meanwhile(life)
    result = run(job(), cluster, OPTIONS, told)
    assert told.lines[:-1] == [
        "train: created in namespace ml",
        "train-a: pending: no node for it yet: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        "train-a: a node starts for it: pod triggered scale-up: [{eks-t4 0->1 (max: 5)}]",
        f"train-a: starting on node {NODE}",
        'train-a: Pulling image "ghcr.io/example/train:1.4"',
        f"train-a: running on node {NODE}",
        "train-a: done",
    ]
    assert told.lines[-1].startswith("train: complete after ")
    assert told.logs == ["epoch 1", "epoch 2", "epoch 3", "", "done"], "one pod: no prefix, empty lines kept"
    assert (result.outcome, result.status, result.ok, result.attempts, result.exit_code) == (Outcome.COMPLETE, 0, True, 1, None)


def test_a_job_that_was_there_is_followed_by_its_name(server, cluster, told):
    made = cluster.create(JOBS, job())[0]
    show(server, made, "train-a", ended(0))
    server.write("train-a", "hello")
    complete(server)
    assert follow("train", cluster, OPTIONS, told).ok
    assert told.logs == ["hello"], "its log from the first line on"


def test_a_job_is_followed_by_its_manifest(server, cluster, told, meanwhile):
    cluster.create(JOBS, job())
    meanwhile(lambda: work(server, "hello"))
    assert follow(job(), cluster, OPTIONS, told).ok
    assert told.logs == ["hello"]


def test_pods_of_others_are_never_asked_for(server, cluster, told, meanwhile):
    """A real API server always sets a selector; this Job has none."""
    made = cluster.create(JOBS, job())[0]
    server.put("jobs", made | {"spec": {key: value for key, value in made["spec"].items() if key != "selector"}})
    meanwhile(lambda: complete(server))
    assert follow("train", cluster, OPTIONS, told).ok
    uid = made["metadata"]["uid"]
    assert {request.query["labelSelector"] for request in server.asked("list", "pods")} == {
        f"batch.kubernetes.io/controller-uid={uid}"
    }


def test_a_job_that_is_not_there_is_an_error(cluster, told):
    with pytest.raises(ApiError, match=r'get jobs.batch nope in namespace ml: 404 NotFound: jobs.batch "nope" not found'):
        follow("nope", cluster, OPTIONS, told)


def test_logs_of_several_pods_say_whose_they_are(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        for name in ("train-a", "train-b"):
            server.write(name, f"I am {name}")
            show(server, made, name, ended(0))
        finish(server, true("Complete"), succeeded=2)

    meanwhile(life)
    result = run(job(parallelism=2, completions=2), cluster, OPTIONS, told)
    assert sorted(told.logs) == ["[train-a/worker] I am train-a", "[train-b/worker] I am train-b"]
    assert result.reason == "2 of 2 pods succeeded"
    assert result.attempts == 2


def test_the_log_of_what_runs_before_is_shown_too(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        server.write("train-a", "model fetched", container="fetch")
        server.write("train-a", "trained")
        status = ended(0) | {"initContainerStatuses": [container(terminated(0), name="fetch")]}
        show(server, made, "train-a", status, initContainers=[{"name": "fetch"}])
        complete(server)

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).attempts == 1
    assert sorted(told.logs) == ["[train-a/fetch] model fetched", "[train-a/worker] trained"]


# -- queues --------------------------------------------------------------------------------------------------------------

QUEUED = job(suspend=True) | {"metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}}}


def test_a_queued_job_says_what_it_waits_for(server, cluster, told, meanwhile):
    short = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor t4, 1 more needed"
    pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": short}
    preempted = true("Evicted", "Preempted", "Preempted to accommodate a workload in the ClusterQueue")

    def life():
        made = ready(server)
        server.wait("list", "workloads")
        uid = made["metadata"]["uid"]
        until(lambda: told.has("not processed"))
        server.put("workloads", workload(uid, pending))
        polled(server)
        server.put("workloads", workload(uid, true("QuotaReserved"), admission={"clusterQueue": "gpus"}))
        polled(server)
        check = [{"name": "capacity", "state": "Pending"}]
        server.put("workloads", workload(uid, true("QuotaReserved"), admission={"clusterQueue": "gpus"}, admissionChecks=check))
        polled(server)
        server.put("workloads", workload(uid, preempted))
        polled(server)
        server.put("workloads", workload(uid, true("QuotaReserved"), true("Admitted"), admission={"clusterQueue": "gpus"}))
        polled(server)
        server.put("jobs", made | {"spec": made["spec"] | {"suspend": False}})
        told_admitted()
        complete(server)

    def told_admitted():
        until(lambda: told.has("admitted by gpus"))

    meanwhile(life)
    assert run(QUEUED, cluster, OPTIONS, told).ok
    assert told.lines[1:-1] == [
        "train: queued in team-a: Kueue has not processed it yet",
        f"train: queued in team-a: Pending: {short}",
        "train: queued in team-a: it has its quota of gpus and is about to start",
        "train: queued in team-a: it has its quota of gpus and waits for capacity (Pending)",
        "train: queued in team-a: evicted: Preempted: Preempted to accommodate a workload in the ClusterQueue",
        *[line for line in told.lines[1:-1] if line.endswith("gpus and is about to start")][1:],
        "train: admitted by gpus",
    ]
    assert server.asked("list", "workloads")[0].query["labelSelector"].startswith("kueue.x-k8s.io/job-uid=uid-")


def test_a_suspended_job_in_a_cluster_without_kueue_says_so(server, cluster, told, meanwhile):
    server.reply("list", "workloads", Reply(404, status(404, "NotFound", "the server could not find the requested resource")))

    def life():
        ready(server)
        until(lambda: told.has("no Kueue"))
        complete(server)

    meanwhile(life)
    assert run(QUEUED, cluster, OPTIONS, told).ok
    assert "train: suspended for queue team-a, and the cluster has no Kueue to start it" in told.lines


def test_a_suspended_job_without_a_queue_says_who_must_act(server, cluster, told, meanwhile):
    def life():
        ready(server)
        until(lambda: told.has("suspended"))
        complete(server)

    meanwhile(life)
    run(job(suspend=True), cluster, OPTIONS, told)
    assert "train: suspended: it starts when its spec.suspend is set to false" in told.lines


# -- failures ------------------------------------------------------------------------------------------------------------


def test_a_failure_is_told_with_its_exit_code_and_the_tries(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        for index, name in enumerate(("train-a", "train-b")):
            server.write(name, f"try {index}")
            show(server, made, name, ended(2, message="CUDA error: no device\n"))
            until(partial(told.has, f"{name}: exit code 2"))
            until(partial(told.logged, index + 1))
        fail(server)

    meanwhile(life)
    result = run(job(backoffLimit=1), cluster, OPTIONS, told)
    assert "train-a: exit code 2: CUDA error: no device; attempt 1 of 2, the Job controller creates another pod" in told.lines
    assert "train-b: exit code 2: CUDA error: no device; attempt 2 of 2" in told.lines
    assert told.logs == ["try 0", "[train-b/worker] try 1"], "once there are two, it says which"
    assert (result.outcome, result.status, result.exit_code, result.attempts) == (Outcome.FAILED, 1, 2, 2)
    assert result.reason == (
        "BackoffLimitExceeded: Job has reached the specified backoff limit; last train-b: exit code 2: CUDA error: no device"
    )
    assert told.lines[-1].startswith("train: failed after 0s: BackoffLimitExceeded")


def test_a_container_that_starts_again_in_its_pod_counts_as_a_try(server, cluster, told, meanwhile):
    again = job()
    again["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"

    def life():
        made = ready(server)
        server.write("train-a", "first")
        show(server, made, "train-a", running())
        server.wait("get", "pods/log")
        until(lambda: told.logs == ["first"])
        server.write("train-a", "last words")
        server.logs["train-a", "worker"].runs.append([])
        last = terminated(137, "OOMKilled", run=0)
        wait = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
        show(server, made, "train-a", {"phase": "Running", "containerStatuses": [container(wait, 0, last)]})
        polled(server)
        show(server, made, "train-a", running(1, last))
        polled(server)
        server.write("train-a", "second")
        until(lambda: "second" in told.logs)
        show(server, made, "train-a", {"phase": "Succeeded", "containerStatuses": [container(terminated(0, run=1), 1, last)]})
        complete(server)

    meanwhile(life)
    result = run(again, cluster, OPTIONS, told)
    memory = "out of memory: worker used more than its memory limit of 16Gi, and /dev/shm counts too; ask for more (--memory)"
    assert f"train-a: {memory}; attempt 1 of 4, it starts again" in told.lines
    assert told.logs == ["first", "last words", "second"]
    assert (result.ok, result.attempts) == (True, 2)


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("EvictionByEvictionAPI", "evicted: its node is being drained, for example because the cloud interrupts a spot node"),
        ("PreemptionByScheduler", "preempted: the scheduler gave its place to a pod of higher priority"),
        (
            "DeletionByTaintManager",
            "evicted: its node got a taint that it does not tolerate, for example because the node was lost",
        ),
        ("DeletionByPodGC", "lost: its node is gone"),
        ("TerminationByKubelet", "ended by its node, which shuts down or runs out of resources"),
        ("OfTomorrow", "evicted: OfTomorrow"),
    ],
)
def test_a_pod_that_is_taken_away_is_made_again(server, cluster, told, meanwhile, reason, words):
    def life():
        made = ready(server)
        server.write("train-a", "half")
        show(server, made, "train-a", disrupted(reason, "Eviction API: evicting"))
        until(lambda: told.has(words))
        server.remove("pods", "train-a")
        server.write("train-b", "whole")
        show(server, made, "train-b", ended(0))
        complete(server)

    meanwhile(life)
    result = run(job(), cluster, OPTIONS, told)
    line = f"train-a: {words} (Eviction API: evicting); the Job controller creates another pod, while retries are left"
    assert line in told.lines
    assert not told.has("exit code 137"), "the exit code of a pod that was taken away says nothing of the job"
    assert result.ok
    assert "[train-b/worker] whole" in told.logs


def test_an_eviction_for_good_is_an_outcome_of_its_own(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        show(server, made, "train-a", {"phase": "Failed", "reason": "Evicted", "message": "low on resource: memory."})
        fail(server)

    meanwhile(life)
    result = run(job(backoffLimit=0), cluster, OPTIONS, told)
    assert (result.outcome, result.status) == (Outcome.EVICTED, 1)
    assert f"evicted: node {NODE} is short of resources: low on resource: memory." in result.reason


def test_a_disruption_that_the_job_forgives_is_no_try(server, cluster, told, meanwhile):
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}

    def life():
        made = ready(server)
        show(server, made, "train-a", disrupted("EvictionByEvictionAPI", ""))
        until(lambda: told.has("does not count as an attempt"))
        complete(server)

    meanwhile(life)
    assert run(job(podFailurePolicy={"rules": [rule]}), cluster, OPTIONS, told).ok


def test_a_pod_that_the_device_plugin_refuses_is_told(server, cluster, told, meanwhile):
    message = "Pod Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0"

    def life():
        made = ready(server)
        show(server, made, "train-a", {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message})
        until(lambda: told.has("refused it"))
        complete(server)

    meanwhile(life)
    run(job(), cluster, OPTIONS, told)
    words = f"node {NODE} refused it, because its device plugin could not provide the requested devices: {message}"
    assert f"train-a: {words}; attempt 1 of 4, the Job controller creates another pod" in told.lines


def test_a_job_that_outlives_its_deadline_is_told_so(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        server.write("train-a", "slow")
        show(server, made, "train-a", running())
        server.wait("get", "pods/log")
        until(lambda: told.logs == ["slow"])
        del server.logs["train-a", "worker"]
        server.remove("pods", "train-a")
        fail(server, "DeadlineExceeded", "Job was active longer than specified deadline")

    meanwhile(life)
    result = run(job(activeDeadlineSeconds=60), cluster, OPTIONS, told)
    assert (result.outcome, result.status) == (Outcome.DEADLINE, 1)
    assert result.reason == "DeadlineExceeded: Job was active longer than specified deadline (60s)"
    assert told.logs == ["slow"]


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"])
def test_a_container_that_cannot_be_made_is_given_up_after_a_while(server, cluster, told, meanwhile, reason):
    def life():
        made = ready(server)
        show(server, made, "train-a", waiting(reason, 'Back-off pulling image "ghcr.io/example/train:1.4"'))

    meanwhile(life)
    result = run(job(), cluster, OPTIONS, told)
    assert (result.outcome, result.status) == (Outcome.STUCK, 1)
    assert result.reason == f'train-a cannot start: {reason}: Back-off pulling image "ghcr.io/example/train:1.4"'
    assert result.seconds >= 0.2
    assert told.lines[-1].startswith("train: it still exists; delete it: gpu-ci submit delete train -n ml --kubeconfig ")


def test_what_can_never_start_is_given_up_at_once(server, cluster, told, meanwhile):
    meanwhile(lambda: show(server, ready(server), "train-a", waiting("InvalidImageName", "couldn't parse image")))
    patient = dataclasses.replace(OPTIONS, stuck_after=3600)
    assert run(job(), cluster, patient, told).outcome is Outcome.STUCK


def test_an_image_that_comes_after_all_is_no_failure(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        show(server, made, "train-a", waiting("ErrImagePull", "timeout"))
        polled(server)
        show(server, made, "train-a", waiting("ContainerCreating"))
        until(lambda: told.has("starting on node"))
        show(server, made, "train-a", ended(0))
        server.write("train-a")
        complete(server)

    meanwhile(life)
    assert run(job(), cluster, dataclasses.replace(OPTIONS, stuck_after=5), told).ok


def test_a_job_that_nobody_starts_is_given_up_if_asked(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        show(server, made, "train-a", unscheduled("0/3 nodes are available"), node="")

    meanwhile(life)
    result = run(job(), cluster, RunOptions(start_within=0.3, timing=TIMING), told)
    assert (result.outcome, result.status) == (Outcome.LATE, 1)
    assert result.reason == (
        "none of its containers ran within 0.3s; the last message was: pending: no node for it yet: 0/3 nodes are available"
    )


def test_a_quota_that_keeps_pods_from_being_made_is_told(server, cluster, told, meanwhile):
    full = 'Error creating: pods "train-" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1'

    def life():
        made = ready(server)
        server.put("events", event(made["metadata"]["uid"], "FailedCreate", full, "Warning"))
        until(lambda: told.has("exceeded quota"))
        complete(server)

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).ok
    assert told.lines.count(f"train: its pod cannot be created: {full}") == 1, "though it is checked again and again"


def test_a_job_that_somebody_deletes_ends_following(server, cluster, told, meanwhile):
    def life():
        ready(server)
        server.remove("jobs", "train")

    meanwhile(life)
    result = run(job(), cluster, OPTIONS, told)
    assert (result.outcome, result.status, result.reason) == (Outcome.DELETED, 1, "it was deleted before its end was seen")


def test_another_job_of_the_same_name_is_not_followed(server, cluster, told, meanwhile):
    def life():
        made = ready(server)
        other = made | {"metadata": made["metadata"] | {"uid": "uid-other"}, "status": {"conditions": [true("Complete")]}}
        server.put("jobs", other)

    meanwhile(life)
    assert run(job(), cluster, OPTIONS, told).outcome is Outcome.DELETED


def test_no_secret_and_no_token_is_ever_told(server, cluster, told, meanwhile):
    secret = job()
    secret["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "PLAIN", "value": "value-of-env"})

    def life():
        made = ready(server)
        show(server, made, "train-a", ended(1))
        server.write("train-a")
        fail(server)

    meanwhile(life)
    result = run(secret, cluster, OPTIONS, told)
    assert not re.search(r"token-that|value-of-env", repr((told.lines, told.logs, result)))
    assert all(request.headers["authorization"] == "Bearer token-that-nobody-may-see" for request in server.requests)
