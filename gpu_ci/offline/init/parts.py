"""The pools and runner sets of a fleet: of a new one, which machines each kind of job gets; of a cluster, what it shows."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fleet.facts import hardware
from fleet.facts.errors import InputError
from fleet.facts.hardware import ON_DEMAND, SPOT, Machine
from fleet.facts.record import Record
from fleet.facts.spot import MAX_SPREAD, MIN_TYPES, spread
from fleet.facts.yaml_text import scalar, yaml_text
from fleet.settings.runner import GENERIC_LABELS
from gpu_ci.offline.init.answers import Answers, joined, offered

NAMED = "Has no labels, so only jobs that name it run here."
"""The comment above a runner set without labels."""


class Part(NamedTuple):
    """A pool of at most `most` nodes. `about` is the comment above it, `image` a kind of node image other than the default."""

    name: str
    machines: tuple[Machine, ...]
    capacity: str
    role: str
    most: int
    about: str = ""
    image: str = ""

    def lines(self) -> Iterator[str]:
        """The pool as YAML."""
        yield from (f"# {line}" for line in (self.about,) if line)
        types = joined(each.name for each in self.machines)
        bought = f"capacity: {self.capacity}, role: {self.role}, nodes: {{max: {self.most}}}"
        bought += f", image: {self.image}" if self.image else ""
        yield f"{self.name}: {{instanceTypes: {types}, {bought}}}"


class Jobs(NamedTuple):
    """A runner set of pods over pools, the first choice first. Each runner takes `gpus` GPUs and its share of half a node.

    `group` is a runner group of its own, empty for that of the fleet. Of a set elsewhere, `ask` has the CPUs and the GiB
    of a job, and `most` the number of runners.
    """

    name: str
    pools: tuple[Part, ...]
    gpus: int
    about: str
    labels: Sequence[str] = ()
    extra: tuple[str, ...] = ()
    group: str = ""
    ask: tuple[int, int] = (0, 0)
    most: int | None = None

    def lines(self) -> Iterator[str]:
        """The runner set as YAML. A node has less memory than its type is sold with, so the limit is three quarters of it."""
        small = self.pools[0].machines[0]
        shares = small.vcpus * self.gpus // small.gpus, small.memory_mib // 1024 * self.gpus // small.gpus
        # Of what the set has elsewhere, as much as surely fits here.
        cpus, gib = (min(asked, share) or share for asked, share in zip(self.ask, shares, strict=True))
        names = [pool.name for pool in self.pools]
        yield f"# {self.about}"
        yield f"{self.name}:"
        yield f"  pools: {joined(names)}" if len(names) > 1 else f"  pool: {names[0]}"
        # Sets of another runner group share no nodes: docs/sharing.md.
        yield from ("  # Create this runner group on GitHub too.", f"  group: {self.group}") if self.group else ()
        yield from (f"  {line}" for line in self.extra)
        yield from [f"  gpus: {self.gpus}"] * (self.gpus > 1)
        yield f"  cpu: {{request: {max(cpus // 2, 1)}, limit: {cpus}}}"
        yield f"  memory: {{request: {max(gib // 2, 1)}Gi, limit: {max(gib * 3 // 4, 1)}Gi}}"
        yield from [f"  labels: {joined(self.labels)}"] * bool(self.labels)
        held = sum(pool.most * pool.machines[0].gpus for pool in self.pools) // self.gpus
        yield f"  scale: {{max: {held if self.most is None else min(self.most, held)}}}"


def slug(gpu: str) -> str:
    """A GPU's name as part of names: RTX PRO 6000 → rtx-pro-6000."""
    return gpu.lower().replace(" ", "-")


def runner_sets(answers: Answers, most: int) -> Iterator[Jobs]:
    """The runner sets of a cluster that buys nodes, with their pools. The pool for tests has at most `most` nodes.

    Only the set for tests has labels that fit any GPU job. With `most` 0 its pool is one node of the cheapest machine.
    """
    types, model, extra = small(answers, cheapest=most == 0), slug(answers.gpu), answers.starter.of_pods
    name = f"gpu-{model}"
    if "tests" in answers.jobs:
        about = f"The default set: `runs-on: {name}`, or any subset of its labels such as [self-hosted, gpu]."
        yield Jobs(name, _for_tests(model, types, max(most, 1)), 1, about, GENERIC_LABELS, extra)
    if "release" in answers.jobs:
        pool = Part(f"{model}-release", types[:1], ON_DEMAND, "release", 1)
        yield Jobs(f"{name}-release", (pool,), 1, NAMED, extra=extra, group=f"{name}-release")
    if "training" in answers.jobs:
        big = large(answers)
        pool = Part(f"{model}-training", (big,), ON_DEMAND, "release", 1)
        about = f"Each job gets the {big.gpus} GPUs of one node."
        yield Jobs(f"{name}-training", (pool,), big.gpus, about, extra=extra, group=f"{name}-training")


