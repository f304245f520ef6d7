"""A budget of OCI."""

from __future__ import annotations

from fleet.providers.oke.ocid import CompartmentId
from fleet.settings.budget import Budget


class OciBudget(Budget):
    """A budget over a compartment and those below it."""

    compartment: CompartmentId | None = None
    """The cluster's by default; one above both, where machines have a compartment beside it."""
