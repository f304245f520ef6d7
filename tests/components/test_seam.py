"""A setting that is in the model and in the chart reaches the component, and no second list has its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest
from pydantic import TypeAdapter
from pydantic.alias_generators import to_camel

from components.arguments import as_inputs, inputs_of
from components.component import PackagedComponent
from components.eks.eks_gpu_cluster import EksClusterSettings
from components.eks.gpu_node_group import NodeGroupSettings
from components.kubernetes.arc_runner_set import ArcRunnerSet, Read
from components.kubernetes.enablement import DevicePluginStack, GpuOperator
from components.oci.oke_gpu_cluster import OkeClusterSettings
from fleet.charts.chart import Chart
from fleet.charts.enablement import DevicePlugin
from fleet.charts.gpu_operator import GpuOperatorSettings
from fleet.charts.runner_sets import PodSet
from fleet.loading.config import load
from fleet.providers import installed
from fleet.providers.eks.cluster import EksCluster
from fleet.providers.oke.launcher_set import PerJobSet, StandingSet
from fleet.render.container_jobs import container_jobs
from fleet.settings.github import GitHub
from fleet.settings.model import Model
from fleet.settings.operator import OperatorSettings
from fleet.settings.runner import PodRunner, RunnerPod
from gpu_ci.offline.recording import Recording
from package.provider import PackageProvider, packaged
from tests.builders import cluster, config, runner
from tests.cases import cases
from tests.components.recorded import build_alone, named
from tests.package.arguments import ARGUMENTS, POD_FIELDS

RELEASE = "kubernetes:helm.sh/v3:Release"
GITHUB = GitHub(url="https://github.com/example", appId="123456", installationId="12345678", group="GPUs")

RUNNER: Mapping[str, Any] = {
    "labels": ["l4"],
    "group": "other",
    "gpus": 2,
    "cpu": {"request": 2, "limit": 3},
    "memory": {"request": "8Gi", "limit": "12Gi"},
    "shm": "1Gi",
    "scratch": "30Gi",
    "scale": {"min": 1, "max": 5},
    "image": "ghcr.io/example/runner:1.0",
    **POD_FIELDS,
    "containers": "job",
    "keepFailed": {"time": "900s", "group": "gpu-ci-debug"},
    "fillNodes": True,
}
"""Another value for each setting of a runner pod."""
OF_CONTAINERS: Mapping[str, Any] = {"services": {"most": 1}, "podSecurity": "restricted"}
"""The settings of it that only a class with containers may have. They reach the objects of its jobs, not the chart."""
OPERATOR: Mapping[str, Any] = {
    "driver": {"version": "580.65.06"},
    "containerd": {"config": "/etc/containerd/own.toml"},
    "serviceMonitor": True,
}
"""Another value for each setting of the operator."""
OF_STACK = {"github", "kind", "provider", "was"}
OF_CLUSTER = {
    *("admission", "amis", "buildCaches", "caches", "enablement", "gitops", "health", "jobs", "monitoring", "operator", "pools"),
    *("privateEgress", "queues", "registry", "runners", "workloads", "accountQuotas", "declareQuotas", "delivery"),
    *("addonVersions", "compartmentPath", "gpuPluginAddon", "idleDelay", "machineCompartment", "machineCompartmentPath"),
    *("nodeImages", "poolBudgets", "replaceNodes", "runnerQuotas"),
}
"""Settings of a cluster that other components have, or the program itself."""
MODELS: Mapping[str, tuple[type[Model], ...]] = {
    "ArcRunnerSet": (PodSet,),
    "DevicePluginStack": (DevicePlugin,),
    "EksGpuCluster": (EksClusterSettings,),
    "GpuNodeGroup": (NodeGroupSettings,),
    "GpuOperator": (GpuOperatorSettings,),
    "OciGpuRunner": (PerJobSet, StandingSet),
    "OkeGpuCluster": (OkeClusterSettings,),
}
NOT_ARGUMENTS = {
    "EksGpuCluster": OF_CLUSTER,
    "OkeGpuCluster": OF_CLUSTER,
    # A name of the stack's own images, a kind of image, pods of the cluster, and a reason about the stack's runner sets.
    "GpuNodeGroup": {"ami", "image", "placeholders", "acceptSharedNodes"},
    # A need of the jobs' images, which the proofs of a stack compare with the driver of its machines.
    "OciGpuRunner": {"cuda"},
}
PROVIDER = PackageProvider()
COMPONENTS = {component.__name__: component for component in packaged()}
CASES = [
    pytest.param(COMPONENTS[name], case, id=f"{name}-{index}")
    for name in COMPONENTS
    for index, case in enumerate(ARGUMENTS[name])
]


def own_cluster(**changes: Any) -> EksCluster:
    found: EksCluster = load(config(clusters={"usw2": cluster(**changes)})).clusters["usw2"]
    return found


def runner_class(kind: type[PodRunner] = PodRunner, **changes: Any) -> PodRunner:
    return TypeAdapter(kind).validate_json(json.dumps(runner(**changes)))


def alone(component: Any, args: Any) -> Recording:
    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        component.typed("one", args, pulumi.ResourceOptions(providers=[provider]))

    return build_alone(program)


def released(component: Any, args: Any) -> Mapping[str, Any]:
    values: Mapping[str, Any] = named(alone(component, args), "one-chart", RELEASE).inputs["values"]
    return values


def plain(chart: Chart) -> Any:
    """The chart's values as they are in a state."""
    return json.loads(json.dumps(chart.values, sort_keys=True))


