"""The budget and the service quotas of an EKS fleet in AWS. Both are free."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from fleet.providers.tags import STACK_TAG
from fleet.settings.budget import ACTUAL_PERCENT, FORECAST_PERCENT, Budget


def govern(name: str, budget: Budget | None, stack: str, vcpus: Mapping[str, int], *, parent: pulumi.Resource) -> None:
    """The budget `<name>-budget` for all resources with the stack's tag, in every region, and a request for each quota.

    The tag takes effect once the paying account has activated it as a cost allocation tag. `vcpus` by quota code must be more
    than the account has.
    The provider files a request when it creates the resource, and fails if the account has more or if a request is open. Deleting
    the resource changes nothing in AWS (hashicorp/terraform-provider-aws@034cebb6
    internal/service/servicequotas/service_quota.go). No resource waits for AWS's answer, which may take days.
    """
    if budget is not None:
        aws.budgets.Budget(
            f"{name}-budget",
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=str(budget.monthly_usd),
            limit_unit="USD",
            cost_filters=[{"name": "TagKeyValue", "values": [f"user:{STACK_TAG}${stack}"]}],
            notifications=[
                {
                    "comparison_operator": "GREATER_THAN",
                    "threshold": float(percent),
                    "threshold_type": "PERCENTAGE",
                    "notification_type": kind,
                    "subscriber_email_addresses": list(budget.emails),
                }
                for kind, percent in (("ACTUAL", ACTUAL_PERCENT), ("FORECASTED", FORECAST_PERCENT))
            ],
            opts=pulumi.ResourceOptions(parent=parent),
        )
    for code, count in vcpus.items():
        aws.servicequotas.ServiceQuota(
            f"{name}-quota-{code}",
            service_code="ec2",
            quota_code=code,
            value=float(count),
            # Every update would file a request: AWS refuses a smaller number, and a denied request would be repeated.
            opts=pulumi.ResourceOptions(parent=parent, ignore_changes=["value"]),
        )
