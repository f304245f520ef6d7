"""`make test-alerts`: runs every case and every mutant of the rules, and prints how many there are."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.monitoring.cases import SUITES
from tests.monitoring.fleet import groups
from tests.monitoring.mutants import EQUIVALENT, mutants, survivors
from tests.monitoring.promtool import GET, document, failed


def main() -> int:
    """0: every case passes and every mutant fails one. 1: not so. 2: there is no promtool."""
    promtool = shutil.which("promtool")
    if promtool is None:
        print(f"error: {GET}", file=sys.stderr)
        return 2
    every = groups()
    rules = [rule for group in every for rule in group["rules"]]
    alerts = {rule["alert"] for rule in rules if "alert" in rule}
    cases = [case for suite in SUITES for case in suite.cases]
    print(f"{len(rules)} rules: {sum('alert' in rule for rule in rules)} of {len(alerts)} alerts, the others record series")
    print(f"{len(cases)} cases with {sum(case.checks for case in cases)} checks")
    for suite in SUITES:
        own = suite.groups(every)
        with tempfile.TemporaryDirectory() as folder:
            if said := failed(promtool, Path(folder), own, document(own, suite.cases)):
                print(said, file=sys.stderr)
                return 1
    found = list(mutants(every))
    alive = {mutant.key for mutant in survivors(promtool, SUITES, found)}
    print(f"{len(found)} mutants, {len(found) - len(alive)} fail a case, {len(alive & EQUIVALENT.keys())} are equivalent")
    for rule, change in sorted(alive - EQUIVALENT.keys()):
        print(f"error: no case fails without this part of {rule}: {change}; add one", file=sys.stderr)
    return 1 if alive - EQUIVALENT.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
