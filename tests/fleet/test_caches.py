"""Caches as settings: what a volume is made of, what nodes run for it, what it costs, and what an owner reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from fleet.charts.every import NAMESPACES
from fleet.facts.errors import FleetError
from fleet.facts.hardware import unit_price
from fleet.facts.pricing import Line, gp3_volume, oci_volume
from fleet.loading.config import load
from fleet.prove import bill
from fleet.prove.placement import pool_host
from fleet.providers.eks.caches import EksCache
from fleet.providers.oke.caches import OkeCache
from fleet.providers.tags import AWS_TAGS
from fleet.settings import namespaces
from fleet.settings.caches import class_name
from fleet.settings.cluster import Cluster
from tests.builders import cluster, config, oke_cluster, oke_pool, pool
from tests.cases import cases
from tests.day import AS_OF
from tests.strategies import caches

TAGS = {"gpu-ci/stack": "test", "owner": "ci"}


def cache(**changes: Any) -> dict[str, Any]:
    """An EFS cache of 500Gi in the namespace research; `changes` replace keys."""
    return {"storage": "efs", "size": "500Gi", "namespaces": ["research"]} | changes


def eks(**changes: Any) -> EksCache:
    return TypeAdapter(EksCache).validate_json(json.dumps(cache(**changes)))


def oke(**changes: Any) -> OkeCache:
    return TypeAdapter(OkeCache).validate_json(json.dumps(cache(storage="fss") | changes))


def on_eks(**held: dict[str, Any]) -> Cluster:
    found: Cluster = load(config(clusters={"usw2": cluster(caches=held)})).clusters["usw2"]
    return found


def on_oke(pools: dict[str, Any] | None = None, **held: dict[str, Any]) -> Cluster:
    changes = {"caches": held} | ({"pools": pools} if pools else {})
    found: Cluster = load(config(clusters={"sjc": oke_cluster(**changes)})).clusters["sjc"]
    return found


# -- volumes -----------------------------------------------------------------------------------------------------------


@cases(
    ("settings", "shared", "mode"),
    [
        (eks(storage="ebs"), False, "ReadWriteOnce"),
        (eks(storage="efs"), True, "ReadWriteMany"),
        (oke(storage="block"), False, "ReadWriteOnce"),
        (oke(storage="fss"), True, "ReadWriteMany"),
    ],
)
def test_a_disk_is_of_one_node_and_a_file_system_of_all(settings: EksCache | OkeCache, shared: bool, mode: str) -> None:
    assert (settings.shared, settings.access_mode) == (shared, mode)


def test_a_volume_stays_unless_the_settings_say_otherwise() -> None:
    assert eks().retain is True
    assert eks(retain=False).retain is False


def test_a_gp3_volume_has_the_least_that_it_may_have_unless_the_settings_say_more() -> None:
    parameters = eks(storage="ebs").volumes({}).parameters
    assert (parameters["iops"], parameters["throughput"]) == ("3000", "125")
    parameters = eks(storage="ebs", iops=8000, throughput=1000).volumes({}).parameters
    assert (parameters["iops"], parameters["throughput"]) == ("8000", "1000")


def test_tags_reach_a_volume_as_the_driver_reads_them() -> None:
    """It splits at the first "=" (aws-ebs-csi-driver, docs/tagging.md), and errs at Kubernetes' own keys."""
    odd = {"owner": "a=b", "x=y": "z", "kubernetes.io/cluster": "mine", "cost-center": ""}
    parameters = eks(storage="ebs").volumes(odd).parameters
    told = {key: value for key, value in parameters.items() if key.startswith("tagSpecification_")}
    assert told == {"tagSpecification_1": "owner=a=b", "tagSpecification_2": "cost-center="}


