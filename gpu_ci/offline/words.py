"""The words for a plan that the terminal, Markdown and annotations share."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import field, replace
from datetime import timedelta

from fleet.facts.errors import Fault
from fleet.facts.groups import grouped
from fleet.facts.hardware import CAPACITY_BLOCK, RESERVED, SPOT
from fleet.facts.pricing import Line, Money, average, rounded_up, span as money_span
from fleet.facts.record import Record
from fleet.facts.remark import CANNOT_WORK, COST, Remark
from fleet.loading.files import from_here
from fleet.loading.home import INSTALLED
from fleet.loading.stackfile import StackConfig
from fleet.prove.bill import Week, runner_hour
from fleet.prove.ends import together
from fleet.prove.placement import Fit, Host
from fleet.prove.room import Refusal
from fleet.settings.budget import MONTH
from gpu_ci.offline.entries import entries
from gpu_ci.offline.judge import ENDED, Verdict
from gpu_ci.offline.plan import Outcome, Plan
from gpu_ci.offline.policyvalues import grown

NOT_JUDGED = "resources and policies not judged: install gpu-ci[pulumi]"
_FEW = 3
"""Names of resources that are listed one by one."""


class Place(Record):
    """One pool of a runner set, as text. `name` also has the choice, if it is not the first pool of the set.

    Labels in `runs_on` do not move a runner set, so places that differ only in them are equal.

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
    runs_on: str = field(compare=False)


def places(plan: Plan) -> Iterator[Place]:
    """The pools of the runner sets of a plan."""
    for placement in plan.placements:
        host, region = placement.host, plan.fleet.clusters[placement.cluster].region
        name = f"{placement.cluster}/{placement.pods}" + (f", choice {placement.choice}" if placement.choice > 1 else "")
        runners = span(placement.runner.span.min, placement.runner.span.max)
        placed = ("-", "-") if placement.error else (str(placement.capacity), between(*runner_hour(placement, region)))
        runs_on = "" if placement.of_runners else ", ".join((placement.runner_set, *placement.runner.labels))
        where = (name, placement.asks, host.name, tuple(holds(host, placement.fits)), runners)
        yield Place(*where, *placed, placement.error, runs_on)


def between(low: Money, high: Money, written: Callable[[Money], str] = str) -> str:
    """An amount between two others: "≤0.752 to 1.204"."""
    least, most = written(low), written(high)
    return most if least == most else f"{least} to {most.removeprefix('≤') if low.at_most else most}"


def hourly(idle: Money, worst: Money) -> str:
    """What a fleet costs: "0.363 USD an hour without jobs (265 a month), ≤10.99 at worst"."""
    month = "" if idle.unknown else f" ({idle.usd * MONTH:.0f} a month)"
    return f"{idle} USD an hour without jobs{month}, {worst} at worst"


def span(least: float, most: float) -> str:
    """A count between two limits: "2-4", or "2" if both are 2. An average, such as nodes of a schedule, has two decimals."""
    low, high = (f"{round(bound, 2):g}" for bound in (least, most))
    return low if least == most else f"{low}-{high}"


def holds(host: Host, fits: Iterable[Fit]) -> Iterator[str]:
    """How many of one thing each machine of a host holds, and the resource that limits it."""
    for fit in fits:
        idle = "shares" if host.sharing else "GPU"
        stranded = f", {fit.stranded} {idle} idle" if fit.stranded and fit.count else ""
        yield f"{fit.machine.name}: {fit.count}, {fit.limited_by}{stranded}"


def bill(line: Line) -> tuple[str, ...]:
    """A line of the bill: cluster, item, what, count, each, idle, worst."""
    unit = between(line.cheap, line.dear, _unit)
    return line.cluster, line.item, line.what, count(line), unit, str(line.idle), str(line.worst)


def count(line: Line) -> str:
    """How many units of a line are paid for: "2-4", with the average of schedules."""
    counted = span(line.least, max(line.least, line.most))
    return counted if line.usual == line.least else f"{counted} (average {round(line.usual, 2):g})"


