"""The plan knows how a stack is deployed: a private endpoint that no deployment reaches is wrong input."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.facts.errors import FleetError, InputError
from fleet.loading import stackfile
from fleet.loading.config import fleet_of, load as load_fleet
from fleet.loading.deployments import CONFIG_KEYS, hosted_addresses, load, reach
from gpu_ci.offline.plan import make_plan
from tests.builders import ROOT, cluster, config, oke_cluster
from tests.deployments.builders import deployment, project, settings

FILE = "deployments/Pulumi.main.yaml"
NOT_REACHED = (
    "Pulumi's own runners deploy stack staging and cannot reach a private endpoint; name an agentPool at stacks.staging in "
    f"{FILE}, or set publicCidrs here"
)


def held(**stack: Any) -> dict[str, Any]:
    return settings(stacks={"staging": deployment(**stack)})


def private_staging(tmp_path, reach_from="vpc-agent"):
    """The staging stack with a private endpoint, and the line that says so."""
    text = (ROOT / "Pulumi.staging.yaml").read_text()
    changed = text.replace("{publicCidrs: [203.0.113.0/24]}", f"{{private: true, reachableFrom: {reach_from}}}")
    assert changed != text
    path = tmp_path / "Pulumi.private.yaml"
    path.write_text(changed)
    line = changed[: changed.index("private: true")].count("\n") + 1
    return path, line


@pytest.mark.parametrize("reach_from", ["vpc-agent", "vpn"])
def test_the_plan_ends_where_a_private_endpoint_meets_pulumis_own_runners(tmp_path, reach_from):
    path, line = private_staging(tmp_path, reach_from)
    with pytest.raises(InputError) as caught:
        make_plan("staging", ROOT, path)
    assert str(caught.value) == f"{path}:{line}: gpu-ci:clusters.usw2.endpoint.private: {NOT_REACHED}; got true"


def test_the_command_line_says_so_with_status_2(tmp_path):
    from typer.testing import CliRunner

    from gpu_ci.cli import app

    path, line = private_staging(tmp_path)
    done = CliRunner().invoke(app, ["plan", "staging", "--file", str(path)])
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith(f"error: {path}:{line}: gpu-ci:clusters.usw2.endpoint.private: ")
    assert done.stdout == ""


def read(path, root):
    found = stackfile.load("staging", ROOT, stack_file=path)
    return found, fleet_of(found), root


def test_with_an_agent_pool_nothing_is_wrong(tmp_path):
    path, _ = private_staging(tmp_path)
    assert reach(*read(path, project(tmp_path, held(agentPool="vpc")))) == ()
    with pytest.raises(InputError):
        reach(*read(path, project(tmp_path / "hosted", held())))


def test_a_stack_that_deployments_do_not_name_is_deployed_by_hand(tmp_path):
    path, _ = private_staging(tmp_path)
    assert reach(*read(path, project(tmp_path, settings(stacks={"prod": deployment()})))) == ()


def test_a_project_without_deployments_has_nothing_to_say(tmp_path):
    path, _ = private_staging(tmp_path)
    assert reach(*read(path, tmp_path)) == ()


@pytest.mark.parametrize("kind", [cluster, oke_cluster])
def test_every_private_cluster_is_named_whatever_its_provider(kind):
    private = {"private": True, "reachableFrom": "vpc-agent"}
    names = {"one": kind(endpoint=private), "two": kind(runners={})}
    fleet = load_fleet(config(clusters=names))
    with pytest.raises(FleetError) as caught:
        load(held()).require_reach("staging", fleet)
    assert [(problem.where, problem.value) for problem in caught.value.problems] == [
        ("gpu-ci:clusters.one.endpoint.private", "true")
    ]


# -- broken settings -----------------------------------------------------------------------------------------------------


def test_broken_settings_end_every_plan_with_a_line_each(tmp_path):
    root = project(tmp_path, held(agentPool="a b", deployOnPush="yes") | {"owner": "acme"})
    stack = ROOT / "Pulumi.staging.yaml"
    with pytest.raises(InputError) as caught:
        reach(*read(stack, root))
    lines = (root / FILE).read_text().splitlines()
    (stacks,) = [number for number, line in enumerate(lines, 1) if ":stacks:" in line]
    (owner,) = [number for number, line in enumerate(lines, 1) if ":owner:" in line]
    at = f"{root / FILE}:{stacks}: gpu-ci-deployments:stacks.staging"
    assert sorted(str(caught.value).splitlines()) == sorted(
        [
            f'{at}.agentPool: a name has letters, digits, _ . and -, no space; correct it; got "a b"',
            f'{at}.deployOnPush: not a truth value; write true or false without quotes; got "yes"',
            f"{root / FILE}:{owner}: gpu-ci-deployments:owner: unknown key; known keys: {', '.join(CONFIG_KEYS)}",
        ]
    )


def test_a_folder_without_its_settings_file_is_told(tmp_path):
    root = project(tmp_path, held())
    (root / FILE).unlink()
    with pytest.raises(InputError, match="there must be a file for the stack"):
        reach(*read(ROOT / "Pulumi.staging.yaml", root))


# -- public endpoints ----------------------------------------------------------------------------------------------------


def remarks(cidrs, **stack):
    fleet = load_fleet(config(clusters={"one": cluster(endpoint={"publicCidrs": cidrs})}))
    return list(load(held(**stack)).remarks("staging", fleet))


OURS = "52.94.76.0/22"


def test_runners_that_are_not_let_in_are_named_with_their_addresses():
    first, *others = hosted_addresses()
    (told,) = remarks([OURS, f"{first}/32"])
    assert told == (
        f"one: endpoint.publicCidrs: Pulumi's own runners deploy this stack and may come from {', '.join(others)}, which is not "
        f"allowed; name an agentPool in {FILE}, or add it"
    )


def test_runners_that_are_let_in_are_everybodys():
    (told,) = remarks([OURS, *(f"{address}/32" for address in hosted_addresses())])
    assert told.startswith("one: endpoint.publicCidrs allows Pulumi's own runners, and all of Pulumi's customers share")


def test_agents_of_ones_own_come_from_ones_own_networks():
    assert remarks([OURS], agentPool="vpc") == []


def test_a_placeholder_lets_in_nobody_and_is_told_of_elsewhere():
    assert remarks(["203.0.113.0/24"]) == []


def test_the_plan_shows_what_is_doubtful(tmp_path):
    text = (ROOT / "Pulumi.staging.yaml").read_text().replace("203.0.113.0/24", OURS)
    path = tmp_path / "Pulumi.real.yaml"
    path.write_text(text)
    told = [remark for remark in make_plan("staging", ROOT, path).remarks if "Pulumi's own runners" in remark]
    assert len(told) == 1
    assert told[0].startswith(
        f"usw2: endpoint.publicCidrs: Pulumi's own runners deploy this stack and may come from {hosted_addresses()[0]}"
    )
