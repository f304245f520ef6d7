"""GitHub's own hooks, behind our program, make the pods of jobs on a real API server with what the program installs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.render.sweeps.api import Object
from tests.hooks.needs import HOOKS, NEEDS
from tests.hooks.runner import Runner, Step
from tests.hooks.world import HOME, JOBS, World, example, world

pytestmark = NEEDS
_IMAGE = "python:3.12"
_PODS = f"/api/v1/namespaces/{JOBS}/pods"
_CHECK = "--health-cmd 'test -e /tmp/up || { touch /tmp/up; exit 1; }' --health-interval 1s --health-retries 30"
"""Succeeds the second time."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("cluster"), HOOKS, example()) as made:
        yield made


def fine(steps: Iterator[Step] | list[Step]) -> list[Step]:
    """The steps of a job, if all succeeded."""
    ended = list(steps)
    assert [one.status for one in ended] == [0] * len(ended), [one for one in ended if one.status]
    return ended


def job_pod(cluster: World, runner: Runner) -> Object:
    """The pod of the runner's job."""
    name = f"{runner.pod['metadata']['name']}-workflow"
    return cluster.api.call("GET", f"{_PODS}/{name}")


def refused(error: pytest.ExceptionInfo[urllib.error.HTTPError]) -> int:
    return error.value.code


def test_steps_share_the_workspace_the_variables_and_the_outputs_in_a_pod_with_the_gpu(cluster: World) -> None:
    job = {
        "container": {"image": _IMAGE, "env": {"MODE": "job"}},
        "env": {"TOP": "job"},
        "steps": [
            {"id": "first", "run": 'echo "answer=42" >> "$GITHUB_OUTPUT"; echo "LATER=yes" >> "$GITHUB_ENV"; echo made > file'},
            {"run": 'cat file; echo "$MODE $TOP $LATER ${{ steps.first.outputs.answer }}"; pwd', "env": {"TOP": "step"}},
            {"run": "exit 3", "continue-on-error": True},
            {"run": "echo after; ls /__e/node20/bin /github", "shell": "bash", "working-directory": ".."},
        ],
    }
    with cluster.runner() as runner:
        steps = runner.run(job)
        assert next(steps).status == 0
        pod = job_pod(cluster, runner)
        first, second, third, fourth, last = list(steps)
    assert first.outputs == {"answer": "42"}
    assert second.output == "made\njob step yes 42\n/__w/app/app\n"
    assert third.status == 1
    assert "failed to run script step" in third.output
    assert fourth.output.startswith("after\n/__e/node20/bin:\nnode\n")
    assert last.status == 0
    assert cluster.left == []
    assert runner.pod["spec"]["nodeName"].startswith("runners-")
    assert pod["spec"]["nodeName"].startswith("t4-")
    (container,) = pod["spec"]["containers"]
    assert container["image"] == _IMAGE
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"


def test_a_container_action_has_a_pod_without_a_gpu_and_sees_the_workspace(cluster: World) -> None:
    arguments = {"entrypoint": "/bin/sh", "args": "-c ls;env"}
    job = {
        "container": _IMAGE,
        "steps": [{"run": "touch made"}, {"uses": "docker://alpine:3.22", "with": arguments, "env": {"WHO": "me"}}],
    }
    with cluster.runner() as runner:
        ended = fine(runner.run(job))
    assert ended[2].output.startswith("made\n")
    (pod,) = (
        one
        for one in cluster.nodes.made.values()
        if one["metadata"]["name"].startswith(f"{runner.pod['metadata']['name']}-step-")
    )
    (container,) = pod["spec"]["containers"]
    assert container["image"] == "alpine:3.22"
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert pod["spec"]["nodeName"].startswith("t4-")
    assert cluster.left == []


