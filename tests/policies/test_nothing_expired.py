"""nothing-expired: images, charts, control planes and node images on their last good day, and on the day after it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import pytest

from fleet.facts import lifecycle, tables
from fleet.facts.support import EKS_SUPPORT
from policies.rules.kinds import (
    CLUSTER_POLICY,
    EKS_CLUSTER,
    EKS_COMPONENT,
    EKS_NODE_GROUP,
    OKE_CLUSTER,
    OKE_NODE_POOL,
    RELEASE,
)
from policies.rules.nothing_expired import RULE
from tests.day import AS_OF
from tests.policies.cases import alone
from tests.policies.harness import CLEAN, changed, judge_stack
from tests.policies.suite import Suite, in_pods, stacks

RUNNER = "ghcr.io/actions/actions-runner"
OLD = f"{RUNNER}:2.330.0"
OKE_OVER = "1.33"
EKS_EXTENDED = "1.33"
NODES = "1.34.1-20251016"
"""A node image whose driver branch has ended, R570."""
NEWER = "take a newer one (gpu-ci freshen)"


def fault(path: str, value: str, life: lifecycle.Life | None) -> str:
    assert life is not None
    assert life.over(AS_OF)
    return f'{path} is "{value}": {life.words(AS_OF)}; {NEWER}'


def runner_fault(path: str) -> str:
    return fault(path, OLD, lifecycle.runner("2.330.0", AS_OF))


def pod(image: str) -> dict[str, Any]:
    return {"containers": [{"name": "runner", "image": image}]}


def release(chart: str, version: str, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "chart": chart,
        "version": version,
        "repositoryOpts": {"repo": "https://charts.example"},
        "values": dict(values or {}),
    }


EKS = {"name": "usw2", "version": "1.36"}
OKE = {"name": "sjc", "kubernetesVersion": "v1.36.4"}
GROUP = {"clusterName": "usw2", "releaseVersion": "1.36.3-20260911"}
OPERATOR = {"spec": {"toolkit": {"repository": "ghcr.io/actions", "image": "actions-runner", "version": "2.330.0"}}}


def test_a_version_is_good_on_its_last_day_and_ended_on_the_next() -> None:
    last = EKS_SUPPORT["1.36"].standard_until - timedelta(1)
    (member,) = alone(EKS_CLUSTER, EKS).members
    assert judge_stack(RULE, [member], as_of=last) == CLEAN
    over = judge_stack(RULE, [member], as_of=last + timedelta(1))
    assert over != CLEAN
    assert "EKS 1.36, standard support ended on 2027-08-01" in str(over)


@pytest.mark.parametrize("day", [date(2026, 7, 29), date(2027, 7, 28)])
def test_a_cluster_that_chose_extended_support_has_the_days_of_extended_support(day: date) -> None:
    chosen = {**EKS, "version": EKS_EXTENDED, "upgradePolicy": {"supportType": "EXTENDED"}}
    standard = changed(chosen, "upgradePolicy", "supportType", "STANDARD")
    assert judge_stack(RULE, alone(EKS_CLUSTER, chosen).members, as_of=day) == CLEAN
    assert judge_stack(RULE, alone(EKS_CLUSTER, standard).members, as_of=day) != CLEAN


def test_a_runner_without_a_known_end_passes_after_its_earliest_possible_one() -> None:
    newest = max(tables.rows("runner_releases.csv"), key=lambda row: lifecycle.numbers(row["version"]))["version"]
    (case,) = stacks(in_pods(pod(f"{RUNNER}:{newest}"), tokens=["kubernetes:core/v1:Pod"]))
    assert judge_stack(RULE, case.members, as_of=date(2099, 1, 1)) == CLEAN


def test_a_version_that_no_table_has_passes() -> None:
    for token, props in (
        (RELEASE, release("acme", "0.0.1")),
        (EKS_CLUSTER, {**EKS, "version": "9.99"}),
        (OKE_CLUSTER, {**OKE, "kubernetesVersion": "latest"}),
        (EKS_NODE_GROUP, {**GROUP, "releaseVersion": "9.9.9-20990101"}),
    ):
        assert judge_stack(RULE, alone(token, props).members, as_of=date(2099, 1, 1)) == CLEAN, token


SUITE = Suite(
    RULE,
    passing=(
        *stacks(in_pods(pod("ghcr.io/acme/app:1.2.3"))),
        *(alone(token, changed(OPERATOR, "spec", "toolkit", "version", "2.999.0")) for token in sorted(CLUSTER_POLICY)),
        alone(EKS_CLUSTER, EKS),
        alone(EKS_COMPONENT, EKS),
        alone(OKE_CLUSTER, OKE),
        alone(OKE_NODE_POOL, OKE),
        alone(EKS_NODE_GROUP, GROUP),
    ),
    violating=(
        *stacks(in_pods(pod(OLD), runner_fault("{pod}.containers[0].image"))),
        *(alone(token, OPERATOR, (runner_fault("spec.toolkit"),)) for token in sorted(CLUSTER_POLICY)),
        alone(
            RELEASE,
            release("kueue", "0.19.2"),
            (
                fault(
                    "values.controllerManager.manager.image",
                    "registry.k8s.io/kueue/kueue:v0.19.2",
                    lifecycle.of_image("registry.k8s.io/kueue/kueue:v0.19.2", AS_OF),
                ),
                fault("version", "0.19.2", lifecycle.of_chart("kueue", "0.19.2")),
            ),
        ),
        *(
            alone(token, {**EKS, "version": EKS_EXTENDED}, (fault("version", EKS_EXTENDED, lifecycle.of_eks(EKS_EXTENDED)),))
            for token in (EKS_CLUSTER, EKS_COMPONENT)
        ),
        *(
            alone(
                token,
                {"kubernetesVersion": f"v{OKE_OVER}.1"},
                (fault("kubernetesVersion", f"v{OKE_OVER}.1", lifecycle.of_oke(OKE_OVER)),),
            )
            for token in (OKE_CLUSTER, OKE_NODE_POOL)
        ),
        alone(
            EKS_NODE_GROUP,
            {**GROUP, "releaseVersion": NODES},
            (fault("releaseVersion", NODES, lifecycle.of_driver("570.195.03")),),
        ),
    ),
)
