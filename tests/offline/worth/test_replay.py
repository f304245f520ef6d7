"""The replay agrees with one that goes second by second."""

from __future__ import annotations

import random
import sys

from gpu_ci.offline.worth.replay import Ask, Class, Played, Pool
from tests.offline.worth.seconds import step

Fleet = tuple[list[tuple[int, int, int]], list[tuple[int, dict[int, int], int]], list[tuple[int, int, int, int, int]]]


def history(seed: int) -> Fleet:
    """Jobs, classes and pools: one to three of each, shared pools, several pools for a class, ceilings, nodes that always run."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    pools = []
    for _ in range(dice.randint(1, 3)):
        least = dice.choice([0, 0, 0, 1, 2])
        most = least + dice.randint(1, 5)
        pools.append((dice.choice([1, 1, 2, 4, 6]), least, most, dice.choice([60, 120, 300]), dice.choice([30, 120, 300])))
    classes = []
    for _ in range(dice.randint(1, 3)):
        chosen = dice.sample(range(len(pools)), dice.randint(1, min(2, len(pools))))
        parts = {at: dice.choice([part for part in range(1, pools[at][0] + 1) if pools[at][0] % part == 0]) for at in chosen}
        classes.append((dice.randint(1, 8), parts, dice.choice([1, 10, 40])))
    last = dice.choice([300, 900, 1800])
    lengths = [dice.randint(*dice.choice([(1, 60), (60, 600)])) for _ in range(dice.randint(3, 40))]
    jobs = [(dice.randrange(last), length, dice.randrange(len(classes))) for length in lengths]
    return sorted(jobs), classes, pools


def played(fleet: Fleet, *, spread: bool = True) -> Played:
    jobs, classes, pools = fleet
    return Played([Ask(*job) for job in jobs], [Class(*one) for one in classes], [Pool(*pool) for pool in pools], spread=spread)


def test_the_replay_agrees_with_one_second_by_second(capsys):
    worst, equal = (0.0, 0.0, -1), 0
    for seed in range(200):
        fleet, spread = history(seed), seed % 2 == 0
        slow, fast = step(*fleet, spread=spread), played(fleet, spread=spread)
        nodes = abs(sum(fast.hours) * 3600 - sum(slow.seconds)) / max(sum(slow.seconds), 1)
        waits = abs(sum(fast.waits) - sum(slow.waits)) / max(sum(slow.waits), 1)
        assert nodes <= 0.05, f"seed {seed}: node hours {sum(fast.hours)}, second by second {sum(slow.seconds) / 3600}"
        assert waits <= 0.05, f"seed {seed}: waits {sum(fast.waits)}, second by second {sum(slow.waits)}"
        worst, equal = (
            max(worst, (nodes, waits, seed)),
            equal + (nodes < 1e-9 and waits < 1e-9 and fast.launches == slow.launches),
        )
    with capsys.disabled():
        sys.stdout.write(f"\nworst of 200: node hours {worst[0]:.2%}, waits {worst[1]:.2%} (seed {worst[2]}); equal: {equal}\n")
