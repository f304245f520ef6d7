"""Images of everything in a cluster, pulled from the cluster's registry."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi

from fleet.charts.chart import mirrored
from fleet.settings.registry import Mirror

_KUBERNETES = "kubernetes:"


def from_registry(mirror: Mirror | None, providers: Sequence[pulumi.ProviderResource]) -> pulumi.ResourceOptions:
    """Options for a component: its releases, Applications and pods, and those below it, pull from the registry."""

    def change(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult | None:
        if mirror is None or not args.type_.startswith(_KUBERNETES):
            return None
        return pulumi.ResourceTransformationResult(mirrored(mirror, args.props), args.opts)

    return pulumi.ResourceOptions(providers=list(providers), transformations=[change] if mirror is not None else None)
