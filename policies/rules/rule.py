"""What a rule is, and how it judges resources.

A `Rule` judges one resource at a time, a `StackRule` the resources of a stack together. Exceptions (`exceptions.py`) and remedies
(`draft.py`) work alike for all rules, so no rule handles them itself.

The messages of a check name the file and key that people change: a property of the policy's config, or a setting of the stack
file. A check writes `setting("maxGpus")`, `entry("types", "g6.xlarge")` or `stack_file("tags")`. When a rule reports, it fills in
the policy and the file, because only the URN names the stack. A message without a place gets that of the rule's `settings`.
People edit `policies/stacks.toml`, unless the stack has only a JSON that a person wrote. For a manifest of `gpu-ci check` the
file is the manifest's own.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from functools import cache, lru_cache, wraps
from operator import attrgetter
from pathlib import Path
from string import Formatter
from typing import Any, Self

from fleet.facts.quantities import quantity
from fleet.facts.record import Record, Same

from . import exceptions, kinds
from .draft import Draft
from .kinds import EXISTING_CLUSTER, HELM, POD, RUNNER_SET, is_object, kind_of, may_have_pods
from .node_groups import Pool, pooled
from .read import Later, UndeterminableError, line, shown, text, walk
from .record import Resource, UnknownError

__all__ = ["Resource"]
"""What rules import from here and another module defines."""

_FOLDER = Path(__file__).resolve().parent.parent
"""Has stacks.toml and config/, in the repository and in a published pack."""

_MARK = "\x00"
"""Marks the start and end of a place to fill in. `read.line` escapes this character, so no value of a resource contains it."""
_MARKED = re.compile(f"{_MARK}(:?)([^{_MARK}]*){_MARK}")
CLUSTER_SETTINGS = "clusters.<cluster>"
POOL_SETTINGS, RUNNER_SETTINGS = f"{CLUSTER_SETTINGS}.pools.<pool>", f"{CLUSTER_SETTINGS}.runners.<runner>"
JOB_SETTINGS, WORKLOAD_SETTINGS = f"{CLUSTER_SETTINGS}.jobs.<job>", f"{CLUSTER_SETTINGS}.workloads.<workload>"
"""Keys of the stack file. A plan knows the names in <>; at a preview the resource's name has them."""


def setting(name: str) -> str:
    """The config property of the policy that reports, as `policies/stacks.toml: staging.stack-gpu-ceiling.maxGpus`."""
    return f"{_MARK}{name}{_MARK}"


def entry(name: str, value: str) -> str:
    """What a list of the policy's config lacks, as `add "g5.xlarge" to policies/stacks.toml: …`."""
    return f'add "{value}" to {setting(name)}'


def stack_file(key: str) -> str:
    """A setting of the stack file, as `Pulumi.staging.yaml: gpu-ci:tags`. Names in <> are those of the resource."""
    return f"{_MARK}:{key}{_MARK}"


class _Said(Formatter):
    """Fills in a row of messages.toml."""

    def get_field(self, name: str, args: Sequence[Any], fields: Mapping[str, Any]) -> Any:
        # A name that no field has is the key of a setting.
        return super().get_field(name, args, fields) if re.split(r"[.\[]", name)[0] in fields else (name, name)

    def format_field(self, value: Any, how: str) -> str:
        ways: dict[str, Callable[[Any], str]] = {"shown": shown, "line": line, "setting": setting, "stack_file": stack_file}
        return ways[how](value) if how in ways else str(super().format_field(value, how))


def said(row: str, /, **fields: Any) -> str:
    """The text of a row of messages.toml, with its fields filled in."""
    return _Said().vformat(str(_tables("rules/messages.toml")[row]), (), fields)


def pod_settings(key: str) -> dict[str, str]:
    """The setting that creates a pod, by the type of the resource that has the pod."""
    jobs = {token: f"{JOB_SETTINGS}.{key}" for token in POD if kind_of(token) == "Job"}
    return dict.fromkeys(HELM | RUNNER_SET, f"{RUNNER_SETTINGS}.{key}") | jobs | {"": f"{WORKLOAD_SETTINGS}.{key}"}


