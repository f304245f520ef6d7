"""The changes from one plan of a stack to another, as a pure function of both plans."""

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

from fleet.facts.groups import grouped
from fleet.facts.pricing import Line, Money
from fleet.facts.remark import Remark
from fleet.facts.versions import CHARTS
from fleet.render.arc import SETS, another_minor, upgrade
from fleet.settings.enablement import DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON
from gpu_ci.offline import leaving
from gpu_ci.offline.changes import LEAVES, Change, Classified, Edit, Pair
from gpu_ci.offline.effects import Effect, effects
from gpu_ci.offline.entries import NEW_NAME, Entry, entries
from gpu_ci.offline.judge import ENDED, Configured, Remediation, Verdict
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import view
from gpu_ci.offline.words import Place, places

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

_RENAMED = ("cluster", "pool", "runner set", "cache")
"""Kinds of entries that can be renamed (docs/renaming.md)."""


class Kind(NamedTuple):
    """Logical names of the changed resources of one type; `changed` has the paths of the inputs that differ, no values."""

    type: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Comparison:
    """Two plans side by side. `arc_before` is the version of Actions Runner Controller on the side before, "" if unknown."""

    before: Plan
    after: Plan
    arc_before: str = ""

    @cached_property
    def arc_upgrade(self) -> tuple[str, ...]:
        """The commands that come before `pulumi up`, if the change pins another minor of Actions Runner Controller."""
        old, new = self.arc_before, CHARTS[SETS].version
        return upgrade(self.before.fleet, self.after.config.stack, old, new) if old and another_minor(old, new) else ()

    @property
    def judged(self) -> bool:
        """Whether resources and policies can be compared: a plan whose placement failed has neither."""
        return self.before.recording is not None and self.after.recording is not None

    @property
    def nothing(self) -> bool:
        """Whether both plans show the same."""
        alike = (self.before.recording is None) == (self.after.recording is None)
        moved = [pair.changed for pair in self.places.values()] + [pair.changed for pair in self.lines.values()]
        judged = (*self.new_verdicts, *self.fixed, *self.new_remediations, *self.resources)
        return alike and not (any(moved) or judged or self.arc_upgrade or self.settings or self.new_remarks)

    @cached_property
    def settings(self) -> tuple[Edit, ...]:
        """Added, removed and changed entries of the stack file in the order of the file, then policies with a new config."""
        settings = []
        old, new = map(entries, (self.before.config, self.after.config))
        for (kind, name), pair in _paired(old, new, lambda entry: (entry.kind, entry.name)).items():
            if (changed := _changed(pair, Entry.texts)) or pair.state in ("added", "removed"):
                settings.append(Edit(kind, name, pair.state, changed))
        return (*settings, *self._policies())

    def _policies(self) -> Iterator[Edit]:
        """Policies with another level or config. Resources do not show this: a disabled policy reports nothing."""
        for pair in _paired(self.before.policies, self.after.policies, lambda configured: configured.policy.id).values():
            if changed := _changed(pair, _configured):
                yield Edit("policy", pair.held.policy.id, pair.state, changed)

    @cached_property
    def places(self) -> Mapping[str, Pair[Place]]:
        """Every runner set by "cluster/set", as text."""
        return _paired(places(self.before), places(self.after), lambda row: row.name)

    @cached_property
    def lines(self) -> Mapping[tuple[str, str], Pair[Line]]:
        """Every line of the bill by cluster and item."""
        return _paired(self.before.bill, self.after.bill, lambda line: (line.cluster, line.item))

    @property
    def costs(self) -> Sequence[tuple[Money, Money]]:
        """USD an hour before and after, at idle and at worst."""
        return [*zip(self.before.cost, self.after.cost, strict=True)]

    @cached_property
    def new_verdicts(self) -> tuple[Verdict, ...]:
        """Verdicts that the plan before does not have: violations, exceptions, undeterminable ones.

        A verdict is not new if only the numbers in its message differ.
        """
        old = set(map(identity, self.before.verdicts))
        new = (verdict for verdict in self.after.verdicts if verdict.kind != "not-applicable" and identity(verdict) not in old)
        return tuple(new) if self.judged else ()

    @property
    def newly_broken(self) -> tuple[Verdict, ...]:
        """New violations."""
        return tuple(verdict for verdict in self.new_verdicts if verdict.kind == "violation")

    @cached_property
    def fixed(self) -> tuple[Verdict, ...]:
        """Violations of the plan before that are gone now, also if the resource is gone. An exception fixes nothing."""
        if not self.judged:
            return ()
        wrong, new, levels = ("violation", ENDED), set(self.new_verdicts), self.after.levels
        kept = (verdict for verdict in self.after.verdicts if verdict.kind in (*wrong, "excepted") or verdict in new)
        still = {(verdict.rule, verdict.urn) for verdict in kept}
        # Disabling a policy fixes nothing.
        judged = [one for one in self.before.verdicts if one.kind in wrong and levels.get(one.rule) != "disabled"]
        return tuple(verdict for verdict in judged if (verdict.rule, verdict.urn) not in still)

    @cached_property
    def new_remediations(self) -> tuple[Remediation, ...]:
        """Remediations that the plan before does not have."""
        old = set(self.before.remediations)
        return tuple(change for change in self.after.remediations if change not in old) if self.judged else ()

    @cached_property
    def both(self) -> Recording | None:
        """The resources after, beside the node groups that leave; None if none leaves."""
        left = [urn for change in self.changes if change.effect == LEAVES for urn in change.urns]
        old, new = self.before.recording, self.after.recording
        return leaving.beside(new, old, left) if left and old is not None and new is not None else None

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What `pulumi up` of this change leaves as it is, and which change needs two runs."""
        return (*self._left(), *self._two_advertisers(), *self._kept_tags(), *self._lost_names())

    def _left(self) -> Iterator[str]:
        plan = self.after
        if self.both is not None and plan.recording is not None:
            yield from leaving.remarks(plan.fleet, self.before.fleet, plan.recording, self.both, plan.cost[1], plan.as_of)

    def _lost_names(self) -> Iterator[str]:
        """New entries with the settings of one that is gone from the same place: it was renamed without its first name."""
        for new in (edit for edit in self.settings if edit.state == "added" and edit.kind in _RENAMED):
            for old in (edit for edit in self.settings if (edit.state, edit.kind) == ("removed", new.kind)):
                where, _, first = old.name.rpartition("/")
                if new.name.rpartition("/")[0] == where and _texts(new) == _texts(old):
                    same = f"if it is the same {new.kind}, write was: {first} (docs/renaming.md)"
                    yield f"{new.name} has the settings of {old.name}, which is gone: {same}"

    def _two_advertisers(self) -> Iterator[str]:
        """The device plugin's pods refuse a node with another advertiser. Between the operator and OKE's add-on nothing does."""
        old = dict(self.before.fleet.clusters_by_name())
        for name, cluster in self.after.fleet.clusters_by_name():
            if name in old and (old[name].enablement, cluster.enablement) == (GPU_PLUGIN_ADDON, GPU_OPERATOR):
                why = "OKE's add-on and the operator would both advertise GPUs on the nodes of now until `pulumi up` ends"
                fix = f"set {DEVICE_PLUGIN} first and run `pulumi up`, then set {GPU_OPERATOR}"
                yield f"clusters.{name}.enablement: {why}; {fix}"

    def _kept_tags(self) -> tuple[str, ...]:
        before, after = self.before.fleet, self.after.fleet
        if before.tags == after.tags:
            return ()
        kept = [provider.tags.kept for provider, _ in before.by_provider() if provider in dict(after.by_provider())]
        return tuple(f"tags: {note}" for note in kept if note)

    @cached_property
    def new_remarks(self) -> tuple[Remark, ...]:
        """The notes on the change, and remarks that the plan before does not have."""
        old = set(self.before.remarks)
        notes = (note if isinstance(note, Remark) else Remark(note) for note in self.notes)
        return (*notes, *(remark for remark in self.after.remarks if remark not in old))

    @cached_property
    def _effects(self) -> Mapping[str, Effect]:
        return effects(self.before.resources, self.after.resources)

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """What `pulumi up` does because of each edited entry, the most harmful first."""
        return () if not self.judged else Classified(self.before, self.after, self._effects, self.settings).changes()

    @property
    def ended_jobs(self) -> tuple[str, ...]:
        """A line for each change that ends running jobs or breaks their connections."""
        return tuple(change.what for change in self.changes if change.ends_jobs)

    @cached_property
    def resources(self) -> tuple[Kind, ...]:
        """Resources that were added, removed or changed, by type."""
        if not self.judged:
            return ()
        pairs = _paired(self.before.resources, self.after.resources, lambda resource: resource.urn).values()
        by_type = grouped((pair.held.type, pair) for pair in pairs)
        kinds = (_kind(token, by_type[token], self._effects) for token in sorted(by_type))
        return tuple(kind for kind in kinds if kind.added or kind.removed or kind.changed)


def difference(before: Money, after: Money) -> str:
    """The change of a price with its sign. For an upper bound it is the change of the bound."""
    if before.unknown or after.unknown:
        return "unknown"
    more = after.usd - before.usd
    return "±0" if abs(more) < 0.0005 else f"{'+' if more > 0 else '-'}{Money(abs(more))}"


def _paired(before: Iterable[T], after: Iterable[T], key: Callable[[T], K]) -> dict[K, Pair[T]]:
    """Both sides by key, in the order of `after`. Removed things come last."""
    old, new = ({key(item): item for item in side} for side in (before, after))
    return {name: Pair(old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])}


def _changed(pair: Pair[T], texts: Callable[[T], Mapping[str, str]]) -> dict[str, Pair[str]]:
    """The texts that differ between the sides of a pair, by their names."""
    before, after = ({} if side is None else texts(side) for side in (pair.before, pair.after))
    values = {name: Pair(before.get(name), after.get(name)) for name in dict.fromkeys([*before, *after])}
    return {name: value for name, value in values.items() if value.changed}


def _texts(edit: Edit) -> dict[str, str | None]:
    """The settings of an entry that is new or gone."""
    return {key: pair.held for key, pair in edit.values.items() if key != NEW_NAME}


def _configured(configured: Configured) -> dict[str, str]:
    """Level and properties of a policy, as in its config file: a policy gets every number as a float."""
    properties = {name: json.dumps(value, ensure_ascii=False) for name, value in view(configured.config).items()}
    return {"enforcementLevel": configured.level.value} | properties


_NUMBER = re.compile(r"(?<![\w-])\d+(?:\.\d+)?(?![\w-])")
"""A separate number such as a price or a size, not a number inside a name."""


def identity(verdict: Verdict) -> tuple[str, str, str, str]:
    """What identifies a verdict: policy, resource, kind, and the message without its numbers."""
    return verdict.rule, verdict.urn, verdict.kind, _NUMBER.sub("", verdict.message)


def _kind(token: str, pairs: Sequence[Pair[Resource]], effects_by_urn: Mapping[str, Effect]) -> Kind:
    added, removed = (tuple(pair.held.name for pair in pairs if pair.state == state) for state in ("added", "removed"))
    changed = {pair.held.name: effects_by_urn[pair.held.urn].paths for pair in pairs}
    return Kind(token, added, removed, {name: paths for name, paths in changed.items() if paths})
