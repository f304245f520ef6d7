"""The file and key that a message asks people to change: a property of the policy's config, or a setting of the stack file.

A check writes `setting("maxGpus")`, `entry("types", "g6.xlarge")` or `stack_file("tags")`. When `Rule` and `StackRule` report,
they fill in the policy and the file, because only the URN names the stack. A message without a place gets that of the rule's
`settings`. People edit `policies/stacks.toml`, unless the stack has only a JSON that a person wrote. For a manifest of
`offline check` the file is the manifest's own.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from .kinds import HELM, POD, RUNNER_SET, kind_of

_FOLDER = Path(__file__).resolve().parent.parent
"""Has stacks.toml and config/, in the repository and in a published pack."""
_PROGRAM, _MANIFESTS = "gpu-ci", "check"
"""The projects of URNs: that of the fleet's program, and that of `offline check`."""

_MARK = "\x00"
"""Marks the start and end of a place to fill in. `read.line` escapes this character, so no value of a resource contains it."""
_MARKED = re.compile(f"{_MARK}(:?)([^{_MARK}]*){_MARK}")
CLUSTER_SETTINGS = "clusters.<cluster>"
POOL_SETTINGS, RUNNER_SETTINGS = f"{CLUSTER_SETTINGS}.pools.<pool>", f"{CLUSTER_SETTINGS}.runners.<runner>"
JOB_SETTINGS, WORKLOAD_SETTINGS = f"{CLUSTER_SETTINGS}.jobs.<job>", f"{CLUSTER_SETTINGS}.workloads.<workload>"
"""Keys of the stack file. A plan knows the names in <>; at a preview the resource's name has them."""
PLACED = re.compile(r"(?:Pulumi\.[^ ]+\.yaml: gpu-ci:[^ ;,)]*[^ ;,).]|policies/(?:stacks\.toml|config/[^ ]+\.json): [\w.-]*\w)")
"""A place in a message that is filled in."""


def setting(name: str) -> str:
    """The config property of the policy that reports, as `policies/stacks.toml: staging.stack-gpu-ceiling.maxGpus`."""
    return f"{_MARK}{name}{_MARK}"


def entry(name: str, value: str) -> str:
    """What a list of the policy's config lacks, as `add "g5.xlarge" to policies/stacks.toml: …`."""
    return f'add "{value}" to {setting(name)}'


def stack_file(key: str) -> str:
    """A setting of the stack file, as `Pulumi.staging.yaml: gpu-ci:tags`. Names in <> are those of the resource."""
    return f"{_MARK}:{key}{_MARK}"


def pod_settings(key: str) -> dict[str, str]:
    """The setting that creates a pod, by the type of the resource that has the pod."""
    jobs = {token: f"{JOB_SETTINGS}.{key}" for token in POD if kind_of(token) == "Job"}
    return dict.fromkeys(HELM | RUNNER_SET, f"{RUNNER_SETTINGS}.{key}") | jobs | {"": f"{WORKLOAD_SETTINGS}.{key}"}


def filled(message: str, policy: str, urn: str, key: str = "") -> str:
    """The message of a policy on the stack of this URN (urn:pulumi:<stack>::<project>::…), with its places filled in.

    `key` is the setting that changes what the message is about. A resource of the fleet's program gets it if the message names no
    place.
    """
    stack, _, rest = urn.removeprefix("urn:pulumi:").partition("::")
    project = rest.partition("::")[0]

    def place(found: re.Match[str]) -> str:
        name = f"{policy}.{found[2]}"
        if not found[1]:
            return f"policies/config/{stack}.json: {name}" if _by_hand(stack) else f"policies/stacks.toml: {stack}.{name}"
        if project == _MANIFESTS:
            return urn.rpartition("::")[2].partition("#")[0]
        return f"Pulumi.{stack}.yaml: gpu-ci:{found[2]}"

    if key and project == _PROGRAM and not _MARKED.search(message):
        message = f"{message}. Change {stack_file(key)}"
    return _MARKED.sub(place, message)


def key_of(settings: str | Mapping[str, str], urn: str) -> str:
    """The setting of a rule for the resource of this URN: by its type, then "" for all other types."""
    if isinstance(settings, str):
        return settings
    token = urn.split("::")[2].rpartition("$")[2] if urn.count("::") > 2 else ""
    return settings.get(token, settings.get("", ""))


@cache
def _by_hand(stack: str) -> bool:
    """Whether a stack is not in stacks.toml and has a JSON that a person wrote. `offline.policyconfig` reports a broken TOML."""
    try:
        known = stack in tomllib.loads((_FOLDER / "stacks.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        known = False
    return not known and (_FOLDER / "config" / f"{stack}.json").is_file()
