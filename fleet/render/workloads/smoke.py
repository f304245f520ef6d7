"""Smoke tests of GPU pools: a pod on each pool must get a working GPU. The tests have their own namespace."""

import hashlib
from collections.abc import Collection

from fleet.facts.manifest import Manifest
from fleet.facts.record import Record
from fleet.prove.image_fit import with_pinned_image
from fleet.prove.room import refusal
from fleet.providers.installed import pool_target
from fleet.render import isolation
from fleet.render.workloads.catalogue import smoke_job
from fleet.render.workloads.parts import Meta
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import SMOKE_NAMESPACE
from fleet.settings.workloads import SmokeWorkload

TESTS = {"nvidia-smi": "driver and GPU", "pytorch": "PyTorch computes", "device-query": "CUDA's runtime reports it"}
"""The tests by kind of workload, and what each proves."""

_LONGEST = 57
"""Characters of a Job's name. Its pods add a hyphen and five characters, and a pod's name has at most 63."""
_HASH = 8


class UnknownPoolError(ValueError):
    """The cluster has no pool of this name. The message lists its pools."""


class Smoke(Record):
    """One test of one pool: its Job, or the reason why the pool cannot run it."""

    pool: str
    test: str
    job: Manifest | None
    refused: str = ""


def smoke_home() -> tuple[Manifest, Manifest]:
    """The namespace of the tests, and its NetworkPolicy. The tests need no network, so the policy allows no connection."""
    closed = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    return isolation.namespace(SMOKE_NAMESPACE, "restricted"), isolation.wall("workloads", SMOKE_NAMESPACE, closed)


def smoke_tests(cluster: Cluster, pools: Collection[str] = ()) -> tuple[Smoke, ...]:
    """The tests of a cluster's pools, or of some of them, in the order of the settings.

    Each test requests one unit of its pool's resource. Raises UnknownPoolError.
    """
    if unknown := [name for name in pools if name not in cluster.pools]:
        pool_list = f"; it has {', '.join(cluster.pools)}" if cluster.pools else "; it has none"
        raise UnknownPoolError(f"the cluster has no pool {', '.join(unknown)}{pool_list}")
    return tuple(_test(cluster, pool, test) for pool in cluster.gpu_pools if not pools or pool in pools for test in TESTS)


def _test(cluster: Cluster, pool: str, test: str) -> Smoke:
    workload = SmokeWorkload.model_validate({"kind": test, "pool": pool})
    refused = refusal(cluster, workload)
    meta = Meta(smoke_name(pool, test), SMOKE_NAMESPACE, test)
    job = None if refused else smoke_job(meta, with_pinned_image(cluster, workload), pool_target(cluster, pool))[0]
    return Smoke(pool, test, job, refused)


def smoke_name(pool: str, test: str) -> str:
    """Name of a test's Job: smoke-<pool>-<test>. If it is too long, it has the beginning of the pool's name and a hash."""
    name = f"smoke-{pool}-{test}"
    if len(name) <= _LONGEST:
        return name
    digest = hashlib.sha256(pool.encode()).hexdigest()[:_HASH]
    room = _LONGEST - len(f"smoke---{test}") - _HASH
    return f"smoke-{pool[:room].rstrip('-')}-{digest}-{test}"
