"""What `gpu-ci remove` takes out of a stack file, and what names it there."""

from collections.abc import Iterator, Mapping

from fleet.facts.errors import InputError
from fleet.facts.places import Keys, leaves
from fleet.facts.scheduling import FALLBACK
from fleet.facts.tables import beside
from fleet.settings.github import PRIVATE_KEY
from gpu_ci.offline.grow.stack import GrowingStack, member

KINDS: Mapping[str, str] = beside(__file__, "removals.toml")
"""What can be removed, with the help of the command."""
_OPTION = "--with-references"
_ALONE = {"sameAs": "sameAsOrder", "rerunOn": "rerunFirstOn"}
"""Keys of a class that name another one, and the key beside each that means nothing without it."""


def remove_entry(stack: GrowingStack, kind: str, cluster: str | None, name: str, *, references: bool) -> None:
    """Remove an entry of one of KINDS. With `references` also what names it, where that works without. Raises InputError."""
    if kind == "pool":
        cluster = stack.cluster(cluster)
        _remove(stack, kind, _entry(stack, kind, stack.at(cluster, "pools", name)), _of_pool(stack, cluster, name), references)
    elif kind == "class":
        _remove_class(stack, stack.cluster(cluster), name, references)
    else:
        _remove_cluster(stack, _cluster_of(stack, name) if kind == "region" else name, references)
    if references:
        _remove_scopes(stack)


def _remove_scopes(stack: GrowingStack) -> None:
    """Remove GitHub scopes that no class uses any more, with the keys of their Apps."""
    clusters = (stack.draft.value(stack.clusters) or {}).items()
    used = {name: {row.get("github", one.get("github")) for row in (one.get("runners") or {}).values()} for name, one in clusters}
    of_stack = str(stack.clusters[-1]).removesuffix("clusters")
    for scope in stack.fleet.github.scopes:
        places = [stack.at(name, "gitops", "scopeSecrets", scope) for name in used if scope not in used[name]]
        if not any(scope in names for names in used.values()):
            places += [("config", f"{of_stack}github", "scopes", scope), ("config", f"{of_stack}{PRIVATE_KEY}-{scope}")]
        for place in (place for place in places if stack.draft.value(place) is not None):
            stack.draft.remove(place)


def _remove_class(stack: GrowingStack, cluster: str, name: str, references: bool) -> None:
    """With `references` also the pools that only this class names."""
    path = _entry(stack, "class", stack.at(cluster, "runners", name))
    places = [
        *_places(stack, stack.clusters, ("rerunFirstOn", "rerunOn"), name),
        *_places(stack, stack.clusters, ("sameAs",), f"{cluster}/{name}"),
        *_places(stack, stack.at(cluster, "workloads"), ("runners",), name),
        *_places(stack, stack.at(cluster, "runnerQuotas"), ("runners",), name),
    ]
    own = stack.draft.value(path)
    pools = [own["pool"]] if "pool" in own else own.get("pools", [])
    alone = [pool for pool in pools if all(place[: len(path)] == path for place in _of_pool(stack, cluster, pool))]
    if (behind := [pool for pool in alone if stack.fleet.clusters[cluster].pools[pool].role == FALLBACK]) and not references:
        raise InputError(f"NAME: only class {name} uses fallback pool {behind[0]}; add {_OPTION} to remove its pools too")
    _remove(stack, "class", path, places, references)
    for pool in alone if references else ():
        stack.draft.remove(stack.at(cluster, "pools", pool))


def _remove_cluster(stack: GrowingStack, name: str, references: bool) -> None:
    path = _entry(stack, "cluster", stack.at(name))
    if len(stack.fleet.clusters) == 1:
        raise InputError(f"NAME: {name} is the only cluster; `pulumi destroy -s {stack.stack}` deletes a whole stack")
    sets = [f"{name}/{runner}" for runner in stack.fleet.clusters[name].runners]
    places = [place for one in sets for place in _places(stack, stack.clusters, ("sameAs",), one)]
    _remove(stack, "cluster", path, places, references)


def _cluster_of(stack: GrowingStack, region: str) -> str:
    """The only cluster in a region. Raises InputError."""
    regions = dict.fromkeys(one.region for _, one in stack.fleet.clusters_by_name())
    member("REGION", "the stack has no cluster there", region, regions)
    if len(names := [name for name, one in stack.fleet.clusters_by_name() if one.region == region]) > 1:
        raise InputError(f"REGION: {region} has several clusters; write gpu-ci remove cluster with one of: {', '.join(names)}")
    return names[0]


def _entry(stack: GrowingStack, what: str, path: Keys) -> Keys:
    """The path, if there is such an entry. Raises InputError."""
    member("NAME", f"the stack has no such {what}", str(path[-1]), stack.names(path[:-1]))
    return path


def _of_pool(stack: GrowingStack, cluster: str, name: str) -> list[Keys]:
    return [*_places(stack, stack.at(cluster), ("pool", "pools", "runnerPool"), name)]


def _places(stack: GrowingStack, top: Keys, keys: tuple[str, ...], name: str) -> Iterator[Keys]:
    """The paths below `top` of these keys, and of items of their lists, whose text is the name."""
    for path, value in leaves(stack.draft.value(top), top):
        key = next(step for step in reversed(path) if isinstance(step, str))
        if value == name and key in keys:
            yield path


def _remove(stack: GrowingStack, what: str, path: Keys, places: list[Keys], references: bool) -> None:
    """Remove an entry and what names it. Raises InputError for a place that needs it."""
    removable = [place for place in places if _is_optional(stack, place)]
    if places and (not references or len(removable) < len(places)):
        bound = [place for place in places if place not in removable]
        shown = ", ".join(".".join(map(str, place[1:])).removeprefix("gpu-ci:") for place in (bound if references else places))
        fix = "edit these first" if bound else f"add {_OPTION} to remove these too"
        raise InputError(f"NAME: {what} {path[-1]} is in use by {shown}; {fix}")
    beside = [(*place[:-1], _ALONE[place[-1]]) for place in removable if place[-1] in _ALONE]
    removable = [*dict.fromkeys([*removable, *(place for place in beside if stack.draft.value(place) is not None)])]
    for place in sorted(removable, key=str, reverse=True):
        stack.draft.remove(place)
    stack.draft.remove(path)


def _is_optional(stack: GrowingStack, place: Keys) -> bool:
    """Whether a place may go: an item of a list that has others, or a key that a class may lack."""
    return len(stack.draft.value(place[:-1])) > 1 if isinstance(place[-1], int) else place[-1] in (*_ALONE, *_ALONE.values())
