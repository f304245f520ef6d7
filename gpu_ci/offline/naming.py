"""What a policy cannot know of the stack file: its path, the settings that a resource comes from, and who wrote a value.

The policy `cloud-limits` judges resources. A value that a stack file has and a cloud refuses is wrong input, so a plan ends with
status 2 and names its line. Any other value stays a verdict on its resource.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from fleet.facts.errors import FleetError, Problem, shown
from fleet.facts.places import Keys
from fleet.loading.renames import first_name
from fleet.loading.stackfile import StackConfig, wrong
from fleet.providers.fleet import NAMESPACE
from gpu_ci.offline.judge import Verdict, properties_of
from gpu_ci.offline.recording import Recording
from policies.rules.cloud_limits import RULE, Fault, faults
from policies.rules.read import Later

_KEY = re.compile(rf"(?<=: {NAMESPACE}:)clusters\.<[\w.<>-]*[\w>]")
"""A key with a name that is not known, as `clusters.<cluster>.pools.<pool>.nodes.max`."""


def named(config: StackConfig, verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts with the path of the stack file that was read, and with the names of clusters, pools and runner sets."""
    usual = f"Pulumi.{config.stack}.yaml"

    def message(verdict: Verdict) -> str:
        resource = verdict.urn.rpartition("::")[2]
        filled = _KEY.sub(lambda key: key_of(key[0], resource, config.objects), verdict.message)
        return filled if config.path.name == usual else filled.replace(usual, str(config.path))

    return tuple(replace(verdict, message=message(verdict)) for verdict in verdicts)


def key_of(key: str, resource: str, settings: Mapping[str, object]) -> str:
    """The key with the names that the resource's logical name begins with: usw2-t4-spot-launch is of cluster usw2, pool t4-spot.

    A resource that no pool or set makes gets the key of its cluster. Without a cluster the key stays as it is.
    """
    first, *steps = key.split(".")
    at, tail, path, count = settings.get(f"{NAMESPACE}:{first}"), resource, [first], 0
    for step in steps:
        entries, name = at if isinstance(at, Mapping) else {}, step
        if step.startswith("<"):
            firsts = {name: first_name(name, settings) for name, settings in entries.items()}
            names = [name for name, first in firsts.items() if re.match(rf"{re.escape(first)}(?:[-.]|$)", tail)]
            # A stack of one cluster has no other that the message could mean.
            if not (names := names or (list(entries) if len(entries) == 1 and step == "<cluster>" else [])):
                return ".".join(path[:count]) if count else key
            name = max(names, key=lambda name: len(firsts[name]))
            tail, count = tail[len(firsts[name]) + 1 :], len(path) + 1
        path.append(name)
        at = entries.get(name)
    return ".".join(path)


def require_accepted(config: StackConfig, recording: Recording, verdicts: Iterable[Verdict]) -> None:
    """Raises InputError for each verdict of `cloud-limits` whose value the stack file has."""
    problems: dict[Keys, Problem] = {}
    for verdict in verdicts:
        if verdict.rule == RULE.id and verdict.kind == "violation" and verdict.level == "mandatory":
            resource = recording.by_urn[verdict.urn]
            for fault in faults(resource.type, resource.name, properties_of(resource), Later()):
                if str(fault) == verdict.message and (place := _place(config, fault, resource.name)):
                    keys, value = place
                    rule = f"{fault.rule} ({resource.type.rpartition(':')[2]} {resource.name}, {fault.path})"
                    problems.setdefault(keys, Problem(tuple(map(str, keys)), rule, shown(value), RULE.id))
    if problems:
        raise wrong(config, FleetError(tuple(problems.values())))


def _place(config: StackConfig, fault: Fault, resource: str) -> tuple[Keys, object] | None:
    """Path and text of the setting that has the value: the same one, else the longest that is a part of it."""
    parts = list(fault.value) if isinstance(fault.value, Mapping | list) else [fault.value]
    parts = [part.get("type") if isinstance(part, Mapping) else part for part in parts]
    candidates = [part for part in parts if len(parts) == 1 or str(part) in fault.rule] or parts
    ranked = [
        # Of several places it is one whose path names more of what the resource is named after.
        ((value == part, len(str(value)), sum(isinstance(key, str) and key in resource for key in keys)), keys, value)
        for keys, value in _scalars(config.objects)
        for part in candidates
        if value == part or _within(value, part)
    ]
    if not ranked:
        return None
    _, keys, value = max(ranked, key=lambda entry: entry[0])
    # A rule of a whole list is about the list.
    return (keys[:-1], fault.value) if isinstance(fault.value, list) and isinstance(keys[-1], int) else (keys, value)


def _within(value: object, part: object) -> bool:
    """Whether a text is a part of another one. A shorter text could be a part of any."""
    return isinstance(part, str) and isinstance(value, str) and len(value) > 2 and value in part


def _scalars(value: object, keys: Keys = ()) -> Iterator[tuple[Keys, object]]:
    """Path and value of each scalar, and of each key below the first two: names of clusters, pools and tags."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if keys:
                yield (*keys, key), key
            yield from _scalars(inner, (*keys, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _scalars(inner, (*keys, index))
    elif not isinstance(value, bool):
        yield keys, value
