"""`gpu-ci add`: what it writes, what it shows first, and what it refuses."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from gpu_ci.offline.grow.additions import Pools, Sizes, add_class, add_cluster, add_pool, add_region
from gpu_ci.offline.grow.removals import remove_entry
from gpu_ci.offline.grow.stack import GrowingStack
from gpu_ci.offline.init import questions
from gpu_ci.offline.init.answers import Answers
from tests.builders import ROOT, prod_with_pods
from tests.day import AS_OF
from tests.edits import edited
from tests.offline.grow.conftest import Project

L4 = ("add", "pool", "acme", "l4-spot", "--gpu", "L4", "--fallback", "--class", "gpu-l4")
STACK_FILES = [ROOT / "Pulumi.staging.yaml", ROOT / "Pulumi.prod.yaml", *sorted((ROOT / "examples").glob("Pulumi.*.yaml"))]


def stack(path: Path) -> GrowingStack:
    return GrowingStack(path.name.split(".")[1], ROOT, path)


def removed(grown: GrowingStack, folder: Path, kind: str, name: str, cluster: str | None = None) -> str:
    """The text without an entry again."""
    again = GrowingStack(grown.stack, ROOT, grown.written(folder))
    remove_entry(again, kind, cluster, name, references=True)
    return again.draft.checked()


# -- the whole command ---------------------------------------------------------------------------------------------------


def test_a_pool_with_its_class_is_written_with_what_belongs_to_it(project: Project) -> None:
    before = project.files()
    done = project.run(*L4, "--yes")
    assert done.exit_code == 0, done.output
    after = project.files()
    assert {path for path in after if after[path] != before.get(path)} == {
        "Pulumi.acme.yaml",
        "policies/stacks.toml",
        "policies/config/acme.json",
        "docs/inventory-acme.md",
    }
    for text in (
        "--- a/Pulumi.acme.yaml\n",
        "+        l4-spot: {instanceTypes: [g6.2xlarge, g6.4xlarge], ",
        "+        l4-ondemand: {",
        "+          pools: [l4-spot, l4-ondemand]\n",
        "--- a/policies/stacks.toml\n",
        "no running job ends: ",
        "total at idle: ",
        "total at worst: ≤",
        "Commit them together.",
    ):
        assert text in done.stdout
    values = tomllib.loads(project.text("policies/stacks.toml"))["acme"]
    assert "25 % more are headroom" in values["stack-gpu-ceiling"]["why"]
    assert (
        json.loads(project.text("policies/config/acme.json"))["stack-gpu-ceiling"]["maxGpus"]
        == values["stack-gpu-ceiling"]["maxGpus"]
    )
    assert "l4-spot" in project.text("docs/inventory-acme.md")
    assert project.run("plan", "acme", "--file", str(project.root / "Pulumi.acme.yaml")).exit_code in (0, 1), "it loads"
    gone = project.run("remove", "class", "acme", "gpu-l4", "--with-references", "--yes")
    assert gone.exit_code == 0, gone.output
    assert project.text().encode() == before["Pulumi.acme.yaml"]


def test_it_says_which_lines_only_a_person_knows(project: Project) -> None:
    words = ("--provider", "oke", "--region", "us-ashburn-1", "--gpu", "A10", "--jobs", "tests", "--yes")
    done = project.run("add", "cluster", "acme", "ashburn", *words)
    assert done.exit_code == 0, done.output
    assert "Some of it only you know: `grep -n -A1 REPLACE Pulumi.acme.yaml` lists these lines.\n" in done.stdout
    assert (
        "only you know"
        not in project.run("add", "class", "acme", "gpu-more", "--cluster", "usw2", "--pools", "t4-release", "--yes").stdout
    )


def test_without_a_terminal_it_shows_the_change_and_writes_nothing(project: Project) -> None:
    before = project.files()
    done = project.run(*L4)
    assert done.exit_code == 2
    assert "+        l4-spot:" in done.stdout
    assert done.stderr.endswith("error: --yes: required without a terminal; read the change above, then add --yes\n")
    assert project.files() == before


def test_on_a_terminal_it_asks_for_what_is_missing_and_before_it_writes(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "on_terminal", lambda: True)
    before = project.files()
    done = project.run("add", "class", "acme", "gpu-again", answers="t4-release\nn\n")
    assert done.exit_code == 1, done.output
    assert "Which pools, with commas? (t4-spot, t4-ondemand, t4-release)" in done.stdout
    assert "Write this?" in done.stdout
    assert "Nothing was written." in done.stdout
    assert project.files() == before


@pytest.mark.parametrize("kills", range(4))
def test_a_stop_in_the_middle_leaves_every_file_as_it_was(kills: int, project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    before, replace = project.files(), Path.replace
    done: list[Path] = []

    def stopped(path: Path, target: Path) -> Path:
        if len(done) == kills:
            raise KeyboardInterrupt
        done.append(target)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", stopped)
    assert project.run(*L4, "--yes").exit_code != 0
    assert len(done) == kills
    assert project.files() == before


def test_a_fleet_whose_plan_fails_is_not_written(project: Project) -> None:
    before = project.files()
    done = project.run("add", "pool", "acme", "l4-spot", "--gpu", "L4", "--yes")
    assert done.exit_code == 2
    assert (
        "error: after this edit: spot-with-fallback: spot pool usw2-l4-spot-us-west-2a-nodes (L4) has no fallback in cluster"
        in done.stderr
    )
    assert project.files() == before


# -- every stack file ----------------------------------------------------------------------------------------------------


def buying(path: Path) -> list[str]:
    """The clusters that buy nodes."""
    grown = stack(path)
    names = []
    for name in grown.fleet.clusters:
        try:
            grown.answers(name)
        except InputError:
            continue
        if grown.fleet.clusters[name].pools:
            names.append(name)
    return names


@pytest.mark.parametrize("path", STACK_FILES, ids=lambda path: path.name)
def test_every_stack_file_grows_and_shrinks_to_the_same_bytes(path: Path, tmp_path: Path) -> None:
    for cluster in buying(path):
        grown = stack(path)
        gpu = "L4" if grown.fleet.clusters[cluster].provider == "eks" else "A10"
        add_pool(grown, cluster, "new-pool", gpu, Pools(capacity="on-demand", of_class="new-class"))
        fleet = grown.grown()
        assert fleet.clusters[cluster].runners["new-class"].ordered == ("new-pool",)
        assert removed(grown, tmp_path, "class", "new-class", cluster) == grown.before


# -- pools and classes ---------------------------------------------------------------------------------------------------


def test_a_pool_joins_a_class_that_exists(project: Project) -> None:
    grown = project.stack("acme")
    add_pool(grown, "usw2", "l4-release", "L4", Pools(capacity="on-demand", of_class="gpu-t4-release"))
    runner = grown.draft.value(grown.at("usw2", "runners", "gpu-t4-release"))
    assert runner["pools"] == ["t4-release", "l4-release"]
    assert "pool" not in runner
    assert grown.draft.value(grown.at("usw2", "pools", "l4-release"))["role"] == "release"
    add_pool(grown, "usw2", "t4-more", "T4", Pools(capacity="on-demand", of_class="gpu-t4"))
    assert "pools: [t4-spot, t4-ondemand, t4-more]\n" in grown.draft.checked()


def test_a_class_gets_its_share_or_the_sizes_of_its_flags(project: Project) -> None:
    grown = project.stack("acme")
    add_class(grown, "usw2", "gpu-share", ["t4-release"], Sizes())
    add_class(grown, "usw2", "gpu-own", ["t4-release"], Sizes(cpu="2-4", memory="8Gi", most=3, labels="nightly"))
    share, own = (grown.draft.value(grown.at("usw2", "runners", name)) for name in ("gpu-share", "gpu-own"))
    assert (share["cpu"], share["memory"]) == ({"request": 4, "limit": 8}, {"request": "16Gi", "limit": "24Gi"})
    assert (own["cpu"], own["memory"]) == ({"request": 2, "limit": 4}, {"request": "8Gi", "limit": "8Gi"})
    assert (own["scale"]["max"], own["labels"]) == (3, ["nightly"])
    grown.grown()


def test_a_class_of_shared_gpus_gets_its_part_of_a_share(project: Project) -> None:
    grown = project.stack("homelab")
    add_class(grown, "home", "gpu-small", ["gpu"], Sizes())
    runner = grown.draft.value(grown.at("home", "runners", "gpu-small"))
    assert runner["cpu"] == {"request": 3, "limit": 6}, "48 CPUs for eight shares"
    grown.grown()


# -- regions and clusters ------------------------------------------------------------------------------------------------


def test_a_second_region_has_the_same_shape_and_names_of_its_own(project: Project) -> None:
    grown = project.stack("acme")
    add_region(grown, "usw2", "eu-west-1", None)
    fleet = grown.grown()
    old, new = fleet.clusters["usw2"], fleet.clusters["euw1"]
    assert new.region == "eu-west-1"
    assert {zone[:-1] for zone in new.node_zones} == {"eu-west-1"}
    assert new.pools == old.pools
    assert [*new.runners] == [f"{name}-euw1" for name in old.runners]
    assert (old.budget is None, new.budget is None) == (False, True)
    assert removed(grown, project.root / "docs", "region", "eu-west-1") == grown.before


def test_classes_with_room_for_all_jobs_are_one_class_in_both_regions() -> None:
    grown = stack(ROOT / "examples/Pulumi.two-regions.yaml")
    add_region(grown, "usw2", "eu-west-1", "ireland")
    assert grown.grown().clusters["ireland"].runners["gpu-t4-west-ireland"].same_as == "usw2/gpu-t4-west"
    assert not grown.notes


@pytest.mark.parametrize(("name", "cluster"), [("gitops", "use1"), ("monitoring", "usw2"), ("gpu-work", "use1")])
def test_what_names_classes_and_folders_has_the_new_names(name: str, cluster: str) -> None:
    grown = stack(ROOT / f"examples/Pulumi.{name}.yaml")
    add_region(grown, cluster, "eu-west-1", "new")
    fleet = grown.grown()
    assert all(runner.endswith("-new") for runner in fleet.clusters["new"].runners)
    assert len(fleet.clusters["new"].runners) == len(fleet.clusters[cluster].runners)


@pytest.mark.parametrize(
    "quotas",
    [
        "{one: {gpus: 12, runners: [SETS]}, two: {gpus: 12, runners: [SETS]}}",
        "\n        one:\n          gpus: 12\n          runners:\n            - gpu-t4\n            - gpu-t4-release",
    ],
)
def test_a_quota_of_classes_has_the_new_names(quotas: str, tmp_path: Path) -> None:
    text, file = (ROOT / "Pulumi.staging.yaml").read_text(), tmp_path / "Pulumi.staging.yaml"
    written = quotas.replace("SETS", "gpu-t4, gpu-t4-release")
    file.write_text(text.replace("      runners:\n", f"      runnerQuotas: {written}\n      runners:\n"))
    grown = stack(file)
    add_region(grown, "usw2", "eu-west-1", "new")
    for quota in grown.grown().clusters["new"].runner_quotas.values():
        assert quota.runners == ("gpu-t4-new", "gpu-t4-release-new")


def test_a_copy_takes_no_place_in_an_order_of_regions(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.two-regions.yaml"
    text = (ROOT / "examples" / file.name).read_text()
    file.write_text(text.replace("sameAs: usw2/gpu-t4-west\n", "sameAs: usw2/gpu-t4-west\n          sameAsOrder: 2\n"))
    grown = stack(file)
    add_region(grown, "use1", "eu-west-1", "new")
    runner = grown.grown().clusters["new"].runners["gpu-t4-east-new"]
    assert (runner.same_as, runner.same_as_order) == ("usw2/gpu-t4-west", None)


def test_a_cluster_that_uses_an_anchor_from_elsewhere_is_not_copied(project: Project) -> None:
    text = project.text().replace("  gpu-ci:clusters:", "  other:nodes: &nodes {min: 0, max: 4}\n  gpu-ci:clusters:")
    (project.root / "Pulumi.acme.yaml").write_text(text.replace("role: burst, nodes: {max: 4}", "role: burst, nodes: *nodes"))
    with pytest.raises(InputError) as error:
        add_region(project.stack("acme"), "usw2", "eu-west-1", None)
    assert str(error.value) == "clusters.usw2: uses an anchor from elsewhere in the file; write the copy by hand"


@pytest.mark.parametrize(("of_second", "image"), [(", image: al2023-nvidia", "al2023-nvidia"), ("", None)])
def test_a_pool_gets_the_node_image_that_all_pools_name(of_second: str, image: str | None, project: Project) -> None:
    text = project.text().replace("role: burst,", "role: burst, image: al2023-nvidia,")
    text = text.replace("role: fallback,", f"role: fallback{of_second},").replace("role: release,", f"role: release{of_second},")
    (project.root / "Pulumi.acme.yaml").write_text(text)
    grown = project.stack("acme")
    add_pool(grown, "usw2", "l4-spot", "L4", Pools(fallback=True, of_class="gpu-l4"))
    pools = grown.draft.value(grown.at("usw2", "pools"))
    assert [pools[name].get("image") for name in ("l4-spot", "l4-ondemand")] == [image] * 2
    assert "l4-spot" in grown.grown().clusters["usw2"].pools


def test_a_class_that_rules_keep_apart_says_why() -> None:
    grown = stack(ROOT / "Pulumi.staging.yaml")
    add_region(grown, "usw2", "eu-west-1", None)
    runner = grown.grown().clusters["euw1"].runners["gpu-t4-euw1"]
    assert (runner.labels, runner.same_as) == ((), None)
    (note,) = grown.notes
    assert note.startswith("gpu-t4-euw1 is a class of its own: GitHub may give all jobs of this set and its equals")
    assert "# The default set" not in grown.draft.text[len(grown.before) :]


def test_a_region_of_oci_keeps_the_prefix_of_the_tenancy_and_marks_what_is_of_the_old_region(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.prod.yaml"
    file.write_text(prod_with_pods())
    grown = stack(file)
    add_region(grown, "sjc", "us-ashburn-1", None)
    fleet = grown.grown()
    assert grown.draft.value(grown.at("iad", "zones")) == ["abcd:US-ASHBURN-AD-1"]
    assert [*fleet.clusters["iad"].runners] == ["oci-a10-iad"]
    text = grown.draft.checked()
    mark = "# REPLACE: a value of the region that this cluster was copied from.\n"
    assert f"{mark}        oke-gpu: {{id: ocid1.image.oc1.us-ashburn-1.examplegpu," in text
    assert "oracle-vm-gpu-a10-1 is not copied: its machines have places in several regions" in grown.notes
    assert not fleet.clusters["iad"].declare_quotas


@pytest.mark.parametrize(("provider", "region", "gpu"), [("oke", "us-ashburn-1", "A10"), ("existing-eks", "us-east-1", "T4")])
def test_a_cluster_of_another_kind_joins(provider: str, region: str, gpu: str, project: Project) -> None:
    grown = project.stack("acme")
    answers = Answers("acme", provider, region, gpu, "https://github.com/acme", ("tests", "release"), "")
    add_cluster(grown, "second", answers, 2, AS_OF)
    fleet = grown.grown()
    names = [name for _, cluster in fleet.clusters_by_name() for name in cluster.runners]
    assert len(names) == len(set(names)) == 4
    assert all(not runner.labels for runner in fleet.clusters["second"].runners.values())
    # One budget for each account.
    assert (fleet.clusters["second"].budget is None) == (provider == "existing-eks")
    assert removed(grown, project.root / "docs", "cluster", "second") == grown.before


# -- refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("pool acme t4-spot --gpu T4", "NAME: the stack has pool t4-spot already; give another name, or edit it"),
        ("pool acme x --gpu H99", "--gpu: not known; got 'H99'; give one of: T4, L4,"),
        ("pool acme x", "--gpu: required without a terminal; add --gpu (T4, L4,"),
        ("pool acme x --gpu T4 --cluster usw3", "--cluster: the stack has no such cluster; got 'usw3'; did you mean usw2?"),
        ("pool acme x --gpu T4 --capacity cheap", "--capacity: not known; got 'cheap'; give one of: spot, on-demand"),
        ("pool acme x --gpu T4 --role test", "--role: not known; got 'test'; give one of: burst, release, fallback"),
        ("pool acme x --gpu T4 --type g4dn.3xlarge", "--type: "),
        (
            "pool acme x --gpu T4 --capacity on-demand --fallback",
            "--fallback: only a spot pool needs a pool behind it, and this one is on-demand; remove it",
        ),
        ("pool prod x --gpu T4", "--cluster: required, because the stack has several clusters; give one of: use1, sjc"),
        (
            "pool homelab x --gpu T4",
            "clusters.home: provider talos has machines of your own or nodes that exist already, which no command can choose; "
            "write this part by hand (docs/settings.md)",
        ),
        ("class acme gpu-t4 --pools t4-spot", "NAME: the stack has class gpu-t4 already; give another name, or edit it"),
        ("class acme x --pools t4-spt", "--pools: cluster usw2 has no such pool; got 't4-spt'; did you mean t4-spot?"),
        ("class acme x", "--pools: required without a terminal; add --pools (t4-spot, t4-ondemand, t4-release)"),
        ("region acme us-west-2", "REGION: cluster usw2 is in us-west-2 already; give another region, or add a pool"),
        ("region acme mars", "REGION: not known; got 'mars'; give one of: us-west-2,"),
        (
            "cluster acme usw2 --provider eks --region us-west-2 --gpu T4 --jobs tests",
            "NAME: the stack has cluster usw2 already;",
        ),
        ("cluster acme x --provider talos", "--provider: not known; got 'talos'; "),
        ("cluster acme x", "--provider: required without a terminal; add --provider (eks, oke, existing-eks, existing-oke)"),
        ("pool other x --gpu T4", "stack: there must be a file for the stack;"),
    ],
)
def test_a_wrong_wish_is_one_line(words: str, message: str, project: Project) -> None:
    before = project.files()
    done = project.run("add", *words.split(), "--yes")
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert project.files() == before


def renamed(folder: Path) -> GrowingStack:
    """The staging stack with another name for a pool, a class and the cluster."""
    file = folder / "Pulumi.staging.yaml"
    text = (ROOT / file.name).read_text()
    for edit in ("pool renamed with was", "runner renamed with was", "cluster renamed with was"):
        text = edited(text, "staging", edit)
    file.write_text(text)
    return stack(file)


def test_a_copy_of_what_was_renamed_is_new(tmp_path: Path) -> None:
    grown = renamed(tmp_path)
    add_region(grown, "oregon", "eu-west-1", "new")
    clusters = grown.grown().clusters
    assert (clusters["oregon"].was, clusters["new"].was) == ("usw2", None)
    assert clusters["oregon"].pools["t4-cheap"].was == "t4-spot"
    assert clusters["new"].pools["t4-cheap"].was is None
    assert clusters["new"].runners["gpu-t4-deploy-new"].was is None


def test_a_renamed_class_is_removed_by_its_new_name(tmp_path: Path) -> None:
    grown = renamed(tmp_path)
    remove_entry(grown, "class", "oregon", "gpu-t4-deploy", references=True)
    assert [*grown.grown().clusters["oregon"].runners] == ["gpu-t4"]
