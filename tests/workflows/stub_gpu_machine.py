"""A machine with GPUs whose every command is a stub: the script that makes a kind cluster runs on it in a folder.

PATH holds the stubs alone, so a command that has none is not found. A stub writes its call to the log, with the limit that
`timeout` put on it, fails if the test says so, and then does what BODIES has for it. REAL commands do their work.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.builders import ROOT

ACTION = ROOT / ".github" / "actions" / "kubeflow-gpu-cluster"
SCRIPT = ACTION / "setup.sh"
INPUTS: dict[str, dict[str, str]] = YAML(typ="safe", pure=True).load(ACTION / "action.yml")["inputs"]
SETTINGS: dict[str, str] = YAML(typ="safe", pure=True).load(ACTION / "action.yml")["runs"]["steps"][0]["env"]
UUIDS = ("GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c", "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c")

REAL = ("chmod", "jq", "mkdir", "sort", "tail", "tee")
PRESENT = ("git", "nvidia-container-runtime")
"""Looked for and not run: git is kubectl's, the runtime Docker's."""

STUB = """#!/bin/bash
name="${0##*/}"
{ read -r calls <"$STUB/count/$name"; } 2>/dev/null || calls=0
calls=$((calls + 1))
printf '%s\\n' "$calls" >"$STUB/count/$name"
printf 'CALL\\t%s\\t%s\\t%s\\t%s\\n' "$name" "$calls" "${STUB_LIMIT-}" "${*//$'\\n'/ }" >>"$STUB/log"
if [[ $name == "${STUB_FAIL-}" && $calls -ge ${STUB_FROM-1} && $calls -le ${STUB_TO-1000} ]]; then
  printf '%s\\n' "${STUB_SAYS-}" >&2
  exit "${STUB_CODE-1}"
fi
if [[ -e $STUB/bodies/$name ]]; then . "$STUB/bodies/$name"; fi
"""

BODIES = {
    "timeout": """
        while [[ $1 == --* ]]; do shift; done
        export STUB_LIMIT="$1"
        shift
        exec "$@" """,
    "nvidia-smi": """
        case "$*" in
          *driver_version*) printf '%s\\n' "$STUB_DRIVERS" ;;
          *uuid*) printf '%s\\n' "$STUB_UUIDS" ;;
        esac""",
    "nvidia-ctk": "printf 'NVIDIA Container Toolkit CLI version %s\\ncommit: 0123\\n' \"$STUB_TOOLKIT\"",
    "docker": """
        case "$1" in
          info) printf '%s\\n' "$STUB_RUNTIME" ;;
          run) while read -r uuid; do printf 'GPU 0: NVIDIA A10 (UUID: %s)\\n' "$uuid"; done <<<"$STUB_CONTAINER" ;;
          exec) printf 'NVIDIA Container Toolkit CLI version %s\\ncommit: 0123\\n' "$STUB_NODE_TOOLKIT" ;;
        esac""",
    "kind": """
        case "$1 $2" in
          'get clusters') printf '%s\\n' "$STUB_CLUSTERS" ;;
          'delete cluster') PATH="$STUB_PATH" rm -f "$STUB/cluster" ;;
        esac""",
    "nvkind": """
        case "$2" in
          create) : >"$STUB/cluster" ;;
          print-gpus) printf '%s' "$STUB_NODES_GPUS" ;;
        esac""",
    "kubectl": """exec "$STUB_PYTHON" -E -S "$STUB/kubectl.py" "$@\"""",
}

