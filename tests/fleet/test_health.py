"""What the plan says of sick nodes, how many may be out of use at once, and which reasons EKS repairs."""

from __future__ import annotations

from typing import Any

import botocore.loaders

from fleet.facts.scheduling import QUARANTINE_TAINT, STARTUP_GATE
from fleet.facts.xid import HEALTHY, REASONS, XIDS
from fleet.loading.config import load
from fleet.settings.health import nodes_at_once
from tests.builders import cluster, config, existing_eks, oke_cluster
from tests.cases import cases

TIMING = "health: quarantine 3 minutes after a node lost a GPU (8 if it is new), at once after 3 rejected pods or a GPU error; "


def said(settings: dict[str, Any]) -> list[str]:
    fleet = load(config(clusters={"one": settings}))
    return [each for each in fleet.clusters["one"].remarks if each.startswith("health")]


def test_the_plan_says_when_a_sick_node_is_quarantined_and_what_repairs_it() -> None:
    page = " (docs/node-health.md)"
    assert said(cluster(health={})) == [f"{TIMING}EKS repairs GPU errors after 5 minutes, and silent nodes after 30{page}"]
    (slow,) = said(cluster(health={"repairWait": "12m", "startWithin": "20m", "rejectedPods": 9}))
    assert "(20 if it is new)" in slow
    assert "after 9 rejected pods" in slow
    assert "repairs GPU errors after 12 minutes" in slow
    agent = "repairs no GPU without the add-on eks-node-monitoring-agent"
    assert said(existing_eks(health={}, installed=[])) == [
        f"{TIMING}EKS replaces silent nodes after 30 minutes, and {agent}{page}"
    ]
    assert said(oke_cluster(health={})) == [f"{TIMING}no node repair: the autoscaler or a person removes it{page}"]
    assert said(cluster()) == []


def test_a_device_plugin_that_the_program_does_not_install_must_tolerate_the_gate() -> None:
    (_, warning) = said(existing_eks(health={"startupGate": True}, installed=["device-plugin"]))
    assert f"device-plugin of the cluster must tolerate {STARTUP_GATE.key}" in warning
    assert len(said(existing_eks(health={"startupGate": True}))) == 1
    assert len(said(existing_eks(health={}, installed=["device-plugin"]))) == 1


@cases(("nodes", "most"), [(1, 1), (5, 1), (6, 2), (10, 2), (35, 7), (40, 8)])
def test_a_fifth_of_the_nodes_rounded_up_may_be_out_of_use(nodes: int, most: int) -> None:
    assert nodes_at_once(0.2, nodes) == most


def test_eks_knows_these_reasons_and_a_job_can_cause_only_those_that_nvidia_calls_harmless() -> None:
    assert {each.xid for each in REASONS} - {""} <= XIDS.keys()
    assert {each.action for each in REASONS} == {"Replace", "Reboot"}
    assert tuple(f"NvidiaXID{code}Error" for code in (13, 31, 63, 94, 121)) == HEALTHY


def test_the_eks_api_takes_the_key_of_the_startup_gate() -> None:
    shapes = botocore.loaders.Loader().load_service_model("eks", "service-2")["shapes"]
    assert len(STARTUP_GATE.key) <= shapes["taintKey"]["max"]
    assert len(QUARANTINE_TAINT.key) <= shapes["taintKey"]["max"], "the same limit, so that it could be one of a node group"