def pod_set(pods: PodRunner) -> PodSet:
    return installed.pod_set_of(own_cluster(), "gpu-t4", pods, GITHUB)


def test_every_setting_of_a_runner_pod_and_of_the_operator_has_a_value_here():
    fields = {name: {field.alias or key for key, field in kind.model_fields.items()} for name, kind in _KINDS.items()}
    assert RUNNER.keys() | OF_CONTAINERS | {"kind", "github", "was"} == fields["runner"], "add a value for the new setting"
    assert OPERATOR.keys() == fields["operator"], "add a value for the new setting"


_KINDS: Mapping[str, type[Model]] = {"runner": RunnerPod, "operator": OperatorSettings}


@cases("key", RUNNER)
def test_each_setting_of_a_runner_class_reaches_the_chart_through_the_component(key):
    changed = runner_class(**{key: RUNNER[key]})
    chart = installed.pod_set(own_cluster(), "gpu-t4", changed, GITHUB)
    assert chart.values != installed.pod_set(own_cluster(), "gpu-t4", runner_class(), GITHUB).values, "the chart has the setting"
    assert released(ArcRunnerSet, Read(pod_set(changed), None, None)) == plain(chart), "and the component installs that chart"


@cases("key", OF_CONTAINERS)
def test_each_setting_of_containers_reaches_the_objects_of_the_jobs(key):
    plain_class = runner_class(containers="job")
    changed = runner_class(containers="job", **{key: OF_CONTAINERS[key]})
    assert container_jobs(pod_set(changed)) != container_jobs(pod_set(plain_class))


@cases("key", RUNNER)
def test_the_state_shows_each_setting_of_a_runner_class(key):
    settings = pod_set(runner_class(**{key: RUNNER[key]}))
    inputs = named(alone(ArcRunnerSet, Read(settings, None, None)), "one", "gpu-ci:index:ArcRunnerSet").inputs
    other_names: dict[str, dict[str, Any]] = {
        "group": {"runnerGroup": "other"},
        "scale": {"minRunners": 1, "maxRunners": 5},
        "cpu": {"cpu": {"request": "2", "limit": "3"}},
    }
    expected = other_names.get(key, {key: RUNNER[key]})
    assert {name: inputs[name] for name in expected} == expected


