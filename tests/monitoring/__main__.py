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
        sys.stderr.write(f"error: {GET}\n")
        return 2
    every = groups()
    rules = [rule for group in every for rule in group["rules"]]
    named = [rule["alert"] for rule in rules if "alert" in rule]
    cases = [case for suite in SUITES for case in suite.cases]
    sys.stdout.write(
        f"{len(rules)} rules: {len(named)} of {len(set(named))} alerts, {len(rules) - len(named)} that record a series\n"
    )
    sys.stdout.write(f"{len(cases)} cases with {sum(case.checks for case in cases)} checks\n")
    for suite in SUITES:
        own = suite.groups(every)
        with tempfile.TemporaryDirectory() as folder:
            if said := failed(promtool, Path(folder), own, document(own, suite.cases, suite.every)):
                sys.stderr.write(said)
                return 1
    found = list(mutants(every))
    alive = {mutant.key for mutant in survivors(promtool, SUITES, every, found)}
    unknown = sorted(alive - EQUIVALENT.keys())
    sys.stdout.write(f"{len(found)} mutants: {len(found) - len(alive)} fail a case, {len(alive) - len(unknown)} are equivalent\n")
    for rule, change in unknown:
        sys.stderr.write(f"error: {rule}: no case fails after {change}; add one, or name it in EQUIVALENT of mutants.py\n")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
