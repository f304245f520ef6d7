"""Namespaces of teams: which names they may have, and to which Pod Security Standard each is held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

from fleet.facts.pods import Level
from fleet.settings.model import DnsLabel, problem

SMOKE_NAMESPACE = "gpu-smoke"
"""Smoke tests run there, and nothing else: it is deleted after them."""
TAKEN = "this namespace is the system's, a chart's or a runner set's; name one of a team's own"
"""What is wrong with a team's namespace that something else has. `fleet.prove.namespaces` finds those that charts have."""
ARGO_CD_TAKEN = "this namespace is the system's, a chart's, a runner set's or a team's; give ArgoCD one of its own, as argocd"
"""The same of the namespace where ArgoCD runs."""
_RUNNERS = "runners-"
_LEVELS: tuple[Level, ...] = ("restricted", "baseline", "privileged")
"""From the strictest to the most lenient."""


def runner_namespace(runner_set: str) -> str:
    """The namespace that holds one set's runners and its GitHub App secret, and nothing else."""
    return f"{_RUNNERS}{runner_set}"


def reserved(namespace: str) -> bool:
    """Whether a namespace is Kubernetes' own, everybody's (`default`), or one that a runner set has or may get."""
    return namespace == "default" or namespace.startswith(("kube-", _RUNNERS))


def _free(name: str) -> str:
    if name == SMOKE_NAMESPACE:
        raise problem("smoke_namespace", f"{SMOKE_NAMESPACE} is for smoke tests alone; name another, such as ai")
    if reserved(name):
        raise problem("namespace_taken", TAKEN)
    return name


TeamNamespace = Annotated[DnsLabel, AfterValidator(_free)]
"""A namespace of a team's own."""


def levels(wanted: Iterable[tuple[str, Level]]) -> dict[str, Level]:
    """Pod Security level of each namespace, sorted by name: the most lenient of those that its users need."""
    found: dict[str, Level] = {}
    for name, level in wanted:
        found[name] = max(level, found.get(name, level), key=_LEVELS.index)
    return dict(sorted(found.items()))
