"""The ConfigMap with the order of pools: by the program or in Git, and on OKE with ids that only the cloud knows."""

from __future__ import annotations

from typing import Any

from fleet.charts.cluster_autoscaler import PRIORITIES
from gpu_ci.offline.recording import Recording, Resource
from tests.builders import cluster, existing_eks, gitops, oke_pool, oke_runner, pool, runner
from tests.components import oke
from tests.components.built import planned
from tests.components.recorded import RELEASE, named, of_type, recorded
from tests.components.test_existing_clusters import build
from tests.yaml12 import read

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
POOLS = {"t4": pool(), "spot": pool(capacity="spot")}


ORDERED: dict[str, Any] = {"pools": POOLS, "runners": {"gpu-t4": runner(pools=["spot", "t4"])}}


def maps(recording: Recording) -> list[Resource]:
    """The ConfigMaps of that name."""
    return [each for each in of_type(recording, CONFIG_MAP) if each.inputs["metadata"].get("name") == PRIORITIES]


def test_the_program_declares_the_configmap_and_the_chart_does_not() -> None:
    for held in (cluster(**ORDERED), existing_eks(**ORDERED)):
        recording = build(usw2=held)
        (found,) = maps(recording)
        assert found.inputs["metadata"] == {"name": PRIORITIES, "namespace": "kube-system"}
        assert list(found.inputs["data"]) == ["priorities"]
        values = named(recording, "usw2-autoscaler-chart", RELEASE).inputs["values"]
        assert values["extraArgs"]["expander"] == "priority,least-waste"
        assert "expanderPriorities" not in values


def test_git_has_the_configmap_of_eks() -> None:
    recording = build(
        usw2=cluster(**ORDERED, delivery="argocd", gitops=gitops(path="clusters/gpu-ci-test-usw2", secrets={"by": "program"}))
    )
    (found,) = maps(recording)
    assert found.provider_resource is not None
    assert found.provider_resource.name == "usw2-git"
    assert found.inputs["data"]["priorities"].startswith("20: [")


def test_a_group_has_the_name_that_the_patterns_know() -> None:
    recording = build(usw2=cluster(**ORDERED))
    (found,) = maps(recording)
    groups = [each.name for each in of_type(recording, "aws:eks/nodeGroup:NodeGroup") if "system" not in each.name]
    assert len(groups) == 4, "two pools in two zones"
    for name in groups:
        assert f"^eks-{name}-([0-9a-f]{{6}}-)?[0-9a-f]{{7}}-" in found.inputs["data"]["priorities"]


def test_an_autoscaler_of_the_clusters_own_keeps_its_configmap() -> None:
    assert maps(build(usw2=existing_eks(**ORDERED, installed=["cluster-autoscaler"]))) == []


def test_no_stack_gets_one_without_an_order() -> None:
    assert maps(recorded("existing-oke")) == []
    assert maps(planned(usw2=cluster())) == []


def test_oke_knows_its_pools_by_ocids_that_are_known_late() -> None:
    changes: dict[str, Any] = {
        "pools": {"a10": oke_pool(), "spot": oke_pool()},
        "runners": {"oci-a10": oke_runner(pools=["spot", "a10"])},
    }
    (later,) = maps(oke.made(**changes))
    assert read(later.inputs["data"]["priorities"]) == {
        20: [r"^ocid1\.nodepool\.oc1\.\.sjc-spot-nodes-id$"],
        10: [r"^ocid1\.nodepool\.oc1\.\.sjc-a10-nodes-id$"],
        1: [".*"],
    }
    early = oke.planned(**changes)
    assert len(maps(early)) == 1
    addon = next(each for each in of_type(early, oke.ADDON) if each.inputs["addonName"] == "ClusterAutoscaler")
    held = {entry["key"]: entry["value"] for entry in addon.inputs["configurations"]}
    assert held["expander"] == "priority,least-waste"
    role = next(each for each in of_type(early, "kubernetes:rbac.authorization.k8s.io/v1:Role") if "expander" in each.name)
    assert role.inputs["rules"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]
    bindings = of_type(early, "kubernetes:rbac.authorization.k8s.io/v1:RoleBinding")
    binding = next(each for each in bindings if "expander" in each.name)
    assert binding.inputs["subjects"] == [{"kind": "ServiceAccount", "name": "cluster-autoscaler", "namespace": "kube-system"}]
