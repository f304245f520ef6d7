"""OKE clusters of a test's own, built alone: as a preview, or as an update in which every id is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi

from components.context import Context
from components.oci.stack import build
from fleet.loading.config import load
from fleet.providers.fleet import Fleet
from gpu_ci.offline.record import Answer
from gpu_ci.offline.recording import Recording, Resource
from tests.builders import config, oke_cluster
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


def _build(described: Fleet) -> None:
    context = Context("gpu-ci", "test", TAGS)
    build("sjc", described.clusters["sjc"], described, context, pulumi.Output.secret(KEY))


def the(recording: Recording, token: str) -> Resource:
    """The one resource of a type."""
    (found,) = of_type(recording, token)
    return found
