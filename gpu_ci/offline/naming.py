"""Fills in what a policy cannot know of the stack file: its path, and the settings that a resource comes from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet.loading.stackfile import StackConfig
from fleet.providers.fleet import NAMESPACE
from gpu_ci.offline.judge import Verdict

_KEY = re.compile(rf"(?<=: {NAMESPACE}:)clusters\.<[\w.<>-]*[\w>]")
"""A key with a name that is not known, as `clusters.<cluster>.pools.<pool>.nodes.max`."""


def named(config: StackConfig, verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The verdicts with the path of the stack file that was read, and with the names of clusters, pools and runner sets."""
    usual = f"Pulumi.{config.stack}.yaml"

    def message(verdict: Verdict) -> str:
        resource = verdict.urn.rpartition("::")[2]
        filled = _KEY.sub(lambda key: key_of(key[0], resource, config.objects), verdict.message)
        return filled if config.path.name == usual else filled.replace(usual, str(config.path))

    return tuple(replace(verdict, message=message(verdict)) for verdict in verdicts)


def key_of(key: str, resource: str, settings: Mapping[str, object]) -> str:
    """The key with the names that the resource's logical name begins with: usw2-t4-spot-launch is of cluster usw2, pool t4-spot.

    A resource that no pool or set makes gets the key of its cluster. Without a cluster the key stays as it is.
    """
    first, *steps = key.split(".")
    at, tail, path, count = settings.get(f"{NAMESPACE}:{first}"), resource, [first], 0
    for step in steps:
        entries, name = at if isinstance(at, Mapping) else {}, step
        if step.startswith("<"):
            names = [name for name in entries if re.match(rf"{re.escape(name)}(?:[-.]|$)", tail)]
            # A stack of one cluster has no other that the message could mean.
            if not (names := names or (list(entries) if len(entries) == 1 and step == "<cluster>" else [])):
                return ".".join(path[:count]) if count else key
            name = max(names, key=len)
            tail, count = tail[len(name) + 1 :], len(path) + 1
        path.append(name)
        at = entries.get(name)
    return ".".join(path)