KUBECTL = """
import json, os, pathlib, sys
words = sys.argv[1:]
stub = pathlib.Path(os.environ["STUB"])
held = stub / "runtimes.json"
if words[:1] == ["get"] and words[1] == "nodes" and "--output=json" in words:
    print(os.environ["STUB_NODES"])
elif words[:2] == ["get", "clustertrainingruntimes.trainer.kubeflow.org"]:
    if "--output=name" in words:
        for item in json.loads(held.read_text())["items"]:
            print("clustertrainingruntime.trainer.kubeflow.org/" + item["metadata"]["name"])
    else:
        print(held.read_text())
elif words[:1] == ["patch"] and not os.environ.get("STUB_STUBBORN"):
    runtimes = json.loads(held.read_text())
    (item,) = [each for each in runtimes["items"] if each["metadata"]["name"] == words[2]]
    for operation in json.loads(words[words.index("--patch") + 1]):
        *way, last = operation["path"].split("/")[1:]
        place = item
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if operation["op"] == "test":
            assert place[last] == operation["value"], operation
        else:
            assert operation["op"] == "add"
            place[last] = operation["value"]
    held.write_text(json.dumps(runtimes))
elif words[:3] == ["get", "job", "gpu-smoke"]:
    print(os.environ["STUB_JOB"], end="")
elif words[:1] == ["logs"]:
    print(os.environ["STUB_LOGS"])
"""
"""What kubectl answers; a patch is done on the runtimes as the API does it."""

PLAIN = ("helm", "sleep")
"""Stubs that do nothing but write down that they were called."""
COMMANDS = tuple(sorted({*REAL, *PRESENT, *PLAIN, *BODIES}))


@dataclass(frozen=True)
class Call:
    """One call of a command: the step it was in, its name, its count among the calls of that name, its limit in seconds if it has
    one, its arguments."""

    step: str
    name: str
    count: int
    limit: str
    arguments: str


def replicated(name: str, step: str = "", **pod: Any) -> dict[str, Any]:
    """One replicated job of a runtime, with the label of its step if it has one."""
    label = "trainer.kubeflow.org/trainjob-ancestor-step"
    template: dict[str, Any] = {"spec": {"template": {"spec": {"containers": [{"name": name, "image": f"{name}:1"}], **pod}}}}
    return {"name": name, "template": template | ({"metadata": {"labels": {label: step}}} if step else {})}


