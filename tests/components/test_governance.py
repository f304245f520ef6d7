"""Budgets, quotas, protection, tags and pinned add-ons: what both clouds get of money and rules."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest

from components.context import Context
from components.eks.stack import build as build_eks
from fleet.loading.config import load
from fleet.providers.eks.bill import eks_quotas
from tests.builders import cluster, config, oke_runner, pool, runner, vm
from tests.cases import cases
from tests.components.oke import ADDON, CLUSTER, TAGS, made, planned, the
from tests.components.recorded import build_alone, in_every_stack, named, of_type

AWS_BUDGET = "aws:budgets/budget:Budget"
AWS_QUOTA = "aws:servicequotas/serviceQuota:ServiceQuota"
OCI_BUDGET, OCI_RULE = "oci:Budget/budget:Budget", "oci:Budget/rule:Rule"
OCI_QUOTA = "oci:Limits/quota:Quota"
EKS_PLANE = "eks:index:Cluster"
CONTROL_PLANES = (EKS_PLANE, CLUSTER)
LOG_GROUP = "aws:cloudwatch/logGroup:LogGroup"
REQUIRED = {"owner", "cost-center", "stack", "ttl"}
BUDGET = {"monthlyUsd": 500, "emails": ["ci@gpu-ci.dev", "ops@gpu-ci.dev"]}
TENANCY = "ocid1.tenancy.oc1..example"
GOVERNED: dict[str, Any] = {
    "tenancy": TENANCY,
    "compartmentPath": "ci",
    "declareQuotas": True,
    "budget": BUDGET,
    "homeRegion": "us-ashburn-1",
}


POOLS = {
    "t4": pool(),
    "t4-spot": pool(instanceTypes=["g4dn.2xlarge", "g4dn.4xlarge"], capacity="spot", nodes={"max": 3}),
    "v100": pool(instanceTypes=["p3.2xlarge"]),
}
ON_EKS: dict[str, Any] = {
    "budget": BUDGET,
    "declareQuotas": True,
    "accountQuotas": {"L-DB2E81BA": 0, "L-3819A6DF": 47},
    "pools": POOLS,
    "runners": {"gpu-t4": runner(), "spot": runner(pool="t4-spot")},
    "protect": True,
}
ON_OKE: dict[str, Any] = GOVERNED | {
    "runners": {"oci-a10": oke_runner(), "standing": vm(count=3)},
    "addonVersions": {"ClusterAutoscaler": "v1.34.2", "NvidiaGpuPlugin": "v0.17.1"},
    "protect": True,
}


def fleet(**changes):
    """A fleet of the one EKS cluster usw2."""
    return load(config(clusters={"usw2": cluster(**changes)}))


def eks(*, preview: bool = True, **changes):
    """An EKS cluster of a test's own, as a preview or as an update in which every id is known."""

    def program() -> None:
        described = fleet(**changes)
        context = Context("gpu-ci", "test", TAGS)
        build_eks("usw2", described.clusters["usw2"], described, context, {"default": pulumi.Output.secret("a made-up key")})

    return build_alone(program, f"{changes}", preview=preview)


@pytest.fixture(scope="module")
def on_eks():
    """A cluster with all that this module is about, as an update: our own stacks are previews with most of it."""
    return eks(preview=False, **ON_EKS)


@pytest.fixture(scope="module")
def on_oke():
    """The same on OCI."""
    return made(**ON_OKE)


@pytest.fixture(scope="module")
def ungoverned():
    """Clusters of both clouds with nothing of it."""
    return eks(protect=False, runners={}), planned()


# -- AWS ---------------------------------------------------------------------------------------------------------------


def test_a_budget_on_aws_counts_the_stacks_tag_and_writes_at_80_and_100_percent(on_eks):
    inputs = the(on_eks, AWS_BUDGET).inputs
    assert (inputs["budgetType"], inputs["timeUnit"]) == ("COST", "MONTHLY")
    assert (inputs["limitAmount"], inputs["limitUnit"]) == ("500", "USD")
    assert inputs["costFilters"] == [{"name": "TagKeyValue", "values": ["user:gpu-ci/stack$test"]}], "and not the whole account"
    alarms = {each["notificationType"]: each for each in inputs["notifications"]}
    assert {kind: alarm["threshold"] for kind, alarm in alarms.items()} == {"ACTUAL": 80, "FORECASTED": 100}
    for alarm in alarms.values():
        assert (alarm["comparisonOperator"], alarm["thresholdType"]) == ("GREATER_THAN", "PERCENTAGE")
        assert alarm["subscriberEmailAddresses"] == BUDGET["emails"]


