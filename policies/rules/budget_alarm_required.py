"""budget-alarm-required: somebody is told when a month of GPUs costs more than planned.

Asked of each cloud in which the stack can have GPUs (`groups.py`). On AWS a budget with a notification that has a subscriber
does, or a monitor of anomalies with a subscription that has one; an account's budgets are in no region. On OCI a budget does
with an alert rule that has recipients: without them nobody hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .clusters import in_existing
from .groups import AWS, MACHINES, OCI, groups, several
from .read import Later, count, items, text, walk
from .rule import NOTHING, PolicyResource, Section, Severity, Stack, StackRule, Violation, unseen

AWS_BUDGET = "aws:budgets/budget:Budget"
MONITOR = "aws:costexplorer/anomalyMonitor:AnomalyMonitor"
SUBSCRIPTION = "aws:costexplorer/anomalySubscription:AnomalySubscription"
OCI_BUDGET = "oci:Budget/budget:Budget"
OCI_ALERT = "oci:Budget/rule:Rule"


def _check(stack: Stack, later: Later) -> Iterator[Violation]:
    spending: dict[str, list[str]] = {}
    outside = in_existing(stack.resources, stack.existing)
    elsewhere: dict[str, str] = {}
    for group in groups(stack.resources, later):
        # None: it has GPUs, though nobody can tell how many.
        if group.gpus != 0:
            spending.setdefault(group.cloud, []).extend(() if group.urn in outside else (group.name,))
            if group.urn in outside:
                elsewhere[group.cloud] = outside[group.urn]
    for cloud, names in spending.items():
        told, mend = _ALARMS[cloud]
        unsure = Later()
        if told(stack, unsure):
            continue
        if cloud in elsewhere and not names:
            later.note(unseen(elsewhere[cloud], "whether an alarm watches the account; declare a budget in the stack file"))
        elif not unsure:
            yield (
                f"{cloud.upper()}: GPUs of {several(names)} are paid for, and no alarm tells anybody of a dear month; {mend}",
                None,
            )
        later.join(unsure)


def _aws(stack: Stack, later: Later) -> bool:
    monitored = any(True for _ in stack.of(MONITOR)) and _some(stack, SUBSCRIPTION, _subscribed, later)
    return monitored or _some(stack, AWS_BUDGET, _notifies, later)


def _oci(stack: Stack, later: Later) -> bool:
    return any(True for _ in stack.of(OCI_BUDGET)) and _some(stack, OCI_ALERT, _received, later)


def _some(stack: Stack, token: str, test: Callable[[PolicyResource, Later], bool], later: Later) -> bool:
    """Whether some resource of a type passes; where only unknown ones may, they are put off."""
    unsure = Later()
    for resource in stack.of(token):
        with unsure:
            if test(resource, unsure):
                return True
    later.join(unsure)
    return False


def _notifies(budget: PolicyResource, later: Later) -> bool:
    return any(_has_subscriber(notification) for _, notification in items(walk(budget.props, "notifications"), later))


def _has_subscriber(notification: Any) -> bool:
    # Who is told may be known only when their topic exists; that there is somebody is known now.
    return any(count(walk(notification, field)) for field in ("subscriberEmailAddresses", "subscriberSnsTopicArns"))


def _subscribed(subscription: PolicyResource, _: Later) -> bool:
    return count(walk(subscription.props, "subscribers")) > 0 and count(walk(subscription.props, "monitorArnLists")) > 0


def _received(alert: PolicyResource, _: Later) -> bool:
    return bool(text(walk(alert.props, "recipients")).strip())


_ALARMS: dict[str, tuple[Callable[[Stack, Later], bool], str]] = {
    AWS: (_aws, f"add an {AWS_BUDGET} with a notification and its subscribers, in a stack file `budget` of an EKS cluster"),
    OCI: (_oci, f"add an {OCI_BUDGET} and an {OCI_ALERT} with recipients, in a stack file `budget` of an OKE cluster"),
}

RULE = StackRule(
    id="budget-alarm-required",
    order=(Section.COST, 90),
    title="An alarm tells of a month that is too dear",
    severity=Severity.MEDIUM,
    types=MACHINES | {AWS_BUDGET, MONITOR, SUBSCRIPTION, OCI_BUDGET, OCI_ALERT},
    levels={"dev": "disabled", "staging": "advisory", "prod": "mandatory", "homelab": "disabled"},
    rationale="A ceiling bounds what a stack may cost; only the bill says what it does cost, and who reads that every day?",
    source="https://docs.aws.amazon.com/cost-management/latest/userguide/budgets-managing-costs.html",
    fix="AWS: a budget with a notification, or an anomaly monitor with a subscription. OCI: a budget and a rule with recipients.",
    check=_check,
    in_manifests=NOTHING,
)
