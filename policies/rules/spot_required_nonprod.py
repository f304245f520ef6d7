"""spot-required-nonprod: GPU pools for bursts of jobs run on spot capacity outside production.

Judged: EKS managed node groups, OKE node pools, Karpenter NodePools, Auto Scaling groups that name GPU types. Reserved capacity
also passes, because its use costs nothing more. The rule reads:

- EKS: `capacityType`; a launch template's market options do not change it. A group in a capacity reservation is ON_DEMAND, its
  reservation is in the launch template, and a preview does not know which template that is. The rule therefore trusts the group's
  label `gpu-ci/capacity=reserved`, like its role label. `GpuNodeGroup` sets it only for pools with a reservation.
- OKE: `preemptibleNodeConfig` or `capacityReservationId` of each placement. OCI sells few shapes as preemptible (docs.oracle.com,
  Preemptible Instances; `fleet.facts.hardware.preemptible`). The rule demands nothing of a pool on another shape, such as A10 or
  bare metal.
- Karpenter: the requirements.
- Auto Scaling groups: the distribution of the mixed instances policy, which also names the types.

A pool with the role `fallback` is on demand, and by default the rule does not judge it: `spot-with-fallback` refuses such a pool
unless it comes after a spot pool.

The rule does not judge OCI machines that are runners. Instance pools and configurations cannot be preemptible (same page), and a
machine that a launcher boots for one job is not a resource. The settings reject spot if OCI does not sell it.
"""

from collections.abc import Callable, Sequence
from functools import partial

from fleet.facts.hardware import RESERVED, SPOT
from fleet.facts.scheduling import CAPACITY_LABEL, ROLE_LABEL

from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, KARPENTER_NODE_POOL, OKE_NODE_POOL, POOLS
from .pools import CAPACITY_KEY, bought, of_gpu_pool, requirements, role, sold_as_spot
from .read import Data, Faults, Later, count, entries, keys, line, provided, shown, strings, text, walk
from .rule import POOL_SETTINGS, Args, Rule, facts, said, stack_file


def _check(args: Args, later: Later) -> Faults:
    token, props = args.type, args.props
    roles = strings(args.config, "roles")
    unnamed = Later()
    role_label = unnamed.get(lambda: role(token, props), "")
    if role_label and role_label not in roles:
        return
    exclusion = _exclusion(role_label, roles)

    def faults(unsure: Later) -> Faults:
        return (f"{fault}{exclusion}" for fault in _FAULTS[token](props, unsure))

    # An unknown role may be one that this rule does not judge.
    yield from provided(not unnamed, unnamed, lambda unsure: of_gpu_pool(token, props, faults, unsure), later)


def _exclusion(role_label: str, roles: Sequence[str]) -> str:
    """How to exclude a pool from this rule. Pools of a stack file have a role; others may lack the label."""
    judged = f"without a {ROLE_LABEL} label it is judged as {', '.join(map(line, roles))}"
    if "release" in roles:
        return "" if role_label else f"; {judged}"
    if role_label:
        return f", or, if its jobs must not be interrupted, write release as {stack_file(f'{POOL_SETTINGS}.role')}"
    return f", or label it {ROLE_LABEL}=release: {judged}"


def _eks(props: Data, later: Later) -> Faults:
    with later:
        capacity = walk(props, "capacityType")
        on_demand = capacity is None or text(capacity) == "ON_DEMAND"
        if on_demand and text(walk(props, "labels", CAPACITY_LABEL)) == RESERVED:
            return
        # Using capacity blocks and reservations costs nothing more, because they cost the same when they are not used.
        if text(capacity) not in ("SPOT", "CAPACITY_BLOCK"):
            bought = "; EKS then buys ON_DEMAND" if capacity is None else ""
            yield f"capacityType is {shown(capacity)}{bought}: burst GPU pools must run on spot; write SPOT"


def _oke(props: Data, later: Later) -> Faults:
    unsold = Later()
    sold = unsold.get(lambda: sold_as_spot(text(walk(props, "nodeShape"))), False)
    return provided(sold, unsold, partial(_oke_places, props), later)


def _oke_places(props: Data, later: Later) -> Faults:
    path = "nodeConfigDetails.placementConfigs"
    with later:
        if not count(walk(props, *path.split("."))):
            yield f"{path} has no entry: burst GPU pools are preemptible; write one with preemptibleNodeConfig"
    for at, place in entries(props, path, later):
        unread = Later()
        with unread:
            if keys(walk(place, "preemptibleNodeConfig")):
                continue
        with unread:
            if text(walk(place, "capacityReservationId")):
                continue
        if later.clear(unread):
            yield f"{at}.preemptibleNodeConfig is not set: burst GPU pools are preemptible; set it"


def _karpenter(props: Data, later: Later) -> Faults:
    # Requirements are joined by AND: one that allows only spot is enough to pass, and one without spot is enough to fail.
    hidden = Later()
    faults: list[tuple[bool, str]] = []
    for path, key, operator, requirement in requirements(props, hidden):
        if key != CAPACITY_KEY:
            continue
        unread = Later()
        names = [text(name) for _, name in entries(requirement, "values", unread)]
        cheap = [name for name in names if name in (SPOT, RESERVED)]
        if operator == "In" and cheap == names and (names or unread):
            if not unread:
                return
            hidden.join(unread)
            continue
        bars = operator == "In" and not cheap and not unread
        faults.append(
            (bars, said("not_spot", path=path, key=CAPACITY_KEY, operator=operator, values=", ".join(map(line, names))))
        )
    if not (faults or hidden):
        yield said("any_capacity", key=CAPACITY_KEY)
    yield from (fault for bars, fault in faults if bars or not hidden)
    later.join(hidden)


def _scaling_group(props: Data, later: Later) -> Faults:
    with later:
        if bought(AUTO_SCALING_GROUP, props) != {SPOT}:
            yield said("on_demand_share")


_FAULTS: dict[str, Callable[[Data, Later], Faults]] = {
    EKS_NODE_GROUP: _eks,
    OKE_NODE_POOL: _oke,
    KARPENTER_NODE_POOL: _karpenter,
    AUTO_SCALING_GROUP: _scaling_group,
}

RULE = Rule(**facts(__name__), types=POOLS | {AUTO_SCALING_GROUP}, check=_check)
