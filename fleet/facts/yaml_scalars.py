"""The values of plain YAML scalars.

The Pulumi CLI reads with gopkg.in/yaml.v3. That is the core schema of YAML 1.2 with four extensions: an integer may have
underscores, `0777` is octal, `0b101` is binary, and digits that are not an integer (`08`) are a float. `yes`, `on` and `9:00`
are texts. kubectl and Helm read with go-yaml 2 (sigs.k8s.io/yaml), where `yes`, `on` and `y` are true and a date is a text.
"""

import math
import re
from datetime import datetime

CONSTANTS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
FLAGS = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
"""More booleans of YAML 1.1."""
NOT_JSON = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
"""Numbers that JSON does not have."""

_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_PARTED = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
_INTEGER = re.compile(r"(?P<sign>[-+]?)(?P<digits>0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_CLOCK = r"[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?"
_DATE = re.compile(rf"[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}([Tt]{_CLOCK}(Z|[-+][0-9]{{2}}:[0-9]{{2}})| {_CLOCK})?")
_SMALLEST, _LARGEST = -(2**63), 2**64
_MOST_DIGITS = 20
"""The most digits of a decimal integer of 64 bits."""


def plain_number(text: str) -> int | float | str:
    """The number in a plain scalar, or the text itself if it is not a number."""
    # Underscores do not count, except after a leading point: there they must separate digits.
    bare = text.replace("_", "") if text[0] != "." or _PARTED.fullmatch(text) else text
    match = _INTEGER.fullmatch(bare)
    # Python refuses to convert thousands of digits. Far fewer do not fit into 64 bits.
    if match and (match["digits"][0] == "0" or len(match["digits"]) <= _MOST_DIGITS):
        value = _integer(match["digits"]) * (-1 if match["sign"] == "-" else 1)
        # A number above 64 bits is read as a float. A sign excludes the unsigned range.
        if _SMALLEST <= value < (_LARGEST if not match["sign"] else -_SMALLEST):
            return value
    return number if _FLOAT.fullmatch(bare) and math.isfinite(number := float(bare)) else text


def is_date(text: str) -> bool:
    """Whether a plain scalar is a date, or a date and time, for a reader with a type for these."""
    if not _DATE.fullmatch(text):
        return False
    try:
        datetime(*(int(digits) for digits in re.split(r"[-Tt: .Z+]", text)[:6]))  # type: ignore[arg-type]
    except ValueError:
        return False  # the date or time does not exist: the CLI reads a text
    return True


def _integer(digits: str) -> int:
    if digits[:2].lower() in ("0x", "0o", "0b"):
        return int(digits, 0)
    return int(digits, 8) if digits[0] == "0" else int(digits)
