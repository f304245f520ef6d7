"""The rules of `admission.toml` in a real API server: it refuses each failing case with our message, and no passing one."""

from __future__ import annotations

import copy
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet.facts.admission import RULES
from fleet.facts.manifest import manifest
from fleet.facts.scheduling import POD_SECURITY_LABEL, RUNNER_PRIORITY
from fleet.loading.config import fleet_of
from fleet.render.admission import admission, policy
from fleet.render.isolation import network_policy, wall
from policies.rules.pods import pod_specs
from policies.rules.read import Later
from tests.components.recorded import recorded, stack_config
from tests.conftest import SUMMARY
from tests.kwok.server import ServerApi, api_server, apply, missing
from tests.policies.admission_cases import BROKEN, HOME, NUMBERS, PASSING, TEAM, broken, pods_of_suites
from tests.policies.evasions.objects import Object, pod, spec
from tests.policies.harness import changed

pytestmark = [pytest.mark.kwok, pytest.mark.skipif(bool(missing()), reason=f"not on PATH: {', '.join(missing())}")]
_PATIENCE = 60
_SAID = re.compile(r"ValidatingAdmissionPolicy 'gpu-ci-([a-z-]+)' with binding")
_PLURAL = {"NetworkPolicy": "networkpolicies", "PriorityClass": "priorityclasses"}
EARLY = changed(pod(spec(runtimeClassName="nvidia")), "metadata", "name", "early")
"""A pod from before the rules, which breaks one."""
PERSON = "person"
"""A user who may do everything but with the policies themselves."""


def path_of(what: Object) -> str:
    """The path of an object's collection."""
    api, space = what["apiVersion"], what["metadata"].get("namespace")
    group = f"/apis/{api}" if "/" in api else f"/api/{api}"
    return f"{group}{f'/namespaces/{space}' if space else ''}/{_PLURAL.get(what['kind'], what['kind'].lower() + 's')}"


def said(api: ServerApi, verb: str, path: str, body: Object | None = None, user: str = PERSON) -> str:
    """What the API server answers to a user; empty if it admits the request. Nothing is kept if the path says so."""
    connection, token = api._connection(), api._token
    assert token is not None
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token.read_text(encoding='ascii')}"}
    headers |= {"Impersonate-User": user} if user else {}
    connection.request(verb, path, None if body is None else json.dumps(body).encode(), headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return "" if answer.status < 400 else json.loads(text)["message"]


def created(api: ServerApi, what: Object, user: str = PERSON) -> str:
    return said(api, "POST", f"{path_of(what)}?dryRun=All", what, user)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerApi]:
    with api_server(tmp_path_factory.mktemp("apiserver")) as api:
        rights = [{"apiGroups": ["", "networking.k8s.io", "scheduling.k8s.io"], "resources": ["*"], "verbs": ["*"]}]
        rights += [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"], "verbs": ["*", "bind", "escalate"]}]
        role = manifest("rbac.authorization.k8s.io/v1", "ClusterRole", PERSON) | {"rules": rights}
        ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PERSON}
        user = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PERSON}
        binding = manifest("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", PERSON) | {"roleRef": ref, "subjects": [user]}
        first = manifest("scheduling.k8s.io/v1", "PriorityClass", RUNNER_PRIORITY.name) | {"value": RUNNER_PRIORITY.value}
        classes = [
            manifest("node.k8s.io/v1", "RuntimeClass", name) | {"handler": name} for name in ("nvidia", "nvidia-legacy", "gvisor")
        ]
        spaces = [manifest("v1", "Namespace", name) for name in (TEAM, "opened", "serving", HOME)]
        spaces[1]["metadata"]["labels"] = {POD_SECURITY_LABEL: "privileged"}
        apply(api, [first, *classes, *spaces, role, binding, wall("runners", HOME, network_policy()), EARLY])
        for rule in RULES:
            apply(api, policy(rule, NUMBERS, ["kube-system", "serving"]))
        # The API server compiles a new policy a moment after it is there.
        end = time.monotonic() + _PATIENCE
        while any(not created(api, BROKEN[rule.id][0]) for rule in RULES):
            assert time.monotonic() < end, "a policy judges nothing"
            time.sleep(0.2)
        yield api


def test_it_refuses_each_failing_case_with_our_message_and_admits_each_passing_one(server: ServerApi) -> None:
    for rule in RULES:
        for what in BROKEN[rule.id]:
            answer = created(server, what)
            assert f"'gpu-ci-{rule.id}'" in answer, (rule.id, what, answer)
            assert f"{rule.message} (policy {rule.policy})" in answer
        for what in PASSING[rule.id]:
            assert created(server, what) == "", (rule.id, what)


