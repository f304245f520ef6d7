"""What an audit says of each runner class and of each job, in rows: where it runs, what it costs, what ends when."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date

from fleet.facts.lifecycle import of_image
from fleet.facts.pricing import Money
from fleet.facts.record import Record
from fleet.facts.support import EKS_SUPPORT
from gpu_ci.audit.finding import Finding, diff_of
from gpu_ci.audit.homes import answer, homes, price_of
from gpu_ci.audit.model import RunnerClass, Seen, gpus_of
from gpu_ci.workflows.job import Job


class Row(Record):
    """One runner class. `where` has each pool with the jobs on a node, `zero` whether it starts from no node; None: not known.

    `stranded` are the GPUs that stay idle on a full node of the first pool, None if that is not known. `node` and `job` are USD
    an hour of a node of the first pool, and of a job on a full node. `ends` have the day, empty if it is none.
    """

    one: RunnerClass
    gpus: int | None
    where: tuple[str, ...]
    zero: bool | None
    stranded: int | None
    node: Money
    job: Money
    ends: tuple[tuple[str, str], ...]
    policies: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def fix(self) -> str:
        """The edits of its findings as one diff, errors first; "" if no edit of a file is known."""
        return diff_of(edit for finding in self.findings for edit in finding.edits)


class Run(Record):
    """One job on the class that takes it: USD at most for a run, until its timeout."""

    job: Job
    one: RunnerClass
    usd: Money


def rows(
    seen: Seen, findings: Iterable[Finding], day: date, region: str, policies: Mapping[str, tuple[str, ...]]
) -> Iterator[Row]:
    """The runner classes in the order of the files. `region`: whose prices count if the file names none."""
    lines = sorted(findings, key=lambda line: line.level != "error")
    for one in seen.classes:
        found = homes(one, seen)
        own = tuple(line for line in lines if line.subject == one.name and line.place == one.place)
        first = found[0] if found else None
        proved = answer(one, seen)
        zero: bool | None
        stranded: int | None
        if one.machines:
            where, zero, stranded = one.machines, not one.minimum, 0
            node = job = price_of(one.machines[0], one.region or region, one.capacities)
        else:
            where = tuple(f"{home.pool.name} ({home.words})" for home in found)
            zero = first.from_zero if first else None if proved is None else False
            stranded = first.stranded if first and first.held is not None else None
            node, job = (first.node_price(region), first.price(region)) if first else (Money(unknown=1), Money(unknown=1))
        ends = tuple(sorted(_ends(one, seen, day, [home.pool.name for home in found])))
        yield Row(one, gpus_of(one), where, zero, stranded, node, job, ends, policies.get(one.place, ()), own)


def runs(seen: Seen, region: str) -> Iterator[Run]:
    """The jobs whose class and timeout are known, with what a run costs at most."""
    for job in seen.jobs:
        serving = [one for one in seen.classes if not job.unresolved and one.serves(job.runs_on)]
        if len(serving) == 1 and job.timeout is not None:
            (one,) = serving
            found = homes(one, seen)
            machine = price_of(one.machines[0], one.region or region, one.capacities) if one.machines else None
            hour = machine or (found[0].price(region) if found else Money(unknown=1))
            yield Run(job, one, hour.times(job.timeout / 60))


def _ends(one: RunnerClass, seen: Seen, day: date, pools: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What a class uses and the last good day of each."""
    life = of_image(one.image, day) if one.image else None
    if life is not None and (last := life.last or life.may_end):
        yield str(last), life.what if life.last else f"{life.what}, at the earliest,"
    ids = {name for pool in seen.pools if pool.name in pools for name in pool.reservations}
    for keys in seen.of_kind("CapacityReservation"):
        if (name := keys.text("CapacityReservationId")) in ids:
            yield keys.text("EndDate")[:10], f"reservation {name}"
    for version in {pool.kubernetes for pool in seen.pools if pool.name in pools and pool.kubernetes}:
        if row := EKS_SUPPORT.get(".".join(version.removeprefix("v").split(".")[:2])):
            yield str(row.standard_until), f"standard support of Kubernetes {row.minor} on EKS"
