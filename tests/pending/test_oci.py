"""What a pending create made on OCI, found by the search of the scan for leftovers. The client is Oracle's own."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import oci
import pytest

from fleet.providers.oke.provider import OciLeftovers
from tests.doctor.fleets import shipped
from tests.doctor.loopback import serve
from tests.doctor.test_oci import account  # noqa: F401 - a fixture

VCN = "oci:Core/vcn:Vcn"


@pytest.fixture
def left(account: None) -> Iterator[OciLeftovers]:  # noqa: F811 - a fixture
    """A VCN and a gateway of the same name, one that is deleted, and a machine."""
    names = [
        ("vcn.a", "Vcn", "net", "AVAILABLE"),
        ("natgateway.b", "NatGateway", "net", "AVAILABLE"),
        ("vcn.c", "Vcn", "gone", "TERMINATED"),
        ("instance.d", "Instance", "runner", "RUNNING"),
    ]
    items = [
        {"compartmentId": "c", "identifier": f"ocid1.{each}", "resourceType": kind, "displayName": name, "lifecycleState": state}
        for each, kind, name, state in names
    ]
    clusters = {"sjc": shipped("prod").clusters["sjc"]}
    with serve({"/": (200, {"items": items})}) as server:
        client = oci.resource_search.ResourceSearchClient(oci.config.from_file(), service_endpoint=server.url)
        yield OciLeftovers("gpu-ci", "prod", clusters, lambda _: client)


@pytest.mark.parametrize(
    ("kind", "inputs", "ids"),
    [
        (VCN, {"displayName": "net"}, ["ocid1.vcn.a"]),
        ("oci:Core/natGateway:NatGateway", {"displayName": "net"}, ["ocid1.natgateway.b"]),
        ("oci:Core/natGateway:NatGateway", {"name": "net"}, ["ocid1.natgateway.b"]),
        (VCN, {"displayName": "gone"}, []),
        ("oci:Core/subnet:Subnet", {"displayName": "net"}, []),
    ],
)
def test_a_resource_is_found_by_type_and_name(left: OciLeftovers, kind: str, inputs: dict[str, str], ids: list[str]) -> None:
    search = left.search(kind, inputs, "us-sanjose-1")
    assert search is not None
    assert list(dict.fromkeys(search.ids())) == ids
    words = shlex.split(search.command)
    assert words[:6] == ["oci", "search", "resource", "structured-search", "--region", "us-sanjose-1"]
    assert words[6:] == ["--query-text", f"query all resources where displayName = '{next(iter(inputs.values()))}'"]


def test_a_type_without_a_name_has_no_way(left: OciLeftovers) -> None:
    assert left.search("oci:ContainerEngine/addon:Addon", {"addonName": "NvidiaGpuPlugin"}, "") is None


def test_machines_are_not_the_programs(left: OciLeftovers) -> None:
    assert {each.names[0]: each.own for each in left} == {
        "ocid1.vcn.a": True,
        "ocid1.natgateway.b": True,
        "ocid1.instance.d": False,
    }
