"""The GitHub App's Secret of a runner set, written by the program."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes

from components.kubernetes.scale_set import MakeSecret
from fleet.charts.arc import APP_SECRET
from fleet.settings.github import GitHubApp


def by_program(app: GitHubApp, private_key: pulumi.Input[str], secret_name: str = APP_SECRET) -> MakeSecret:
    """The program writes the Secret. `private_key` is the App's key, a secret."""

    def make(name: str, namespace: pulumi.Input[str], parent: pulumi.Resource) -> Sequence[pulumi.Resource]:
        secret = kubernetes.core.v1.Secret(
            f"{name}-github-app",
            metadata=kubernetes.meta.v1.ObjectMetaArgs(name=secret_name, namespace=namespace),
            string_data={
                "github_app_id": app.app_id,
                "github_app_installation_id": app.installation_id,
                "github_app_private_key": private_key,
            },
            opts=pulumi.ResourceOptions(parent=parent, delete_before_replace=True),
        )
        return [secret]

    return make
