"""Oracle Cloud identifiers and the names of regions and availability domains."""

import difflib
import re
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator

from fleet.facts.tables import rows
from fleet.settings.refusals import Form, matching, problem, refuse_if, refuses, require_once, words

_OCID = re.compile(r"ocid1\.([a-z0-9]+)\.oc1\.([a-z0-9-]*)\.([A-Za-z0-9._-]+)")
_REGION = re.compile(r"(af|ap|ca|eu|il|me|mx|sa|uk|us)-[a-z]+-[1-9]")
_DOMAIN = re.compile(r"[A-Za-z0-9]{4}:([A-Z0-9-]+)-AD-[1-3]")

_BY_KEY = {row["key"]: row["region"] for row in rows("oci_regions.csv")}
"""Commercial regions by the three letters that OCIDs have."""


def _kind(kind: str) -> AfterValidator:
    return matching("ocid", _OCID.pattern.replace("([a-z0-9]+)", kind, 1), kind=kind)


TenancyId = Annotated[str, _kind("tenancy")]
CompartmentId = Annotated[str, _kind("compartment")]
ClusterId = Annotated[str, _kind("cluster")]
ImageId = Annotated[str, _kind("image")]
VcnId = Annotated[str, _kind("vcn")]
SubnetId = Annotated[str, _kind("subnet")]
SecurityGroupId = Annotated[str, _kind("networksecuritygroup")]
CapacityReservationId = Annotated[str, _kind("capacityreservation")]


def region_of(ocid: str) -> str:
    """The region in an OCID, by name or by key; empty if it has none or the key is unknown."""
    match = _OCID.fullmatch(ocid)
    region_part = match[2] if match else ""
    return _BY_KEY.get(region_part, region_part if _REGION.fullmatch(region_part) else "")


def key_of(region: str) -> str:
    """The three letters of a region in OCIDs: sjc for us-sanjose-1. Raises StopIteration for an unknown region."""
    return next(key for key, name in _BY_KEY.items() if name == region)


def require_region(ocid: str | None, region: str, *, at: tuple[str, ...]) -> None:
    """Refuse an OCID of another region. `at` is its path in the settings. Raises a settings problem."""
    found = region_of(ocid) if ocid is not None else ""
    refuse_if("ocid_region", found not in ("", region), at=at, value=ocid, owner=found, region=region)


def located(kind: Any, region: str) -> Any:
    """The type of an OCID that refuses those of another region."""
    return Annotated[kind, refuses(partial(require_region, region=region, at=()))]


def require_different(domains: tuple[str, ...], *, at: tuple[str, ...]) -> None:
    """Refuse a list that has an availability domain twice; `at` is its path in the settings."""
    require_once("repeated_domain", domains, at=at)


def require_domains(rule: str, domains: tuple[str, ...], region: str, *, at: tuple[str, ...]) -> None:
    """Refuse an availability domain of another region, and a list that has one twice. `at` is the path of the list."""
    for index, domain in enumerate(domains):
        if not in_region(domain, region):
            raise problem(rule, at=(*at, str(index)), region=region)
    require_different(domains, at=at)


def require_place(domains: tuple[str, ...], region: str) -> None:
    """Refuse `availabilityDomains` of machines that are not in their region, and a list that has one twice."""
    require_domains("place_domain", domains, region, at=("availabilityDomains",))


def _region(text: str) -> None:
    if text not in _BY_KEY.values():
        close = _close(text.lower())
        raise problem("oci_region__close", close=" or ".join(close)) if close else problem("oci_region")


def _close(text: str) -> list[str]:
    """Suggestions for an unknown region: the region of a key, or similar names."""
    if text in _BY_KEY:
        return [_BY_KEY[text]]
    return difflib.get_close_matches(text, _BY_KEY.values(), cutoff=0.7)


Region = Annotated[str, refuses(_region), Form("OCI region", words("oci_region"), values=lambda: sorted(_BY_KEY.values()))]
CompartmentPath = Annotated[str, matching("compartment_path", r"(?a:[\w.-]{1,100}(:[\w.-]{1,100}){0,5})")]
"""Names of compartments from below the root (docs.oracle.com, managing compartments: six levels)."""
AvailabilityDomain = Annotated[str, matching("availability_domain", _DOMAIN.pattern)]


def in_region(domain: str, region: str) -> bool:
    """Whether a domain is in a region. The oldest regions have short names: US-ASHBURN-AD-1 in us-ashburn-1, PHX-AD-1."""
    found = _DOMAIN.fullmatch(domain)
    named = found[1].lower() if found else ""
    return named in (region, region.removesuffix("-1")) or _BY_KEY.get(named) == region


def prefix(domain: str) -> str:
    """The letters before a tenancy's availability domains: abcd:US-SANJOSE-1-AD-1 → abcd.

    A tenancy has the same prefix in every region:
    cncf/automation (ci/cluster/oci/vm-runners) has bzBe in us-sanjose-1 and us-ashburn-1.
    """
    return domain.partition(":")[0]
