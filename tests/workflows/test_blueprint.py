"""Running kubeflow's notebooks: compared with the texts on them before, and their jobs with their end. Papermill is played."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.builders import ROOT
from tests.workflows import kubeflow
from tests.workflows.load import program

BLUEPRINT = program("kubeflow-blueprint", "blueprint")
SCRIPT = ROOT / ".github" / "actions" / "kubeflow-blueprint" / "blueprint.py"
TORCHTUNE, JAX = "torchtune-qwen2.5-1.5b-alpaca", "jax-mnist"
IMAGE = "nvcr.io/nvidia/jax:25.10-py3"

CELLS = {
    TORCHTUNE: [
        'dataset = "hf://tatsu-lab/alpaca/data"; model = "hf://Qwen/Qwen2.5-1.5B-Instruct"\n',
        'train(split="train[:1000]", resources={\n  "memory": "128G",\n  "gpu": 2,\n})',
    ],
    JAX: ["num_cpu=3\nnum_gpu=0\nnum_nodes=3\n", "train(num_cpu, num_gpu, num_nodes)"],
}
"""What the blueprints depend on, in notebooks of our own."""


def notebook(*cells: str, lines: bool = True) -> dict[str, Any]:
    """A notebook of code cells, whose text is lines or one text."""
    found = [{"cell_type": "code", "source": cell.splitlines(keepends=True) if lines else cell, "outputs": []} for cell in cells]
    return {"cells": [{"cell_type": "markdown", "source": ['"gpu": 2 in words']}, *found], "nbformat": 4}


def prepared(name: str, *cells: str, lines: bool = True) -> str:
    """The code of a prepared notebook."""
    held = BLUEPRINT.prepared(notebook(*cells, lines=lines), BLUEPRINT.BLUEPRINTS[name])
    return "\n".join(BLUEPRINT.source(cell) for cell in held["cells"] if cell["cell_type"] == "code")


# -- before ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [True, False])
def test_the_notebook_gets_one_gpu_and_stays_as_it_is_otherwise(lines):
    text = "\n".join(CELLS[TORCHTUNE])
    assert prepared(TORCHTUNE, *CELLS[TORCHTUNE], lines=lines) == text.replace('"gpu": 2', '"gpu": 1')


def test_a_notebook_of_parameters_is_not_changed():
    assert prepared(JAX, *CELLS[JAX]) == "\n".join(CELLS[JAX])
    assert dict(BLUEPRINT.BLUEPRINTS[JAX].parameters) == {"num_cpu": 8, "num_gpu": 1, "num_nodes": 1}, "8 CPU, 1 GPU, 1 node"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("train[:1000]", "train[:5000]", 'has no split="train[:1000]"'),
        ('"memory": "128G"', '"memory": "256G"', 'has no "memory": "128G"'),
        ("Qwen2.5-1.5B", "Qwen3-1.7B", "has no hf://Qwen/Qwen2.5-1.5B-Instruct"),
        ('"gpu": 2', '"gpu": 4', 'has not "gpu": 2 once'),
        ('"gpu": 2', '"gpu": 2, "gpu": 2', 'has not "gpu": 2 once'),
    ],
)
def test_a_notebook_that_asks_something_else_is_refused(old, new, said):
    with pytest.raises(BLUEPRINT.BlueprintError) as refused:
        prepared(TORCHTUNE, *(cell.replace(old, new) for cell in CELLS[TORCHTUNE]))
    assert str(refused.value) == (
        f"examples/torchtune/qwen2_5/qwen2.5-1.5B-with-alpaca.ipynb {said}; "
        "read the notebook of this commit and update its blueprint"
    )


def test_a_change_that_two_cells_could_have_is_refused():
    with pytest.raises(BLUEPRINT.BlueprintError, match='has not "gpu": 2 once'):
        prepared(TORCHTUNE, *CELLS[TORCHTUNE], 'print({"gpu": 2})')


def test_what_a_page_of_words_says_is_no_code():
    with pytest.raises(BLUEPRINT.BlueprintError):
        BLUEPRINT.prepared(notebook("pass"), BLUEPRINT.BLUEPRINTS[TORCHTUNE])


def pod(*images: str, init: tuple[str, ...] = ()) -> dict[str, Any]:
    """A replicated job with containers of these images."""
    spec: dict[str, Any] = {"containers": [{"image": image} for image in images]}
    if init:
        spec["initContainers"] = [{"image": image} for image in init]
    return {"template": {"spec": {"template": {"spec": spec}}}}


def test_every_image_of_a_runtime_is_known_once():
    runtime = {"spec": {"template": {"spec": {"replicatedJobs": [pod("a", "b"), pod("b", init=("c",)), pod("a")]}}}}
    assert BLUEPRINT.images(runtime) == ["a", "b", "c"]


def test_outputs_of_every_form_are_read():
    held = {"cells": [{"outputs": [{"text": ["a", "b"]}, {"text": "c"}, {"data": {}}]}, {"source": ""}]}
    assert BLUEPRINT.printed(held) == "ab\nc\n"


# -- the whole ---------------------------------------------------------------------------------------------------------------

PAPERMILL = """
import json, os, pathlib, sys
log = pathlib.Path(os.environ["LOG"])
log.write_text(log.read_text() + "papermill " + " ".join(sys.argv[1:]) + "\\n")
held = json.loads(pathlib.Path(sys.argv[1]).read_text())
held["cells"][-1]["outputs"] = [{"output_type": "stream", "text": [os.environ.get("PRINTS", "")]}]
pathlib.Path(sys.argv[2]).write_text(json.dumps(held))
sys.exit(int(os.environ.get("PAPERMILL", "0")))
"""
STUB = """#!/bin/sh
name="${0##*/}"
echo "$name $*" >> "$LOG"
case "$name $*" in
  "$FAIL"*) echo "$SAYS" >&2; exit 1 ;;
  *clustertrainingruntimes*) echo "$RUNTIME" ;;
  *'get trainjobs'*) echo "$JOBS" ;;
