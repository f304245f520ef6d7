"""OKE clusters of a test's own, built alone: as a preview, or as an update in which every id is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from components.context import Context
from components.generations import Generations
from components.oci.stack import build
from fleet.loading.config import load
from fleet.providers.fleet import Fleet
from gpu_ci.offline.recording import Answer, Recording, Resource
from tests.builders import THERE, config, oke_cluster, oke_pool, place, vm, vm_per_job
from tests.components.recorded import build_alone, of_type

CLUSTER = "oci:ContainerEngine/cluster:Cluster"
NODE_POOL = "oci:ContainerEngine/nodePool:NodePool"
ADDON = "oci:ContainerEngine/addon:Addon"
SUBNET = "oci:Core/subnet:Subnet"
GROUP = "oci:Core/networkSecurityGroup:NetworkSecurityGroup"
RULE = "oci:Core/networkSecurityGroupSecurityRule:NetworkSecurityGroupSecurityRule"
POLICY = "oci:Identity/policy:Policy"
KEY = "a made-up private key"
TAGS = {"gpu-ci/stack": "test", "owner": "ci"}

SERVICES_LABEL = "all-sjc-services-in-oracle-services-network"
ANSWERS: Mapping[str, Answer] = {
    "oci:Core/getServices:getServices": lambda _: {
        "services": [{"id": "ocid1.service.oc1.sjc.example", "cidrBlock": SERVICES_LABEL, "name": "All SJC Services"}]
    },
    "oci:ContainerEngine/getClusterKubeConfig:getClusterKubeConfig": lambda _: {"content": "{}"},
    "oci:ObjectStorage/getNamespace:getNamespace": lambda _: {"namespace": "axexample"},
}
"""OCI's answers after a cluster is created."""


def fleet(**changes: Any) -> Fleet:
    """A fleet of the one cluster sjc; `changes` replace its settings."""
    return load(config(clusters={"sjc": oke_cluster(**changes)}))


def planned(**changes: Any) -> Recording:
    """The cluster and all that belongs to it, as a first preview sees it: it may ask no cloud."""
    return build_alone(lambda: _build(fleet(**changes)), f"{changes}")


def made(**changes: Any) -> Recording:
    """The same as an update: ids are `<name>-id`."""
    return build_alone(lambda: _build(fleet(**changes)), f"{changes}", preview=False, answers=ANSWERS)


def answered(answers: Mapping[str, Answer], **changes: Any) -> Recording:
    """The same with other answers of OCI's."""
    return build_alone(lambda: _build(fleet(**changes)), preview=False, answers={**ANSWERS, **answers})


def updated(recorded: Any, state: Mapping[str, Any], **changes: Any) -> Recording:
    """An update with what the last one recorded and what it left in the state. Its output `generations` is what it records."""
    generations = Generations(recorded)

    def program() -> None:
        _build(fleet(**changes), generations)
        pulumi.export("generations", generations.first)

    answers = {**ANSWERS, "pulumi:pulumi:readStackResourceOutputs": lambda _: {"outputs": state}}
    return build_alone(program, preview=False, answers=answers)


def _build(described: Fleet, generations: Generations | None = None) -> None:
    context = Context("gpu-ci", "test", TAGS, generations or Generations())
    build("sjc", described.clusters["sjc"], described, context, {"default": pulumi.Output.secret(KEY)})


CNCF_PLACE = place() | {"subnet": "ocid1.subnet.oc1.sjc.examplepublic"}
CNCF = {key: value for key, value in vm_per_job(launcher="cncf", places=[CNCF_PLACE]).items() if key != "image"}
EMPTY: dict[str, Any] = {"pools": {}, "runners": {}}
"""For a test of what a cluster has without any."""
MACHINES: dict[str, Any] = {
    "runners": {"vm": vm(count=2), "job": vm_per_job(places=[place(), place(THERE)]), "theirs": CNCF},
}
"""Machines of each kind: standing ones, one for each job here and in another region, and those of CNCF's launcher."""
PLUGIN: dict[str, Any] = {"enablement": "device-plugin", "pools": {"a10": oke_pool(cdi=True), "plain": oke_pool()}}
OPERATOR: dict[str, Any] = {"enablement": "gpu-operator", "pools": {name: oke_pool(image="ubuntu") for name in ("a10", "b10")}}
"""Something else than OKE's plugin advertises the GPUs of these clusters."""
DOMAINS = [f"abcd:US-ASHBURN-AD-{number}" for number in (1, 2, 3)]
IN_DOMAINS: dict[str, Any] = {"region": THERE, "zones": DOMAINS, "pools": {"a10": oke_pool(zones=DOMAINS[1:2])}}
"""A cluster of three availability domains with a pool in one of them."""


def the(recording: Recording, token: str) -> Resource:
    """The one resource of a type."""
    (found,) = of_type(recording, token)
    return found
