"""The fleet of one stack: the model of its whole config. `fleet.prove.rules` has the rules over all clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from fleet.providers.registry import PROVIDERS, Provider
from fleet.settings.cluster import Cluster
from fleet.settings.existing import CREATED, EXISTS
from fleet.settings.github import GitHub
from fleet.settings.gitops import ByProgram
from fleet.settings.model import DnsLabel, Model, TagKey, TagValue
from fleet.settings.runner import Runner

NAMESPACE = "gpu-ci"
SECRETS = ("githubPrivateKey",)
"""Config keys of secrets. They are not in the model, because a nested secret would make the whole object secret."""


@dataclass(frozen=True, slots=True)
class _ByExistence:
    """The union of the two settings models of a provider. The key `existing` selects that of a cluster which exists already."""

    choices: dict[str, type[Cluster]]

    def __get_pydantic_core_schema__(self, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schemas = {tag: handler.generate_schema(settings) for tag, settings in self.choices.items()}
        return core_schema.tagged_union_schema(schemas, discriminator=lambda given: EXISTS if EXISTS in given else CREATED)


class _ByProvider:
    """The union of the providers' settings models. The key `provider` selects one."""

    @property
    def choices(self) -> dict[str, Any]:
        """The settings model of each provider, or the union of its two models, by its name."""
        return {name: _models(row) for name, row in PROVIDERS.items()}

    def __get_pydantic_core_schema__(self, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        schemas = {name: handler.generate_schema(settings) for name, settings in self.choices.items()}
        return core_schema.tagged_union_schema(schemas, discriminator="provider")


def _models(row: Provider) -> Any:
    if row.existing is None:
        return row.settings
    return Annotated[Any, _ByExistence({CREATED: row.settings, EXISTS: row.existing})]


class Fleet(Model):
    """Every cluster, pool and runner set of one stack."""

    github: GitHub
    """The GitHub organization or repository whose jobs the runners take, and the GitHub App that registers them."""
    clusters: Annotated[dict[DnsLabel, Annotated[Any, _ByProvider()]], Field(min_length=1)]
    """The Kubernetes clusters of the stack, by a name of your choice. The name is part of the names of cloud resources, so
    another name replaces them. `provider` and `existing` select the keys of a cluster."""
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=40)] = Field(default_factory=dict)
    """Tags of every cloud resource, in addition to `gpu-ci/stack`. The policies of a stack may require some, such as owner and
    ttl. OCI allows six. Example: `{owner: ci-platform, cost-center: ci}`"""

    @property
    def deployable(self) -> bool:
        """Whether `pulumi up` creates the clusters. A stack has only clusters that it creates, or none."""
        return all(PROVIDERS[settings.provider].deployable for _, settings in self.clusters_by_name())

    @property
    def needs_key(self) -> bool:
        """Whether `pulumi up` writes the GitHub App's key into a cluster. The stack's config must then contain it."""
        return any(isinstance(settings.secrets_by, ByProgram) for _, settings in self.clusters_by_name())

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Names of sets that exist in several groups. A runs-on must then name the group as well."""
        counts = Counter(name for _, name, _ in self.runner_sets())
        return tuple(name for name, count in counts.items() if count > 1)

    def clusters_by_name(self) -> Iterator[tuple[str, Cluster]]:
        """Clusters by name, in the order of the config."""
        yield from self.clusters.items()

    def clusters_of(self, provider: str) -> tuple[Any, ...]:
        """Settings of the clusters of one provider, in the order of the config."""
        return tuple(settings for settings in self.clusters.values() if settings.provider == provider)

    def runner_sets(self) -> Iterator[tuple[str, str, Runner]]:
        """(cluster, set name, runner class) in the order of the config."""
        for cluster, settings in self.clusters_by_name():
            for name, runner in settings.runners.items():
                yield cluster, name, runner

    def group_of(self, runner: Runner) -> str:
        """The runner group of a set."""
        return runner.group or self.github.group