def filled(message: str, policy: str, urn: str, key: str = "") -> str:
    """The message of a policy on the stack of this URN (urn:pulumi:<stack>::<project>::…), with its places filled in.

    `key` is the setting that changes what the message is about. A resource of the fleet's program gets it if the message names no
    place.
    """
    stack, _, tail = urn.removeprefix("urn:pulumi:").partition("::")
    project = tail.partition("::")[0]

    def place(mark: re.Match[str]) -> str:
        name = f"{policy}.{mark[2]}"
        if not mark[1]:
            return f"policies/config/{stack}.json: {name}" if _by_hand(stack) else f"policies/stacks.toml: {stack}.{name}"
        if in_files(urn):
            return urn.rpartition("::")[2].partition("#")[0]
        return f"Pulumi.{stack}.yaml: gpu-ci:{mark[2]}"

    if key and project == "gpu-ci" and not _MARKED.search(message):
        message = f"{message}. Change {stack_file(key)}"
    return _MARKED.sub(place, message)


def in_files(urn: str) -> bool:
    """Whether the resource of this URN is a manifest of `gpu-ci check`."""
    return urn.split("::")[1:2] == ["check"]


def key_of(settings: str | Mapping[str, str], urn: str) -> str:
    """The setting of a rule for the resource of this URN: by its type, then "" for all other types."""
    if isinstance(settings, str):
        return settings
    token = urn.split("::")[2].rpartition("$")[2] if urn.count("::") > 2 else ""
    return settings.get(token, settings.get("", ""))


@cache
def _by_hand(stack: str) -> bool:
    """Whether a stack is not in stacks.toml and has a JSON that a person wrote. `offline.policyconfig` reports a broken TOML."""
    try:
        listed = stack in _tables("stacks.toml")
    except (OSError, ValueError):
        listed = False
    return not listed and (_FOLDER / "config" / f"{stack}.json").is_file()


STACK_KINDS = ("dev", "staging", "prod", "homelab")


class Level(StrEnum):
    """What a broken rule does, from the weakest to the strictest. Remediate fixes what it can and then is mandatory."""

    DISABLED = "disabled"
    ADVISORY = "advisory"
    REMEDIATE = "remediate"
    MANDATORY = "mandatory"


@dataclass(slots=True, eq=False, kw_only=True)
class Args(Resource):
    """The input of a rule that judges one resource: the resource, and the rule's config."""

    config: Mapping[str, Any]


Check = Callable[[Args, Later], Iterable[str]]
"""Gives the message of each certain violation. An unknown value that could hide another goes to `Later`, or is raised."""

Remedy = Callable[[Args, Draft], None]
"""Fixes in the draft what is safe and unambiguous, and leaves unknown values alone. The check then judges the result."""

Mendable = tuple[str, Mapping[Any, Any]]
"""A message, and the values by path (a tuple of steps) that fix what is wrong; none if only the owner can fix it."""


Mendings = Iterator[Mendable]


def mending(faults: Callable[[Args, Later], Iterable[Mendable]]) -> dict[str, Any]:
    """The check and the remedy of a rule whose faults say how to fix them."""

    @wraps(faults)
    def check(args: Args, later: Later) -> Iterable[str]:
        return (message for message, _ in faults(args, later))

    def remedy(args: Args, draft: Draft) -> None:
        for _, fixes in faults(args, Later()):
            for path, value in fixes.items():
                draft.put(value, *path)

    return {"check": check, "remedy": remedy}


