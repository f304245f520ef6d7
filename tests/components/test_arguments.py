"""Plain arguments: what a component accepts from a program, and the one error for everything else."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import pytest

from components.kubernetes.arc_runner_set import ArcRunnerSet
from components.kubernetes.enablement import DevicePluginStack, GpuOperator
from fleet.charts.device_plugin import device_plugin
from fleet.facts.scheduling import node_choice
from gpu_ci.offline.recording import Recording
from gpu_ci.offline.wire import Secret
from tests.cases import cases
from tests.components.recorded import build_alone, named, of_type

RELEASE = "kubernetes:helm.sh/v3:Release"
SET: dict[str, Any] = {
    "github_url": "https://github.com/acme",
    "max_runners": 4,
    "cpu": {"request": "4", "limit": "8"},
    "memory": {"request": "16Gi", "limit": "28Gi"},
}
KEY = "-----BEGIN PRIVATE KEY-----"
APP = {"app_id": "1", "installation_id": "2"}


def alone(component: Any, args: dict[str, Any]) -> Recording:
    """A program that has only this component, on a cluster that it did not create."""

    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        component("one", args, pulumi.ResourceOptions(providers=[provider]))

    return build_alone(program)


def refused(component: Any, args: dict[str, Any]) -> str:
    with pytest.raises(pulumi.InputPropertyError) as caught:
        alone(component, args)
    return str(caught.value)


def test_a_runner_set_needs_nothing_of_a_cluster_but_arc():
    found = alone(ArcRunnerSet, SET)
    values = named(found, "one-chart", RELEASE).inputs["values"]
    pod = values["template"]["spec"]
    assert "priorityClassName" not in pod
    assert pod["nodeSelector"] == values["listenerTemplate"]["spec"]["nodeSelector"] == {}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert values["githubConfigSecret"] == "github-app"
    assert named(found, "one-namespace", "kubernetes:core/v1:Namespace").inputs["metadata"]["name"] == "runners-one"
    assert not of_type(found, "kubernetes:core/v1:Secret"), "the namespace has the Secret"


def test_a_runner_set_takes_the_place_that_the_cluster_gives():
    found = alone(
        ArcRunnerSet,
        SET
        | {
            "runner_scale_set_name": "gpu-t4",
            "namespace": "ci",
            "create_namespace": False,
            "isolate": False,
            "github_secret": "app",
            "node_selector": {"gpu": "t4"},
            "listener_node_selector": {"pool": "cpu"},
            "priority_class": "ci",
            "controller_namespace": "arc",
            "controller_service_account": "arc-gha",
            "manifests": [
                {"apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret", "metadata": {"name": "app", "namespace": "ci"}}
            ],
        },
    )
    release = named(found, "one-chart", RELEASE)
    values = release.inputs["values"]
    assert (release.inputs["name"], release.inputs["namespace"]) == ("gpu-t4", "ci")
    assert values["template"]["spec"]["priorityClassName"] == "ci"
    assert values["template"]["spec"]["nodeSelector"] == {"gpu": "t4"}
    assert values["listenerTemplate"]["spec"]["nodeSelector"] == {"pool": "cpu"}
    assert values["controllerServiceAccount"] == {"namespace": "arc", "name": "arc-gha"}
    assert values["githubConfigSecret"] == "app"
    (secret,) = of_type(found, "kubernetes:external-secrets.io/v1:ExternalSecret")
    assert secret.urn in release.dependencies
    kinds = {each.type.rpartition(":")[2] for each in found.resources}
    assert not kinds & {"Namespace", "NetworkPolicy", "ResourceQuota", "LimitRange", "Secret"}


def test_a_runner_set_with_several_kinds_of_nodes_requires_one_of_them():
    selectors = [{"gpu": "t4"}, {"gpu": "l4"}]
    pod = named(alone(ArcRunnerSet, SET | {"node_selectors": selectors}), "one-chart", RELEASE).inputs["values"]["template"][
        "spec"
    ]
    assert pod["affinity"] == node_choice(selectors)["affinity"]
    assert "nodeSelector" not in pod


def test_the_apps_key_is_secret_even_if_the_program_passes_plain_text():
    found = alone(ArcRunnerSet, SET | {"github_app": APP, "github_private_key": KEY})
    inputs = named(found, "one", "gpu-ci:index:ArcRunnerSet").inputs
    assert isinstance(inputs["githubPrivateKey"], Secret)
    assert KEY not in json.dumps([each.inputs for each in found.resources], default=str)


def test_inputs_show_what_the_program_passed():
    found = alone(DevicePluginStack, {"access": [{"sharing": {"strategy": "mps", "replicas": 4.0}}], "tolerations": None})
    inputs = named(found, "one", "gpu-ci:index:DevicePluginStack").inputs
    assert inputs == {"access": [{"sharing": {"strategy": "mps", "replicas": 4}}]}


def test_components_without_arguments_have_defaults():
    plugin = named(alone(DevicePluginStack, {}), "one-chart", RELEASE).inputs
    assert plugin["values"] == device_plugin().values
    operator = named(alone(GpuOperator, {}), "one-chart", RELEASE).inputs["values"]
    assert operator["driver"] == operator["toolkit"] == {"enabled": False}
    assert operator["operator"]["nodeSelector"] == {}


def test_children_wait_for_what_the_component_depends_on():
    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        first = kubernetes.core.v1.ConfigMap("first", opts=pulumi.ResourceOptions(provider=provider))
        DevicePluginStack("one", {}, pulumi.ResourceOptions(providers=[provider], depends_on=[first]))

    found = build_alone(program)
    first = named(found, "first", "kubernetes:core/v1:ConfigMap").urn
    assert first in named(found, "one-chart", RELEASE).dependencies
    assert first in named(found, "one-namespace", "kubernetes:core/v1:Namespace").dependencies


def test_the_objects_of_a_set_wait_for_the_namespace_that_the_caller_creates():
    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig="{}")
        first = kubernetes.core.v1.Namespace("first", opts=pulumi.ResourceOptions(provider=provider))
        args = SET | {"create_namespace": False, "namespace": "ci", "github_app": APP, "github_private_key": KEY}
        ArcRunnerSet("one", args, pulumi.ResourceOptions(providers=[provider], depends_on=[first]))  # type: ignore[arg-type]

    found = build_alone(program)
    first = named(found, "first", "kubernetes:core/v1:Namespace").urn
    objects = [resource for resource in found.resources if resource.name.startswith("one-")]
    assert {resource.name for resource in objects} == {"one-network", "one-quota", "one-limits", "one-github-app", "one-chart"}
    assert [resource.name for resource in objects if first not in resource.dependencies] == []
    assert {resource.inputs["metadata"]["namespace"] for resource in objects if resource.type != RELEASE} == {"ci"}


def test_gitops_declares_an_application_instead_of_a_release():
    git = {"repository": "https://github.com/acme/fleet", "path": "clusters/one"}
    found = alone(DevicePluginStack, {"gitops": git})
    (application,) = of_type(found, "kubernetes:argoproj.io/v1alpha1:Application")
    assert application.inputs["spec"]["source"]["chart"] == "nvidia-device-plugin"
    assert not of_type(found, RELEASE)


@cases(
    ("component", "args", "words"),
    [
        (ArcRunnerSet, {"max_runners": 0}, ["maxRunners: must be at least 1", "raise it", "got 0"]),
        (ArcRunnerSet, {"min_runners": 5}, ["minRunners: min is above max 4", "got 5"]),
        (ArcRunnerSet, {"max_runners": "4"}, ["maxRunners: must be a whole number", 'got "4"']),
        (ArcRunnerSet, {"cpu": {"request": "4"}}, ["cpu.limit: required argument is missing; add it"]),
        (ArcRunnerSet, {"cpu": {"request": "8", "limit": "4"}}, ["cpu: limit is below request"]),
        (ArcRunnerSet, {"memory": {"request": "1G", "limit": "2Gi"}}, ["memory.request: a memory quantity", 'got "1G"']),
        (ArcRunnerSet, {"image": "runner:latest"}, ["image: an image must name a version or digest"]),
        (ArcRunnerSet, {"github_url": None}, ["githubUrl: required argument is missing"]),
        (
            ArcRunnerSet,
            {"github_app": APP | {"app_id": "x"}, "github_private_key": KEY},
            ["githubApp.appId: an id is a quoted"],
        ),
        (ArcRunnerSet, {"github_app": APP}, ["githubPrivateKey: githubApp and githubPrivateKey belong together"]),
        (ArcRunnerSet, {"runner_scale_set_name": "Big"}, ["runnerScaleSetName: a name is a DNS label", 'got "Big"']),
        (
            ArcRunnerSet,
            {"node_selector": {"a": "b"}, "node_selectors": [{"a": "c"}]},
            ["nodeSelectors: is instead of nodeSelector; remove one of the two"],
        ),
        (ArcRunnerSet, {"usd_per_hour": "cheap"}, ["usdPerHour: not a price; write 0.376", 'got "cheap"']),
        (ArcRunnerSet, {"replicas": 2}, ["replicas: unknown argument; known are github_url"]),
        (ArcRunnerSet, {"cpu": 4}, ["cpu: not a mapping; its keys are request, limit", "got 4"]),
        (DevicePluginStack, {"runtime_handler": "NVIDIA"}, ["runtimeHandler: not the name of a container runtime"]),
        (
            DevicePluginStack,
            {"access": [{"sharing": {"strategy": "mps"}}]},
            ["access[0].sharing.replicas: required key is missing"],
        ),
        (DevicePluginStack, {"tolerations": [{"keys": "x"}]}, ["tolerations[0].keys: unknown argument"]),
        (GpuOperator, {"mig_strategy": "both"}, ["migStrategy: must be 'none', 'single' or 'mixed'", 'got "both"']),
        (
            GpuOperator,
            {"driver": {"license_secret": "grid"}},
            ["driver.repository: no public registry has a licensed vGPU driver"],
        ),
    ],
)
def test_a_wrong_argument_is_one_error_with_its_path_rule_and_value(component, args, words):
    text = refused(component, (SET if component is ArcRunnerSet else {}) | args)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_an_output_cannot_decide_names_or_counts():
    text = refused(ArcRunnerSet, SET | {"max_runners": _Late()})
    assert "maxRunners: must be known when the program runs" in text


class _Late(pulumi.Output[int]):
    """An output, as far as its type goes: no event loop runs before the program does."""

    def __init__(self) -> None: ...
