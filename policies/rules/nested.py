"""Objects and texts at any depth of a property whose shape is its owner's own: a chart's values, a container, metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.facts.credentials import mask

from .read import Later, items, keys, shown
from .releases import Release

SCHEDULING = frozenset(("annotations", "labels", "env", "resources", "tolerations", "nodeSelector", "affinity"))
"""Keys of values below which a chart keeps no pod, container or image of its own, but often what is known late."""

_POD_TEMPLATES = frozenset(("template", "listenerTemplate"))

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def passed_over(release: Release) -> frozenset[str]:
    """Keys of a release's values below which nothing is looked for; the scale-set chart's pod templates are judged as pods.

    Raises UnknownValueError.
    """
    return SCHEDULING | _POD_TEMPLATES if release.is_scale_set else SCHEDULING


def objects(value: Any, path: str, later: Later, passing: frozenset[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """Path and object of the value and of all below it, but for what is under the keys `passing`. Unknown ones are put off."""
    if isinstance(value, Mapping):
        yield path, value
        for key in keys(value):
            if key not in passing:
                with later:
                    yield from objects(value[key], step(path, key), later, passing)
        return
    for index, item in items(value, later):
        yield from objects(item, f"{path}[{index}]", later, passing)


def texts(value: Any, path: str, later: Later) -> Iterator[tuple[str, str]]:
    """Path and text of the value and of all below it. Unknown ones are put off."""
    if isinstance(value, str):
        yield path, value
        return
    for key in keys(value):
        with later:
            yield from texts(value[key], step(path, key), later)
    for index, item in items(value, later):
        yield from texts(item, f"{path}[{index}]", later)


def step(path: str, key: str) -> str:
    """The path of an object's key; a key may be a credential, and is masked."""
    key = mask(key)
    return f"{path}.{key}" if _PLAIN.fullmatch(key) else f"{path}[{shown(key)}]"
