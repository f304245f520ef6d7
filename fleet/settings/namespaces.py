"""Namespaces of teams: their allowed names, and the Pod Security Standard of each."""

from collections.abc import Iterable
from typing import Annotated

from fleet.facts.pods import Level
from fleet.facts.scheduling import RUNNERS
from fleet.settings.model import DnsLabel
from fleet.settings.refusals import refuse, refuse_if, refuses

SMOKE_NAMESPACE = "gpu-smoke"
"""Only smoke tests run there. It is deleted after them."""
PLACEHOLDER_NAMESPACE = "gpu-placeholders"
"""Only placeholder pods run there."""
JOBS = "-jobs"
"""What the namespace of the jobs' pods has behind the name of the runners' namespace."""
_LEVELS: tuple[Level, ...] = ("restricted", "baseline", "privileged")
"""From the strictest to the most lenient."""


def runner_namespace(runner_set: str) -> str:
    """The namespace of a runner set. It contains only the runners and the GitHub App secret."""
    return f"{RUNNERS}{runner_set}"


def jobs_namespace(runner_set: str) -> str:
    """The namespace of the jobs' pods of a set whose jobs run in containers. The App's Secret is not in it."""
    return f"{runner_namespace(runner_set)}{JOBS}"


def reserved(namespace: str) -> bool:
    """Whether a namespace belongs to Kubernetes or to runner sets, or is `default`."""
    return namespace == "default" or namespace.startswith(("kube-", RUNNERS))


def _free(name: str) -> None:
    refuse_if("smoke_namespace", name == SMOKE_NAMESPACE, smoke_namespace=SMOKE_NAMESPACE)
    refuse_if("placeholder_namespace", name == PLACEHOLDER_NAMESPACE, placeholder_namespace=PLACEHOLDER_NAMESPACE)
    # fleet.prove.rules refuses the namespaces of charts.
    refuse(namespace_taken=reserved(name))


TeamNamespace = Annotated[DnsLabel, refuses(_free)]
"""A namespace of a team."""


def levels(wanted: Iterable[tuple[str, Level]]) -> dict[str, Level]:
    """Pod Security level of each namespace, sorted by name: the most lenient that any of its users needs."""
    standards: dict[str, Level] = {}
    for name, level in wanted:
        standards[name] = max(level, standards.get(name, level), key=_LEVELS.index)
    return dict(sorted(standards.items()))
