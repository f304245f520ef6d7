"""spot-diversified: a spot GPU pool has several machine types and zones, so that a type that is sold out does not stop it.

Judged: EKS managed node groups, Auto Scaling groups, OKE node pools and Karpenter NodePools that buy spot, unless they leave
(taint `gpu-ci/leaving`): such a pool gets no new job, and its zones go one after the other.

- All types of a pool have the same GPUs, and similar vCPUs and memory, because Cluster Autoscaler calculates with one node size
  for all of them.
- A type in a launch template is the only type of its group (EKS user guide). OKE has one shape per pool, so the rule judges its
  placements, and whether OCI sells the shape as preemptible.
- Subnets count as zones, because a preview does not know the zone of a subnet. A pool on EKS has a node group per zone, and the
  subnets of all its groups count. A Karpenter pool is in every zone of its subnets
  unless a requirement names zones.
"""

from collections.abc import Iterator

from fleet.facts.hardware import SPOT, find
from fleet.facts.quantities import quantity
from fleet.facts.spot import MAX_SPREAD, MIN_TYPES, MIN_ZONES, spread as how_many_times

from .kinds import AUTO_SCALING_GROUP, EKS_NODE_GROUP, KARPENTER_NODE_POOL, OKE_NODE_POOL, OVERRIDES, POOLS, fields
from .pools import Choice, bought, choices, leaves, of_gpu_pool, offers, sold_as_spot
from .read import Data, Faults, Later, bound, count, entries, keys, places, provided, shown, text, walk
from .rule import Args, StackRule, each, facts, said


def _check(args: Args, later: Later) -> Faults:
    token, props, config = args.type, args.props, args.config

    def faults(unsure: Later) -> Faults:
        yield from _types(token, props, bound(config, "minTypes"), config.get("maxSpread"), unsure)
        yield from _zones(token, props, bound(config, "minZones"), unsure)

    unsold = Later()
    spot = unsold.get(lambda: SPOT in bought(token, props) and not leaves(token, props), False)
    yield from provided(spot, unsold, lambda unsure: of_gpu_pool(token, props, faults, unsure), later)


def _types(token: str, props: Data, minimum: int, spread: Data, later: Later) -> Faults:
    unread = Later()
    types = list(choices(token, props, unread))
    for choice in types:
        if choice.machine is not None and not sold_as_spot(choice.name):
            yield f"{choice.path}: {shown(choice.name)} is not sold as spot; use another type, or buy on demand"
    by_shape = token == OKE_NODE_POOL or (token == AUTO_SCALING_GROUP and _by_attributes(props, unread))
    later.join(unread)
    if by_shape:
        return
    names = dict.fromkeys(choice.name for choice in types)
    path = _PATHS[token]
    if not (unread or len(names) >= minimum) and (names or token != KARPENTER_NODE_POOL):
        few = f"{len(names)} type{'' if len(names) == 1 else 's'}" if names else "no type, so it has only its launch template's"
        yield f"{path} has {few}: a spot GPU pool needs {minimum} or more; add types with the same GPUs"
    yield from _alike(types, quantity(spread) or MAX_SPREAD)


def _alike(types: list[Choice], spread: Data) -> Faults:
    """The faults of types that differ too much from the first one."""
    machines = [(choice, machine) for choice in types if (machine := find(choice.name)) is not None]
    if not machines:
        return
    first, reference = machines[0]
    for choice, other in machines[1:]:
        if (other.gpus, other.gpu) != (reference.gpus, reference.gpu):
            yield said("other_gpus", choice=choice, first=first)
        elif how_many_times(reference, other) > spread:
            yield said("other_size", choice=choice, spread=float(spread), first=first)


def _by_attributes(props: Data, later: Later) -> bool:
    """Whether EC2 chooses among all types with some attributes."""
    overrides = entries(props, OVERRIDES, later)
    return later.get(lambda: any(keys(walk(override, "instanceRequirements")) for _, override in overrides), False)


def _zones(token: str, props: Data, minimum: int, later: Later) -> Faults:
    for path, number, noun in _counted(token, props, later):
        if number < minimum:
            fix = _ADD_GROUP if token == EKS_NODE_GROUP else "add one"
            yield said("few_zones", path=path, has=f"{number} {noun}{'' if number == 1 else 's'}", minimum=minimum, fix=fix)


def _counted(token: str, props: Data, later: Later) -> Iterator[tuple[str, int, str]]:
    """Path, number and noun of what counts as the pool's zones. A Karpenter pool need not name any."""
    with later:
        if token == EKS_NODE_GROUP:
            yield "subnetIds", count(walk(props, "subnetIds")), "subnet"
        elif token == AUTO_SCALING_GROUP:
            # AWS accepts only one of the two.
            number = count(walk(props, "vpcZoneIdentifiers")) or count(walk(props, "availabilityZones"))
            yield "vpcZoneIdentifiers", number, "subnet"
        elif token == OKE_NODE_POOL:
            unread = Later()
            domains = {text(domain) for _, domain in places(props, f"{_PLACEMENTS}.[].availabilityDomain", unread)}
            if later.clear(unread):
                yield _PLACEMENTS, len(domains), "availability domain"
    for path, _, item in offers(props, ("topology.kubernetes.io/zone",), later) if token == KARPENTER_NODE_POOL else ():
        with later:
            yield f"{path}.values", count(walk(item, "values")), "zone"


_PLACEMENTS = "nodeConfigDetails.placementConfigs"
_ADD_GROUP = "add a node group of the pool in another zone, and let nodes.max be one per zone or more"
_PATHS = fields("types")

_FACTS = facts(__name__, minTypes=MIN_TYPES, minZones=MIN_ZONES, maxSpread=MAX_SPREAD)
RULE = StackRule(**_FACTS, types=POOLS | {AUTO_SCALING_GROUP}, check=each(_check))
