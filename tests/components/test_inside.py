"""What every cluster has inside, whatever its cloud."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
from pydantic import TypeAdapter

from components.kubernetes.in_cluster import Inside
from components.kubernetes.inside import MachineSet, install
from components.kubernetes.scale_set import Arc, ScaleSet, ScaleSetArgs
from fleet.charts.arc import CONTROLLER
from fleet.loading.config import load
from fleet.providers.installed import plain_charts
from fleet.providers.oke.cluster import OkeCluster
from fleet.providers.oke.launcher_set import LAUNCHER, PerJobSet
from fleet.providers.oke.vm_runner import MachineRunner
from fleet.settings.enablement import DEVICE_PLUGIN, GPU_OPERATOR, GPU_PLUGIN_ADDON
from fleet.settings.operator import OperatorSettings
from gpu_ci.offline.recording import Recording
from tests.builders import config, oke_cluster, oke_pool, oke_runner, vm_per_job
from tests.charts import launcher_set
from tests.components.recorded import build_alone, named, of_type

RELEASE = "kubernetes:helm.sh/v3:Release"
MAP = "kubernetes:core/v1:ConfigMap"
OPERATOR = "gpu-ci:index:GpuOperator"
PLUGIN = "gpu-ci:index:DevicePluginStack"


def build(machine_set: MachineSet | None = None, operator: OperatorSettings | None = None, **changes: Any) -> Recording:
    """The inside of an OKE cluster alone."""
    cluster = TypeAdapter(OkeCluster).validate_json(json.dumps(oke_cluster(**changes)))
    if operator is not None:
        cluster = cluster.model_copy(update={"operator": operator})
    fleet = load(config(clusters={"sjc": oke_cluster(**changes)}))

    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        opts = pulumi.ResourceOptions(providers=[provider])
        ready = [kubernetes.core.v1.ConfigMap("ready", opts=pulumi.ResourceOptions(provider=provider))]
        inside = Inside("sjc", cluster, ready, opts)
        pulumi.export("runnerSets", install(inside, fleet, {"default": pulumi.Output.secret("key")}, machine_set))

    return build_alone(program)


def machine_set(name: str, runner: MachineRunner, arc: Arc) -> ScaleSet:
    """A set of machines with a ConfigMap, as a cloud's component makes one."""
    group = runner.group or arc.github.group
    chart = launcher_set(name, runner, arc.github.url, group, region="us-sanjose-1", compartment="ocid1.compartment.oc1..example")

    def companions(namespace: pulumi.Input[str], parent: pulumi.Resource) -> list[pulumi.Resource]:
        return [
            kubernetes.core.v1.ConfigMap(
                f"{name}-launcher",
                metadata=kubernetes.meta.v1.ObjectMetaArgs(name=LAUNCHER, namespace=namespace),
                opts=pulumi.ResourceOptions(parent=parent),
            )
        ]

    provider = kubernetes.Provider("other", kubeconfig="{}")
    opts = pulumi.ResourceOptions(providers=[provider])
    assert arc.private_keys
    of_set: dict[str, Any] = {"github_url": arc.github.url, "runner_scale_set_name": name, "isolate": False}
    settings = PerJobSet.model_construct(**of_set)
    args = ScaleSetArgs(chart, settings, arc.app("default"), arc.after, companions)
    return ScaleSet(f"sjc-{name}", opts, args)


@pytest.mark.parametrize(
    ("enablement", "made"), [(DEVICE_PLUGIN, {PLUGIN}), (GPU_OPERATOR, {OPERATOR}), (GPU_PLUGIN_ADDON, set())]
)
def test_one_component_or_the_provider_itself_makes_gpus_schedulable(enablement, made):
    recording = build(enablement=enablement)
    assert {resource.type for resource in recording.resources} & {PLUGIN, OPERATOR} == made
    assert named(recording, "sjc-arc", "gpu-ci:index:ArcController"), "the rest exists either way"
    assert named(recording, "sjc-oci-a10", "gpu-ci:index:ArcRunnerSet")


def test_a_cluster_of_machines_alone_needs_no_operator():
    recording = build(machine_set, enablement=GPU_OPERATOR, pools={}, runners={"oci": vm_per_job()})
    assert of_type(recording, OPERATOR) == ()
    plain = [chart.name for chart in plain_charts(TypeAdapter(OkeCluster).validate_json(json.dumps(oke_cluster())))]
    assert [each.inputs["name"] for each in of_type(recording, RELEASE)] == [*plain, CONTROLLER, "oci"]


@pytest.mark.parametrize("cdi", [False, True])
def test_the_pools_say_whether_containers_get_gpus_by_cdi(cdi):
    pools = {"a10": oke_pool(cdi=cdi)}
    plugin = named(build(enablement=DEVICE_PLUGIN, pools=pools), "sjc-device-plugin-chart", RELEASE).inputs["values"]
    assert ("config" in plugin) is cdi
    operator = named(build(enablement=GPU_OPERATOR, pools=pools), "sjc-gpu-operator-chart", RELEASE).inputs["values"]
    assert operator["cdi"] == {"enabled": cdi}


def test_plugin_and_operator_tolerate_what_the_provider_puts_on_its_nodes():
    keys = {"nvidia.com/gpu", "oci.oraclecloud.com/oke-is-preemptible"}
    plugin = named(build(enablement=DEVICE_PLUGIN), "sjc-device-plugin-chart", RELEASE).inputs["values"]
    assert {each["key"] for each in plugin["tolerations"]} == keys | {"CriticalAddonsOnly"}
    operator = named(build(enablement=GPU_OPERATOR), "sjc-gpu-operator-chart", RELEASE).inputs["values"]
    assert {each["key"] for each in operator["daemonsets"]["tolerations"]} == keys