class Stack(Record):
    """The input of a stack rule: the resources of its types in order of URN, its config, and the day that it judges.

    Follow parents and dependencies only to resources of these types, because an offline plan has no others.
    """

    resources: tuple[Resource, ...]
    config: Mapping[str, Any]
    as_of: date
    existing: Mapping[str, str] = field(default_factory=dict)
    """The providers of clusters that the stack did not create, by the name, OCID or context of the cluster."""

    def may_be(self, cluster: str) -> str:
        """The existing cluster that `cluster` is, or may be if it is unknown (""); "" if the stack created it."""
        if cluster in self.existing:
            return cluster
        return "" if cluster else next(iter(self.existing), "")

    def of(self, *types: str | frozenset[str]) -> Iterator[Resource]:
        """The resources of these tokens or sets of tokens."""
        tokens = frozenset[str]().union(*(resource if isinstance(resource, frozenset) else {resource} for resource in types))
        return (resource for resource in self.resources if resource.type in tokens)


Violation = tuple[str, str | None]
"""A message, and the URN of the resource that it is about; None for the stack."""


@dataclass(slots=True)
class Outcome:
    """What a rule says: certain violations, then the unknown value that may hide more, or what an exception hides ("")."""

    violations: list[Violation] = field(default_factory=list)
    unknown: UnknownError | None = None
    excepted: str = ""


Violations = Iterator[Violation]

StackCheck = Callable[[Stack, Later], Iterable[Violation]]
"""Gives each certain violation. Unknown values go to `Later`, or are raised."""

NOTHING: tuple[frozenset[str], StackCheck] = (frozenset(), lambda _, __: ())
"""Types and check of a stack rule that does not apply to manifests alone."""


