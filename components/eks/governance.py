"""What AWS is told of an EKS fleet's money and quotas. Neither costs anything."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from fleet.providers.tags import STACK_TAG
from fleet.settings.budget import ACTUAL_PERCENT, FORECAST_PERCENT, Budget


def budget(name: str, settings: Budget, stack: str, *, parent: pulumi.Resource) -> aws.budgets.Budget:
    """The budget `<name>-budget` over all that has the stack's tag, in every region.

    The tag counts once it is activated as a cost allocation tag, which only the account that pays can do.
    """
    alarms = {"ACTUAL": ACTUAL_PERCENT, "FORECASTED": FORECAST_PERCENT}
    return aws.budgets.Budget(
        f"{name}-budget",
        budget_type="COST",
        time_unit="MONTHLY",
        limit_amount=str(settings.monthly_usd),
        limit_unit="USD",
        cost_filters=[aws.budgets.BudgetCostFilterArgs(name="TagKeyValue", values=[f"user:{STACK_TAG}${stack}"])],
        notifications=[
            aws.budgets.BudgetNotificationArgs(
                comparison_operator="GREATER_THAN",
                threshold=float(percent),
                threshold_type="PERCENTAGE",
                notification_type=kind,
                subscriber_email_addresses=list(settings.emails),
            )
            for kind, percent in alarms.items()
        ],
        opts=pulumi.ResourceOptions(parent=parent),
    )


def quotas(name: str, vcpus: Mapping[str, int], *, parent: pulumi.Resource) -> list[aws.servicequotas.ServiceQuota]:
    """A request for each quota of which the account has less than it is told; AWS is never asked to lower one.

    Facts: hashicorp/terraform-provider-aws@034cebb6 internal/service/servicequotas/service_quota.go. Nothing waits for AWS'
    answer, which may take days.
    """
    return [
        aws.servicequotas.ServiceQuota(
            # A number is a request of its own: filed once, and another one for another number.
            f"{name}-quota-{code}-{wanted}",
            service_code="ec2",
            quota_code=code,
            value=float(wanted),
            # Else what AWS raises by itself would be asked down again, which it refuses, and what it denies asked for each time.
            opts=pulumi.ResourceOptions(parent=parent, ignore_changes=["value"]),
        )
        for code, wanted in vcpus.items()
    ]
