"""Type tokens are state: a changed one replaces everything below it. This list is the promise."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import get_args

import pulumi

import components
from components.component import Component, PackagedComponent
from gpu_ci.offline.record import record
from tests.components.recorded import ROOT, in_every_stack, of_type, stack_config

TOKENS = {
    "ArgoCd": "gpu-ci:index:ArgoCd",
    "Admission": "gpu-ci:index:Admission",
    "ArcController": "gpu-ci:index:ArcController",
    "ArcRunnerSet": "gpu-ci:index:ArcRunnerSet",
    "BuildCache": "gpu-ci:index:BuildCache",
    "DestroyGuard": "gpu-ci:index:DestroyGuard",
    "DevicePluginStack": "gpu-ci:index:DevicePluginStack",
    "EksAutoscaler": "gpu-ci:index:EksAutoscaler",
    "CloudWatch": "gpu-ci:index:CloudWatch",
    "EksCaches": "gpu-ci:index:EksCaches",
    "EksGpuCluster": "gpu-ci:index:EksGpuCluster",
    "EksNetwork": "gpu-ci:index:EksNetwork",
    "ExistingCluster": "gpu-ci:index:ExistingCluster",
    "ExistingEksCluster": "gpu-ci:index:ExistingEksCluster",
    "ExistingOkeCluster": "gpu-ci:index:ExistingOkeCluster",
    "GitTree": "gpu-ci:index:GitTree",
    "GpuAmi": "gpu-ci:index:GpuAmi",
    "GpuJob": "gpu-ci:index:GpuJob",
    "GpuMonitoring": "gpu-ci:index:GpuMonitoring",
    "GpuNodeGroup": "gpu-ci:index:GpuNodeGroup",
    "GpuOperator": "gpu-ci:index:GpuOperator",
    "GpuQueue": "gpu-ci:index:GpuQueue",
    "GpuWorkload": "gpu-ci:index:GpuWorkload",
    "LocalQueues": "gpu-ci:index:LocalQueues",
    "MetricsGateway": "gpu-ci:index:MetricsGateway",
    "ModelCache": "gpu-ci:index:ModelCache",
    "Namespaces": "gpu-ci:index:Namespaces",
    "OciGpuRunner": "gpu-ci:index:OciGpuRunner",
    "OkeAutoscaler": "gpu-ci:index:OkeAutoscaler",
    "OkeCaches": "gpu-ci:index:OkeCaches",
    "OkeGpuCluster": "gpu-ci:index:OkeGpuCluster",
    "OkeGpuPool": "gpu-ci:index:OkeGpuPool",
    "OkeNetwork": "gpu-ci:index:OkeNetwork",
    "OkeRunnerImage": "gpu-ci:index:OkeRunnerImage",
    "OkeSecurity": "gpu-ci:index:OkeSecurity",
    "PlainChart": "gpu-ci:index:PlainChart",
    "Priorities": "gpu-ci:index:Priorities",
    "PriorityExpander": "gpu-ci:index:PriorityExpander",
    "QueueController": "gpu-ci:index:QueueController",
    "RunnerImage": "gpu-ci:index:RunnerImage",
    "ScaleSet": "gpu-ci:index:ArcRunnerSet",
    "Sweeps": "gpu-ci:index:Sweeps",
    "TalosGpuNode": "gpu-ci:index:TalosGpuNode",
}


def component_classes() -> dict[str, type[pulumi.ComponentResource]]:
    modules = [
        importlib.import_module(module.name)
        for module in pkgutil.walk_packages(components.__path__, "components.")
        if not module.ispkg
    ]
    return {
        name: found
        for module in modules
        for name, found in vars(module).items()
        if inspect.isclass(found) and issubclass(found, pulumi.ComponentResource) and not inspect.isabstract(found)
        if found.__module__ == module.__name__
    }


def test_every_component_is_listed_and_no_other():
    assert component_classes().keys() == TOKENS.keys(), "a component without a promised type token, or a token without component"


def test_each_component_registers_its_promised_token(recordings):
    registered = {resource.type for stack in recordings for resource in stack.resources if resource.type.startswith("gpu-ci:")}
    assert registered == set(TOKENS.values()), "stacks and examples have every component, each by its promised token"


def test_each_packaged_component_has_args_beside_it_and_takes_opts():
    for name, found in component_classes().items():
        if issubclass(found, PackagedComponent):
            module = importlib.import_module(found.__module__)
            assert hasattr(module, f"{name}Args"), f"{name} has no {name}Args beside it"
            parameters = list(inspect.signature(found.__init__).parameters)
            assert parameters == ["self", "name", "args", "opts"], f"{name}: {parameters}"


def test_each_other_component_takes_opts_and_names_the_types_of_what_it_declares_from():
    for name, found in component_classes().items():
        if issubclass(found, PackagedComponent):
            continue
        parameters = list(inspect.signature(found.__init__).parameters)
        assert parameters[:3] == ["self", "name", "opts"], f"{name}: {parameters}"
        if not issubclass(found, Component):
            continue
        (base,) = vars(found)["__orig_bases__"]
        (named,) = get_args(base)
        taken = inspect.get_annotations(found.declare, eval_str=True)
        assert next(iter(taken)) == "name", f"{name}: its logical name comes first"
        assert [kind for key, kind in taken.items() if key not in ("name", "return")] == list(named), f"{name}: {named}"


def test_no_component_registers_a_resource_as_an_output(monkeypatch):
    """As an output a whole resource would be in the state of the stack."""
    registered = []
    register = pulumi.ComponentResource.register_outputs

    def kept(component, outputs):
        registered.append((type(component).__name__, outputs))
        register(component, outputs)

    monkeypatch.setattr(pulumi.ComponentResource, "register_outputs", kept)
    for stack in ("gpu-work", "existing-context"):
        record(ROOT / "__main__.py", stack_config(stack))
    names = {name for name, _ in registered}
    assert {"GpuQueue", "QueueController", "ArcController", "EksGpuCluster"} <= names
    held = {(name, key) for name, outputs in registered for key, value in outputs.items() if isinstance(value, pulumi.Resource)}
    assert held == set()
    assert {name for name, outputs in registered if outputs} >= {"EksGpuCluster", "ArcRunnerSet"}


@in_every_stack
def test_each_component_says_what_its_outputs_are(recording):
    for token in TOKENS.values():
        for resource in of_type(recording, token):
            assert not resource.custom, f"{resource.name} is a component"
            assert not resource.remote, f"{resource.name} is built here"
