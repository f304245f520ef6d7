"""The GPU operator in a cluster: its release, its namespace, and nothing that it makes itself."""

from __future__ import annotations

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.kubernetes.enablement import GpuOperator, GpuOperatorArgs
from fleet.charts.device_plugin import plugin_configs
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.scheduling import OKE_PROFILE, SYSTEM_SELECTOR
from fleet.settings.operator import OperatorSettings
from gpu_ci.offline.recording import Recording
from tests.builders import pool_of
from tests.charts import gpu_operator
from tests.components.recorded import build_alone, named, of_type

RELEASE = "kubernetes:helm.sh/v3:Release"
NAMESPACE = "kubernetes:core/v1:Namespace"


SHARED = [pool_of(sharing={"strategy": "time-slicing", "replicas": 4})]
CONFIGS = plugin_configs(SHARED, by_operator=True)
UBUNTU = NODE_IMAGES["ubuntu"]
CHART = gpu_operator(
    UBUNTU, OperatorSettings(), cdi=True, tolerations=OKE_PROFILE.tolerations, mig_strategy="single", access=SHARED
)


def _program() -> None:
    provider = kubernetes.Provider("cluster", kubeconfig="{}")
    ready = kubernetes.core.v1.ConfigMap("ready", opts=pulumi.ResourceOptions(provider=provider))
    tolerations: Any = [toleration.manifest() for toleration in OKE_PROFILE.tolerations]
    args: GpuOperatorArgs = {
        "install_driver": not UBUNTU.driver,
        "install_toolkit": not UBUNTU.toolkit,
        "device_plugin": not UBUNTU.advertises,
        "cdi": True,
        "mig_strategy": "single",
        "tolerations": tolerations,
        "access": [{"sharing": {"strategy": "time-slicing", "replicas": 4}}],
        "controller_node_selector": dict(SYSTEM_SELECTOR),
    }
    operator = GpuOperator("iad-gpu-operator", args, pulumi.ResourceOptions(providers=[provider], depends_on=[ready]))
    pulumi.export("namespace", operator.namespace_name)


@pytest.fixture(scope="module")
def alone() -> Recording:
    return build_alone(_program, "fixed")


def test_the_release_has_the_values_of_its_image_and_settings(alone):
    found = named(alone, "iad-gpu-operator-chart", RELEASE).inputs
    assert found["values"] == CHART.values
    assert (found["chart"], found["version"]) == ("gpu-operator", CHART.version)
    assert found["repositoryOpts"] == {"repo": "https://helm.ngc.nvidia.com/nvidia"}


def test_an_upgrade_may_bring_fields_that_the_cluster_does_not_know_yet(alone, staging):
    found = named(alone, "iad-gpu-operator-chart", RELEASE).inputs
    assert found["disableOpenapiValidation"] is True, "the chart's own hook installs the CRDs, after Helm has checked"
    for release in of_type(staging, RELEASE):
        assert "disableOpenapiValidation" not in release.inputs, f"{release.name}: no other chart needs that"


def test_its_namespace_lets_operands_mount_the_hosts_folders(alone):
    space = named(alone, "iad-gpu-operator-namespace", NAMESPACE)
    assert space.inputs["metadata"] == {
        "name": "gpu-operator",
        "labels": {"pod-security.kubernetes.io/enforce": "privileged"},
    }
    (release,) = of_type(alone, RELEASE)
    assert space.urn in release.dependencies
    assert release.inputs["namespace"] == "gpu-operator"


def test_it_waits_for_what_charts_need(alone):
    ready = named(alone, "ready", "kubernetes:core/v1:ConfigMap")
    (release,) = of_type(alone, RELEASE)
    (space,) = of_type(alone, NAMESPACE)
    assert ready.urn in set(release.dependencies) & set(space.dependencies)


def test_the_runtime_class_is_the_operators_own(alone, prod):
    for recording in (alone, prod):
        kinds = {resource.type for resource in recording.resources if resource.type.startswith("kubernetes:")}
        assert not [kind for kind in kinds if "RuntimeClass" in kind], "a second owner: the first one to go takes it along"


def test_a_cluster_with_the_operator_has_no_other_advertiser(prod):
    on_eks = [each.inputs["name"] for each in of_type(prod, RELEASE) if each.name.startswith("use1-")]
    assert on_eks.count("gpu-operator") == 1
    assert "nvidia-device-plugin" not in on_eks
