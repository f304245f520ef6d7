"""What clouds, Kubernetes and nodes accept in the values that a program registers (`data/cloud_limits.csv`).

A row bounds one input: the type of its resource (or of a document inside a resource, such as KubeletConfiguration), its path
("[]" is an item of a list), and a kind. `tests/cloud_limits.py` writes the rows that an API's own model has; a person writes the
others.

| kind | what it bounds |
|---|---|
| whole | a whole number from `least` to `most`, or one of `values` |
| text | a text of `least` to `most` characters that matches the pattern in `values` |
| words | one of the words in `values` |
| count | the number of entries of a list |
| once | a list that has no entry twice; `values` is the key that counts in an entry |
| floors | the least `soft` of an entry of a list, by its `type`: `values` has NAME=number |
| name | a name; without one Pulumi makes it from the logical name and eight characters |
| tags | the keys of a mapping: none twice without case, none that begins with one of `values` |
| network | a CIDR block outside of all in `values` |
| zone | one of the zones in `values`, if they have another one of its region |
| cron | a cron line of as many fields as `values` says |
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from fleet.facts.errors import instead
from fleet.facts.groups import grouped
from fleet.facts.record import Record
from fleet.facts.tables import entry, rows

SUFFIX = 8
"""Characters that Pulumi adds to a logical name: a hyphen and seven hexadecimal digits (pulumi-terraform-bridge, AutoName)."""
_MANY = 12
"""The most words that a message lists."""
_reserved = cache(ipaddress.ip_network)


class Limit(Record):
    """One row: see the module."""

    type: str
    path: str
    kind: str
    least: int | None
    most: int | None
    values: str
    says: str
    source: str

    def fault(self, value: object) -> str | None:
        """The rule that a value breaks, and how to fix it. None for an accepted value, and for one of another JSON type."""
        rule = _FAULTS[self.kind](self, value)
        return rule and (self.says or rule)

    @property
    def range(self) -> str:
        """The numbers from `least` to `most` in words."""
        if self.least is None or self.most is None:
            return f"at most {self.most}" if self.least is None else f"at least {self.least}"
        return f"{self.least} to {self.most}"

    @property
    def words(self) -> tuple[str, ...]:
        """The words of `values`."""
        return tuple(self.values.split())


@cache
def limits() -> Mapping[str, Sequence[Limit]]:
    """All rows by type."""
    return grouped((row["type"], entry(Limit, row)) for row in rows("cloud_limits.csv"))


def limit(type_: str, path: str, kind: str = "") -> Limit:
    """The row of a type and a path, and of a kind where it has several."""
    return next(row for row in limits()[type_] if row.path == path and kind in ("", row.kind))


# -- kinds -------------------------------------------------------------------------------------------------------------


def _whole(limit: Limit, value: object) -> str | None:
    if not isinstance(value, int | float) or isinstance(value, bool) or f"{value:g}" in limit.words:
        return None
    if value == value // 1 and (limit.least is None or limit.least <= value) and (limit.most is None or value <= limit.most):
        return None
    return f"a whole number of {' or '.join((*limit.words, limit.range))}; correct it"


def _text(limit: Limit, value: object) -> str | None:
    if not isinstance(value, str):
        return None
    if len(value) < (limit.least or 0) or (limit.most is not None and len(value) > limit.most):
        return f"it has {len(value)} characters and may have {limit.range}; correct it"
    pattern = limit.values if limit.values.startswith("^") else rf"\A(?:{limit.values})\Z"
    return None if not limit.values or re.search(pattern, value) else f"it must match {limit.values}; correct it"


def _words(limit: Limit, value: object) -> str | None:
    return None if not isinstance(value, str) or value in limit.words else _one_of(value, limit.words)


def _one_of(value: str, words: Sequence[str]) -> str:
    listed = ", ".join(words[:_MANY]) + (f" and {len(words) - _MANY} more" if len(words) > _MANY else "")
    return f"it must be one of {listed}; {instead(value, words, 'correct it')}"


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, Sequence) and not isinstance(value, str | bytes) else ()


def _count(limit: Limit, value: object) -> str | None:
    many = len(_items(value))
    if (limit.most is None or many <= limit.most) and (not isinstance(value, Sequence) or many >= (limit.least or 0)):
        return None
    return f"it has {many} entries and may have {limit.range}; correct it"


def _once(limit: Limit, value: object) -> str | None:
    keys = [item.get(limit.values) if limit.values and isinstance(item, Mapping) else item for item in _items(value)]
    twice = [key for key, times in Counter(key for key in keys if isinstance(key, str)).items() if times > 1]
    return f"it has {twice[0]} twice; remove one" if twice else None


def _floors(limit: Limit, value: object) -> str | None:
    least = {name: int(number) for name, _, number in (word.partition("=") for word in limit.words)}
    for item in (item for item in _items(value) if isinstance(item, Mapping)):
        kind, soft = item.get("type"), item.get("soft")
        floor = least.get(kind, 0) if isinstance(kind, str) else 0
        if isinstance(soft, int | float) and soft < floor:
            return f"programs fail with a {kind} below {floor}; raise soft to {floor} or more"
    return None


def _name(limit: Limit, value: object) -> str | None:
    if not isinstance(value, str) or limit.most is None or len(value) <= limit.most:
        return None
    return f"it has {len(value)} characters and may have {limit.range}; shorten the names that it is made of"


def _tags(limit: Limit, value: object) -> str | None:
    spellings: dict[str, str] = {}
    for key in sorted(value) if isinstance(value, Mapping) else []:
        if any(key.lower().startswith(prefix) for prefix in limit.words):
            return f"other software reads tags such as {key}, and it would take yours for its own; rename it"
        if (spelling := spellings.setdefault(key.lower(), key)) != key:
            return f"IAM takes {spelling} and {key} for one key, and refuses both; remove one"
    return None


def _network(limit: Limit, value: object) -> str | None:
    try:
        network = ipaddress.ip_network(value, strict=False) if isinstance(value, str) else None
    except ValueError:
        return None
    for reserved in map(_reserved, limit.words):
        if network is not None and network.version == reserved.version and network.overlaps(reserved):
            return f"addresses of {reserved} are reserved, and the cloud refuses them; write a network outside of it"
    return None


def _region(zone: str) -> str:
    return re.sub(r"([a-z]|-AD-[0-9]+)\Z", "", zone)


def _zone(limit: Limit, value: object) -> str | None:
    zone = value.rpartition(":")[2] if isinstance(value, str) else ""
    beside = [word for word in limit.words if _region(word) == _region(zone)]
    return None if zone in beside or not beside else f"there is no such zone; {_one_of(zone, beside)}"


_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


def _cron(limit: Limit, value: object) -> str | None:
    line = value.removeprefix("cron(").removesuffix(")") if isinstance(value, str) else None
    return None if line is None else cron_fault(line, int(limit.values))


def cron_fault(line: str, most: int) -> str | None:
    """What is wrong with the fields of a cron line: six with AWS' years and one day field as "?", or five as Unix has them."""
    if len(fields := line.upper().split()) != most:
        return f"a cron line of {most} fields; it has {len(fields)}"
    six = most == 6
    bounds = [("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("day of the week", int(six), 7)]
    bounds += [("year", 1970, 2199)] * six
    for text, (field, first, last) in zip(fields, bounds, strict=True):
        if not _field(text, first, last, _MONTHS if field == "month" else _DAYS if "week" in field else ()):
            return f"{text} is not a {field} of a cron line ({first} to {last}); correct it"
    if six and (fields[2] == "?") == (fields[4] == "?"):
        return "one of day and day of the week must be ?, and the other one not; correct it"
    return None if _happens(fields[2], fields[3]) else f"no month {fields[3]} has a day {fields[2]}; correct it"


def _field(text: str, first: int, last: int, names: Sequence[str]) -> bool:
    """Whether a field of a cron line has only values from `first` to `last`, or AWS' signs for days."""
    if text == "?":
        return last in (31, 7)
    numbers = {name: first + index for index, name in enumerate(names)}
    for part in text.split(","):
        if (match := re.fullmatch(r"(\*|\w+?)(?:-(\w+))?(?:/([0-9]{1,4}))?([LW]|#[1-5])?", part)) is None:
            return False
        start, end, _, sign = match.groups()
        if (sign or start == "L") and (last not in (31, 7) or start == "L"):
            return last in (31, 7) and not end
        bounds = [bound for bound in (start, end) if bound]
        values = [numbers.get(bound, int(bound) if bound.isdecimal() and len(bound) < 5 else -1) for bound in bounds]
        if start != "*" and not (values == sorted(values) and all(first <= value <= last for value in values)):
            return False
    return True


def _happens(day: str, field: str) -> bool:
    """Whether some month of a cron line has the day: 31 February never comes."""
    if not (day.isdecimal() and field.replace(",", "").isalnum()):
        return True
    months = (_MONTHS.index(name) + 1 if name in _MONTHS else int(name) for name in field.split(","))
    return any(int(day) <= (29 if month == 2 else 30 if month in (4, 6, 9, 11) else 31) for month in months)


_CHECKS = (_whole, _text, _words, _count, _once, _floors, _name, _tags, _network, _zone, _cron)
_FAULTS: Mapping[str, Callable[[Limit, object], str | None]] = {check.__name__[1:]: check for check in _CHECKS}
