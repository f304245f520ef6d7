"""The GitHub scope that runner scale sets register with."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from fleet.settings.model import YAML_WORDS, Form, Model, QuotedText, matching, problem

_SCOPE = re.compile(r"https://[A-Za-z0-9.-]+/[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?")


_SCOPE_RULE = "not a GitHub scope; write https://github.com/<organization> or …/<organization>/<repository>"


def _scope_url(url: str) -> str:
    if "/enterprises/" in url:
        message = "a GitHub App cannot register runners of an enterprise; give the URL of an organization or repository"
        raise problem("github_scope", message)
    if not _SCOPE.fullmatch(url) or "/orgs/" in url:
        raise problem("github_scope", _SCOPE_RULE)
    return url


ScopeUrl = Annotated[str, AfterValidator(_scope_url), Form("GitHub scope", _SCOPE_RULE, _SCOPE.pattern)]
_REPOSITORY_NAME_RULE = "not a repository; write owner/name, such as example/app"
RepositoryName = Annotated[
    str, matching("repository_name", _REPOSITORY_NAME_RULE, r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9_.-]{1,100}")
]
"""A GitHub repository as `owner/name`."""

Identifier = Annotated[
    QuotedText, matching("github_id", 'an id is a quoted number from 1, for example "123456"', "[1-9][0-9]{0,18}")
]

_GROUP = re.compile(r"[A-Za-z][A-Za-z0-9 _.-]*")
_GROUP_RULE = "a runner group starts with a letter, then has letters, digits, spaces, _ . or -, and is not a YAML word such as on"


def _group(name: str) -> str:
    # gha-runner-scale-set 0.14.2 writes the group without quotes (templates/autoscalingrunnerset.yaml).
    if not _GROUP.fullmatch(name) or name != name.strip() or name.lower() in YAML_WORDS:
        raise problem("runner_group", f"{_GROUP_RULE}, because the chart does not quote it; rename the group on GitHub")
    return name


RunnerGroup = Annotated[str, Field(min_length=1), AfterValidator(_group), Form("runner group", _GROUP_RULE, _GROUP.pattern)]


APP_SECRET = "github-app"  # noqa: S105 - the name of a Kubernetes Secret, not a secret
"""The Secret with the App's ids and key, in the namespace of each runner set."""


class GitHubApp(Model):
    """A GitHub App and its installation."""

    app_id: Identifier
    """App ID of the GitHub App, from its settings page, in quotes."""
    installation_id: Identifier
    """ID of the App's installation in the organization, in quotes. It is the number at the end of the installation's URL."""


class GitHub(GitHubApp):
    """The GitHub scope and the GitHub App of the runners. The App's private key is the secret `gpu-ci:githubPrivateKey`."""

    url: ScopeUrl
    """URL of the organization or repository that the runners belong to. A GitHub App cannot register runners of an enterprise."""
    group: RunnerGroup = "default"
    """Runner group of every runner class without a `group` of its own. Create it on GitHub first. Mark: first."""

    @property
    def owner(self) -> str:
        """Host and owner of the scope, in lower case: github.com/acme."""
        return "/".join(self.url.removeprefix("https://").split("/")[:2]).lower()
