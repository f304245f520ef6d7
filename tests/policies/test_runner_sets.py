"""Which cluster a resource is in, as its provider shows: what Git has of a cluster comes by a provider of its own."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.kinds import NAMESPACE
from policies.rules.record import Provider, Resource
from policies.rules.runner_sets import cluster_of
from tests.policies.harness import UNKNOWN, as_read, urn

KUBERNETES = "pulumi:providers:kubernetes"


def cluster(provider: str, props: dict[str, Any]) -> str:
    """The cluster of a resource whose provider has this name and these properties."""
    made_by = Provider(as_read(props), urn(KUBERNETES, provider), provider)
    return cluster_of(Resource(NAMESPACE, {}, urn(NAMESPACE), "space", provider=made_by))


def test_two_providers_may_reach_one_cluster() -> None:
    named = {"clusterIdentifier": "gpu-ci-prod-use1"}
    assert cluster("kubernetes", named) == cluster("git", named)
    assert cluster("kubernetes", named) != cluster("kubernetes", {"clusterIdentifier": "gpu-ci-prod-usw2"})


@pytest.mark.parametrize("props", [{}, {"clusterIdentifier": ""}, {"clusterIdentifier": UNKNOWN}, {"clusterIdentifier": 7}])
def test_a_provider_that_names_no_cluster_stands_for_one(props: dict[str, Any]) -> None:
    assert cluster("one", props) == cluster("one", props)
    assert cluster("one", props) != cluster("two", props)
