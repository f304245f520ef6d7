"""What the program declares for a cluster that it did not create, and what the policies can and cannot say of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from components.eks.existing_eks_cluster import kubeconfig
from fleet.charts.every import PLAIN
from fleet.facts.scheduling import POOL_LABEL, node_choice
from fleet.loading.config import load
from fleet.loading.stackfile import StackConfig
from fleet.prove.bill import bill
from fleet.prove.placement import place
from gpu_ci.offline.judge import Verdict, configure, judge
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.recording import Recording, Resource
from policies.rules import RULES
from tests.builders import ROOT, cluster, config, existing_context, existing_eks, pool, runner
from tests.cases import cases
from tests.components.recorded import RELEASE, SECRET, named, of_type, recorded, runner_sets, whole
from tests.day import AS_OF
from tests.fleet import broken_stacks

EKS_POOL = "aws:eks/nodeGroup:NodeGroup"
EXAMPLE = "existing-eks"
ROLE = "arn:aws:iam::123456789012:role/platform-nodes"
HELD_BY_OTHERS = {
    "budget-alarm-required",
    "eks-endpoint-private",
    "eks-logging-and-secrets",
    "no-silent-eviction",
    "node-role-least-privilege",
    "private-nodes",
    "quota-declared",
    "runner-namespace-isolated",
    "system-pool-exists",
}
"""Policies that need to see the account or the cluster, of which the stack has nothing, and the base of a change."""


def build(**clusters: Mapping[str, Any]) -> Recording:
    """What a stack with these clusters declares."""
    held = {"pulumi:disable-default-providers": ["*"]}
    held |= {f"gpu-ci:{key}": value for key, value in config(clusters=clusters).items()}
    texts = {key: json.dumps(value) for key, value in held.items()} | {SECRET: "key"}
    path = ROOT / "Pulumi.test.yaml"
    return whole(StackConfig("gpu-ci", "test", path, texts, frozenset({SECRET}), held | {SECRET: "key"}))


def verdicts(recording: Recording) -> tuple[Verdict, ...]:
    """What every policy says, as in production."""
    return judge(recording, configure(RULES, {rule.id: rule.levels["prod"] for rule in RULES}, AS_OF))


def undeterminable(found: tuple[Verdict, ...]) -> set[str]:
    return {each.rule for each in found if each.kind == "undeterminable"}


def broken(found: tuple[Verdict, ...]) -> set[str]:
    return {each.rule for each in found if each.kind == "violation"}


@cache
def plan() -> Plan:
    return make_plan(EXAMPLE, ROOT, ROOT / "examples" / f"Pulumi.{EXAMPLE}.yaml", as_of=AS_OF)


OF_EVERY_CLUSTER = {make(load(config()).clusters["usw2"]).name for make in PLAIN}


def releases(recording: Recording) -> dict[str, Resource]:
    return {each.inputs["name"]: each for each in of_type(recording, RELEASE)}


def test_the_program_changes_nothing_of_the_cluster():
    recording = recorded(EXAMPLE)
    control_plane = named(recording, "usw2-control-plane", "aws:eks/cluster:Cluster")
    assert (control_plane.read, control_plane.id) == (True, "platform"), "the cluster is looked up by its name"
    made = {each.type for each in recording.resources if each.type.startswith(("aws:", "eks:")) and not each.read}
    assert made == {
        EKS_POOL,
        "aws:ec2/launchTemplate:LaunchTemplate",
        "aws:autoscaling/tag:Tag",
    }, "no network, control plane, add-on and role"


def test_a_pool_joins_the_cluster_with_its_role_and_one_group_in_the_subnet_of_each_zone():
    groups = {each.name: each.inputs for each in of_type(recorded(EXAMPLE), EKS_POOL)}
    assert {(each["clusterName"], each["nodeRoleArn"]) for each in groups.values()} == {("platform", ROLE)}
    assert {name: each["subnetIds"] for name, each in groups.items()} == {
        "usw2-t4-spot-us-west-2a-nodes": ["subnet-0aaaaaaaaaaaaaaa1"],
        "usw2-t4-spot-us-west-2b-nodes": ["subnet-0bbbbbbbbbbbbbbb2"],
        "usw2-t4-ondemand-us-west-2a-nodes": ["subnet-0aaaaaaaaaaaaaaa1"],
        "usw2-t4-release-us-west-2a-nodes": ["subnet-0aaaaaaaaaaaaaaa1"],
    }, "a pool of one node has a group in the first zone only"


def test_a_pool_with_efa_interfaces_is_in_the_clusters_own_security_group():
    efa = pool(instanceTypes=["g4dn.8xlarge"], efaInterfaces=1)
    recording = build(usw2=existing_eks(pools={"t4": efa}))
    (template,) = of_type(recording, "aws:ec2/launchTemplate:LaunchTemplate")
    (interface,) = template.inputs["networkInterfaces"]
    assert interface["securityGroups"] == ["[unknown]"], "it is read from AWS at pulumi up"


def test_a_pool_of_one_zone_is_in_that_zones_subnet():
    recording = build(usw2=existing_eks(pools={"t4": pool(zones=["us-west-2b"])}))
    (group,) = of_type(recording, EKS_POOL)
    assert group.inputs["subnetIds"] == ["subnet-0bbbbbbbbbbbbbbb2"]


def test_objects_go_through_a_provider_that_names_the_cluster():
    recording = recorded(EXAMPLE)
    provider = named(recording, "usw2-kubernetes", "pulumi:providers:kubernetes")
    assert provider.inputs["clusterIdentifier"] == "platform"
    assert provider.inputs["kubeconfig"] == "[unknown]", "endpoint and authority are read from AWS at pulumi up"
    assert {each.provider_urn for each in recording.resources if each.type.startswith("kubernetes:")} == {provider.urn}


def test_a_kubeconfig_has_the_clusters_endpoint_and_signs_in_with_the_aws_cli():
    found = json.loads(kubeconfig("platform", "us-west-2", "https://example.eks.amazonaws.com", "Q0E="))
    assert found["clusters"][0]["cluster"] == {
        "server": "https://example.eks.amazonaws.com",
        "certificate-authority-data": "Q0E=",
    }
    command = found["users"][0]["user"]["exec"]
    assert command["command"] == "aws"
    assert command["args"][-4:] == ["--cluster-name", "platform", "--output", "json"]


POOLS_OF = {"gpu-t4": ["t4-spot", "t4-ondemand"], "gpu-t4-release": ["t4-release"]}


def test_controllers_and_listeners_run_on_the_nodes_that_the_settings_select():
    made = releases(recorded(EXAMPLE))
    assert made["arc-controller"].inputs["values"]["nodeSelector"] == {"workload": "system"}
    for each in runner_sets(recorded(EXAMPLE)):
        assert each.values["listenerTemplate"]["spec"]["nodeSelector"] == {"workload": "system"}
        spec, pools = each.values["template"]["spec"], POOLS_OF[each.name]
        assert spec.items() >= node_choice([{POOL_LABEL: pool} for pool in pools]).items(), (
            "runners choose their pool as anywhere"
        )


def test_without_a_selector_controllers_run_on_any_node():
    made = releases(build(usw2=existing_eks()))
    for name in ("arc-controller", "cluster-autoscaler", "metrics-server"):
        assert made[name].inputs["values"]["nodeSelector"] == {}, name


@cases(
    ("installed", "missing"),
    [
        ((), set()),
        (("metrics-server",), {"metrics-server"}),
        (("cluster-autoscaler",), {"cluster-autoscaler"}),
        (("device-plugin",), {"nvidia-device-plugin"}),
        (("arc-controller",), {"arc-controller"}),
    ],
)
def test_what_the_cluster_has_is_not_installed_again(installed, missing):
    controller = {"namespace": "actions", "serviceAccount": "actions-controller"}
    more = {"controller": controller} if "arc-controller" in installed else {}
    made = set(releases(build(usw2=existing_eks(installed=list(installed), **more))))
    everything = {"arc-controller", "cluster-autoscaler", "gpu-t4", "metrics-server", "nvidia-device-plugin"}
    assert everything - made == missing


def test_runner_sets_are_bound_to_the_controller_that_the_cluster_has():
    controller = {"namespace": "actions", "serviceAccount": "actions-controller"}
    recording = build(usw2=existing_eks(installed=["arc-controller"], controller=controller))
    (found,) = runner_sets(recording)
    assert found.values["controllerServiceAccount"] == {"namespace": "actions", "name": "actions-controller"}
    priority = named(recording, "usw2-arc-runner-priority", "kubernetes:scheduling.k8s.io/v1:PriorityClass")
    assert priority.urn in found.resource.dependencies, "the API server rejects a runner whose class does not exist"


def test_a_cluster_that_gets_pools_alone_gets_no_controller():
    recording = build(usw2=existing_eks(runners={}))
    assert set(releases(recording)) - OF_EVERY_CLUSTER == {"cluster-autoscaler", "nvidia-device-plugin"}


def test_the_autoscaler_of_the_program_finds_groups_by_the_clusters_own_name():
    recording = build(usw2=existing_eks())
    values = releases(recording)["cluster-autoscaler"].inputs["values"]
    assert values["autoDiscovery"] == {"clusterName": "platform"}
    (identity,) = of_type(recording, "aws:eks/podIdentityAssociation:PodIdentityAssociation")
    assert identity.inputs["clusterName"] == "platform"


def test_the_bill_has_the_pools_and_their_disks_and_nothing_of_the_cluster():
    fleet = load(config(clusters={"usw2": existing_eks()}))
    assert [line.item for line in bill(fleet, AS_OF)] == ["pool t4", "disks", "update", "GitHub"]


def test_the_plan_of_the_example_passes_and_says_what_nobody_can_know_offline():
    found = plan()
    assert found.passes()
    assert broken(found.verdicts) == set()
    assert undeterminable(found.verdicts) == HELD_BY_OTHERS
    assert sum("undeterminable" in remark for remark in found.remarks) == 3


def test_a_strict_plan_fails_because_nothing_shows_who_reaches_the_api():
    assert {each.rule for each in plan().blocked(strict=True)} == {"eks-endpoint-private"}


def test_a_budget_of_the_stack_watches_pools_on_existing_clusters():
    budget = {"monthlyUsd": 100, "emails": ["ci@example.com"]}
    found = verdicts(build(usw2=existing_eks(budget=budget)))
    assert "budget-alarm-required" not in undeterminable(found) | broken(found)


def test_a_spot_pool_without_fallback_may_have_one_in_the_cluster():
    spot = pool(capacity="spot", instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"])
    found = verdicts(build(usw2=existing_eks(pools={"t4": spot})))
    assert "spot-with-fallback" in undeterminable(found)
    assert "spot-with-fallback" not in broken(found)


def test_a_label_of_the_clusters_own_nodes_is_not_asked_of_the_new_pools():
    """The pools carry a label `role`, so its value `system` would be a selector that no pool meets."""
    found = verdicts(build(usw2=existing_eks(systemSelector={"role": "system"})))
    assert "gpu-node-labels" in undeterminable(found)
    assert "gpu-node-labels" not in broken(found)


def test_a_created_cluster_beside_an_existing_one_is_judged_as_before():
    created = cluster(region="us-east-1", zones=["us-east-1a", "us-east-1b"], runners={"gpu-east": runner()})
    found = verdicts(build(usw2=existing_eks(), use1=created))
    assert "budget-alarm-required" in broken(found), "the pools of the created cluster have no alarm"
    assert "system-pool-exists" not in broken(found)


# -- any kubeconfig context --------------------------------------------------------------------------------------------


def test_a_context_gets_charts_and_runner_sets_and_nothing_is_bought():
    recording = recorded("existing-context")
    assert {each.type.partition(":")[0] for each in recording.resources} == {"gpu-ci", "kubernetes", "pulumi"}
    provider = named(recording, "lab-kubernetes", "pulumi:providers:kubernetes")
    assert {key: provider.inputs[key] for key in ("context", "clusterIdentifier")} == dict.fromkeys(
        ("context", "clusterIdentifier"), "admin@lab"
    )
    assert set(releases(recording)) - OF_EVERY_CLUSTER == {"arc-controller", "gpu-a10g"}, "the cluster has the operator"
    assert "metrics-server" not in releases(recording), "the cluster has it"


def test_runners_choose_described_nodes_by_the_labels_of_the_settings():
    recording = build(lab=existing_context(taints=[{"key": "dedicated", "value": "gpu"}]))
    (found,) = runner_sets(recording)
    pod = found.values["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "Tesla-T4"}
    assert {each["key"] for each in pod["tolerations"]} == {"nvidia.com/gpu", "dedicated"}


def test_the_device_plugin_tolerates_the_taints_of_described_nodes():
    recording = build(lab=existing_context(installed=[], taints=[{"key": "dedicated", "value": "gpu"}]))
    tolerations = releases(recording)["nvidia-device-plugin"].inputs["values"]["tolerations"]
    assert {"dedicated", "nvidia.com/gpu"} <= {each["key"] for each in tolerations}


@pytest.mark.parametrize(("stated", "worst"), [({}, "unknown"), ({"usdPerHour": 0.5}, "1.000")])
def test_the_price_of_described_nodes_is_what_the_settings_state_or_unknown(stated, worst):
    fleet = load(config(clusters={"lab": existing_context(**stated)}))
    nodes, github = bill(fleet, AS_OF)
    assert (str(nodes.worst), str(github.worst)) == (worst, "0")


def test_a_runner_that_fits_no_described_node_is_refused():
    fleet = load(config(clusters={"lab": existing_context(instanceTypes=["g4dn.xlarge"])}))
    (found,) = place(fleet)
    assert "g4dn.xlarge leaves pods" in found.error


def test_described_nodes_without_the_gpu_taint_are_a_remark():
    fleet = load(config(clusters={"lab": existing_context(taints=[])}))
    assert any("have no taint nvidia.com/gpu" in remark for remark in fleet.clusters["lab"].remarks)


def test_the_plan_of_a_context_passes_and_its_cluster_is_undeterminable():
    found = make_plan("existing-context", ROOT, ROOT / "examples" / "Pulumi.existing-context.yaml", as_of=AS_OF)
    assert found.passes()
    assert broken(found.verdicts) == set()
    assert undeterminable(found.verdicts) == {
        "eks-endpoint-private",
        "eks-logging-and-secrets",
        "no-silent-eviction",
        "runner-namespace-isolated",
        "system-pool-exists",
    }


def test_an_exception_of_the_existing_cluster_hides_what_nothing_shows_of_its_endpoint():
    """docs/existing-clusters.md: for a strict plan of a cluster that somebody has checked."""
    checked = {
        "urn": "*gpu-ci:index:ExistingCluster::usw2-existing",
        "reason": "The endpoint is private: seen",
        "expires": "2027-05-31",
    }
    rule = next(rule for rule in RULES if rule.id == "eks-endpoint-private")
    settings = {rule.id: {"enforcementLevel": "mandatory", "exceptions": [checked]}}
    assert {each.kind for each in judge(recorded(EXAMPLE), configure([rule], settings, AS_OF))} == {"excepted"}


# -- OKE ---------------------------------------------------------------------------------------------------------------

OKE_ID = "ocid1.cluster.oc1.sjc.exampleplatform"


def test_an_oke_cluster_gets_a_pool_in_its_own_network():
    recording = recorded("existing-oke")
    made = {each.type for each in recording.resources if each.type.startswith("oci:")}
    assert made == {
        "oci:ContainerEngine/addon:Addon",
        "oci:ContainerEngine/nodePool:NodePool",
        "oci:Identity/policy:Policy",
    }, "no network and no control plane"
    (nodes,) = of_type(recording, "oci:ContainerEngine/nodePool:NodePool")
    details = nodes.inputs["nodeConfigDetails"]
    assert nodes.inputs["clusterId"] == OKE_ID
    assert details["nsgIds"] == ["ocid1.networksecuritygroup.oc1.sjc.examplenodes"]
    assert {each["subnetId"] for each in details["placementConfigs"]} == {"ocid1.subnet.oc1.sjc.examplenodes"}


def test_objects_of_an_oke_cluster_go_through_its_context_and_carry_its_ocid():
    """The OCID is what node pools name, so policies see pools and pods in one cluster."""
    provider = named(recorded("existing-oke"), "sjc-kubernetes", "pulumi:providers:kubernetes")
    assert (provider.inputs["context"], provider.inputs["clusterIdentifier"]) == ("platform", OKE_ID)


def test_the_autoscaler_of_oke_is_configured_for_the_new_pools_unless_the_cluster_has_it():
    (addon,) = of_type(recorded("existing-oke"), "oci:ContainerEngine/addon:Addon")
    values = {each["key"]: each["value"] for each in addon.inputs["configurations"]}
    assert json.loads(values["nodeSelectors"]) == {"workload": "system"}
    settings = broken_stacks.stack("valid-existing-oke")["clusters"]["sjc"]
    settings["existing"]["installed"] = ["cluster-autoscaler"]
    assert of_type(build(sjc=settings), "oci:ContainerEngine/addon:Addon") == ()


def test_the_plan_of_an_oke_cluster_passes_and_its_cluster_is_undeterminable():
    found = make_plan("existing-oke", ROOT, ROOT / "examples" / "Pulumi.existing-oke.yaml", as_of=AS_OF)
    assert found.passes()
    assert broken(found.verdicts) == set()
    assert undeterminable(found.verdicts) == {
        "budget-alarm-required",
        "eks-endpoint-private",
        "no-silent-eviction",
        "private-nodes",
        "quota-declared",
        "runner-namespace-isolated",
        "system-pool-exists",
    }
    assert [line.item for line in found.bill] == ["pool a10", "disks", "GitHub"], "nothing of the cluster is on the bill"
