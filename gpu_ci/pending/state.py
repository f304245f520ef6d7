"""A stack's state as `pulumi stack export` prints it. Secrets are encrypted there and are never read."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from fleet.facts.errors import InputError, quoted
from gpu_ci.doctor import backend

Object = Mapping[str, Any]
KUBERNETES = "kubernetes:"
"""The start of the types of Kubernetes."""


class Resource(BaseModel):
    """A resource of the state, or of a pending operation, which has no id yet. A secret is an object with its ciphertext."""

    urn: str
    type: str
    custom: bool = False
    id: str = ""
    parent: str = ""
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    provider: Annotated[str, AfterValidator(lambda reference: reference.rpartition("::")[0])] = ""
    """The URN of its provider; the state has it with the provider's id after it."""
    init_errors: list[Any] = Field(default=[], alias="initErrors")

    @property
    def name(self) -> str:
        """Its name in the program."""
        return self.urn.rpartition("::")[2]

    @property
    def names(self) -> Iterator[str]:
        """Its id and its ARN, by which a cloud may list it."""
        yield from (name for name in (self.id, self.outputs.get("arn")) if isinstance(name, str) and name)


class _Operation(BaseModel):
    type: str
    resource: Resource


class _Deployment(BaseModel):
    resources: list[Resource] | None = None
    pending_operations: list[_Operation] | None = None


class _Export(BaseModel):
    deployment: _Deployment | None


class State(NamedTuple):
    """The resources by URN, and (kind, resource) of each pending operation."""

    resources: Mapping[str, Resource]
    operations: tuple[tuple[str, Resource], ...]

    def provider_of(self, resource: Resource) -> Object:
        """The inputs of a resource's provider."""
        return provider.inputs if (provider := self.resources.get(resource.provider)) is not None else {}

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
        deployment = _Export.model_validate_json(text).deployment or _Deployment()
    except ValidationError:
        fix = "it is empty: delete the empty .json.attrs beside the state, then export again" if not text.strip() else ""
        start = quoted(text.strip()[:20])
        why = f"{what}: must be the JSON that pulumi stack export prints, with `deployment`"
        raise InputError(f"{why}; {fix or f'it starts with {start}'}") from None
    operations = tuple((operation.type, operation.resource) for operation in deployment.pending_operations or ())
    return State({resource.urn: resource for resource in deployment.resources or ()}, operations)