def test_the_tag_that_the_budget_counts_is_on_all_that_the_provider_makes_and_on_all_that_eks_launches(on_eks):
    (provider,) = of_type(on_eks, "pulumi:providers:aws")
    assert json.loads(provider.inputs["defaultTags"])["tags"]["gpu-ci/stack"] == "test"
    for template in of_type(on_eks, "aws:ec2/launchTemplate:LaunchTemplate"):
        kinds = {each["resourceType"]: each["tags"] for each in template.inputs["tagSpecifications"]}
        assert kinds.keys() >= {"instance", "volume"}, "what costs money"
        assert all(tags["gpu-ci/stack"] == "test" for tags in kinds.values()), template.name


def test_quotas_are_asked_of_the_clusters_own_provider_one_for_each_code(on_eks):
    quotas = of_type(on_eks, AWS_QUOTA)
    asked = {each.inputs["quotaCode"]: each.inputs["value"] for each in quotas}
    assert asked == {"L-DB2E81BA": 16, "L-3819A6DF": 48}, "what the account has of the third is unknown"
    (provider,) = of_type(on_eks, "pulumi:providers:aws")
    for quota in quotas:
        assert quota.inputs["serviceCode"] == "ec2"
        assert quota.provider_urn == provider.urn, "quotas are a region's"


def test_a_quota_is_requested_once_whatever_becomes_of_the_pool(on_eks):
    """The provider files a request with every update, and AWS refuses a number below what it has granted since."""
    quota = named(on_eks, "usw2-quota-L-DB2E81BA", AWS_QUOTA)  # a number in the name would make it another resource
    assert quota.inputs["value"] == 16
    assert quota.ignore_changes == ("value",)


@cases("account", [{}, {"L-DB2E81BA": 16}, {"L-DB2E81BA": 768}])
def test_nothing_is_requested_of_an_account_that_has_enough_or_is_unknown(account):
    own = fleet(declareQuotas=True, accountQuotas=account).clusters["usw2"]
    assert eks_quotas(own, [own]) == {}


def test_nothing_waits_for_a_quota(on_eks):
    quotas = {each.urn for each in of_type(on_eks, AWS_QUOTA)}
    assert quotas
    assert not [each.name for each in on_eks.resources if quotas & set(each.dependencies)], "the answer may take days"


def test_quotas_and_budgets_are_not_made_unless_said(ungoverned):
    for recording in ungoverned:
        assert not [
            resource.name
            for token in (AWS_BUDGET, AWS_QUOTA, OCI_BUDGET, OCI_RULE, OCI_QUOTA)
            for resource in of_type(recording, token)
        ]


# -- OCI ---------------------------------------------------------------------------------------------------------------


def test_a_budget_on_oci_stands_in_the_root_compartment_and_watches_the_clusters(on_oke):
    inputs = the(on_oke, OCI_BUDGET).inputs
    assert inputs["compartmentId"] == TENANCY, "wherever its target is"
    assert (inputs["targetType"], inputs["targets"]) == ("COMPARTMENT", ["ocid1.compartment.oc1..example"])
    assert (inputs["amount"], inputs["resetPeriod"]) == (500, "MONTHLY")
    alarms = {each.inputs["type"]: each.inputs for each in of_type(on_oke, OCI_RULE)}
    assert {kind: alarm["threshold"] for kind, alarm in alarms.items()} == {"ACTUAL": 80, "FORECAST": 100}
    for alarm in alarms.values():
        assert alarm["thresholdType"] == "PERCENTAGE"
        assert alarm["recipients"] == "ci@gpu-ci.dev, ops@gpu-ci.dev"


def test_a_budget_may_watch_the_compartment_above_and_a_fleet_without_gpus_to_hold_has_no_quota_policy():
    over = BUDGET | {"compartment": "ocid1.compartment.oc1..exampleci"}
    recording = planned(**GOVERNED | {"budget": over}, pools={}, runners={})
    assert the(recording, OCI_BUDGET).inputs["targets"] == ["ocid1.compartment.oc1..exampleci"]
    assert not of_type(recording, OCI_QUOTA), "OCI refuses one without a statement"


def test_alarms_hang_on_their_budget(on_oke):
    budget = the(on_oke, OCI_BUDGET)
    for alarm in of_type(on_oke, OCI_RULE):
        assert alarm.inputs["budgetId"] == "ocid1.budget.oc1..sjc-budget-id"
        assert budget.urn in alarm.dependencies


def test_a_quota_on_oci_holds_the_compartment_to_what_the_fleet_takes(on_oke):
    inputs = the(on_oke, OCI_QUOTA).inputs
    assert inputs["compartmentId"] == TENANCY
    assert inputs["statements"] == [
        "set compute-core quota gpu-a10-count to 8 in compartment ci where request.region = 'us-sanjose-1'"
    ]


def test_what_is_the_tenancys_goes_through_the_provider_of_its_home_region(on_oke):
    home = named(on_oke, "sjc-oci-home", "pulumi:providers:oci")
    assert home.inputs["region"] == "us-ashburn-1"
    for token in (OCI_BUDGET, OCI_RULE, OCI_QUOTA):
        for resource in of_type(on_oke, token):
            assert resource.provider_urn == home.urn, resource.name
            assert resource.inputs["freeformTags"].items() >= TAGS.items(), f"{resource.name}: OCI has no default tags"