class _Common(Record, kw_only=True, eq=False):
    """What both kinds of rule have.

    `section` is that of docs/policies.md, and `order` the place among all rules. `types` are the resource tokens that the rule
    judges, and `others` says of a token whether it is one more, where no list has them all; `severity` (low, medium, high or
    critical) is how much harm a violation does; `levels` has one level for each of STACK_KINDS; `config` maps each property to
    its JSON schema, which has a default; `rationale`, `source` (a URL) and `fix` are for people. `facts` gives the rules of the
    pack what is plain data. `settings` is the key of the stack file that changes what the rule judges, for all resources or by
    type ("" for all other types); it is "" if no setting does. A strict plan fails where a `critical` rule is undeterminable.
    `of_existing` says, by provider, what the rule would have to see of a cluster that the stack did not create. Such a cluster
    makes the rule undeterminable. With `partly` the rule bounds single values of an object, and reads no more of it.
    """

    id: str
    section: str
    order: int
    title: str
    check: Callable[..., Iterable[Any]]
    severity: str
    types: frozenset[str]
    others: Callable[[str], bool] | None = None
    levels: Mapping[str, str]
    rationale: str
    source: str
    fix: str
    settings: str | Mapping[str, str] = ""
    critical: bool = False
    config: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    of_existing: Mapping[str, str] = field(default_factory=dict)
    partly: bool = False
    in_manifests: tuple[frozenset[str], StackCheck] | None = None

    def judges(self, token: str) -> bool:
        """Whether it judges resources of this token."""
        return token in self.types or (self.others is not None and self.others(token))

    def sees(self, token: str) -> bool:
        """Whether it must get resources of this token: those that it judges, and existing clusters."""
        return token == EXISTING_CLUSTER or self.judges(token)

    def counts(self, token: str, has_pods: bool) -> bool:
        """Whether it has a verdict on a resource of this token, which has pods or none, if no list has its kind."""
        if self.others in (may_have_pods, is_object) and token not in self.types and not has_pods:
            return False
        return self.sees(token) if self.of_existing else self.judges(token)

    def _unseen(self, existing: Mapping[str, str]) -> Later:
        """What the rule cannot see of the existing clusters."""
        later = Later()
        for cluster, provider in existing.items():
            if provider in self.of_existing:
                later.note(unseen(cluster, self.of_existing[provider]))
        return later

    def bounded(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """The config, with the default of each number that is none or too small. The engine refuses such a config."""
        return _bounded(self, Same(config))

    @property
    def level(self) -> Level:
        """The strictest of `levels`. The pack enforces it for a stack without a policy config."""
        return max(map(Level, self.levels.values()), key=tuple(Level).index)

    @property
    def of_manifests(self) -> Self:
        """The rule for manifests without a program: the same, unless it needs resources that only a cloud's program declares."""
        if self.in_manifests is None:
            return self
        types, check = self.in_manifests
        return replace(self, types=types, others=None, check=check)

    @property
    def schemas(self) -> Mapping[str, Mapping[str, Any]]:
        """The JSON schema of each config property, with those that all rules share."""
        return {**self.config, **_tables("rules/shared.toml")}


@lru_cache(maxsize=256)
def _bounded(rule: _Common, config: Same) -> Mapping[str, Any]:
    bounds = {name: words for name, words in rule.config.items() if words["type"] in ("integer", "number")}
    numbers = {name: quantity(config.value.get(name)) for name in bounds}
    fits = {name: number is not None and number >= bounds[name].get("minimum", number) for name, number in numbers.items()}
    return (
        config.value
        if all(fits.values())
        else {**config.value, **{name: bounds[name]["default"] for name in bounds if not fits[name]}}
    )


@cache
def _tables(name: str) -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads((_FOLDER / name).read_text(encoding="utf-8"))


def _by_type(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings by resource type. A table of the data file has names of `kinds`, "" for all other types, or `pods`: the last
    part of a key that each owner of a pod has."""
    by_type = pod_settings(settings["pods"]) if "pods" in settings else {}
    for name, key in settings.items():
        if name != "pods":
            types = getattr(kinds, name) if name else ""
            by_type |= dict.fromkeys([types] if isinstance(types, str) else types, key)
    return by_type


def facts(module: str, **defaults: Any) -> dict[str, Any]:
    """What `rules.toml` says of the rule in a module: arguments of `Rule` and `StackRule`. The order is that of the tables.

    The id is the name of the module with hyphens. `defaults` are those of config properties that have theirs from the facts of
    the fleet.
    """
    name = module.rpartition(".")[2].replace("_", "-")
    data = dict(_tables("rules.toml")[name])
    config = {key: dict(words) for key, words in data.pop("config", {}).items()}
    for key, value in defaults.items():
        config[key]["default"] = value
    if isinstance(data.get("settings"), dict):
        data["settings"] = _by_type(data["settings"])
    return data | {"id": name, "order": list(_tables("rules.toml")).index(name), "config": config}


class Rule(_Common, kw_only=True, eq=False):
    """One policy that judges each resource by itself."""

    check: Check
    remedy: Remedy | None = None

    def judge(self, args: Args, as_of: date) -> Outcome:
        """What the rule says of a resource, if it reads that type. `as_of` decides whether an exception is valid."""
        if not self.sees(args.type):
            return Outcome()
        if (config := self.bounded(args.config)) is not args.config:
            args = args_of(args, config)
        excuse, faults = exceptions.exemption(args.config, args.urn, as_of)
        later = self._unseen(_existing([args])) if args.type == EXISTING_CLUSTER else Later()
        messages: list[str] = []
        with later:
            for message in self.check(args, later) if self._judges(args) else ():
                messages.append(filled(message, self.id, args.urn, key_of(self.settings, args.urn)))
        if excuse is None:
            return Outcome([(message, None) for message in (*faults, *messages)], later.first)
        hidden = messages if later.first is None else [*messages, later.first.message]
        return Outcome([(fault, None) for fault in faults], excepted=excuse.hides(hidden) if hidden else "")

    def remedied(self, args: Args, as_of: date) -> dict[str, Any] | None:
        """The properties, in which secrets are marked, after the rule's remedy; None if it changes nothing."""
        excused = exceptions.exemption(args.config, args.urn, as_of)[0] is not None
        if self.remedy is None or not self._judges(args) or excused:
            return None
        draft = Draft(args.props)
        with Later():
            self.remedy(replace(args, props=draft.reading, config=self.bounded(args.config)), draft)
        return draft.changed

    def _judges(self, args: Args) -> bool:
        """Whether it is about the resource. Of a component of `eks` without inputs it judges the children."""
        return self.judges(args.type) and not kinds.is_hollow(args.type, args.props)


class StackRule(_Common, kw_only=True, eq=False):
    """One policy that judges resources of a stack together. The stack's own exceptions have the URN pattern `stack`.

    Some rules need resources that only a cloud's program declares: a budget, a quota, a provider's pool. For manifests without
    a program such a rule has the types and the check of `in_manifests`; None means no difference.
    """

    check: StackCheck

    def judge(self, resources: Iterable[Resource], config: Mapping[str, Any], as_of: date) -> Outcome:
        """What the rule says of the resources of a stack. `as_of` is the day for prices and exceptions."""
        # Sorted, because an engine gives them in no fixed order.
        seen = sorted((resource for resource in resources if self.sees(resource.type)), key=attrgetter("urn"))
        existing, judged = _existing(seen), tuple(resource for resource in seen if self.judges(resource.type))
        stack = Stack(judged, self.bounded(config), as_of, existing)
        outcome = Outcome([(fault, None) for fault in exceptions.expired(config, as_of)])
        hidden: dict[str, str] = {}
        later = Later()
        try:
            for message, urn in self.check(stack, later):
                excuse, _ = exceptions.exemption(config, urn or exceptions.STACK, as_of)
                text = filled(message, self.id, urn or (seen[0].urn if seen else ""), key_of(self.settings, urn or ""))
                if excuse is not None:
                    hidden.setdefault(excuse.name, excuse.hides([text]))
                else:
                    outcome.violations.append((text, urn))
            # Report this before unknown values: an update does not resolve it.
            self._unseen(existing).settle()
            later.settle()
        except UnknownError as unknown:
            # The unknown value may belong to any resource, so only an exception of the whole stack covers it.
            if not hidden or exceptions.exemption(config, exceptions.STACK, as_of)[0] is None:
                outcome.unknown = unknown
                return outcome
        outcome.excepted = "; ".join(hidden.values())
        return outcome


def _existing(resources: Iterable[Resource]) -> dict[str, str]:
    """The providers of the clusters that exist already, by cluster. Both are text that the program knows."""
    providers: dict[str, str] = {}
    for resource in resources:
        if resource.type == EXISTING_CLUSTER:
            with Later():
                providers[text(walk(resource.props, "clusterName"))] = text(walk(resource.props, "provider"))
    return dict(sorted(providers.items()))


def unseen(cluster: str, fact: str) -> UndeterminableError:
    """Why a rule is undeterminable for a cluster that the stack did not create. The message shows an OCID whole."""
    return UndeterminableError(f"cluster {line(cluster, 160)} exists already, and nothing in the stack shows {fact}")


def each(check: Check) -> StackCheck:
    """The check of a stack rule that judges each resource by itself, and the node groups of a pool as one."""

    @wraps(check)
    def judge(stack: Stack, later: Later) -> Iterator[Violation]:
        for resource in pooled(stack.resources):
            together = f" (its {resource.groups} node groups together)" if isinstance(resource, Pool) else ""
            with later:
                yield from ((f"{message}{together}", resource.urn) for message in check(args_of(resource, stack.config), later))

    return judge


def apart(faults: Callable[[Resource, Stack, Later], Iterable[str]]) -> StackCheck:
    """The check of a stack rule that judges each resource by itself and reads its dependencies, the config or the day."""

    @wraps(faults)
    def judge(stack: Stack, later: Later) -> Iterator[Violation]:
        return ((fault, resource.urn) for resource in stack.resources for fault in faults(resource, stack, later))

    return judge


def args_of(resource: Resource, config: Mapping[str, Any]) -> Args:
    """The input of a rule with this config."""
    return Args(resource.type, resource.props, resource.urn, resource.name, resource.opts, resource.provider, config=config)
