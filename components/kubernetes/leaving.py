"""Runner sets that leave: they take no job, and stay until their last runner has ended.

The settings no longer say what such a set is made of, but the stack's state does.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic.alias_generators import to_camel

from components.component import Resources
from components.generations import resources
from components.kubernetes.in_cluster import Inside
from fleet.charts.runner_sets import IDLE

_SET = "gpu-ci:index:ArcRunnerSet"
_QUOTA, RELEASE = "kubernetes:core/v1:ResourceQuota", "kubernetes:helm.sh/v3:Release"
_ORDER = ("kubernetes:core/v1:Namespace", "", RELEASE)
"""Types in the order of creation; "" are all others."""
_OURS = ("values", "skip_await")
Objects = Mapping[tuple[str, str], Mapping[str, Any]]
"""The outputs of a set's resources in the state, by type and logical name."""


def leave(inside: Inside, after: Resources) -> None:
    """Declare the sets of removed classes: as they are, but they take no job. One that took none before, and has no pod, goes.

    So a set leaves in two updates or more, and none is deleted that may still get a job. `after` must exist before a set.
    """
    generations, cluster = inside.generations, f"{inside.name}/"
    if generations is None or inside.git is not None:
        return
    generations.first.update(dict.fromkeys((f"{cluster}{name}" for name in inside.settings.runners), ""))
    removed = [key for key in generations.recorded if key.startswith(cluster) and key not in generations.first]
    objects = _objects() if removed else {}
    for key in removed:
        if of_set := objects.get((_SET, name := key.replace("/", "-"))):
            # A class that comes back has the generations that it had.
            generations.keep(key)
            generations.keep(f"{name}-chart")
            until_idle(name, of_set, inside.opts, partial(_stay, key.removeprefix(cluster), name, of_set, inside, after))


def objects_of(name: str, namespace: str) -> Objects:
    """What the state has of the set with this logical name, whose releases are in the namespace."""
    of_name = (of for (_, set_name), of in _objects().items() if set_name == name)
    return next((of for of in of_name if any(row.get("namespace") == namespace for row in of.values())), {})


def _objects() -> Mapping[tuple[str, str], Objects]:
    """What the state has of each set, by the set's type with those of its parents, and its logical name."""
    state = resources()
    split = {urn: urn.split("::", 3)[2:] for urn in state}
    sets = sorted((name, kind) for kind, name in split.values() if kind.endswith(_SET))
    objects: dict[tuple[str, str], dict[tuple[str, str], Mapping[str, Any]]] = {}
    for urn, (kind, name) in split.items():
        above, _, own = kind.rpartition("$")
        # The longest name comes last.
        for of, chain in [each for each in sets if each[1] == above and name.startswith(f"{each[0]}-")][-1:]:
            objects.setdefault((chain, of), {})[own, name] = state[urn]["outputs"]
    return objects


def until_idle(
    name: str,
    objects: Objects,
    opts: pulumi.ResourceOptions,
    stays: Callable[[], None],
    goes: Callable[[], None] = lambda: None,
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


def _stay(set_name: str, name: str, objects: Objects, inside: Inside, after: Resources) -> None:
    later = "it takes no job, its runners finish, and a later pulumi up deletes it with its namespace"
    pulumi.log.warn(f"runner set {set_name} is leaving: {later}")
    declare(objects, pulumi.ComponentResource(_SET, name, {}, inside.opts), after)


def declare(objects: Objects, parent: pulumi.Resource, after: Resources) -> None:
    """Declare the resources of a set as the state has them, but for its releases, which take no job."""
    made = [*after]
    for batch in _ORDER:
        before = [*made]
        for (kind, of), outputs in objects.items():
            if batch == (kind if kind in _ORDER else ""):
                inputs, kept = _idle(outputs) if kind == RELEASE else ({}, ["*"])
                # What a later edit is compared with (components.unordered).
                labels = sorted(outputs["values"]["scaleSetLabels"]) if kind == RELEASE else None
                opts = pulumi.ResourceOptions(parent=parent, depends_on=before, ignore_changes=kept, replacement_trigger=labels)
                made.append(pulumi.CustomResource(kind, of, inputs, opts))


def _idle(outputs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Inputs of a release whose set takes no job and whose deletion waits for it, and what stays as it is.

    ARC needs the Secret until the set is gone.
    """
    values, keys = outputs["values"], inspect.signature(kubernetes.helm.v3.ReleaseArgs).parameters
    inputs = {"chart": outputs["chart"], "version": outputs.get("version"), "values": {**values, **IDLE}, "skipAwait": False}
    return inputs, [*(to_camel(key) for key in keys if key not in _OURS), *(f"values.{key}" for key in values if key not in IDLE)]
