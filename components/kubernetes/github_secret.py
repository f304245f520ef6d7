"""Who makes the GitHub App's secret of a runner set."""

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
    """The program itself, which knows the App's key, a secret."""

    def make(
        logical_name: str, namespace: str, home: kubernetes.core.v1.Namespace, parent: pulumi.Resource
    ) -> Sequence[pulumi.Resource]:
        del namespace  # the object's own name carries the dependency
        return [
            kubernetes.core.v1.Secret(
                logical_name,
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=APP_SECRET, namespace=home.metadata.name),
                string_data={
                    "github_app_id": github.app_id,
                    "github_app_installation_id": github.installation_id,
                    "github_app_private_key": private_key,
                },
                opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
            )
        ]

    return make


def in_git(github: GitHub, git: GitOps, secrets: GitSecrets) -> MakeSecret:
    """What stands in Git, and a controller of the cluster's."""

    def make(
        logical_name: str, namespace: str, home: kubernetes.core.v1.Namespace, parent: pulumi.Resource
    ) -> Sequence[pulumi.Resource]:
        return [
            custom(logical_name, each, parent=parent, depends_on=[home]) for each in github_app(namespace, github, git, secrets)
        ]

    return make


def nobody_here(
    logical_name: str, namespace: str, home: kubernetes.core.v1.Namespace, parent: pulumi.Resource
) -> Sequence[pulumi.Resource]:
    """Nothing of the program's: Git has it."""
    del logical_name, namespace, home, parent
    return ()
