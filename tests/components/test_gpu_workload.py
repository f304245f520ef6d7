"""Workloads as resources: each object its own, after its namespace and the wall around it, waited for by nothing."""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate
import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.build import build as build_fleet
from components.kubernetes.in_cluster import Inside
from components.kubernetes.inside import install
from fleet.facts.scheduling import JOB_PRIORITIES, POD_SECURITY_LABEL, RUNNER_PRIORITY, SKIP_AWAIT
from fleet.loading.config import load
from fleet.prove.placement import PlacementError
from gpu_ci.offline.recording import Recording, Resource
from tests.builders import cluster, config
from tests.cases import cases
from tests.charts import objects
from tests.components.recorded import before, build_alone, of_type
from tests.fleet.test_isolation import MINORS
from tests.fleet.workloads.world import GPU_KINDS, workload

NAMESPACE = "kubernetes:core/v1:Namespace"
NETWORK = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
WORKLOAD = "gpu-ci:index:GpuWorkload"
ALL = {kind: workload(kind) for kind in GPU_KINDS}
TOKENS = {
    "Deployment": "kubernetes:apps/v1:Deployment",
    "Job": "kubernetes:batch/v1:Job",
    "NetworkPolicy": NETWORK,
    "PersistentVolumeClaim": "kubernetes:core/v1:PersistentVolumeClaim",
    "Service": "kubernetes:core/v1:Service",
}


def build(workloads: dict[str, dict[str, Any]], **changes: Any) -> Recording:
    """The inside of a cluster with these workloads."""
    fleet = load(config(clusters={"usw2": cluster(workloads=workloads, **changes)}))

    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        opts = pulumi.ResourceOptions(providers=[provider])
        ready = [kubernetes.core.v1.ConfigMap("ready", opts=pulumi.ResourceOptions(provider=provider))]
        install(Inside("usw2", fleet.clusters["usw2"], ready, opts), fleet, {"default": pulumi.Output.secret("key")})

    return build_alone(program, f"{workloads} {changes}")


@pytest.fixture(scope="module")
def recording() -> Recording:
    return build(ALL)


def of_workloads(recording: Recording) -> list[Resource]:
    """The objects of workloads."""
    components = {each.urn for each in of_type(recording, WORKLOAD)}
    return [each for each in recording.resources if each.parent in components]


def test_each_workload_is_a_component_of_its_name(recording):
    assert {each.name for each in of_type(recording, WORKLOAD)} == {f"usw2-{kind}" for kind in GPU_KINDS}


def test_every_manifest_is_a_resource_of_its_own_and_says_the_same(recording):
    found = load(config(clusters={"usw2": cluster(workloads=ALL)})).clusters["usw2"]
    wanted = {(TOKENS[each["kind"]], each["metadata"]["name"]): each for each in objects(found) if each["kind"] in TOKENS}
    walls = {key for key in wanted if key == (NETWORK, "team")}
    made = {(each.type, each.inputs["metadata"]["name"]): each for each in of_workloads(recording)}
    assert made.keys() == wanted.keys() - walls
    for key, resource in made.items():
        inputs = json.loads(json.dumps(resource.inputs))
        assert inputs["metadata"].pop("annotations") == {SKIP_AWAIT: "true"}, "an update waits for no node and no image"
        # A finished Job stays, so that no later update runs it again.
        spec = {name: value for name, value in wanted[key]["spec"].items() if name != "ttlSecondsAfterFinished"}
        assert {"metadata": inputs["metadata"], "spec": inputs["spec"]} == {"metadata": wanted[key]["metadata"], "spec": spec}
        assert resource.delete_before_replace is True, "its name is fixed"


@cases("minor", MINORS)
def test_the_objects_are_valid_as_they_are_sent(recording, minor):
    for each in of_workloads(recording):
        kubernetes_validate.validate(json.loads(json.dumps(each.inputs)), minor, strict=True)


def test_namespaces_are_declared_once_with_their_level_and_a_wall(recording):
    levels = {
        each.inputs["metadata"]["name"]: each.inputs["metadata"]["labels"][POD_SECURITY_LABEL]
        for each in of_type(recording, NAMESPACE)
        if each.inputs["metadata"]["name"] in ("ai", "coral")
    }
    assert levels == {"ai": "restricted", "coral": "privileged"}
    walls = [each for each in of_type(recording, NETWORK) if each.inputs["metadata"]["name"] == "team"]
    assert sorted(each.inputs["metadata"]["namespace"] for each in walls) == ["ai", "coral"]


def test_a_workload_stands_after_its_namespace_its_wall_its_volume_and_the_classes_of_its_pods(recording):
    spaces = {each.inputs["metadata"]["name"]: each.urn for each in of_type(recording, NAMESPACE)}
    walls = {
        each.inputs["metadata"]["namespace"]: each.urn
        for each in of_type(recording, NETWORK)
        if each.inputs["metadata"]["name"] == "team"
    }
    classes = {each.inputs["metadata"]["name"]: each.urn for each in of_type(recording, PRIORITY)}
    every = {each.name for each in (*JOB_PRIORITIES, RUNNER_PRIORITY)}
    assert every <= classes.keys()
    for each in of_workloads(recording):
        stands = before(recording, each)
        namespace = each.inputs["metadata"]["namespace"]
        assert {spaces[namespace], walls[namespace]} <= stands, each.name
        assert {classes[name] for name in every} <= stands
        if each.type == TOKENS["Deployment"]:
            siblings = [other for other in of_workloads(recording) if other.parent == each.parent and other is not each]
            assert {other.urn for other in siblings} <= stands


def test_in_a_teams_namespace_a_workload_has_the_teams_walls_and_waits_for_no_queue():
    queues = {"teams": {"research": {"namespaces": ["ai"], "quotas": [{"pool": "t4", "nominal": 1}]}}}
    recording = build({"ollama": workload("ollama")}, queues=queues)
    server = next(each for each in of_type(recording, TOKENS["Deployment"]) if "ollama" in each.name)
    stands = before(recording, server)
    for token in (NAMESPACE, NETWORK, "kubernetes:core/v1:LimitRange"):
        own = [
            each
            for each in of_type(recording, token)
            if "ai" in (each.inputs["metadata"].get("namespace"), each.inputs["metadata"]["name"])
        ]
        assert len(own) == 1, "declared once"
        assert own[0].urn in stands
    queued = [each for each in recording.resources if each.type.endswith("Queue") and each.type.startswith("kubernetes:")]
    assert len(queued) == 3
    assert not stands & {each.urn for each in queued}, "Kueue takes Jobs alone"


def test_a_cluster_without_workloads_has_none_of_it():
    recording = build({})
    tokens = {each.type for each in recording.resources}
    assert not tokens & {WORKLOAD, "gpu-ci:index:Priorities", "gpu-ci:index:Namespaces"}


@pytest.mark.usefixtures("loop")
def test_a_workload_that_does_not_fit_stops_the_program_before_the_first_resource():
    fleet = load(config(clusters={"usw2": cluster(workloads={"big": workload("ollama", gpus=2)})}))
    with pytest.raises(PlacementError, match=r"usw2\.workloads\.big: asks for 2 GPUs"):
        build_fleet(fleet, "gpu-ci", "test", {"default": pulumi.Output.secret("key")})
