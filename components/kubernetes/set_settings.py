"""The parts of the scale set that follow from the settings of a runner set of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from components.arguments import settings, wrong
from components.kubernetes.deliver import delivery
from components.kubernetes.scale_set import Companions, MakeSecret, ScaleSetArgs, objects
from fleet.charts.arc import APP_SECRET
from fleet.charts.chart import Chart
from fleet.charts.runner_sets import SetSettings
from fleet.render.isolation import network_policy
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


App = tuple[GitHubApp | None, pulumi.Output[str] | None]
"""A GitHub App and its private key, a secret; or neither."""


def read_app(inputs: dict[str, Any]) -> App:
    """The App of the inputs, if they name one. Marks its private key as secret in the inputs. Raises InputPropertyError."""
    app, key = inputs.get("githubApp"), inputs.get("githubPrivateKey")
    if (app is None) != (key is None):
        raise wrong("githubPrivateKey", "githubApp and githubPrivateKey belong together; give both or neither")
    if app is None:
        return None, None
    secret = inputs["githubPrivateKey"] = pulumi.Output.secret(key)
    return settings(GitHubApp, app, at="githubApp"), secret


def parts(
    name: str,
    args: SetSettings,
    app: App,
    chart: Chart,
    after: Sequence[pulumi.Resource],
    companions: Companions | None = None,
    *,
    opened: Sequence[str] = (),
    private_ports: Sequence[int] = (),
) -> ScaleSetArgs:
    """The parts of the set `name`, which is a component. They are created after `after`.

    Its pods reach the networks `opened` inside closed ones, and the TCP ports `private_ports` of every network.
    """
    manifests, (of_app, key) = partial(objects, args.manifests, chart.namespace, name), app

    def all_companions(home: pulumi.Input[str], parent: pulumi.Resource) -> list[pulumi.Resource]:
        return [*manifests(home, parent), *(companions(home, parent) if companions is not None else ())]

    return ScaleSetArgs(
        chart,
        after,
        secret=by_program(of_app, key, args.github_secret) if of_app is not None and key is not None else None,
        deliver=delivery(args.gitops) if args.install_chart else None,
        policy=network_policy(args.closed_networks, opened, private_ports) if args.isolate else None,
        companions=all_companions,
        owns_namespace=args.create_namespace,
        by_waves=args.gitops is not None,
    )
