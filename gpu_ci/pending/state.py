"""A stack's state as `pulumi stack export` prints it. Secrets are encrypted there and are never read."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet.facts.errors import InputError, quoted
from gpu_ci.doctor import backend

Object = Mapping[str, Any]
KUBERNETES = "kubernetes:"
"""The start of the types of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource of the state, or of a pending operation, which has no id yet."""

    content: Object

    @property
    def urn(self) -> str:
        """Its URN."""
        return str(self.content["urn"])

    @property
    def type(self) -> str:
        """Its type."""
        return str(self.content["type"])

    @property
    def name(self) -> str:
        """Its name in the program."""
        return self.urn.rpartition("::")[2]

    @property
    def id(self) -> str:
        """Its id; empty if it has none."""
        return str(self.content.get("id") or "")

    @property
    def inputs(self) -> Object:
        """Its inputs. A secret is an object with its ciphertext."""
        return self.content.get("inputs") or {}

    @property
    def provider(self) -> str:
        """The URN of its provider; the state has it with the provider's id after it."""
        return str(self.content.get("provider") or "").rpartition("::")[0]

    @property
    def names(self) -> Iterator[str]:
        """Its id and its ARN, by which a cloud may list it."""
        arn = (self.content.get("outputs") or {}).get("arn")
        yield from (name for name in (self.id, arn) if isinstance(name, str) and name)


@dataclass(frozen=True, slots=True)
class State:
    """The resources by URN, and (kind, resource) of each pending operation."""

    resources: Mapping[str, Resource]
    operations: tuple[tuple[str, Resource], ...]

    def provider_of(self, resource: Resource) -> Object:
        """The inputs of a resource's provider."""
        provider = self.resources.get(resource.provider)
        return provider.inputs if provider is not None else {}

    @property
    def names(self) -> frozenset[str]:
        """What a cloud may call what the state has."""
        return frozenset(name for resource in self.resources.values() for name in resource.names)

    @property
    def clusters(self) -> list[str]:
        """The clusters in which Kubernetes' providers work."""
        providers = (each.inputs for each in self.resources.values() if each.type.startswith("pulumi:providers:kubernetes"))
        return list(dict.fromkeys(filter(None, map(cluster_of, providers))))


def cluster_of(provider: Object) -> str:
    """The cluster of a provider of Kubernetes: the identifier that the program gives it, or its context."""
    name = provider.get("clusterIdentifier") or provider.get("context")
    return name if isinstance(name, str) else ""


def export(stack: str, root: Path) -> str:
    """What the CLI prints. Raises InputError."""
    printed, why = backend.read(root, "stack", "export", "--stack", stack)
    if printed is None:
        hint = "put the CLI on PATH, run pulumi login, or give the output of pulumi stack export with --state"
        if "EOF" in why:
            hint = "a killed run can leave an empty .json.attrs beside the state of a file backend; delete that file"
        raise InputError(f"stack: pulumi stack export must print the state of {stack}; {why}; {hint}")
    return printed


def read(path: Path) -> str:
    """The text of a file, or of stdin for `-`. Raises InputError."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"--state: cannot read {path} ({type(error).__name__}); give what pulumi stack export prints") from None


def parse(text: str, what: str) -> State:
    """The state. `what` names the text in errors. Raises InputError."""
    try:
        content = json.loads(text)["deployment"] or {}
        resources = [Resource(each) for each in content.get("resources") or ()]
        operations = tuple((str(each["type"]), Resource(each["resource"])) for each in content.get("pending_operations") or ())
        state = State({each.urn: each for each in resources}, operations)
        for resource in (*resources, *(resource for _, resource in operations)):
            _ = resource.urn, resource.type, resource.inputs.keys()
    except (ValueError, LookupError, TypeError, AttributeError):
        fix = "it is empty: delete the empty .json.attrs beside the state, then export again" if not text.strip() else ""
        start = quoted(text.strip()[:20])
        raise InputError(
            f"{what}: must be the JSON that pulumi stack export prints, with `deployment`; {fix or f'it starts with {start}'}"
        ) from None
    return state
