"""A machine with GPUs whose every command is a stub: the script that makes a kind cluster runs on it in a folder.

A stub writes the limit down that `timeout` put on it.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ruamel.yaml import YAML

from tests.builders import ROOT
from tests.stubs import TIMEOUT, StubbedScript, bodies

ACTION = ROOT / ".github" / "actions" / "kubeflow-gpu-cluster"
SCRIPT = ACTION / "setup.sh"
_ACTION: dict[str, Any] = YAML(typ="safe", pure=True).load(ACTION / "action.yml")
INPUTS: dict[str, dict[str, str]] = _ACTION["inputs"]
SETTINGS: dict[str, str] = _ACTION["runs"]["steps"][0]["env"]
UUIDS = ("GPU-4cf8db2d-06c0-7d70-1a51-e59b25b2c16c", "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c")

REAL = ("chmod", "mkdir", "sort", "tail", "tee")
PRESENT = ("git", "nvidia-container-runtime")
"""Looked for and not run: git is kubectl's, the runtime Docker's."""

# A start of jq costs as much as the rest of a run, and the runs of this process ask it the same but for the folder.
ASK_JQ = f"""
read_answers() {{
  declare -gA answers=()
  if [[ -e $STUBS/answers ]]; then . "$STUBS/answers"; fi
}}
ask_jq() {{
  local input="" question answer="" folder="${{STUB%/stub}}"
  IFS= read -r -N 100000 input || :
  declare -p answers >/dev/null 2>&1 || read_answers
  question="${{*//"$folder"/}} ${{input//"$folder"/}}"
  if [[ ${{answers["$question"]+yes}} ]]; then answer="${{answers["$question"]}}"
  else
    answer="$({shutil.which("jq")} "$@" <<<"$input")" || return
    answer="${{answer//"$folder"/@FOLDER@}}"
    printf 'question=%q; answers["$question"]=%q\\n' "$question" "$answer" >>"$STUBS/answers"
  fi
  answer="${{answer//@FOLDER@/"$folder"}}"
  if [[ $answer ]]; then printf '%s\\n' "$answer"; fi
}}
"""
# `state` makes the folder, and few lines are sorted.
WITHOUT_PROCESSES = """
read_answers
body_mkdir() { [[ -d $2 ]]; }
body_tee() {
  local text=""
  IFS= read -r -d "" text || :
  printf '%s' "$text" >"$1"
  printf '%s' "$text"
}
body_sort() {
  local lines line sorted="" before
  mapfile -t lines
  while ((${#lines[@]})); do
    before=0
    for line in "${!lines[@]}"; do
      if [[ ${lines[line]} < ${lines[before]} ]]; then before="$line"; fi
    done
    sorted+="${lines[before]}"$'\\n'
    unset 'lines[before]'
    lines=("${lines[@]}")
  done
  printf '%s' "$sorted"
}
# The function that tries again has its count in these variables: the next try is the last one.
body_sleep() { if [[ ${STUB_HASTY-} ]]; then try=$((times - 1)); fi; }
"""
PATCH = """
def way: .path / "/" | .[1:] | map(tonumber? // .);
(.items | map(.metadata.name) | indices($name)[]) as $at
| reduce $operations[] as $operation (
    .;
    (["items", $at] + ($operation | way)) as $way
    | if (getpath($way[:-1]) | type) != "object" then error("no place for \\($operation)")
      elif $operation.op == "add" then setpath($way; $operation.value)
      elif $operation.op == "test" and getpath($way) == $operation.value then .
      else error("\\($operation)")
      end
  )
"""
"""A patch as the API does it."""

BODIES = {
    "jq": 'ask_jq "$@"',
    "timeout": TIMEOUT,
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
          'delete cluster') : >"$STUB/cluster" ;;
        esac""",
    "nvkind": """
        case "$2" in
          create) printf 'here' >"$STUB/cluster" ;;
          print-gpus) printf '%s' "$STUB_NODES_GPUS" ;;
        esac""",
    "kubectl": """
        local group="trainer.kubeflow.org" patched
        case "$*" in
          'get nodes '*--output=json*) printf '%s\\n' "$STUB_NODES" ;;
          "get clustertrainingruntimes.$group "*--output=name*)
            ask_jq --raw-output '.items[].metadata.name | "clustertrainingruntime.'$group'/" + .' <"$STUB/runtimes.json" ;;
          "get clustertrainingruntimes.$group "*) printf '%s\\n' "$(<"$STUB/runtimes.json")" ;;
          "patch clustertrainingruntimes.$group ${3-} --type=json --patch "*)
            if [[ ! ${STUB_STUBBORN-} ]]; then
              patched="$(ask_jq --compact-output --arg name "$3" --argjson operations "$6" "$(<"$STUBS/patch.jq")" \\
                <"$STUB/runtimes.json")" || return
              printf '%s' "$patched" >"$STUB/runtimes.json"
            fi ;;
          'get job gpu-smoke '*) printf '%s' "$STUB_JOB" ;;
          logs*) printf '%s\\n' "$STUB_LOGS" ;;
        esac""",
}

PLAIN = ("helm", "sleep")
"""Stubs that do nothing but write down that they were called."""
COMMANDS = tuple(sorted({*REAL, *PRESENT, *PLAIN, *BODIES}))


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
class StubGpuMachine(StubbedScript):
    """A machine in a folder. `run` makes a cluster once; the rest shows what happened."""

    inputs: dict[str, str] = field(default_factory=dict)
    held: dict[str, Any] = field(default_factory=lambda: runtimes(**KUBEFLOWS))
    announces: ClassVar[str] = "kubeflow-gpu-cluster step="
    commands: ClassVar[tuple[str, ...]] = COMMANDS
    bodies: ClassVar[dict[str, str]] = bodies(BODIES, REAL, (*PRESENT, *PLAIN))
    more: ClassVar[str] = ASK_JQ
    functions: ClassVar[str] = WITHOUT_PROCESSES

    @staticmethod
    def add_files(folder: Path) -> None:
        """What jq reads."""
        (folder / "patch.jq").write_text(PATCH)

    def __post_init__(self) -> None:
        """Make the folder."""
        for path in (self.stub, self.folder / "runner" if self.programs else self.state):
            path.mkdir(parents=True)
        (self.stub / "runtimes.json").write_text(json.dumps(self.held))
        for path in (self.outputs, self.summary, self.stub / "cluster"):
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
        }
        given = {name: found["default"] for name, found in INPUTS.items()} | self.inputs
        settings = {name: given[re.fullmatch(r"\${{ inputs\.([\w-]+) }}", value)[1]] for name, value in SETTINGS.items()}  # type: ignore[index]
        runner = {"RUNNER_TEMP": self.folder / "runner", "GITHUB_OUTPUT": self.outputs, "GITHUB_STEP_SUMMARY": self.summary}
        return self.start(SCRIPT, settings | {name: str(path) for name, path in runner.items()}, default | behaviour)

    @property
    def errors(self) -> list[str]:
        """What GitHub shows as errors."""
        title = "::error title=kubeflow-gpu-cluster::"
        return [line.removeprefix(title) for line in self.output.splitlines() if line.startswith(title)]

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster of this run is there."""
        return bool((self.stub / "cluster").read_text())

    @property
    def runtimes(self) -> list[dict[str, Any]]:
        """The runtimes as they are now."""
        items: list[dict[str, Any]] = json.loads((self.stub / "runtimes.json").read_text())["items"]
        return items

    @property
    def classes(self) -> dict[str, dict[str, str | None]]:
        """The runtime class of each replicated job, by runtime."""
        return {
            item["metadata"]["name"]: {
                job["name"]: job["template"]["spec"]["template"]["spec"].get("runtimeClassName")
                for job in item["spec"]["template"]["spec"]["replicatedJobs"]
            }
            for item in self.runtimes
        }
