"""CloudWatch's add-on on an EKS cluster: its version, its rights and its order."""

from __future__ import annotations

import json

import pytest

from components.eks.iam import POD_IDENTITY_TRUST
from fleet.charts.cloudwatch import CLOUDWATCH, cloudwatch_values
from fleet.facts.scheduling import SYSTEM_SELECTOR
from fleet.facts.versions import KUBERNETES
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.recording import Recording
from policies.rules import RULES
from tests.builders import cluster
from tests.components.built import built
from tests.components.recorded import before, named, of_type
from tests.day import AS_OF

ADDON = "aws:eks/addon:Addon"
TAGS = {"owner": "ci", "cost-center": "ci", "stack": "test", "ttl": "permanent"}


def planned(*, cloudwatch: bool) -> Recording:
    monitoring = {"prometheus": "existing", "cloudwatch": cloudwatch}
    return built(clusters={"usw2": cluster(monitoring=monitoring, protect=True)}, tags=TAGS)


@pytest.fixture(scope="module")
def with_it() -> Recording:
    return planned(cloudwatch=True)


def test_the_add_on_has_its_pinned_version_and_the_values_that_keep_its_exporter_off(with_it: Recording) -> None:
    addon = named(with_it, "usw2-cloudwatch-addon", ADDON)
    assert addon.inputs["addonName"] == CLOUDWATCH
    assert addon.inputs["addonVersion"] == KUBERNETES["1.34"].cloudwatch
    values = json.loads(str(addon.inputs["configurationValues"]))
    assert values == cloudwatch_values(SYSTEM_SELECTOR)
    assert values["dcgmExporter"] == {"enabled": False}
    assert addon.inputs["resolveConflictsOnUpdate"] == "OVERWRITE", "a change by hand would start a second exporter"


def test_its_agents_have_a_role_of_their_own_before_they_start(with_it: Recording) -> None:
    role = named(with_it, "usw2-cloudwatch-role", "aws:iam/role:Role")
    assert role.inputs["assumeRolePolicy"] == POD_IDENTITY_TRUST
    rights = named(with_it, "usw2-cloudwatch-rights", "aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    assert rights.inputs["policyArn"] == "arn:aws:iam::aws:policy/CloudWatchAgentServerPolicy"
    identity = named(with_it, "usw2-cloudwatch-identity", "aws:eks/podIdentityAssociation:PodIdentityAssociation")
    assert (identity.inputs["namespace"], identity.inputs["serviceAccount"]) == ("amazon-cloudwatch", "cloudwatch-agent")
    addon = named(with_it, "usw2-cloudwatch-addon", ADDON)
    assert {rights.urn, identity.urn} <= set(addon.dependencies)
    assert {"usw2-system-nodes", "usw2-addon-coredns"} <= {urn.rpartition("::")[2] for urn in before(with_it, addon)}


def test_a_cluster_that_does_not_ask_for_it_has_nothing_of_it() -> None:
    recording = planned(cloudwatch=False)
    assert CLOUDWATCH not in {each.inputs["addonName"] for each in of_type(recording, ADDON)}
    assert of_type(recording, "gpu-ci:index:CloudWatch") == ()


def test_our_own_policies_have_nothing_against_it(with_it: Recording) -> None:
    verdicts = judge(with_it, configure(RULES, {"all": "mandatory"}, AS_OF))
    assert [each for each in verdicts if "cloudwatch" in str(each.urn)] == []
