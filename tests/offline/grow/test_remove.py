"""`gpu-ci remove`: what names an entry, what goes with it, and what happens to running jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.facts.errors import InputError
from gpu_ci.offline.grow.removals import remove_entry
from gpu_ci.offline.grow.stack import GrowingStack
from tests.builders import ROOT
from tests.offline.grow.conftest import Project


def stack(path: str) -> GrowingStack:
    return GrowingStack(Path(path).name.split(".")[1], ROOT, ROOT / path)


def test_it_says_what_becomes_of_running_jobs(project: Project) -> None:
    done = project.run("remove", "class", "acme", "gpu-t4-release", "--with-references", "--yes")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert "usw2: removal of runner set gpu-t4-release once idle: its running jobs go on, it takes no new ones" in said
    assert "running jobs of gpu-t4-release on t4-release go on" in said
    assert "no running job ends: " in said
    assert "t4-release" not in project.text()


def test_a_protected_cluster_stays(project: Project) -> None:
    before = project.files()
    done = project.run("remove", "cluster", "prod", "sjc", "--yes")
    assert done.exit_code == 2
    assert (
        "after this edit: sjc: removal of cluster sjc deletes sjc-control-plane with `protect`, so Pulumi refuses; set "
        in done.stderr
    )
    assert project.files() == before


def test_a_class_goes_with_the_pools_that_only_it_uses() -> None:
    grown = stack("Pulumi.staging.yaml")
    remove_entry(grown, "class", None, "gpu-t4", references=True)
    assert [*grown.grown().clusters["usw2"].pools] == ["t4-release"]


def test_a_pool_goes_from_the_lists_that_have_others() -> None:
    grown = stack("Pulumi.staging.yaml")
    remove_entry(grown, "pool", None, "t4-ondemand", references=True)
    assert "          pools: [t4-spot]\n" in grown.draft.checked()
    grown.grown()


def test_a_region_goes_with_the_same_as_of_others() -> None:
    grown = stack("examples/Pulumi.two-regions.yaml")
    remove_entry(grown, "region", None, "us-west-2", references=True)
    assert "sameAs" not in grown.draft.checked()
    assert [*grown.grown().clusters] == ["use1"]


def test_a_scope_goes_with_its_last_class_and_so_does_its_key(tmp_path: Path) -> None:
    file = tmp_path / "Pulumi.two-organizations.yaml"
    text = (ROOT / "examples" / file.name).read_text()
    file.write_text(text.replace("  gpu-ci:tags:", "  gpu-ci:githubPrivateKey-research:\n    secure: v1:a:b\n  gpu-ci:tags:"))
    grown = GrowingStack("two-organizations", ROOT, file)
    remove_entry(grown, "class", None, "gpu-t4-research", references=False)
    with pytest.raises(InputError, match="no runner class takes the jobs of this scope"):
        grown.grown()
    grown = GrowingStack("two-organizations", ROOT, file)
    remove_entry(grown, "class", None, "gpu-t4-research", references=True)
    assert not grown.grown().github.scopes
    assert "githubPrivateKey-research" not in grown.draft.checked()


def test_a_rerun_goes_with_the_class_that_it_names(project: Project) -> None:
    text = project.text().replace(
        "        gpu-t4:\n", "        gpu-t4:\n          rerunFirstOn: gpu-t4\n          rerunOn: gpu-t4-release\n"
    )
    # A class that takes reruns has the runner group of the class whose jobs run again.
    text = text.replace("          group: gpu-t4-release\n", "")
    (project.root / "Pulumi.acme.yaml").write_text(text)
    grown = project.stack("acme")
    with pytest.raises(InputError, match=r"class gpu-t4-release is in use by clusters.usw2.runners.gpu-t4.rerunOn; add --with-"):
        remove_entry(grown, "class", None, "gpu-t4-release", references=False)
    remove_entry(grown, "class", None, "gpu-t4-release", references=True)
    assert "rerun" not in grown.draft.checked()


@pytest.mark.parametrize(
    ("path", "words", "message"),
    [
        (
            "Pulumi.staging.yaml",
            "pool t4-spot",
            "NAME: pool t4-spot is in use by clusters.usw2.runners.gpu-t4.pools.0; add --with-references to remove these too",
        ),
        (
            "Pulumi.staging.yaml",
            "pool t4-release",
            "NAME: pool t4-release is in use by clusters.usw2.runners.gpu-t4-release.pool; edit these first",
        ),
        (
            "Pulumi.staging.yaml",
            "class gpu-t4",
            "NAME: only class gpu-t4 uses fallback pool t4-ondemand; add --with-references to remove its pools too",
        ),
        (
            "Pulumi.homelab.yaml",
            "pool gpu",
            "NAME: pool gpu is in use by clusters.home.runners.gpu-3090.pool, clusters.home.workloads.ollama.pool, "
            "clusters.home.workloads.comfyui.pool, clusters.home.workloads.coral.pool; edit these first",
        ),
        (
            "examples/Pulumi.two-regions.yaml",
            "cluster usw2",
            "NAME: cluster usw2 is in use by clusters.use1.runners.gpu-t4-east.sameAs; add --with-references to remove these too",
        ),
        (
            "examples/Pulumi.container-jobs.yaml",
            "pool runners",
            "NAME: pool runners is in use by clusters.usw2.runners.gpu-t4.runnerPool; edit these first",
        ),
        (
            "Pulumi.staging.yaml",
            "cluster usw2",
            "NAME: usw2 is the only cluster; `pulumi destroy -s staging` deletes a whole stack",
        ),
        (
            "Pulumi.staging.yaml",
            "pool t4",
            "NAME: the stack has no such pool; got 't4'; give one of: t4-spot, t4-ondemand, t4-release",
        ),
        (
            "Pulumi.prod.yaml",
            "region eu-west-1",
            "REGION: the stack has no cluster there; got 'eu-west-1'; did you mean us-east-1?",
        ),
    ],
)
def test_a_refusal_names_every_place(path: str, words: str, message: str) -> None:
    kind, name = words.split()
    with pytest.raises(InputError) as error:
        remove_entry(stack(path), kind, None, name, references=False)
    assert str(error.value) == message


def test_queues_name_pools_too() -> None:
    with pytest.raises(InputError) as error:
        remove_entry(stack("Pulumi.prod.yaml"), "pool", "use1", "a10g-spot", references=True)
    assert str(error.value) == (
        "NAME: pool a10g-spot is in use by clusters.use1.queues.teams.research.quotas.0.pool, "
        "clusters.use1.queues.teams.vision.quotas.0.pool; edit these first"
    )
