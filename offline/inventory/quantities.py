"""Quantities of manifests in the units of the settings."""

from __future__ import annotations

from pydantic import TypeAdapter

from fleet.settings.model import Cpu, Memory, cpu_text, memory_text

_CPU: TypeAdapter[int] = TypeAdapter(Cpu)
_MEMORY: TypeAdapter[int] = TypeAdapter(Memory)


def millicores(quantity: str) -> int:
    """Of "1500m" or "4". Settings know no nothing, a team's quota does."""
    return 0 if quantity == cpu_text(0) else _CPU.validate_python(quantity)


def mebibytes(quantity: str) -> int:
    """Of "512Mi" or "16Gi"."""
    return 0 if quantity == memory_text(0) else _MEMORY.validate_python(quantity)
