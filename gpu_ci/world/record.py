"""What a run says: the list of its parts, the checks of the plan against what happened, and the record for docs/world/."""

import os
import platform
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from fleet.facts.pricing import Money, total
from fleet.prove.bill import lines
from gpu_ci.world.parts import OPTIONAL, Parts
from gpu_ci.world.run import World, waits

REAL, SIMULATED, MISSING = "real", "simulated", "missing"
STAY = ("CustomResourceDefinition ", "ConfigMap kube-system/cluster-autoscaler-status")
"""What a destroy leaves: Helm deletes no definition of a chart's folder crds, and the autoscaler wrote its status itself."""
_OURS = {
    "nodes and kubelets": "kwok says that pods run; programs of pods that this machine has are processes",
    "cloud": "machines boot, are refused, are lost and cost what the settings and public prices say",
    "GitHub": "scale sets, sessions, messages and jobs; no queue of GitHub and no delay of it",
    "runners": "take a job, wait as long as it lasts, and end",
}
"""What is simulated in every world."""
_OUTSIDE = "containers, images, GPUs, drivers, networks, volumes, the control planes and controllers of clouds"
"""What no world has."""


def described(parts: Parts, left_out: Sequence[str] = ()) -> Iterator[tuple[str, str, str]]:
    """(part, real, simulated or missing, what that means) for each part of a world."""
    yield from ((name, REAL, "the upstream program") for name in parts)
    yield from ((name, SIMULATED, text) for name, text in _OURS.items())
    yield from ((name, MISSING, text) for name, text in OPTIONAL.items() if name not in parts)
    if left_out:
        yield ", ".join(left_out[:3]) + " …" * (len(left_out) > 3), MISSING, "its program or a part of its chart is not here"
    yield _OUTSIDE, MISSING, "a world cannot show them"


class Check(NamedTuple):
    """A claim about a run, and what speaks against it; nothing if it holds."""

    claim: str
    against: str = ""


def checks(world: World, jobs: int, again: Sequence[str], left: Sequence[str], lost: int = 0) -> Iterator[Check]:
    """What must hold after a run of so many jobs, of which a drill may have ended `lost`."""
    results = Counter(job.result for job in world.ended)
    twice = [job.name for job in world.github.jobs if job.assignments > 1]
    short = jobs - len(world.ended)
    wrong = [f"{count} {result}" for result, count in results.items() if result != "succeeded"]
    yield Check(f"{jobs} jobs end", f"{short} have not ended" if short else "")
    yield Check("no job fails", ", ".join(wrong) if results.total() - results["succeeded"] > lost else "")
    yield Check("each job runs once", f"{len(twice)} had two runners, first {twice[0]}" if twice and not lost else "")
    yield Check("every runner is on a pool of its class", "; ".join(world.observed.astray[:3]))
    yield Check("pools are as small as before", "" if world.at_least() else str(world.sizes()))
    yield Check("the bill is inside the plan's bounds", over(world))
    yield Check("a second install changes nothing", ", ".join(again[:5]))
    yield Check("removal leaves nothing but the definitions of charts", ", ".join(unexpected(left)[:5]))


def unexpected(left: Sequence[str]) -> list[str]:
    """What a removal should not have left."""
    return [text for text in left if not text.startswith(STAY)]


def bounds(world: World) -> tuple[Money, Money]:
    """USD an hour of the cluster's machines without jobs and in the worst hour, as the plan has them."""
    machines = {"system pool", *(f"pool {pool}" for pool in world.settings.pools)}
    return total(line for line in lines(world.name, world.settings, world.options.day) if line.item in machines)


def over(world: World) -> str:
    """What the machines cost more than the plan says; nothing if they do not."""
    _, worst = bounds(world)
    hour = world.cloud.usage().hour
    return f"{hour} USD an hour are above {worst}" if hour.usd > worst.usd + 0.005 and not worst.unknown else ""


def document(world: World, stack: str, held: Sequence[Check], left: Sequence[str]) -> dict[str, Any]:
    """The record of a run. It names no person, account or organization."""
    usage, (idle, worst) = world.cloud.usage(), bounds(world)
    return {
        "date": world.options.day.isoformat(),
        "stack": stack,
        "cluster": world.name,
        "provider": world.settings.provider,
        "machine": {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"},
        "factor": world.options.factor,
        "parts": {name: kind for name, kind, _ in described(world.options.programs, world.left_out)},
        "versions": world.options.programs.versions(),
        "seconds": {name: round(seconds, 1) for name, seconds in world.times.items()},
        "MiB": {name: round(size) for name, size in Counter(world.plane.processes.memory()).most_common(12)},
        "jobs": waits(world.github),
        "landed": {f"{of} on {pool}": count for (of, pool), count in sorted(world.observed.landed.items())},
        "peak": {"nodes": dict(usage.peak), "runners": dict(world.observed.peak_runners)},
        "USD": {"run": round(usage.usd.usd, 2), "highest hour": round(usage.hour.usd, 2), "plan": [str(idle), str(worst)]},
        "not foreseen": world.observed.warnings(),
        "requests to GitHub": {" ".join(map(str, key)): count for key, count in sorted(world.github.counts.items())},
        "left by removal": [text for text in left if text.startswith(STAY)],
        "checks": {check.claim: check.against or "holds" for check in held},
    }
