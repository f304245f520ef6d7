"""The GitHub App's Secret of a runner set: written by the program, or by a controller from what Git has."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from components.kubernetes.arc_runner_set import MakeSecret
from components.kubernetes.custom import custom
from fleet.charts.arc import APP_SECRET
from fleet.render.gitops.secrets import github_app
from fleet.settings.github import GitHub
from fleet.settings.gitops import GitOps, GitSecrets


def by_program(github: GitHub, private_key: pulumi.Input[str]) -> MakeSecret:
    """The program writes the Secret. `private_key` is the App's key, a secret."""

    def make(logical_name: str, _: str, home: kubernetes.core.v1.Namespace, parent: pulumi.Resource) -> Sequence[pulumi.Resource]:
        secret = kubernetes.core.v1.Secret(
            logical_name,
            # The object's own name carries the dependency.
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=APP_SECRET, namespace=home.metadata.name),
            string_data={
                "github_app_id": github.app_id,
                "github_app_installation_id": github.installation_id,
                "github_app_private_key": private_key,
            },
            opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
        )
        return [secret]

    return make


def in_git(github: GitHub, git: GitOps, secrets: GitSecrets) -> MakeSecret:
    """A controller in the cluster writes the Secret from manifests in Git."""

    def make(
        logical_name: str, namespace: str, home: kubernetes.core.v1.Namespace, parent: pulumi.Resource
    ) -> Sequence[pulumi.Resource]:
        manifests = github_app(namespace, github, git, secrets)
        return [custom(logical_name, each, parent=parent, depends_on=[home]) for each in manifests]

    return make
