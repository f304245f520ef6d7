"""`gpu-ci add`: one more pool, runner class, region or cluster in a stack."""

from dataclasses import asdict, replace

from fleet.facts.day import day_of
from fleet.facts.tables import beside
from gpu_ci.app import WRITE, Cluster, Program, Stack, Text, app
from gpu_ci.offline.agree import Edit, growing
from gpu_ci.offline.grow.additions import PROVIDERS, Pools, Sizes, add_class, add_cluster, add_pool, add_region, words
from gpu_ci.offline.init import answers as ask
from gpu_ci.offline.init.answers import Answers
from gpu_ci.offline.init.files import USUAL
from gpu_ci.offline.init.questions import Questions, Wanted

group = Program(no_args_is_help=True, help=beside(__file__, "help.toml")["add"])
app.add_typer(group, name="add", rich_help_panel=WRITE)


@group.command()
def pool(stack: Stack, name: str, wanted: Pools, edit: Edit) -> None:
    """Add a GPU pool, with --class also to a runner class."""
    with growing(stack, edit) as grown:
        where = grown.cluster(wanted.cluster)
        here = grown.answers(where)
        asked = Questions({"gpu": wanted.gpu})
        model = asked.choice("gpu", "Which GPU?", ask.gpus(here.provider, here.region))
        asked.require()
        capacity = wanted.capacity and ask.one_of("--capacity", wanted.capacity, ("spot", "on-demand"))
        role = wanted.role and ask.one_of("--role", wanted.role, ("burst", "release", "fallback"))
        add_pool(grown, where, name, model, replace(wanted, capacity=capacity, role=role))


@group.command(name="class")
def runner_class(stack: Stack, name: str, wanted: Sizes, edit: Edit) -> None:
    """Add a runner class over pools that exist, with its share of their machines."""
    with growing(stack, edit) as grown:
        where = grown.cluster(wanted.cluster)
        asked = Questions({"pools": wanted.pools})
        known = grown.names(grown.at(where, "pools"))
        names = asked.answer("pools", "Which pools, with commas?", known, ",".join(known[:1]), words)
        asked.require()
        add_class(grown, where, name, names, wanted)


@group.command()
def region(stack: Stack, region: str, cluster: Cluster = None, name: Text = None, *, edit: Edit) -> None:
    """Add a copy of a cluster in another region. Its classes get names of their own, and `sameAs` where rules allow it."""
    with growing(stack, edit) as grown:
        add_region(grown, grown.cluster(cluster), region, name)


@group.command()
def cluster(stack: Stack, name: str, wanted: Wanted, most: int | None = None, *, edit: Edit) -> None:
    """Add a cluster of any cloud, as `init` writes it."""
    with growing(stack, edit) as grown:
        asked = Questions(asdict(wanted))
        cloud = asked.choice("provider", "Where do the jobs run?", PROVIDERS)
        asked.require()
        place = asked.choice("region", "Which region?", ask.regions(cloud))
        model = asked.choice("gpu", "Which GPU?", ask.gpus(cloud, place))
        of_cloud = ask.jobs_of(cloud)
        kinds = asked.answer("jobs", "Which kinds of jobs, with commas?", of_cloud, "tests", lambda text: ask.jobs(text, cloud))
        asked.require()
        answers = Answers(stack, cloud, place, model, grown.fleet.github.url, kinds, "")
        add_cluster(grown, name, answers, most or USUAL, day_of(edit.as_of))
