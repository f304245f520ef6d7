"""JSON as the Pulumi CLI writes it."""

from __future__ import annotations

from decimal import Decimal

_ESCAPES = str.maketrans(
    {
        **{chr(code): f"\\u{code:04x}" for code in (*range(0x20), 0x3C, 0x3E, 0x26, 0x2028, 0x2029)},
        '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
    }
)  # fmt: skip


def json_text(value: object) -> str:
    """JSON as Go's encoding/json writes it: no spaces, sorted keys, <, > and & escaped, shortest floats."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(key)}:{json_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return _float_text(value) if isinstance(value, float) else str(value)


def _float_text(value: float) -> str:
    size = abs(value)
    if size and (size < 1e-6 or size >= 1e21):
        mantissa, _, exponent = repr(value).partition("e")
        power = int(exponent)
        return f"{mantissa.removesuffix('.0')}e{'+' if power > 0 else '-'}{abs(power)}"
    return format(Decimal(repr(value + 0.0)), "f").removesuffix(".0")
