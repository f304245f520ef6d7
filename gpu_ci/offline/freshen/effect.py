"""What newer rows change in a stack: its plan before and after, each in a process of its own, because tables are read once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from gpu_ci.offline.words import listed, name_of, short

Plan = Mapping[str, Any]
_MOST = 6
"""Names on a line."""


def plan_of(stack: str, root: Path, day: date) -> Plan:
    """The plan of a stack as `plan --json` prints it, or the errors of its input."""
    command = [sys.executable, "-m", "gpu_ci", "plan", "--json", "--as-of", day.isoformat(), "--", stack]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        return {"errors": [{"message": (done.stderr.splitlines() or ["the plan prints nothing"])[-1]}]}


def effect(before: Plan, after: Plan) -> Iterator[str]:
    """One line for each thing that differs, the result first."""
    yield f"before: {_result(before)}"
    yield f"after:  {_result(after)}"
    for name, of in (("remark", _remarks), ("failure", _failures)):
        old, new = of(before), of(after)
        yield from (f"new {name}: {text}" for text in new if text not in old)
        yield from (f"gone {name}: {text}" for text in old if text not in new)
    yield from _resources(before, after)


def _result(plan: Plan) -> str:
    if "errors" in plan:
        return f"wrong input: {plan['errors'][0]['message']}"
    idle, worst = (plan["price"][name]["usd"] for name in ("idle", "worst"))
    failures = len(_failures(plan))
    state = "OK" if plan["clean"] else f"FAILED ({failures})"
    return f"{state}: {len(plan['resources'])} resources; {idle:.4g} USD an hour idle, {worst:.4g} at worst"


def _remarks(plan: Plan) -> list[str]:
    return list(plan.get("remarks", ()))


def _failures(plan: Plan) -> list[str]:
    verdicts = (each for each in plan.get("verdicts", ()) if (each["level"], each["kind"]) == ("mandatory", "violation"))
    broken = [f"{each['policy']}: {name_of(each['urn'])}: {each['message']}" for each in verdicts]
    return [f"{each['path']}: {each['message']}" for each in plan.get("failures", ())] + broken


def _resources(before: Plan, after: Plan) -> Iterator[str]:
    old, new = ({each["urn"]: each for each in plan.get("resources", ())} for plan in (before, after))
    states: dict[tuple[str, str], list[str]] = {}
    for urn in sorted({*old, *new}):
        if old.get(urn, {}).get("inputs") != new.get(urn, {}).get("inputs") or (urn in old) != (urn in new):
            state = "new" if urn not in old else "gone" if urn not in new else "changed"
            states.setdefault((state, (new.get(urn) or old[urn])["type"]), []).append(name_of(urn))
    for (state, kind), names in sorted(states.items()):
        yield f"{state} {short(kind)}: {listed(names, _MOST)}"
