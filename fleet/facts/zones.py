"""The zones of regions (`data/zones.csv`)."""

from fleet.facts.tables import rows


def zones_of(region: str) -> tuple[str, ...]:
    """The zones of a region in the order of the table; none for a region that it lacks. On OCI without the tenancy's prefix."""
    return tuple(zone for row in rows("zones.csv") if row["region"] == region for zone in row["zones"].split())
