"""stack-gpu-ceiling: all pools and runner sets of a stack together have no more GPUs than the agreed limit.

Counted (`groups.py`): the maximum of each group of machines times the GPUs of its largest type. This includes standing machines
and the machines that launchers boot for jobs. A Karpenter NodePool counts with its GPU limit, which Karpenter may exceed for a
short time. A quota of GPUs in a namespace is not far above the limit either: a GPU may have several shares.
"""

from collections import Counter

from fleet.facts.hardware import CAPACITY_BLOCK, ON_DEMAND, RESERVED, SPOT
from fleet.facts.scheduling import is_gpu_resource

from .groups import MACHINES, SHOWN, TIMES, Group, either, groups, several
from .kinds import RESOURCE_QUOTA
from .pools import gpus_each
from .read import Later, bound, keys, whole
from .rule import Stack, StackRule, Violations, facts, said, setting

FAR = 10
_WORDS = {SPOT: "spot", ON_DEMAND: "on demand", RESERVED: "reserved", CAPACITY_BLOCK: "in a capacity block"}


def _check(stack: Stack, later: Later) -> Violations:
    bought = Counter[str]()
    counted: list[tuple[int, Group]] = []
    for group in groups(stack.resources, later):
        if (gpus := group.gpus) is None:
            yield _fault(group), group.urn
        elif gpus:
            bought[group.capacity] += gpus
            counted.append((gpus, group))
    limit = bound(stack.config, "maxGpus")
    if (most := bought.total()) > limit:
        ways = ", ".join(f"{bought[way]} {words}" for way, words in _WORDS.items() if bought[way])
        yield f"{most} GPUs at most ({ways}) are above {limit}: {_holders(counted)}, or raise {setting('maxGpus')}", None

    for quota in stack.of(RESOURCE_QUOTA):
        hard = later.walk(quota.props, "spec", "hard")
        for name in filter(lambda name: is_gpu_resource(name.removeprefix("requests.")), keys(hard)):
            if (admits := whole(later.walk(hard, name)) or 0) > FAR * max(limit, 1):
                yield said("far_quota", name=name, admits=admits, far=FAR, limit=limit), quota.urn


def _holders(counted: list[tuple[int, Group]]) -> str:
    counted.sort(key=lambda pair: -pair[0])
    parts = [f"{group.name} {_product(gpus, group)} {_WORDS[group.capacity]}" for gpus, group in counted]
    settings = either(group.settings[1] for _, group in counted[:SHOWN])
    return f"{several(parts)}; lower {settings or 'the number'} of one of these"


def _product(gpus: int, group: Group) -> str:
    per_machine = gpus_each(group.choices) or 0
    return f"{group.most} {TIMES} {per_machine} = {gpus}" if (group.most or 0) * per_machine == gpus else str(gpus)


def _fault(group: Group) -> str:
    if uncounted := next((choice.name for choice in group.choices if choice.gpus is None), ""):
        return said("uncounted_gpus", group=group, uncounted=uncounted)
    if not group.choices and group.most is not None:
        return f"{group.name}: no machine type is named, so its GPUs cannot be counted; name its types"
    return f"{group.name}: it has no maximum number of machines, so nothing limits its GPUs; set its maximum"


RULE = StackRule(**facts(__name__), types=MACHINES | {RESOURCE_QUOTA}, check=_check)
