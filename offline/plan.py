"""A plan: the fleet of one stack, proved without engine or cloud."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fleet import bill as billing
from fleet import placement as placing
from fleet.errors import FleetError
from fleet.placement import Placement
from fleet.pricing import Line, Money, total
from fleet.settings import CONFIG_KEYS, NAMESPACE, SECRETS, Fleet, check_keys
from fleet.settings import load as load_fleet
from offline import stackfile
from offline.errors import InputError
from offline.judge import Verdict, configure, judge
from offline.policyfile import policy_settings
from offline.record import Recording, Resource, record
from offline.stackfile import StackConfig
from policies.rules import RULES

Progress = Callable[[str], None]
"""Told what is done next."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one policy stands: what it judged, what broke it, what it could not tell before the cloud answers."""

    rule: str
    title: str
    severity: str
    level: str
    judged: int
    broken: int
    undeterminable: int

    @property
    def state(self) -> str:
        """holds, broken, undeterminable or disabled."""
        if self.level == "disabled":
            return "disabled"
        if self.broken:
            return "broken"
        return "undeterminable" if self.undeterminable else "holds"


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is known of a stack before anything is bought. `recording` is None when a proof failed before the program ran."""

    config: StackConfig
    fleet: Fleet
    placements: tuple[Placement, ...]
    overbooked: tuple[str, ...]
    bill: tuple[Line, ...]
    recording: Recording | None
    verdicts: tuple[Verdict, ...]
    levels: Mapping[str, str]
    """Level in force of each policy, by its id."""

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What would be registered, the stack itself aside."""
        return self.recording.resources[1:] if self.recording else ()

    @property
    def cost(self) -> tuple[Money, Money]:
        """(idle, worst) USD an hour."""
        return total(self.bill)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a reader should know though nothing fails: of clusters, runner sets and pools."""
        return tuple(self._remarks())

    def _remarks(self) -> Iterator[str]:
        for name, cluster in self.fleet.clusters_by_name():
            yield from (f"{name}: {remark}" for remark in cluster.remarks)
        for name in self.fleet.shared_names:
            yield f"runner set {name} stands in several groups: a runs-on must give the group too"
        for found in self.placements:
            yield from (f"{found.cluster}/{found.runner_set}: {remark}" for remark in found.remarks)
        yield from self.overbooked
        if self.recording is not None:
            yield from (f"{message.severity}: {message.text}" for message in self.recording.messages)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Config keys whose values are not read offline: encrypted in the stack file, or missing there."""
        return tuple(sorted(self.config.secret_keys | {f"{NAMESPACE}:{key}" for key in SECRETS}))

    def outcomes(self) -> tuple[Outcome, ...]:
        """How each policy stands, in the pack's order."""
        types = Counter(resource.type for resource in self.resources)
        kinds = Counter((verdict.rule, verdict.kind) for verdict in self.verdicts)
        return tuple(
            Outcome(
                rule.id,
                rule.title,
                rule.severity.value,
                self.levels[rule.id],
                sum(types[kind] for kind in rule.types) if self.levels[rule.id] != "disabled" else 0,
                kinds[rule.id, "violation"],
                kinds[rule.id, "undeterminable"],
            )
            for rule in RULES
        )

    @property
    def unplaced(self) -> tuple[Placement, ...]:
        """Runner sets that no node of their pool can hold."""
        return tuple(found for found in self.placements if found.error)

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """Violations of mandatory policies."""
        return tuple(verdict for verdict in self.verdicts if verdict.kind == "violation" and verdict.level == "mandatory")

    @property
    def clean(self) -> bool:
        """Whether every proof holds and no mandatory policy is broken."""
        return not self.unplaced and not self.broken


def make_plan(stack: str, root: Path, stack_file: Path | None = None, progress: Progress = lambda _: None) -> Plan:
    """Load, prove, record and judge one stack of the project in `root`.

    Raises InputError for whatever is wrong in the stack's files; any other exception is the program's own fault.
    """
    progress("reading settings")
    config = stackfile.load(stack, root, stack_file=stack_file)
    fleet = fleet_of(config)
    settings = policy_settings(stack, root)
    levels = {configured.policy.name: configured.level.value for configured in configure(RULES, settings)}
    placements = placing.place(fleet)
    lines = billing.bill(fleet)
    overbooked = tuple(placing.overbooked(placements))
    if any(found.error for found in placements):
        return Plan(config, fleet, placements, overbooked, lines, None, (), levels)
    progress("building resources")
    config = stackfile.with_placeholders(config, [f"{NAMESPACE}:{key}" for key in SECRETS])
    recording = record(root / "__main__.py", config)
    progress("judging policies")
    verdicts = judge(recording, RULES, settings)
    return Plan(config, fleet, placements, overbooked, lines, recording, verdicts, levels)


def fleet_of(config: StackConfig) -> Fleet:
    """The fleet of a stack file; InputError names each problem's line."""
    prefix = f"{NAMESPACE}:"
    held = {key.removeprefix(prefix): value for key, value in config.objects.items() if key.startswith(prefix)}
    try:
        check_keys(sorted(held), [key.removeprefix(prefix) for key in config.secret_keys])
        return load_fleet({key: held[key] for key in CONFIG_KEYS if key in held})
    except FleetError as error:
        raise InputError(
            "\n".join(
                _at(config, problem.path, problem.message) + (f"; got {problem.value}" if problem.value else "")
                for problem in error.problems
            )
        ) from error


def _at(config: StackConfig, path: tuple[str, ...], message: str) -> str:
    keys = tuple(int(part) if part.isdigit() else part for part in path)
    line = config.line_of(*keys) or config.line_of(*path) or 1
    return f"{config.path.name}:{line}: {'.'.join(path)}: {message}"
