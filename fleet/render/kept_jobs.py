"""The objects of a runner set that keeps failed jobs: the hook, and the right of a group to look inside the set's pods."""

from collections.abc import Iterator

from fleet.charts.kept_jobs import HOOK, NAME, hook
from fleet.charts.runner_sets import PodSet
from fleet.facts.manifest import Manifest, bound, group, manifest, rule

_RULES = (
    rule("pods", "get", "list"),
    rule("pods/log", "get"),
    # kubectl asks by WebSocket for `get` and by SPDY for `create` (kubernetes-client/python#2084).
    rule("pods/exec", "get", "create"),
)


def kept_jobs(pods: PodSet) -> Iterator[Manifest]:
    """The objects, all in the set's namespace. None for a set that keeps no job."""
    if (keep := pods.keep_failed) is not None:
        yield manifest("v1", "ConfigMap", NAME, pods.home) | {"data": {HOOK: hook()}}
        yield from bound(NAME, pods.home, _RULES, group(keep.group))
