"""docs/upgrades.md names the pinned versions, machines of the homelab, and what each chart does with its CRDs."""

from __future__ import annotations

import re

import pytest

from fleet.facts import versions
from tests.builders import reference
from tests.docs.homelab import HOME, HOSTS, shell, talos_calls, talos_faults
from tests.docs.markdown import ROOT, section

PAGE = ROOT / "docs" / "upgrades.md"
SHELL = shell("upgrades.md")
CHARTS = {
    "ARC's controller": "gha-runner-scale-set-controller",
    "kube-prometheus-stack": "kube-prometheus-stack",
    "gpu-operator": "gpu-operator",
    "Kueue": "kueue",
    "Argo CD": "argo-cd",
    "device plugin": "nvidia-device-plugin",
    "DCGM exporter": "dcgm-exporter",
    "autoscaler": "cluster-autoscaler",
    "metrics-server": "metrics-server",
}
"""Charts by their names on the page."""


def test_commands_name_what_is_pinned_and_the_machines_of_the_homelab() -> None:
    assert list(talos_faults(SHELL)) == []
    control = next(address for address, name in HOSTS.items() if "control" in name)
    assert f"upgrade-k8s --nodes {control} --to {HOME.kubernetes.removeprefix('v')}\n" in SHELL
    (pulled,) = re.findall(r"helm pull ([\w-]+) --repo (\S+) --version (\S+) ", SHELL)
    chart = versions.CHARTS[pulled[0]]
    assert pulled[1:] == (chart.repository, chart.version)


@pytest.mark.parametrize("page", ["homelab.md", "talos.md"])
def test_talosctl_neither_drains_nor_uncordons(page: str) -> None:
    (upgrade,) = [call for call in talos_calls(shell(page)) if call[0] == "upgrade"]
    assert "--drain=false" in upgrade


def rows() -> dict[str, str]:
    """By chart where its CRDs are, as the page has it."""
    table = section(PAGE, "charts").partition("who renews them with Helm |\n|---|---|---|\n")[2].partition("\n\n")[0]
    cells = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return {CHARTS[name]: cell for names, cell, *_ in cells for name in names.split(", ")}


def test_the_table_has_every_chart() -> None:
    assert rows().keys() == versions.CHARTS.keys() - {"gha-runner-scale-set"}


@pytest.mark.reference
@pytest.mark.parametrize("chart", sorted(CHARTS.values()))
def test_crds_are_where_the_page_says(chart: str) -> None:
    folder = reference(f"{chart}/{versions.CHARTS[chart].version}")
    named = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("*crd*/*.yaml") if "unittests" not in path.parts}
    own = any(name == "crds" for name in named)
    said = rows()[chart]
    where = "folder `crds` of its part `crds`" if "charts/crds/crds" in named else "folder `crds`" if own else "templates"
    assert said.split(" |")[0] == (where if named else "none")