def test_it_and_the_policies_agree_on_the_pods_of_all_suites_and_evasions(
    server: ServerApi, record_property: Callable[[str, object], None]
) -> None:
    differences, compared, refused, invalid = [], 0, 0, 0
    for what in pods_of_suites():
        answer, rules = created(server, what), broken(what)
        named = _SAID.search(answer)
        if answer and named is None:
            # Another rule of Kubernetes refuses the pod before any policy sees it.
            invalid += 1
            continue
        compared += 1
        refused += bool(named)
        if bool(named) is not bool(rules) or (named is not None and named[1] not in rules):
            differences.append((what, rules, answer))
    assert not differences
    assert compared > 60
    record_property(
        SUMMARY,
        f"admission: {compared} pods of suites and evasions compared, {refused} refused by both, 0 differences; "
        f"{invalid} pods are invalid in any cluster",
    )


def test_pods_of_the_system_are_not_judged(server: ServerApi) -> None:
    for rule in (rule for rule in RULES if rule.kind == "Pod"):
        for what in BROKEN[rule.id]:
            for space in ("serving", "opened"):
                assert created(server, changed(what, "metadata", "namespace", space)) == ""


def test_a_pod_that_was_there_before_keeps_its_labels_but_gets_no_debugger_with_gpus(server: ServerApi) -> None:
    """A Job's controller takes a finalizer from each pod that ended, also from one that a rule would refuse today."""
    path = f"{path_of(EARLY)}/early"
    there = server.call("GET", path)
    labelled = changed(there, "metadata", "labels", {"a": "b"})
    assert said(server, "PUT", f"{path}?dryRun=All", labelled) == ""
    debugger = {"name": "debug", "image": "example.com/debug:1", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    with_debugger = changed(there, "spec", "ephemeralContainers", [debugger])
    answer = said(server, "PUT", f"{path}/ephemeralcontainers?dryRun=All", with_debugger)
    assert _SAID.search(answer), answer


def test_only_who_may_delete_the_policies_changes_what_isolates_runners(server: ServerApi) -> None:
    mine = wall("runners", HOME, network_policy())
    path = f"{path_of(mine)}/runners"
    there = server.call("GET", path)
    other = copy.deepcopy(there)
    other["spec"] = network_policy(opened=["10.20.0.0/24"])
    for user, refused in ((PERSON, True), ("", False)):
        assert ("gpu-ci-runner-network" in said(server, "PUT", f"{path}?dryRun=All", other, user)) is refused
        assert ("gpu-ci-runner-network" in said(server, "DELETE", f"{path}?dryRun=All", None, user)) is refused
        assert ("gpu-ci-runner-level" in created(server, BROKEN["runner-level"][0], user)) is refused
    # A label does not change what the policy lets through.
    there["metadata"]["labels"] = {"a": "b"}
    assert said(server, "PUT", f"{path}?dryRun=All", there) == ""


def test_who_may_delete_the_policies_is_held_by_the_rules_for_pods(server: ServerApi) -> None:
    for rule in (rule for rule in RULES if rule.kind == "Pod"):
        assert f"gpu-ci-{rule.id}" in created(server, BROKEN[rule.id][0], "")


@pytest.mark.parametrize("stack", ["gpu-work", "homelab"])
def test_the_rules_of_a_stack_admit_the_pods_that_it_declares(tmp_path: Path, stack: str) -> None:
    (settings, *_) = fleet_of(stack_config(stack)).clusters.values()
    objects = [one for one in recorded(stack).resources if "metadata" in one.inputs]
    before = [one.inputs for one in objects if one.inputs["kind"] in ("Namespace", "PriorityClass")]
    made = [
        pod(copy.deepcopy(each.spec)) | {"metadata": {"name": "a", "namespace": one.inputs["metadata"]["namespace"]}}
        for one in objects
        for each in pod_specs(one.type, one.inputs, Later())
        if not each.step and one.inputs["kind"] != "Application"
    ]
    with api_server(tmp_path) as api:
        there = {(one["kind"], one["metadata"]["name"]): one for one in before}
        apply(api, [*there.values(), *admission(settings.model_copy(update={"admission": True}))])
        (space, *_) = (what["metadata"]["namespace"] for what in made if what["metadata"]["namespace"] != "coral")
        end = time.monotonic() + _PATIENCE
        while "gpu-ci-image-version" not in created(api, changed(BROKEN["image-version"][0], "metadata", "namespace", space), ""):
            assert time.monotonic() < end, "a policy judges nothing"
            time.sleep(0.2)
        for what in made:
            for one in what["spec"]["containers"]:
                # Without --allow-privileged this API server refuses it before it asks any policy.
                one.get("securityContext", {}).pop("privileged", None)
            assert created(api, what, "") == "", what
