"""The fleet of one stack, read from the stack's config and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import Field, GetCoreSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema, ErrorDetails, core_schema

from fleet.cluster import Cluster
from fleet.errors import FleetError, Problem, shown
from fleet.github import GitHub
from fleet.model import DnsLabel, Model, TagKey, TagValue, problem
from fleet.providers import PROVIDERS
from fleet.runner import GENERIC_LABELS, PodRunner
from fleet.suggest import hint

NAMESPACE = "gpu-ci"
SECRETS = ("githubPrivateKey",)
"""Config keys that hold a secret each. They never enter the model: a secret nested in an object makes the object secret."""


class _ByProvider:
    """A union of the providers' settings models, told apart by `provider`; it grows with the registry."""

    def __get_pydantic_core_schema__(self, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.tagged_union_schema(
            {name: handler.generate_schema(row.settings) for name, row in PROVIDERS.items()}, discriminator="provider"
        )


class Fleet(Model):
    """Every cluster, pool and runner set of one stack."""

    github: GitHub
    clusters: Annotated[dict[DnsLabel, Annotated[Any, _ByProvider()]], Field(min_length=1)]
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=40)] = Field(default_factory=dict)
    """Tags of every cloud resource, besides the program's own."""

    @model_validator(mode="after")
    def _fleet_rules(self) -> Self:
        """Refuse names and labels that would leave a `runs-on` ambiguous."""
        self._joined_names_differ()
        names: dict[tuple[str, str], str] = {}
        owners: dict[str, str] = {}
        for cluster, name, runner in self.runner_sets():
            at = ("clusters", cluster, "runners", name)
            group = self.group_of(runner)
            if (other := names.setdefault((group, name), cluster)) != cluster:
                raise problem(
                    "set_unique", f"cluster {other} has a runner set of that name in group {group}; rename one", at=at, value=name
                )
            if (owner := owners.setdefault(name, name)) != name:
                raise problem(
                    "name_is_label",
                    f"set {owner} carries this name as a label; remove it there or rename this set",
                    at=at,
                    value=name,
                )
            for label in runner.labels:
                owner = owners.setdefault(label.lower(), name)
                if owner != name:
                    raise problem("label_unique", _ambiguous(label, owner), at=(*at, "labels"), value=list(runner.labels))
        return self

    def _joined_names_differ(self) -> None:
        """Resources are named cluster-pool and cluster-set: a-b with c and a with b-c would be one resource."""
        joined: dict[tuple[str, str], str] = {}
        for cluster, settings in self.clusters_by_name():
            for kind, names in (("pools", settings.pools), ("runners", settings.runners)):
                for name in names:
                    if (other := joined.setdefault((kind, f"{cluster}-{name}"), cluster)) != cluster:
                        message = f"'{cluster}-{name}' is also the joined name of one of cluster {other}'s {kind}; rename one"
                        raise problem("joined_name", message, at=("clusters", cluster, kind, name), value=name)

    def clusters_by_name(self) -> Iterator[tuple[str, Cluster]]:
        """Clusters by name, in the order of the config."""
        yield from self.clusters.items()

    def runner_sets(self) -> Iterator[tuple[str, str, PodRunner]]:
        """(cluster, set name, runner class) in the order of the config."""
        for cluster, settings in self.clusters_by_name():
            for name, runner in settings.runners.items():
                yield cluster, name, runner

    def group_of(self, runner: PodRunner) -> str:
        """The runner group a set registers in."""
        return runner.group or self.github.group


def _ambiguous(label: str, owner: str) -> str:
    if label.lower() in GENERIC_LABELS:
        return (
            f"generic label '{label}' already belongs to the default set {owner}; one default set per GitHub scope carries "
            f"{', '.join(GENERIC_LABELS)}, every other set is reached by its name or a label of its own: remove it here"
        )
    return f"label '{label}' already reaches set {owner}, so a runs-on would be ambiguous; remove it here or rename it"


CONFIG_KEYS = tuple(field.alias or name for name, field in Fleet.model_fields.items())
"""The keys of the config namespace that make the model; `SECRETS` are the others."""


def load(config: Mapping[str, object]) -> Fleet:
    """The fleet from the stack's parsed config, by key without namespace ("github", "clusters", …).

    Raises FleetError with every problem found.
    """
    try:
        return Fleet.model_validate_json(json.dumps(config))
    except ValidationError as error:
        raise FleetError(tuple(_problem(entry) for entry in error.errors() if not _shadow(entry))) from None


def _shadow(error: ErrorDetails) -> bool:
    """Pydantic counts only a list's good items, and calls one of bad items too short as well."""
    return error["type"] == "too_short" and len(error["input"]) >= error.get("ctx", {})["min_length"]


_NO_VALUE = ("missing", "json_invalid")


def _problem(error: ErrorDetails) -> Problem:
    """A pydantic error as path, rule and value. A rule of a whole model may point further down with `at` and `value`."""
    context = error.get("ctx", {})
    # Pydantic marks a bad key by "[key]" after it; the file has no such key.
    marked = error["loc"][-2:] == (error["input"], "[key]")
    located = tuple(map(str, error["loc"][:-1] if marked else error["loc"]))
    path = _untagged(located) + tuple(context.get("at", ()))
    value = "" if error["type"] in _NO_VALUE else shown(context.get("value", error["input"]))
    if error["type"] in ("union_tag_invalid", "union_tag_not_found"):
        path = (*path, "provider")
        value = shown(error["input"]["provider"]) if "provider" in error["input"] else ""
    head = f"{NAMESPACE}:{path[0]}" if path else NAMESPACE
    return Problem((head, *path[1:]), hint(error, Fleet, located), value)


def _untagged(location: tuple[str, ...]) -> tuple[str, ...]:
    """Pydantic puts the union's tag after the cluster's name; the file has no such key."""
    if len(location) > 2 and location[0] == "clusters" and location[2] in PROVIDERS:
        return location[:2] + location[3:]
    return location
