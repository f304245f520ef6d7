"""Sweeps beside runner sets: what waits for what, by Helm, by Argo CD and in clusters that exist already."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.charts.sweeps import NAMESPACE
from gpu_ci.offline.recording import Recording, Resource
from tests.components.recorded import before, named, of_type, recorded, recordings

SWEEPS = "gpu-ci:index:Sweeps"
ROLE = "kubernetes:rbac.authorization.k8s.io/v1:Role"
BINDING = "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def waits_for(recording: Recording, resource: Resource) -> set[str]:
    return {recording.by_urn[urn].type.rpartition(":")[2] for urn in resource.dependencies if urn in recording.by_urn}


def test_the_reaper_starts_after_its_account_its_program_and_its_wall() -> None:
    found = recorded("staging")
    pod = named(found, "usw2-sweeps.runner-reaper", DEPLOYMENT)
    assert waits_for(found, pod) >= {"Namespace", "NetworkPolicy", "ServiceAccount", "ConfigMap"}


def test_a_role_is_in_the_namespace_of_each_set_and_of_the_controller_and_comes_after_it() -> None:
    found = recorded("staging")
    roles, bindings = of_type(found, ROLE), of_type(found, BINDING)
    spaces = {each.inputs["metadata"]["name"]: each.urn for each in of_type(found, "kubernetes:core/v1:Namespace")}
    sets = {name for name in spaces if name.startswith("runners-")}
    assert {each.inputs["metadata"]["namespace"] for each in roles} == sets | {"arc-systems"}
    for each in (*roles, *bindings):
        assert spaces[each.inputs["metadata"]["namespace"]] in before(found, each), each.name
    for binding in bindings:
        assert "Role" in waits_for(found, binding), "the API server looks the role up"


@pytest.mark.parametrize("stack", ["existing-eks", "existing-oke", "existing-context"])
def test_a_cluster_that_exists_already_gets_the_reaper_too(stack: str) -> None:
    found = recorded(stack)
    (pod,) = [each for each in of_type(found, DEPLOYMENT) if each.inputs["metadata"]["namespace"] == NAMESPACE]
    assert waits_for(found, pod) >= {"ServiceAccount", "ConfigMap"}


def test_with_argo_cd_the_reaper_is_in_git_and_nowhere_else() -> None:
    program, git = recordings("gitops")
    assert program is not None
    assert git is not None
    assert not of_type(program, SWEEPS)
    assert of_type(git, SWEEPS)
    for each in of_type(git, ROLE):
        assert isinstance(each.inputs["metadata"]["namespace"], str), "Git has no value of the cloud"


def test_every_object_has_a_type_that_the_kubernetes_provider_takes() -> None:
    """Its type has a group and a version; the group of the API version v1 is core (pulumi-kubernetes, gvkFromURN)."""
    types: set[Any] = {each.type for stack in ("staging", "monitoring") for each in recorded(stack).resources}
    ours = [each for each in types if each.startswith("kubernetes:")]
    assert "kubernetes:core/v1:ConfigMap" in ours
    assert [each for each in ours if each.split(":")[1].count("/") != 1] == []
