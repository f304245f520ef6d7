"""The words for a plan that the terminal, Markdown and annotations share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from fleet.facts.errors import Fault
from fleet.facts.hardware import CAPACITY_BLOCK, RESERVED, SPOT
from fleet.facts.pricing import Line, Money, average
from fleet.loading.stackfile import StackConfig
from fleet.prove.bill import runner_hour
from fleet.prove.placement import Fit, Host, Placement
from fleet.prove.room import Refusal
from fleet.prove.schedules import Week
from offline.ended import ENDED
from offline.entries import place_of
from offline.judge import Verdict
from offline.plan import Outcome, Plan

_FEW = 3
"""Names of resources that are listed one by one."""


@dataclass(frozen=True, slots=True)
class Place:
    """One pool of a runner set, as text. `name` also has the choice, if it is not the first pool of the set.

    `held` and `hour` are "-" if the set cannot be placed.
    """

    name: str
    asks: str
    pool: str
    holds: tuple[str, ...]
    runners: str
    held: str
    hour: str
    error: str


def place(found: Placement, region: str) -> Place:
    """A placement as text; `region` is that of its cluster."""
    least, most = runner_hour(found, region)
    hour = str(most) if least == most else f"{least} - {most}"
    return Place(
        name=f"{found.cluster}/{found.runner_set}" + (f", choice {found.choice}" if found.choice > 1 else ""),
        asks=found.asks,
        pool=found.host.name,
        holds=tuple(holds(found.host, found.fits)),
        runners=span(found.runner.span.min, found.runner.span.max),
        held="-" if found.error else str(found.capacity),
        hour="-" if found.error else hour,
        error=found.error,
    )


def span(least: float, most: float) -> str:
    """A count between two limits: "2-4", or "2" if both are 2. An average, such as nodes of a schedule, has two decimals."""
    low, high = (f"{round(each, 2):g}" for each in (least, most))
    return low if least == most else f"{low}-{high}"


def holds(host: Host, fits: Iterable[Fit]) -> Iterator[str]:
    """How many of one thing each machine of a host holds, and the resource that limits it."""
    for fit in fits:
        idle = "shares" if host.sharing else "GPU"
        stranded = f", {fit.stranded} {idle} idle" if fit.stranded and fit.count else ""
        yield f"{fit.machine.name}: {fit.count}, {fit.limited_by}{stranded}"


def count(line: Line) -> str:
    """How many units of a line are paid for: "2-4", with the average of schedules."""
    counted = span(line.least, max(line.least, line.most))
    return counted if line.usual == line.least else f"{counted} (average {round(line.usual, 2):g})"


def each(line: Line) -> str:
    """The price of one unit of a line, per hour."""
    cheap, dear = _unit(line.cheap), _unit(line.dear)
    return cheap if cheap == dear else f"{cheap} - {dear}"


SCHEDULES = ("window", "open", "keeps", ">hours", ">nodes", ">USD")
"""Columns of `week`."""


def week(found: Week) -> tuple[str, ...]:
    """What a window costs in a week, by the columns of `SCHEDULES`."""
    low, high = found.usd
    usd = f"{low}" if low == high else f"{low} - {high}"
    return found.name, found.opens, found.keeps, f"{found.hours:g}", f"+{span(*found.nodes)}", usd


WEEK_NOTE = "USD are for nodes without disks. The average hour has them for a week without holidays."


def week_title(plan: Plan) -> str:
    """Says which week the windows are priced for."""
    return f"Schedules, the week of {plan.as_of} to {plan.as_of + timedelta(days=6)}"


def _unit(money: Money) -> str:
    """A unit price with four significant digits, because disks cost a hundredth of a cent."""
    return f"{'≤' if money.at_most else ''}{money.usd:.4g}" if money.usd and not money.unknown else str(money)


def price_notes(bill: Iterable[Line]) -> Iterator[str]:
    """Notes below the bill."""
    lines = list(bill)
    yield (
        "idle: no job runs; worst: every pool at its maximum, on its most expensive type. Taxes are not included, nor traffic to "
        "other zones and the internet."
    )
    if any(line.usual != line.least for line in lines):
        yield f"schedules: on average of a week without jobs, an hour costs {average(lines)} USD; stack-cost-ceiling judges that."
    if always := [f"{line.cluster}/{line.item}" for line in lines if _stands(line)]:
        yield f"billed whether used or not: {', '.join(always)}."
    bounded = [line for line in lines if line.dear.at_most]
    if any(SPOT in line.what for line in bounded):
        yield "≤: spot prices of EC2 change, and a spot price is at most the on-demand price, which counts here."
    if any(RESERVED in line.what for line in bounded):
        yield "≤: OCI charges less than the on-demand price for reserved machines that are not in use."
    if any(CAPACITY_BLOCK in line.what for line in lines):
        yield "capacity-block: you pay all its hours when you buy it, at the price of that day; here an hour has its list price."
    sources = sorted({source for line in lines for source in line.sources})
    yield f"sources: {'; '.join(sources)}"


def _stands(line: Line) -> bool:
    """Whether all GPU machines of a line are always paid for."""
    return line.item.startswith(("pool ", "machines ")) and line.least == line.most > 0


def states(outcomes: Iterable[Outcome]) -> str:
    """How many policies are in each state: "3 hold, 1 broken"."""
    counts = Counter(found.state for found in outcomes)
    words = {"holds": "holds" if counts["holds"] == 1 else "hold"}
    listed = (state for state in ("holds", "broken", ENDED, "undeterminable", "disabled") if counts[state])
    return ", ".join(f"{counts[state]} {words.get(state, state)}" for state in listed)


def silent(outcomes: Iterable[Outcome]) -> tuple[list[str], list[str]]:
    """(policies without a resource to judge, disabled policies)."""
    unjudged = [found for found in outcomes if not found.judged]
    disabled = [found.rule for found in unjudged if found.state == "disabled"]
    return [found.rule for found in unjudged if found.state != "disabled"], disabled


def verdict_line(facts: str, blocked: Collection[Verdict]) -> str:
    """The line with the result: OK, or how many verdicts of which kind fail, before the facts."""
    if not blocked:
        return f"OK: {facts}"
    unsure = sum(verdict.kind == "undeterminable" for verdict in blocked)
    kinds = [
        counted(len(blocked) - unsure, "mandatory policy violation", "mandatory policy violations"),
        counted(unsure, "undeterminable verdict of a critical policy", "undeterminable verdicts of critical policies"),
    ]
    return f"FAILED: {' and '.join(kind for kind in kinds if not kind.startswith('0 '))}; {facts}"


def endings(plan: Plan) -> Iterator[str]:
    """What `pulumi up` is refused for because of the day, then what ends soon or has ended. For the top of a plan."""
    late = [verdict for verdict in plan.verdicts if verdict.kind == ENDED and verdict.level == "mandatory"]
    if late:
        resources: dict[str, dict[str, None]] = {}
        for verdict in late:
            resources.setdefault(verdict.rule, {})[name_of(verdict.urn)] = None
        refused = "; ".join(f"{rule} ({listed(names, _FEW)})" for rule, names in resources.items())
        yield f"pulumi up is refused, because a day has passed: {refused}"
    yield from (end.line(plan.as_of) for end in plan.ends if end.use.life.shown(plan.as_of))


def short(token: str) -> str:
    """aws:eks/nodeGroup:NodeGroup → aws.eks.NodeGroup."""
    package, _, rest = token.partition(":")
    module, _, name = rest.rpartition(":")
    module = module.partition("/")[0]
    return ".".join(part for part in (package, module if module != "index" else "", name) if part)


def name_of(urn: str) -> str:
    """The logical name in a URN; "the stack" for an empty URN."""
    return urn.rpartition("::")[2] or "the stack"


_SETTINGS = re.compile(r"(gpu-ci:clusters)\.([\w-]+)(?:\.(pools|runners|jobs|workloads)\.([\w-]+))?")


def alike(verdicts: Iterable[Verdict]) -> list[tuple[Verdict, list[str]]]:
    """Verdicts in their order, each with the names of its resources. Verdicts with the same cause are merged.

    The cause is the same if the messages are, apart from the resource's own name and the names in the key of its settings. Names
    that differ become *: `gpu-ci:clusters.usw2.pools.*.nodes.max`.
    """
    groups: dict[tuple[str, ...], list[Verdict]] = {}
    for verdict in verdicts:
        cause = (verdict.rule, verdict.level, verdict.kind, _SETTINGS.sub(r"\1.*.\3.*", _without_name(verdict)))
        groups.setdefault(cause, []).append(verdict)
    return [(_merged(group), [name_of(each.urn) for each in group]) for group in groups.values()]


def _merged(group: list[Verdict]) -> Verdict:
    first = group[0]
    if all(each.message == first.message for each in group):
        return first
    message = first.message if len({_SETTINGS.sub("", each.message) for each in group}) == 1 else _without_name(first)
    keys = [[*_SETTINGS.finditer(each.message)] for each in group]
    for index, key in enumerate(keys[0]):
        clusters, _, kind, _ = key.groups()
        cluster, name = ({found[index][part] for found in keys} for part in (2, 4))
        below = f".{kind}.{key[4] if len(name) == 1 else '*'}" if kind else ""
        message = message.replace(key[0], f"{clusters}.{key[2] if len(cluster) == 1 else '*'}{below}")
    return replace(first, message=message)


def _without_name(verdict: Verdict) -> str:
    """The message without the resource's own name."""
    name = name_of(verdict.urn)
    return re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", "…", verdict.message) if verdict.urn else verdict.message


