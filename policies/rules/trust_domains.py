"""trust-domains: runner sets of different runner groups, or of different organizations, share no GPU by time-slicing or MPS.

Judged: runner sets of one cluster, of chart gha-runner-scale-set or as ARC's custom resource, whose jobs take shares of GPUs. The
plugin calls shares `nvidia.com/gpu.shared`, if it renames them (`gpu-shared-resource-single` wants that). Two sets may meet on a
GPU if both may select one pool, or one selects none. `gpu-ci plan` also refuses sets that share whole nodes without a reason, and
sets of releases in the group of others. This rule does not: only the stack file has the reason.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from fleet.facts.scheduling import POOL_LABEL, SHARED_SUFFIX

from .kinds import CONFIG_MAP
from .pods import NODE_TERMS, PodSpec, containers_of, gpu_amounts
from .read import Later, entries, items, line, text, walk
from .rule import Stack, StackRule, Violations, facts
from .runner_group_scoped import DEFAULT_GROUP
from .runner_sets import RUNNER_SETS, RunnerSet, runner_sets


class _User(NamedTuple):
    runner_set: RunnerSet
    domain: str
    pools: frozenset[str]


def _check(stack: Stack, later: Later) -> Violations:
    users = sorted(_users(stack, later), key=lambda user: user.runner_set.name)
    for first, second in combinations(users, 2):
        meet = not (first.pools and second.pools) or first.pools & second.pools
        if meet and first.domain != second.domain and first.runner_set.place.cluster == second.runner_set.place.cluster:
            yield (
                f"{second.runner_set.name} ({second.domain}) and {first.runner_set.name} ({first.domain}) take shares of the "
                "same GPUs, and shares separate neither memory nor crashes; give each a pool of its own, or share by MIG",
                second.runner_set.resource.urn,
            )


def _users(stack: Stack, later: Later) -> Iterator[_User]:
    for each in runner_sets(stack.resources, later):
        with later:
            pod = each.job_pod(later)
            if pod is not None and _takes_shares(pod, later):
                values = each.values if each.release is not None else walk(each.resource.props, "spec")
                group = text(walk(values, "runnerGroup")) or DEFAULT_GROUP
                scope = text(walk(values, "githubConfigUrl")).lower().rstrip("/").removeprefix("https://")
                yield _User(each, line(f"group {group} of {scope}"), frozenset(_pools(pod, later)))


def _takes_shares(pod: PodSpec, later: Later) -> bool:
    amounts = (gpu_amounts(container, "limits", later) for container in containers_of(pod, later))
    return any(name.endswith(SHARED_SUFFIX) for names in amounts for name in names)


def _pools(pod: PodSpec, later: Later) -> Iterator[str]:
    """The pools that a pod selects; none if it may run in any."""
    if name := text(walk(pod.spec, "nodeSelector", POOL_LABEL)):
        yield name
    for _, term in items(walk(pod.spec, *NODE_TERMS), later):
        for _, wanted in entries(term, "matchExpressions", later):
            if (text(walk(wanted, "key")), text(walk(wanted, "operator"))) == (POOL_LABEL, "In"):
                yield from (text(value) for _, value in items(walk(wanted, "values"), later))


RULE = StackRule(**facts(__name__), types=RUNNER_SETS | {CONFIG_MAP}, check=_check)
