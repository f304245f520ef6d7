"""The workflow that builds the runner image: its script on stack files, and who may do what in its jobs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from ruamel.yaml import YAML

from gpu_ci.offline.grow.stack import GrowingStack
from tests.builders import ROOT
from tests.fleet import broken_stacks

OLD, NEW = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
ADDRESS = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpu-ci"
BLOCK = """\
      registry:
        # The account of staging.
        account: "123456789012"  # do not change
"""
COPIES = f"""\
        copies:
          - nvcr.io/nvidia/k8s-device-plugin:v0.20.0
          - nvcr.io/nvidia/k8s/dcgm-exporter:4.5.3@{OLD}
"""
WORKFLOW = YAML(typ="safe", pure=True).load(ROOT / ".github" / "workflows" / "runner-image.yml")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / ".github" / "scripts" / "registry.py"
    found = importlib.util.spec_from_file_location("registry_script", path)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def stack(folder: Path, registry: str) -> GrowingStack:
    text = broken_stacks.texts()["valid"]
    path = folder / "Pulumi.one.yaml"
    guard = 'config:\n  pulumi:disable-default-providers: ["*"]\n'
    path.write_text(text.replace("config:\n", guard, 1).replace("      pools:\n", f"{registry}      pools:\n", 1))
    return GrowingStack("one", ROOT, path)


@pytest.mark.parametrize(
    "registry",
    [
        BLOCK + f"        runnerImage: {{version: '{OLD}', sizeGb: 12}} # as ECR shows it\n",
        BLOCK + f"        runnerImage:\n          sizeGb: 12\n          version: {OLD}\n",
        f'      registry: {{account: "123456789012", runnerImage: {{version: {OLD}}}}}\n',
    ],
)
def test_a_new_digest_replaces_the_old_one_and_nothing_else(script: ModuleType, tmp_path: Path, registry: str) -> None:
    growing = stack(tmp_path, registry)
    assert script.changed(growing, "usw2", NEW) == growing.before.replace(f"'{OLD}'", OLD).replace(OLD, NEW)


@pytest.mark.parametrize(
    ("registry", "expected"),
    [
        (BLOCK, f"{BLOCK}        runnerImage:\n          version: {NEW}\n"),
        (
            '      registry: {account: "123456789012"}\n',
            f"      registry: {{account: \"123456789012\", runnerImage: {{version: '{NEW}'}}}}\n",
        ),
    ],
)
def test_the_first_digest_is_added_and_valid(script: ModuleType, tmp_path: Path, registry: str, expected: str) -> None:
    growing = stack(tmp_path, registry)
    made = script.changed(growing, "usw2", NEW)
    assert made == growing.before.replace(registry, expected)
    growing.path.write_text(made)
    held, region = script._registry(GrowingStack("one", ROOT, growing.path), "usw2")
    *shown, builder, scanner = script.show(held, region)
    assert re.fullmatch(r"builder=docker\.io/moby/buildkit:v[\d.]+@sha256:[0-9a-f]{64}", builder)
    assert re.fullmatch(r"scanner=docker\.io/docker/buildkit-syft-scanner:[\d.]+@sha256:[0-9a-f]{64}", scanner)
    assert shown == [
        "region=us-west-2",
        "host=123456789012.dkr.ecr.us-west-2.amazonaws.com",
        "name=gpu-ci/runner-gpu",
        f"repository={ADDRESS}/runner-gpu",
        f"digest={NEW}",
    ]


def test_a_copy_keeps_host_path_and_tag_and_comes_by_its_digest(script: ModuleType, tmp_path: Path) -> None:
    held, region = script._registry(stack(tmp_path, BLOCK + COPIES), "usw2")
    plugin, exporter = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0", "nvcr.io/nvidia/k8s/dcgm-exporter"
    assert script.copies(held, region) == [
        f"{plugin} {ADDRESS}/{plugin}",
        f"{exporter}@{OLD} {ADDRESS}/{exporter}:4.5.3",
    ]


@pytest.mark.parametrize("words", [["show", "staging", "usw2"], ["set", "staging", "nowhere", NEW]])
def test_a_cluster_without_a_registry_is_one_line_and_status_2(
    script: ModuleType, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert script.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(f"{words[2]} is not an EKS cluster with a registry; name one, or add registry to it")


def test_only_the_job_without_the_role_may_write_to_the_repository() -> None:
    build, propose = WORKFLOW["jobs"]["build"], WORKFLOW["jobs"]["propose"]
    assert build["permissions"] == {"contents": "read", "id-token": "write"}
    assert propose["permissions"] == {"contents": "write", "pull-requests": "write"}
    assert build["environment"] == "images-${{ inputs.stack }}", "the role is granted on the environment's name"
    assert list(WORKFLOW["on"]) == ["workflow_dispatch"], "no pull request can start it"


def test_the_image_is_pushed_with_sbom_and_provenance_and_signed_by_digest() -> None:
    runs = {step.get("name"): step["run"] for step in WORKFLOW["jobs"]["build"]["steps"] if "run" in step}
    build = runs["Build and push with SBOM and provenance"]
    for option in (
        "--target devel",
        '--driver-opt "image=$BUILDER"',
        '--attest "type=sbom,generator=$SCANNER"',
        "--provenance=mode=max",
        "--cache-to type=inline",
        "--push images/runner-gpu",
    ):
        assert option in build
    assert 'tag="build-cuda$CUDA-ubuntu$UBUNTU-devel-' in build, "the lifecycle policy counts these tags, the plan reads the row"
    assert "used-${hash:0:12}" in runs["Tag the image in use"]
    assert runs["Sign with the identity of this workflow"] == 'cosign sign --yes "$IMAGE"'
