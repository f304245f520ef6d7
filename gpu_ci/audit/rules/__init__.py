"""What an audit checks. A rule takes what was seen and the day, and says what is wrong; `messages.toml` has the words."""

from collections.abc import Callable, Iterator
from datetime import date

from gpu_ci.audit.finding import Finding, sorted_findings
from gpu_ci.audit.model import Seen
from gpu_ci.audit.rules import (
    changes,
    daemons,
    defects,
    jobs,
    limits,
    nodes,
    placement,
    reachability,
    reservations,
    versions,
)

Rule = Callable[[Seen, date], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    versions.runner_age,
    versions.arc_age,
    reachability.unreachable,
    reachability.workloads,
    reachability.flavors,
    reachability.stranded,
    reachability.mixes,
    jobs.placement,
    jobs.cuda,
    reservations.reservations,
    defects.defects,
    changes.arc_versions,
    changes.labels_changed,
    changes.operator_changes,
    placement.shared,
    placement.overheads,
    placement.types,
    placement.modes,
    placement.disruption,
    limits.maxima,
    limits.namespaces,
    limits.clouds,
    limits.queues,
    nodes.tags,
    nodes.images,
    nodes.boot,
    nodes.repair,
    daemons.daemons,
    nodes.efa,
    changes.tokens,
)


def findings(seen: Seen, day: date) -> list[Finding]:
    """Everything that is wrong or cannot be decided, as of a day, in the order of the files."""
    return list(sorted_findings(finding for rule in RULES for finding in rule(seen, day)))
