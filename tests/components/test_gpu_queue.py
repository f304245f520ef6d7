"""Kueue and the teams' queues as resources: each after what it needs, and none in the way of a runner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.kubernetes.queues import GpuQueue, LocalQueues, QueueController
from fleet.charts.kueue import KUEUE as RELEASE_NAME, kueue as kueue_chart
from fleet.facts.scheduling import JOB_PRIORITIES, RUNNER_PRIORITY
from fleet.loading.stackfile import StackConfig
from fleet.render.queues import queue_objects
from gpu_ci.offline.recording import Recording, Resource
from tests import plans
from tests.builders import oke_pool
from tests.cases import cases
from tests.components.oke import made, planned
from tests.components.recorded import before, build_alone, named, of_type, recorded, stack_config, with_clusters
from tests.fleet.kueue_rules import dangling, refused
from tests.fleet.queue_configs import OKE_POOLS, PROD, of
from tests.fleet.test_isolation import METADATA, MINORS, reaches
from tests.fleet.test_queues import schema

RELEASE = "kubernetes:helm.sh/v3:Release"
NAMESPACE = "kubernetes:core/v1:Namespace"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
KUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:"
FLAVOR, CLUSTER_QUEUE, LOCAL_QUEUE = f"{KUEUE}ResourceFlavor", f"{KUEUE}ClusterQueue", f"{KUEUE}LocalQueue"
WALLS = ("kubernetes:networking.k8s.io/v1:NetworkPolicy", "kubernetes:core/v1:LimitRange")
ML: dict[str, Any] = {
    "cohort": "gpu",
    "teams": {
        "ml": {"namespaces": ["ml", "ml-night"], "quotas": [{"pool": "a10", "nominal": 1, "borrow": 1}]},
        "web": {"namespaces": ["web"], "quotas": [{"pool": "a10", "nominal": 1}, {"pool": "v100", "nominal": 1}]},
    },
}
POOLS = {"a10": oke_pool(), "v100": oke_pool(instanceTypes=["VM.GPU3.1"], capacity="spot")}
QUOTA = [{"pool": "a10", "nominal": 1}]
JOINED: dict[str, Any] = {
    "pools": {"a10": oke_pool(nodes={"max": 2})},
    "queues": {"teams": {"a": {"namespaces": ["b-c"], "quotas": QUOTA}, "a-b": {"namespaces": ["c"], "quotas": QUOTA}}},
}
"""Names that would join to one: namespace b-c of team a, and c of team a-b."""


@pytest.fixture(scope="module", params=["prod", "reserved", "planned", "updated"])
def queued(request: pytest.FixtureRequest) -> Recording:
    """A stack with queues: prod with two teams, the example with reserved capacity, OKE clusters, previewed and updated."""
    if request.param == "prod":
        return plans.program(prod_with_queues())
    if request.param == "reserved":
        return recorded("reserved")
    return planned(**JOINED) if request.param == "planned" else made(pools=POOLS, queues=ML)


def prod_with_queues() -> StackConfig:
    """The production stack's config with its cluster use1 alone, and queues of these tests in the place of its own."""
    config = stack_config("prod")
    use1 = json.loads(config.values["gpu-ci:clusters"])["use1"]
    return with_clusters(config, {"use1": use1 | {"queues": PROD}})


def kueue(recording: Recording) -> Resource:
    (found,) = [each for each in of_type(recording, RELEASE) if each.inputs["name"] == RELEASE_NAME]
    return found


def manifests(recording: Recording) -> Iterator[Resource]:
    return (each for each in recording.resources if each.type.startswith(KUEUE))


def name_of(resource: Resource) -> str:
    return str(resource.inputs["metadata"]["name"])


def plain(resource: Resource) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(resource.inputs))
    return found


# -- what is made ------------------------------------------------------------------------------------------------------


