"""Everything of a cluster that takes GPUs, or a device of a node, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from fleet.charts import Chart
from fleet.jobs.volumes import SHM
from offline.gfm import code, table, text
from offline.inventory import cells
from offline.inventory.clusters import gpus
from offline.inventory.grants import Grant
from offline.inventory.machines import MachineSet
from offline.inventory.taken import Taken
from offline.inventory.users import Group, User

Row = Sequence[str]


def everything(users: Iterable[User], grants: Iterable[Grant], sets: Iterable[MachineSet]) -> str:
    """One row each, of whatever kind: where it is, what it takes, how much of it one node holds."""
    rows = [
        *(_user(user) for user in users if user.group is not Group.LAUNCHER),
        *(row for each in sets for row in _machine_set(each)),
        *map(_grant, grants),
    ]
    columns = ("what", "kind", "namespace", "pool", "takes", ">how many", "CPU", "memory", "one node holds, limited by")
    return table(columns, rows)


def _user(user: User) -> Row:
    pod = user.pod
    takes = cells.taken(pod.gpus, pod.resource)
    if pod.devices:
        takes += f", but the device {cells.codes(pod.devices)} of its node"
    return (
        code(user.name),
        user.kind,
        code(user.namespace),
        code(user.pool) if user.pool else cells.NONE,
        takes,
        cells.count(user.least, user.most) + _lasts(user),
        cells.span(pod.cpu, cells.cores),
        cells.span(pod.memory, cells.size),
        cells.holds(user.fits),
    )


def _lasts(user: User) -> str:
    if user.group is Group.RUNNERS:
        return ""
    if user.stands:
        return ", always"
    return f", once, in queue {code(user.queue)}" if user.queue else ", once"


def _machine_set(found: MachineSet) -> Iterator[Row]:
    """A row for each machine that a job of the set may get; it has that to itself."""
    for machine in found.runner.machines:
        yield (
            code(found.name),
            "runner set of machines",
            code(found.launcher.namespace),
            cells.NONE,
            f"{gpus(machine)}, a whole {code(machine.name)}",
            cells.count(found.runner.span.min, found.runner.span.max),
            cells.cores(machine.vcpus * 1000),
            cells.size(machine.memory_mib),
            f"{code(machine.name)}: 1, one job",
        )


def _grant(grant: Grant) -> Row:
    return (
        code(grant.team),
        "team queue",
        cells.codes(grant.namespaces),
        code(grant.pool),
        f"{cells.taken(grant.nominal, grant.resource)} of its own",
        "Jobs of the team",
        cells.cores(grant.cpu),
        cells.size(grant.memory),
        cells.NONE,
    )


def runner_sets(charts: Mapping[str, Chart], users: Iterable[User], sets: Iterable[MachineSet]) -> str:
    """What a workflow writes to reach each set."""
    where = {user.name: f"pods of pool {code(user.pool)}" for user in users if user.group is Group.RUNNERS}
    where |= {each.name: each.runner.called for each in sets}
    rows = (
        (
            code(name),
            cells.codes((name, *chart.values["scaleSetLabels"])),
            code(chart.values["runnerGroup"]),
            cells.count(chart.values["minRunners"], chart.values["maxRunners"]),
            where[name],
        )
        for name, chart in charts.items()
    )
    return table(("set", "runs-on", "runner group", ">runners", "runners are"), rows)


def contents(users: Iterable[User]) -> str:
    """What each pod runs and mounts."""
    return table(("pod of", "image", "scratch disk", SHM, "volumes"), map(_contents, users))


def _contents(user: User) -> Row:
    pod = user.pod
    return (
        _pod_of(user),
        cells.image(pod.image),
        cells.size(pod.scratch) if pod.scratch else cells.NONE,
        cells.NONE if pod.shm is None else cells.size(pod.shm),
        "<br>".join(cells.volume(each, user.claims) for each in pod.volumes) or cells.NONE,
    )


def landing(users: Iterable[User]) -> str:
    """Which nodes each pod may land on, and with which rights and rank."""
    columns = ("pod of", "node selector", "tolerations", "RuntimeClass", "priority class", "Pod Security")
    return table(columns, map(_landing, users))


def _landing(user: User) -> Row:
    pod = user.pod
    return (
        _pod_of(user),
        cells.labels(pod.selector, "<br>"),
        "<br>".join(map(cells.toleration, pod.tolerations)) or cells.NONE,
        code(pod.runtime_class) if pod.runtime_class else cells.NONE,
        code(pod.priority) if pod.priority else cells.NONE,
        f"**{user.level}**" if user.level == "privileged" else user.level,
    )


def _pod_of(user: User) -> str:
    return f"{code(user.name)}, its launcher" if user.group is Group.LAUNCHER else code(user.name)


def queues(grants: Iterable[Grant]) -> str:
    """What each team has of each pool, borrows and lends, and whose Jobs it may end."""
    columns = ("team", "queues", "in namespaces", "pool", "own", ">borrows up to", ">lends up to", "may end Jobs")
    return table(columns, map(_queue, grants))


def _queue(grant: Grant) -> Row:
    return (
        code(grant.team),
        cells.codes(grant.queues),
        cells.codes(grant.namespaces),
        code(grant.pool),
        cells.taken(grant.nominal, grant.resource),
        "all that is lent" if grant.borrow is None else str(grant.borrow),
        "all" if grant.lend is None else str(grant.lend),
        text(grant.ends) or "none",
    )


def machines(sets: Iterable[MachineSet]) -> str:
    """Which machines each set boots or keeps, where, and what they have when the job starts."""
    columns = (
        "set",
        "a machine is, the first that there is",
        "where, in this order",
        "driver",
        "toolkit",
        "disk",
        ">machines",
        "kind",
    )
    return table(columns, map(_machines, sets))


def _machines(found: MachineSet) -> Row:
    runner = found.runner
    return (
        code(found.name),
        "<br>".join(
            f"{code(each.name)}: {gpus(each)}, {each.vcpus} vCPU, {cells.size(each.memory_mib)}" for each in runner.machines
        ),
        "<br>".join(f"{code(region)}: {cells.codes(domains)}" for region, domains in found.places),
        code(runner.image.driver) if runner.image else "of the image that its launcher finds",
        code(runner.toolkit) if runner.image else "of that image",
        cells.size(runner.disk),
        cells.count(runner.span.min, runner.span.max),
        runner.called,
    )


def pools_taken(found: Iterable[Taken]) -> str:
    """What of each pool is asked for at most, and what it holds."""
    columns = (
        "pool",
        ">runner sets",
        ">workloads",
        ">jobs",
        ">queues",
        ">together at most",
        ">the pool holds",
        ">kept at all times",
    )
    return table(columns, map(_taken, found))


def _taken(found: Taken) -> Row:
    most = f"**{found.most}**" if found.most > found.held else str(found.most)
    parts = (found.runners, found.workloads, found.jobs, found.queues)
    return (code(found.pool), *map(str, parts), most, str(found.held), str(found.kept))
