"""The GitHub scope that runner scale sets register with."""

import re
from typing import Annotated

from pydantic import Field

from fleet.settings.model import YAML_WORDS, DnsLabel, Model, QuotedText
from fleet.settings.refusals import Form, matching, problem, refusal, refuse, refuse_if, refuses, words

_SCOPE = re.compile(r"https://[A-Za-z0-9.-]+/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?")


def _scope_url(url: str) -> None:
    refuse(github_scope="/enterprises/" in url)
    refuse(github_scope__form=not _SCOPE.fullmatch(url) or "/orgs/" in url)


ScopeUrl = Annotated[str, refuses(_scope_url), Form("GitHub scope", words("github_scope__form"), _SCOPE.pattern)]
_REPOSITORY_NAME = r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}"
RepositoryName = Annotated[str, matching("repository_name", _REPOSITORY_NAME)]
"""A GitHub repository as `owner/name`."""

Identifier = Annotated[QuotedText, matching("github_id", "[1-9][0-9]{0,18}")]

_GROUP = re.compile(r"[A-Za-z][A-Za-z0-9 _.-]*")
_GROUP_RULE = "a runner group starts with a letter, then has letters, digits, spaces, _ . or -, and is not a YAML word such as on"


def _group(name: str) -> None:
    # gha-runner-scale-set 0.14.2 writes the group without quotes (templates/autoscalingrunnerset.yaml).
    if not _GROUP.fullmatch(name) or name != name.strip() or name.lower() in YAML_WORDS:
        raise problem("runner_group", f"{_GROUP_RULE}, because the chart does not quote it; rename the group on GitHub")


RunnerGroup = Annotated[str, Field(min_length=1), refuses(_group), Form("runner group", _GROUP_RULE, _GROUP.pattern)]


APP_SECRET = "github-app"  # noqa: S105 - the name of a Kubernetes Secret, not a secret
"""The Secret with the App's ids and key, in the namespace of each runner set. The name of a named scope follows a hyphen."""


DEFAULT_SCOPE = "default"
"""The name of the scope of `gpu-ci:github` itself."""


def is_app_secret(name: object) -> bool:
    """Whether a Secret of this name may have the key of an App."""
    return isinstance(name, str) and f"{name}-".startswith(f"{APP_SECRET}-")


PRIVATE_KEY = "githubPrivateKey"
"""Config key of the private key of the default scope's App. That of another App has the scope's name after a hyphen."""


class GitHubApp(Model):
    """A GitHub App and its installation."""

    app_id: Identifier
    """App ID of the GitHub App, from its settings page, in quotes."""
    installation_id: Identifier
    """ID of the App's installation in the organization, in quotes. It is the number at the end of the installation's URL."""


class GitHubScope(GitHubApp):
    """An organization or repository, and the GitHub App that registers its runners."""

    url: ScopeUrl
    """URL of the organization or repository that the runners belong to. A GitHub App cannot register runners of an enterprise."""
    group: RunnerGroup = "default"
    """Runner group of every runner class of this scope without a `group` of its own. Create it on GitHub first. Mark: first."""

    @property
    def host(self) -> str:
        """The server in lower case: github.com."""
        return self.owner.partition("/")[0]

    @property
    def owner(self) -> str:
        """Host and owner of the scope, in lower case: github.com/acme."""
        return "/".join(self.path.split("/")[:2])

    @property
    def repository(self) -> str:
        """The repository as owner/name, if the scope is one; empty for an organization."""
        _, _, path = self.url.removeprefix("https://").partition("/")
        return path if "/" in path else ""

    @property
    def path(self) -> str:
        """Host and path in lower case: github.com/acme, github.com/acme/app."""
        return self.url.removeprefix("https://").lower()

    def serves(self, place: str) -> bool:
        """Whether jobs of an organization or a repository reach its runners. `place` is host and path: github.com/acme/app."""
        return f"{place}/".lower().startswith(f"{self.path}/")

    def meets(self, other: "GitHubScope") -> bool:
        """Whether a job may reach runners of both: one is the other, or its organization."""
        return self.serves(other.path) or other.serves(self.path)


class GitHub(GitHubScope):
    """The GitHub scope of every runner class that names none, and further scopes by name.

    The private key of its App is the secret `gpu-ci:githubPrivateKey`, that of a further scope `gpu-ci:githubPrivateKey-<name>`.
    """

    scopes: dict[DnsLabel, GitHubScope] = Field(default_factory=dict)
    """Further organizations and repositories, by a name of your choice. `github` of a cluster or of a runner class selects one
    (docs/organizations.md). Default: none. Example: `{research: {url: "https://github.com/acme-research", appId: "2481633",
    installationId: "63410299"}}`"""

    @refusal
    def _scope_rules(self) -> None:
        """Refuse the name of the default scope, and two names of one organization or repository."""
        refuse_if("default_scope", DEFAULT_SCOPE in self.scopes, at=("scopes", DEFAULT_SCOPE), value=DEFAULT_SCOPE)
        names: dict[str, str] = {}
        for name, scope in self.every.items():
            if (first := names.setdefault(scope.path, name)) != name:
                raise problem("scope_twice", at=("scopes", name, "url"), value=scope.url, first=first)

    @property
    def every(self) -> dict[str, GitHubScope]:
        """The scopes by name. The first is the default scope."""
        return {DEFAULT_SCOPE: self, **self.scopes}

    def secret_of(self, name: str) -> str:
        """The config key of the private key of a scope's App. An App that is installed twice has one key."""
        scope = self.every[name]
        return PRIVATE_KEY if (scope.host, scope.app_id) == (self.host, self.app_id) else f"{PRIVATE_KEY}-{name}"

    def at(self, name: str) -> tuple[str, ...]:
        """The path of a scope in a stack's config."""
        return ("github",) if name == DEFAULT_SCOPE else ("github", "scopes", name)
