"""Plain arguments that the clusters of several clouds have, and the rule for their names.

The SDK infers the package's schema from the annotations, and fails on annotations that are strings. So this module does not use
`from __future__ import annotations`.
"""

from typing import TypedDict

from components.arguments import checked
from fleet.settings.model import is_label_value


class EndpointArgs(TypedDict, total=False):
    """Who can reach the API server: either `publicCidrs` or `private`."""

    public_cidrs: list[str]
    """Public IPv4 networks in CIDR notation. Wider than /8 is refused."""
    private: bool
    """Whether only the cluster's network reaches the API server. Default: false."""
    reachable_from: str
    """How the program reaches a private endpoint: vpc-agent or vpn. Required with `private`."""
    private_cidrs: list[str]
    """Networks in CIDR notation that may reach a private endpoint. Default: a new network of the cluster itself."""


class BudgetArgs(TypedDict):
    """A monthly budget. It sends mails at 80 % of the actual and at 100 % of the forecast cost. It stops nothing."""

    monthly_usd: int
    """Whole USD per month. OCI reads the number in the currency of the tenancy's rate card."""
    emails: list[str]
    """Recipients of the mails, 1 to 10."""


def require_label(name: str) -> None:
    """Raise InputPropertyError for a component's name that cannot be a label of the cluster's nodes."""
    fix = "a cluster's name is a label of its nodes: 1 to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends"
    checked("name", name, is_label_value, f"{fix}; rename it")
