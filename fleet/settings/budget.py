"""A monthly budget and its alarms."""

from typing import Annotated

from pydantic import Field

from fleet.settings.model import IN_ANY_ORDER, Model
from fleet.settings.refusals import matching

ACTUAL_PERCENT, FORECAST_PERCENT = 80, 100
"""Percent of the budget at which the cloud sends a mail: of the actual cost, and of the forecast for the month."""
MONTH = 730
"""Hours of a month."""


Email = Annotated[str, matching("email", r"[^@\s,;]+@[^@\s,;]+\.[^@\s,;]+", most=254)]


class Budget(Model):
    """A monthly budget: an alarm by email, which stops nothing."""

    monthly_usd: Annotated[int, Field(ge=1)]
    """Amount of the budget. OCI reads the number in the currency of the tenancy's rate card. Unit: whole USD a month."""
    emails: Annotated[tuple[Email, ...], Field(min_length=1, max_length=10), IN_ANY_ORDER]
    """Recipients of the alarms, at most ten. Source: docs.aws.amazon.com, API_budgets_NotificationWithSubscribers."""


class PoolBudget(Budget):
    """A monthly budget of some pools of a cluster, for example those of a team or of a runner class."""

    pools: Annotated[tuple[str, ...], Field(min_length=1), IN_ANY_ORDER]
    """The pools whose nodes it counts. It does not see what they share: control plane, system pool, NAT gateways, caches."""
