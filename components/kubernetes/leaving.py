"""Runner sets whose class the settings do not have: they take no job, and stay until their last runner has ended.

The settings no longer say what such a set is made of, but the stack's state does.
"""

import inspect
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic.alias_generators import to_camel

from components.component import Resources
from components.generations import resources
from components.kubernetes.in_cluster import Inside
from fleet.charts.runner_sets import IDLE

_SET = "gpu-ci:index:ArcRunnerSet"
_QUOTA, _RELEASE = "kubernetes:core/v1:ResourceQuota", "kubernetes:helm.sh/v3:Release"
_ORDER = ("kubernetes:core/v1:Namespace", "", _RELEASE)
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
        if of_set := objects.get(name := key.replace("/", "-")):
            # A class that comes back has the generations that it had.
            of_key = {at: what for at, what in generations.recorded.items() if at == key or at.startswith(f"{name}-chart.")}
            generations.first.update(of_key)
            _until_idle(key.removeprefix(cluster), name, of_set, inside, after)


def _objects() -> Mapping[str, Objects]:
    """What the state has of each set that no other component contains, by the set's logical name."""
    state = resources()
    split = {urn: urn.split("::", 3)[2:] for urn in state}
    sets = sorted((name for kind, name in split.values() if kind == _SET), key=len, reverse=True)
    objects: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
    for urn, (kind, name) in split.items():
        above, _, own = kind.rpartition("$")
        if above == _SET:
            of = next((of for of in sets if name.startswith(f"{of}-")), "")
            objects.setdefault(of, {})[own, name] = state[urn]["outputs"]
    return objects


def _until_idle(set_name: str, name: str, objects: Objects, inside: Inside, after: Resources) -> None:
    """Declare the set, unless it has taken no job since an earlier update and its quota counts no pod."""

    def declare(status: Any) -> None:
        if (getattr(status, "used", None) or {}).get("pods") == "0":
            return
        later = "it takes no job, its runners finish, and a later pulumi up deletes it with its namespace"
        pulumi.log.warn(f"runner set {set_name} is leaving: {later}")
        _declare(name, objects, inside, after)

    releases = [of["values"] for (kind, _), of in objects.items() if kind == _RELEASE]
    if not all(IDLE.items() <= values.items() for values in releases):
        declare(None)
    elif quota := objects.get((_QUOTA, f"{name}-quota")):
        at = "{namespace}/{name}".format_map(quota["metadata"])
        kubernetes.core.v1.ResourceQuota.get(f"{name}-used", at, inside.opts).status.apply(declare, run_with_unknowns=True)


def _declare(name: str, objects: Objects, inside: Inside, after: Resources) -> None:
    """Declare the resources of a set as the state has them, but for its releases, which take no job."""
    parent, made = pulumi.ComponentResource(_SET, name, {}, inside.opts), [*after]
    for batch in _ORDER:
        before = [*made]
        for (kind, of), outputs in objects.items():
            if batch == (kind if kind in _ORDER else ""):
                inputs, kept = _idle(outputs) if kind == _RELEASE else ({}, ["*"])
                opts = pulumi.ResourceOptions(parent=parent, depends_on=before, ignore_changes=kept)
                made.append(pulumi.CustomResource(kind, of, inputs, opts))


def _idle(outputs: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Inputs of a release whose set takes no job and whose deletion waits for it, and what stays as it is.

    ARC needs the Secret until the set is gone.
    """
    values, keys = outputs["values"], inspect.signature(kubernetes.helm.v3.ReleaseArgs).parameters
    inputs = {"chart": outputs["chart"], "version": outputs.get("version"), "values": {**values, **IDLE}, "skipAwait": False}
    return inputs, [*(to_camel(key) for key in keys if key not in _OURS), *(f"values.{key}" for key in values if key not in IDLE)]
