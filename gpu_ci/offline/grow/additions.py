"""What `gpu-ci add` writes: pools, runner classes and clusters, with the machines and sizes that `init` chooses."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date

from fleet.facts import hardware
from fleet.facts.errors import Fault, InputError, quoted
from fleet.facts.hardware import ON_DEMAND, SPOT
from fleet.facts.places import Keys
from fleet.facts.pricing import average, total
from fleet.facts.record import Record
from fleet.prove import bill
from fleet.providers.registry import provider_of
from fleet.settings.cluster import RENAMED
from fleet.settings.pool import Pool
from fleet.settings.runner import GENERIC_LABELS
from fleet.settings.sharing import units_of
from gpu_ci.app import Cluster, Gpu, Text, Texts
from gpu_ci.offline.grow.draft import Draft
from gpu_ci.offline.grow.stack import GrowingStack, member
from gpu_ci.offline.init import answers as ask
from gpu_ci.offline.init.answers import Answers, joined, one_of, regions
from gpu_ci.offline.init.files import USUAL, monthly_budget
from gpu_ci.offline.init.parts import NAMED, Jobs, Part, fallback, small
from gpu_ci.offline.init.text import cluster_lines

PROVIDERS = tuple(answer for answer in ask.PROVIDERS if not (ask.STARTERS[answer].owns or ask.STARTERS[answer].reads))
"""Where a cluster can be that joins others: `pulumi up` deploys it, and it buys its nodes."""
_NAMES_CLASSES = r"\b(?:rerunFirstOn|rerunOn|runners): (?:\[[^\]]*\]|[^,{}\n]*)"
"""A key that names classes, with its value on the same line or in brackets."""
_REPLACE = "# REPLACE: a value of the region that this cluster was copied from."


class Pools(Record, kw_only=True):
    """The options of pools. `capacity`, `role` and `types` are those of `init` if they are empty."""

    gpu: Gpu = None
    cluster: Cluster = None
    capacity: Text = None
    role: Text = None
    types: Texts = None
    most: int | None = None
    fallback: bool = False
    of_class: Text = None


class Sizes(Record, kw_only=True):
    """The options of a class. CPU and memory are one size, or a request and a limit with a hyphen between."""

    pools: Text = None
    cluster: Cluster = None
    gpus: int = 1
    cpu: Text = None
    memory: Text = None
    most: int | None = None
    labels: Text = None


def words(text: str) -> tuple[str, ...]:
    """The words between commas, each once."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def add_pool(stack: GrowingStack, cluster: str, name: str, gpu: str, wanted: Pools) -> None:
    """Add a pool, with `fallback` also the one behind it, and put them into a class, which may be new. Raises InputError."""
    answers = stack.answers(cluster, gpu)
    types = tuple(map(_machine, wanted.types or ())) or small(answers)
    on_spot = all(map(hardware.preemptible, types))
    capacity = wanted.capacity or (SPOT if on_spot else ON_DEMAND)
    # A pool for jobs that may be interrupted has to be on spot, if the cloud sells the GPU so.
    role = wanted.role or ("release" if capacity != SPOT and on_spot else "burst")
    images = {pool.get("image") or "" for pool in (stack.draft.value(stack.at(cluster, "pools")) or {}).values()}
    image = images.pop() if len(images) == 1 else ""
    kinds = types if wanted.types or capacity == SPOT else types[:1]
    parts = [Part(name, kinds, capacity, role, wanted.most or USUAL, image=image)]
    if wanted.fallback:
        if capacity != SPOT:
            raise InputError(f"--fallback: only a spot pool needs a pool behind it, and this one is {capacity}; remove it")
        parts.append(fallback(name.removesuffix("-spot"), types, image))
    for part in parts:
        stack.require_new("pool", stack.at(cluster, "pools", part.name))
        stack.draft.add(stack.at(cluster, "pools"), [*part.lines()])
    if wanted.of_class:
        _serve(stack, cluster, wanted.of_class, parts, answers)


def _machine(name: str) -> hardware.Machine:
    try:
        return hardware.machine(name)
    except hardware.UnknownMachine as error:
        raise InputError(f"--type: {error.args[0]}; got {quoted(name)}") from None


def _serve(stack: GrowingStack, cluster: str, name: str, parts: Sequence[Part], answers: Answers) -> None:
    """Put pools behind those of a class, or into a new class."""
    path = stack.at(cluster, "runners", name)
    if (of_class := stack.draft.value(path)) is None:
        _write_class(stack, cluster, Jobs(name, tuple(parts), 1, NAMED, extra=answers.starter.of_pods))
    elif "pools" in of_class:
        for part in parts:
            stack.draft.append((*path, "pools"), part.name)
    elif "pool" in of_class:
        stack.draft.put((*path, "pool"), joined([of_class["pool"], *(part.name for part in parts)]))
        stack.draft.rename((*path, "pool"), "pools")
    else:
        raise InputError(f"--class: {name} has no pools, because its runners are machines; give a class of pods")


