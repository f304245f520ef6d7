"""On-demand prices of EC2 from AWS' public price list. It needs no credentials."""

from __future__ import annotations

import csv
from collections.abc import Collection

from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.web import ADDRESSES, Web

_ROW = {
    "TermType": "OnDemand",
    "Unit": "Hrs",
    "Currency": "USD",
    "Tenancy": "Shared",
    "Operating System": "Linux",
    "CapacityStatus": "Used",
    "Pre Installed S/W": "NA",
}


def on_demand(web: Web, region: str, types: Collection[str]) -> dict[str, float]:
    """USD an hour of these instance types with Linux in a region, as far as the list has them."""
    header: list[str] = []
    prices: dict[str, float] = {}
    quoted = {f'"{name}"' for name in types}
    for line in web.lines(ADDRESSES["prices"].format(region=region), most=2_000_000_000, seconds=900):
        if not header:
            # Five lines about the file come first.
            header = next(csv.reader([line])) if line.startswith('"SKU"') else []
            if header and (missing := {*_ROW, "Instance Type", "PricePerUnit", "Region Code"} - set(header)):
                raise SourceError(f"the price list has no column {min(missing)}")
            continue
        if '"OnDemand"' not in line or not any(name in line for name in quoted):
            continue
        row = dict(zip(header, next(csv.reader([line])), strict=False))
        name = row.get("Instance Type", "")
        if name in types and row.get("Region Code") == region and all(row.get(key) == text for key, text in _ROW.items()):
            price = _number(row.get("PricePerUnit", ""), name)
            if prices.setdefault(name, price) != price:
                raise SourceError(f"the price list has two prices of {name} in {region}")
    if not header:
        raise SourceError("the price list has no line of columns")
    return prices


def _number(text: str, name: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = 0
    if not 0 < price < 10_000:
        raise SourceError(f"the price list has no price of {name}: {text[:20]!r}")
    return price
