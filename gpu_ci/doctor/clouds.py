"""What each cloud of a fleet lacks, as its provider checks it: credentials, quotas, machines, versions and images on offer."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.providers.finding import Finding
from fleet.providers.fleet import Fleet


def findings(fleet: Fleet) -> Iterator[Finding]:
    """The findings of every provider that the fleet has clusters of."""
    for provider, clusters in fleet.by_provider():
        yield from provider.findings(clusters)
