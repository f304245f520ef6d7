"""JSON as the Pulumi CLI writes it."""

from __future__ import annotations

import json
from decimal import Decimal

_ESCAPES = str.maketrans({code: f"\\u{code:04x}" for code in (0x3C, 0x3E, 0x26, 0x2028, 0x2029)})


def json_text(value: object) -> str:
    """JSON as Go's encoding/json writes it: no spaces, sorted keys, <, > and & escaped, shortest floats."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(key)}:{json_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return _float_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False).translate(_ESCAPES)


def _float_text(value: float) -> str:
    size = abs(value)
    if size and (size < 1e-6 or size >= 1e21):
        mantissa, _, exponent = repr(value).partition("e")
        power = int(exponent)
        return f"{mantissa.removesuffix('.0')}e{'+' if power > 0 else '-'}{abs(power)}"
    return format(Decimal(repr(value + 0.0)), "f").removesuffix(".0")
