"""The fleet of one stack: the model of its whole config. `fleet.prove.rules` has the rules over all clusters."""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, PrivateAttr
from pydantic_core import CoreSchema, core_schema

from fleet.facts.errors import instead
from fleet.facts.record import Record
from fleet.providers.provider import Provider
from fleet.providers.registry import PROVIDERS, provider_of
from fleet.settings.cluster import Cluster
from fleet.settings.existing import CREATED, EXISTS
from fleet.settings.github import GitHub, GitHubScope
from fleet.settings.gitops import ByProgram
from fleet.settings.model import DnsLabel, Model, TagKey, TagValue
from fleet.settings.refusals import matching, problem, refusal, refuse
from fleet.settings.runner import Runner

NAMESPACE = "gpu-ci"


def guard_urn(stack: str) -> str:
    """The URN of the resource with which a stack that has `protect` refuses `pulumi destroy`."""
    return f"urn:pulumi:{stack}::{NAMESPACE}::{NAMESPACE}:index:DestroyGuard::destroy-guard"


PolicyArn = Annotated[str, matching("policy_arn", r"arn:aws:iam::([0-9]{12}|aws):policy/[\w+=,.@/-]{1,512}")]


class _ByExistence(Record):
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


def _models(row: Provider[Any]) -> Any:
    if row.existing is None:
        return row.settings
    return Annotated[Any, _ByExistence({CREATED: row.settings, EXISTS: row.existing})]


