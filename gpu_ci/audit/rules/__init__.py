"""What an audit checks. A rule takes what was seen and the day, and says what is wrong; `messages.toml` has the words."""

from collections.abc import Callable, Iterator
from datetime import date

from gpu_ci.audit.finding import Finding, sorted_findings
from gpu_ci.audit.model import Seen
from gpu_ci.audit.rules import jobs, limits, nodes, placement, versions

Rule = Callable[[Seen, date], Iterator[Finding]]
RULES: tuple[Rule, ...] = (*versions.RULES, *placement.RULES, *jobs.RULES, *limits.RULES, *nodes.RULES)


def findings(seen: Seen, day: date) -> list[Finding]:
    """Everything that is wrong or cannot be decided, as of a day, in the order of the files."""
    return list(sorted_findings(finding for rule in RULES for finding in rule(seen, day)))