def add_class(stack: GrowingStack, cluster: str, name: str, pools: Sequence[str], sizes: Sizes) -> None:
    """Add a class over pools that exist, with its share of their machines. Raises InputError."""
    settings = stack.fleet.clusters[cluster]
    stack.require_new("class", stack.at(cluster, "runners", name))
    for pool in pools or ("",):
        member("--pools", f"cluster {cluster} has no such pool", pool, settings.pools)
    starter = provider_of(settings).starter
    about = "Jobs reach it by its name, and by any subset of its labels." if sizes.labels else NAMED
    parts = tuple(_part(pool, settings.pools[pool]) for pool in pools)
    jobs = Jobs(name, parts, sizes.gpus, about, words(sizes.labels or ""), starter.of_pods if starter is not None else ())
    _write_class(stack, cluster, jobs)
    path = stack.at(cluster, "runners", name)
    for key, text in (("cpu", sizes.cpu), ("memory", sizes.memory)):
        for part, amount in zip(("request", "limit"), (text.split("-", 1) * 2)[:2] if text else (), strict=False):
            stack.draft.put((*path, key, part), amount)
    if sizes.most is not None:
        stack.draft.put((*path, "scale", "max"), str(sizes.most))


def _part(name: str, pool: Pool) -> Part:
    """A pool as `init` knows it. A GPU that jobs share counts as its shares."""
    if not pool.has_gpus:
        raise InputError(f"--pools: pool {name} has no GPUs; write its class by hand, with gpus: 0 (docs/cpu-classes.md)")
    units = (replace(machine, gpus=units_of(pool.sharing, machine)) for machine in pool.machines)
    return Part(name, tuple(units), pool.capacity, pool.role, pool.nodes.max)


def _write_class(stack: GrowingStack, cluster: str, jobs: Jobs) -> None:
    """Add a class in the runner group of those that share its pools; without any, a class of releases in one of its own."""
    names, rows = {pool.name for pool in jobs.pools}, stack.fleet.clusters[cluster].pod_runners.values()
    own = jobs.name if any(pool.role == "release" for pool in jobs.pools) else ""
    group = next((row.group or "" for row in rows if names & {*row.ordered}), own)
    stack.draft.add(stack.at(cluster, "runners"), [*jobs._replace(group=group).lines()])


def add_cluster(stack: GrowingStack, name: str, answers: Answers, most: int, day: date) -> None:
    """Add a cluster as `init` writes it. Raises InputError."""
    stack.require_new("cluster", stack.at(name))
    provider = answers.provider.removeprefix("existing-")
    paid = any(one.provider == provider and one.budget is not None for _, one in stack.fleet.clusters_by_name())
    draft = Draft(name, "\n".join([f"{name}:", *(f"  {line}" for line in cluster_lines(answers, None, most, 1))]) + "\n")
    _insert(stack, draft, name, same_as="", budget=not paid)
    if not paid:
        lines = [line for line in bill.bill(stack.grown(), day) if line.cluster == name]
        stack.draft.put(stack.at(name, "budget", "monthlyUsd"), str(monthly_budget(average(lines), total(lines)[1])))


def add_region(stack: GrowingStack, source: str, region: str, name: str | None) -> str:
    """Add a copy of a cluster in another region; returns its name. Raises InputError."""
    settings, answers = stack.fleet.clusters[source], stack.answers(source)
    if settings.found is not None:
        raise InputError(f"clusters.{source}: exists already, and a copy would name the same cluster; use gpu-ci add cluster")
    if (region := one_of("REGION", region, regions(answers.provider))) == settings.region:
        raise InputError(f"REGION: cluster {source} is in {region} already; give another region, or add a pool")
    name = name or answers.starter.cluster_name(region)
    stack.require_new("cluster", stack.at(name))
    try:
        draft = Draft(name, "\n".join(stack.draft.lines_of(stack.at(source))) + "\n")
    except InputError:
        raise InputError(f"clusters.{source}: uses an anchor from elsewhere in the file; write the copy by hand") from None
    draft.rename((source,), name)
    entries = [(name, kind, entry) for kind in RENAMED for entry in draft.value((name, kind)) or {}]
    for path in (path for path in [(name,), *entries] if draft.value((*path, "was")) is not None):
        draft.remove((*path, "was"))
    draft.put((name, "region"), region)
    if (zones := draft.value((name, "zones"))) is not None:
        prefix = f"{zones[0].partition(':')[0]}:" if ":" in zones[0] else ""
        new = [zone.removeprefix(answers.starter.zone_prefix) for zone in replace(answers, region=region).zones][: len(zones)]
        draft.put((name, "zones"), joined(f'"{prefix}{zone}"' if prefix else zone for zone in new))
    for runner in [runner for runner, row in settings.runners.items() if row.whole_machine is not None]:
        # Machines of jobs have places in several regions already.
        draft.remove((name, "runners", runner))
        stack.notes.append(f"{runner} is not copied: its machines have places in several regions")
    moved = {key(settings.region): key(region) for key in (str, answers.starter.cluster_name)}
    draft = Draft(name, "".join(_copied(draft.text, moved, (source, name))))
    _insert(stack, draft, name, same_as=source, budget=False)
    return name


