"""Runs one of kubeflow/trainer's example notebooks on a cluster with GPUs by papermill, as its own end-to-end tests do.

Before the run, the script checks that the notebook has the expected contents (1,000 samples, memory) and sets the GPU count of
the runner in it. It also pulls the images of its training runtime into the node, because the notebook waits only ten minutes for
its pods. After the run, every TrainJob must be complete, and the output must show that the job used the GPU. Exit status: 0 if
so, 1 with a GitHub annotation if not.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUNTIMES, JOBS = "clustertrainingruntimes.trainer.kubeflow.org", "trainjobs.trainer.kubeflow.org"
CELL = 1800
"""Seconds that one cell may take."""
WHOLE = 4800
"""Seconds that the notebook may take."""
PULL = 1500
"""Seconds that one image may take: JAX's has several gigabytes."""


_READ = "read the notebook of this commit and update its blueprint"


class BlueprintError(Exception):
    """The notebook does not have the expected contents, or its job failed. The message says how to fix it."""


@dataclass(frozen=True)
class Blueprint:
    """One notebook of kubeflow/trainer v2.3.0.

    `runtime` is the ClusterTrainingRuntime that it uses. `holds` are texts that its cells must have. `changes` maps texts in its
    cells to their replacements. `parameters` are those of papermill. `prints` is a pattern that its outputs must match.
    """

    notebook: str
    runtime: str
    holds: Sequence[str] = ()
    changes: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, int] = field(default_factory=dict)
    prints: str = ""


BLUEPRINTS = {
    name: Blueprint(**row)
    for name, row in tomllib.loads(Path(__file__).with_name("blueprints.toml").read_text(encoding="utf-8")).items()
}


def prepared(notebook: dict[str, Any], blueprint: Blueprint) -> dict[str, Any]:
    """The notebook with the changes. Raises BlueprintError if it does not have the expected contents."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    text = "\n".join(source(cell) for cell in cells)
    for expected in blueprint.holds:
        if expected not in text:
            raise BlueprintError(f"{blueprint.notebook} has no {expected}; {_READ}")
    for old, new in blueprint.changes.items():
        having = [cell for cell in cells if old in source(cell)]
        if len(having) != 1 or source(having[0]).count(old) != 1:
            raise BlueprintError(f"{blueprint.notebook} has not {old} once; {_READ}")
        having[0]["source"] = source(having[0]).replace(old, new)
    return notebook


def source(cell: Mapping[str, Any]) -> str:
    """A cell's text. The format allows one text or a list of lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def images(runtime: Mapping[str, Any]) -> list[str]:
    """Images of a ClusterTrainingRuntime's pods, each once."""
    pods = [job["template"]["spec"]["template"]["spec"] for job in runtime["spec"]["template"]["spec"]["replicatedJobs"]]
    containers = [container for pod in pods for kind in ("initContainers", "containers") for container in pod.get(kind, [])]
    return list(dict.fromkeys(container["image"] for container in containers if "image" in container))


def printed(notebook: Mapping[str, Any]) -> str:
    """The whole output of the cells of a notebook that ran."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    texts = [output.get("text", "") for output in outputs]
    return "\n".join(text if isinstance(text, str) else "".join(text) for text in texts)


def run(command: Sequence[str], limit: int, why: str) -> str:
    """The output of a command. Raises BlueprintError with `why` if it fails or takes longer than `limit` seconds."""
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)  # noqa: S603 - no shell
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BlueprintError(f"{why}: {error}") from error
    if process.returncode:
        raise BlueprintError(f"{why}: {process.stderr.strip() or process.stdout.strip() or f'status {process.returncode}'}")
    return process.stdout


def say(text: str) -> None:
    """Print a line to the log at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def pull(blueprint: Blueprint, cluster: str) -> None:
    """Pull the images of the blueprint's runtime into the cluster's worker."""
    command = ["kubectl", "get", RUNTIMES, blueprint.runtime, "--output=json"]
    runtime = json.loads(run(command, 60, f"there is no runtime {blueprint.runtime}; is Kubeflow Trainer installed"))
    for image in images(runtime):
        say(f"pulling {image}")
        run(["docker", "exec", f"{cluster}-worker", "crictl", "pull", image], PULL, f"{image} cannot be pulled")


def execute(blueprint: Blueprint, prepared: Path, output: Path) -> None:
    """Run the notebook `prepared` and write the result to `done`, even if it fails. The output goes to the log at once."""
    options = f"--kernel python3 --execution-timeout {CELL} --log-output".split()
    command = [sys.executable, "-m", "papermill", str(prepared), str(output), *options]
    for name, value in blueprint.parameters.items():
        command += ["--parameters", name, str(value)]
    try:
        status = subprocess.run(command, timeout=WHOLE, check=False).returncode  # noqa: S603 - no shell
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BlueprintError(f"papermill: {error}") from error
    if status:
        raise BlueprintError(f"the notebook failed, see above; what each cell printed is in {output.name}")


def hold(blueprint: Blueprint, output: Path) -> None:
    """Check that the jobs are complete and that the outputs show the GPU."""
    if not run(["kubectl", "get", JOBS, "--output=name"], 60, "the TrainJobs cannot be listed").split():
        raise BlueprintError(f"the notebook created no TrainJob; {_READ}")
    waiting = ["kubectl", "wait", JOBS, "--all", "--for=condition=Complete", "--timeout=120s"]
    run(waiting, 150, "a TrainJob is not complete")
    if blueprint.prints and not re.search(blueprint.prints, printed(json.loads(output.read_text(encoding="utf-8")))):
        raise BlueprintError(f"no cell printed the expected text about the GPU, {blueprint.prints}: the job ran on the CPU")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a blueprint, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trainer", type=Path, required=True, help="a checkout of kubeflow/trainer")
    parser.add_argument("--blueprint", choices=sorted(BLUEPRINTS), required=True)
    parser.add_argument("--cluster", default="gpu", help="name of the kind cluster")
    parser.add_argument("--out", type=Path, required=True, help="folder for the notebook that ran")
    options = parser.parse_args(arguments)
    blueprint = BLUEPRINTS[options.blueprint]
    ready, output = options.out / f"{options.blueprint}.in.ipynb", options.out / f"{options.blueprint}.ipynb"
    try:
        path = options.trainer / blueprint.notebook
        if not path.is_file():
            raise BlueprintError(f"{path} is not there; check kubeflow/trainer out at the commit that is pinned")
        options.out.mkdir(parents=True, exist_ok=True)
        ready.write_text(json.dumps(prepared(json.loads(path.read_text(encoding="utf-8")), blueprint)), encoding="utf-8")
        pull(blueprint, options.cluster)
        execute(blueprint, ready, output)
        hold(blueprint, output)
    except BlueprintError as error:
        line = str(error).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        say(f"::error title=kubeflow-blueprint::{options.blueprint}: {line}")
        return 1
    say(f"{options.blueprint}: every TrainJob is complete")
    return 0


if __name__ == "__main__":
    sys.exit(main())
