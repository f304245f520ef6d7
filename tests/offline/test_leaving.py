"""A plan with a base counts the node groups that leave beside the new ones: money, GPUs and quotas."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from fleet.loading.home import ROOT
from gpu_ci.offline.base import Base, touched
from gpu_ci.offline.changes import Change
from gpu_ci.offline.compare import Comparison
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.markdown import markdown
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.report import changed_lines
from policies.rules import RULES
from tests.day import AS_OF
from tests.offline.staging import EVICT, WIDER, base, few_policies, plan_of, staging, write

Edit = tuple[str, str]
CONFIG = ("\n          nodeConfig: {instance: {localStorage: {strategy: RAID0}}}", "")
"""Another template for both pools: five T4 on spot and two on demand."""
BURST = "          role: burst\n"
GATEWAYS = ("      system: {", "      network: {natGateways: per-zone}\n      system: {")
FIXED = "controlPlaneZones: [us-west-2a, us-west-2b]\n      zones: [us-west-2a, us-west-2b{}]"
ZONES = ("zones: [us-west-2a, us-west-2b, us-west-2c]", FIXED.format(", us-west-2c"))
TWO = (ZONES[0], FIXED.format(""))
TYPES = ("[g4dn.2xlarge, g4dn.4xlarge]", "[g4dn.2xlarge, g4dn.4xlarge, g4dn.8xlarge]")
WHILE = "while old node groups have nodes"


@cache
def edited(*edits: Edit) -> Plan:
    return plan_of(write(Path(mkdtemp()), *edits))


def draining(after: Plan, before: Plan | None = None) -> list[str]:
    notes = Comparison(before or staging(), after).notes
    return [note.removeprefix(f"{WHILE}").lstrip(":, ") for note in notes if note.startswith(WHILE)]


def more(after: Plan, before: Plan | None = None) -> str:
    return draining(after, before)[0].partition(" + ")[2].partition(" = ")[0]


def test_the_worst_hour_has_the_new_groups_and_the_old_ones_at_their_maximum() -> None:
    whole = {line.item: line.worst.usd for line in staging().bill}
    disks = whole["disks"] * 1400 / 1600  # the other two hundred are those of the system pool
    added = whole["pool t4-spot"] + whole["pool t4-release"] + whole["NAT traffic"] + disks
    assert f"{added:.2f}" == "10.83"
    assert draining(edited(CONFIG))[0] == "the worst hour is ≤13.89 + ≤10.83 = ≤24.72 USD"


def test_old_groups_cost_what_they_cost_before_the_change() -> None:
    small = more(edited((BURST, f"{BURST}          disk: 150Gi\n")))
    assert small == more(edited((BURST, f"{BURST}          disk: 205Gi\n"))), "the new disks are in the bill of the plan"
    assert small == more(
        edited(
            ("nodes: {min: 0, max: 5}", "nodes: {min: 0, max: 9}"),
            ("[g4dn.2xlarge, g4dn.4xlarge]", "[g4dn.4xlarge, g4dn.8xlarge]"),
        )
    )
    assert small != more(edited(TWO), edited(ZONES)), "of a zone that goes its share counts alone"


@pytest.mark.parametrize("edits", [(WIDER,), (EVICT, CONFIG)], ids=["no other nodes", "at once"])
def test_where_no_group_stays_nothing_more_counts(edits: tuple[Edit, ...]) -> None:
    assert draining(edited(*edits)) == []
    assert Comparison(staging(), edited(*edits)).both is None


def judged(plan: Plan, settings: dict[str, Any]) -> Plan:
    policies = configure(RULES, {"all": "disabled", **settings}, AS_OF)
    assert plan.recording is not None
    return replace(plan, policies=policies, verdicts=judge(plan.recording, policies))


def fails(plan: Plan, before: Plan, **settings: Any) -> list[str]:
    rules = {name.replace("_", "-"): {"enforcementLevel": "mandatory", **values} for name, values in settings.items()}
    return [verdict.message for verdict in touched(judged(plan, rules), judged(before, rules), Path("nowhere")).blocked()]


@pytest.mark.parametrize(
    ("before", "after", "gpus", "worst"),
    [((), (CONFIG,), 14, 24.72), ((ZONES,), (TWO,), 8, 15.56), ((), (EVICT, CONFIG), 7, 13.89), ((), (), 7, 13.89)],
    ids=["pools", "a zone", "at once", "no edit"],
)
def test_the_ceilings_hold_for_both(before: tuple[Edit, ...], after: tuple[Edit, ...], gpus: int, worst: float) -> None:
    plans = edited(*after), edited(*before)
    money = {"worstUsdPerHour": worst + 0.01, "idleUsdPerHour": 1}
    assert fails(*plans, stack_gpu_ceiling={"maxGpus": gpus}, stack_cost_ceiling=money) == []
    (most,) = fails(*plans, stack_gpu_ceiling={"maxGpus": gpus - 1})
    assert most.startswith(f"{gpus} GPUs at most (")
    assert ("usw2/t4-spot (leaving)" in most) is (gpus > 7)
    (money_message,) = fails(*plans, stack_cost_ceiling=money | {"worstUsdPerHour": worst - 0.02})
    assert money_message.startswith("worst hour ")


def account(spot: int, on_demand: int) -> Edit:
    quotas = f"accountQuotas: {{L-3819A6DF: {spot}, L-DB2E81BA: {on_demand}}}"
    return "      system: {", f"      {quotas}\n      system: {{"


def test_a_quota_that_holds_the_new_groups_alone_is_too_small() -> None:
    enough, small = ([account(*vcpus), CONFIG] for vcpus in ((160, 32), (80, 32)))
    assert len(draining(edited(*enough))) == 1
    assert len(draining(edited(CONFIG))) == 1, "what the account has is not known, and the plan asks for it"
    assert not any("full pools need" in remark for remark in edited(*small).remarks), "it holds the new groups"
    _, quota = draining(edited(*small))
    assert quota == (
        "AWS us-west-2: full pools need 160 vCPUs of quota L-3819A6DF, and the account has 80; aws service-quotas "
        "request-service-quota-increase --region us-west-2 --service-code ec2 --quota-code L-3819A6DF --desired-value 160"
    )


def oke(*edits: Edit) -> Plan:
    file = Path(mkdtemp()) / "Pulumi.existing-oke.yaml"
    text = (ROOT / "examples" / file.name).read_text()
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    with few_policies():
        return make_plan("existing-oke", ROOT, file)


def test_a_node_pool_of_oke_counts_with_all_the_nodes_that_it_may_have() -> None:
    before, small = oke(), oke(("[VM.GPU.A10.1]", "[VM.GPU.A10.2]"))
    (line,) = (line for line in before.bill if line.item == "pool a10")
    both = Comparison(before, small).both
    assert both is not None
    (pool,) = (resource for resource in both.resources if resource.urn.endswith("(before)"))
    assert (pool.inputs["nodeConfigDetails"]["size"], pool.inputs["nodeShape"]) == (line.most, "VM.GPU.A10.1")
    assert float(more(small, before)) == pytest.approx(line.worst.usd, rel=0.1)


def harm(before: tuple[Edit, ...], after: tuple[Edit, ...]) -> dict[str, Change]:
    return {change.effect: change for change in Comparison(edited(*before), edited(*after)).changes if change.is_told}


def test_the_gateway_of_a_zone_stays_with_the_groups_that_leave_it() -> None:
    assert list(harm((GATEWAYS, ZONES), (GATEWAYS, TWO))) == ["pool-leaves"]
    assert list(harm((GATEWAYS, ZONES), (EVICT, GATEWAYS, TWO))) == ["pool-replaced", "connections-broken"]
    assert list(harm((GATEWAYS, ZONES), (ZONES, TYPES))) == ["connections-broken", "pool-leaves"], "one gateway is enough now"


def test_terminal_and_comment_say_what_leaves_and_that_it_takes_another_update() -> None:
    plan = edited(TYPES)
    first, second, *others = changed_lines(plan, base())
    assert first == (
        "usw2: edit of t4-spot.instanceTypes replaces 3 node groups (instanceTypes) once idle: running jobs of gpu-t4 on t4-spot "
        "go on, and the old node groups go with a later `pulumi up`, once they have no node"
    )
    assert second.startswith("no running job ends: node group replaced or deleted once it is idle: 3, ")
    assert f"{WHILE}, the worst hour is {draining(plan)[0].removeprefix('the worst hour is ')}" in others
    text = markdown(plan, Base("", staging()))
    assert f"### No running job ends\n\n- {first}\n" in text.replace("\\`", "`")
    assert f"{WHILE}, the worst hour is" in text
