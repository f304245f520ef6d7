"""Smoke tests of pools: which there are, how they are called, and where they run."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from fleet.facts.scheduling import POD_SECURITY_LABEL
from fleet.facts.versions import IMAGES
from fleet.loading.config import load
from fleet.render.workloads.catalogue import TESTS, UnknownPoolError, smoke_home, smoke_name, smoke_tests
from fleet.settings.namespaces import SMOKE_NAMESPACE
from tests.builders import ROOT, cluster, config, oke_cluster, oke_pool, pool, read_stack
from tests.cases import cases
from tests.fleet.test_isolation import METADATA, reaches
from tests.fleet.test_pod_security import violations
from tests.fleet.workloads.world import CLUSTERS, with_workloads
from tests.strategies import NAMES

TWO = cluster(pools={"t4": pool(), "big": pool(instanceTypes=["g4dn.12xlarge"])})


def test_every_pool_has_every_test_once_in_the_order_of_the_settings():
    found = smoke_tests(with_workloads(TWO))
    assert [(each.pool, each.test) for each in found] == [(name, test) for name in ("t4", "big") for test in TESTS]
    assert set(TESTS) == {"nvidia-smi", "pytorch", "device-query"}


def test_a_jobs_name_says_which_pool_and_which_test():
    for each in smoke_tests(with_workloads(TWO)):
        assert each.job is not None
        assert each.job["metadata"]["name"] == f"smoke-{each.pool}-{each.test}"
        assert each.job["metadata"]["namespace"] == SMOKE_NAMESPACE


@cases("held", CLUSTERS)
def test_each_asks_one_unit_and_passes_the_namespaces_standard(held):
    found = with_workloads(held)
    for each in smoke_tests(found):
        assert each.job is not None, each.refused
        pod = each.job["spec"]["template"]["spec"]
        assert pod["containers"][0]["resources"]["limits"][found.pools["t4"].resource] == 1
        assert violations(pod) == []


@pytest.mark.parametrize("stack", ["staging", "prod"])
def test_every_pool_of_our_own_stacks_can_be_tested(stack):
    for found in load(read_stack(ROOT / f"Pulumi.{stack}.yaml")).clusters.values():
        assert [each.refused for each in smoke_tests(found)] == [""] * len(TESTS) * len(found.pools)


def test_some_pools_are_tested_alone_and_one_that_is_not_there_is_told():
    found = with_workloads(TWO)
    assert {each.pool for each in smoke_tests(found, ["big"])} == {"big"}
    with pytest.raises(UnknownPoolError, match="the cluster has no pool a10; it has t4, big"):
        smoke_tests(found, ["big", "a10"])
    none = load(config(clusters={"usw2": cluster(pools={}, runners={})})).clusters["usw2"]
    assert smoke_tests(none) == ()
    with pytest.raises(UnknownPoolError, match="it has none"):
        smoke_tests(none, ["t4"])


def test_a_test_that_the_pool_cannot_run_says_why():
    images = oke_cluster()["nodeImages"] | {"oke-gpu": {"id": "ocid1.image.oc1..old", "driver": "470.256.02"}}
    old = with_workloads(oke_cluster(nodeImages=images, pools={"t4": oke_pool(instanceTypes=["VM.GPU2.1"])}, runners={}))
    told = {each.test: (each.job is None, each.refused) for each in smoke_tests(old)}
    refused, why = told["pytorch"]
    assert refused
    assert "P100" in why


def test_a_pool_that_cannot_run_the_newest_pytorch_is_tested_with_an_older_build():
    p100 = with_workloads(oke_cluster(pools={"t4": oke_pool(instanceTypes=["VM.GPU2.1"])}, runners={}))
    jobs = {each.test: each.job["spec"]["template"]["spec"]["containers"][0]["image"] for each in smoke_tests(p100) if each.job}
    assert jobs["pytorch"] == IMAGES["pytorch-cuda12.6"].reference
    assert jobs["nvidia-smi"] == IMAGES["cuda"].reference


def test_the_namespace_is_restricted_and_its_pods_reach_nobody():
    namespace, wall = smoke_home()
    assert namespace["metadata"]["name"] == wall["metadata"]["namespace"] == SMOKE_NAMESPACE
    assert namespace["metadata"]["labels"][POD_SECURITY_LABEL] == "restricted"
    assert wall["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for address in (*METADATA, "140.82.112.5"):
        assert not reaches({"egress": [], **wall["spec"]}, address)


@given(first=NAMES.map(lambda name: name * 6), second=NAMES, test=st.sampled_from(sorted(TESTS)))
def test_a_name_is_a_label_of_a_pod_and_tells_pools_apart(first, second, test):
    one, other = (smoke_name(name[:63].rstrip("-"), test) for name in (first, second))
    assert len(one) <= 57
    assert not one.startswith("-")
    assert "--" not in one or "--" in first
    assert (one == other) is (first[:63].rstrip("-") == second)
