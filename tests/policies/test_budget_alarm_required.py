"""budget-alarm-required: each cloud with GPUs by itself, and an alarm without a receiver is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from policies.rules.budget_alarm_required import AWS_BUDGET, MONITOR, OCI_ALERT, OCI_BUDGET, RULE, SUBSCRIPTION
from tests.policies.cases import Member
from tests.policies.harness import CLEAN, UNKNOWN, judge_stack, said
from tests.policies.machine_fixtures import (
    BOX,
    FLEX,
    LAUNCHERS,
    MACHINE,
    NODE_POOLS,
    SCALING_GROUP,
    SPOT_BOX,
    STANDING,
    SYSTEM,
    T4,
    TEMPLATE,
    V100,
    VM,
    but,
    case,
)
from tests.policies.suite import Suite

NOTIFICATION = {"notificationType": "ACTUAL", "threshold": 80, "subscriberEmailAddresses": ["ci-alerts@example.com"]}
BUDGET = Member(AWS_BUDGET, "budget", {"budgetType": "COST", "limitAmount": "1500", "notifications": [NOTIFICATION]})
WATCH = Member(MONITOR, "monitor", {"monitorType": "DIMENSIONAL"})
HEARD = Member(
    SUBSCRIPTION, "subscription", {"monitorArnLists": ["arn:aws:ce::1:anomalymonitor/1"], "subscribers": [{"type": "EMAIL"}]}
)
OCI_LIMIT = Member(OCI_BUDGET, "oci-budget", {"amount": 1500})
ALERT = Member(OCI_ALERT, "alert", {"budgetId": "ocid1.budget.oc1..example", "recipients": "ci-alerts@example.com"})


def aws(names: str) -> str:
    return (
        f"AWS: the stack pays for the GPUs of {names}, but no budget alarm notifies anybody; add an {AWS_BUDGET} with "
        "a notification and its subscribers"
    )


def oci(names: str) -> str:
    return (
        f"OCI: the stack pays for the GPUs of {names}, but no budget alarm notifies anybody; add an {OCI_BUDGET} and an "
        f"{OCI_ALERT} with recipients"
    )


def test_each_cloud_is_asked_by_itself() -> None:
    assert judge_stack(RULE, (TEMPLATE, T4, V100, BUDGET)) == replace(said(oci("v100")), urns=("",))
    assert judge_stack(RULE, (TEMPLATE, T4, V100, OCI_LIMIT, ALERT)).messages == (aws("usw2/t4"),)
    assert judge_stack(RULE, (TEMPLATE, T4, V100)).messages == (aws("usw2/t4"), oci("v100"))


def test_a_stack_without_gpus_needs_none() -> None:
    assert judge_stack(RULE, (SYSTEM, FLEX)) == CLEAN


def test_gpus_that_nobody_can_count_are_paid_for_too() -> None:
    assert judge_stack(RULE, (but(BOX, "instanceType", "g9.mega"),)).messages == (aws("box"),)


@pytest.mark.parametrize(
    "alarm",
    [
        (but(BUDGET, "notifications", None),),
        (but(BUDGET, "notifications", 0, {"threshold": 80}),),
        (but(BUDGET, "notifications", 0, "subscriberEmailAddresses", []),),
        (WATCH,),
        (HEARD,),
        (WATCH, but(HEARD, "subscribers", [])),
        (WATCH, but(HEARD, "monitorArnLists", [])),
        (OCI_LIMIT, ALERT),
    ],
)
def test_on_aws_somebody_must_be_told(alarm: tuple[Member, ...]) -> None:
    assert judge_stack(RULE, (BOX, *alarm)).messages == (aws("box"),)


@pytest.mark.parametrize(
    "alarm",
    [(OCI_LIMIT,), (ALERT,), (OCI_LIMIT, but(ALERT, "recipients", None)), (OCI_LIMIT, but(ALERT, "recipients", " ")), (BUDGET,)],
)
def test_on_oci_too(alarm: tuple[Member, ...]) -> None:
    assert judge_stack(RULE, (VM, *alarm)).messages == (oci("bench"),)


@pytest.mark.parametrize(
    "alarm", [(BUDGET,), (WATCH, HEARD), (but(BUDGET, "notifications", 0, "subscriberSnsTopicArns", ["arn"]),)]
)
def test_a_budget_does_or_a_monitor_with_its_subscription(alarm: tuple[Member, ...]) -> None:
    assert judge_stack(RULE, (BOX, *alarm)) == CLEAN


def test_who_is_told_may_be_unknown_but_not_whether() -> None:
    topic = but(BUDGET, "notifications", 0, {"subscriberSnsTopicArns": [UNKNOWN]})
    assert judge_stack(RULE, (BOX, topic)) == CLEAN
    hidden = judge_stack(RULE, (BOX, but(BUDGET, "notifications", UNKNOWN)))
    assert (hidden.messages, hidden.unknown) == ((), "notifications")
    other = replace(BUDGET, name="other")
    assert judge_stack(RULE, (BOX, but(other, "notifications", UNKNOWN), BUDGET)) == CLEAN, "one alarm is enough"


def test_a_budget_of_some_pools_is_no_alarm_of_the_account() -> None:
    def counting(key: str) -> Member:
        tags = {"tags": {"key": key, "values": ["t4"]}}
        return replace(BUDGET, props={**BUDGET.props, "filterExpression": {"ands": [tags]}})

    assert judge_stack(RULE, (BOX, counting("gpu-ci/pool"))).messages == (aws("box"),)
    assert judge_stack(RULE, (BOX, counting("gpu-ci/pool"), replace(BUDGET, name="whole"))) == CLEAN
    assert judge_stack(RULE, (BOX, counting("gpu-ci/stack"))) == CLEAN


@pytest.mark.parametrize(
    ("props", "whole"),
    [
        ({"costFilters": [{"name": "Service", "values": ["AWS Lambda"]}]}, False),
        ({"costFilters": [{"name": "Service", "values": ["AWS Lambda", "Amazon Elastic Compute Cloud - Compute"]}]}, True),
        ({"costFilters": [{"name": "TagKeyValue", "values": ["user:gpu-ci/stack$prod"]}]}, True),
        ({"costFilters": [{"name": "UsageType", "values": ["USW2-Lambda-GB-Second"]}]}, False),
        ({"filterExpression": {"dimensions": {"key": "SERVICE", "values": ["AWS Lambda"]}}}, False),
        ({"filterExpression": {"ands": [{"dimensions": {"key": "USAGE_TYPE", "values": ["x"]}}]}}, False),
        ({"filterExpression": {"dimensions": {"key": "REGION", "values": ["us-west-2"]}}}, True),
    ],
)
def test_a_budget_that_leaves_out_machines_is_no_alarm(props: dict[str, Any], whole: bool) -> None:
    messages = judge_stack(RULE, (BOX, replace(BUDGET, props={**BUDGET.props, **props}))).messages
    assert messages == (() if whole else (aws("box"),))


AWS_GPUS: dict[str, tuple[tuple[Member, ...], Any]] = {
    "usw2/t4": ((TEMPLATE, T4), BUDGET),
    "asg": ((SCALING_GROUP,), BUDGET),
    "a10g": ((NODE_POOLS,), BUDGET),
    "box": ((BOX,), BUDGET),
    "spot-box": ((SPOT_BOX,), BUDGET),
}
OCI_GPUS: dict[str, tuple[Member, ...]] = {
    "v100": (V100,),
    "bench": (VM,),
    "a10-standing": (MACHINE, STANDING),
    "oracle": (LAUNCHERS,),
}

SUITE = Suite(
    RULE,
    passing=(
        *(case(*members, alarm) for members, alarm in AWS_GPUS.values()),
        case(BOX, WATCH, HEARD),
        *(case(*members, OCI_LIMIT, ALERT) for members in OCI_GPUS.values()),
    ),
    violating=(
        *(case(*members, messages={aws(name): ""}) for name, (members, _) in AWS_GPUS.items()),
        *(case(*members, messages={oci(name): ""}) for name, members in OCI_GPUS.items()),
        case(BOX, but(BUDGET, "notifications", []), messages={aws("box"): ""}),
        case(BOX, WATCH, but(HEARD, "subscribers", []), messages={aws("box"): ""}),
        case(VM, OCI_LIMIT, but(ALERT, "recipients", ""), messages={oci("bench"): ""}),
    ),
)