@given(st.dictionaries(st.from_regex(AWS_TAGS.key, fullmatch=True), st.text("ab=: ", max_size=8), max_size=6))
def test_every_tag_that_reaches_a_volume_is_one_of_the_stack(tags: dict[str, str]) -> None:
    parameters = eks(storage="ebs").volumes(tags).parameters
    told = [value.partition("=") for key, value in parameters.items() if key.startswith("tagSpecification_")]
    assert all(tags[key] == value for key, _, value in told)
    assert {key for key, _, _ in told} == {key for key in tags if "=" not in key and not key.startswith("kubernetes.io")}


@given(caches(("ebs", "efs")))
def test_what_eks_makes_volumes_of_is_text(held: dict[str, Any]) -> None:
    """A storage class's parameters are strings, whatever they mean."""
    volumes = eks(**held).volumes(TAGS)
    assert all(isinstance(value, str) for value in volumes.parameters.values())
    assert volumes.grows is (held["storage"] == "ebs")
    if held["storage"] == "ebs":
        assert volumes.binding == "WaitForFirstConsumer"
        assert volumes.parameters["encrypted"] == "true"


@given(caches(("block", "fss")))
def test_what_oke_makes_volumes_of_is_text(held: dict[str, Any]) -> None:
    settings = oke(**held)
    volumes = (
        settings.block_volumes(TAGS, "paravirtualized")
        if held["storage"] == "block"
        else settings.file_systems(TAGS, "abcd:US-SANJOSE-1-AD-1", "ocid1.compartment.oc1..example", "10.0.0.0/16")
    )
    assert all(isinstance(value, str) for value in volumes.parameters.values())
    assert json.loads(volumes.parameters["oci.oraclecloud.com/initial-freeform-tags-override"]) == TAGS
    assert volumes.binding == "WaitForFirstConsumer"


def test_a_class_is_told_from_the_cloud_s_own() -> None:
    assert class_name("gp3") == "cache-gp3"


# -- what nodes run ----------------------------------------------------------------------------------------------------


def test_a_node_runs_the_drivers_of_its_cluster_s_caches() -> None:
    def daemons(**held: dict[str, Any]) -> set[str]:
        return {each.name for each in pool_host(on_eks(**held), "t4").daemonsets}

    usual = daemons()
    assert daemons(models=cache()) - usual == {"efs-csi-node"}
    assert daemons(models=cache(), work=cache(storage="ebs"), more=cache(storage="ebs")) - usual == {
        "efs-csi-node",
        "ebs-csi-node",
    }


def test_a_driver_s_daemonset_leaves_less_for_runners() -> None:
    usual, less = (pool_host(on_eks(**held), "t4").daemonsets for held in ({}, {"work": cache(storage="ebs")}))
    (own,) = set(less) - set(usual)
    assert (own.cpu, own.memory) == (30, 104)


def test_on_oke_the_drivers_are_there_anyway() -> None:
    assert on_oke(models=cache(storage="fss"), work=cache(storage="block")).drivers == ()


@pytest.mark.parametrize(("shape", "attachment"), [("VM.GPU.A10.1", "paravirtualized"), ("BM.GPU.A10.4", "iscsi")])
def test_nodes_attach_block_volumes_as_they_can(shape: str, attachment: str) -> None:
    found = on_oke({"a10": oke_pool(instanceTypes=[shape])}, work=cache(storage="block"))
    assert getattr(found, "attachment") == attachment  # noqa: B009 - of OKE's settings alone


def test_file_systems_may_be_mounted_by_nodes_of_both_kinds() -> None:
    pools = {"a10": oke_pool(), "metal": oke_pool(instanceTypes=["BM.GPU.A10.4"])}
    assert on_oke(pools, models=cache(storage="fss")).caches