esac
"""
GPU = "Available devices: [CudaDevice(id=0)]"


@dataclass(frozen=True)
class Done:
    """How a run ended: status, the lines that it said, the commands that it gave."""

    status: int
    said: list[str]
    calls: list[str]


@pytest.fixture
def run(tmp_path: Path):
    """Runs the program on a checkout with our notebooks."""
    trainer, stubs, log = tmp_path / "trainer", tmp_path / "stubs", tmp_path / "log"
    for name, blueprint in BLUEPRINT.BLUEPRINTS.items():
        path = trainer / blueprint.notebook
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook(*CELLS[name])))
    (stubs / "papermill").mkdir(parents=True)
    (stubs / "papermill" / "__init__.py").touch()
    (stubs / "papermill" / "__main__.py").write_text(PAPERMILL)
    for name in ("kubectl", "docker"):
        (stubs / name).write_text(STUB)
        (stubs / name).chmod(0o755)

    def call(name: str = JAX, checkout: Path = trainer, **behaviour: str) -> Done:
        log.write_text("")
        jobs = {"spec": {"template": {"spec": {"replicatedJobs": [pod(IMAGE)]}}}}
        environment = {"RUNTIME": json.dumps(jobs), "JOBS": "trainjob.trainer.kubeflow.org/a", "PRINTS": GPU, "FAIL": "nothing"}
        paths = {"PATH": f"{stubs}:{os.environ['PATH']}", "PYTHONPATH": str(stubs), "LOG": str(log)}
        words = ["--blueprint", name, "--trainer", str(checkout), "--out", str(tmp_path / "out"), "--cluster", "gpu"]
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *words],
            env=environment | paths | behaviour,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return Done(done.returncode, done.stdout.splitlines(), log.read_text().splitlines())

    return call


def test_a_blueprint_is_pulled_run_and_held_to_its_end(run, tmp_path):
    done = run()
    out = tmp_path / "out"
    assert done.status == 0, done.said
    assert done.said == [f"pulling {IMAGE}", "jax-mnist: every TrainJob is complete"]
    assert done.calls == [
        "kubectl get clustertrainingruntimes.trainer.kubeflow.org jax-distributed --output=json",
        f"docker exec gpu-worker crictl pull {IMAGE}",
        f"papermill {out}/jax-mnist.in.ipynb {out}/jax-mnist.ipynb --kernel python3 --execution-timeout 1800 --log-output "
        "--parameters num_cpu 8 --parameters num_gpu 1 --parameters num_nodes 1",
        "kubectl get trainjobs.trainer.kubeflow.org --output=name",
        "kubectl wait trainjobs.trainer.kubeflow.org --all --for=condition=Complete --timeout=120s",
    ]


def test_the_notebook_that_runs_is_the_prepared_one(run, tmp_path):
    done = run(TORCHTUNE, PRINTS="")
    assert done.status == 0, done.said
    assert '\\"gpu\\": 1' in (tmp_path / "out" / f"{TORCHTUNE}.in.ipynb").read_text()


@pytest.mark.parametrize(
    ("behaviour", "said", "last"),
    [
        (
            {"FAIL": "kubectl get clustertrainingruntimes", "SAYS": "not found"},
            "there is no runtime jax-distributed; is Kubeflow Trainer installed: not found",
            "kubectl",
        ),
        ({"FAIL": "docker", "SAYS": "no such host"}, f"{IMAGE} cannot be pulled: no such host", "docker"),
        (
            {"PAPERMILL": "1"},
            "the notebook failed, see above; what each cell printed is in jax-mnist.ipynb",
            "papermill",
        ),
        (
            {"FAIL": "kubectl get trainjobs", "SAYS": "refused"},
            "the TrainJobs cannot be listed: refused",
            "kubectl",
        ),
        ({"JOBS": ""}, "the notebook created no TrainJob; read the notebook of this commit and update its blueprint", "kubectl"),
        ({"FAIL": "kubectl wait", "SAYS": "timed out"}, "a TrainJob is not complete: timed out", "kubectl"),
        (
            {"PRINTS": "Available devices: [CpuDevice(id=0)]"},
            r"no cell printed the expected text about the GPU, Available devices: \[CudaDevice\(id=0\)\]: the job ran on the CPU",
            "kubectl",
        ),
    ],
)
def test_whatever_fails_ends_it_with_one_line(run, behaviour, said, last):
    done = run(**behaviour)
    assert done.status == 1
    assert done.said[-1] == f"::error title=kubeflow-blueprint::jax-mnist: {said}"
    assert [line for line in done.said if line.startswith("::")] == done.said[-1:]
    assert done.calls[-1].startswith(last), "nothing after it"


def test_what_a_command_says_is_one_line_and_no_command_of_githubs(run):
    done = run(FAIL="docker", SAYS="50%\n::set-output name=a::b")
    assert done.said[-1].endswith("cannot be pulled: 50%25%0A::set-output name=a::b")


def test_a_checkout_without_the_notebook_is_told(run, tmp_path):
    done = run(checkout=tmp_path / "elsewhere")
    assert done.status == 1
    assert done.said[-1].endswith("is not there; check kubeflow/trainer out at the commit that is pinned")
    assert done.calls == []


def test_an_unknown_blueprint_is_a_wrong_argument():
    done = subprocess.run([sys.executable, str(SCRIPT), "--blueprint", "x"], capture_output=True, check=False)
    assert done.returncode == 2


def test_a_command_that_hangs_ends(monkeypatch):
    with pytest.raises(BLUEPRINT.BlueprintError, match=r"^it: .* timed out after 0.1 seconds$"):
        BLUEPRINT.run(["sleep", "60"], 0.1, "it")


def test_a_command_that_is_not_there_is_told():
    with pytest.raises(BLUEPRINT.BlueprintError, match=r"^it: .*no-such-command"):
        BLUEPRINT.run(["no-such-command"], 1, "it")


def test_the_notebooks_are_those_of_the_pinned_trainer():
    assert f"kubeflow/trainer v{kubeflow.TRAINER}" in (BLUEPRINT.Blueprint.__doc__ or "")
