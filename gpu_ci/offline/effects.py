"""What a change does to each resource that exists."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from typing import NamedTuple

from fleet.facts.quantities import quantity
from fleet.facts.tables import rows
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.wire import ABSENT, Secret, differing, hidden
from policies.rules.kinds import LAUNCH_TEMPLATE

_VERSION = re.compile(r"v?(\d+)\.(\d+)")


class Effect(NamedTuple):
    """What `pulumi up` does: added, removed, replaced, refused (by the cloud), rolled (its nodes are), new-nodes, updated, or "".

    New-nodes is an update that running nodes do not get. `paths` are the inputs that differ or will differ. A list counts as one
    input. No value is in it.
    """

    state: str
    paths: tuple[str, ...] = ()


@cache
def inputs(token: str, effect: str) -> tuple[str, ...]:
    """The inputs of a type whose change has this effect. `fleet/facts/data/README.md` has the words of effects.csv."""
    return tuple(row["input"] for row in rows("effects.csv") if row["effect"] == effect and fnmatchcase(token, row["type"]))


def effects(before: Iterable[Resource], after: Iterable[Resource]) -> dict[str, Effect]:
    """The effect on each resource, by URN.

    An unknown input stays equal if the resource that gives it stays. It changes if that resource is added or replaced, or if
    another one gives it. An update moves one output that others read: the latest version of a launch template.
    """
    old, new = ({resource.urn: resource for resource in side} for side in (before, after))
    effect_of = {urn: Effect("removed") for urn in old if urn not in new}
    for urn, resource in new.items():  # a resource is registered after those whose outputs it reads
        effect_of[urn] = _effect(old[urn], resource, new, effect_of) if urn in old else Effect("added")
        if effect_of[urn].state == "updated" and _leaves_zones(urn, old, new, effect_of):
            effect_of[urn] = Effect("refused", effect_of[urn].paths)
    return effect_of


def _effect(before: Resource, after: Resource, new: Mapping[str, Resource], effects_so_far: Mapping[str, Effect]) -> Effect:
    unknown = dict.fromkeys(path.partition("[")[0] for path, value in hidden(after.inputs) if not isinstance(value, Secret))
    composed = inputs(after.type, "composed") if _is_edited_above(after, new, effects_so_far) else ()
    moved = (path for path in unknown if _within(path, composed) or _moved(before, after, path, effects_so_far))
    unset = (None, ABSENT)
    triggers = (before.replacement_trigger, after.replacement_trigger)
    is_triggered = None not in triggers and triggers[0] != triggers[1]
    kept = () if is_triggered else after.ignore_changes
    differences = ((path, sides) for path, *sides in differing(before.inputs, after.inputs, lists=False))
    edited = {path: sides for path, sides in differences if any(side not in unset for side in sides) and not _within(path, kept)}
    paths = tuple(sorted({*edited, *moved}))
    # A remote component gives its providers to the resource that it stands for.
    providers = after.providers.values() if after.remote else [after.provider] if after.custom else []
    by_provider = any(effects_so_far.get(ref.rpartition("::")[0], Effect("")).state == "replaced" for ref in providers)
    if is_triggered or by_provider or touch(paths, causes(after)):
        return Effect("replaced", paths)
    for effect, refuses in _REFUSED.items():
        if any(path in edited and refuses(*edited[path]) for path in inputs(after.type, effect)):
            return Effect("refused", paths)
    state = next((state for state, effect in _SOFTER if touch(paths, inputs(after.type, effect))), "updated" if paths else "")
    return Effect(state, paths)


_SOFTER = (("rolled", "rolls"), ("new-nodes", "new-nodes"))
"""States of updates, with the words of effects.csv."""


def _is_lower(old: object, new: object) -> bool:
    amounts = quantity(old), quantity(new)
    return amounts[0] is not None and amounts[1] is not None and amounts[1] < amounts[0]


def _is_no_step(old: object, new: object) -> bool:
    """Whether a version of Kubernetes is neither of the same minor nor of the next one."""
    versions = [_VERSION.match(str(version)) for version in (old, new)]
    minors = [(int(version[1]), int(version[2])) for version in versions if version]
    return len(minors) == len(versions) and minors[1] not in (minors[0], (minors[0][0], minors[0][1] + 1))


_REFUSED: Mapping[str, Callable[[object, object], bool]] = {"lower": _is_lower, "minor": _is_no_step}
"""When a cloud refuses another value, by the words of effects.csv."""


def _leaves_zones(urn: str, old: Mapping[str, Resource], new: Mapping[str, Resource], so_far: Mapping[str, Effect]) -> bool:
    """Whether a control plane would get subnets in other zones or in another VPC."""
    for name in set(so_far[urn].paths) & set(inputs(new[urn].type, "zones")):
        givers = [[side[giver] for giver in side[urn].property_dependencies.get(name, ())] for side in (old, new)]
        subnets = [[giver for giver in side if "availabilityZone" in giver.inputs] for side in givers]
        zones = [{subnet.inputs["availabilityZone"] for subnet in side} for side in subnets]
        if zones[0] != zones[1] or any("vpcId" in so_far[subnet.urn].paths for subnet in subnets[1]):
            return True
    return False


def causes(resource: Resource) -> tuple[str, ...]:
    """The inputs whose change replaces a resource: by its provider, and by the program."""
    return (*inputs(resource.type, "replaces"), *resource.replace_on_changes)


def _is_edited_above(resource: Resource, new: Mapping[str, Resource], effects_so_far: Mapping[str, Effect]) -> bool:
    """Whether a component that a resource is part of has other inputs. Texts composed of ids and settings may then change."""
    while (parent := new.get(resource.parent)) is not None:
        if effects_so_far[parent.urn].paths:
            return True
        resource = parent
    return False


def _moved(before: Resource, after: Resource, path: str, effects_so_far: Mapping[str, Effect]) -> bool:
    """Whether an unknown input gets another value."""
    givers, earlier = (set(side.property_dependencies.get(path.partition(".")[0], ())) for side in (before, after))
    if givers != earlier or any(effects_so_far[urn].state in ("added", "replaced") for urn in givers if urn in effects_so_far):
        return True
    versions = (effects_so_far[urn].paths for urn in givers if urn in effects_so_far and f"${LAUNCH_TEMPLATE}::" in urn)
    quiet = inputs(LAUNCH_TEMPLATE, "quiet")
    return path in inputs(after.type, "rolls") and any(not touch((part,), quiet) for paths in versions for part in paths)


def _within(path: str, names: Iterable[str]) -> bool:
    """Whether a path is one of the inputs or a part of it."""
    return any(f"{path}.".startswith(f"{name}.") for name in names)


def touch(paths: Iterable[str], names: Collection[str]) -> bool:
    """Whether one of the paths is one of the inputs, a part of it, or contains it."""
    return any(_within(path, names) or any(_within(name, [path]) for name in names) for path in paths)
