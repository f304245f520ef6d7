"""How the nodes of an EKS pool, of its warm pool and of its schedules split over its zones: one managed node group per zone.

An Auto Scaling group over several zones ends busy instances to balance them (AZRebalance), whatever runs there, and the EKS API
cannot turn that off (aws/containers-roadmap#1453). In a group of one zone there is nothing to balance.
A warm pool of EC2 Auto Scaling has machines that have booted once and wait outside of the cluster.

EKS user guide, nodes/warm-pools-managed-node-groups.adoc@8cd63e68; EC2 Auto Scaling API, PutWarmPool.

Schedules are actions of EC2 Auto Scaling.
EC2 Auto Scaling guide, scheduled scaling: a group has at most 125 actions, runs them in order, and takes no two at one time. An
action may be two minutes late. A recurring action has no exceptions. One that runs once vanishes afterwards, so the next update
would ask for it again in the past. Therefore a holiday is a yearly action that undoes the start of a window a minute later.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from fleet.facts.bill import Warm, part
from fleet.facts.record import Record
from fleet.settings.model import Model, Nodes, Scale
from fleet.settings.schedules import WEEKDAYS, PoolSchedules, PoolWindow


def zone_groups(zones: Sequence[str], nodes: Scale) -> dict[str, Nodes]:
    """The sizes of a pool's node groups by zone, in the order of `zones`. They sum to `nodes`.

    Each zone gets an equal share of min and of max. The first zones get one more each until nothing remains. A zone whose share
    of max is 0 gets no group, because EKS requires a maximum of 1 or more.
    """
    shares = ((zone, index, part(nodes.max, len(zones), index)) for index, zone in enumerate(zones))
    return {zone: Nodes(min=part(nodes.min, len(zones), index), max=most) for zone, index, most in shares if most}


class Sizes(Record):
    """The least, the most and the present nodes of one node group. EKS takes them in one request, if min <= desired <= max."""

    min: int
    max: int
    desired: int


def resized(nodes: Scale, size: int) -> Sizes:
    """What EKS takes for a group that has `size` nodes and is to have `nodes`, without ending one: more stay the maximum.

    EKS requires a maximum of 1 or more, so a group without a share gets 1 at least.
    """
    return Sizes(nodes.min, max(nodes.max, size, 1), max(size, nodes.min))


class WarmPool(Model):
    """A warm pool. A machine joins the cluster only when it leaves the pool, so it has pulled no image before."""

    min: Annotated[int, Field(ge=0)] = 0
    """Machines that the warm pool always has, however many nodes are in the cluster. Unit: machines. Example: `1`"""
    max_prepared: Annotated[int, Field(ge=1)]
    """The most nodes in the cluster and machines of the warm pool together. Without it EC2 would fill the warm pool up to
    `nodes.max`. Unit: machines. Example: `4`"""
    state: Literal["stopped", "running", "hibernated"] = "stopped"
    """How the machines wait. A stopped one costs only its disk. It holds no capacity: EC2 may have none when it starts. Example:
    `stopped`"""
    reuse_on_scale_in: bool = False
    """Whether a node that the autoscaler removes returns to the warm pool. Example: `true`"""

    def shares(self, zones: Mapping[str, Nodes]) -> dict[str, Nodes]:
        """`min` and `max_prepared` (as max) of each zone's node group, split as nodes are. Zones without a share are left out."""
        return zone_groups(tuple(zones), Scale.model_construct(min=self.min, max=self.max_prepared))

    def machines(self, zones: Mapping[str, Nodes]) -> dict[str, int]:
        """The machines that wait in each zone while every node group has its least nodes."""
        return {zone: max(share.min, share.max - zones[zone].min) for zone, share in self.shares(zones).items()}

    @property
    def paid(self) -> Warm:
        """The warm pool as the bill reads it. EC2 hibernates no GPU type, so all others are stopped."""
        return Warm(self.min, self.max_prepared, self.state == "running")


class Action(Record):
    """`recurrence` is a cron expression in the time zone of the schedules. From then on the group has `least` to `most` nodes."""

    name: str
    recurrence: str
    least: int
    most: int


def zone_actions(schedules: PoolSchedules, zones: Sequence[str], nodes: Scale) -> dict[str, tuple[Action, ...]]:
    """The actions of each zone's node group. In a window its nodes split over the zones as `nodes` do."""
    usual = zone_groups(zones, nodes)
    made: dict[str, list[Action]] = {zone: [] for zone in usual}
    for name, window in schedules.windows.items():
        shares = zone_groups(zones, Scale.model_construct(min=window.nodes, max=nodes.max))
        for suffix, recurrence in _recurrences(window, schedules.holidays):
            for zone, share in (shares if suffix == "start" else usual).items():
                made[zone].append(Action(f"{name}-{suffix}", recurrence, share.min, share.max))
    return {zone: tuple(actions) for zone, actions in made.items()}


def _recurrences(window: PoolWindow, holidays: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(suffix of the name, cron expression) of a window's start, of its end, and of each holiday on which it would start."""
    days = [WEEKDAYS.index(day) for day in window.days]
    yield "start", f"{_at(window.start)} * * {_weekdays(days)}"
    yield "end", f"{_at(window.end)} * * {_weekdays(day + window.overnight for day in days)}"
    for holiday in holidays:
        undone = datetime.fromisoformat(f"{holiday}T{window.start}") + timedelta(minutes=1)
        if datetime.fromisoformat(holiday).weekday() in days:
            yield f"not-{holiday}", f"{undone.minute} {undone.hour} {undone.day} {undone.month} *"


def _at(text: str) -> str:
    hours, minutes = text.split(":")
    return f"{int(minutes)} {int(hours)}"


def _weekdays(days: Iterable[int]) -> str:
    """Days from Monday = 0 as cron has them, where Sunday is 0."""
    return ",".join(str(number) for number in sorted({(day + 1) % 7 for day in days}))
