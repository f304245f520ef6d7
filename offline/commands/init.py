"""`offline init`: a new stack, from answers to a few questions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.prompt import Prompt

from fleet.facts.errors import InputError
from fleet.settings.budget import MONTH
from offline.app import ROOT, WRITE, app, console, exit_status
from offline.day import day_of
from offline.init import answers as ask
from offline.init.answers import PROVIDERS, READS, Answers
from offline.init.cluster import Found, read
from offline.init.files import New, prepared, require_free, write
from offline.progress import Progress
from policies.rules.rule import STACK_KINDS

_Text = str | None


@app.command(rich_help_panel=WRITE)
def init(
    stack: Annotated[str, typer.Argument(help="Name of the new stack: acme writes Pulumi.acme.yaml.")],
    provider: Annotated[_Text, typer.Option("--provider", help=f"One of: {', '.join(PROVIDERS)}.")] = None,
    region: Annotated[_Text, typer.Option("--region", help="Region of the cloud, such as us-west-2 or us-ashburn-1.")] = None,
    gpu: Annotated[
        _Text, typer.Option("--gpu", help="GPU model, such as T4, A10G or L4. Default with --budget: the cheapest.")
    ] = None,
    budget: Annotated[
        _Text, typer.Option("--budget", help="The most that the worst hour costs: 5/hour or 3000/month in USD.")
    ] = None,
    organization: Annotated[
        _Text, typer.Option("--organization", help="GitHub organization or repository: a URL, or a name on github.com.")
    ] = None,
    jobs: Annotated[_Text, typer.Option("--jobs", help=f"With commas between: {', '.join(ask.JOBS)}.")] = None,
    kind: Annotated[str, typer.Option("--kind", help="How strict policies are: dev, staging or prod.")] = "staging",
    from_context: Annotated[
        _Text,
        typer.Option(
            "--from-context", help="Read this kubeconfig context's cluster, which exists already. Changes nothing in it."
        ),
    ] = None,
) -> None:
    """Write a new stack: Pulumi.STACK.yaml and its policy values.

    Asks on a terminal for what no flag gives. It plans the fleet first, and writes nothing unless the plan passes.
    """
    with exit_status():
        require_free(ask.stack_name(stack), ROOT)
        found = None if from_context is None else read(from_context)
        given = _answers(
            stack,
            found,
            {
                "provider": provider,
                "region": region,
                "gpu": gpu,
                "budget": budget,
                "organization": organization,
                "jobs": jobs,
                "kind": kind,
            },
        )
        with Progress() as progress:
            progress("planning the fleet")
            new = prepared(given, found, ROOT, day_of())
        write(new, ROOT)
        _report(new)


def _answers(stack: str, found: Found | None, given: dict[str, str | None]) -> Answers:
    """The answers from flags, from the cluster that was read, and from the terminal. Raises InputError."""
    missing: list[str] = []

    def answer(name: str, question: str, choices: Sequence[str], default: str, check: Callable[[str], object]) -> str:
        """A flag's value or the answer to a question, until `check` accepts it; the default if there is no terminal."""
        if (flag := given[name]) is not None:
            check(flag)
            return flag
        if not _terminal():
            missing.append(f"--{name}" + (f" ({', '.join(choices)})" if choices else ""))
            return default
        while True:
            shown = f" ({', '.join(choices)})" if choices else ""
            reply = Prompt.ask(f"{question}{shown}", default=default, console=console())
            try:
                check(reply)
            except InputError as error:
                sys.stdout.write(f"{error}\n")
                continue
            return reply

    if found is not None and given["provider"] is None:
        given["provider"] = READS if found.groups else f"existing-{found.provider}" if found.provider else None
    provider = ask.one_of(
        "--provider",
        answer("provider", "Where do the runners run?", PROVIDERS, "eks", lambda text: ask.one_of("--provider", text, PROVIDERS)),
        PROVIDERS,
    )
    if provider == READS and (found is None or not found.groups):
        why = "its cluster has no GPU nodes" if found is not None else "it reads the GPU nodes of a cluster"
        raise InputError(f"--provider {READS}: {why}; give --from-context with a context whose cluster has some")
    if found is not None and not provider.startswith("existing"):
        raise InputError(f"--from-context: provider {provider} creates a cluster; leave one of the two out")
    region = gpu = ""
    if known := ask.regions(provider):
        if found is not None and given["region"] is None:
            given["region"] = found.region
        region = answer("region", "Which region?", known, known[-1], lambda text: ask.one_of("--region", text, known))
        region = ask.one_of("--region", region, known)
    if not known and given["budget"] is not None:
        raise InputError(f"--budget: provider {provider} buys no machines; remove it")
    if (models := ask.gpus(provider, region)) and (given["gpu"] is not None or given["budget"] is None):
        gpu = answer("gpu", "Which GPU?", models, models[0], lambda text: ask.one_of("--gpu", text, models))
        gpu = ask.one_of("--gpu", gpu, models)
    usd = None if given["budget"] is None else ask.budget(given["budget"])
    url = answer("organization", "Which GitHub organization or repository?", (), "example", ask.organization)
    wanted = answer("jobs", "Which kinds of jobs?", ask.jobs_of(provider), "tests", lambda text: ask.jobs(text, provider))
    kind = "homelab" if provider == "talos" else ask.one_of("--kind", given["kind"] or "", STACK_KINDS[:-1])
    if missing:
        raise InputError(f"{missing[0]}: required without a terminal; add " + " and ".join(missing))
    return Answers(stack, provider, region, gpu, ask.organization(url), ask.jobs(wanted, provider), kind, usd)


def _terminal() -> bool:
    return sys.stdin.isatty()


def _report(new: New) -> None:
    """What was written, where the jobs run and what that costs, and what to do next."""
    stack, (idle, worst) = new.answers.stack, new.plan.cost
    out = console()
    out.print(f"Wrote {', '.join(new.files)}.")
    for found in new.plan.placements:
        each = f"{found.worst.count} on each {found.worst.machine.name}"
        out.print(f"  {found.runner_set}: up to {found.runner.span.max} jobs, {each} of {found.host.name}")
    out.print(f"  price: {idle} USD an hour without jobs ({idle.usd * MONTH:.0f} a month), {worst} at worst")
    out.print(f"Next: replace the examples (grep -n -A1 REPLACE Pulumi.{stack}.yaml), then make plan STACK={stack}.")
    out.print("docs/getting-started.md continues from there to the first job.")
