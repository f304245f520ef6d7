"""Plans of the staging stack and of changed copies of its file, judged by a few policies: what they say is known here.

All of them lack the fallback pool, because the settings refuse one behind a pool that a test makes on demand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

import gpu_ci.offline.plan
from fleet.loading.home import ROOT
from gpu_ci.offline.base import Base
from gpu_ci.offline.plan import Plan, make_plan

TEXT, _FALLBACKS = re.subn(
    r" +# Runs jobs of gpu-t4 while.*\n +t4-ondemand:\n(?: {10}.*\n)+|s: \[t4-spot, t4-ondemand\]",
    lambda found: ": t4-spot" if found[0].startswith("s:") else "",
    (ROOT / "Pulumi.staging.yaml").read_text(),
)
"""The staging file without the fallback pool."""
assert _FALLBACKS == 2, "the pool and its use are left out"
ON_DEMAND = ("capacity: spot", "capacity: on-demand")
EVICT = ("      system: {", "      replaceNodes: evict\n      system: {")
"""Node groups go at once, and end jobs."""
WIDER = ("nodes: {min: 0, max: 5}", "nodes: {min: 0, max: 6}")
POLICIES = {
    "all": "disabled",
    "gpu-node-taint": "mandatory",
    "imds-v2-hop-one": "mandatory",
    "spot-required-nonprod": {"enforcementLevel": "mandatory", "roles": ["burst"]},
    # A plan takes the owners from the stack, and these tests compare configs.
    **{name: {"owners": ["github.com/example"]} for name in ("runner-group-scoped", "sources-allowed")},
}
"""Policy config of these tests: the catalogue grows, and what else it says of the stack is not theirs to know."""
TOO_SMALL = ("[g4dn.2xlarge, g4dn.4xlarge]", "[g4dn.xlarge]\n          disk: 100Gi")
"""A type that is too small for the runner. Its local disk is smaller, too, and the plan refuses a larger `disk`."""


def write(folder: Path, *replacements: tuple[str, str]) -> Path:
    """A copy of the staging file with texts replaced."""
    text = TEXT
    for old, new in replacements:
        assert old in text, f"the staging file has no {old!r} any more"
        text = text.replace(old, new)
    path = folder / "Pulumi.staging.yaml"
    path.write_text(text)
    return path


def line_of(path: Path, text: str) -> int:
    """The number of the first line that holds a text."""
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


@contextmanager
def few_policies() -> Iterator[None]:
    """Uses those alone to judge."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: POLICIES)
        yield


def plan_of(path: Path) -> Plan:
    """The plan of a copy."""
    with few_policies():
        return make_plan("staging", ROOT, path)


@cache
def staging() -> Plan:
    """The stack without changes."""
    with few_policies():
        return make_plan("staging", ROOT, folder() / "Pulumi.staging.yaml")


@cache
def evicting() -> Plan:
    """The plan of the staging stack whose old node groups go at once."""
    return plan_of(write(Path(mkdtemp()), EVICT))


@cache
def folder() -> Path:
    """A folder with the file of that stack."""
    found = Path(mkdtemp())
    write(found)
    return found


@cache
def shipped() -> Plan:
    """The stack as it is shipped, with its fallback pool."""
    with few_policies():
        return make_plan("staging", ROOT)


def base() -> Base:
    """The stack as it is, as the base of a change."""
    return Base(TEXT, staging())
