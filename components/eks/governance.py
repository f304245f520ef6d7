"""The budget and the service quotas of an EKS fleet in AWS. Both are free."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from fleet.providers.tags import STACK_TAG
from fleet.settings.budget import ACTUAL_PERCENT, FORECAST_PERCENT, Budget


def budget(name: str, settings: Budget, stack: str, *, parent: pulumi.Resource) -> aws.budgets.Budget:
    """The budget `<name>-budget` for all resources with the stack's tag, in every region.

    The tag takes effect once the paying account has activated it as a cost allocation tag.
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
    """A request for each quota. `vcpus` by quota code must be more than the account has.

    The provider files a request when it creates the resource, and fails if the account has more or if a request is open. Deleting
    the resource changes nothing in AWS (hashicorp/terraform-provider-aws@034cebb6
    internal/service/servicequotas/service_quota.go). No resource waits for AWS's answer, which may take days.
    """
    return [
        aws.servicequotas.ServiceQuota(
            f"{name}-quota-{code}",
            service_code="ec2",
            quota_code=code,
            value=float(count),
            # Every update would file a request: AWS refuses a smaller number, and a denied request would be repeated.
            opts=pulumi.ResourceOptions(parent=parent, ignore_changes=["value"]),
        )
        for code, count in vcpus.items()
    ]
