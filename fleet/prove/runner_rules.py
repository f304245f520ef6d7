"""Rules over all runner sets: which set a runs-on reaches, where jobs run again, sets of one class, orders of pools."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from fleet.prove.image_fit import node_driver
from fleet.prove.same_sets import Set, class_of, classes, difference, pod_sets, shortfalls
from fleet.providers.fleet import Fleet
from fleet.providers.phases import prepare_timeout
from fleet.providers.provider import Claim, Violation, conflicts, violation
from fleet.providers.registry import provider_of
from fleet.settings.compatibility import lacks_cuda
from fleet.settings.pool import Pool
from fleet.settings.pool_order import ContradictionError, pool_ranks
from fleet.settings.runner import GENERIC_LABELS, Runner
from fleet.settings.sharing import resource_of

_Sets = Sequence[tuple[str, str, Runner]]
"""Runner sets: cluster, name and class of each."""


def _together(rule: Callable[[Fleet, _Sets], Iterator[Violation]]) -> Callable[[Fleet], Iterator[Violation]]:
    """The rule about sets that one job may reach. The jobs of a repository also reach the sets of its organization."""

    def of_fleet(fleet: Fleet) -> Iterator[Violation]:
        seen: dict[tuple[str, ...], Violation] = {}
        for scope in fleet.scopes.values():
            sets = [entry for entry in fleet.runner_sets() if fleet.scope_of(entry[0], entry[2]).serves(scope.path)]
            for broken in rule(fleet, sets):
                seen.setdefault((broken.rule, broken.message, *broken.at), broken)
        yield from seen.values()

    return of_fleet


@_together
def _generic_labels(_fleet: Fleet, sets: _Sets) -> Iterator[Violation]:
    """At most one runner set of a GitHub scope carries generic labels, or the sets of one class.

    The order of clusters is not always the file's, because Pulumi sorts their names. So the error names both sets. It points to
    the set of machines, or else to the second set.
    """
    labeled = [
        (("clusters", cluster, "runners", name, "labels"), f"{cluster}/{name}", runner, common)
        for cluster, name, runner in sets
        if (common := [label for label in map(str.lower, runner.labels) if label in GENERIC_LABELS])
    ]
    if len({class_of(of, runner) for _, of, runner, _ in labeled}) < 2:
        return
    pods, machines = ([row for row in labeled if (row[2].kind == "pod") is of_pods] for of_pods in (True, False))
    mixed = bool(pods and machines)
    (_, first, _, first_labels), (at, second, runner, common) = (pods[0], machines[0]) if mixed else labeled[:2]
    keep = f"keep them on {first}, whose runners are pods" if mixed else "keep them on one"
    both = [f"{of} ({', '.join(labels)})" for of, labels in ((first, first_labels), (second, common))]
    yield violation("generic_label", at, list(runner.labels), first=both[0], second=both[1], keep=keep)


@_together
def _runner_sets(fleet: Fleet, sets: _Sets) -> Iterator[Violation]:
    """A name has one runner set in each runner group, and a label reaches one set or the sets of one class.

    GitHub offers a job to every set that has all labels of its runs-on (rhobuild/runpool#150). No set has all labels that select
    another class, because each label other than a generic one belongs to one class. GitHub ignores the case of labels.
    """
    names = (
        Claim((fleet.group_of(cluster, runner), name), cluster, ("clusters", cluster, "runners", name))
        for cluster, name, runner in sets
    )
    for claim, other in conflicts(names):
        group, name = claim.key if isinstance(claim.key, tuple) else ("", "")
        yield violation("set_unique", claim.at, name, other=other, group=group)
    own_names = {name for _, name, _ in sets}
    owners: dict[str, str] = {}
    for cluster, name, runner in sets:
        at, set_name, labels = ("clusters", cluster, "runners", name, "labels"), f"{cluster}/{name}", list(runner.labels)
        owned = class_of(set_name, runner)
        for label in labels:
            # The message has the label as written: another spelling may hide a credential from the mask.
            if (folded := label.lower()) in own_names and folded != name:
                yield violation("label_is_name", at, labels, label=label)
            elif folded not in GENERIC_LABELS and (owner := owners.setdefault(folded, owned)) != owned:
                yield violation("label_unique", at, labels, label=label, owner=owner)


def _reruns(fleet: Fleet) -> Iterator[Violation]:
    """Jobs that spot interrupted run again on sets of pods in the same group: the same GPU, as many, and in the end no spot."""
    sets = pod_sets(fleet).values()
    for spot_set in (spot_set for spot_set in sets if spot_set.runner.rerun_on is not None):
        runner, group = spot_set.runner, fleet.group_of(spot_set.cluster, spot_set.runner)
        seat = (fleet.scope_of(spot_set.cluster, runner).path, group)
        at = ("clusters", spot_set.cluster, "runners", spot_set.name)
        if not spot_set.spot_pools:
            yield violation("rerun_without_spot", (*at, "rerunOn"))
        of_group = [
            target
            for target in sets
            if (fleet.scope_of(target.cluster, target.runner).path, fleet.group_of(target.cluster, target.runner)) == seat
        ]
        others = [target for target in of_group if target.name != spot_set.name]
        for key, name, able in (("rerunFirstOn", runner.rerun_first_on, of_group), ("rerunOn", runner.rerun_on, others)):
            if name is not None and name not in (names_known := dict.fromkeys(target.name for target in able)):
                names = f"name one of: {', '.join(names_known)}" if names_known else "add one, or remove this"
                which = "set of pods" if able is of_group else "other set of pods"
                yield violation("rerun_set", (*at, key), group=group, which=which, names=names)
            for target in (target for target in able if target.name == name):
                yield from _rerun_target(spot_set, target, (*at, key))


def _rerun_target(spot_set: Set, target: Set, at: tuple[str, ...]) -> Iterator[Violation]:
    """The last rerun is never on spot. The first of two is on spot, because nothing interrupts it elsewhere."""
    if at[-1] == "rerunFirstOn" and not target.spot_pools:
        yield violation("rerun_first_spot", at)
    for pool_name in target.spot_pools if at[-1] == "rerunOn" else ():
        yield violation("rerun_on_spot", at, pool=pool_name)
    for has, needs, fix in dict.fromkeys(_other_gpus(spot_set, target)):
        yield violation("rerun_gpus", at, has=has, needs=needs, fix=fix)


def _other_gpus(spot_set: Set, target: Set) -> Iterator[tuple[str, str, str]]:
    """What each pool of a set has instead of the GPUs that the jobs of another need, what these need, and the fix."""
    first, runner = spot_set.settings.pools[spot_set.runner.ordered[0]], spot_set.runner
    gpus = target.runner.gpus
    for pool in (target.settings.pools[name] for name in target.runner.ordered):
        if not runner.gpus and gpus:
            yield "GPUs", "none", "name a set with gpus: 0"
        elif (_gpu(pool), pool.sharing) != (_gpu(first), first.sharing) or gpus < runner.gpus:
            has, needs = f"{gpus}x {_gpu(pool)}" if gpus else "no GPU", f"{runner.gpus}x {_gpu(first)}"
            yield has, needs, "name a set with the same GPUs and at least as many"


def _gpu(pool: Pool) -> str:
    machine = pool.machines[0]
    shared = f" by {pool.sharing.strategy}" if pool.sharing is not None else ""
    return f"{machine.gpu.name} {machine.gpu_memory_mib / 1024:.0f}Gi{shared}" if machine.gpu else "GPU"


def _same_sets(fleet: Fleet) -> Iterator[Violation]:
    """Sets that `sameAs` declares equal are equal, and each cluster can place all runners of its set."""
    sets = pod_sets(fleet)
    for member in sets.values():
        at, first = ("clusters", member.cluster, "runners", member.name, "sameAs"), member.runner.same_as
        if first is None:
            continue
        if first not in sets or sets[first].cluster == member.cluster or sets[first].runner.same_as is not None:
            able = (name for name, row in sets.items() if row.cluster != member.cluster and row.runner.same_as is None)
            yield violation("same_set", at, names=", ".join(able) or "none, so remove sameAs")
        elif text := difference(fleet, member, sets[first]):
            yield violation("same_differs", at, text=text)
        elif not member.runner.labels:
            yield violation("same_label", at, first=first)
    for equals in classes(fleet).values():
        for member, other in pairwise(equals):
            if member.runner.same_as_order is not None and member.runner.same_as_order == other.runner.same_as_order:
                at = ("clusters", other.cluster, "runners", other.name, "sameAsOrder")
                yield violation("same_order", at, other=member.called)
    for member, needed, available in shortfalls(equal for equals in classes(fleet).values() for equal in equals):
        scale = ("clusters", member.cluster, "runners", member.name, "scale", "max")
        shared = class_of(member.called, member.runner)
        yield violation("same_room", scale, equals=shared, needed=needed, available=available)


def _container_room(fleet: Fleet) -> Iterator[Violation]:
    """The pools of a class whose jobs run in containers hold its most jobs. `fleet.prove.remarks.full_pools` counts other sets.

    Its runners are elsewhere, so each of them takes a job. A job without a node then fails after the runner's wait: nothing
    returns it to GitHub's queue.
    """
    sets = (entry for entry in pod_sets(fleet).values() if entry.runner.in_containers)
    for member, needed, available in shortfalls(sets, alone=True):
        minutes = prepare_timeout(member.settings, member.runner) // 60
        at = ("clusters", member.cluster, "runners", member.name, "scale", "max")
        yield violation("container_room", at, minutes=minutes, needed=needed, available=available)


def _quotas(fleet: Fleet) -> Iterator[Violation]:
    """The classes of a quota never have more runners than it admits, so a job beyond it stays in GitHub's queue."""
    for cluster, settings in fleet.clusters_by_name():
        gpus = {name: runner for name, runner in settings.pod_runners.items() if runner.gpus}
        for quota_name, quota in settings.runner_quotas.items():
            at = ("clusters", cluster, "runnerQuotas", quota_name)
            if unknown := [name for name in quota.runners if name not in gpus]:
                names = f"name one of: {', '.join(gpus)}" if gpus else "remove the quota"
                yield violation("quota_runner", (*at, "runners"), unknown=", ".join(unknown), names=names)
                continue
            runners = {name: gpus[name] for name in quota.runners}
            units = {resource_of(settings.pools[pool].sharing) for row in runners.values() for pool in row.ordered}
            if len(units) > 1:
                yield violation("quota_units", (*at, "runners"), units=", ".join(sorted(units)))
            elif (most := sum(row.span.max * row.gpus for row in runners.values())) > quota.gpus:
                rows = " + ".join(f"{row.span.max} {name} x {row.gpus}" for name, row in runners.items())
                yield violation("quota_sum", (*at, "gpus"), most=most, rows=rows)


def _pool_orders(fleet: Fleet) -> Iterator[Violation]:
    """Classes, flavors and jobs of a cluster order their pools in one way, because an autoscaler has one order."""
    for cluster, settings in fleet.clusters_by_name():
        if not provider_of(settings).orders:
            continue
        try:
            pool_ranks(settings.pool_orders)
        except ContradictionError as error:
            yield violation("pool_order", ("clusters", cluster, *error.steps[-1][0].split("."), "pools"), error=error)


def _cuda(fleet: Fleet) -> Iterator[Violation]:
    """The nodes of each pool of a class run images with its CUDA."""
    for cluster, settings in fleet.clusters_by_name():
        for name, runner in settings.pod_runners.items():
            for pool in runner.ordered:
                of_pool = settings.pools[pool].machines, node_driver(settings, pool)
                if runner.cuda is not None and (wrong := lacks_cuda(runner.cuda, *of_pool)):
                    yield violation("cuda", ("clusters", cluster, "runners", name, "cuda"), runner.cuda, pool=pool, wrong=wrong)


RULES = (_generic_labels, _runner_sets, _reruns, _same_sets, _container_room, _quotas, _pool_orders, _cuda)
