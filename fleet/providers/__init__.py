"""The providers: one row each, and no other place that tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fleet.cluster import Cluster
from fleet.pricing import Line
from fleet.providers.eks import EksCluster
from fleet.providers.eks_bill import eks_bill
from fleet.providers.eks_quotas import eks_needs
from fleet.providers.oke import OkeCluster
from fleet.providers.oke_bill import oke_bill
from fleet.providers.oke_launchers import oke_launchers
from fleet.providers.oke_quotas import oke_needs
from fleet.quotas import Need
from fleet.scheduling import EKS_PROFILE, OKE_PROFILE, SchedulingProfile
from fleet.tags import AWS_TAGS, OCI_TAGS, TagRules


@dataclass(frozen=True, slots=True)
class Provider:
    """One target. `builder` is "module:function", imported only when a stack has such a cluster; `bill` prices one cluster;
    `needs` is what the quotas are to hold that a cluster declares, given all clusters of its provider; `tags` is what its cloud
    takes; `launchers` says how many launchers of machines a cluster holds, and is None where no runner is a machine.
    """

    settings: type[Cluster]
    profile: SchedulingProfile
    bill: Callable[[str, Any], tuple[Line, ...]]
    needs: Callable[[Any, Iterable[Any]], tuple[Need, ...]]
    builder: str
    tags: TagRules
    deployable: bool
    launchers: Callable[[Any], int] | None = None


PROVIDERS: dict[str, Provider] = {
    "eks": Provider(EksCluster, EKS_PROFILE, eks_bill, eks_needs, "components.eks.stack:build", AWS_TAGS, deployable=True),
    "oke": Provider(
        OkeCluster,
        OKE_PROFILE,
        oke_bill,
        oke_needs,
        "components.oci.stack:build",
        OCI_TAGS,
        deployable=True,
        launchers=oke_launchers,
    ),
}
