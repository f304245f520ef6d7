"""The budget of an OKE cluster in the tenancy's root compartment, which is free, and the provider that writes it."""

import pulumi
import pulumi_oci as oci

from components.component import Text
from fleet.settings.budget import ACTUAL_PERCENT, FORECAST_PERCENT, Budget


def home_provider(name: str, home: str | None, region: str, opts: pulumi.ResourceOptions) -> oci.Provider | None:
    """The provider of the tenancy's home region, where alone OCI accepts policies, budgets and quotas; None if it is `region`."""
    return None if home in (None, region) else oci.Provider(f"{name}-oci-home", region=home, opts=opts)


def budget(
    name: str, settings: Budget, target: Text, tenancy: Text, *, called: str, tags: dict[str, str], opts: pulumi.ResourceOptions
) -> oci.budget.Budget:
    """The budget `<name>-budget` for a compartment and those below it, displayed as `called`, with its two alarms.

    `tenancy` is an OCID. `opts` name the provider of the tenancy's home region.
    """
    # Always the root compartment, wherever the target is (docs.oracle.com, budgets overview).
    of = {"compartment_id": tenancy, "target_type": "COMPARTMENT", "targets": [target], "freeform_tags": tags}
    about = {"display_name": called, "description": f"What {called} may cost a month"}
    limit = {"amount": settings.monthly_usd, "reset_period": "MONTHLY"}
    made = oci.budget.Budget(f"{name}-budget", **of, **about, **limit, opts=opts)
    for kind, percent, says in (("ACTUAL", ACTUAL_PERCENT, "is spent"), ("FORECAST", FORECAST_PERCENT, "will be spent")):
        message = f"More than {percent} % of the month's budget of {called} {says}."
        sent = {"message": message, "recipients": ", ".join(settings.emails), "display_name": f"{called}-{kind.lower()}"}
        when = {"type": kind, "threshold": float(percent), "threshold_type": "PERCENTAGE"}
        oci.budget.Rule(f"{name}-budget-{kind.lower()}", budget_id=made.id, **when, **sent, freeform_tags=tags, opts=opts)
    return made