def test_kueue_is_one_release_in_a_namespace_of_its_own(queued):
    release = kueue(queued)
    assert release.inputs["chart"] == "oci://registry.k8s.io/kueue/charts/kueue"
    assert release.inputs["namespace"] == "kueue-system"
    assert release.inputs["atomic"] is True
    assert release.inputs["skipAwait"] is False, "it is ready when its webhooks answer, and what follows needs them"
    (home,) = [each for each in of_type(queued, NAMESPACE) if name_of(each) == "kueue-system"]
    assert home.urn in release.dependencies
    assert home.inputs["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_every_object_is_one_that_kueue_takes(queued):
    found = [plain(each) for each in manifests(queued)]
    assert [fault for manifest in found for fault in refused(manifest)] == []
    assert dangling(found) == [], "registered in an order in which each names only what exists"


@pytest.mark.reference
def test_every_object_is_one_that_the_crds_take(queued):
    kinds = set()
    for each in manifests(queued):
        jsonschema.Draft202012Validator(schema(each.inputs["kind"])).validate(plain(each))
        kinds.add(each.inputs["kind"])
    assert kinds == {"ResourceFlavor", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass"}


def test_an_object_has_the_token_of_its_kind_and_every_field_of_its_manifest(queued):
    for each in manifests(queued):
        assert each.type == f"kubernetes:{each.inputs['apiVersion']}:{each.inputs['kind']}"
        assert each.custom, "an object of the cluster, no component"
    values = {name_of(each): each.inputs["value"] for each in of_type(queued, f"{KUEUE}WorkloadPriorityClass")}
    assert values == {each.name: each.value for each in JOB_PRIORITIES}, "a field beside metadata and spec"


@cases("minor", MINORS)
def test_kubernetes_own_objects_are_valid_as_they_are_sent(queued, minor):
    for token in (*WALLS, PRIORITY, NAMESPACE):
        for each in of_type(queued, token):
            kubernetes_validate.validate(plain(each), minor, strict=True)


def test_the_component_says_which_queues_a_job_may_name():
    recording = build_alone(_alone, "fixed")
    assert recording.outputs["queues"] == {"ml": ["ml", "default"], "ml-night": ["ml", "default"]}


def _alone() -> None:
    settings = of({"teams": {"ml": ML["teams"]["ml"] | {"quotas": [{"pool": "a10", "nominal": 1}]}}}, OKE_POOLS).clusters["usw2"]
    assert settings.queues is not None
    objects = queue_objects("usw2", settings, settings.queues)
    provider = kubernetes.Provider("cluster", kubeconfig="{}")
    opts = pulumi.ResourceOptions(providers=[provider])
    first = kubernetes.core.v1.ConfigMap("ready", opts=pulumi.ResourceOptions(provider=provider))
    controller = QueueController("queues", opts, kueue_chart(["ml", "ml-night"]), objects, [first], None)
    team = objects.teams["ml"]
    queue = GpuQueue("queues.ml", opts, team, controller.flavors)
    ready = {namespace: [queue.cluster_queue] for namespace in team.local_queues}
    found = LocalQueues("queues", opts, team.local_queues, ready)
    pulumi.export("queues", found.queues)


# -- in which order ----------------------------------------------------------------------------------------------------


def test_whatever_kueue_judges_stands_after_it_and_goes_before_it(queued):
    release = kueue(queued)
    for each in manifests(queued):
        assert release.urn in before(queued, each), f"{each.name}: without its webhooks the API server refuses it"
        assert each.delete_before_replace is True, "its name is fixed"
    teams = {namespace for queue in of_type(queued, LOCAL_QUEUE) for namespace in [queue.inputs["metadata"]["namespace"]]}
    homes = [each for each in of_type(queued, NAMESPACE) if name_of(each) in teams]
    assert len(homes) == len(teams)
    for home in homes:
        assert release.urn in before(queued, home), "a Job could be made before there is a queue that holds it"
        assert home.inputs["metadata"]["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_a_queue_stands_after_its_flavors_and_its_local_queues_after_both_it_and_their_namespace(queued):
    flavors = {name_of(each): each for each in of_type(queued, FLAVOR)}
    queues = {name_of(each): each for each in of_type(queued, CLUSTER_QUEUE)}
    homes = {name_of(each): each for each in of_type(queued, NAMESPACE)}
    assert flavors
    for queue in queues.values():
        (group,) = queue.inputs["spec"]["resourceGroups"]
        assert {flavors[flavor["name"]].urn for flavor in group["flavors"]} <= set(queue.dependencies)
        assert queue.inputs["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Active"}
    for local in of_type(queued, LOCAL_QUEUE):
        assert queues[local.inputs["spec"]["clusterQueue"]].urn in local.dependencies
        assert homes[local.inputs["metadata"]["namespace"]].urn in local.dependencies
        assert local.replace_on_changes == ("spec.clusterQueue",), "the API server takes no other"


def test_nothing_of_a_runner_waits_for_a_queue(queued):
    sets = [each for each in of_type(queued, RELEASE) if str(each.inputs["chart"]).endswith("/gha-runner-scale-set")]
    release = kueue(queued)
    assert sets
    for each in sets:
        assert release.urn not in before(queued, each)


# -- walls -------------------------------------------------------------------------------------------------------------


def _of_teams(recording: Recording, token: str) -> list[Resource]:
    teams = {each.inputs["metadata"]["namespace"] for each in of_type(recording, LOCAL_QUEUE)}
    return [each for each in of_type(recording, token) if each.inputs["metadata"]["namespace"] in teams]


def test_every_namespace_of_a_team_has_walls_before_its_queue_takes_a_job(queued):
    for local in of_type(queued, LOCAL_QUEUE):
        for token in WALLS:
            (wall,) = [
                each
                for each in _of_teams(queued, token)
                if each.inputs["metadata"]["namespace"] == local.inputs["metadata"]["namespace"]
            ]
            assert wall.urn in local.dependencies


def test_pods_of_a_namespace_reach_each_other_the_internet_and_no_metadata(queued):
    policies = _of_teams(queued, WALLS[0])
    assert policies
    for policy in policies:
        spec = policy.inputs["spec"]
        assert spec["ingress"] == [{"from": [{"podSelector": {}}]}], "of the same namespace alone"
        assert {"to": [{"podSelector": {}}]} in spec["egress"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert reaches(spec, "140.82.112.5")
        assert not reaches(spec, "10.0.0.10")
        assert not any(reaches(spec, address, 80) for address in METADATA)


def test_a_container_that_names_no_request_gets_one_and_no_limit_that_would_refuse_it(queued):
    for each in _of_teams(queued, WALLS[1]):
        (item,) = each.inputs["spec"]["limits"]
        assert set(item) == {"type", "defaultRequest"}, "a default limit is below what others request"


def test_no_quota_of_gpus_stands_in_a_teams_namespace(queued):
    """It would refuse pods of a Job that Kueue admits on quota that others lend."""
    teams = {local.inputs["metadata"]["namespace"] for local in of_type(queued, LOCAL_QUEUE)}
    found = [each.inputs["metadata"]["namespace"] for each in of_type(queued, "kubernetes:core/v1:ResourceQuota")]
    assert found
    assert not teams & set(found)


# -- priorities --------------------------------------------------------------------------------------------------------


def test_no_class_of_a_cluster_with_queues_ends_a_runner(queued):
    clusters = {each.provider_urn for each in manifests(queued)}
    classes = [each.inputs for each in of_type(queued, PRIORITY) if each.provider_urn in clusters]
    names = {each["metadata"]["name"] for each in classes}
    assert names == {RUNNER_PRIORITY.name, *(each.name for each in JOB_PRIORITIES)}
    for each in classes:
        assert each["value"] <= RUNNER_PRIORITY.value, "only a greater value ends a runner's pod"
        assert each["preemptionPolicy"] == "Never"
        assert each["globalDefault"] is False


def test_a_cluster_without_queues_has_nothing_of_kueue():
    recording = planned()
    assert list(manifests(recording)) == []
    assert [each.inputs["name"] for each in of_type(recording, RELEASE) if each.inputs["name"] == RELEASE_NAME] == []
    assert {each.inputs["metadata"]["name"] for each in of_type(recording, PRIORITY)} == {RUNNER_PRIORITY.name}


def test_the_priority_classes_of_pods_stand_before_kueue_and_stay_without_it(queued):
    release = kueue(queued)
    names = {each.name for each in JOB_PRIORITIES}
    here = [each for each in of_type(queued, PRIORITY) if each.provider_urn == release.provider_urn]
    classes = {name_of(each): each.urn for each in here if name_of(each) in names}
    assert classes.keys() == names
    assert set(classes.values()) <= before(queued, release)
    assert all("gpu-ci:index:Priorities$" in urn for urn in classes.values())


def test_names_that_would_join_to_one_stay_apart():
    recording = planned(**JOINED)
    locals_ = of_type(recording, LOCAL_QUEUE)
    assert len({each.urn for each in locals_}) == len(locals_) == 4
    assert named(recording, "sjc-queues.b-c.team", LOCAL_QUEUE).inputs["spec"] == {"clusterQueue": "a"}
