"""A plan as JSON for programs. Secrets are "[secret]", unknown values are "[unknown]", credentials are masked."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from fleet.facts.pricing import Line, Money
from fleet.prove.bill import runner_hour
from fleet.prove.ends import End
from fleet.prove.placement import Placement
from gpu_ci.offline.base import Base
from gpu_ci.offline.changes import Change, Pair, counts
from gpu_ci.offline.jsontext import document, fields_of
from gpu_ci.offline.judge import Verdict
from gpu_ci.offline.plan import Outcome, Plan
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.words import Place, refusal, state

T = TypeVar("T")


def to_json(plan: Plan, base: Base | None = None) -> str:
    """The plan as one JSON document, with the changes from the base if there is one. Keys are camelCase, money is USD an hour."""
    return document(_plan(plan) | ({"changes": _changes(plan, base)} if base is not None else {}))


def verdict_json(verdict: Verdict) -> dict[str, Any]:
    """A verdict as plain data."""
    return fields_of(verdict, "policy=rule", "level", "kind", "urn", "message")


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The first facts of an outcome as plain data."""
    return fields_of(outcome, "policy=rule", "level", "state", "judged", "broken")


def _plan(plan: Plan) -> dict[str, Any]:
    others = [unplaced for unplaced in plan.refused if unplaced.kind != "runner set"]
    return {
        "stack": plan.config.stack,
        "clean": plan.passes() and plan.judged,
        "result": state(plan)[0],
        "judged": plan.judged,
        "states": dict(Counter(outcome.state for outcome in plan.outcomes())) if plan.recording is not None else {},
        "built": plan.recording is not None,
        "asOf": plan.as_of.isoformat(),
        "secrets": list(plan.secrets),
        "remarks": list(plan.remarks),
        "kinds": [fields_of(remark, "kind", "act", "parts") for remark in plan.remarks],
        "placement": [_placement(placement, plan.fleet.clusters[placement.cluster].region) for placement in plan.placements],
        "refused": [fields_of(unplaced, "cluster", "workload", "kind", "error") for unplaced in others],
        "failures": [fields_of(refusal(plan.config, refused), "file", "line", "path", "message") for refused in plan.refused],
        "price": {"lines": list(map(_line, plan.bill)), **_costs(plan.cost[0], plan.average, plan.cost[1])},
        "schedules": [
            fields_of(window, "name", "opens", "keeps", "hours", "nodes") | {"usd": list(map(_money, window.usd))}
            for window in plan.weeks
        ],
        "ends": list(map(end_json, plan.ends)),
        "policyConfig": plan.policy_config,
        "policies": [_outcome(outcome, plan) for outcome in plan.outcomes()],
        "typesJudged": dict(plan.types),
        "remediations": [fields_of(remediation, "policy=rule", "urn", "changes") for remediation in plan.remediations],
        "verdicts": list(map(verdict_json, plan.verdicts)),
        "resources": list(map(_resource, plan.resources)),
    }


def end_json(end: End) -> dict[str, Any]:
    """One end. `last` is the last good day, `mayEnd` the earliest one of a runner without a known end; null if not known."""
    days = fields_of(end.use.life, "released", "last", "may_end")
    dates = {name: None if day is None else day.isoformat() for name, day in days.items()}
    about = fields_of(end, "effect=use.life.effect", "cost=use.cost", "fix=use.fix")
    return fields_of(end, "what=use.life.what", "clusters") | dates | about


def _placement(placement: Placement, region: str) -> dict[str, Any]:
    of_fit = ("instanceType=machine.name", "runners=count", "limited_by", "strandedGpus=stranded")
    names = {"runsOn": [] if placement.of_runners else [placement.runner_set, *placement.runner.labels]}
    room = {"fits": [fields_of(fit, *of_fit) for fit in placement.fits]}
    room |= fields_of(placement, "maxRunners=runner.span.max", "poolHolds=capacity", "launcherRoom=launchers")
    hour = {"runnerHour": list(map(_money, runner_hour(placement, region))), "error": placement.error}
    where = fields_of(placement, "kind=runner.kind", "pool=host.name", "choice", "capacity=host.capacity")
    return fields_of(placement, "cluster", "runner_set", "pods", "ofRunners=of_runners") | names | where | room | hour


def _outcome(outcome: Outcome, plan: Plan) -> dict[str, Any]:
    not_judged = {} if plan.recording is not None else {"state": "not judged"}
    return outcome_json(outcome) | not_judged | fields_of(outcome, "undeterminable", "excepted", "remediated", "ended")


def _changes(plan: Plan, base: Base) -> dict[str, Any]:
    """The changes from the base to the plan, or the reason why there is no comparison."""
    if (comparison := base.compared(plan)) is None:
        return {"notCompared": base.reason}
    moved = [(name, pair) for name, pair in comparison.places.items() if pair.changed]
    kinds = [fields_of(kind, "type", "added", "removed", "changed") for kind in comparison.resources]
    return {
        "endsJobs": list(comparison.ended_jobs),
        "classes": counts(comparison.changes),
        "effects": list(map(_change, comparison.changes)),
        "settings": [
            fields_of(setting, "kind", "name", "state")
            | {"values": {path: _sides(value, str) for path, value in setting.values.items()}}
            for setting in comparison.settings
        ],
        "placement": [{"name": name, "state": pair.state, **_sides(pair, _place)} for name, pair in moved],
        "price": {
            "lines": [{"state": pair.state, **_sides(pair, _line)} for pair in comparison.lines.values() if pair.changed],
            **{name: _sides(Pair(*cost), _money) for name, cost in zip(("idle", "worst"), comparison.costs, strict=True)},
        },
        "newlyBroken": [fields_of(verdict, "policy=rule", "urn") for verdict in comparison.newly_broken],
        "mended": [fields_of(verdict, "policy=rule", "urn") for verdict in comparison.fixed],
        "resources": kinds if comparison.judged else None,
        "newRemarks": list(comparison.new_remarks),
        "arcUpgrade": list(comparison.arc_upgrade),
    }


def _change(change: Change) -> dict[str, Any]:
    about = fields_of(change, "class=effect", "cluster", "kind=edit.kind", "name=edit.name", "state=edit.state")
    about |= {"settings": list(change.edit.values)}
    return about | fields_of(change, "what", "pools", "sets", "ends_jobs", "resources=urns")


def _sides(pair: Pair[T], plain: Callable[[T], object]) -> dict[str, Any]:
    return {name: None if side is None else plain(side) for name, side in pair._asdict().items()}


def _place(where: Place) -> dict[str, Any]:
    return fields_of(where, "pool", "asks", "fits=holds", "runners", "poolHolds=held", "runnerHour=hour", "error")


def _money(money: Money) -> dict[str, Any]:
    return {"usd": round(money.usd, 6)} | fields_of(money, "at_most", "unknown")


def _costs(idle: Money, average: Money, worst: Money) -> dict[str, Any]:
    return {"idle": _money(idle), "average": _money(average), "worst": _money(worst)}


def _line(line: Line) -> dict[str, Any]:
    amounts = {"count": (line.least, line.most), "each": (_money(line.cheap), _money(line.dear))}
    costs = _costs(line.idle, line.mean, line.worst)
    return fields_of(line, "cluster", "item", "what") | amounts | costs | fields_of(line, "sources")


def _resource(resource: Resource) -> dict[str, Any]:
    # The inputs have markers in place of secrets and unknown values.
    about = fields_of(resource, "urn", "type", "name", "parent", "provider=provider_urn", "opaque=remote")
    return about | fields_of(resource, "dependencies", "ignore_changes", "inputs")