def _copied(text: str, moved: dict[str, str], names: tuple[str, str]) -> Iterator[str]:
    """The lines of a cluster in another region, whose words `moved` has. Those with a resource of the old region are marked."""
    old = "|".join(map(re.escape, moved))
    for row in text.splitlines(keepends=True):
        line = row.lstrip()
        if not line.startswith("#") and re.search(rf"\.(?:{old})\.|\b(?:vpc|subnet|sg|ami|cr|lt)-[0-9a-f]{{8}}", row):
            yield f"{row.removesuffix(line)}{_REPLACE}\n"
        new = re.sub(rf"\.({old})\.", lambda match: f".{moved[match[1]]}.", row)
        # ArgoCD reads a folder of its own for each cluster.
        yield re.sub(rf"\b{names[0]}\b", names[1], new) if line.startswith("path: ") else new


def _renamed(text: str, old: str, new: str) -> str:
    """The text of a cluster with another name of a class: as a key, in what names classes, and in comments."""
    comments = "|# .*?" * ("-" in old)
    word = rf"(?<![\w./-]){re.escape(old)}(?![\w./-])"
    text = re.sub(rf"{word}(?=[\"']?:\s)", new, text)
    text = re.sub(_NAMES_CLASSES, lambda match: re.sub(word, new, match[0]), text)
    return re.sub(rf"^( *(?:- {comments})){word}", rf"\g<1>{new}", text, flags=re.MULTILINE)


def _insert(stack: GrowingStack, draft: Draft, name: str, same_as: str, budget: bool) -> None:
    """Add a cluster, whose classes get free names. Those with labels equal the classes of `same_as` as far as rules allow it."""
    if not budget and draft.value((name, "budget")) is not None:
        draft.remove((name, "budget"))
    taken = {runner for _, one in stack.fleet.clusters_by_name() for runner in one.runners}
    renamed = {runner: f"{runner}-{name}" if runner in taken else runner for runner in draft.value((name, "runners")) or {}}
    text = draft.text
    for old, new in renamed.items():
        text = _renamed(text, old, new)
    draft = Draft(name, text)
    for old, new in renamed.items():
        path = (name, "runners", new)
        runner = draft.value(path)
        labels = runner.get("labels") or ()
        if "sameAsOrder" in runner:
            # A place in an order belongs to one set, and a set without one comes last.
            draft.remove((*path, "sameAsOrder"))
        if not same_as and (old != new or set(labels) & set(GENERIC_LABELS)):
            _set_apart(draft, path)
        elif same_as and labels and "sameAs" not in runner:
            draft.add(path, [f"sameAs: {same_as}/{old}"], before="pools" if "pools" in runner else "pool")
    alone: dict[str, str] = {}
    before, faults = stack.draft.text, tuple[Fault, ...]()
    while True:
        stack.draft = Draft(stack.draft.name, before)
        stack.draft.add(stack.clusters, draft.lines_of((name,)))
        try:
            stack.grown()
            break
        except InputError as error:
            faults = error.faults
        wrong = {runner: fault.message for runner in renamed.values() for fault in faults if f".{runner}." in fault.path}
        twice = any(fault.rule == "quota_twice" for fault in faults) and draft.value((name, "declareQuotas")) is not None
        if not (wrong.keys() - alone.keys() or twice):
            break
        for runner in wrong.keys() - alone.keys():
            _set_apart(draft, (name, "runners", runner))
        if twice:
            draft.remove((name, "declareQuotas"))
        alone |= wrong
    stack.notes += [f"{runner} is a class of its own: {why}" for runner, why in alone.items()]


def _set_apart(draft: Draft, path: Keys) -> None:
    """Remove the labels of a class, so that only jobs that name it run there."""
    if "labels" in (keys := [key for key in ("labels", "sameAs") if draft.value((*path, key))]):
        for key in keys:
            draft.remove((*path, key))
        draft.comment(path, NAMED)
