"""The settings of the project in `bootstrap/`: one AWS account, and who may take the roles of each stack."""

import json
from collections.abc import Mapping
from typing import Annotated, Literal

import pulumi
from pydantic import Field

from fleet.facts.errors import FleetError, Problem
from fleet.loading.deployments import Branch, Name, Organization, Repository, RoleArn, StackName
from fleet.settings.model import AccountId, Model
from fleet.settings.reading import read
from fleet.settings.refusals import matching, refusal, refuse, refuse_if

NAMESPACE = "gpu-ci-bootstrap"
"""The project in `bootstrap/`, whose config these settings are."""
OWN_TAG = "bootstrap"
"""Value of the tag `gpu-ci/stack` of what the bootstrap creates."""
_LONGEST = 64 - len("gpu-ci--deployments")
"""Characters of a stack's name: IAM allows 64 in the name of a role (IAM user guide, IAM and STS quotas)."""

Region = Annotated[str, matching("region__state", r"[a-z]{2}(-[a-z]+)+-\d")]
Bucket = Annotated[str, matching("bucket", r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")]


class RepositoryIds(Model):
    """The numbers in the OIDC subject of a repository that GitHub created after 2026-07-15."""

    owner: Annotated[int, Field(ge=1)]
    repository: Annotated[int, Field(ge=1)]


class Source(Model):
    """The jobs of the repository that may take a role: those of one environment, or those of one branch."""

    environment: Name | None = None
    """A GitHub environment. Prefer it: its protection rules say which branches use it and who approves."""
    branch: Branch | None = None
    """A branch. Every workflow that runs for it may take the role, also one that a pull request from a fork starts by
    `pull_request_target`: its token names the base branch."""

    @refusal
    def _rules(self) -> None:
        refuse(source=(self.environment is None) == (self.branch is None))

    @property
    def claim(self) -> str:
        """The end of the subject of GitHub's OIDC token (docs.github.com, OpenID Connect reference)."""
        return f"environment:{self.environment}" if self.environment else f"ref:refs/heads/{self.branch}"


class Stack(Model):
    """Who may take the roles of one stack, besides Pulumi Deployments."""

    preview_from: Source | None = None
    """Jobs that may preview. Without it: those of the environment `preview-<stack>`, which .github/workflows/preview.yml uses."""
    deploy_from: Source | None = None
    """Jobs that may deploy, best those of an environment. Without it: none."""
    operators: tuple[RoleArn, ...] = ()
    """IAM roles of people who may deploy from their own machine."""
    session_hours: int = Field(default=2, ge=1, le=12)
    """The longest session of the deploy role. A first `pulumi up` of a fleet takes up to an hour, an acceptance run up to 5."""


class State(Model):
    """A bucket for Pulumi's state, for a backend of your own instead of Pulumi Cloud."""

    bucket: Bucket
    encryption_key: bool = True
    """Whether to create a KMS key. It encrypts the bucket and is the stacks' secrets provider."""


class Bootstrap(Model):
    """What one AWS account needs before its first stack."""

    account: AccountId
    region: Region
    """Where the bucket and its key are. Roles and OIDC providers have no region."""
    organization: Organization | None = None
    """The organization in Pulumi Cloud whose deployments may take the roles. Without it: none may."""
    repository: Repository
    repository_ids: RepositoryIds | None = None
    existing_providers: tuple[Literal["github", "pulumi"], ...] = ()
    """OIDC providers that the account has already. An account has at most one for each issuer."""
    state: State | None = None
    stacks: Annotated[dict[StackName, Stack], Field(min_length=1)]

    @refusal
    def _rules(self) -> None:
        """Refuse a deploy role that no principal can assume, and a stack name that is the bootstrap's own or too long."""
        for name, stack in self.stacks.items():
            refuse("stacks", name, reserved_stack=name == OWN_TAG)
            refuse_if("stack_length", len(name) > _LONGEST, at=("stacks", name), length=len(name), most=_LONGEST)
            refuse("stacks", name, nobody=self.organization is None and stack.deploy_from is None and not stack.operators)

    def subject(self, source: Source) -> str:
        """The subject of the OIDC token of these jobs."""
        owner, _, repository = self.repository.partition("/")
        if self.repository_ids is not None:
            owner, repository = f"{owner}@{self.repository_ids.owner}", f"{repository}@{self.repository_ids.repository}"
        return f"repo:{owner}/{repository}:{source.claim}"


def load(config: Mapping[str, object], secret: tuple[str, ...] = ()) -> Bootstrap:
    """The settings from the project's parsed config. Keys have no namespace; `secret` are the encrypted keys.

    Raises FleetError with every problem.
    """
    if secret:
        message = "is encrypted, and nothing here is a secret; write it in clear text"
        raise FleetError(tuple(Problem((f"{NAMESPACE}:{key}",), message, "", "secret") for key in secret))
    return read(Bootstrap, NAMESPACE, config)


def read_settings() -> Bootstrap:
    """The settings of the current stack. Raises FleetError."""
    prefix = f"{NAMESPACE}:"
    config = {**pulumi.runtime.config.get_config_env(), **pulumi.runtime.config.CONFIG.get()}
    mine = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
    secret = tuple(key for key in mine if pulumi.runtime.config.is_config_secret(prefix + key))
    return load({key: _value(text) for key, text in mine.items()}, secret)


def _value(text: str) -> object:
    """A setting's value; a mapping or a list is JSON."""
    try:
        return json.loads(text) if text.startswith(("{", "[")) else text
    except ValueError:
        return text  # the model reports the mistake
