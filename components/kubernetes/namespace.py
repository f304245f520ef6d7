"""A namespace with its pod-security level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pulumi
import pulumi_kubernetes as kubernetes

Level = Literal["privileged", "baseline", "restricted"]


def namespace(
    logical_name: str, name: str, level: Level, *, parent: pulumi.Resource, depends_on: Sequence[pulumi.Resource]
) -> kubernetes.core.v1.Namespace:
    """A namespace whose pods the API server holds to a Pod Security Standard."""
    return kubernetes.core.v1.Namespace(
        logical_name,
        metadata=kubernetes.meta.v1.ObjectMetaArgs(name=name, labels={"pod-security.kubernetes.io/enforce": level}),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=list(depends_on), delete_before_replace=True),
    )