SCHEDULES = ("window", "open", "keeps", ">hours", ">nodes", ">USD")
"""Columns of `week`."""


def week(window: Week) -> tuple[str, ...]:
    """What a window costs in a week, by the columns of `SCHEDULES`."""
    return window.name, window.opens, window.keeps, f"{window.hours:g}", f"+{span(*window.nodes)}", between(*window.usd)


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
    without = "Taxes are not included, nor traffic to other zones and the internet."
    yield f"idle: no job runs; worst: every pool at its maximum, on its most expensive type. {without}"
    if any(line.usual != line.least for line in lines):
        yield f"schedules: on average of a week without jobs, an hour costs {average(lines)} USD; stack-cost-ceiling judges that."
    # All GPU machines of a line that are always paid for.
    standing = (line for line in lines if line.item.startswith(("pool ", "machines ")) and line.least == line.most > 0)
    if always := [f"{line.cluster}/{line.item}" for line in standing]:
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


def states(outcomes: Iterable[Outcome]) -> str:
    """How many policies are in each state: "3 hold, 1 broken"."""
    counts = Counter(outcome.state for outcome in outcomes)
    words = {"holds": "holds" if counts["holds"] == 1 else "hold"}
    listed = (state for state in ("holds", "broken", ENDED, "undeterminable", "disabled") if counts[state])
    return ", ".join(f"{counts[state]} {words.get(state, state)}" for state in listed)


def verdict_line(facts: str, blocked: Collection[Verdict], unread: str) -> str:
    """The line with the result of judged manifests: OK, or what fails, before the facts. `unread` fails them too, if anything."""
    fails = "; ".join(filter(None, (failures(blocked) if blocked else "", unread)))
    return f"FAILED: {fails}; {facts}" if fails else f"OK: {facts}"


def failures(blocked: Collection[Verdict]) -> str:
    """How many verdicts of which kind fail. Verdicts that share a line count once."""
    lines = [verdict.kind for verdict, _ in alike(blocked)]
    unsure = lines.count("undeterminable")
    kinds = [
        counted(len(lines) - unsure, "mandatory violation", "mandatory violations"),
        counted(unsure, "undeterminable verdict of a critical policy", "undeterminable verdicts of critical policies"),
    ]
    return " and ".join(kind for kind in kinds if not kind.startswith("0 "))


def state(plan: Plan, strict: bool = False) -> tuple[str, str]:
    """The result of a plan (ok, failed, cannot-work, placed, up-refused), and why it is not ok.

    Only a failed plan has another exit status. `pulumi up` of cannot-work and up-refused fails. A plan without Pulumi's SDK is
    placed at best.
    """
    if not plan.passes(strict):
        placed = [f"{unplaceable(plan)}, so no resource was created or judged"] if plan.refused else []
        broken = [failures(blocked)] if (blocked := plan.blocked(strict)) else []
        new = [f"the change writes {_parts(plan.written)} that cannot work"] if plan.written else []
        return "failed", " and ".join((*placed, *broken, *new))
    if plan.impossible:
        return CANNOT_WORK, _parts(plan.impossible)
    if not plan.judged:
        return "placed", ""
    late = {verdict.rule for verdict in plan.late()}
    return ("up-refused", f"a day has passed for {listed(sorted(late), _FEW)}") if late else ("ok", "")


def _parts(remarks: Iterable[Remark]) -> str:
    """How many entries of the stack file some remarks are about."""
    return counted(len({remark.parts[0] for remark in remarks}), "part", "parts")


