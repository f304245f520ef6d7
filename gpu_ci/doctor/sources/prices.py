"""On-demand prices of EC2 from AWS' public price list. It needs no credentials."""

import csv
from collections.abc import Collection
from itertools import chain, dropwhile, islice

from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.web import ADDRESSES, Web

_ROW = {"TermType": "OnDemand", "Unit": "Hrs", "Currency": "USD", "Tenancy": "Shared", "Operating System": "Linux"}
_ROW |= {"CapacityStatus": "Used", "Pre Installed S/W": "NA"}


def on_demand(web: Web, region: str, types: Collection[str]) -> dict[str, float]:
    """USD an hour of these instance types with Linux in a region, as far as the list has them."""
    prices: dict[str, float] = {}
    quoted = {f'"{name}"' for name in types}
    lines = web.lines(ADDRESSES["prices"].format(region=region), most=2_000_000_000, seconds=900)
    # Five lines about the file come first.
    listed = dropwhile(lambda line: not line.startswith('"SKU"'), lines)
    of_types = (line for line in listed if '"OnDemand"' in line and any(name in line for name in quoted))
    table = csv.DictReader(chain(islice(listed, 1), of_types), restval="")
    if table.fieldnames is None:
        raise SourceError("the price list has no line of columns")
    if missing := {*_ROW, "Instance Type", "PricePerUnit", "Region Code"} - set(table.fieldnames):
        raise SourceError(f"the price list has no column {min(missing)}")
    for row in table:
        name = row["Instance Type"]
        if name in types and row["Region Code"] == region and all(row[key] == text for key, text in _ROW.items()):
            price = _number(row["PricePerUnit"], name)
            if prices.setdefault(name, price) != price:
                raise SourceError(f"the price list has two prices of {name} in {region}")
    return prices


def _number(text: str, name: str) -> float:
    try:
        price = float(text)
    except ValueError:
        price = 0
    if not 0 < price < 10_000:
        raise SourceError(f"the price list has no price of {name}: {text[:20]!r}")
    return price
