"""ArgoCD in a cluster that Pulumi makes: it brings the rest out of Git."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from components.component import Component
from components.kubernetes.custom import custom
from components.kubernetes.deliver import by_helm
from components.kubernetes.namespace import namespace
from fleet.charts.argo_cd import argo_cd
from fleet.facts.scheduling import DELETION_PROPAGATION
from fleet.render.gitops.applicationset import applicationset
from fleet.settings.gitops import GitOps


@dataclass(frozen=True, slots=True)
class ArgoCdArgs:
    """`git` is the repository that it reads; `ready` are the resources that stand before any chart, `needed` those that what Git
    has needs of the program.
    """

    git: GitOps
    ready: Sequence[pulumi.Resource]
    needed: Sequence[pulumi.Resource]


class ArgoCd(Component[ArgoCdArgs]):
    """ArgoCD's release and the ApplicationSet that leads it to the cluster's folder.

    A private repository also needs a Secret with its credentials in ArgoCD's namespace, which is not made here (docs/gitops.md).
    """

    def declare(self, name: str, args: ArgoCdArgs) -> None:
        chart = argo_cd(args.git.namespace)
        home = namespace(f"{name}-namespace", chart, parent=self, depends_on=args.ready)
        release = by_helm(f"{name}-chart", chart, parent=self, depends_on=[home, *args.ready])
        root = applicationset(args.git)
        # ArgoCD itself removes what it made, so it goes after that.
        root["metadata"]["annotations"] = {DELETION_PROPAGATION: "foreground"}
        custom(f"{name}-applicationset", root, parent=self, depends_on=[release, *args.needed])