def promises(plan: Plan, *, money: bool = True) -> Iterator[str]:
    """What a plan says in one line for a person: the money, and what was not judged. Amounts at worst are rounded up.

    Without `money` only the price of a job.
    """
    idle, worst = plan.cost
    if money:
        bound = "at least " if idle.unknown else "at most " if idle.at_most else ""
        usual = plan.average.usd * MONTH
        scheduled = f", {usual:.0f} with schedules" if round(usual) != round(idle.usd * MONTH) else ""
        priced = idle.usd or not idle.unknown
        yield f"idle {bound}{idle.usd * MONTH:.0f} USD a month{scheduled}" if priced else "idle at an unknown price"
    if placed := [placement for placement in plan.placements if not placement.error and not placement.of_runners]:
        classes = {placement.runner_set for placement in placed}
        job = f" of {placed[0].runner_set}" if len(classes) == 1 else ""
        many = "" if job else f" ({len(classes)} classes)"
        hours = [hour for placement in placed for hour in runner_hour(placement, plan.fleet.clusters[placement.cluster].region)]
        yield f"a job-hour{job} {_range(hours)}{many}"
    if money:
        lacks = f"worst hour at least {_up(worst)} USD" if worst.usd else "worst hour at an unknown price"
        yield lacks if worst.unknown else f"never above {_up(worst)} USD an hour"
    yield from _unjudged(plan)


def _up(money: Money) -> str:
    """Dollars with cents, rounded up, so that no price is above."""
    return f"{rounded_up(money.usd):.2f}"


def _range(prices: Sequence[Money]) -> str:
    """Several prices of which one is paid, in dollars with cents."""
    low, high = money_span(prices)
    if high.unknown:
        return "at an unknown price" if low.unknown else f"from {low.usd:.2f} USD, with unknown prices"
    bound = "at most " if any(price.at_most for price in prices) else ""
    return f"{bound}{low.usd:.2f}{'' if low.usd == high.usd else f' to {_up(high)}'} USD"


def _unjudged(plan: Plan) -> Iterator[str]:
    """The policies that could not be judged, how many are disabled, and how many versions have ended."""
    if not plan.judged:
        yield NOT_JUDGED
    if plan.recording is None:
        return
    outcomes = plan.outcomes()
    on = [outcome for outcome in outcomes if outcome.level != "disabled"]
    if unsure := [outcome.rule for outcome in on if outcome.state == "undeterminable"]:
        yield f"not judged: {len(unsure)} of {len(on)} policies ({listed(unsure, _FEW)})"
    if off := len(outcomes) - len(on):
        yield f"{counted(off, 'policy', 'policies')} disabled"
    if over := sum(end.use.life.over(plan.as_of) for end in plan.ends):
        yield f"{counted(over, 'version has', 'versions have')} ended"


def unread(plan: Plan, most: int = _FEW) -> str:
    """How many types of resources no policy judges, and which, without components."""
    names = [token for token, judged in plan.types.items() if not judged]
    return f"No policy judges {len(names)} of {len(plan.types)} types of resources ({listed(names, most)})" if names else ""


def result(plan: Plan, strict: bool = False) -> tuple[str, ...]:
    """The result of a plan for a person, as the parts of one line."""
    word, why = state(plan, strict)
    title = word.replace("-", " ").upper()
    return (f"{title}: {why}" if why else title, *promises(plan))


def agreeing(plan: Plan) -> list[str]:
    """The command that writes values of the policies which refuse a plan, if values would help; at most one line."""
    command = f"gpu-ci agree {plan.config.stack}" if INSTALLED else f"make agree STACK={plan.config.stack}"
    return [f"{command} proposes values that admit this fleet, of: {', '.join(rules)}"] if (rules := grown(plan)) else []


def endings(plan: Plan) -> Iterator[str]:
    """What `pulumi up` is refused for because of the day, then what ends soon or has ended.

    Things that end for the same reason, and that one action renews, share a line.
    """
    if late := plan.late():
        resources = grouped(dict.fromkeys((verdict.rule, name_of(verdict.urn)) for verdict in late))
        refused = "; ".join(f"{rule} ({listed(names, _FEW)})" for rule, names in resources.items())
        yield f"pulumi up is refused, because a day has passed: {refused}"
    ends = (end for end in plan.ends if end.use.life.shown(plan.as_of))
    groups = grouped(((end.use.life.effect, end.use.fix, end.use.cost, end.use.life.last is None), end) for end in ends)
    yield from (together(group, plan.as_of) for group in groups.values())


