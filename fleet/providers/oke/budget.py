"""A budget of OCI."""

from __future__ import annotations

from fleet.providers.oke.ocid import CompartmentId
from fleet.settings.budget import Budget


class OciBudget(Budget):
    """A budget over a compartment and those below it."""

    compartment: CompartmentId | None = None
    """OCID of the compartment that the budget watches, with those below it. Default: the cluster's. If machines are in another
    one, name a compartment above both."""
