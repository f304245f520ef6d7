"""Namespaces of teams: which names are free for them, and to which Pod Security Standard each is held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

from fleet.charts import (
    CONTROLLER_NAMESPACE,
    DEVICE_PLUGIN_NAMESPACE,
    KUEUE_NAMESPACE,
    OPERATOR_NAMESPACE,
    Level,
    runner_namespace,
)
from fleet.settings.model import DnsLabel, problem

SMOKE_NAMESPACE = "gpu-smoke"
"""Where smoke tests run, and nothing else: it is deleted after them."""
_TAKEN = ("default", CONTROLLER_NAMESPACE, DEVICE_PLUGIN_NAMESPACE, KUEUE_NAMESPACE, OPERATOR_NAMESPACE)
"""Namespaces that hold something else. `default` is everybody's."""
_TAKEN_PREFIXES = ("kube-", runner_namespace(""))
"""Kubernetes' own, and those of runner sets, whichever there will be."""
_LEVELS: tuple[Level, ...] = ("restricted", "baseline", "privileged")
"""From the strictest to the most lenient."""


def taken(namespace: str) -> bool:
    """Whether a namespace is the system's, a chart's or a runner set's."""
    return namespace in _TAKEN or namespace.startswith(_TAKEN_PREFIXES)


def _free(name: str) -> str:
    if name == SMOKE_NAMESPACE:
        raise problem("smoke_namespace", f"{SMOKE_NAMESPACE} is for smoke tests alone; name another, such as ai")
    if taken(name):
        raise problem("namespace_taken", "this namespace is the system's, a chart's or a runner set's; name one of a team's own")
    return name


TeamNamespace = Annotated[DnsLabel, AfterValidator(_free)]
"""A namespace of a team's own."""


def levels(wanted: Iterable[tuple[str, Level]]) -> dict[str, Level]:
    """Pod Security level of each namespace, sorted by name: the most lenient of those that its users need."""
    found: dict[str, Level] = {}
    for name, level in wanted:
        found[name] = max(level, found.get(name, level), key=_LEVELS.index)
    return dict(sorted(found.items()))
