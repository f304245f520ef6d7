"""Quotas of the clouds that an account may lack for full pools."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.providers.fleet import Fleet


def remarks(fleet: Fleet) -> Iterator[str]:
    """One line for each quota that the account has too little of, or that the settings do not give."""
    for provider, clusters in fleet.by_provider():
        yield from provider.quota_remarks(clusters.values())
