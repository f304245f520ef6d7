"""What newer rows change in a stack: its plan before and after, each in a process of its own, because tables are read once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from gpu_ci.offline.entries import flat
from gpu_ci.offline.words import name_of, short

Plan = Mapping[str, Any]


def plan_of(stack: str, root: Path, day: date) -> Plan:
    """The plan of a stack as `plan --json` prints it, or the errors of its input."""
    command = [sys.executable, "-m", "gpu_ci", "plan", "--json", "--as-of", day.isoformat(), "--", stack]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603 - this program
    try:
        return dict(json.loads(process.stdout))
    except ValueError:
        return {"errors": [{"message": (process.stderr.splitlines() or ["the plan prints nothing"])[-1]}]}


def effect(before: Plan, after: Plan) -> Iterator[str]:
    """One line for each value that differs, with the value before and after."""
    old, new = (dict(flat(_shown(plan), "")) for plan in (before, after))
    for path in dict.fromkeys([*old, *new]):
        if old.get(path) != new.get(path):
            yield f"{path}: {old.get(path, 'nothing')} → {new.get(path, 'nothing')}"


def _shown(plan: Plan) -> dict[str, Any]:
    """What a person compares: the result, the price, texts as keys, so that each is there or not, and the resources by name."""
    verdicts = (
        verdict for verdict in plan.get("verdicts", ()) if (verdict["level"], verdict["kind"]) == ("mandatory", "violation")
    )
    parts = {
        "result": plan.get("result", "wrong input"),
        "USD an hour": {name: plan["price"][name]["usd"] for name in ("idle", "worst")} if "price" in plan else "unknown",
        "failure": {failure["message"]: "yes" for failure in (*plan.get("errors", ()), *plan.get("failures", ()), *verdicts)},
        "remark": dict.fromkeys(plan.get("remarks", ()), "yes"),
        "resource": {
            f"{short(resource['type'])} {name_of(resource['urn'])}": resource["inputs"] for resource in plan.get("resources", ())
        },
    }
    return {name: value for name, value in parts.items() if value}
