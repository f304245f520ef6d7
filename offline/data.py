"""A plan as JSON: the same facts for programs. Secrets and unknowns are the words [secret] and [unknown]."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fleet.bill import runner_hour
from fleet.pricing import Line, Money
from offline.plan import Plan
from offline.record import Resource
from offline.wire import UNKNOWN


def to_json(plan: Plan) -> str:
    """The plan as one JSON document; keys are camelCase, money is USD an hour."""
    return json.dumps(_plan(plan), indent=2, ensure_ascii=False)


def _plan(plan: Plan) -> dict[str, Any]:
    idle, worst = plan.cost
    return {
        "stack": plan.config.stack,
        "clean": plan.clean,
        "built": plan.recording is not None,
        "secrets": list(plan.secrets),
        "remarks": list(plan.remarks),
        "placement": [
            {
                "cluster": found.cluster,
                "runnerSet": found.runner_set,
                "runsOn": [found.runner_set, *found.runner.labels],
                "kind": found.runner.kind,
                "pool": found.host.name,
                "capacity": found.host.capacity,
                "fits": [
                    {
                        "instanceType": fit.machine.name,
                        "runners": fit.count,
                        "limitedBy": fit.limited_by,
                        "strandedGpus": fit.stranded,
                    }
                    for fit in found.fits
                ],
                "maxRunners": found.runner.span.max,
                "poolHolds": found.capacity,
                "launcherRoom": found.launchers,
                "runnerHour": [_money(money) for money in runner_hour(found, plan.fleet.clusters[found.cluster].region)],
                "error": found.error,
            }
            for found in plan.placements
        ],
        "price": {"lines": [_line(line) for line in plan.bill], "idle": _money(idle), "worst": _money(worst)},
        "policies": [
            {
                "policy": found.rule,
                "level": found.level,
                "state": found.state if plan.recording is not None else "not judged",
                "judged": found.judged,
                "broken": found.broken,
                "undeterminable": found.undeterminable,
            }
            for found in plan.outcomes()
        ],
        "verdicts": [
            {
                "policy": verdict.rule,
                "level": verdict.level,
                "kind": verdict.kind,
                "urn": verdict.urn,
                "message": verdict.message,
            }
            for verdict in plan.verdicts
        ],
        "resources": [_resource(resource) for resource in plan.resources],
    }


def _money(money: Money) -> dict[str, Any]:
    return {"usd": round(money.usd, 6), "atMost": money.at_most, "unknown": money.unknown}


def _line(line: Line) -> dict[str, Any]:
    return {
        "cluster": line.cluster,
        "item": line.item,
        "what": line.what,
        "count": [line.least, line.most],
        "each": [_money(line.cheap), _money(line.dear)],
        "idle": _money(line.idle),
        "worst": _money(line.worst),
        "sources": list(line.sources),
    }


def _resource(resource: Resource) -> dict[str, Any]:
    return {
        "urn": resource.urn,
        "type": resource.type,
        "name": resource.name,
        "parent": resource.parent,
        "provider": resource.provider_urn,
        "opaque": resource.remote,
        "dependencies": list(resource.dependencies),
        "ignoreChanges": list(resource.ignore_changes),
        "inputs": _plain(resource.inputs),
    }


def _plain(value: object) -> object:
    """JSON of what a resource was given; both markers are strings already."""
    if value is UNKNOWN:
        return str(value)
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
