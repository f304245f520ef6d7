"""What component tests share: the project's stacks and ways to find a resource in a recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from offline import stackfile
from offline.record import Recording, Resource, record
from offline.stackfile import StackConfig

ROOT = Path(__file__).resolve().parents[2]
STACKS = {"staging": None, "right-size": ROOT / "examples" / "Pulumi.right-size.yaml"}
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
