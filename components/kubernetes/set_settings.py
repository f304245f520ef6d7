"""What runner sets of every kind find in their cluster: its settings, and the parts of the scale set that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
from pydantic import Field

from components.arguments import settings, wrong
from components.kubernetes.deliver import delivery
from components.kubernetes.github_secret import by_program
from components.kubernetes.scale_set import Companions, ScaleSetArgs, objects
from fleet.charts.arc import APP_SECRET, CONTROLLER, NAMESPACE, Place
from fleet.charts.chart import Chart
from fleet.render.isolation import network_policy
from fleet.settings.egress import CLOSED
from fleet.settings.existing import ServiceAccount
from fleet.settings.github import GitHubApp, ScopeUrl
from fleet.settings.gitops import GitOps, ObjectName
from fleet.settings.model import Cidr, DnsLabel, LabelKey, LabelValue, Model
from fleet.settings.runner import SetName


class SetSettings(Model):
    """The arguments that runner sets of every kind have."""

    github_url: ScopeUrl
    github_secret: ObjectName = APP_SECRET
    runner_scale_set_name: SetName
    listener_node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    priority_class: str = ""
    namespace: DnsLabel | None = None
    create_namespace: bool = True
    isolate: bool = True
    closed_networks: tuple[Cidr, ...] = CLOSED
    controller_namespace: DnsLabel = NAMESPACE
    controller_service_account: ServiceAccount = CONTROLLER
    manifests: tuple[dict[str, Any], ...] = ()
    install_chart: bool = True
    gitops: GitOps | None = None

    @property
    def place(self) -> Place:
        """What the set's chart finds in the cluster."""
        return Place(
            namespace=self.namespace or "",
            secret=self.github_secret,
            listener_selector=self.listener_node_selector,
            priority_class=self.priority_class,
            controller_namespace=self.controller_namespace,
            controller_account=self.controller_service_account,
        )


@dataclass(frozen=True, slots=True)
class App:
    """A GitHub App and its private key, a secret."""

    settings: GitHubApp
    private_key: pulumi.Output[str]


def read_app(inputs: dict[str, Any]) -> App | None:
    """The App of the inputs, if they name one. Marks its private key as secret in the inputs. Raises InputPropertyError."""
    app, key = inputs.get("githubApp"), inputs.get("githubPrivateKey")
    if (app is None) != (key is None):
        raise wrong("githubPrivateKey", "githubApp and githubPrivateKey belong together; give both or neither")
    if app is None:
        return None
    secret = inputs["githubPrivateKey"] = pulumi.Output.secret(key)
    return App(settings(GitHubApp, app, at="githubApp"), secret)


def parts(
    name: str,
    found: SetSettings,
    app: App | None,
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
    made = partial(objects, found.manifests, chart.namespace, name)

    def all_companions(home: pulumi.Input[str], parent: pulumi.Resource) -> list[pulumi.Resource]:
        return [*made(home, parent), *(companions(home, parent) if companions is not None else ())]

    return ScaleSetArgs(
        chart,
        after,
        secret=by_program(app.settings, app.private_key, found.github_secret) if app is not None else None,
        deliver=delivery(found.gitops) if found.install_chart else None,
        policy=network_policy(found.closed_networks, opened, private_ports) if found.isolate else None,
        companions=all_companions,
        owns_namespace=found.create_namespace,
        by_waves=found.gitops is not None,
    )
