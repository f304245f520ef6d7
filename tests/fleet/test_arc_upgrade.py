"""How a deployed stack reaches another minor of ARC: the order of the steps, and that each names what the stack has."""

from __future__ import annotations

import re
import shlex
import subprocess

from fleet.facts.tables import rows
from fleet.facts.versions import CHART_IMAGES, CHARTS, IMAGES
from fleet.loading.config import fleet_of
from fleet.providers.fleet import Fleet, guard_urn
from fleet.render.arc import CHART, SETS, releases, upgrade
from fleet.settings.namespaces import runner_namespace
from tests.cases import cases
from tests.components.recorded import RELEASE, STACKS, of_type, recorded, stack_config

OLD, NEW = "0.14.2", "0.15.0"
WITH_SETS = [stack for stack in STACKS if any(each.runners for each in fleet_of(stack_config(stack)).clusters.values())]


def fleet(stack: str) -> Fleet:
    return fleet_of(stack_config(stack))


def steps(lines: tuple[str, ...]) -> list[list[str]]:
    """The commands of each numbered step."""
    found: list[list[str]] = []
    for line in lines:
        if re.match(r"# \d\. ", line):
            found.append([])
        elif not line.startswith("#"):
            found[-1].append(line)
    return found


@cases("stack", WITH_SETS)
def test_every_release_of_a_set_is_removed_by_its_name_and_no_other_release(stack: str) -> None:
    sets = {each.name for each in of_type(recorded(stack), RELEASE) if str(each.inputs["chart"]).endswith(f"/{SETS}")}
    by_helm = {name: each for name, each in fleet(stack).clusters.items() if each.gitops is None}
    assert {release for name, each in by_helm.items() for release in releases(name, each)} == sets
    text = "\n".join(steps(upgrade(fleet(stack), stack, OLD, NEW))[2])
    assert set(re.findall(r"--target '\*\*::(\S+)\*'", text)) == sets


def test_a_protected_stack_forgets_its_guard_before_its_sets_go() -> None:
    """The guard depends on the releases, so `--target-dependents` would delete it, and its hook refuses that."""
    remove = steps(upgrade(fleet("prod"), "prod", OLD, NEW))[2]
    assert remove[0] == f"pulumi state delete -s prod --yes '{guard_urn('prod')}'"
    assert remove[1].startswith("pulumi destroy -s prod --target-dependents ")
    assert guard_urn("prod") in {each.urn for each in recorded("prod").resources}
    assert "state delete" not in "\n".join(upgrade(fleet("staging"), "staging", OLD, NEW))
    assert guard_urn("staging") not in {each.urn for each in recorded("staging").resources}


def test_besides_the_releases_only_the_sweeps_rights_go() -> None:
    """`pulumi destroy --target-dependents` removes what depends on a release, step by step: no namespace, Secret or cache."""
    found = recorded("staging").resources
    sets = {each.urn for each in found if each.type == RELEASE and str(each.inputs["chart"]).endswith(f"/{SETS}")}
    gone: set[str] = set()
    more = sets
    while more:
        gone |= more
        more = {each.urn for each in found if each.urn not in gone and {*each.dependencies, each.parent} & gone}
    assert {(urn.split("::")[2].rpartition("/")[2], "-sweeps.runner-reaper." in urn) for urn in gone - sets} == {
        ("v1:Role", True),
        ("v1:RoleBinding", True),
    }


@cases("stack", WITH_SETS)
def test_each_set_is_paused_then_awaited_then_removed_before_crds_and_controller(stack: str) -> None:
    pause, wait, remove, crds, bring, check = steps(upgrade(fleet(stack), stack, OLD, NEW))
    for cluster in fleet(stack).clusters.values():
        for name in cluster.runners:
            space = runner_namespace(name)
            patch = """'{"spec":{"minRunners":0,"maxRunners":0}}'"""
            sets = f"$(kubectl -n {space} get autoscalingrunnersets -o name)"
            assert f"for set in {sets}; do kubectl -n {space} patch $set --type=merge -p {patch}; done" in pause
            assert f'until left=$(kubectl -n {space} get ephemeralrunners -o name) && [ -z "$left" ]; do sleep 30; done' in wait
            assert any(f"-n {space} get autoscalingrunnersets" in line for line in remove), "gone before the controller changes"
            skip = f"annotate application {space} argocd.argoproj.io/skip-reconcile"
            assert [any(skip in line for line in step) for step in (pause, bring)] == [cluster.gitops is not None] * 2
    assert NEW in crds[0]
    assert not [line for step in (pause, wait, crds) for line in step if line.startswith("pulumi")]
    assert len(check) == 1


def test_a_loop_that_cannot_reach_the_cluster_waits(tmp_path) -> None:
    """The stub of kubectl fails once, then reports a runner, then none. A loop that ended at the failure would end a job."""
    answers = tmp_path / "answers"
    answers.write_text("fail\nephemeralrunner/a\nnone\n")
    stub = f'first=$(head -n 1 {answers}); sed -i 1d {answers}; case $first in fail) exit 1;; none) exit 0;; esac; echo "$first"'
    for name, text in (("kubectl", stub), ("sleep", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    (loop,) = steps(upgrade(fleet("homelab"), "homelab", OLD, NEW))[1]
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    subprocess.run(["/bin/bash", "-ec", loop], env=path, check=True)
    assert answers.read_text() == "", "every answer was read: the loop went on after the failure"


def test_the_script_is_shell_and_nothing_is_printed_within_a_minor() -> None:
    script = "\n".join(upgrade(fleet("prod"), "prod", OLD, NEW))
    assert subprocess.run(["/bin/bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert all(shlex.split(line, comments=True) or line.startswith("#") for line in script.splitlines())
    assert upgrade(fleet("prod"), "prod", "0.14.1", OLD) == ()
    assert upgrade(fleet("prod"), "prod", OLD, "1.14.2") != ()


def test_the_shipped_version_is_the_newest_release_whose_row_is_complete() -> None:
    """What a newer release lacks is in its row. Charts and image of the pin are those of its row."""
    table = rows("arc_releases.csv")
    versions = [tuple(map(int, row["version"].split("."))) for row in table]
    assert versions == sorted(versions)
    assert all(bool(row["missing"]) or all(row[digest] for digest in ("controller_chart", "set_chart", "image")) for row in table)
    row = [each for each in table if not each["missing"]][-1]
    assert {CHARTS[SETS].version, CHARTS[CHART].version} == {row["version"]}
    assert (row["controller_chart"], row["set_chart"]) == (f"sha256:{CHARTS[CHART].sha256}", f"sha256:{CHARTS[SETS].sha256}")
    [image] = [each.reference for each in CHART_IMAGES[CHART].values()]
    assert image.endswith(f":{row['version']}@{row['image']}")


def test_the_runner_image_is_of_a_release_with_a_day() -> None:
    days = {row["version"]: row["released"] for row in rows("runner_releases.csv")}
    assert list(days) == sorted(days, key=lambda version: tuple(map(int, version.split("."))))
    version = IMAGES["actions-runner"].reference.rpartition("@")[0].rpartition(":")[2]
    assert version in days
