"""The providers: one row each, and no other place that tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.cluster import Cluster
from fleet.pricing import Line
from fleet.providers.eks import EksCluster
from fleet.providers.eks_bill import eks_bill
from fleet.providers.oke import OkeCluster
from fleet.providers.oke_bill import oke_bill
from fleet.providers.oke_launchers import oke_launchers
from fleet.scheduling import EKS_PROFILE, OKE_PROFILE, SchedulingProfile
from fleet.tags import AWS_TAGS, OCI_TAGS, TagRules


@dataclass(frozen=True, slots=True)
class Provider:
    """One target. `builder` is "module:function", imported only when a stack has such a cluster; `bill` prices one cluster;
    `tags` is what its cloud takes; `launchers` says how many launchers of machines a cluster holds, and is None where no runner
    is a machine.
    """

    settings: type[Cluster]
    profile: SchedulingProfile
    bill: Callable[[str, Any], tuple[Line, ...]]
    builder: str
    tags: TagRules
    deployable: bool
    launchers: Callable[[Any], int] | None = None


PROVIDERS: dict[str, Provider] = {
    "eks": Provider(EksCluster, EKS_PROFILE, eks_bill, "components.eks.stack:build", AWS_TAGS, deployable=True),
    "oke": Provider(
        OkeCluster, OKE_PROFILE, oke_bill, "components.oci.stack:build", OCI_TAGS, deployable=True, launchers=oke_launchers
    ),
}