def test_a_mount_target_takes_addresses_of_the_node_subnet() -> None:
    def taken(**held: dict[str, Any]) -> int:
        full = oke_pool(nodes={"min": 900, "max": 900})
        with pytest.raises(FleetError, match="addresses of the node subnet") as caught:
            load(config(clusters={"sjc": oke_cluster(network={"cidr": "10.0.0.0/20"}, pools={"a10": full}, caches=held)}))
        return int(str(caught.value).partition("machines take ")[2].partition(" ")[0])

    usual = taken()
    assert taken(models=cache(storage="fss"), more=cache(storage="fss")) == usual + 3, "one for all of the cluster's"
    assert taken(work=cache(storage="block")) == usual


# -- namespaces --------------------------------------------------------------------------------------------------------


def test_namespaces_of_caches_and_jobs_are_made_and_held_to_the_strictest_standard() -> None:
    job = {"namespace": "vision", "image": "example:1", "pool": "t4"}
    described = cluster(caches={"models": cache(namespaces=["research", "speech"]), "work": cache()}, jobs={"train": job})
    found = load(config(clusters={"usw2": described})).clusters["usw2"]
    assert found.team_namespaces == {"research": "restricted", "speech": "restricted", "vision": "restricted"}


def test_a_namespace_that_something_else_needs_laxer_is_refused() -> None:
    coral = {"kind": "coral", "namespace": "research", "node": {"example.com/coral": "true"}}
    with pytest.raises(FleetError, match="restricted"):
        load(config(clusters={"usw2": cluster(caches={"models": cache()}, workloads={"stick": coral})}))


@pytest.mark.parametrize(
    ("wanted", "level"),
    [
        ([("a", "restricted")], "restricted"),
        ([("a", "restricted"), ("a", "privileged")], "privileged"),
        ([("a", "baseline"), ("a", "restricted")], "baseline"),
    ],
)
def test_users_of_a_namespace_get_the_most_lenient_standard_that_one_of_them_needs(
    wanted: list[tuple[str, Any]], level: str
) -> None:
    assert namespaces.levels(wanted) == {"a": level}


@cases("name", ["default", "kube-system", "kube-public", "runners-gpu-t4", "arc-systems", "kueue-system", "nvidia-device-plugin"])
def test_namespaces_of_something_else_are_taken(name: str) -> None:
    assert namespaces.reserved(name) is (name not in NAMESPACES), "each is refused by one of two rules"
    with pytest.raises(FleetError, match="this namespace belongs to the system, a chart or a runner set"):
        on_eks(models=cache(namespaces=[name]))
    on_eks(models=cache(namespaces=["research"]))


# -- money -------------------------------------------------------------------------------------------------------------


def lines(**clusters: dict[str, Any]) -> dict[str, Line]:
    return {
        line.item: line
        for line in bill.bill(load(config(clusters=clusters)), AS_OF)
        if line.item.startswith(("cache", "workload"))
    }


def usd(unit: str, region: str = "us-east-1") -> float:
    price = unit_price(unit, region)
    assert price is not None
    return price.usd_per_hour


def test_a_disk_is_paid_by_its_size_in_each_namespace_and_a_file_system_by_what_is_in_it() -> None:
    there = {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}
    held = {"models": cache(namespaces=["research", "speech"]), "work": cache(storage="ebs", namespaces=["research", "speech"])}
    found = lines(use1=cluster(**there, caches=held))
    assert found["cache work"].idle.usd == found["cache work"].worst.usd == pytest.approx(2 * 500 * usd("gp3-gb"))
    assert found["cache models"].idle.usd == 0
    assert found["cache models"].worst.usd == pytest.approx(2 * 500 * usd("efs-gb"))


def test_what_is_beyond_a_gp3_volume_s_own_is_paid_by_the_piece() -> None:
    there = {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}
    found = lines(use1=cluster(**there, caches={"work": cache(storage="ebs", iops=5000, throughput=225)}))
    parts = 500 * usd("gp3-gb") + 2000 * usd("gp3-iops") + 100 * usd("gp3-mibps")
    assert found["cache work"].worst.usd == pytest.approx(parts)


def test_where_no_source_has_the_price_it_is_unknown() -> None:
    found = lines(usw2=cluster(caches={"work": cache(storage="ebs", iops=5000)}))
    assert found["cache work"].worst.unknown