MOST_NOTES = 5
"""Lines of ends and remarks that a plan shows at once."""


def notes(plan: Plan, remarks: Iterable[Remark]) -> list[str]:
    """The ends of a plan and some of its remarks: first those that ask for an action, costs before facts. Equal ones are one.

    Remarks on parts that cannot work are elsewhere.
    """
    open_remarks = _together(remark for remark in remarks if remark.kind != CANNOT_WORK)
    return [*endings(plan), *sorted(open_remarks, key=lambda remark: (not remark.act, remark.kind != COST))]


def mark(note: str) -> str:
    """How the plan marks a note: an end or a remark that asks for an action, one on money, or any other."""
    if not isinstance(note, Remark) or note.act:
        return "!"
    return "$" if note.kind == COST else "-"


_WHERE = re.compile(r"(?P<head>[\w-]+: pool |)(?P<name>[\w-]+(?:/[\w-]+)?): (?P<rest>.*)", re.DOTALL)
"""A remark about a pool or a runner set: "usw2: pool t4-spot: …" or "usw2/gpu-t4: …"."""


def _together(remarks: Iterable[Remark]) -> Iterator[Remark]:
    """The remarks in their order; those that say the same of several pools or runner sets as one, which names all."""
    groups: dict[tuple[str, str], tuple[Remark, list[str]]] = {}
    for remark in remarks:
        at = _WHERE.fullmatch(remark)
        key = (at["head"], at["rest"]) if at else ("", str(remark))
        groups.setdefault(key, (remark, []))[1].append(at["name"] if at else "")
    for key, (remark, names) in groups.items():
        if len(names) == 1:
            yield remark
        else:
            head = key[0].replace(": pool ", ": pools ")
            yield Remark(f"{head}{', '.join(names)}: {key[1]}", remark.kind, act=remark.act)


def short(token: str) -> str:
    """aws:eks/nodeGroup:NodeGroup → aws.eks.NodeGroup."""
    package, _, path = token.partition(":")
    module, _, name = path.rpartition(":")
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

    messages = ((verdict, _SETTINGS.sub(r"\1.*.\3.*", _without_name(verdict))) for verdict in verdicts)
    groups = grouped(((verdict.rule, verdict.level, verdict.kind, message), verdict) for verdict, message in messages)
    return [(_merged(group), [name_of(verdict.urn) for verdict in group]) for group in groups.values()]


def _merged(group: list[Verdict]) -> Verdict:
    first = group[0]
    if all(verdict.message == first.message for verdict in group):
        return first
    message = first.message if len({_SETTINGS.sub("", verdict.message) for verdict in group}) == 1 else _without_name(first)
    keys = [[*_SETTINGS.finditer(verdict.message)] for verdict in group]
    for index, key in enumerate(keys[0]):
        clusters, _, kind, _ = key.groups()
        cluster, name = ({matches[index][part] for matches in keys} for part in (2, 4))
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


def refusal(config: StackConfig, refused: Refusal) -> Fault:
    """Why a runner set, workload or job cannot be placed, with its place in the stack file."""
    key = (f"{refused.cluster}/{refused.workload}", refused.kind)
    path = next((entry.path for entry in entries(config) if (entry.name, entry.kind) == key), ())
    place = ".".join(map(str, path))
    return Fault(f"cannot be placed: {refused.error}", str(from_here(config.path)), config.line_of(*path) or 1, place)


def unplaceable(plan: Plan) -> str:
    """How many things no node can hold: "2 runner sets and 1 workload cannot be placed"."""
    # A runner set with several pools is refused once for each pool.
    things = dict.fromkeys((refused.kind, refused.cluster, refused.workload) for refused in plan.refused)
    counts = Counter(kind for kind, _, _ in things)
    return f"{' and '.join(counted(count, kind, f'{kind}s') for kind, count in counts.items())} cannot be placed"


def counted(count: int, single: str, many: str) -> str:
    """1 node, 2 nodes."""
    return f"{count} {single if count == 1 else many}"
