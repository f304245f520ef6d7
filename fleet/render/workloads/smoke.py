"""Smoke tests of GPU pools: that a pod of each gets a GPU which works. They run in a namespace of their own."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from fleet.prove.room import refusal
from fleet.providers.target import pool_target
from fleet.render.workloads.catalogue import MAKERS
from fleet.render.workloads.home import sealed
from fleet.render.workloads.parts import Manifest, Meta
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import SMOKE_NAMESPACE
from fleet.settings.workloads import SmokeWorkload

TESTS: Mapping[str, str] = {
    "nvidia-smi": "driver and GPU",
    "pytorch": "PyTorch computes",
    "device-query": "CUDA's runtime tells of it",
}
"""The tests by kind of workload, and what each proves."""

_LONGEST = 57
"""Of a Job's name: its pods are named after it, with a hyphen and five characters, and have 63."""
_HASH = 8


class UnknownPoolError(ValueError):
    """A pool that the cluster has not; the message names those that it has."""


@dataclass(frozen=True, slots=True)
class Smoke:
    """One test of one pool: its Job, or why the pool cannot run it."""

    pool: str
    test: str
    job: Manifest | None
    refused: str = ""


def smoke_home() -> tuple[Manifest, Manifest]:
    """The namespace of the tests and its wall: they need no network."""
    return sealed(SMOKE_NAMESPACE)


def smoke_tests(cluster: Cluster, pools: Collection[str] = ()) -> tuple[Smoke, ...]:
    """The tests of a cluster's pools, or of some of them, in the order of the settings.

    Each asks one unit of its pool's resource. Raises UnknownPoolError.
    """
    if unknown := [name for name in pools if name not in cluster.pools]:
        known = f"; it has {', '.join(cluster.pools)}" if cluster.pools else "; it has none"
        raise UnknownPoolError(f"the cluster has no pool {', '.join(unknown)}{known}")
    return tuple(_tests(cluster, [name for name in cluster.pools if not pools or name in pools]))


def _tests(cluster: Cluster, pools: Collection[str]) -> Iterator[Smoke]:
    for pool in pools:
        target = pool_target(cluster, pool)
        for test in TESTS:
            workload = SmokeWorkload.model_validate({"kind": test, "pool": pool})
            refused = refusal(cluster, workload)
            meta = Meta(smoke_name(pool, test), SMOKE_NAMESPACE, test)
            made = () if refused else MAKERS[test](meta, workload, target)
            yield Smoke(pool, test, made[0] if made else None, refused)


def smoke_name(pool: str, test: str) -> str:
    """Name of a test's Job: smoke-<pool>-<test>; a pool of a long name is told by its beginning and a hash."""
    name = f"smoke-{pool}-{test}"
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(pool.encode()).hexdigest()[:_HASH]
    room = _LONGEST - len(f"smoke---{test}") - _HASH
    return f"smoke-{pool[:room].rstrip('-')}-{digest}-{test}"
