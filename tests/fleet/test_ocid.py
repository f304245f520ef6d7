"""Oracle's identifiers: which are taken for what, and the region that they name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from fleet.providers.oke import ocid
from tests.cases import cases


@cases(
    ("kind", "text"),
    [
        (ocid.CompartmentId, "ocid1.compartment.oc1..aaaaaaaa22icap66vxktktubjlhf6oxvfhev6n7udgje2chahyrtq65ga63a"),
        (ocid.ImageId, "ocid1.image.oc1.iad.aaaaaaaa"),
        (ocid.ImageId, "ocid1.image.oc1..aaaaaaaa"),
        (ocid.VcnId, "ocid1.vcn.oc1.eu-frankfurt-1.aaaaaaaa"),
        (ocid.SubnetId, "ocid1.subnet.oc1.us-sanjose-1.aaaaaaaahgdslvujnywu3hvhqbvgz23souseseozvypng7ehnxgcotislubq"),
        (ocid.SecurityGroupId, "ocid1.networksecuritygroup.oc1.phx.aaaaaaaa"),
        (ocid.CapacityReservationId, "ocid1.capacityreservation.oc1.iad.anuwcljt"),
    ],
)
def test_an_ocid_of_its_kind_is_taken_as_written(kind: Any, text: str) -> None:
    assert TypeAdapter(kind).validate_python(text) == text


@cases(
    "text",
    [
        "ocid1.subnet.oc1.iad.aaaaaaaa",
        "ocid1.tenancy.oc1..aaaaaaaa",
        "ocid1.image.oc2..aaaaaaaa",
        "ocid1.image.oc1.iad",
        "ocid1.image.oc1.iad.",
        "ocid1.image.oc1.iad.<id>",
        "ocid1.image.oc1.iad.aaaaaaaa\n",
        " ocid1.image.oc1.iad.aaaaaaaa",
        "OCID1.IMAGE.OC1.IAD.AAAAAAAA",
        "image",
        "",
    ],
)
def test_what_is_no_ocid_of_the_kind_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="not an OCID of kind image; write ocid1"):
        TypeAdapter(ocid.ImageId).validate_python(text)


@cases(
    ("text", "region"),
    [
        ("ocid1.image.oc1.us-sanjose-1.example", "us-sanjose-1"),
        ("ocid1.image.oc1.iad.example", "us-ashburn-1"),
        ("ocid1.image.oc1.phx.example", "us-phoenix-1"),
        ("ocid1.image.oc1.sjc.example", "us-sanjose-1"),
        ("ocid1.compartment.oc1..example", ""),
        ("ocid1.image.oc1.xyz.example", ""),
        ("no ocid", ""),
    ],
)
def test_an_ocid_names_its_region_by_name_or_key_or_not_at_all(text: str, region: str) -> None:
    assert ocid.region_of(text) == region


def test_every_key_stands_for_another_region() -> None:
    assert len(set(ocid._BY_KEY.values())) == len(ocid._BY_KEY) == 46
    assert all(len(key) == 3 and ocid._REGION.fullmatch(name) for key, name in ocid._BY_KEY.items())


@cases("text", [None, "ocid1.image.oc1..example", "ocid1.image.oc1.iad.example", "ocid1.image.oc1.xyz.example"])
def test_what_may_be_of_the_region_passes(text: str | None) -> None:
    ocid.require_region(text, "us-ashburn-1", at=("image",))


def test_what_is_of_another_region_is_refused_with_both_names() -> None:
    with pytest.raises(PydanticCustomError) as caught:
        ocid.require_region("ocid1.image.oc1.iad.example", "us-sanjose-1", at=("image",))
    assert caught.value.message() == "this OCID belongs to region us-ashburn-1; use one of us-sanjose-1"
    assert caught.value.context == {
        "message": caught.value.message(),
        "at": ("image",),
        "value": "ocid1.image.oc1.iad.example",
    }


@cases("text", sorted(ocid._BY_KEY.values()))
def test_commercial_regions_are_those_of_the_table(text: str) -> None:
    assert TypeAdapter(ocid.Region).validate_python(text) == text


@cases(
    ("text", "mend"),
    [
        ("us-ashbrun-1", "did you mean us-ashburn-1?"),
        ("us-sanjose-2", "did you mean us-sanjose-1?"),
        ("ap-singapore-3", "did you mean ap-singapore-2 or ap-singapore-1?"),
        ("sanjose", "did you mean us-sanjose-1?"),
        ("US-SANJOSE-1", "did you mean us-sanjose-1?"),
        ("phx", "did you mean us-phoenix-1?"),
        ("IAD", "did you mean us-ashburn-1?"),
        # Of another realm, with a namesake in this one.
        ("us-gov-ashburn-1", "did you mean us-ashburn-1?"),
        # Of the right form, and of no region.
        ("us-dallas-1", "write for example us-sanjose-1"),
        ("us-west-2", "write for example us-sanjose-1"),
        ("", "write for example us-sanjose-1"),
    ],
)
def test_what_is_no_region_is_refused_with_those_of_near_names(text: str, mend: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(ocid.Region).validate_python(text)
    assert [error["msg"] for error in caught.value.errors()] == [f"not a commercial OCI region; {mend}"]


@cases(
    ("domain", "region"),
    [
        ("abcd:US-SANJOSE-1-AD-1", "us-sanjose-1"),
        ("Uocm:US-ASHBURN-AD-3", "us-ashburn-1"),
        ("Uocm:PHX-AD-1", "us-phoenix-1"),
        ("abcd:EU-FRANKFURT-1-AD-2", "eu-frankfurt-1"),
        ("abcd:AP-SINGAPORE-2-AD-1", "ap-singapore-2"),
    ],
)
def test_an_availability_domain_is_of_one_region(domain: str, region: str) -> None:
    assert TypeAdapter(ocid.AvailabilityDomain).validate_python(domain) == domain
    others = {*ocid._BY_KEY.values()} - {region}
    assert ocid.in_region(domain, region)
    assert not [other for other in others if ocid.in_region(domain, other)]


@cases("text", ["US-SANJOSE-1-AD-1", "abcd:US-SANJOSE-1", "abcd:us-sanjose-1-ad-1", "abcd:US-SANJOSE-1-AD-4", ""])
def test_what_is_no_availability_domain_is_refused_and_of_no_region(text: str) -> None:
    assert not ocid.in_region(text, "us-sanjose-1")
    with pytest.raises(ValidationError, match="not an availability domain; write it with the tenancy's prefix"):
        TypeAdapter(ocid.AvailabilityDomain).validate_python(text)


@pytest.mark.parametrize("domain", ["bzBe:US-SANJOSE-1-AD-1", "bzBe:US-ASHBURN-AD-2"])
def test_a_tenancy_has_one_prefix_in_all_its_regions(domain: str) -> None:
    assert ocid.prefix(domain) == "bzBe"
