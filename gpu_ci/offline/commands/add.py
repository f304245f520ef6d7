"""`gpu-ci add`: one more pool, runner class, region or cluster in a stack."""

from __future__ import annotations

from typing import Annotated

import typer

from gpu_ci.app import WRITE, AsOf, Cluster, File, Gpu, Program, Stack, Yes, app
from gpu_ci.offline.day import day_of
from gpu_ci.offline.grow.additions import PROVIDERS, Pools, Sizes, add_class, add_cluster, add_pool, add_region
from gpu_ci.offline.grow.change import growing
from gpu_ci.offline.init import answers as ask
from gpu_ci.offline.init.answers import Answers
from gpu_ci.offline.init.files import USUAL
from gpu_ci.offline.init.questions import JobKinds, Provider, Questions, Region

_Text = str | None
_Most = Annotated[int | None, typer.Option("--max", min=1, help="The most nodes of the pool, or the most jobs of the class.")]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name in the stack file.")]

group = Program(
    no_args_is_help=True,
    help="""\
Add a pool, class, region or cluster to a stack file.

It shows the change, the price and what happens to running jobs. It asks on a terminal, and writes nothing unless the plan
passes.""",
)
app.add_typer(group, name="add", rich_help_panel=WRITE)


@group.command()
def pool(
    stack: Stack,
    name: _Name,
    gpu: Gpu = None,
    cluster: Cluster = None,
    capacity: Annotated[_Text, typer.Option("--capacity", help="spot or on-demand; default: spot if the GPU is sold so.")] = None,
    role: Annotated[_Text, typer.Option("--role", help="burst, release or fallback; default: by the capacity.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="A machine type instead of the cheapest. Repeat it.")] = None,
    most: _Most = None,
    fallback: Annotated[bool, typer.Option("--fallback", help="Also add a pool on demand behind it, with one node.")] = False,
    of_class: Annotated[
        _Text, typer.Option("--class", help="The class whose jobs it runs; a new name writes a new class.")
    ] = None,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    """Add a GPU pool, with --class also to a runner class."""
    with growing(stack, file, as_of, yes=yes) as grown:
        where = grown.cluster(cluster)
        here = grown.answers(where)
        asked = Questions({"gpu": gpu})
        model = asked.choice("gpu", "Which GPU?", ask.gpus(here.provider, here.region))
        asked.require()
        bought = capacity and ask.one_of("--capacity", capacity, ("spot", "on-demand"))
        runs = role and ask.one_of("--role", role, ("burst", "release", "fallback"))
        add_pool(grown, where, Pools(name, model, bought, runs, tuple(types or ()), most or USUAL, fallback, of_class))


@group.command(name="class")
def runner_class(
    stack: Stack,
    name: _Name,
    pools: Annotated[_Text, typer.Option("--pools", help="Its pools with commas between, the first choice first.")] = None,
    cluster: Cluster = None,
    gpus: Annotated[int, typer.Option("--gpus-per-job", min=1, help="GPUs of each job, or shares of a GPU.")] = 1,
    cpu: Annotated[
        _Text, typer.Option("--cpu-range", help="CPU of each job, as REQUEST-LIMIT such as 4-8; default: its share.")
    ] = None,
    memory: Annotated[
        _Text, typer.Option("--memory-range", help="Memory of each job, such as 16Gi-32Gi; default: its share.")
    ] = None,
    most: _Most = None,
    labels: Annotated[_Text, typer.Option("--labels", help="Labels beside the name, with commas between.")] = None,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    """Add a runner class over pools that exist, with its share of their machines."""
    with growing(stack, file, as_of, yes=yes) as grown:
        where = grown.cluster(cluster)
        asked = Questions({"pools": pools})
        known = grown.names(grown.at(where, "pools"))
        names = asked.answer("pools", "Which pools, with commas?", known, ",".join(known[:1]), _words)
        asked.require()
        add_class(grown, where, name, names, Sizes(gpus, cpu, memory, most, _words(labels or "")))


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


@group.command()
def region(
    stack: Stack,
    region: Annotated[str, typer.Argument(metavar="REGION", help="Region of the same cloud, such as eu-west-1.")],
    cluster: Cluster = None,
    name: Annotated[
        _Text, typer.Option("--cluster-name", help="Name of the new cluster; default: from the region, such as euw1.")
    ] = None,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    """Add a copy of a cluster in another region. Its classes get names of their own, and `sameAs` where rules allow it."""
    with growing(stack, file, as_of, yes=yes) as grown:
        add_region(grown, grown.cluster(cluster), region, name)


@group.command()
def cluster(
    stack: Stack,
    name: _Name,
    provider: Provider = None,
    region: Region = None,
    gpu: Gpu = None,
    jobs: JobKinds = None,
    most: _Most = None,
    file: File = None,
    yes: Yes = False,
    as_of: AsOf = None,
) -> None:
    """Add a cluster of any cloud, as `init` writes it."""
    with growing(stack, file, as_of, yes=yes) as grown:
        asked = Questions({"provider": provider, "region": region, "gpu": gpu, "jobs": jobs})
        cloud = asked.choice("provider", "Where do the jobs run?", PROVIDERS)
        asked.require()
        place = asked.choice("region", "Which region?", ask.regions(cloud))
        model = asked.choice("gpu", "Which GPU?", ask.gpus(cloud, place))
        of_cloud = ask.jobs_of(cloud)
        kinds = asked.answer("jobs", "Which kinds of jobs, with commas?", of_cloud, "tests", lambda text: ask.jobs(text, cloud))
        asked.require()
        add_cluster(
            grown, name, Answers(stack, cloud, place, model, grown.fleet.github.url, kinds, ""), most or USUAL, day_of(as_of)
        )
