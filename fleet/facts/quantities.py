"""Kubernetes quantities, such as 500m and 1Gi. The published policy pack has this module too."""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Any

_SUFFIXES = {
    "": Fraction(1),
    **{suffix: Fraction(10) ** power for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
    **{f"{suffix}i": Fraction(1024) ** (power + 1) for power, suffix in enumerate("KMGTPE")},
}
# Kubernetes' grammar (apimachinery, resource.Quantity); digits are bounded so that no number here is expensive.
_QUANTITY = re.compile(r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?")

HUGE = 2**63
"""Kubernetes quantities and the providers' integers stay below."""


def quantity(value: Any) -> Fraction | None:
    """A Kubernetes quantity (1, 1.0, "1", "1k", "500m", "1Gi"); None for any other value."""
    if isinstance(value, (int, float)):
        # A wire number is a float; comparing first keeps infinity and NaN out of Fraction.
        return Fraction(value) if not isinstance(value, bool) and abs(value) < HUGE else None
    return _of_text(value) if isinstance(value, str) else None


@lru_cache(maxsize=4096)
def _of_text(text: str) -> Fraction | None:
    if (match := _QUANTITY.fullmatch(text)) is None:
        return None
    number, suffix = Fraction(match[1]), match[2] or ""
    return number * _SUFFIXES[suffix] if suffix in _SUFFIXES else number * Fraction(10) ** int(suffix[1:])


def cpu_text(millicores: int) -> str:
    """Millicores as Kubernetes writes them: 4000 → "4", 500 → "500m"."""
    return str(millicores // 1000) if millicores % 1000 == 0 else f"{millicores}m"


def memory_text(mebibytes: int) -> str:
    """MiB as Kubernetes writes them: 16384 → "16Gi", 512 → "512Mi"."""
    return f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi"
