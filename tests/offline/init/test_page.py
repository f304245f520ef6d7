"""docs/getting-started.md: its numbers are those of the fleet that `init` writes for the answers on the page."""

from __future__ import annotations

import re

from typer.testing import CliRunner

from fleet.loading.config import read_fleet
from fleet.loading.project import Project as ProjectFile
from fleet.settings.budget import MONTH
from gpu_ci.cli import app
from gpu_ci.doctor import tools
from gpu_ci.offline.words import result
from tests.builders import ROOT
from tests.docs.markdown import assert_written
from tests.offline.init.conftest import Project

PAGE = (ROOT / "docs" / "getting-started.md").read_text()
FLAGS = ("--provider", "--region", "--gpu", "--organization", "--jobs")


def test_the_page_has_the_numbers_of_its_fleet(project: Project):
    answers = re.search(r"with the answers `(\S+)`, `(\S+)`, `(\S+)`, `(\S+)` and `(\S+)`", PAGE)
    assert answers is not None, "the page names the answers"
    words = [word for pair in zip(FLAGS, answers.groups(), strict=True) for word in pair]
    project.judged = True
    assert CliRunner().invoke(app, ["init", "acme", *words]).exit_code == 0
    (new,) = project.made
    idle, _ = new.plan.cost
    shown = re.sub(r"(of )\d+(?= policies)", r"\1…", " · ".join(result(new.plan)))
    assert f"\n{shown}\n" in PAGE
    assert f"costs {idle.usd * MONTH:.0f} USD a month without jobs" in PAGE
    assert PAGE.count(f"| {idle.usd:.2f} an hour |") == 2
    (node,) = (line for line in new.plan.bill if line.item == "pool t4-spot")
    assert f"price of a node, at most {node.cheap.usd:g} to {node.dear.usd:g} an hour |" in PAGE
    assert f"for 10 to 20 minutes | 5 to 15 | {node.cheap.usd / 6:.2f} to {node.dear.usd / 3:.2f} |" in PAGE


def test_the_tools_of_the_page_are_those_of_doctor():
    fleet = read_fleet("small", ROOT / "examples" / "Pulumi.small.yaml")
    minors = [cluster.kubernetes_version for cluster in fleet.clusters.values()]
    lines = ["| tool | version | for |", "|---|---|---|"]
    for row, versions in tools.needed({"eks"}, ProjectFile.read(ROOT / "Pulumi.yaml").needed, minors):
        optional = "" if row["required"] == "true" else " (optional)"
        lines.append(f"| [{row['tool']}]({row['install']}) | {f'`{versions}`' if versions else 'any'} | {row['use']}{optional} |")
    assert_written(ROOT / "docs" / "getting-started.md", "tools:eks", "\n".join(lines) + "\n")