def said(verdict: Verdict, names: list[str], most: int) -> str:
    """A verdict of `alike` in one line. The message comes last, because it ends with what to change."""
    kind = "" if verdict.kind == "violation" else f" ({verdict.kind})"
    where = names[0] if len(names) == 1 else f"{len(names)} resources ({listed(names, most)})"
    return f"{verdict.level} {verdict.rule}{kind}: {where}: {verdict.message}"


def listed(names: Iterable[str], most: int) -> str:
    """The first `most` names and the number of the others: "a, b, and 3 more"."""
    listed = list(names)
    more = f", and {len(listed) - most} more" if len(listed) > most else ""
    return f"{', '.join(listed[:most])}{more}"


def one_line(value: str) -> str:
    """A text on one line, with � for invisible characters, such as control characters and changes of the text direction."""
    return "".join(sign if sign.isprintable() else "\ufffd" for sign in " ".join(value.split()))


def refusal(config: StackConfig, found: Refusal) -> Fault:
    """Why a runner set, workload or job cannot be placed, with its place in the stack file."""
    file, line, path = place_of(config, f"{found.cluster}/{found.workload}", found.kind)
    return Fault(f"cannot be placed: {found.error}", file, line, path)


def unplaceable(plan: Plan) -> str:
    """How many things no node can hold: "2 runner sets and 1 workload cannot be placed"."""
    # A runner set with several pools is refused once for each pool.
    counts = Counter(kind for kind, _, _ in dict.fromkeys((each.kind, each.cluster, each.workload) for each in plan.refused))
    return f"{' and '.join(counted(count, kind, f'{kind}s') for kind, count in counts.items())} cannot be placed"


def counted(count: int, one: str, many: str) -> str:
    """1 node, 2 nodes."""
    return f"{count} {one if count == 1 else many}"
