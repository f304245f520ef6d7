"""`gpu-ci init`: a new stack, from answers to a few questions."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from fleet.facts.day import day_of
from fleet.facts.errors import InputError
from fleet.facts.hardware import unit_price
from fleet.facts.pricing import quoted
from fleet.loading.home import INSTALLED, ROOT
from fleet.prove.bill import runner_hour
from fleet.settings.budget import MONTH
from fleet.settings.machines import OwnMachine
from fleet.settings.runner import PodRunner
from gpu_ci.app import WRITE, Text, Texts, app, console
from gpu_ci.offline.init import answers as ask
from gpu_ci.offline.init.answers import PROVIDERS, Answers
from gpu_ci.offline.init.files import New, prepared, require_free, write
from gpu_ci.offline.init.parts import Found
from gpu_ci.offline.init.questions import Questions, Wanted
from gpu_ci.offline.plan import Plan
from gpu_ci.offline.progress import Progress
from gpu_ci.offline.words import hourly
from policies.rules.rule import STACK_KINDS


@app.command(rich_help_panel=WRITE)
def init(
    stack: str,
    wanted: Wanted,
    budget: Text = None,
    organization: Text = None,
    kind: str = "staging",
    machines: Texts = None,
    from_context: Text = None,
    from_path: Path | None = None,
) -> None:
    """Write a new stack: Pulumi.STACK.yaml and its policy values.

    Asks on a terminal for what no flag gives. It plans the fleet first, and writes nothing unless the plan passes.
    """
    require_free(ask.stack_name(stack), ROOT)
    found = None
    if from_context is not None:
        from gpu_ci.offline.init.cluster import read  # noqa: PLC0415 - it loads the Kubernetes client

        found = read(from_context)
    other = None
    if from_path is not None:
        from gpu_ci.offline.init.imported import Imported  # noqa: PLC0415 - only this option reads other fleets

        other = Imported(from_path)
        region, organization = wanted.region or other.region or None, organization or other.organization or None
        wanted = Wanted(wanted.provider or other.provider, region, wanted.gpu or other.gpu, wanted.jobs or "tests")
    flags = asdict(wanted) | {"budget": budget, "organization": organization, "kind": kind}
    given = _answers(stack, found, flags, machines or [])
    with Progress() as progress:
        progress("planning the fleet")
        new = prepared(given, found, ROOT, day_of(), other.sets if other else ())
    write(new, ROOT)
    _report(new)
    for line in other.left_out if other else ():
        console().print(f"  left out: {line}")


def _answers(stack: str, found: Found | None, given: dict[str, str | None], files: list[str]) -> Answers:
    """The answers from flags, from the cluster that was read, and from the terminal. Raises InputError."""
    given |= {"machines": " ".join(map(shlex.quote, files)) or None}
    if found is not None:
        # A cluster whose nodes `init` reads, or else one that gets new nodes.
        reading = next(answer for answer in PROVIDERS if ask.STARTERS[answer].reads)
        own = reading if found.groups else f"existing-{found.provider}" if found.provider else None
        if own is None:
            why = "--from-context: the cluster has no GPU nodes, and new ones are possible on EKS and OKE only"
            raise InputError(f"{why}; add some")
        given |= {"provider": given["provider"] or own, "region": given["region"] or found.region or None}
    asked = Questions(given)
    answer = asked.answer
    provider = asked.choice("provider", "Where do the jobs run?", PROVIDERS)
    # The choices for all other answers depend on it.
    asked.require()
    if (here := ask.STARTERS[provider]).reads and not (found and found.groups):
        why = f"--provider {provider}: it reads the GPU nodes of a cluster"
        raise InputError(f"{why}; give --from-context with a context that has some")
    if found is not None and not provider.startswith("existing"):
        raise InputError(f"--from-context: provider {provider} is for new clusters; leave one of the two out")
    regions = ask.regions(provider)
    if given["region"] is not None and not regions and not here.reads:
        raise InputError(f"--region: provider {provider} has no regions; remove it")
    region = asked.choice("region", "Which region?", regions) if regions else ""
    models, gpu = ask.gpus(provider, region), ""
    usd = None if given["budget"] is None else ask.budget(given["budget"])
    if usd is not None and not regions:
        raise InputError(f"--budget: provider {provider} buys no machines; remove it")
    if models and (usd is None or given["gpu"] is not None):

        def gpu_or_budget(text: str) -> tuple[str, float | None]:
            return ("", ask.budget(text)) if "/" in text and regions else (ask.one_of("--gpu", text, models), usd)

        either = "Which GPU, or a budget such as 6/hour?" if regions else "Which GPU?"
        gpu, usd = answer("gpu", either, models, models[0], gpu_or_budget)
    if given["gpu"] is not None and not models:
        raise InputError(f"--gpu: with provider {provider} init reads the GPUs of your machines or nodes; remove --gpu")
    if given["machines"] is not None and not here.owns:
        owners = " or ".join(answer for answer in PROVIDERS if ask.STARTERS[answer].owns)
        raise InputError(f"--machines: only provider {owners} has machines of your own; remove it")
    machines: Mapping[str, OwnMachine] = {}
    if here.owns:
        question = "Which files describe your machines? `gpu-ci probe` prints one from saved output"
        machines = answer("machines", question, (), "", lambda text: ask.machines(shlex.split(text)))
    url = answer("organization", "Which GitHub organization or repository?", (), "example", ask.organization)
    kinds = ask.jobs_of(provider)
    jobs = answer("jobs", "Which kinds of jobs, with commas?", kinds, "tests", lambda text: ask.jobs(text, provider))
    kind = here.kind or ask.one_of("--kind", given["kind"] or "", STACK_KINDS[:-1])
    asked.require()
    if here.owns and not machines:
        raise InputError("--machines: names no file; write there what gpu-ci probe prints of each machine")
    return Answers(stack, provider, region, gpu, url, jobs, kind, usd, machines)


def _report(new: New) -> None:
    """What was written, where the jobs run and what that costs, and what to do next."""
    stack, out = new.answers.stack, console()
    pools: dict[str, list[str]] = {}
    for placement in new.plan.placements:
        count = placement.runner.span.max
        jobs = f"{placement.runner_set}: {count} {'job' if count == 1 else 'jobs'} at the same time"
        pools.setdefault(jobs, []).append(placement.host.name)
    out.print(f"Wrote {', '.join(new.files)}.")
    for jobs, names in pools.items():
        out.print(f"  {jobs} in {', '.join(names)}")
    out.print(f"  price: {hourly(*new.plan.cost)}")
    if hours := worth_hours(new.plan):
        out.print(f"  below about {hours} GPU hours a month GitHub's T4 runners, {_github_hour():.2f} USD an hour, are cheaper")
    plan = f"gpu-ci plan {stack}" if INSTALLED else f"make plan STACK={stack}"
    out.print(f"Next: {plan} shows everything. `grep -n -A1 REPLACE Pulumi.{stack}.yaml` lists what only you know.")
    out.print("From there to the first job: docs/getting-started.md")


def worth_hours(plan: Plan) -> int:
    """The GPU hours of a month below which GitHub's runners with a GPU cost less than the fleet: its hours without jobs and the
    first class' cheapest hours of a GPU. 0 if a price is unknown or if GitHub's is lower at any number of hours.
    """
    idle, placement = plan.average, plan.placements[0] if plan.placements else None
    if placement is None or idle.unknown or not isinstance(placement.runner, PodRunner) or not placement.runner.gpus:
        return 0
    hour = runner_hour(placement, plan.fleet.clusters[placement.cluster].region)[0]
    saved = _github_hour() - hour.usd / placement.runner.gpus
    return 0 if hour.unknown or saved <= 0 else math.ceil(idle.usd * MONTH / saved)


def _github_hour() -> float:
    return quoted(unit_price("github-gpu-minute", "*")).usd * 60