def test_a_runner_asks_for_the_nvidia_runtime_where_that_is_not_the_default():
    """The operator installs it, CDI is off, and the settings leave runc the default."""
    operator = OperatorSettings.model_validate_json('{"containerd": {"defaultRuntime": false}}')
    pools = {"a10": oke_pool(image="ubuntu")}
    recording = build(operator=operator, enablement=GPU_OPERATOR, pools=pools)
    pod = named(recording, "sjc-oci-a10-chart", RELEASE).inputs["values"]["template"]["spec"]
    assert pod["runtimeClassName"] == "nvidia"
    plain = named(build(enablement=GPU_OPERATOR, pools=pools), "sjc-oci-a10-chart", RELEASE)
    assert "runtimeClassName" not in plain.inputs["values"]["template"]["spec"]


def test_a_set_of_machines_is_built_by_the_clouds_own_component():
    recording = build(machine_set, runners={"oci-a10": oke_runner(), "oci": vm_per_job(labels=["a10"], group="GPUs")})
    release = named(recording, "sjc-oci-chart", RELEASE)
    assert release.inputs["values"]["runnerGroup"] == "GPUs"
    assert recording.outputs["runnerSets"] == {
        "oci-a10": {"namespace": "runners-oci-a10", "labels": ["oci-a10"]},
        "oci": {"namespace": "runners-oci", "labels": ["oci", "a10"]},
    }


def test_what_launchers_need_stands_before_their_set():
    recording = build(machine_set, runners={"oci": vm_per_job()})
    release = named(recording, "sjc-oci-chart", RELEASE)
    held = named(recording, "oci-launcher", MAP)
    assert held.urn in release.dependencies, "a pod without its account or its ConfigMap fails at once"
    assert held.inputs["metadata"]["namespace"] == "runners-oci"
    assert held.parent == named(recording, "sjc-oci", "gpu-ci:index:ArcRunnerSet").urn
    secret = named(recording, "sjc-oci-github-app", "kubernetes:core/v1:Secret")
    controller = named(recording, "sjc-arc-chart", RELEASE)
    assert {secret.urn, controller.urn} <= set(release.dependencies)


def test_machines_without_a_builder_are_an_error():
    with pytest.raises(Exception, match="sjc/oci: nothing here builds runners of kind vm-per-job"):
        build(runners={"oci": vm_per_job()})


# -- pools that share GPUs ---------------------------------------------------------------------------------------------

SLICED = {"strategy": "time-slicing", "replicas": 4}
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"


def shared(strategy):
    return {"a10": oke_pool(nodes={"min": 1, "max": 2}, sharing=strategy)}


@pytest.mark.parametrize(
    ("enablement", "component", "namespace", "where"),
    [
        (DEVICE_PLUGIN, "device-plugin", "nvidia-device-plugin", ("config",)),
        (GPU_OPERATOR, "gpu-operator", "gpu-operator", ("devicePlugin", "config")),
    ],
)
def test_the_plugins_configs_stand_before_the_release_that_names_them(enablement, component, namespace, where):
    recording = build(enablement=enablement, pools=shared(SLICED))
    made = named(recording, f"sjc-{component}-configs", CONFIG_MAP)
    release = named(recording, f"sjc-{component}-chart", RELEASE)
    told = release.inputs["values"]
    for key in where:
        told = told[key]
    assert told["name"] == made.inputs["metadata"]["name"], "the release waits for a ConfigMap of that name"
    assert told["default"] in made.inputs["data"]
    assert made.inputs["metadata"]["namespace"] == namespace
    assert made.urn in release.dependencies
    assert made.parent.endswith(f"::sjc-{component}")


def test_another_way_of_sharing_is_another_config_map_and_the_release_changes_with_it():
    one, other = (build(enablement=DEVICE_PLUGIN, pools=shared(SLICED | {"replicas": count})) for count in (4, 5))
    names = [named(each, "sjc-device-plugin-configs", CONFIG_MAP).inputs["metadata"]["name"] for each in (one, other)]
    assert names[0] != names[1]
    values = [named(each, "sjc-device-plugin-chart", RELEASE).inputs["values"] for each in (one, other)]
    assert [each["config"]["name"] for each in values] == names


def test_runners_ask_for_what_their_pool_advertises():
    recording = build(enablement=DEVICE_PLUGIN, pools=shared(SLICED))
    (container,) = named(recording, "sjc-oci-a10-chart", RELEASE).inputs["values"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu.shared"] == 1
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    quota = named(recording, "sjc-oci-a10-quota", "kubernetes:core/v1:ResourceQuota").inputs["spec"]["hard"]
    assert {key: quota[key] for key in quota if "nvidia" in key} == {
        "requests.nvidia.com/gpu": "0",
        "requests.nvidia.com/gpu.shared": "4",
    }


def test_mig_pools_tell_the_operator_how_parts_are_named_and_each_node_how_it_is_cut():
    mig = {"instanceTypes": ["BM.GPU4.8"], "nodes": {"min": 1, "max": 1}, "sharing": {"strategy": "mig", "profile": "3g.20gb"}}
    pools = {"a10": oke_pool(), "a100": oke_pool(**mig)}
    values = named(build(enablement=GPU_OPERATOR, pools=pools), "sjc-gpu-operator-chart", RELEASE).inputs["values"]
    assert (values["mig"], values["migManager"]["enabled"]) == ({"strategy": "mixed"}, True)
    plain = named(build(enablement=GPU_OPERATOR, pools={"a10": oke_pool()}), "sjc-gpu-operator-chart", RELEASE)
    assert (plain.inputs["values"]["mig"], plain.inputs["values"]["migManager"]["enabled"]) == ({"strategy": "none"}, False)
