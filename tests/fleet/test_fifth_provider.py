"""A provider that this repository does not have is loaded, placed, billed and judged without a change of any general code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import load
from fleet.prove import bill, remarks, spot, works
from fleet.prove.launchers import system_room
from fleet.prove.nodes import cluster_nodes
from fleet.prove.placement import place
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from tests import test_arrows
from tests.builders import ROOT
from tests.fleet import gke
from tests.sources import parsed

DAY = date(2026, 11, 26)
STACK = """\
config:
  pulumi:disable-default-providers: ["*"]
  gpu-ci:github: {url: https://github.com/acme, appId: "1", installationId: "2"}
  gpu-ci:clusters:
    ew4:
      provider: gke
      region: europe-west4
      project: acme-ci
      zones: [europe-west4-a, europe-west4-b]
      kubernetesVersion: "1.36"
      declareQuotas: true
      pools:
        l4-spot: {instanceTypes: [g2-standard-8], capacity: spot, role: burst, nodes: {min: 0, max: 4}}
        l4: {instanceTypes: [g2-standard-8], capacity: on-demand, role: fallback, nodes: {min: 0, max: 2}}
      runners:
        gpu-l4:
          pools: [l4-spot, l4]
          cpu: {request: 4, limit: 8}
          memory: {request: 8Gi, limit: 16Gi}
          scale: {min: 0, max: 6}
"""


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The provider is in the registry, and the model of a stack file knows it."""
    with monkeypatch.context() as patch:
        gke.register(patch)
        Fleet.model_rebuild(force=True)
        yield
    Fleet.model_rebuild(force=True)


def fleet(folder: Path, *changes: tuple[str, str]) -> Fleet:
    text = STACK
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "Pulumi.gke.yaml"
    path.write_text(text)
    return fleet_of(load("gke", ROOT, stack_file=path))


@pytest.mark.usefixtures("registered")
def test_its_runners_are_placed_by_its_pools(tmp_path: Path) -> None:
    placements = place(fleet(tmp_path))
    assert [(each.runner_set, each.host.name, each.worst.count, each.error) for each in placements] == [
        ("gpu-l4", "l4-spot", 1, ""),
        ("gpu-l4", "l4", 1, ""),
    ]


@pytest.mark.usefixtures("registered")
def test_its_bill_is_counted_as_every_other(tmp_path: Path) -> None:
    lines = {line.item: line for line in bill.bill(fleet(tmp_path), DAY)}
    assert lines["pool l4-spot"].worst.usd == pytest.approx(4 * 0.34)
    assert lines["pool l4"].worst.usd == pytest.approx(2 * 0.85)
    assert lines["control plane"].idle.usd == pytest.approx(0.10)
    assert not any(line.worst.unknown for line in lines.values() if line.item.startswith("pool"))


@pytest.mark.usefixtures("registered")
def test_general_proofs_ask_it_what_they_do_not_know(tmp_path: Path) -> None:
    made = fleet(tmp_path)
    assert list(remarks.quotas(made)) == [
        "GKE europe-west4: full pools need 2 of quota NVIDIA_L4_GPUS_on-demand",
        "GKE europe-west4: full pools need 4 of quota NVIDIA_L4_GPUS_spot",
    ]
    assert list(remarks.capacity(made)) == [
        "ew4: capacity: undeterminable: ask with gcloud compute advice capacity --region europe-west4"
    ]
    said = list(spot.remarks(made))
    assert said[-1] == "spot pools ew4/l4-spot: the cloud ends a spot node 30 seconds after its notice"
    assert list(remarks.fallback(made)) == [
        "ew4/gpu-l4: pools in order: l4-spot, l4; the cloud's autoscaler leaves l4-spot alone for five minutes after a stockout"
    ]
    assert [remark for remark in works.remarks(made, DAY) if "quota" in remark] == []
    cluster = made.clusters["ew4"]
    assert len(system_room("ew4", cluster, made.github) or ()) == 2, "its charts fit on its two system nodes"
    assert [each.host.name for each in cluster_nodes("ew4", cluster, made.github)] == ["l4", "l4-spot", "system"]


@pytest.mark.usefixtures("registered")
def test_its_own_rules_and_the_general_ones_refuse_a_wrong_fleet(tmp_path: Path) -> None:
    cluster = STACK.partition("clusters:\n")[2]
    twin = cluster.replace("ew4:", "ew5:", 1).replace("declareQuotas: true", "declareQuotas: false")
    with pytest.raises(InputError, match="cluster ew4 is in that project too; give each its own"):
        fleet(tmp_path, (cluster, cluster + twin))
    with pytest.raises(InputError, match="no runner class uses this fallback pool"):
        fleet(tmp_path, ("pools: [l4-spot, l4]", "pools: [l4-spot]"))
    with pytest.raises(InputError, match="the autoscaler of provider gke has one delay for all pools"):
        fleet(tmp_path, ("role: burst,", "role: burst, idleDelay: 5m,"))


def test_without_it_the_stack_file_is_refused(tmp_path: Path) -> None:
    assert "gke" not in PROVIDERS
    with pytest.raises(InputError, match="provider"):
        fleet(tmp_path)


# -- how many places outside its own folders a provider touches ----------------------------------------------------------

PLACES = {
    "fleet/providers/registry.py": "its instance",
    "fleet/providers/tags.py": "the rules of its cloud for tags",
    "fleet/providers/fleet.py": "only if its cloud has another kind of permissions boundary",
    "fleet/facts/scheduling.py": "its profile, which the policies read, and the labels and taints that its cloud sets",
    "fleet/facts/hardware.py": "which machines it sells as spot, and what its quotas count",
    "fleet/facts/offer.py": "what kubelet keeps of its nodes",
    "fleet/facts/versions.py": "its Kubernetes minors",
    "fleet/facts/support.py": "the days on which their support ends",
    "fleet/facts/lifecycle.py": "these days in words",
    "fleet/facts/eks_images.py": "a table of its node images is a module of its own",
    "fleet/settings/cluster.py": "the text about the key provider",
    "fleet/settings/enablement.py": "only if an add-on of its own advertises GPUs",
    "fleet/render/monitoring/rules/cost.py": "only if its control plane costs more after a day",
    "components/build.py": "its builder",
    "components/outputs.py": "its outputs",
    "components/git.py": "only if Pulumi does not deploy it",
    "components/kubernetes/stack.py": "only if it has no resources of a cloud",
    "gpu_ci/audit/formats/types.py": "the labels that Karpenter puts on its nodes",
    "gpu_ci/audit/homes.py": "what its autoscaler assumes of a group without nodes",
    "gpu_ci/audit/report.py": "how long it supports a Kubernetes minor",
    "gpu_ci/audit/rules/nodes.py": "what the autoscaler does not know of its groups",
    "gpu_ci/offline/init/imported.py": "if a foreign fleet may become its",
    "gpu_ci/offline/freshen/tasks.py": "what renews its rows",
    "gpu_ci/offline/report.py": "one line for each type of its resources",
    "gpu_ci/offline/effects.py": "which of its edits end jobs",
    "gpu_ci/offline/init/cluster.py": "the label of its node groups",
    "gpu_ci/offline/settings/page.py": "its abbreviations",
    "pyproject.toml": "its Pulumi SDK, and the SDK with which doctor asks it",
    "bootstrap/declare.py": "only if it has roles for a deployment: a program like this one",
    "bootstrap/rights.py": "only if it has roles for a deployment: a program like this one",
}
"""Every file outside its own folders that a provider may touch, and why. Policies and rows of data are not counted."""
_WORDS = {"eks", "oke", "aws", "oci"}
_OTHER = ("gpu_ci.offline.helm", "package.eks.__main__", "package.oci.__main__")
"""`oci` is also a kind of registry, and a plugin of one cloud is in a folder of its own."""


def _names_a_cloud(tree: ast.Module) -> bool:
    """Whether code, not a text, names a provider or its cloud: a word as a string, or a part of an identifier."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in _WORDS:
            return True
        name = node.id if isinstance(node, ast.Name) else node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
        if {"eks", "oke"} & {*name.lower().split("_")}:
            return True
    return False


def test_a_provider_touches_at_most_thirty_files_outside_its_own_folders() -> None:
    assert len(PLACES) <= 30
    assert [path for path in PLACES if not (ROOT / path).is_file()] == []


def test_no_other_module_names_a_cloud() -> None:
    paths = {module: test_arrows.modules()[module] for module in test_arrows.outside() if module not in _OTHER}
    found = {str(path.relative_to(ROOT)) for path in paths.values() if _names_a_cloud(parsed(path))}
    assert len(found) > 10, "the search must find what it is to judge"
    assert sorted(found - set(PLACES)) == []
