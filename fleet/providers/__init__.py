"""The providers: one row each, and no other place that tells them apart."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any

from fleet.charts import Chart
from fleet.cluster import Cluster
from fleet.github import GitHub
from fleet.pricing import Line
from fleet.providers.eks import EksCluster
from fleet.providers.eks_bill import eks_bill
from fleet.providers.eks_charts import eks_charts
from fleet.providers.eks_quotas import eks_needs
from fleet.providers.oke import OkeCluster
from fleet.providers.oke_bill import oke_bill
from fleet.providers.oke_charts import oke_charts
from fleet.providers.oke_launchers import oke_launchers
from fleet.providers.oke_quotas import oke_needs
from fleet.providers.talos import TalosCluster
from fleet.providers.talos_bill import talos_bill
from fleet.quotas import Need
from fleet.scheduling import EKS_PROFILE, OKE_PROFILE, TALOS_PROFILE, SchedulingProfile
from fleet.tags import AWS_TAGS, NO_TAGS, OCI_TAGS, TagRules


def _no_charts(_settings: Any, _physical_name: str, _github: GitHub) -> tuple[Chart, ...]:
    return ()


def _no_needs(_cluster: Any, _clusters: Iterable[Any]) -> tuple[Need, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Provider:
    """One target. `builder` is "module:function", imported only when a stack has such a cluster; `bill` prices one cluster on a
    day;
    `needs` is what the quotas are to hold that a cluster declares, given all clusters of its provider; `tags` is what its cloud
    takes; `deployable` says whether `pulumi up` makes it; `charts` are those of its cloud's own, given the settings, the
    cluster's physical name and the GitHub scope; `launchers` says how many launchers of machines a cluster holds, and is None
    where no runner is a machine; `files`, a "module:function" too, gives what the machines of a cluster boot, by path, where Git
    has that.
    """

    settings: type[Cluster]
    profile: SchedulingProfile
    bill: Callable[[str, Any, date], tuple[Line, ...]]
    needs: Callable[[Any, Iterable[Any]], tuple[Need, ...]]
    builder: str
    tags: TagRules
    deployable: bool
    charts: Callable[[Any, str, GitHub], tuple[Chart, ...]] = _no_charts
    launchers: Callable[[Any], int] | None = None
    files: str = ""


def imported(place: str) -> Callable[..., Any]:
    """What a "module:function" names, imported now: a stack pays only for the providers that it has."""
    module, _, function = place.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


PROVIDERS: dict[str, Provider] = {
    "eks": Provider(
        EksCluster,
        EKS_PROFILE,
        eks_bill,
        eks_needs,
        "components.eks.stack:build",
        AWS_TAGS,
        deployable=True,
        charts=eks_charts,
    ),
    "oke": Provider(
        OkeCluster,
        OKE_PROFILE,
        oke_bill,
        oke_needs,
        "components.oci.stack:build",
        OCI_TAGS,
        deployable=True,
        charts=oke_charts,
        launchers=oke_launchers,
    ),
    "talos": Provider(
        TalosCluster,
        TALOS_PROFILE,
        talos_bill,
        _no_needs,
        "components.talos.stack:build",
        NO_TAGS,
        deployable=False,
        files="fleet.talos.files:talos_files",
    ),
}