def runtimes(**jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """ClusterTrainingRuntimes as the API lists them, by name."""
    items = [
        {
            "apiVersion": "trainer.kubeflow.org/v1alpha1",
            "kind": "ClusterTrainingRuntime",
            "metadata": {"name": name.replace("_", "-"), "resourceVersion": "1", "uid": name},
            "spec": {"template": {"spec": {"replicatedJobs": found}}},
        }
        for name, found in jobs.items()
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


KUBEFLOWS = {
    "torch_distributed": [replicated("node", "trainer")],
    "torchtune": [
        replicated("dataset-initializer", "dataset-initializer"),
        replicated("model-initializer", "model-initializer"),
        replicated("node", "trainer"),
    ],
    # The launcher trains, and its nodes have no label.
    "deepspeed_distributed": [replicated("node"), replicated("launcher", "trainer")],
}
"""The shapes of runtimes that kubeflow/trainer v2.3.0 installs."""


@dataclass
class StubGpuMachine:
    """A machine in a folder. `run` makes a cluster once; the rest shows what happened."""

    folder: Path
    inputs: dict[str, str] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=lambda: runtimes(**KUBEFLOWS))
    output: str = ""

    def __post_init__(self) -> None:
        """Make the folder."""
        for name in ("bin", "count", "bodies", "runner"):
            (self.folder / name).mkdir(parents=True)
        for name, body in BODIES.items():
            (self.folder / "bodies" / name).write_text(body)
        for name in REAL:
            (self.folder / "bodies" / name).write_text(f'exec {shutil.which(name)} "$@"')
        for name in COMMANDS:
            path = self.folder / "bin" / name
            path.write_text(STUB)
            path.chmod(0o755)
        (self.folder / "kubectl.py").write_text(KUBECTL)
        (self.folder / "runtimes.json").write_text(json.dumps(self.held))
        for path in (self.outputs, self.summary):
            path.touch()

    @property
    def outputs(self) -> Path:
        """What the step gives to later ones."""
        return self.folder / "runner" / "output"

    @property
    def summary(self) -> Path:
        """What the step shows at the run."""
        return self.folder / "runner" / "summary"

    @property
    def state(self) -> Path:
        """Where the script keeps its files."""
        return self.folder / "runner" / "kubeflow-gpu-cluster" / self.inputs.get("cluster-name", "gpu")

    def without(self, *commands: str) -> StubGpuMachine:
        """The same machine, on which these are not installed."""
        for name in commands:
            (self.folder / "bin" / name).unlink()
        return self

    def run(self, **behaviour: str) -> int:
        """Run the script with the action's inputs. `behaviour` are the stubs' variables: fail="helm", from_="2".

        Gives the script's exit status.
        """
        uuids = "\n".join(UUIDS)
        gpus = [{"Index": str(index), "Name": "NVIDIA A10", "UUID": uuid} for index, uuid in enumerate(UUIDS)]
        allocatable: list[dict[str, str]] = [{"cpu": "60"}, {"cpu": "60", "nvidia.com/gpu": "2"}]
        default = {
            "drivers": "570.195.03\n570.195.03",
            "uuids": uuids,
            "toolkit": "1.17.8",
            "runtime": "nvidia",
            "container": uuids,
            "node_toolkit": "1.19.1",
            "clusters": "other",
            "nodes_gpus": json.dumps([{"node": "gpu-worker", "gpus": gpus[::-1]}]),
            "nodes": json.dumps({"items": [{"status": {"allocatable": each}} for each in allocatable]}),
            "job": "1/",
            "logs": f"GPU 0: NVIDIA A10 (UUID: {UUIDS[1]})",
            "python": sys.executable,
            "path": os.environ["PATH"],
        }
        variables = {f"STUB_{name.rstrip('_').upper()}": value for name, value in (default | behaviour).items()}
        given = {name: found["default"] for name, found in INPUTS.items()} | self.inputs
        settings = {name: given[re.fullmatch(r"\${{ inputs\.([\w-]+) }}", value)[1]] for name, value in SETTINGS.items()}  # type: ignore[index]
        runner = {"RUNNER_TEMP": self.folder / "runner", "GITHUB_OUTPUT": self.outputs, "GITHUB_STEP_SUMMARY": self.summary}
        with (self.folder / "log").open("ab") as log:
            done = subprocess.run(
                ["/bin/bash", str(SCRIPT)],
                env={"PATH": str(self.folder / "bin"), "STUB": str(self.folder), **variables, **settings}
                | {name: str(path) for name, path in runner.items()},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        self.output = (self.folder / "log").read_text()
        return done.returncode

    @property
    def calls(self) -> list[Call]:
        """Every call, in order."""
        step, found = "start", []
        for line in self.output.splitlines():
            if begun := re.fullmatch(r"kubeflow-gpu-cluster step=([a-z]+)", line):
                step = begun[1]
            elif line.startswith("CALL\t"):
                _, name, count, limit, arguments = line.split("\t", 4)
                found.append(Call(step, name, int(count), limit, arguments))
        return found

    def called(self, name: str) -> list[str]:
        """Arguments of each call of a command."""
        return [call.arguments for call in self.calls if call.name == name]

    @property
    def errors(self) -> list[str]:
        """What GitHub shows as errors."""
        title = "::error title=kubeflow-gpu-cluster::"
        return [line.removeprefix(title) for line in self.output.splitlines() if line.startswith(title)]

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster of this run is there."""
        return (self.folder / "cluster").exists()

    @property
    def classes(self) -> dict[str, dict[str, str | None]]:
        """The runtime class of each replicated job, by runtime."""
        found = json.loads((self.folder / "runtimes.json").read_text())["items"]
        return {
            item["metadata"]["name"]: {
                job["name"]: job["template"]["spec"]["template"]["spec"].get("runtimeClassName")
                for job in item["spec"]["template"]["spec"]["replicatedJobs"]
            }
            for item in found
        }
