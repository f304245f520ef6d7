"""What all runner sets of a cluster share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import pulumi

from components.kubernetes.scale_set import App
from fleet.charts.runner_sets import SetSettings
from fleet.facts.manifest import Manifest
from fleet.render.gitops.secrets import github_app
from fleet.settings.egress import CLOSED
from fleet.settings.github import GitHub, GitHubApp
from fleet.settings.gitops import GitOps, GitSecrets
from fleet.settings.namespaces import runner_namespace

Set = TypeVar("Set", bound=SetSettings)


@dataclass(frozen=True, slots=True)
class Arc:
    """What all runner sets of a cluster share.

    `private_key` is the GitHub App's key, if the program writes the App's Secret. `after` must exist before a set, and is deleted
    after it: system nodes, the controller and the priority class. `closed` are networks that no pod of a set can reach, except
    the parts that the set opens. With `git` each set is an ArgoCD Application; objects in Git make its Secret as `secrets` says.
    Without `installs` another program installs the charts. `home` is the controller's namespace, if the program creates it.
    """

    github: GitHub
    private_key: pulumi.Input[str] | None
    after: Sequence[pulumi.Resource]
    closed: Sequence[str] = CLOSED
    git: GitOps | None = None
    secrets: GitSecrets | None = None
    installs: bool = True
    home: pulumi.Resource | None = None

    @property
    def app(self) -> App:
        """The App whose Secret the program writes, and its key; neither if another program writes it."""
        if self.private_key is None:
            return None, None
        of_app = GitHubApp.model_construct(app_id=self.github.app_id, installation_id=self.github.installation_id)
        return of_app, pulumi.Output.secret(self.private_key)

    def installed(self, made: Set) -> Set:
        """A set as the program installs it: with the objects in Git that create the App's Secret, and by Git or Helm."""
        secrets: tuple[Manifest, ...] = ()
        if self.git is not None and self.secrets is not None:
            secrets = github_app(runner_namespace(made.runner_scale_set_name), self.github, self.git, self.secrets)
        git = self.git.model_copy(update={"secrets": None}) if self.git is not None else None
        return made.model_copy(
            update={"closed_networks": tuple(self.closed), "manifests": secrets, "gitops": git, "install_chart": self.installs}
        )
