"""The budget and the service quotas of an EKS fleet in AWS. Both are free."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws

from fleet.facts.scheduling import POOL_LABEL
from fleet.providers.tags import STACK_TAG, fixed_tags
from fleet.settings.budget import ACTUAL_PERCENT, FORECAST_PERCENT, Budget, PoolBudget


def govern(name: str, budget: Budget | None, stack: str, vcpus: Mapping[str, int], *, parent: pulumi.Resource) -> None:
    """The budget `<name>-budget` for all resources with the stack's tag, in every region, and a request for each quota.

    The tag takes effect once the paying account has activated it as a cost allocation tag. `vcpus` by quota code must be more
    than the account has.
    The provider files a request when it creates the resource, and fails if the account has more or if a request is open. Deleting
    the resource changes nothing in AWS (hashicorp/terraform-provider-aws@034cebb6
    internal/service/servicequotas/service_quota.go). No resource waits for AWS's answer, which may take days.
    """
    if budget is not None:
        filters = [{"name": "TagKeyValue", "values": [f"user:{STACK_TAG}${stack}"]}]
        _budget(name, budget, pulumi.ResourceOptions(parent=parent), cost_filters=filters)
    # Every update would file a request: AWS refuses a smaller number, and a denied request would be repeated.
    opts = pulumi.ResourceOptions(parent=parent, ignore_changes=["value"])
    for code, count in vcpus.items():
        aws.servicequotas.ServiceQuota(f"{name}-quota-{code}", service_code="ec2", quota_code=code, value=float(count), opts=opts)


def govern_pools(name: str, budgets: Mapping[str, PoolBudget], stack: str, *, parent: pulumi.Resource) -> None:
    """The budgets `<name>-pools.<budget>-budget` of pools of the cluster `name`: what machines and disks of their nodes cost.

    Nodes have the tags from their launch template, so a budget changes no node. Each of the tags takes effect as in `govern`.
    """
    for key, budget in budgets.items():
        tags = {tag: [value] for tag, value in fixed_tags(stack, name).items()} | {POOL_LABEL: list(budget.pools)}
        # Several tags in cost_filters are not documented to be joined by "and". No name of a cluster has a dot.
        counted = {"ands": [{"tags": {"key": tag, "values": values}} for tag, values in tags.items()]}
        opts = pulumi.ResourceOptions(parent=parent)
        _budget(f"{name}-pools.{key}", budget, opts, filter_expression=counted, metrics="UnblendedCost")


def _budget(name: str, budget: Budget, opts: pulumi.ResourceOptions, **counted: Any) -> None:
    """The budget `<name>-budget` with its two alarms. `counted` says what it counts."""
    limit = {"budget_type": "COST", "time_unit": "MONTHLY", "limit_amount": str(budget.monthly_usd), "limit_unit": "USD"}
    exceeds = {"comparison_operator": "GREATER_THAN", "threshold_type": "PERCENTAGE"}
    alarm = {**exceeds, "subscriber_email_addresses": [*budget.emails]}
    percents = {"ACTUAL": ACTUAL_PERCENT, "FORECASTED": FORECAST_PERCENT}
    alarms: list[Any] = [{**alarm, "threshold": float(now), "notification_type": kind} for kind, now in percents.items()]
    aws.budgets.Budget(f"{name}-budget", **limit, notifications=alarms, **counted, opts=opts)
