"""The pods of a stack that run while no job does, and the groups of machines that run for them.

They are runners that wait, and Deployments and StatefulSets that take GPUs, such as placeholders. A set whose chart has no
`minRunners` may have schedules: the ConfigMap of the sweep that carries them out has its windows.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from fleet.facts.bill import Waiting, Window, window
from fleet.facts.scheduling import MACHINE_SHAPES, PER_NODE

from .groups import Group
from .kinds import CONFIG_MAPS, HELM, POD_PATHS, each
from .node_labels import wanted
from .pods import PodSpec, of_cpu_pools, pod_specs, pods_of, takes_gpus
from .pools import ANNOTATIONS
from .read import Data, Later, UndeterminableError, line, text, walk, whole
from .record import Resource
from .releases import Release, releases

_STANDING = frozenset(token for token in POD_PATHS if token.rpartition(":")[2] in ("Deployment", "StatefulSet", "ReplicaSet"))
ALWAYS = _STANDING | HELM | CONFIG_MAPS
"""Resource types of pods that always run, and of the schedules of runners."""

_SETTINGS = "settings.json"
_Count = tuple[int, tuple[Window, ...]]
"""Runners that always wait, and windows."""


def always(groups: Sequence[Group], resources: Sequence[Resource], later: Later) -> Iterator[Waiting]:
    """The pods that always run in the groups of a stack. `later` collects what the resources do not show."""
    schedules = dict(_schedules(resources, later))
    for resource in resources:
        with later:
            for pod in pod_specs(resource.type, resource.props, later) if resource.type in _STANDING else ():
                replicas = walk(resource.props, "spec", "replicas")
                count = 1 if replicas is None else whole(replicas) or 0
                annotations = walk(resource.props, "spec", "template", "metadata", "annotations")
                yield from _waiting(groups, resource, pod, annotations, (count, ()), later)
        for release in releases(resource.type, resource.props, later) if resource.type in HELM else ():
            with later:
                annotations = walk(release.values, *ANNOTATIONS) if release.is_scale_set else None
                if release.is_scale_set and walk(annotations, MACHINE_SHAPES) is None:
                    # The first one is the runner's pod, the second the listener's.
                    for runner in list(pods_of(release, later))[:1]:
                        yield from _waiting(groups, resource, runner, annotations, _least(release, resource, schedules), later)


def _least(release: Release, resource: Resource, schedules: Mapping[tuple[str, str], _Count]) -> _Count:
    """The count of a runner set. `schedules` are by provider and namespace of a set."""
    if (least := walk(release.values, "minRunners")) is not None:
        return whole(least) or 0, ()
    return schedules.get((resource.provider.urn, release.namespace), (0, ()))


def _waiting(
    candidates: Sequence[Group], resource: Resource, pod: PodSpec, annotations: Data, count: _Count, later: Later
) -> Iterator[Waiting]:
    least, windows = count
    if not (least or windows):
        return
    if not ((without := of_cpu_pools(pod.spec, later)) or takes_gpus(pod, later)):
        return
    able = [group for group in candidates if (group.gpus == 0) is without]
    if groups := _groups(able, wanted(pod.spec).pools, resource, later):
        per_node = whole(walk(annotations, PER_NODE)) or 1
        names = tuple(group.urn for group in groups)
        yield Waiting(cluster=groups[0].cluster, pools=names, least=least, per_node=max(per_node, 1), windows=windows)


def _groups(candidates: Sequence[Group], pools: Sequence[str], resource: Resource, later: Later) -> list[Group]:
    """The groups whose nodes a pod may run on; none if the stack has none. Raises UndeterminableError if that is not certain.

    Where names decide it, a group with an unknown name is left out, and `later` collects the value.
    """
    able = [group for group in candidates if group.most is not None]
    if pools or len({group.cluster for group in able}) > 1:
        for group in able:
            later.join(group.unnamed)
        able = [group for group in able if not group.unnamed]
    groups = [group for group in able if group.name.rpartition("/")[2] in pools] if pools else able
    if len({group.cluster for group in groups}) > 1 and resource.provider.name:
        # The program names a provider of Kubernetes by its cluster: usw2-kubernetes, usw2-git.
        cluster = resource.provider.name.rpartition("-")[0]
        if not (groups := [group for group in groups if group.name.rpartition("/")[0] == cluster]):
            raise UndeterminableError(f"{line(resource.name)}: several clusters have its pools; nothing shows in which it runs")
    return groups


def _schedules(resources: Sequence[Resource], later: Later) -> Iterator[tuple[tuple[str, str], _Count]]:
    for resource in resources:
        if resource.type in CONFIG_MAPS:
            for _, props in each(resource.type, resource.props, later):
                with later:
                    yield from _of_sweep(resource, text(walk(props, "data", _SETTINGS)))


def _of_sweep(resource: Resource, content: str) -> Iterator[tuple[tuple[str, str], _Count]]:
    if '"sets"' not in content:
        return
    try:
        for namespace, runners in json.loads(content)["sets"].items():
            windows = (
                window(schedule["runners"], schedule["days"], schedule["start"], schedule["end"], runners["time_zone"])
                for schedule in runners["windows"].values()
            )
            yield (resource.provider.urn, namespace), (int(runners["usual"]), tuple(windows))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise UndeterminableError(f"{line(resource.name)}: its {_SETTINGS} has no schedules that can be read") from None
