"""budget-alarm-required: an alarm notifies somebody when a month of GPUs costs more than planned.

Judged for each cloud in which the stack can have GPUs (`groups.py`). AWS needs a budget with a notification that has a
subscriber, or a cost anomaly monitor with a subscription that has a subscriber. The region of an AWS budget does not matter,
because it covers the whole account. A budget that counts only nodes of some pools is no such alarm, because it does not see the
rest. A budget of services without EC2, or of single kinds of use, does not either (AWS Cost Management user guide, budget
filters). OCI needs a budget with an alert rule that has recipients.
"""

from collections.abc import Callable
from functools import partial

from fleet.facts.scheduling import POOL_LABEL

from .clusters import in_existing
from .groups import AWS, MACHINES, OCI, groups, several
from .read import SETTLED, Data, Later, count, entries, items, listed, places, some, text, walk
from .rule import NOTHING, Resource, Stack, StackRule, Violations, facts, said, unseen

AWS_BUDGET = "aws:budgets/budget:Budget"
MONITOR = "aws:costexplorer/anomalyMonitor:AnomalyMonitor"
SUBSCRIPTION = "aws:costexplorer/anomalySubscription:AnomalySubscription"
OCI_BUDGET = "oci:Budget/budget:Budget"
OCI_ALERT = "oci:Budget/rule:Rule"


_COMPUTE, _USES = "Amazon Elastic Compute Cloud - Compute", ("UsageType", "UsageTypeGroup", "Operation")
"""The service of EC2 in filters of a budget, and the filters by the kind of use."""


def _check(stack: Stack, later: Later) -> Violations:
    spending: dict[str, list[str]] = {}
    outside = in_existing(stack.resources, stack.existing)
    elsewhere: dict[str, str] = {}
    for group in groups(stack.resources, later):
        # None means that the group has GPUs, but their number is unknown.
        if group.gpus != 0:
            spending.setdefault(group.cloud, []).extend(() if group.urn in outside else (group.name,))
            if group.urn in outside:
                elsewhere[group.cloud] = outside[group.urn]
    for cloud, names in spending.items():
        alarmed, fix = _ALARMS[cloud]
        unsure = Later()
        if alarmed(stack, unsure):
            continue
        if cloud in elsewhere and not names:
            later.note(unseen(elsewhere[cloud], "whether an alarm watches the account; declare a budget in the stack file"))
        elif later.clear(unsure):
            yield said("no_budget_alarm", cloud=cloud.upper(), names=several(names), fix=fix), None


def _aws(stack: Stack, later: Later) -> bool:
    def subscribed(subscription: Resource) -> bool:
        return all(count(walk(subscription.props, field)) for field in ("subscribers", "monitorArnLists"))

    def notifies(notification: tuple[str, Data]) -> bool:
        # A preview may not know a subscriber, such as the ARN of a new topic, but it knows how many there are.
        return any(count(walk(notification[1], field)) for field in ("subscriberEmailAddresses", "subscriberSnsTopicArns"))

    if any(stack.of(MONITOR)) and some(lambda _: stack.of(SUBSCRIPTION), subscribed, later):
        return True
    whole = (budget for budget in stack.of(AWS_BUDGET) if not _of_others(budget, later))
    return any(some(partial(entries, budget.props, "notifications"), notifies, later) for budget in whole)


def _of_others(budget: Resource, later: Later) -> bool:
    """Whether a budget counts only nodes of some pools, or leaves out the machines of EC2."""

    def narrow(part: tuple[str, Data]) -> bool:
        name = text(walk(part[1], "name")) or text(walk(part[1], "key")).title().replace("_", "")
        return name in _USES or (name == "Service" and _COMPUTE not in listed(walk(part[1], "values"), SETTLED))

    fields = ("costFilters.[]", "filterExpression.dimensions", "filterExpression.ands.[].dimensions")
    ands = partial(items, walk(budget.props, "filterExpression", "ands"))
    of_pools = some(ands, lambda part: walk(part[1], "tags", "key") == POOL_LABEL, later)
    return of_pools or any(some(partial(places, budget.props, field), narrow, later) for field in fields)


def _oci(stack: Stack, later: Later) -> bool:
    alerts = stack.of(OCI_ALERT) if any(stack.of(OCI_BUDGET)) else ()
    return some(lambda _: alerts, lambda alert: text(walk(alert.props, "recipients")).strip(), later)


_ALARMS: dict[str, tuple[Callable[[Stack, Later], bool], str]] = {
    AWS: (_aws, f"add an {AWS_BUDGET} with a notification and its subscribers"),
    OCI: (_oci, f"add an {OCI_BUDGET} and an {OCI_ALERT} with recipients"),
}

_TYPES = MACHINES | {AWS_BUDGET, MONITOR, SUBSCRIPTION, OCI_BUDGET, OCI_ALERT}
RULE = StackRule(**facts(__name__), types=_TYPES, check=_check, in_manifests=NOTHING)
