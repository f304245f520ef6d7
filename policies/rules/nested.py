"""Objects and texts at any depth of a property without a fixed shape: a chart's values, a container, metadata."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from fleet.facts.credentials import mask

from .read import Data, Later, items, keys, known, shown
from .releases import Release

SCHEDULING = frozenset(("annotations", "labels", "env", "resources", "tolerations", "nodeSelector", "affinity"))
"""Keys of values that contain no pod, container or image, but often values that are unknown in a preview."""

_POD_TEMPLATES = frozenset(("template", "listenerTemplate"))

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def passed_over(release: Release) -> frozenset[str]:
    """Keys of a release's values that `objects` skips. The scale-set chart's pod templates are judged as pods.

    Raises UnknownError.
    """
    return SCHEDULING | _POD_TEMPLATES if release.is_scale_set else SCHEDULING


def objects(value: Data, path: str, later: Later, passing: frozenset[str] = frozenset()) -> Iterator[tuple[str, Data]]:
    """Path and body of each object in the value, without those under the keys `passing`. `later` collects unknown ones."""
    if isinstance(value, Mapping):
        yield path, value
        for key in keys(value):
            if key not in passing:
                with later:
                    yield from objects(known(value[key]), step(path, key), later, passing)
        return
    for index, item in items(value, later):
        yield from objects(item, f"{path}[{index}]", later, passing)


def texts(value: Data, path: str, later: Later) -> Iterator[tuple[str, str]]:
    """Path and text of each string in the value. `later` collects unknown ones."""
    if isinstance(value, str):
        yield path, value
        return
    for key in keys(value):
        with later:
            yield from texts(known(value[key]), step(path, key), later)
    for index, item in items(value, later):
        yield from texts(item, f"{path}[{index}]", later)


def step(path: str, key: str) -> str:
    """The path of an object's key. A key may be a credential, so it is masked."""
    return path + _suffix(key)


@lru_cache(maxsize=1024)
def _suffix(key: str) -> str:
    key = mask(key)
    return f".{key}" if _PLAIN.fullmatch(key) else f"[{shown(key)}]"