def test_services_have_names_ports_and_health_checks(cluster: World) -> None:
    services = {
        "db": {"image": "postgres:16", "ports": ["5433:5432"], "options": _CHECK, "env": {"POSTGRES_PASSWORD": "x"}},
        "cache": {"image": "redis:7", "ports": [6379]},
    }
    run = "getent hosts db cache localhost; echo ${{ job.services.db.ports['5432'] }} ${{ job.services.cache.ports[6379] }}"
    with cluster.runner() as runner:
        steps = runner.run({"container": _IMAGE, "services": services, "steps": [{"run": run}]})
        prepared = next(steps)
        assert prepared.status == 0, prepared.output
        pod = job_pod(cluster, runner)
        (step, _) = fine(steps)
    names = "127.0.0.1 db postgres cache redis"
    assert [" ".join(line.split()) for line in step.output.splitlines()] == [names, names, "127.0.0.1 localhost", "5432 6379"]
    job, db, cache = pod["spec"]["containers"]
    assert [one["name"] for one in (job, db, cache)] == ["job", "postgres", "redis"]
    assert db["ports"] == [{"containerPort": 5432, "protocol": "TCP"}]
    assert db["readinessProbe"]["exec"]["command"][:2] == ["/bin/sh", "-c"]
    assert cache["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
    assert all(one["ready"] for one in pod["status"]["containerStatuses"]), "the job started before its service was healthy"
    assert cluster.left == []


def test_a_service_that_is_never_healthy_fails_the_job(cluster: World) -> None:
    check = "--health-cmd false --health-interval 1s --health-timeout 1s --health-retries 2"
    with cluster.runner() as runner:
        prepared, _ = runner.run(
            {"container": _IMAGE, "services": {"db": {"image": "postgres:16", "options": check}}, "steps": []}
        )
    assert prepared.status == 1
    assert "::error::The service db is not healthy after 4 seconds." in prepared.output
    assert cluster.left == []


def test_a_job_with_more_services_than_its_class_has_room_for_is_refused_with_the_way_out(cluster: World) -> None:
    services = {name: {"image": name} for name in ("redis", "postgres", "mysql")}
    with cluster.runner() as runner:
        prepared, _ = runner.run({"container": _IMAGE, "services": services, "steps": []})
    assert prepared.status == 1
    assert "a job of this class has at most 2 services; raise services.most of the class" in prepared.output
    assert cluster.left == []


def test_the_job_logs_in_to_its_registry_with_a_secret_that_goes_with_the_job(cluster: World) -> None:
    login = {"username": "octocat", "password": "${{ secrets.TOKEN }}"}
    with cluster.runner() as runner:
        job = {"container": {"image": "ghcr.io/acme/app:1", "credentials": login}, "steps": [{"run": "true"}]}
        steps = runner.run(job)
        assert next(steps).status == 0
        (secret,) = cluster.objects("secrets")
        assert secret["type"] == "kubernetes.io/dockerconfigjson"
        fine(steps)
    assert cluster.nodes.pulled["ghcr.io/acme/app:1"] == ["octocat@ghcr.io"]
    assert cluster.left == []


def started(cluster: World, runner: Runner, run: str) -> subprocess.Popen[str]:
    """A step that runs, once it has begun."""
    fine([runner.prepare({"container": _IMAGE})])
    (runner.temp / "step.sh").write_text(f"touch /__w/begun\n{run}\n", encoding="ascii")
    step = {
        "entryPoint": "sh",
        "entryPointArgs": ["-e", "/__w/_temp/step.sh"],
        "workingDirectory": "/__w",
        "environmentVariables": {},
    }
    line, body, _ = runner.call("run_script_step", step)
    pipe = subprocess.PIPE
    process = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    assert process.stdin is not None
    process.stdin.write(body)
    process.stdin.close()
    process.stdin = None
    work = cluster.nodes.folder / job_pod(cluster, runner)["metadata"]["uid"] / "volumes/work"
    cluster.until((work / "begun").exists)
    return process


@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_a_cancelled_job_leaves_nothing(cluster: World, name: str) -> None:
    with cluster.runner() as runner:
        process = started(cluster, runner, "sleep 30")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
        process.send_signal(signal.Signals[name])
        if name == "SIGKILL":  # The runner kills the whole tree.
            os.kill(int(children[0]), signal.SIGKILL)
        process.communicate(timeout=20)
        assert process.returncode in (128 + signal.SIGINT, -signal.SIGKILL)
        assert len(children) == 1
        cluster.until(lambda: not Path(f"/proc/{children[0]}").exists(), 5)
        assert cluster.left != []
        assert runner.cleanup().status == 0
        assert cluster.left == []


@pytest.mark.parametrize("end", ["evicted", "deleted"])
def test_a_step_whose_pod_is_lost_fails_and_says_why(cluster: World, end: str) -> None:
    with cluster.runner() as runner:
        process = started(cluster, runner, "sleep 60")
        pod, before = job_pod(cluster, runner), time.monotonic()
        if end == "evicted":
            cluster.nodes.status(
                pod, {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
            )
        else:
            cluster.api.call("DELETE", f"{_PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
        output, _ = process.communicate(timeout=40)
        reason = {"evicted": "Evicted: The node was low on resource: memory.", "deleted": "It is gone."}[end]
        assert process.returncode not in (0, None)
        assert f"::error::The job's pod {pod['metadata']['name']} has failed. {reason}" in output
        assert time.monotonic() - before < 30
        assert runner.cleanup().status == 0
    assert cluster.left == []


def test_two_jobs_at_once_have_their_own_pods(cluster: World) -> None:
    ended: dict[str, list[Step]] = {}

    def work(name: str) -> None:
        with cluster.runner() as runner:
            ended[name] = list(runner.run({"container": _IMAGE, "steps": [{"run": f"echo {name} > mine; sleep 1; cat mine"}]}))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
        time.sleep(0.3)  # so that each takes its own number
    for thread in threads:
        thread.join()
    assert {name: steps[1].output for name, steps in ended.items()} == {"one": "one\n", "two": "two\n"}
    assert cluster.left == []


def may(cluster: World, runner: Runner, verb: str, resource: str, namespace: str) -> bool:
    """Whether the API server says that the process in the runner's pod may do this."""
    asked = {"verb": verb, "resource": resource, "namespace": namespace}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
    answer = cluster.as_pod(runner).call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_the_runner_reads_no_secret_of_its_own_namespace_and_the_job_has_no_token(cluster: World) -> None:
    with cluster.runner() as runner:
        steps = runner.run({"container": _IMAGE, "steps": [{"run": "ls /var/run/secrets 2>/dev/null || echo none"}]})
        next(steps)
        pod = job_pod(cluster, runner)
        (step, _) = fine(steps)
        token = cluster.as_pod(runner)
        verbs = ("get", "list", "watch", "create", "delete", "update", "patch")
        assert [verb for verb in verbs if may(cluster, runner, verb, "secrets", HOME)] == []
        assert [verb for verb in verbs if may(cluster, runner, verb, "pods", HOME)] == []
        assert [verb for verb in verbs if may(cluster, runner, verb, "secrets", JOBS)] == ["get", "list", "create", "delete"]
        (app,) = (one["metadata"]["name"] for one in cluster.objects("secrets", HOME))
        for path in (
            f"/api/v1/namespaces/{HOME}/secrets/{app}",
            f"/api/v1/namespaces/{HOME}/secrets",
            "/api/v1/secrets",
            "/api/v1/nodes",
        ):
            with pytest.raises(urllib.error.HTTPError) as error:
                token.call("GET", path)
            assert refused(error) == 403
        assert token.call("GET", f"/api/v1/namespaces/{JOBS}/secrets")["items"] == []
    assert step.output == "none\n", "no service account is in the job's container"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert not any("projected" in volume for volume in pod["spec"]["volumes"])


def _spec(pod: Any) -> Any:
    return pod["spec"]


_ESCAPES: dict[str, Any] = {
    "another node": lambda pod: _spec(pod).update(nodeName="runners-m6i-large"),
    "another pool": lambda pod: _spec(pod).update(affinity={}, nodeSelector={"gpu-ci/pool": "runners"}),
    "another account": lambda pod: _spec(pod).update(serviceAccountName="default"),
    "a token": lambda pod: _spec(pod).update(automountServiceAccountToken=True),
    "more GPUs": lambda pod: _spec(pod)["containers"][0]["resources"]["limits"].update({"nvidia.com/gpu": "2"}),
    "no label": lambda pod: pod["metadata"].update(labels={}),
    "root of the node": lambda pod: _spec(pod).update(hostPID=True),
    "a folder of the node": lambda pod: _spec(pod)["volumes"].append({"name": "host", "hostPath": {"path": "/"}}),
}


@pytest.mark.parametrize("escape", [None, *_ESCAPES])
def test_the_runners_token_makes_no_pod_but_those_of_its_class(cluster: World, escape: str | None) -> None:
    with cluster.runner() as runner:
        fine([runner.prepare({"container": _IMAGE})])
        pod = json.loads(json.dumps(job_pod(cluster, runner)))
        fine([runner.cleanup()])
        labels = pod["metadata"]["labels"]
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "own", "labels": labels}, "spec": pod["spec"]}
        for key in ("nodeName", "priority", "preemptionPolicy"):
            pod["spec"].pop(key, None)
        token = cluster.as_pod(runner)
        if escape is None:
            token.call("POST", f"{_PODS}?dryRun=All", pod)
            return
        _ESCAPES[escape](pod)
        with pytest.raises(urllib.error.HTTPError) as error:
            token.call("POST", f"{_PODS}?dryRun=All", pod)
        assert refused(error) in (403, 422)


def test_a_restricted_class_runs_jobs_with_services_and_container_actions(tmp_path: Path) -> None:
    with world(tmp_path, HOOKS, example(podSecurity="restricted")) as cluster, cluster.runner() as runner:
        services = {"cache": {"image": "redis:7", "ports": ["6379:6379"]}}
        action = {"uses": "docker://alpine:3", "with": {"entrypoint": "true"}}
        fine(runner.run({"container": _IMAGE, "services": services, "steps": [{"run": "ls /__e/node20"}, action]}))
        assert cluster.left == []
