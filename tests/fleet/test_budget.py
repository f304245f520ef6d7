"""Budgets: who is notified, and whether an idle fleet spends one by itself."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fleet.facts.errors import FleetError
from fleet.facts.pricing import total
from fleet.loading.config import load
from fleet.prove import bill
from fleet.settings.budget import MONTH
from tests.builders import cluster, config, oke_cluster, oke_runner, pool, runner
from tests.day import AS_OF

EAST = {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"], "runners": {"gpu-east": runner()}}
TENANCY = {"tenancy": "ocid1.tenancy.oc1..a"}


def budget(usd: int, **changes: Any) -> dict[str, Any]:
    return {"monthlyUsd": usd, "emails": ["ops@gpu-ci.dev"]} | changes


def remarks(**clusters: dict[str, Any]) -> list[str]:
    return list(bill.remarks(load(config(clusters=clusters)), AS_OF))


def idle(**clusters: dict[str, Any]) -> float:
    return total(bill.bill(load(config(clusters=clusters)), AS_OF))[0].usd * MONTH


def test_a_budget_that_idle_clusters_spend_is_told_with_both_sums() -> None:
    month = idle(usw2=cluster())
    assert month > 100, "control plane, system pool and NAT gateway are always paid"
    assert remarks(usw2=cluster(budget=budget(100))) == [
        f"usw2: budget: without jobs, {month:.0f} USD a month are spent on the stack's EKS clusters, and monthlyUsd is 100; "
        "raise monthlyUsd, or the alarm is sent every month"
    ]
    assert remarks(usw2=cluster(budget=budget(round(month) + 1))) == []
    assert remarks(usw2=cluster()) == [], "no budget, no remark"


def test_a_budget_on_aws_watches_all_eks_clusters_of_the_stack_and_none_of_another_cloud() -> None:
    one, both = idle(usw2=cluster()), idle(usw2=cluster(), use1=cluster(**EAST))
    between = round((one + both) / 2)
    assert remarks(usw2=cluster(budget=budget(between)), sjc=oke_cluster()) == []
    (told,) = remarks(usw2=cluster(budget=budget(between)), use1=cluster(**EAST))
    assert told.startswith(f"usw2: budget: without jobs, {both:.0f} USD a month are spent on the stack's EKS clusters")


def test_a_budget_on_oci_watches_one_compartment() -> None:
    apart = oke_cluster(compartment="ocid1.compartment.oc1..apart", runners={"more": oke_runner()})
    month = idle(sjc=oke_cluster())
    (told,) = remarks(sjc=oke_cluster(**TENANCY, budget=budget(1)), more=apart)
    spent = f"without jobs, {month:.0f} USD a month are spent on compartment ocid1.compartment.oc1..example"
    assert told.startswith(f"sjc: budget: {spent}")


def test_clusters_of_two_compartments_have_two_budgets_and_those_of_one_a_single_one() -> None:
    def read(**over: str) -> None:
        apart = {"compartment": "ocid1.compartment.oc1..apart", "runners": {"more": oke_runner()}}
        more = oke_cluster(**TENANCY, budget=budget(1, **over), **apart)
        load(config(clusters={"sjc": oke_cluster(**TENANCY, budget=budget(1)), "more": more}))

    read()
    with pytest.raises(FleetError, match="cluster sjc's budget already covers compartment ocid1"):
        read(compartment="ocid1.compartment.oc1..example")


def test_a_budget_that_may_not_see_the_machines_is_told() -> None:
    own = {"machineCompartment": "ocid1.compartment.oc1..vms"}
    told = [remark for remark in _oke(**own, budget=budget(1)) if remark.startswith("budget: it covers compartment")]
    assert len(told) == 1
    over = budget(1, compartment="ocid1.compartment.oc1..above")
    for held in (_oke(budget=budget(1)), _oke(**own, budget=over), _oke(**own)):
        assert not any("budget: it covers" in remark for remark in held)


def _oke(**changes: Any) -> tuple[str, ...]:
    found: tuple[str, ...] = load(config(clusters={"sjc": oke_cluster(**TENANCY, **changes)})).clusters["sjc"].remarks
    return found


def test_a_budget_of_pools_that_their_warm_nodes_spend_is_told() -> None:
    warm = cluster(pools={"t4": pool(nodes={"min": 1, "max": 2}), "more": pool()})
    of = {"vision": budget(100, pools=["t4"]), "cold": budget(1, pools=["more"]), "enough": budget(9000, pools=["t4", "more"])}
    (told,) = remarks(usw2=warm | {"poolBudgets": of})
    assert re.match(r"usw2: poolBudgets\.vision: without jobs, [0-9]{3} USD a month are spent on its pools t4, and", told)
