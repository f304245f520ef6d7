"""The steps of a cluster: what is in them, and what comes before what."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from gpu_ci.world.install import chart_of, require_charts
from gpu_ci.world.steps import GROUPS, SERVED, Release, Step, Steps, recorded, steps, without

ROOT = Path(__file__).parents[2]
APP_KEYS = {"github_app_id", "github_app_installation_id", "github_app_private_key"}


@cache
def of(stack: str, cluster: str) -> Steps:
    example = ROOT / "examples" / f"Pulumi.{stack}.yaml"
    config = stackfile.load(stack, ROOT, stack_file=example if example.exists() else None)
    fleet = fleet_of(config)
    return steps(fleet, cluster, *recorded(ROOT, config, fleet))


def before(found: Steps, name: str) -> set[str]:
    """All steps before a step, by their texts."""
    needs = found[name].needs
    return {str(found[need]) for need in needs}.union(*(before(found, need) for need in needs))


def named(found: Steps, text: str) -> str:
    (name,) = (name for name, step in found.items() if str(step) == text)
    return name


def test_a_set_comes_after_its_namespace_its_secret_and_the_controller() -> None:
    found = of("staging", "usw2")
    earlier = before(found, named(found, "release runners-gpu-t4/gpu-t4"))
    assert earlier >= {
        "Namespace runners-gpu-t4",
        "Secret runners-gpu-t4/github-app",
        "NetworkPolicy runners-gpu-t4/runners",
        "Namespace arc-systems",
        "release arc-systems/arc-controller",
        "PriorityClass gpu-ci-runner",
    }
    assert "release runners-gpu-t4-release/gpu-t4-release" not in earlier, "sets are made side by side"


def test_a_component_that_others_wait_for_means_all_that_is_below_it() -> None:
    found = of("prod", "use1")
    earlier = before(found, named(found, "LocalQueue vision/vision"))
    assert earlier >= {"release kueue-system/kueue", "ClusterQueue vision", "Namespace vision"}


@pytest.mark.parametrize(
    ("stack", "cluster"), [("staging", "usw2"), ("prod", "use1"), ("prod", "sjc"), ("oci-machines", "iad"), ("homelab", "home")]
)
def test_each_cluster_has_its_own_steps_and_each_needs_only_these(stack: str, cluster: str) -> None:
    found = of(stack, cluster)
    assert found
    assert set().union(*(step.needs for step in found.values())) <= found.keys()
    assert len({str(step) for step in found.values()}) == len(found), "no two steps make one object"


@pytest.mark.parametrize(("stack", "cluster", "namespace"), [("staging", "usw2", "gpu-t4"), ("homelab", "home", "gpu-3090")])
def test_the_key_of_an_app_is_made_for_the_run(stack: str, cluster: str, namespace: str) -> None:
    found = of(stack, cluster)
    secret = found[next(name for name, step in found.items() if str(step) == f"Secret runners-{namespace}/github-app")].content
    assert isinstance(secret, dict)
    assert set(secret["stringData"]) == APP_KEYS
    assert secret["stringData"]["github_app_private_key"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")


def test_what_argo_cd_installs_comes_in_waves_and_its_applications_are_charts() -> None:
    found = of("homelab", "home")
    kinds = {step.content["kind"] for step in found.values() if isinstance(step.content, dict)}
    assert not kinds & {"Application", "ApplicationSet", "ExternalSecret"}
    runners = before(found, named(found, "release runners-gpu-3090/gpu-3090"))
    assert runners >= {"release arc-systems/arc-controller", "Secret runners-gpu-3090/github-app"}
    assert "Namespace ai" in before(found, named(found, "Deployment ai/ollama")), "the tier of workloads comes after the other"


def test_a_release_waits_as_the_program_says() -> None:
    found = of("staging", "usw2")
    plugin = found[named(found, "release nvidia-device-plugin/nvidia-device-plugin")].content
    controller = found[named(found, "release arc-systems/arc-controller")].content
    assert isinstance(plugin, Release)
    assert isinstance(controller, Release)
    assert (plugin.waits, plugin.atomic, controller.waits, controller.atomic, controller.timeout) == (
        False,
        False,
        True,
        True,
        600,
    )
    assert (controller.chart, controller.repository.startswith("oci://")) == ("gha-runner-scale-set-controller", True)


def test_a_chart_without_a_program_is_left_out_with_the_objects_of_its_api_and_the_order_stays() -> None:
    found = of("prod", "use1")
    rest, out = without(found, ["kueue"])
    assert "release kueue-system/kueue" in out
    assert {text.split()[0] for text in out} == {
        "release",
        "ClusterQueue",
        "LocalQueue",
        "ResourceFlavor",
        "WorkloadPriorityClass",
    }
    assert len(rest) + len(out) == len(found)
    space = named(found, "Namespace vision")
    assert before(rest, space) == before(found, space) - set(out), "what came before Kueue still comes before its namespaces"
    assert without(found, []) == (found, ())
    charts = {
        step.content.chart
        for every in (found, of("homelab", "home"))
        for step in every.values()
        if isinstance(step.content, Release)
    }
    assert GROUPS.keys() <= charts
    assert {*SERVED} <= GROUPS.keys()


def release(chart: str = "kueue") -> Release:
    return Release("name", "space", chart, "1.2.3", "oci://registry.example.com/charts", {})


@pytest.mark.parametrize("place", ["kueue/1.2.3/templates", "kueue/1.2.3/kueue/templates"])
def test_a_chart_is_a_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True)
    assert chart_of(release(), tmp_path) == (tmp_path / place).parent


def test_a_chart_is_an_archive(tmp_path: Path) -> None:
    archive = tmp_path / "kueue-1.2.3.tgz"
    archive.touch()
    assert chart_of(release(), tmp_path) == archive


def test_a_chart_that_is_missing_is_named_before_anything_is_installed(tmp_path: Path) -> None:
    message = f"{tmp_path} lacks chart kueue 1.2.3 of oci://registry.example.com/charts"
    with pytest.raises(InputError, match=re.escape(message)):
        require_charts({"urn": Step(release(), frozenset())}, tmp_path)
    (tmp_path / "kueue/1.2.4/templates").mkdir(parents=True)
    with pytest.raises(InputError):
        chart_of(release()._replace(version="1.2.3"), tmp_path)
