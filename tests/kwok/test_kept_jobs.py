"""What a real API server lets the group of `keepFailed` do, and that it admits the pod of such a class."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from fleet.facts.manifest import manifest
from fleet.facts.scheduling import RUNNER_PRIORITY
from fleet.render.isolation import namespace
from fleet.render.kept_jobs import kept_jobs
from tests.fleet.test_kept_jobs import HOME, fleet, pods
from tests.kwok.server import ServerApi, api_server, apply, missing

pytestmark = [pytest.mark.kwok, pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}")]
OTHER = "runners-gpu-v100"
_PATIENCE = 30
_VERBS = ("get", "list", "watch", "create", "delete", "patch")
_KINDS = (
    *product([""], ["pods", "pods/log", "pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers"]),
    *product([""], ["secrets", "configmaps", "serviceaccounts/token", "nodes"]),
    ("actions.github.com", "ephemeralrunners"),
    ("rbac.authorization.k8s.io", "rolebindings"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerApi]:
    priority = manifest("scheduling.k8s.io/v1", "PriorityClass", RUNNER_PRIORITY.name) | {"value": RUNNER_PRIORITY.value}
    with api_server(tmp_path_factory.mktemp("apiserver")) as api:
        apply(api, [priority, namespace(HOME, "restricted"), namespace(OTHER, "restricted"), *kept_jobs(pods(fleet()))])
        # The authorizer reads roles some moments after they are stored.
        end = time.monotonic() + _PATIENCE
        while not rights(api, HOME, "gpu-ci-debug"):
            assert time.monotonic() < end, "the group has no right"
            time.sleep(0.05)
        yield api


def rights(api: ServerApi, space: str, *groups: str) -> set[tuple[str, str]]:
    """The (kind, verb) that members of these groups may use in a namespace. `kubectl auth can-i` asks the same."""

    def may(group: str, kind: str, verb: str) -> bool:
        resource, _, part = kind.partition("/")
        asked: dict[str, Any] = {"namespace": space, "group": group, "resource": resource, "subresource": part, "verb": verb}
        review = manifest("authorization.k8s.io/v1", "SubjectAccessReview", "", "", {"user": "one", "groups": list(groups)})
        review["spec"]["resourceAttributes"] = asked
        answer = api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    return {(kind, verb) for (group, kind), verb in product(_KINDS, _VERBS) if may(group, kind, verb)}


def test_the_group_looks_into_its_class_alone_and_reads_no_secret(server: ServerApi) -> None:
    assert rights(server, HOME, "gpu-ci-debug", "system:authenticated") == {
        ("pods", "get"),
        ("pods", "list"),
        ("pods/log", "get"),
        ("pods/exec", "get"),
        ("pods/exec", "create"),
    }
    assert rights(server, OTHER, "gpu-ci-debug", "system:authenticated") == set()
    assert rights(server, HOME, "system:authenticated") == set()


def test_the_api_server_admits_the_pod_with_the_hook(server: ServerApi) -> None:
    pod = manifest("v1", "Pod", "gpu-t4-x7k2p-runner-abcde", HOME, pods(fleet()).chart.values["template"]["spec"])
    made = server.call("POST", f"/api/v1/namespaces/{HOME}/pods?dryRun=All", pod)
    (container,) = made["spec"]["containers"]
    assert "keep-failed" in {mount["name"] for mount in container["volumeMounts"]}
