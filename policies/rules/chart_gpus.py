"""GPUs that the values of a chart ask for. Nothing shows the chart's templates, so any mapping with GPUs counts as a container,
times the numbers of pods beside it and above it.
"""

import re
from collections.abc import Iterator

from fleet.facts.scheduling import is_gpu_resource

from .read import Data, Faults, Later, gpus, items, keys, walk, whole
from .releases import Release, step
from .rule import said

_OWN_WORD = re.compile(r"(?i)(?:request|limit|num|n)?_?gpus?_?(?:count|num|request|limit|per_?\w+)?s?")
"""Numbers of GPUs in the words of single charts, as requestGPU."""
_PODS = re.compile(
    r"(?i)(?:num|max|min|desired)?_?(?:replica|node|worker|instance|pod|runner)s?_?(?:count|number)?|parallelism|completions"
)
"""Numbers of pods."""
_SCALERS = re.compile(r"(?i).*(?:scal|hpa|keda|job|deploy).*")
"""Keys of mappings that say how many pods their neighbors make."""
_LIMITS = ("limits", "requests")
_PASSING = frozenset(("nodeSelector", "tolerations", "affinity", "labels", "annotations", "env"))
_MOST = 10**6


def chart_faults(release: Release, per_container: int, in_all: int, later: Later) -> Faults:
    """What a chart's values ask for above the ceilings. The scale-set chart's pods are judged as pods."""
    with later:
        amounts = () if release.is_scale_set else list(_asked(release.values, release.values_path, 1, later))
        for path, number, _ in amounts:
            if number > per_container:
                yield said("container_values", path=path, number=gpus(number), most=per_container)
        total = min(sum(number * pods for _, number, pods in amounts), _MOST)
        if total > in_all and any(pods > 1 for *_, pods in amounts) | (len(amounts) > 1):
            yield said("chart_gpus", release=release, total=gpus(total), most=in_all)


def _asked(value: Data, path: str, pods: int, later: Later) -> Iterator[tuple[str, int, int]]:
    """Path of each mapping with GPUs, their number, and the number of pods."""
    scalers = [later.walk(value, key) for key in keys(value) if _SCALERS.fullmatch(key)]
    sizes = [value, *(one for one in scalers if later.walk(one, "enabled") is not False)]
    numbers = (whole(later.walk(one, key)) for one in sizes for key in keys(one) if _PODS.fullmatch(key))
    pods = min(pods * max(1, 1, *(number or 0 for number in numbers)), _MOST)
    holders = [value, *(later.walk(value, key) for key in _LIMITS)]
    if number := max(sum(_count(key, later.walk(holder, key)) for key in keys(holder)) for holder in holders):
        yield path, number, pods
    for key in keys(value):
        if key not in (*_LIMITS, *_PASSING):
            yield from _asked(later.walk(value, key), step(path, key), pods, later)
    for index, item in items(value, later):
        yield from _asked(item, f"{path}[{index}]", pods, later)


def _count(key: str, amount: Data) -> int:
    if not (is_gpu_resource(key) or _OWN_WORD.fullmatch(key)) or isinstance(amount, bool):
        return 0
    amounts = [whole(walk(amount, word)) for word in _WORDS] if isinstance(amount, dict) else [whole(amount)]
    return min(max(0, *(number or 0 for number in amounts)), _MOST)


_WORDS = ("count", "number", "limit", "quantity")
