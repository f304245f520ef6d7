"""Oracle Cloud identifiers and the names of regions and availability domains."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from fleet.model import problem

_OCID = re.compile(r"ocid1\.([a-z0-9]+)\.oc1\.([a-z0-9-]*)\.([A-Za-z0-9._-]+)")
_REGION = re.compile(r"(af|ap|ca|eu|il|me|mx|sa|uk|us)-[a-z]+-[1-9]")
_DOMAIN = re.compile(r"[A-Za-z0-9]{4}:([A-Z0-9-]+)-AD-[1-3]")


def _kind(kind: str) -> AfterValidator:
    def check(text: str) -> str:
        found = _OCID.fullmatch(text)
        if found is None or found[1] != kind:
            raise problem("ocid", f"not the OCID of this kind of resource; write ocid1.{kind}.oc1.… as the console shows it")
        return text

    return AfterValidator(check)


CompartmentId = Annotated[str, _kind("compartment")]
ImageId = Annotated[str, _kind("image")]
VcnId = Annotated[str, _kind("vcn")]
SubnetId = Annotated[str, _kind("subnet")]
SecurityGroupId = Annotated[str, _kind("networksecuritygroup")]
CapacityReservationId = Annotated[str, _kind("capacityreservation")]


def is_example(ocid: str) -> bool:
    """Whether an OCID is one of those that stand in for a real one in the project's own stack files."""
    found = _OCID.fullmatch(ocid)
    return found is not None and found[3].startswith("example")


def _region(text: str) -> str:
    if not _REGION.fullmatch(text):
        raise problem("oci_region", "not a commercial OCI region; write for example us-sanjose-1")
    return text


def _domain(text: str) -> str:
    if not _DOMAIN.fullmatch(text):
        raise problem(
            "availability_domain",
            "not an availability domain; write it with the tenancy's prefix, as `oci iam availability-domain list` gives it",
        )
    return text


Region = Annotated[str, AfterValidator(_region)]
AvailabilityDomain = Annotated[str, AfterValidator(_domain)]


def in_region(domain: str, region: str) -> bool:
    """Whether a domain is of a region. The oldest regions leave their number out: us-ashburn-1 has US-ASHBURN-AD-1."""
    found = _DOMAIN.fullmatch(domain)
    return found is not None and found[1].lower() in (region, region.removesuffix("-1"))
