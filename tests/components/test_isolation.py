"""What keeps runner namespaces apart, as resources: one of each a namespace, before the runners, and enforced where it can be."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator

import kubernetes_validate
import pytest

from components.oci.security import everything_but
from fleet.facts.scheduling import RUNNER_PRIORITY
from fleet.settings.egress import CLOSED
from fleet.settings.namespaces import JOBS, runner_namespace
from gpu_ci.offline.recording import Recording, Resource
from tests import plans
from tests.builders import oke_runner, vm, vm_per_job
from tests.cases import cases
from tests.components.oke import RULE, made, planned
from tests.components.recorded import (
    RunnerSet,
    before,
    cluster_id,
    in_every_stack,
    named,
    of_type,
    recorded,
    runner_sets,
    stack_config,
    with_clusters,
)
from tests.fleet.test_isolation import METADATA, MINORS, reaches

RELEASE = "kubernetes:helm.sh/v3:Release"
NAMESPACE = "kubernetes:core/v1:Namespace"
NETWORK = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
QUOTA = "kubernetes:core/v1:ResourceQuota"
LIMITS = "kubernetes:core/v1:LimitRange"
PRIORITY = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
WALLS = (NETWORK, QUOTA, LIMITS)
ADDON = "aws:eks/addon:Addon"


def walls(recording: Recording, found: RunnerSet, token: str) -> list[Resource]:
    """The objects of a kind in the namespace of a set, of the same cluster."""
    return [
        each
        for each in of_type(recording, token)
        if cluster_id(each) == cluster_id(found.resource) and each.inputs["metadata"]["namespace"] == found.namespace
    ]


@cases("token", WALLS)
@in_every_stack
def test_every_runner_namespace_has_one_of_each_before_its_set(recording, token):
    sets = runner_sets(recording)
    assert sets
    for found in sets:
        (wall,) = walls(recording, found, token)
        # Where Git has the release, the namespace exists with its walls before ArgoCD is there.
        assert found.apart or wall.urn in found.resource.dependencies, f"{found.namespace}: a pod would start without {token}"
        (home,) = [
            space
            for space in of_type(recording, NAMESPACE)
            if cluster_id(space) == cluster_id(found.resource) and space.inputs["metadata"]["name"] == found.namespace
        ]
        assert home.urn in before(recording, wall)
        assert wall.delete_before_replace is True, "its name is fixed"
    spaces = [each.inputs["metadata"]["namespace"] for each in of_type(recording, token)]
    # Teams have walls of their own (test_gpu_queue.py), and so do jobs in containers (test_container_jobs.py).
    of_runners = [space for space in spaces if space.startswith(runner_namespace("")) and not space.endswith(JOBS)]
    assert len(of_runners) == len(sets), "no second one"


@in_every_stack
def test_no_pod_of_any_set_reaches_instance_metadata(recording):
    for found in runner_sets(recording):
        (policy,) = walls(recording, found, NETWORK)
        spec = policy.inputs["spec"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert (spec["ingress"], spec["podSelector"]) == ([], {})
        for address in METADATA:
            assert not [port for port in (53, 80, 443, 12250) if reaches(spec, address, port)], f"{found.namespace}: {address}"


def test_pods_of_jobs_reach_nothing_private_and_launchers_okes_identity_alone(prod):
    pods = (recorded("oke-pods"), "sjc-oci-a10-network", False)
    for recording, name, identity in (pods, (prod, "sjc-oracle-vm-gpu-a10-1-set-network", True)):
        spec = named(recording, name, NETWORK).inputs["spec"]
        assert not reaches(spec, "10.96.0.1", 443)
        assert reaches(spec, "10.96.0.1", 12250) is identity
        assert reaches(spec, "140.82.112.5", 443)


def test_cncfs_launcher_has_a_key_instead_of_okes_identity(machines):
    specs = {
        name: named(machines, f"iad-{name}-set-network", NETWORK).inputs["spec"]
        for name in ("a10-standing", "oracle-vm-gpu-a10-1")
    }
    assert {name: reaches(spec, "10.96.0.1", 12250) for name, spec in specs.items()} == {
        "a10-standing": True,
        "oracle-vm-gpu-a10-1": False,
    }


def allowed_to_pods(recording: Recording) -> Iterator[list[str]]:
    """For each NetworkPolicy of jobs, the IPv4 blocks that it opens on every port."""
    for policy in of_type(recording, NETWORK):
        if recording.by_urn[policy.parent].type in ("gpu-ci:index:GpuMonitoring", "gpu-ci:index:MetricsGateway"):
            continue
        peers = [peer for rule in policy.inputs["spec"]["egress"] if "ports" not in rule for peer in rule["to"]]
        for block in (peer["ipBlock"] for peer in peers if "ipBlock" in peer):
            assert block["cidr"] == "0.0.0.0/0", "no shipped stack opens a private network"
            yield everything_but(*block["except"])


def allowed_to_machines(recording: Recording) -> list[str]:
    """The blocks that the security groups of machines open."""
    rules = [rule for rule in of_type(recording, RULE) if "-security-machines-to-" in rule.name]
    return [rule.inputs["destination"] for rule in rules]


@in_every_stack
def test_nothing_that_a_stack_allows_to_jobs_overlaps_a_closed_network(recording):
    pods, machines = list(allowed_to_pods(recording)), allowed_to_machines(recording)
    assert pods
    for blocks in (*pods, machines):
        overlaps = [(block, cidr) for block in blocks for cidr in CLOSED if _network(block).overlaps(_network(cidr))]
        assert overlaps == []


def test_pods_and_machines_of_a_cluster_reach_the_same_networks():
    recording = made(network={"cidr": "203.0.112.0/20"}, runners={"pods": oke_runner(), "vm": vm()})
    machines = allowed_to_machines(recording)
    assert machines
    assert all(blocks == machines for blocks in allowed_to_pods(recording))
    for closed in (*CLOSED, "203.0.112.0/20"):
        assert not any(_network(block).overlaps(_network(closed)) for block in machines), closed


def _network(cidr: str) -> ipaddress.IPv4Network:
    return ipaddress.IPv4Network(cidr)


@pytest.mark.parametrize("build", [planned, made])
def test_private_networks_are_opened_to_jobs_in_pods_and_not_to_launchers(build):
    recording = build(privateEgress=["10.20.0.0/16"], runners={"pods": oke_runner(), "vm": vm(), "job": vm_per_job()})
    reached = {
        each.name: reaches(walls(recording, each, NETWORK)[0].inputs["spec"], "10.20.1.1") for each in runner_sets(recording)
    }
    assert reached == {"pods": True, "vm": False, "job": False}


def test_a_quota_follows_the_scale_of_its_set(staging):
    assert named(staging, "usw2-gpu-t4-quota", QUOTA).inputs["spec"] == {"hard": {"requests.nvidia.com/gpu": "20", "pods": "22"}}
    assert named(staging, "usw2-gpu-t4-limits", LIMITS).inputs["spec"] == {
        "limits": [
            {
                "type": "Container",
                "max": {"cpu": "8", "memory": "32Gi"},
                "default": {"cpu": "8", "memory": "32Gi"},
                "defaultRequest": {"cpu": "4", "memory": "16Gi"},
            }
        ]
    }


@cases("minor", MINORS)
@in_every_stack
def test_the_objects_are_valid_as_they_are_sent(recording, minor):
    for token in (*WALLS, PRIORITY):
        for each in of_type(recording, token):
            kubernetes_validate.validate(json.loads(json.dumps(each.inputs)), minor, strict=True)


# -- priority ----------------------------------------------------------------------------------------------------------


@in_every_stack
def test_every_cluster_has_one_class_for_runners_and_every_set_waits_for_its_clusters(recording):
    found = [each for each in of_type(recording, PRIORITY) if each.inputs["metadata"]["name"] == RUNNER_PRIORITY.name]
    classes = {cluster_id(each): each for each in found}
    assert len(classes) == len(found), "a class is of the whole cluster"
    for each in runner_sets(recording):
        held = classes[cluster_id(each.resource)]
        assert each.values["template"]["spec"]["priorityClassName"] == held.inputs["metadata"]["name"]
        # Of what Git has apart ArgoCD's waves keep the order (test_git_tree.py).
        assert each.apart or held.urn in each.resource.dependencies, (
            "the API server refuses a pod of an unknown class, and ARC gives the runner up"
        )


def test_the_class_preempts_nobody_and_is_nobodys_default(staging):
    inputs = named(staging, "usw2-arc-runner-priority", PRIORITY).inputs
    assert inputs["preemptionPolicy"] == "Never"
    assert inputs["globalDefault"] is False
    assert (inputs["metadata"]["name"], inputs["value"]) == (RUNNER_PRIORITY.name, RUNNER_PRIORITY.value)


@in_every_stack
def test_a_class_of_another_value_is_made_anew_in_the_place_of_the_old_one(recording):
    """Neither may be updated (Kubernetes, ValidatePriorityClassUpdate), and the provider would try to."""
    for held in of_type(recording, PRIORITY):
        assert set(held.replace_on_changes) == {"value", "preemptionPolicy"} <= set(held.inputs)
        assert held.delete_before_replace is True, "its name is fixed"


# -- enforcement -------------------------------------------------------------------------------------------------------


@in_every_stack
def test_the_network_plugin_of_eks_enforces_policies(recording):
    for addon in of_type(recording, ADDON):
        if addon.inputs["addonName"] == "vpc-cni":
            held = json.loads(addon.inputs["configurationValues"])
            assert held["enableNetworkPolicy"] == "true", "a string: the add-on's schema knows no other"


@in_every_stack
def test_tokens_of_accounts_are_in_no_pod_in_which_steps_run(recording):
    for each in runner_sets(recording):
        pod = each.values["template"]["spec"]
        assert pod["automountServiceAccountToken"] is (pod.get("serviceAccountName") in ("launcher", "runner"))


def test_a_private_network_of_the_settings_reaches_the_policy_of_eks():
    config = stack_config("staging")
    clusters = json.loads(config.values["gpu-ci:clusters"])
    clusters["usw2"] |= {"privateEgress": ["192.168.7.0/24"], "network": {"cidr": "203.0.112.0/22"}}
    spec = named(plans.program(with_clusters(config, clusters)), "usw2-gpu-t4-network", NETWORK).inputs["spec"]
    assert reaches(spec, "192.168.7.9")
    assert not reaches(spec, "192.168.8.9")
    assert not reaches(spec, "203.0.113.9"), "the VPC's own range, though it is not a private one"
