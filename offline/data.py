"""A plan as JSON: the same facts for programs. Secrets and unknowns are [secret] and [unknown]; credentials are masked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fleet.facts.credentials import masked
from fleet.facts.pricing import Line, Money
from fleet.prove.bill import runner_hour
from offline.base import Base
from offline.compare import Comparison, Pair
from offline.plan import RUNNER_SET, Plan
from offline.record import Resource
from offline.wire import UNKNOWN
from offline.words import Place


def to_json(plan: Plan, base: Base | None = None) -> str:
    """The plan as one JSON document; keys are camelCase, money is USD an hour. With a base it has what changes from that."""
    changes = {"changes": _changes(plan, base)} if base is not None else {}
    return json.dumps(masked(_plan(plan) | changes), indent=2, ensure_ascii=False)


def _plan(plan: Plan) -> dict[str, Any]:
    idle, worst = plan.cost
    return {
        "stack": plan.config.stack,
        "clean": plan.clean,
        "built": plan.recording is not None,
        "asOf": plan.as_of.isoformat(),
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
        "refused": [
            {"cluster": each.cluster, "workload": each.workload, "kind": each.kind, "error": each.error}
            for each in plan.refused
            if each.kind != RUNNER_SET
        ],
        "price": {"lines": [_line(line) for line in plan.bill], "idle": _money(idle), "worst": _money(worst)},
        "policyConfig": plan.policy_config,
        "policies": [
            {
                "policy": found.rule,
                "level": found.level,
                "state": found.state if plan.recording is not None else "not judged",
                "judged": found.judged,
                "broken": found.broken,
                "undeterminable": found.undeterminable,
                "excepted": found.excepted,
                "remediated": found.remediated,
            }
            for found in plan.outcomes()
        ],
        "remediations": [{"policy": done.rule, "urn": done.urn, "changes": list(done.changes)} for done in plan.remediations],
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


def _changes(plan: Plan, base: Base) -> dict[str, Any]:
    """Before → after; only the reason where the base has no plan."""
    if base.plan is None:
        return {"notCompared": base.reason}
    found = Comparison(base.plan, plan)
    return {
        "settings": [
            {
                "kind": setting.kind,
                "name": setting.name,
                "state": setting.state,
                "values": {path: {"before": value.before, "after": value.after} for path, value in setting.values.items()},
            }
            for setting in found.settings
        ],
        "placement": [
            {"name": name, "state": pair.state, "before": _place(pair.before), "after": _place(pair.after)}
            for name, pair in found.places.items()
            if pair.changed
        ],
        "price": {
            "lines": [
                {"state": pair.state, **{side: _line(line) if line else None for side, line in _sides(pair)}}
                for pair in found.lines.values()
                if pair.changed
            ],
            **{
                word: {"before": _money(of[0]), "after": _money(of[1])}
                for word, of in (("idle", found.idle), ("worst", found.worst))
            },
        },
        "newlyBroken": [{"policy": verdict.rule, "urn": verdict.urn} for verdict in found.newly_broken],
        "mended": [{"policy": verdict.rule, "urn": verdict.urn} for verdict in found.mended],
        "resources": [
            {
                "type": kind.type,
                "added": list(kind.added),
                "removed": list(kind.removed),
                "changed": {name: list(paths) for name, paths in kind.changed.items()},
            }
            for kind in found.resources
        ]
        if found.judged
        else None,
        "newRemarks": list(found.new_remarks),
    }


def _sides(pair: Pair[Line]) -> tuple[tuple[str, Line | None], ...]:
    return ("before", pair.before), ("after", pair.after)


def _place(found: Place | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "pool": found.pool,
        "asks": found.asks,
        "fits": list(found.holds),
        "runners": found.runners,
        "poolHolds": found.held,
        "runnerHour": found.hour,
        "error": found.error,
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
