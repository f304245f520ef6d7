"""Runner sets that leave: they take no job, and stay until their last runner has ended.

The settings no longer say what such a set is made of, but the stack's state does.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic.alias_generators import to_camel

from components.component import Resources
from components.generations import Generations, resources
from components.kubernetes.in_cluster import Inside
from fleet.charts.runner_sets import IDLE
from fleet.facts.scheduling import LEAVING

_SET, MACHINES, GATEWAY = (f"gpu-ci:index:{kind}" for kind in ("ArcRunnerSet", "OciGpuRunner", "MetricsGateway"))
_ON_MACHINES = f"{MACHINES}${_SET}"
_QUOTA, RELEASE = "kubernetes:core/v1:ResourceQuota", "kubernetes:helm.sh/v3:Release"
_CONFIG, _POOL = "oci:Core/instanceConfiguration:InstanceConfiguration", "oci:Core/instancePool:InstancePool"
_POLICY, _TAGS = "oci:Identity/policy:Policy", "freeformTags"
_ORDER = ("kubernetes:core/v1:Namespace", _CONFIG, _POOL, "", RELEASE)
"""Types in the order of creation; "" are all others."""
_OURS = ("values", "skip_await")
Objects = Mapping[tuple[str, str], Mapping[str, Any]]
"""The outputs of the resources of a component in the state, by type and logical name."""
Owner = Callable[[str], tuple[pulumi.ResourceOptions, Resources]]
"""(class of machines that leaves) → options of its set, and what the set waits for, both declared as the state has them."""


def leave(inside: Inside, after: Resources, owner: Owner | None = None) -> None:
    """Declare the sets of removed classes: as they are, but they take no job. One that took none before, and has no pod, goes.

    So a set leaves in two updates or more, and none is deleted that may still get a job. `after` must exist before a set.
    `owner` is for sets of machines.
    """
    if (generations := inside.generations) is None or inside.git is not None:
        return
    generations.first.update(dict.fromkeys((f"{inside.name}/{name}" for name in inside.settings.runners), ""))
    for of_class, objects in removed(inside.name, inside.settings.runners, generations).items():
        name = f"{inside.name}-{of_class}"
        for kind, set_name, of in ((_SET, name, None), (_ON_MACHINES, f"{name}-set", owner)):
            if of_set := objects.get((kind, set_name)):
                # A class that comes back has the generations that it had.
                generations.keep(f"{inside.name}/{of_class}")
                generations.keep(f"{set_name}-chart")
                until_idle(set_name, of_set, inside.opts, partial(_stay, of_class, set_name, of_set, inside, after, of))


def removed(cluster: str, kept: Iterable[str], generations: Generations | None) -> dict[str, Mapping[tuple[str, str], Objects]]:
    """The classes of the last update that are not in `kept`, with what the state has of all components."""
    recorded, of_cluster = generations.recorded if generations is not None else {}, f"{cluster}/"
    names = [key.removeprefix(of_cluster) for key in recorded if key.startswith(of_cluster)]
    gone = [name for name in names if name not in kept]
    return dict.fromkeys(gone, of_components()) if gone else {}


def objects_of(name: str, namespace: str) -> Objects:
    """What the state has of the set with this logical name, whose releases are in the namespace."""
    of_name = (of for (_, set_name), of in of_components().items() if set_name == name)
    return next((of for of in of_name if any(row.get("namespace") == namespace for row in of.values())), {})


def of_components() -> Mapping[tuple[str, str], Objects]:
    """What the state has of each set, set of machines and gateway, by type with those of its parents, and logical name."""
    state = resources()
    split = {urn: urn.split("::", 3)[2:] for urn in state}
    # In the set of a class of machines, what launchers need has the name of the class.
    owners = sorted(
        (name.removesuffix("-set" if kind.endswith(_ON_MACHINES) else ""), kind, name)
        for kind, name in split.values()
        if kind.endswith((_SET, MACHINES, GATEWAY))
    )
    objects: dict[tuple[str, str], dict[tuple[str, str], Mapping[str, Any]]] = {}
    for urn, (kind, name) in split.items():
        above, _, own = kind.rpartition("$")
        # The longest name comes last.
        for _, chain, of in [each for each in owners if each[1] == above and name.startswith(f"{each[0]}-")][-1:]:
            objects.setdefault((chain, of), {})[own, name] = state[urn]["outputs"]
    return objects


def until_idle(
    name: str, objects: Objects, opts: pulumi.ResourceOptions, stays: Callable[[], None], goes: Callable[[], None] = lambda: None
) -> pulumi.Output[bool]:
    """Call `stays`, or `goes` if the set has taken no job since an earlier update and its quota counts no pod. Says which."""

    def decide(pods: str) -> bool:
        (goes if pods == "0" else stays)()
        return pods == "0"

    releases = [of["values"] for (kind, _), of in objects.items() if kind == RELEASE]
    took_none = all(IDLE.items() <= values.items() for values in releases)
    quota = objects.get((_QUOTA, f"{name}-quota"))
    if not took_none or quota is None:
        return pulumi.Output.from_input(decide("0" if took_none else ""))
    at = "{namespace}/{name}".format_map(quota["metadata"])
    status: pulumi.Output[Any] = kubernetes.core.v1.ResourceQuota.get(f"{name}-used", at, opts).status
    pods = status.apply(lambda status: (getattr(status, "used", None) or {}).get("pods", ""), run_with_unknowns=True)
    return pods.apply(decide)


def _stay(of_class: str, name: str, objects: Objects, inside: Inside, after: Resources, owner: Owner | None) -> None:
    later = "it takes no job, its runners finish, and a later pulumi up deletes it with its namespace"
    pulumi.log.warn(f"runner set {of_class} is leaving: {later}")
    opts, needed = owner(of_class) if owner is not None else (inside.opts, ())
    declare(objects, pulumi.ComponentResource(_SET, name, {}, opts), [*after, *needed])


def declare(objects: Objects, parent: pulumi.Resource, after: Resources, iam: pulumi.ProviderResource | None = None) -> Resources:
    """Declare the resources of a component as the state has them, but for what shows that no job comes. `iam` writes policies."""
    made = [*after]
    for batch in _ORDER:
        before = [*made]
        for (kind, of), outputs in objects.items():
            if batch == (kind if kind in _ORDER else ""):
                inputs, kept = _MARKED[kind](outputs) if kind in _MARKED else ({}, ["*"])
                # What a later edit is compared with (components.unordered).
                labels = sorted(outputs["values"]["scaleSetLabels"]) if kind == RELEASE else None
                opts = pulumi.ResourceOptions(parent=parent, depends_on=before, ignore_changes=kept, replacement_trigger=labels)
                opts.provider = iam if kind == _POLICY else None
                made.append(pulumi.CustomResource(kind, of, inputs, opts))
    return made[len(after) :]


def _marked(outputs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Inputs of an instance pool that leaves: its tags, with the mark by which policies know it, and what stays as it is."""
    tags = {**(outputs.get(_TAGS) or {}), LEAVING.key: LEAVING.value}
    return {_TAGS: tags}, [key for key in outputs if key != _TAGS]


def _idle(outputs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Inputs of a release whose set takes no job and whose deletion waits for it, and what stays as it is.

    ARC needs the Secret until the set is gone.
    """
    values, keys = outputs["values"], inspect.signature(kubernetes.helm.v3.ReleaseArgs).parameters
    inputs = {"chart": outputs["chart"], "version": outputs.get("version"), "values": {**values, **IDLE}, "skipAwait": False}
    return inputs, [*(to_camel(key) for key in keys if key not in _OURS), *(f"values.{key}" for key in values if key not in IDLE)]


_MARKED = {RELEASE: _idle, _POOL: _marked}
