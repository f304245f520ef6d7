"""ArgoCD in a cluster that Pulumi creates: ArgoCD installs the rest from Git."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import Delivery, by_helm
from components.kubernetes.namespace import namespace
from fleet.charts.chart import Chart
from fleet.facts.scheduling import DELETION_PROPAGATION
from fleet.render.gitops.applicationset import applicationset
from fleet.settings.gitops import GitOps


@dataclass(frozen=True, slots=True)
class ArgoCdArgs:
    """`chart` is ArgoCD's, `git` the repository that it reads.

    `ready` must exist before any chart, `needed` before the manifests in Git.
    """

    chart: Chart
    git: GitOps
    ready: Sequence[pulumi.Resource]
    needed: Sequence[pulumi.Resource]


class ArgoCd(Component[ArgoCdArgs]):
    """ArgoCD's release and the ApplicationSet that points to the cluster's folder.

    A private repository also needs a Secret with its credentials in ArgoCD's namespace. Create it yourself (docs/gitops.md).
    """

    def declare(self, name: str, args: ArgoCdArgs) -> None:
        home = namespace(f"{name}-namespace", args.chart, parent=self, depends_on=args.ready)
        release = by_helm(Delivery(f"{name}-chart", args.chart, self, [home, *args.ready]))
        root = applicationset(args.git)
        # ArgoCD deletes the objects that it created, so it must be deleted after them.
        root["metadata"]["annotations"] = {DELETION_PROPAGATION: "foreground"}
        custom(f"{name}-applicationset", root, parent=self, depends_on=[release, *args.needed])
