"""What a fleet has pinned, with the last good day of each: for the plan, the calendar and the alerts."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import date

from fleet.charts.sweeps import sweep_pods
from fleet.facts.groups import grouped
from fleet.facts.lifecycle import Use, of_chart, of_driver, of_image, of_row
from fleet.facts.record import Record
from fleet.facts.versions import CHART_IMAGES, IMAGES, LAUNCHER_IMAGE, RUNNER_IMAGE, runner_gpu
from fleet.prove.image_fit import node_driver
from fleet.providers.fleet import Fleet
from fleet.providers.installed import installed
from fleet.settings.cluster import Cluster, physical_name
from fleet.settings.github import GitHub
from fleet.settings.workloads import WORKLOAD_IMAGES


class End(Record):
    """One pinned version, and the clusters that use it. `last` and the rest are in `use`."""

    use: Use
    clusters: tuple[str, ...]

    @property
    def last(self) -> date | None:
        """The last good day; for a runner without a known end, the earliest day that can be one."""
        return self.use.life.last or self.use.life.may_end

    def line(self, day: date) -> str:
        """The end, where it counts and what to do, on one line."""
        cost = f" ({self.use.cost})" if self.use.cost else ""
        return f"{', '.join(self.clusters)}: {self.use.life.words(day)}{cost}; {self.use.fix}"


def together(pinned: Sequence[End], day: date) -> str:
    """Ends with the same effect, cost and fix on one line."""
    first, effect = pinned[0].line(day), f": {pinned[0].use.life.effect}"
    others = (f"{', '.join(end.clusters)}: {end.use.life.words(day).removesuffix(effect)}" for end in pinned[1:])
    return "; ".join((first.partition(effect)[0], *others)) + first[first.index(effect) :] if pinned[1:] else first


def ends(fleet: Fleet, day: date) -> tuple[End, ...]:
    """Everything that the fleet has pinned, as known on a day: the first end first, then versions without a published end."""
    clusters = fleet.clusters_by_name()
    uses = ((use, name) for name, cluster in clusters for use in dict.fromkeys(of_cluster(cluster, fleet.github, day)))
    return in_order(End(use, tuple(names)) for use, names in grouped(uses).items())


def in_order(pinned: Iterable[End]) -> tuple[End, ...]:
    """The first end first, then versions without a published end."""
    return tuple(sorted(pinned, key=lambda end: (end.last or date.max, end.use.life.what)))


def of_cluster(cluster: Cluster, github: GitHub, day: date) -> Iterator[Use]:
    """What one cluster has pinned."""
    yield from cluster.uses()
    for pool in cluster.pools:
        if (driver := node_driver(cluster, pool)) is not None and (life := of_driver(driver)) is not None:
            yield Use(life, "a node image or release with a newer driver branch")
    charts = {chart.chart: chart.version for chart in installed(cluster, physical_name("", "", ""), github)}
    lives = (*map(of_chart, charts, charts.values()), *(of_image(reference, day) for reference in _images(cluster, charts)))
    yield from (Use(life, "gpu-ci freshen") for life in lives if life is not None)
    for runner in cluster.pod_runners.values():
        if (row := runner_gpu(cluster.with_image(runner).image)) is not None:
            life = of_row(f"runner image {row.name}", "runner-gpu", row.name)
            yield Use(life, "build the image of a newer CUDA (docs/runner-image.md)")


def _images(cluster: Cluster, charts: Iterable[str]) -> Iterator[str]:
    """The images of charts, sweeps, workloads, launchers and runners."""
    for chart in charts:
        yield from (image.reference for image in CHART_IMAGES.get(chart, {}).values())
    if sweep_pods(cluster):
        yield IMAGES["python"].reference
    yield from (workload.image or WORKLOAD_IMAGES[workload.kind].reference for workload in cluster.workloads.values())
    if len(cluster.pod_runners) < len(cluster.runners):
        yield from (RUNNER_IMAGE, LAUNCHER_IMAGE)
    yield from (cluster.with_image(runner).image or RUNNER_IMAGE for runner in cluster.pod_runners.values())