# -- protection --------------------------------------------------------------------------------------------------------


def test_protection_is_the_control_planes_and_of_nothing_else(on_eks, on_oke, ungoverned):
    for recording, protect in (*((each, True) for each in (on_eks, on_oke)), *((each, False) for each in ungoverned)):
        planes = {each.urn for token in CONTROL_PLANES for each in of_type(recording, token)}
        assert len(planes) == 1
        logs = {each.urn for each in of_type(recording, LOG_GROUP)}
        protected = {each.urn for each in recording.resources if each.protect}
        assert protected == (planes | logs if protect else set()), "a pool must stay free to be replaced"
        for plane in of_type(recording, EKS_PLANE):
            assert plane.inputs["deletionProtection"] is protect, "AWS' provider keeps the protection of a missing value"
        for group in of_type(recording, LOG_GROUP):
            assert group.inputs["deletionProtectionEnabled"] is protect


def test_prod_is_protected_and_staging_is_not(staging, prod):
    planes = {"use1-control-plane", "use1-control-plane-logs", "sjc-control-plane"}
    caches = {"use1-caches.models-files", "use1-models.research", "use1-models.vision"}
    assert {each.name for each in prod.resources if each.protect} == planes | caches, "these cannot be made again as they were"
    assert not [each.name for each in staging.resources if each.protect]


# -- our own stacks ----------------------------------------------------------------------------------------------------


@in_every_stack
def test_no_stack_or_example_requests_a_quota_of_an_account_that_it_does_not_know(recording):
    assert of_type(recording, AWS_QUOTA) == ()


def test_staging_and_prod_have_a_budget_a_cloud_and_prod_declares_the_quotas_of_oci(staging, prod):
    assert len(of_type(staging, AWS_BUDGET)) == len(of_type(prod, AWS_BUDGET)) == 1
    assert the(prod, OCI_BUDGET).inputs["targets"] == ["ocid1.compartment.oc1..exampleci"]
    assert len(the(prod, OCI_QUOTA).inputs["statements"]) == 2


def test_staging_and_prod_log_who_did_what_to_the_api(staging, prod):
    for recording in (staging, prod):
        for plane in of_type(recording, "eks:index:Cluster"):
            assert set(plane.inputs["enabledClusterLogTypes"]) >= {"api", "audit", "authenticator"}


@in_every_stack
def test_every_stack_says_whose_it_is_and_how_long_it_stands(recording):
    for provider in of_type(recording, "pulumi:providers:aws"):
        assert json.loads(provider.inputs["defaultTags"])["tags"].keys() >= REQUIRED
    propagated = {
        (urn, tag.inputs["tag"]["key"])
        for tag in of_type(recording, "aws:autoscaling/tag:Tag")
        for urn in tag.dependencies
        if tag.inputs["tag"]["propagateAtLaunch"]
    }
    for group in of_type(recording, "aws:eks/nodeGroup:NodeGroup"):
        assert {(group.urn, key) for key in REQUIRED} <= propagated, f"{group.name}: its instances"
    untagged = ("oci:Core/networkSecurityGroupSecurityRule:NetworkSecurityGroupSecurityRule", ADDON)
    for resource in recording.resources:
        if resource.type.startswith("oci:") and resource.type not in untagged:
            assert resource.inputs["freeformTags"].keys() >= REQUIRED, resource.name
    nested = {
        "oci:ContainerEngine/nodePool:NodePool": lambda inputs: inputs["nodeConfigDetails"],
        "oci:Core/instanceConfiguration:InstanceConfiguration": lambda inputs: inputs["instanceDetails"]["launchDetails"],
    }
    for token, machines in nested.items():
        for resource in of_type(recording, token):
            assert machines(resource.inputs)["freeformTags"].keys() >= REQUIRED, f"{resource.name}: the machines that it makes"


# -- add-ons -----------------------------------------------------------------------------------------------------------


def versions(recording):
    return {each.inputs["addonName"]: each.inputs.get("version") for each in of_type(recording, ADDON)}


def test_an_add_on_of_oke_has_the_version_that_the_settings_pin_and_no_other(on_oke, ungoverned):
    _, without = ungoverned
    assert versions(without) == {"ClusterAutoscaler": None, "NvidiaGpuPlugin": None}, "Oracle's choice"
    assert versions(on_oke) == ON_OKE["addonVersions"]


@in_every_stack
def test_nodes_and_add_ons_of_eks_are_pinned(recording):
    for pool_of in of_type(recording, "aws:eks/nodeGroup:NodeGroup"):
        assert pool_of.inputs["releaseVersion"], pool_of.name
    for addon in of_type(recording, "aws:eks/addon:Addon"):
        assert addon.inputs["addonVersion"], addon.name