def test_performance_of_oci_s_volumes_is_paid_by_the_gigabyte() -> None:
    caches = {"work": cache(storage="block"), "fast": cache(storage="block", vpus=20), "models": cache(storage="fss")}
    found = lines(sjc=oke_cluster(caches=caches))
    assert found["cache fast"].worst.usd - found["cache work"].worst.usd == pytest.approx(500 * 10 * usd("oci-vpu-gb"))
    assert found["cache models"].idle.usd == 0
    assert found["cache models"].worst.usd == pytest.approx(500 * usd("oci-fss-gb"))


def test_a_workload_s_volume_of_a_cache_s_class_is_in_the_bill_and_one_of_another_is_not() -> None:
    def ollama(storage_class: str) -> dict[str, Any]:
        return {"kind": "ollama", "pool": "t4", "storage": {"size": "100Gi", "storageClass": storage_class}}

    workloads = {"chat": ollama("cache-work"), "talk": ollama("gp2")}
    found = lines(usw2=cluster(caches={"work": cache(storage="ebs")}, workloads=workloads))
    assert set(found) == {"cache work", "workload chat"}
    assert found["workload chat"].worst.usd == pytest.approx(100 * usd("gp3-gb", "us-west-2"))


@given(st.integers(1, 65_536), st.integers(3_000, 80_000), st.integers(125, 2_000))
def test_a_gp3_volume_costs_no_more_for_what_each_has(gib: int, iops: int, throughput: int) -> None:
    parts = gp3_volume(gib, iops, throughput)
    assert parts["gp3-gb"] == gib
    assert ("gp3-iops" in parts, "gp3-mibps" in parts) == (iops > 3_000, throughput > 125)
    assert all(count > 0 for count in parts.values())


def test_a_block_volume_of_balanced_performance_has_its_vpus_in_its_price() -> None:
    assert oci_volume(100, 10) == {"oci-volume-gb": 100}
    assert oci_volume(100, 20) == {"oci-volume-gb": 100, "oci-vpu-gb": 1000}


# -- remarks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("remarks", "words"),
    [
        (on_eks(work=cache(storage="ebs")).remarks, "one zone and mounts on one node at a time"),
        (on_oke(work=cache(storage="block")).remarks, "one availability domain and mounts on one node at a time"),
        (on_oke(models=cache(storage="fss", encryptInTransit=True)).remarks, "oci-fss-utils"),
    ],
)
def test_an_owner_is_told_what_keeps_jobs_from_a_cache(remarks: tuple[str, ...], words: str) -> None:
    (told,) = [each for each in remarks if each.startswith("cache ")]
    assert words in told


@cases(
    ("changes", "missing"),
    [
        ({}, ""),
        ({"zones": ["us-west-2b", "us-west-2a"]}, ""),
        ({"zones": ["us-west-2a"]}, "us-west-2b"),
        ({"nodes": {"max": 1}}, "us-west-2b"),
    ],
)
def test_a_pool_without_nodes_in_a_zone_where_another_pool_may_make_a_disk_is_remarked_on(
    changes: dict[str, Any], missing: str
) -> None:
    for storage in ("ebs", "efs"):
        described = cluster(pools={"t4": pool(), "other": pool(**changes)}, caches={"work": cache(storage=storage)})
        remarks = load(config(clusters={"usw2": described})).clusters["usw2"].remarks
        found = [each for each in remarks if "it has no node group in" in each]
        if missing and storage == "ebs":
            assert [each.partition(",")[0] for each in found] == [f"pool other: it has no node group in {missing}"]
        else:
            assert not found


def test_a_file_system_is_remarked_on_by_nobody() -> None:
    for found in (on_eks(models=cache()), on_oke(models=cache(storage="fss"))):
        assert not [each for each in found.remarks if each.startswith("cache ")]
