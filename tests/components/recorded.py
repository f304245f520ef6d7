"""What component tests share: the project's stacks and ways to find a resource in a recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from offline import stackfile
from offline.record import Recording, Resource, record
from offline.stackfile import StackConfig

ROOT = Path(__file__).resolve().parents[2]
STACKS = {"staging": None, "prod": None} | {
    path.name.split(".")[1]: path for path in sorted((ROOT / "examples").glob("Pulumi.*.yaml"))
}
SECRET = "gpu-ci:githubPrivateKey"  # noqa: S105 - a config key


def stack_config(stack: str) -> StackConfig:
    """The stack's config with a placeholder for the App's key."""
    return stackfile.with_placeholders(stackfile.load(stack, ROOT, stack_file=STACKS[stack]), [SECRET])


def of_type(recording: Recording, token: str) -> tuple[Resource, ...]:
    """The recording's resources of one type."""
    return tuple(resource for resource in recording.resources if resource.type == token)


def named(recording: Recording, name: str, token: str) -> Resource:
    """The one resource of a type and logical name."""
    (found,) = [resource for resource in of_type(recording, token) if resource.name == name]
    return found


def build_alone(program: Callable[[], object]) -> Recording:
    """What a program of a test's own declares, without any stack file."""
    config = StackConfig("gpu-ci", "test", ROOT / "Pulumi.test.yaml", {}, frozenset(), {})
    return record(program, config)


def before(recording: Recording, resource: Resource) -> set[str]:
    """URNs of all that stands before a resource: dependencies, parents, providers, and theirs."""
    found: set[str] = set()
    todo = [resource]
    while todo:
        here = todo.pop()
        wanted = {*here.dependencies, here.provider_urn, here.parent} - {""}
        for urn in wanted - found:
            found.add(urn)
            todo.append(recording.by_urn[urn])
    return found
