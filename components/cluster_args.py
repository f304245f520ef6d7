"""Plain arguments that the clusters of several clouds have.

The SDK infers the package's schema from the annotations, and fails on annotations that are strings. So this module does not use
`from __future__ import annotations`.
"""

from typing import TypedDict


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
    """Whole USD per month."""
    emails: list[str]
    """Recipients of the mails, 1 to 10."""
