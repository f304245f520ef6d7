"""A fleet that works fits on a screen: what `init` writes for one GPU and for tests is the example of a small stack."""

from __future__ import annotations

from typer.testing import CliRunner

from fleet.facts.yaml_text import read_yaml
from fleet.facts.zones import zones_of
from fleet.loading.config import read_fleet
from gpu_ci.cli import app
from gpu_ci.offline.plan import make_plan
from tests.builders import ROOT
from tests.offline.init.conftest import Project

SMALL = ROOT / "examples" / "Pulumi.small.yaml"
FLAGS = "--provider eks --region us-west-2 --gpu T4 --organization example --jobs tests"


def test_the_example_has_at_most_25_lines_and_passes_its_plan():
    assert len(SMALL.read_text().splitlines()) <= 25
    plan = make_plan("small", ROOT, SMALL)
    assert plan.passes()
    assert {placement.host.name for placement in plan.placements} == {"t4-spot", "t4-ondemand"}


def test_init_writes_the_example_and_comments(project: Project):
    done = CliRunner().invoke(app, ["init", "small", *FLAGS.split()])
    assert done.exit_code == 0, done.output
    written = project.root / "Pulumi.small.yaml"
    assert read_yaml(written).value == read_yaml(SMALL).value
    lines = written.read_text().splitlines()
    assert len([line for line in lines if not line.lstrip().startswith("#")]) <= 25
    assert len(lines) <= 35


def test_a_cluster_without_zones_has_those_of_its_region():
    fleet = read_fleet("small", SMALL)
    assert fleet.clusters["usw2"].node_zones == zones_of("us-west-2") == ("us-west-2a", "us-west-2b", "us-west-2c")
    assert zones_of("eu-south-1") == ()