def operated(**operator: Any) -> GpuOperatorSettings:
    # No image of EKS lets a stack file have all of them.
    settings = TypeAdapter(OperatorSettings).validate_json(json.dumps(operator))
    found = installed.enablement_of(own_cluster(enablement="gpu-operator").model_copy(update={"operator": settings}))
    assert isinstance(found, GpuOperatorSettings)
    return found


@pytest.mark.parametrize("key", OPERATOR)
def test_each_setting_of_the_operator_reaches_what_its_chart_and_its_component_read(key):
    found = operated(**{key: OPERATOR[key]})
    assert found.model_dump(mode="json", by_alias=True, exclude_unset=True)[key] == OPERATOR[key]
    assert released(GpuOperator, found) == plain(found.chart)


def test_the_device_plugin_is_the_same_chart_in_a_plan_and_in_the_component():
    shared = {**cluster()["pools"]["t4"], "sharing": {"strategy": "time-slicing", "replicas": 4}}
    settings = own_cluster(
        pools={"t4": cluster()["pools"]["t4"], "shared": shared}, runners={"gpu-t4": runner()}, enablement="device-plugin"
    )
    found = installed.enablement_of(settings)
    assert isinstance(found, DevicePlugin)
    (chart,) = [each for each in installed.shared_charts(settings) if each.name == found.chart.name]
    assert "config" in chart.values
    assert released(DevicePluginStack, found) == plain(chart)


class _GracefulPod(RunnerPod):
    """A runner pod with a setting that no other code knows."""

    grace: int = 90


class _Graceful(PodRunner, _GracefulPod):
    """A runner class with that setting."""


class _GracefulSet(PodSet, _GracefulPod):
    """Only what a chart does with the setting: the line that the person who adds it writes."""

    @property
    def chart(self) -> Chart:
        chart = super().chart
        chart.values["template"]["spec"]["terminationGracePeriodSeconds"] = self.grace
        return chart


def test_a_new_setting_needs_only_the_model_and_the_chart(monkeypatch):
    monkeypatch.setattr(installed, "RunnerPod", _GracefulPod)
    monkeypatch.setattr(installed, "PodSet", _GracefulSet)
    settings = pod_set(runner_class(_Graceful, grace=30))
    assert released(ArcRunnerSet, Read(settings, None, None))["template"]["spec"]["terminationGracePeriodSeconds"] == 30


@cases("name", COMPONENTS)
def test_every_setting_of_a_packaged_component_is_an_argument_for_programs_in_other_languages(name):
    component = COMPONENTS[name]
    hints = component.__init__.__annotations__["args"].__annotations__
    known = {to_camel(key) for key in hints} | {path.split(".")[0] for path in component._paths}
    settings = {field.alias or key for model in MODELS[name] for key, field in model.model_fields.items()}
    missing = settings - known - OF_STACK - NOT_ARGUMENTS.get(name, set())
    assert not missing, f"add to {name}Args, or say above why a program cannot set it"


@cases(("component", "wire"), CASES)
def test_arguments_that_are_read_are_shown_as_they_were_passed(component: type[PackagedComponent[Any]], wire: Mapping[str, Any]):
    defaults = {"runnerScaleSetName": "one", "poolName": "one", "machineSetName": "one"}
    keys = PROVIDER._component_defs[component.__name__].inputs
    named_so = {key: value for key, value in defaults.items() if key in keys}
    passed = {key: value for key, value in wire.items() if key not in ("githubApp", "githubPrivateKey")}
    inputs = inputs_of(component, PROVIDER.map_inputs(named_so | passed, PROVIDER._component_defs[component.__name__]))
    settings = component.read(dict(inputs))
    shown = as_inputs(component, settings, component._paths)
    assert component.read(dict(shown)) == settings, "a quantity may have another unit"
    assert {key for key, value in inputs.items() if value} <= shown.keys()
