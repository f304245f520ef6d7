"""The role of a class's jobs: its service account, the association, the way to the agent, and what policies say of it."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.recording import Recording
from policies.rules import RULES
from tests.builders import cluster, runner
from tests.components.built import built, planned
from tests.components.recorded import before, named, of_type
from tests.day import AS_OF

IDENTITY = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
ACCOUNT = "kubernetes:core/v1:ServiceAccount"
NETWORK = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
RELEASE = "kubernetes:helm.sh/v3:Release"
ROLE = "arn:aws:iam::123456789012:role/gpu-ci-test-usw2-models"
CLASSES = {
    "gpu-t4": runner(serviceAccount="jobs", role=ROLE),
    "plain": runner(),
}


@pytest.fixture(scope="module")
def usw2() -> Recording:
    return planned(usw2=cluster(runners=CLASSES))


def egress(recording: Recording, name: str) -> list[str]:
    spec = named(recording, f"usw2-{name}-network", NETWORK).inputs["spec"]
    return [to["ipBlock"]["cidr"] for rule in spec["egress"] for to in rule["to"] if "ipBlock" in to]


def test_the_association_gives_the_role_to_the_account_of_the_pods(usw2: Recording) -> None:
    (association,) = [found for found in of_type(usw2, IDENTITY) if found.name == "usw2-gpu-t4-role"]
    inputs: dict[str, Any] = dict(association.inputs)
    assert (inputs["namespace"], inputs["serviceAccount"], inputs["roleArn"]) == ("runners-gpu-t4", "jobs", ROLE)
    account = named(usw2, "usw2-gpu-t4-jobs", ACCOUNT).inputs
    assert account["metadata"] == {"name": "jobs", "namespace": "runners-gpu-t4"}
    assert account["automountServiceAccountToken"] is False
    pod = named(usw2, "usw2-gpu-t4-chart", RELEASE).inputs["values"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("jobs", False)


def test_a_pod_starts_after_its_association_and_its_account(usw2: Recording) -> None:
    chart = named(usw2, "usw2-gpu-t4-chart", RELEASE)
    earlier = before(usw2, chart)
    for name, kind in (("usw2-gpu-t4-role", IDENTITY), ("usw2-gpu-t4-jobs", ACCOUNT)):
        assert named(usw2, name, kind).urn in earlier, name


def test_only_the_class_with_a_role_reaches_the_agent(usw2: Recording) -> None:
    assert egress(usw2, "gpu-t4") == ["0.0.0.0/0", "169.254.170.23/32"]
    assert egress(usw2, "plain") == ["0.0.0.0/0"]
    assert "serviceAccountName" not in named(usw2, "usw2-plain-chart", RELEASE).inputs["values"]["template"]["spec"]


def test_a_fleet_without_roles_has_no_association_of_a_class() -> None:
    recording = built(clusters={"usw2": cluster()})
    assert not [found for found in of_type(recording, IDENTITY) if found.name.endswith("-role")]


def test_the_policies_find_runners_with_a_role_isolated(usw2: Recording) -> None:
    verdicts = judge(usw2, configure(RULES, {"all": "mandatory"}, AS_OF))
    assert not [verdict for verdict in verdicts if verdict.rule in ("runner-namespace-isolated", "runner-no-privileged")]