class Fleet(Model):
    """Every cluster, pool and runner set of one stack."""

    github: GitHub
    """The GitHub organization or repository whose jobs the runners take, and the GitHub App that registers them."""
    clusters: Annotated[dict[DnsLabel, Annotated[Any, _ByProvider()]], Field(min_length=1)]
    """The Kubernetes clusters of the stack, by a name of your choice. The name is part of the names of cloud resources, so
    another name without `was` replaces them. `provider` and `existing` select the keys of a cluster."""
    tags: Annotated[dict[TagKey, TagValue], Field(max_length=40)] = Field(default_factory=dict)
    """Tags of every cloud resource, in addition to `gpu-ci/stack`. The policies of a stack may require some, such as owner
    and ttl. OCI allows six. Example: `{owner: ci-platform, cost-center: ci}` Mark: first."""

    permissions_boundary: PolicyArn | None = None
    """ARN of the IAM policy that is the permissions boundary of every IAM role that the stack creates in AWS. The deploy role of
    docs/bootstrap.md creates roles only with the boundary that bootstrap made for the stack. Example:
    `arn:aws:iam::111122223333:policy/gpu-ci-acme-boundary`"""

    _names: Mapping[tuple[str, ...], str] = PrivateAttr(default_factory=dict)
    _written: "Fleet | None" = PrivateAttr(default=None)

    def keep_names(self, names: Mapping[tuple[str, ...], str], written: "Fleet") -> None:
        """Keep the fleet with the names of the stack file, and the first names by the paths there below `clusters`."""
        self._names, self._written = names, written

    @property
    def written(self) -> "Fleet":
        """The fleet with the names of the stack file."""
        return self._written or self

    @property
    def renames(self) -> Mapping[tuple[str, ...], str]:
        """The first names of what the stack file calls otherwise now, by its path below `clusters` in the file."""
        return self._names

    def first_name(self, kind: str, name: str) -> str:
        """The name in the fleet of one of the `clusters` or `pools`, by its name in the stack file or its first one."""
        firsts = {path[-1]: first for path, first in self._names.items() if ("clusters", *path)[-2] == kind}
        taken = self.clusters if kind == "clusters" else {pool for settings in self.clusters.values() for pool in settings.pools}
        return name if name in taken else firsts.get(name, name)

    @refusal
    def _boundary_rules(self) -> None:
        """Refuse a boundary of another account, and one that no role would get."""
        if self.permissions_boundary is None:
            return
        at, owner = ("permissionsBoundary",), self.permissions_boundary.split(":")[4]
        bounded = [cluster for _, cluster in self.clusters_by_name() if provider_of(cluster).bounded]
        accounts = {account for cluster in bounded for account in cluster.accounts}
        refuse(*at, boundary_unused=not bounded)
        for account in sorted(accounts - {owner} if owner != "aws" else ()):
            raise problem("boundary_account", at=at, account=account)

    @refusal
    def _scope_rules(self) -> None:
        """Refuse an unknown GitHub scope, and one whose jobs no runner class takes."""
        for cluster, settings in self.clusters_by_name():
            places: dict[tuple[str, ...], str | None] = {("github",): settings.github}
            places |= {("runners", name, "github"): runner.github for name, runner in settings.runners.items()}
            for place, scope in places.items():
                if scope is not None and scope not in self.github.every:
                    fix = instead(scope, self.github.every, f"name one of: {', '.join(self.github.every)}, or add it there")
                    raise problem("unknown_scope", at=("clusters", cluster, *place), value=scope, fix=fix)
        for name in self.github.scopes.keys() - self.scopes.keys():
            raise problem("unused_scope", at=self.github.at(name), name=name)

    @property
    def deployable(self) -> bool:
        """Whether `pulumi up` creates the clusters. A stack has only clusters that it creates, or none."""
        return all(provider_of(cluster).deployable for _, cluster in self.clusters_by_name())

    @property
    def secrets(self) -> dict[str, str]:
        """The config key of the App's private key by GitHub scope, where `pulumi up` writes the key into a cluster.

        These keys are not in the model, because a nested secret would make the whole object secret.
        """
        writing = [settings for _, settings in self.clusters_by_name() if isinstance(settings.secrets_by, ByProgram)]
        used = {scope for settings in writing for scope in settings.scopes}
        return {name: self.github.secret_of(name) for name in self.github.every if name in used}

    @property
    def scopes(self) -> dict[str, GitHubScope]:
        """The GitHub scopes whose jobs the runner classes take, by name."""
        used = {scope for _, settings in self.clusters_by_name() for scope in settings.scopes}
        return {name: scope for name, scope in self.github.every.items() if name in used}

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Names of sets that exist in several groups which a job may reach. Its runs-on must then name the group as well."""
        pairs = combinations(self.runner_sets(), 2)
        return tuple(
            dict.fromkeys(
                name
                for (of, name, runner), (other_of, other, beside) in pairs
                if name == other and self.scope_of(of, runner).meets(self.scope_of(other_of, beside))
            )
        )

    def reached_by(self, repository: str) -> Iterator[tuple[str, str, Runner]]:
        """The runner sets that jobs of a repository, owner/name on any server, may reach; all of them for an empty text."""
        for cluster, name, runner in self.runner_sets():
            scope = self.scope_of(cluster, runner)
            if not repository or scope.serves(f"{scope.host}/{repository}"):
                yield cluster, name, runner

    def scope_of(self, cluster: str, runner: Runner) -> GitHubScope:
        """The GitHub scope of a set."""
        return self.github.every[self.clusters[cluster].scope_of(runner)]

    def clusters_by_name(self, only: str | None = None) -> Iterator[tuple[str, Cluster]]:
        """Clusters by name, in the order of the config: all, or the one of the name `only`."""
        wanted = None if only is None else self.first_name("clusters", only)
        yield from ((name, cluster) for name, cluster in self.clusters.items() if wanted in (None, name))

    def by_provider(self) -> Iterator[tuple[Provider[Any], dict[str, Any]]]:
        """Each provider that has clusters here, with its clusters by name, in the order of the registry."""
        for key, provider in PROVIDERS.items():
            if clusters := {name: cluster for name, cluster in self.clusters_by_name() if cluster.provider == key}:
                yield provider, clusters

    def clusters_of(self, provider: str) -> tuple[Any, ...]:
        """Settings of the clusters of one provider, in the order of the config."""
        return tuple(settings for settings in self.clusters.values() if settings.provider == provider)

    def runner_sets(self) -> Iterator[tuple[str, str, Runner]]:
        """(cluster, set name, runner class) in the order of the config."""
        for cluster, settings in self.clusters_by_name():
            yield from ((cluster, name, runner) for name, runner in settings.runners.items())

    def group_of(self, cluster: str, runner: Runner) -> str:
        """The runner group of a set."""
        return runner.group or self.scope_of(cluster, runner).group
