"""trust-domains: runner sets of different runner groups, or of different organizations, share no GPU by time-slicing or MPS.

Judged: runner sets of one cluster, of chart gha-runner-scale-set or as ARC's custom resource, whose jobs take shares of GPUs. The
plugin calls shares `nvidia.com/gpu.shared`, if it renames them (`gpu-shared-resource-single` wants that). Two sets may meet on a
GPU if both may select one pool, or one selects none. `gpu-ci plan` also refuses sets that share whole nodes without a reason, and
sets of releases in the group of others. This rule does not: only the stack file has the reason.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from fleet.facts.scheduling import SHARED_SUFFIX

from .kinds import CONFIG_MAP
from .node_labels import wanted
from .pods import containers_of, gpu_amounts
from .read import Later, line, text, walk
from .rule import Stack, StackRule, Violations, facts, said
from .runner_group_scoped import DEFAULT_GROUP
from .runner_sets import RUNNER_SETS, runner_sets


class _User(NamedTuple):
    name: str
    cluster: str
    domain: str
    pools: tuple[str, ...]
    urn: str


def _check(stack: Stack, later: Later) -> Violations:
    for first, second in combinations(sorted(_users(stack, later)), 2):
        meet = not (first.pools and second.pools) or {*first.pools} & {*second.pools}
        if first.cluster == second.cluster and first.domain != second.domain and meet:
            yield said("shared_domains", second=second, first=first), second.urn


def _users(stack: Stack, later: Later) -> Iterator[_User]:
    for each in runner_sets(stack.resources, later):
        with later:
            pod = each.job_pod(later)
            amounts = (gpu_amounts(container, "limits", later) for container in (containers_of(pod, later) if pod else ()))
            if pod is not None and any(name.endswith(SHARED_SUFFIX) for names in amounts for name in names):
                values = each.values if each.release is not None else walk(each.resource.props, "spec")
                scope = text(walk(values, "githubConfigUrl")).lower().rstrip("/").removeprefix("https://")
                domain = line(f"group {text(walk(values, 'runnerGroup')) or DEFAULT_GROUP} of {scope}")
                yield _User(each.name, each.place.cluster, domain, wanted(pod.spec).pools, each.resource.urn)


RULE = StackRule(**facts(__name__), types=RUNNER_SETS | {CONFIG_MAP}, check=_check)
