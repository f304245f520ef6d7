"""A budget of OCI."""

from __future__ import annotations

from fleet.providers.oke.ocid import CompartmentId
from fleet.settings.budget import Budget


class OciBudget(Budget):
    """A budget over a compartment and those below it."""

    compartment: CompartmentId | None = None
    """Default: the cluster's compartment. If the machines are in another one, name a compartment above both."""
