"""quota-declared: the stack declares the quotas that limit GPUs, and they are large enough for its maximum.

- EC2 counts vCPUs by family and purchase option in each region: spot and on demand have separate quotas
  (`fleet.facts.hardware.quota_code`). A reservation always uses all of its machines' quota.
  Resources do not show what an account has, and a request below that fails. So without a request the rule is undeterminable.
- OCI counts GPUs by series. A quota is also a limit of each availability domain, and one domain may get all machines. A
  statement names a compartment by a path that no resource has, so the rule adds up the numbers of all compartments in a region.
  In a cluster that exists already the rule requires no quota, because a quota also limits others in its compartment.
- Kubernetes counts the GPUs that a namespace of runners requests, only under `requests.`. The rule asks for no quota where
  runners create a pod for each job, because at a quota such a job fails instead of waiting (actions/runner-container-hooks#229).
  A quota that is there admits the most runners of all sets of the namespace. So a job that it has no room for stays in GitHub's
  queue. Above the quota a runner would hold its job until there is room: ARC asks again each half minute, and makes the runner
  anew after ten (actions-runner-controller gha-runner-scale-set-0.14.2, ephemeralrunner_controller.go).

A machine type without a known quota needs none.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache, partial

from fleet.facts.groups import grouped
from fleet.facts.hardware import ON_DEMAND, SPOT, Machine, find, machines, quota_code, quota_units
from fleet.facts.quantities import quantity

from .charts import REGULAR
from .clusters import in_existing
from .groups import AWS, MACHINES, OCI, Group, groups, region_of, several
from .kinds import CONFIG_MAP, RESOURCE_QUOTA
from .pods import PodSpec, containers_of, gpu_amounts
from .read import Data, Later, UndeterminableError, entries, line, text, walk, whole
from .rule import Resource, Stack, StackRule, Violations, facts, said, unseen
from .runner_sets import RUNNER_SETS, ByPlace, Place, RunnerSet, lacks, place_of, runner_sets
from .stack_gpu_ceiling import FAR

SERVICE_QUOTA = "aws:servicequotas/serviceQuota:ServiceQuota"
_VCPUS = 192
"""Those of a machine with eight GPUs: what an account may have of a quota that the stack does not need, and tenfold."""
OCI_QUOTA = "oci:Limits/quota:Quota"

Key = tuple[str, str]
"""Region and quota."""
_Needs = Mapping[Key, list[tuple[str, int]]]
"""The names of the groups that use a quota, each with the units that it uses at its maximum."""

# docs.oracle.com, quota policy syntax: words in any case, a name or a pattern between slashes, an optional condition.
_STATEMENT = re.compile(
    r"\s*(?P<verb>set|unset|zero)\s+compute-core\s+quotas?(?:\s+(?P<name>(?!in\s)[^\s]+))?(?:\s+to\s+(?P<number>[0-9]{1,9}))?"
    r"\s+in\s+(?P<where>tenancy|compartment\s+\S+)(?:\s+where\s+(?P<condition>.*))?\s*",
    re.IGNORECASE | re.DOTALL,
)
_REGION = re.compile(r"request\.region\s*=\s*'?([a-z0-9-]+)", re.IGNORECASE)


def _check(stack: Stack, later: Later) -> Violations:
    machine_groups = groups(stack.resources, later)
    yield from _check_aws(stack, _needs(group for group in machine_groups if group.cloud == AWS), later)
    outside = in_existing(stack.resources, stack.existing)
    # A lower quota ends no machine, and a pool that leaves gets none.
    inside = (group for group in machine_groups if group.cloud == OCI and group.urn not in outside and not group.leaves)
    yield from _check_oci(stack, _needs(inside), later)
    yield from _check_namespaces(stack, later)
    for group in machine_groups:
        if group.cloud == OCI and group.gpus != 0 and group.urn in outside:
            later.note(unseen(outside[group.urn], "whether a quota bounds its compartment"))


# -- clouds ------------------------------------------------------------------------------------------------------------


def _needs(machine_groups: Iterator[Group]) -> _Needs:
    return grouped(
        ((region, code), (group.name, units))
        for group in machine_groups
        # With several regions a NodePool's is unknown. A launcher may boot all its machines in any of its regions.
        if group.gpus != 0 and (group.cloud != AWS or len(group.regions) <= 1)
        for code, units in _of_group(group).items()
        for region in group.regions
    )


def _of_group(group: Group) -> Mapping[str, int]:
    """Units of each quota that the group uses if all its machines are of the largest type of that quota."""
    units_by_code: dict[str, int] = {}
    for machine in filter(None, map(find, group.types)):
        if (code := quota_code(machine, group.capacity)) is not None:
            units_by_code[code] = max(units_by_code.get(code, 0), _count(group, machine) * quota_units(machine))
    return {code: units for code, units in units_by_code.items() if units}


def _count(group: Group, machine: Machine) -> int:
    if group.cloud == AWS and group.reserved is not None:
        return group.reserved
    if group.most is not None:
        return group.most
    return (group.gpu_limit or 0) // machine.gpus if machine.gpus else 0


def _check_aws(stack: Stack, needs: _Needs, later: Later) -> Violations:
    hidden = Later()
    declared: dict[Key, tuple[float, str]] = {}
    for quota in stack.of(SERVICE_QUOTA):
        with hidden:
            if text(walk(quota.props, "serviceCode")) == "ec2":
                key = region_of(quota), text(walk(quota.props, "quotaCode"))
                declared[key] = max(declared.get(key, (0.0, "")), (float(quantity(walk(quota.props, "value")) or 0), quota.urn))
    for key, (most, urn) in declared.items():
        need = sum(units for _, units in needs.get(key, ()))
        if not later and key[1] in _gpu_codes() and most > FAR * max(need, _VCPUS):
            yield f"value is {most:g}, and the stack may take {need} vCPUs of quota {key[1]}; lower it", urn
    missing = []
    for (region, code), users in needs.items():
        need = sum(units for _, units in users)
        value, urn = declared.get((region, code), (None, ""))
        takes = f"AWS {line(region)}: {several([name for name, _ in users])} may take {need} vCPUs of quota {code}"
        if value is not None and value >= need:
            continue
        if hidden:
            later.join(hidden)
        elif value is None:
            missing.append(said("quota_query", takes=takes, region=region, code=code))
        else:
            yield f"{takes}, and {value:g} are declared; raise value to {need}, or lower nodes.max", urn
    if missing:
        later.note(UndeterminableError(f"accountQuotas does not say what the account has; {'; '.join(missing)}"))


@cache
def _gpu_codes() -> frozenset[str | None]:
    return frozenset(quota_code(each, way) for each in machines(AWS) if each.gpus for way in (ON_DEMAND, SPOT)) - {None}


def _check_oci(stack: Stack, needs: _Needs, later: Later) -> Violations:
    hidden = Later()
    statements = [text(item) for quota in stack.of(OCI_QUOTA) for _, item in entries(quota.props, "statements", hidden)]
    # An unknown statement may change the number of another one.
    if needs and not later.clear(hidden):
        return
    for (region, code), users in needs.items():
        need = sum(units for _, units in users)
        if (allowed := _allowed(tuple(statements), code, region)) is not None and allowed >= need:
            continue
        takes = f"OCI {line(region)}: {several([name for name, _ in users])} may take {need} GPUs of quota {code}"
        if allowed is None:
            yield said("no_oci_quota", takes=takes, quota=OCI_QUOTA, code=code, need=need, region=region), None
        else:
            yield said("small_oci_quota", takes=takes, allowed=allowed, need=need), None


@lru_cache(maxsize=64)
def _allowed(statements: tuple[str, ...], code: str, region: str) -> int | None:
    """The sum that statements allow of a quota in a region. The last statement of each compartment counts; None without any."""
    numbers: dict[str, int] = {}
    for statement in statements:
        match = _STATEMENT.fullmatch(statement[:1024])
        if match is None or not fnmatchcase(code, (match["name"] or "*").strip("/").lower()):
            continue
        condition = match["condition"] or ""
        if "request.region" in condition.lower() and region not in _REGION.findall(condition):
            continue
        place = " ".join(match["where"].split())
        if (verb := match["verb"].lower()) == "unset":
            numbers.pop(place, None)
        elif verb == "zero":
            numbers[place] = 0
        elif match["number"]:
            numbers[place] = int(match["number"])
    return sum(numbers.values()) if numbers else None


# -- namespaces --------------------------------------------------------------------------------------------------------


def _check_namespaces(stack: Stack, later: Later) -> Violations:
    """The check for manifests. They contain no cloud quotas."""
    quotas = ByPlace(stack.of(RESOURCE_QUOTA), place_of)
    sets = tuple(runner_sets(stack.resources, later))
    for runner_set in sets:
        yield from _check_namespace(runner_set, quotas, later)
    yield from _check_sums(sets, quotas, later)


def _check_sums(sets: Iterable[RunnerSet], quotas: ByPlace[Resource], later: Later) -> Violations:
    """Each quota of GPUs admits the most runners of all sets of its namespace. A set without maxRunners has no number to add."""
    asked: dict[tuple[Place, str], list[tuple[RunnerSet, int, int]]] = {}
    for runner_set in sets:
        place, unsure = runner_set.job_place(later), Later()
        most = runner_set.most(unsure)
        for name, count in _gpus_of(runner_set.job_pod(unsure), unsure).items() if most else ():
            asked.setdefault((place, f"requests.{name}"), []).append((runner_set, most, count))
        if quotas.at(place, later):
            later.join(unsure)
    for (place, resource), rows in asked.items():
        needed = sum(most * count for _, most, count in rows)
        for quota in quotas.at(place, later):
            if (admits := whole(later.walk(quota.props, "spec", "hard", resource))) is not None and admits < needed:
                runners = " and ".join(f"{most} runners of {runner_set.name}" for runner_set, most, _ in rows)
                fails = any(runner_set.makes_pods(later) for runner_set, _, _ in rows)
                beyond = "a job beyond it fails" if fails else "a runner beyond it holds its job until there is room"
                asks = f"{runners} may ask for {needed}: {beyond}"
                limit = f"{RESOURCE_QUOTA} admits {admits} {resource}"
                yield said("small_quota", place=place, limit=limit, asks=asks, resource=resource, needed=needed), quota.urn


def _gpus_of(pod: PodSpec | None, later: Later) -> Counter[str]:
    """The GPUs that the containers of a pod ask for, by resource. Limits and requests of an extended resource are equal."""
    counted: Counter[str] = Counter()
    for container in containers_of(pod, later) if pod is not None else ():
        if container.field == REGULAR:
            counted.update({name: whole(amount) or 0 for name, amount in gpu_amounts(container, "limits", later).items()})
    return +counted


def _check_namespace(runner_set: RunnerSet, quotas: ByPlace[Resource], later: Later) -> Violations:
    unsure = Later()
    if not ((names := _gpu_names(runner_set, unsure)) or unsure) or runner_set.makes_pods(unsure):
        return
    for name in names:
        resource = f"requests.{name}"
        if lacks(quotas, runner_set.place, partial(_limits, resource), later) and not unsure:
            yield said("no_resource_quota", set=runner_set, quota=RESOURCE_QUOTA, resource=resource), runner_set.resource.urn
    later.join(unsure)


def _gpu_names(runner_set: RunnerSet, later: Later) -> list[str]:
    """The GPU resources that a runner asks for, each once."""
    pod = runner_set.pod(later)
    containers = containers_of(pod, later) if pod is not None else ()
    return sorted(
        {name for container in containers for kind in ("limits", "requests") for name in gpu_amounts(container, kind, later)}
    )


def _limits(resource: str, quota: Data) -> bool:
    return quantity(walk(quota, "spec", "hard", resource)) is not None


_TYPES = MACHINES | RUNNER_SETS | {SERVICE_QUOTA, OCI_QUOTA, RESOURCE_QUOTA, CONFIG_MAP}
_ALONE = (RUNNER_SETS | {RESOURCE_QUOTA, CONFIG_MAP}, _check_namespaces)
RULE = StackRule(**facts(__name__), types=_TYPES, check=_check, in_manifests=_ALONE)
