"""`python -m tests.rerun`: search every order of events, print the counts, and what it finds in machines with a mistake."""

from __future__ import annotations

import sys
from dataclasses import replace

from tests.rerun.checker import PROPERTIES, check
from tests.rerun.mutants import ALONE, MUTANTS
from tests.rerun.world import MATRICES, MOST, Rules


def main() -> int:
    """0: every property holds, and each mistake is found. 1: not so."""
    say = sys.stdout.write
    failed = 0
    for most in (1, 2):
        # Every end of both attempts would take minutes, and finds the same worlds under other names.
        right = check(Rules(most=most, every_end=most == 1))
        say(f"at most {most} rerun{'s' * (most > 1)}: {right.states} states, {right.transitions} transitions, ")
        say(f"{right.seconds:.1f} s\n")
        for name, meaning in PROPERTIES.items():
            many = f" ({right.owed} states owe a rerun or a runner)" if name == "never lost" else ""
            say(f"{'BROKEN' if name == right.broken else 'holds'}  {name}: {meaning}{many}\n")
        alone = check(replace(ALONE, most=most, every_end=most == 1), ["never more"])
        holds = alone.broken or "holds"
        say(f"{holds}  never more, without the assumption about time, one worker at a time ({alone.states} states)\n\n")
        failed += bool(right.broken or alone.broken)
    say(f"{len(MATRICES)} ends of a matrix of two jobs, 2 workers at a time; at most {MOST['reruns']} reruns by a person, ")
    say(f"{MOST['crashes']} crashes, {MOST['copies']} repeated event, {MOST['unheard wakes']} wake that the runner set never ")
    say("hears of; any number of lost and late events and of sweeps, and reruns that the runner set never hears of\n")
    for name, (rules, broken) in MUTANTS.items():
        result = check(rules, [broken])
        failed += not result.broken
        say(f"\nmistake: {name}\n  breaks: {result.broken or 'nothing'}, found after {result.states} states\n")
        say("".join(f"  {number}. {step}\n" for number, step in enumerate(result.trace, 1)))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
