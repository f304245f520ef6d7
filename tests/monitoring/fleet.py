"""The fleet of the rules' cases: something of everything that has a rule, with thresholds that binary fractions hold exactly."""

from __future__ import annotations

from typing import Any

from fleet.loading.config import load
from fleet.providers.fleet import Fleet
from fleet.render.monitoring.rules import rule_groups
from tests import builders

CLUSTER = "usw2"
MACHINES = "sjc"
RESERVATION = {"id": "cr-0123456789abcdef0", "zone": "us-west-2a", "count": 2, "endDate": "1970-01-02"}
"""It ends 24 hours after the time 0 at which promtool begins."""


def monitored(**changes: Any) -> Fleet:
    """A fleet with monitoring; `changes` replace keys of its cluster."""
    settings = {
        "monitoring": {
            "prometheus": "install",
            "alerts": {
                "objectives": {"gpu-p4": "5m"},
                "idleBelow": 0.0625,
                "runnerLifetime": "90m",
                "reservationNotice": "23h",
            },
        },
        "health": {},
        "pools": {
            "t4": builders.pool(capacity="spot"),
            "p4": builders.pool(instanceTypes=["p4d.24xlarge"], capacity="reserved", reservation=RESERVATION),
            "sliced": builders.pool(sharing={"strategy": "time-slicing", "replicas": 4}),
        },
        "runners": {
            "gpu-t4": builders.runner(maxLifetime="30m"),
            # Jobs in containers. A runner waits 26 minutes for the pod of its job. Half of that is the longest known start.
            "gpu-p4": builders.runner(pool="p4", scale={"max": 3}, maxLifetime="1h", containers="job"),
            "gpu-keep": builders.runner(scale={"min": 1, "max": 2}),
        },
        "caches": {"models": {"storage": "efs", "size": "10Gi", "namespaces": ["ai"]}},
        "workloads": {
            "ollama": {
                "kind": "ollama",
                "pool": "sliced",
                "storage": {"size": "10Gi", "storageClass": "cache-models"},
                "cpu": {"request": 1, "limit": 2},
                "memory": {"request": "4Gi", "limit": "8Gi"},
            }
        },
    }
    return load(builders.config(clusters={CLUSTER: builders.cluster(**settings | changes)}))


def machines(**changes: Any) -> Fleet:
    """A fleet with monitoring of an OKE cluster whose sets are OCI machines; `changes` replace keys of its cluster."""
    away = [builders.place(), builders.place(builders.THERE)]
    settings = {
        "monitoring": {"prometheus": "install"},
        "pools": {},
        "runners": {
            "oci-vm": builders.vm(),
            "oci-job": builders.vm_per_job(),
            "oci-away": builders.vm_per_job(places=away),
        },
    }
    return load(builders.config(clusters={MACHINES: builders.oke_cluster(**settings | changes)}))


def groups() -> list[dict[str, Any]]:
    """The groups of that cluster's rules, and of the machines' own rules."""
    own = [group for group in rule_groups(machines(), MACHINES) if group["name"] == "gpu-ci-machines"]
    return [*rule_groups(monitored(), CLUSTER), *own]
