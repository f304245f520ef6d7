"""OCI machines that run jobs and push no metrics. A machine lives for one job, so the alert is about the set, not the machine."""

from __future__ import annotations

from collections.abc import Iterator

from fleet.providers.registry import provider_of
from fleet.render.monitoring.rules.rule import Rule, alert, one_of, renamed
from fleet.settings.alerts import Alerts
from fleet.settings.cluster import Cluster


def machine_rules(cluster: Cluster, _: Alerts) -> Iterator[Rule]:
    """The rule of sets whose machines push; none for a cluster without any. A set with places elsewhere may be silent."""
    pushing = provider_of(cluster).gateway(cluster)
    if pushing is None or not pushing.complete:
        return
    # Series of nodes have no runner_class, and so no scale_set either.
    pushed = renamed("count by (runner_class) (DCGM_FI_DEV_GPU_TEMP)", "scale_set", "runner_class")
    yield alert(
        "GpuCiMachinesSilent",
        f'gpu_ci:jobs_running{{scale_set=~"{one_of(pushing.complete)}"}} > 0 unless on (scale_set) {pushed}',
    )