def _for_tests(model: str, types: tuple[Machine, ...], most: int) -> tuple[Part, ...]:
    """A single node is on demand, because spot needs a second one and a pool behind it."""
    if not (on_spot := all(map(hardware.preemptible, types))) or most == 1:
        # A pool for jobs that may be interrupted has to be on spot.
        return (Part(model, types[:1], ON_DEMAND, "release" if on_spot else "burst", most),)
    return Part(f"{model}-spot", types, SPOT, "burst", most), fallback(model, types)


def fallback(stem: str, types: tuple[Machine, ...], image: str = "") -> Part:
    """The pool behind a spot pool: one node of its first type, on demand."""
    about = "Runs the same jobs while spot has no capacity: docs/fallback.md."
    return Part(f"{stem}-ondemand", types[:1], ON_DEMAND, "fallback", 1, about, image)


def small(answers: Answers, *, cheapest: bool = False) -> tuple[Machine, ...]:
    """The cheapest useful machine with few GPUs, and a second similar one. With `cheapest` also one with few CPUs.

    Raises InputError if there is none.
    """
    machines = offered(answers.provider, answers.region, answers.gpu)
    least = min(machine.gpus for machine in machines)
    few = [each for each in machines if each.gpus == least]
    # Smaller machines have no room for a useful runner beside kubelet and the DaemonSets.
    first, *more = [each for each in few if each.vcpus >= 8 * least and not cheapest] or few
    alike = [each for each in more if each.gpu_memory_mib == first.gpu_memory_mib and spread(first, each) <= MAX_SPREAD]
    return (first, *alike)[:MIN_TYPES]


def large(answers: Answers) -> Machine:
    """The machine for training: with two to four GPUs, or with more if there is no such machine. Raises InputError."""
    if not (several := [machine for machine in offered(answers.provider, answers.region, answers.gpu) if machine.gpus > 1]):
        why = f"--jobs: training needs a machine with several GPUs, and {answers.provider} has none with {answers.gpu}"
        raise InputError(f"{why}; leave training out, or choose another --gpu")
    return max((each for each in several if each.gpus <= 4), key=lambda each: each.gpus, default=several[0])


# -- a cluster that exists already ----------------------------------------------------------------------------------------


class Group(Record):
    """GPU nodes that are alike. `selector` has the labels that select them, `taints` have key, value and effect."""

    name: str
    machine: Machine
    count: int
    capacity: str
    image: str
    selector: tuple[tuple[str, str], ...]
    taints: tuple[tuple[str, str, str], ...]
    region: str
    system: str = ""
    """The operating system, if `image` is only the closest kind of node image."""

    def lines(self) -> Iterator[str]:
        """The pool as YAML."""
        price = hardware.price(self.machine.name, self.region, ON_DEMAND)
        yield from (f"{self.name}:", f"  instanceTypes: [{self.machine.name}]", f"  capacity: {self.capacity}")
        if self.system:
            yield f"  # The closest kind: {self.system} has NVIDIA's driver and container toolkit too."
        nodes = f"  nodes: {{min: {self.count}, max: {self.count}}}"
        yield from (f"  image: {self.image}", "  role: burst", nodes, "  selector:")
        yield from (f"    {scalar(key)}: {scalar(value)}" for key, value in self.selector)
        if self.taints:
            parts = (zip(("key", "value", "effect"), taint, strict=True) for taint in self.taints)
            rows = [{key: value for key, value in taint if value} for taint in parts]
            yield f"  taints: {yaml_text(rows, flow=True).strip()}"
        if price is not None:
            yield "  # The list price on demand. Write what you pay."
            yield f"  usdPerHour: {price.usd_per_hour}"


class Found(NamedTuple):
    """What a cluster shows. `provider` is eks, oke or empty; `cluster` its name in the cloud, if a node shows it.

    `controller` is the namespace and the service account of an ARC controller.
    """

    context: str
    provider: str
    cluster: str
    version: str
    region: str
    zones: tuple[str, ...]
    installed: tuple[str, ...]
    controller: tuple[str, str] | None
    groups: tuple[Group, ...]

    @property
    def name(self) -> str:
        """The context's name as that of a cluster in a stack file."""
        last = re.sub(r"[^a-z0-9]+", "-", self.context.rpartition("/")[2].rpartition("@")[2].lower()).strip("-")
        return (last if last[:1].isalpha() else f"k8s-{last}")[:20].strip("-")

    @property
    def enablement(self) -> str:
        """What advertises the GPUs: the GPU operator if the cluster has it, else the device plugin."""
        return "gpu-operator" if "gpu-operator" in self.installed else "device-plugin"
