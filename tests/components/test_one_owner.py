"""Settings that change in a running cluster: an object of one name in Kubernetes is one resource, also if several want it.

Pulumi makes what is new before it deletes what is gone. An object that one resource loses and another gains is refused by the API
server, or deleted when it is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.kubernetes.in_cluster import Backing, Inside
from components.kubernetes.inside import install
from gpu_ci.offline.recording import Recording, Resource
from tests.builders import oke_pool
from tests.cases import cases
from tests.components.oke import fleet
from tests.components.recorded import build_alone, named, of_type

LOCAL_QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"
NETWORK = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
NAMESPACE = "kubernetes:core/v1:Namespace"
QUOTA = [{"pool": "a10", "nominal": 1}]
IMAGE = "docker.io/library/python:3.13"
CACHE = {"storage": "block", "size": "100Gi", "namespaces": ["research"]}
PARTS: Mapping[str, dict[str, Any]] = {
    "queues": {
        "teams": {"ml": {"namespaces": ["research", "night"], "quotas": QUOTA}, "web": {"namespaces": ["web"], "quotas": QUOTA}}
    },
    "workloads": {"chat": {"kind": "ollama", "namespace": "research", "pool": "a10"}},
    "caches": {"models": CACHE},
    "jobs": {"train": {"namespace": "research", "image": IMAGE, "pool": "a10"}},
}
MOVED = {"teams": {"ml": {"namespaces": ["night"], "quotas": QUOTA}, "web": {"namespaces": ["web", "research"], "quotas": QUOTA}}}
NAMED_LIKE_THE_DEFAULT = {"teams": {"default": {"namespaces": ["research"], "quotas": QUOTA}}}


@cache
def recorded(parts: frozenset[str]) -> Recording:
    """A cluster with these parts."""
    return with_parts({name: PARTS[name] for name in sorted(parts)})


def with_parts(parts: Mapping[str, dict[str, Any]]) -> Recording:
    """What the cluster has inside, without the cloud's part of it."""
    described = fleet(pools={"a10": oke_pool(nodes={"max": 4})}, **parts)
    settings: Any = described.clusters["sjc"]

    def program() -> None:
        opts = pulumi.ResourceOptions(providers=[kubernetes.Provider("cluster", kubeconfig="{}")])
        backings = {name: Backing(cache.block_volumes({}, "paravirtualized")) for name, cache in settings.caches.items()}
        install(Inside("sjc", settings, [], opts, backings), described, {"default": pulumi.Output.secret("a key")})

    return build_alone(program, f"{parts}")


def objects(recording: Recording) -> dict[tuple[str, str, str], Resource]:
    """The cluster's objects by kind, namespace and name, each with its one resource."""
    found: dict[tuple[str, str, str], Resource] = {}
    for each in recording.resources:
        if each.type.startswith("kubernetes:") and each.custom and "metadata" in each.inputs:
            metadata = each.inputs["metadata"]
            key = (each.type, str(metadata.get("namespace", "")), str(metadata["name"]))
            assert key not in found, f"{key}: two resources are one object"
            found[key] = each
    return found


@cases("part", PARTS)
@cases("others", [(), ("workloads",), ("jobs",), ("caches",), ("queues",), tuple(PARTS)])
def test_a_part_more_or_less_leaves_what_is_there_with_its_resource(part: str, others: tuple[str, ...]) -> None:
    without = objects(recorded(frozenset(others) - {part}))
    added = objects(recorded(frozenset(others) | {part}))
    shared = without.keys() & added.keys()
    assert shared
    assert {key: added[key].urn for key in shared} == {key: without[key].urn for key in shared}


@pytest.mark.parametrize("after", [MOVED, NAMED_LIKE_THE_DEFAULT])
def test_a_namespace_that_changes_teams_keeps_its_objects_and_its_local_queues_are_replaced(after: dict[str, Any]) -> None:
    old, new = recorded(frozenset(PARTS)), with_parts({**PARTS, "queues": after})
    was, now = objects(old), objects(new)
    shared = was.keys() & now.keys()
    assert {NAMESPACE, NETWORK, LOCAL_QUEUE} <= {kind for kind, *_ in shared}
    assert {key: now[key].urn for key in shared} == {key: was[key].urn for key in shared}
    queue, other = (named(each, "sjc-queues.research.default", LOCAL_QUEUE) for each in (old, new))
    assert queue.urn == other.urn
    assert queue.parent == other.parent
    assert queue.inputs["spec"] != other.inputs["spec"]
    assert other.replace_on_changes == ("spec.clusterQueue",), "the API server takes no other"
    assert other.delete_before_replace is True, "its name is fixed"


def test_the_queue_of_a_teams_name_is_one_resource_whatever_the_team() -> None:
    old, new = recorded(frozenset(PARTS)), with_parts({**PARTS, "queues": MOVED})
    found = [named(each, "sjc-queues.research.team", LOCAL_QUEUE) for each in (old, new)]
    assert [each.inputs["metadata"]["name"] for each in found] == ["ml", "web"]
    assert len({each.urn for each in found}) == 1


def test_a_namespace_has_one_wall_whoever_uses_it() -> None:
    recording = recorded(frozenset(PARTS))
    walled = [each.inputs["metadata"]["namespace"] for each in of_type(recording, NETWORK)]
    assert [walled.count(name) for name in ("research", "night", "web")] == [1, 1, 1]
