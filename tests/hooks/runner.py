"""What replaces GitHub's runner: it turns a job of a workflow into the input of container hooks, and runs them in its own pod.

Source: actions/runner 258d6c85, src/Runner.Worker/Container/ContainerHooks and Handlers. An action in JavaScript is a program
that says its name; that of actions/checkout writes the files of the repository. Expressions are names alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fleet.render.sweeps.api import Object
from tests.hooks.kubelet import Nodes

_HOME = "/home/runner"
_WORK = f"{_HOME}/_work"
_SHELLS = {"": "sh -e {0}", "sh": "sh -e {0}", "bash": "bash --noprofile --norc -e -o pipefail {0}", "python": "python {0}"}
"""What runs a script. Without `shell` a job in a container has sh."""
_FILES = {
    "GITHUB_ENV": "set_env",
    "GITHUB_OUTPUT": "set_output",
    "GITHUB_PATH": "add_path",
    "GITHUB_STEP_SUMMARY": "step_summary",
}
"""The runner's name of the file of each variable, without its id."""
_ACTION = """
const fs = require('node:fs')
const path = require('node:path')
for (const [name, text] of Object.entries(FILES)) {
  const file = path.join(process.env.GITHUB_WORKSPACE, name)
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(file, text)
}
console.log(NAME)
"""
_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)


class UntranslatedError(Exception):
    """A part of a workflow that only GitHub's own runner translates."""


@dataclass
class Step:
    """How a call of the hooks ended. `outputs` are those of a step. `expected`: the job goes on if it fails."""

    name: str
    status: int
    output: str
    outputs: dict[str, str] = field(default_factory=dict)
    expected: bool = False


class Runner:
    """A runner whose pod is `pod`. `hooks` is the file with GitHub's hooks, which its image has.

    `files` are those of the repository, by their paths.
    """

    def __init__(self, nodes: Nodes, pod: Object, hooks: Path, files: Mapping[str, str]) -> None:
        self.nodes, self.pod, self.files, self.repository = nodes, pod, files, "acme/app"
        self.root = nodes.root(pod, "runner")
        self.name = self.repository.split("/")[1]
        place = self.root / "home/runner/k8s-novolume"
        place.mkdir(parents=True)
        (place / "index.js").write_bytes(hooks.read_bytes())
        self.temp = self.root / _WORK[1:] / "_temp"
        for folder in ("_github_home", "_github_workflow", "_runner_file_commands", "_runner_hook_responses"):
            (self.temp / folder).mkdir(parents=True)
        (self.temp / "_github_workflow/event.json").write_text("{}", encoding="ascii")
        for folder in ("_actions", "_tool", f"{self.name}/{self.name}"):
            (self.root / _WORK[1:] / folder).mkdir(parents=True)
        self.state: object = None
        self.contexts: dict[str, Any] = {}
        self.path: list[str] = []

    def run(self, job: Mapping[str, Any], env: Mapping[str, str] | None = None, **contexts: Any) -> Iterator[Step]:
        """Run a job, and show each step as it ends. `env` is that of its workflow. Raises UntranslatedError."""
        self.contexts = {
            "env": {},
            "steps": {},
            "job": {},
            "github": self._github(),
            "matrix": {},
            "inputs": {},
        } | contexts
        self.contexts["env"] = self.value(dict(env or {}) | dict(job.get("env", {})))
        self._download(job["steps"])
        failed = (prepared := self.prepare(job)).status != 0
        yield prepared
        for step in () if failed else job["steps"]:
            name, always = str(step.get("name") or step.get("run") or step.get("uses")), "always()" in str(step.get("if", ""))
            if failed and not always:
                continue
            ended = self.step(step, job)
            ended.name = name.splitlines()[0]
            self.contexts["steps"][step.get("id", "")] = {"outputs": ended.outputs}
            ended.expected = bool(step.get("continue-on-error"))
            failed = failed or (ended.status != 0 and not ended.expected)
            yield ended
        yield self.cleanup()

    def step(self, step: Mapping[str, Any], job: Mapping[str, Any]) -> Step:
        """Run a step of any kind."""
        if "run" in step:
            return self.script(step, job)
        if step["uses"].startswith("docker://"):
            return self.container(step)
        if not step["uses"].startswith("./"):
            action, _, ref = step["uses"].partition("@")
            return self._call(step, f"/__e/node20/bin/node /__w/_actions/{action}/{ref}/dist/index.js")
        # The runner reads it in its own workspace, not in that of the job's container (actions/runner, ActionManager.LoadAction).
        description = self.root / _WORK[1:] / self.name / self.name / step["uses"] / "action.yml"
        action = yaml.safe_load(description.read_text(encoding="utf-8"))
        before, inputs = self.contexts, self.value(dict(step.get("with", {})))
        self.contexts = before | {"inputs": inputs, "steps": {}}
        ended = Step(step["uses"], 0, "")
        for own in action["runs"]["steps"]:
            one = self.step(own, {})
            ended.status, ended.output = max(ended.status, one.status), ended.output + one.output
            self.contexts["steps"][own.get("id", "")] = {"outputs": one.outputs}
        ended.outputs = {name: self.value(row["value"]) for name, row in action.get("outputs", {}).items()}
        self.contexts = before
        return ended

    def prepare(self, job: Mapping[str, Any]) -> Step:
        """Start the job's containers."""
        container, services = self._container(job["container"]), self.value(job.get("services", {}))
        container["environmentVariables"]["HOME"] = "/github/home"
        container |= {"workingDirectory": f"/__w/{self.name}/{self.name}"}
        worker_log(self.root / "home/runner/_diag", services)
        arguments = {"container": container, "services": [self._container(one) for one in services.values()]}
        ended, response = self.hook("prepare_job", arguments)
        if ended.status == 0:
            assert response["isAlpine"] is False
            rows = response["context"].get("services", [])
            self.contexts["job"] = {"services": {name: {"ports": row["ports"]} for name, row in zip(services, rows, strict=True)}}
        return ended

    def script(self, step: Mapping[str, Any], job: Mapping[str, Any] | None = None) -> Step:
        """Run a step with `run`."""
        usual = (job or {}).get("defaults", {}).get("run", {})
        shell = str(step.get("shell", usual.get("shell", "")))
        command, _, arguments = _SHELLS.get(shell, shell).partition(" ")
        script = f"{uuid.uuid4()}.sh"
        (self.temp / script).write_text(str(self.value(step["run"])), encoding="utf-8")
        folder = self.value(step.get("working-directory", usual.get("working-directory", "")))
        return self._call(step, f"{command} {arguments.format(f'/__w/_temp/{script}')}", folder)

    def _call(self, step: Mapping[str, Any], line: str, folder: str = "") -> Step:
        """Run a command in the job's container."""
        key, workspace = str(uuid.uuid4()), f"/__w/{self.name}/{self.name}"
        command, *arguments = line.split(" ")
        ended, _ = self.hook(
            "run_script_step",
            {
                "entryPoint": command,
                "entryPointArgs": arguments,
                "environmentVariables": self._step_env(step, key, "/__w/_temp/_runner_file_commands", workspace),
                "prependPath": self.path[::-1],
                "workingDirectory": f"{workspace}/{folder}",
            },
        )
        self._read_files(ended, key)
        return ended

    def _download(self, steps: Iterable[Mapping[str, Any]]) -> None:
        """Write the actions in JavaScript that the steps use. GitHub's runner downloads them before it starts containers."""
        for uses in (step["uses"] for step in steps if not step.get("uses", ".").startswith((".", "docker:"))):
            action, _, ref = uses.partition("@")
            folder = self.root / _WORK[1:] / "_actions" / action / ref / "dist"
            folder.mkdir(parents=True, exist_ok=True)
            files = self.files if action == "actions/checkout" else {}
            program = _ACTION.replace("NAME", json.dumps(uses)).replace("FILES", json.dumps(files))
            (folder / "index.js").write_text(program, encoding="utf-8")

    def container(self, step: Mapping[str, Any]) -> Step:
        """Run a step that uses an image."""
        inputs = self.value(step.get("with", {}))
        key = str(uuid.uuid4())
        env = self._step_env(step, key, "/github/file_commands", "/github/workspace")
        ended, _ = self.hook(
            "run_container_step",
            {
                "image": step["uses"].removeprefix("docker://"),
                "dockerfile": None,
                "entryPoint": inputs.get("entrypoint"),
                "entryPointArgs": str(inputs.get("args", "")).split(),
                "workingDirectory": "/github/workspace",
                "createOptions": None,
                "environmentVariables": env | {"HOME": "/github/home"},
                "portMappings": [],
                "systemMountVolumes": [],
                "userMountVolumes": [],
            },
        )
        self._read_files(ended, key)
        return ended

    def cleanup(self) -> Step:
        """End the job."""
        return self.hook("cleanup_job", {})[0]

    def call(self, command: str, arguments: Mapping[str, Any]) -> tuple[list[str], str, Path]:
        """The command line of the hooks, their input, and the file of their answer."""
        file = f"_runner_hook_responses/{uuid.uuid4()}.json"
        (self.temp / file).touch()
        body = {"command": command, "responseFile": f"{_WORK}/_temp/{file}", "args": arguments, "state": self.state}
        (hooks,) = (
            row["value"] for row in self.pod["spec"]["containers"][0]["env"] if row["name"] == "ACTIONS_RUNNER_CONTAINER_HOOKS"
        )
        places = {"GITHUB_WORKSPACE": f"{_WORK}/{self.name}/{self.name}", "RUNNER_WORKSPACE": f"{_WORK}/{self.name}"}
        env = [f"{name}={value}" for name, value in (places | {"RUNNER_TEMP": f"{_WORK}/_temp"}).items()]
        node = f"{_HOME}/externals/node20/bin/node"
        return [*self.nodes.enter(self.pod, "runner"), "env", *env, node, hooks], json.dumps(body), self.temp / file

    def hook(self, command: str, arguments: Mapping[str, Any]) -> tuple[Step, Any]:
        """Call the hooks, and read their answer."""
        line, body, file = self.call(command, arguments)
        ran = subprocess.run(line, input=body, check=False, capture_output=True, text=True, timeout=25)
        text = file.read_text(encoding="utf-8")
        response = json.loads(text) if text.strip() else None
        self.state = response.get("state", self.state) if response else self.state
        # Without debugging the runner shows no such line.
        lines = [line for line in (ran.stdout + ran.stderr).splitlines(keepends=True) if not line.startswith("::debug::")]
        return Step(command, ran.returncode, "".join(lines)), response

    def value(self, raw: Any) -> Any:
        """A value of a workflow with its expressions evaluated. Raises UntranslatedError."""
        if isinstance(raw, Mapping):
            return {key: self.value(value) for key, value in raw.items()}
        if isinstance(raw, list):
            return [self.value(value) for value in raw]
        return _EXPRESSION.sub(lambda match: str(self._named(match[1].strip())), raw) if isinstance(raw, str) else raw

    def _named(self, expression: str) -> Any:
        parts = re.findall(r"[\w-]+", expression)
        if not re.fullmatch(r"[a-z]+(\.[\w-]+|\[['\"]?[\w-]+['\"]?\])+", expression):
            raise UntranslatedError(expression)
        value: Any = self.contexts | {"secrets": {name: f"secret-{name}" for name in parts}}
        for part in parts:
            value = value.get(part, "") if isinstance(value, Mapping) else ""
        return value

    def _container(self, raw: Any) -> dict[str, Any]:
        one = self.value({"image": raw} if isinstance(raw, str) else dict(raw))
        volumes = [str(text).split(":") for text in one.get("volumes", ())]
        host = one["image"].split("/")[0]
        login = one.get("credentials", {})
        registry = {"username": login["username"], "password": login["password"]} if login else None
        if registry:
            registry["serverUrl"] = host if "/" in one["image"] and re.search(r"[.:]", host) else ""
        return {
            "image": one["image"],
            "dockerfile": None,
            "entryPoint": None,
            "entryPointArgs": [],
            "workingDirectory": None,
            "createOptions": one.get("options"),
            "registry": registry,
            "environmentVariables": {key: str(value) for key, value in one.get("env", {}).items()},
            "portMappings": [str(port) for port in one.get("ports", ())],
            "systemMountVolumes": [],
            "userMountVolumes": [
                {
                    "sourceVolumePath": row[0] if len(row) > 1 else None,
                    "targetVolumePath": row[min(1, len(row) - 1)],
                    "readOnly": False,
                }
                for row in volumes
            ],
        }

    def _step_env(self, step: Mapping[str, Any], key: str, files: str, workspace: str) -> dict[str, str]:
        for file in _FILES.values():
            (self.temp / "_runner_file_commands" / f"{file}_{key}").touch()
        own = {name: f"{files}/{file}_{key}" for name, file in _FILES.items()}
        own |= {"GITHUB_WORKSPACE": workspace} | {f"GITHUB_{name.upper()}": str(value) for name, value in self._github().items()}
        return {
            name: str(value)
            for name, value in (self.contexts.get("env", {}) | self.value(dict(step.get("env", {}))) | own).items()
        }

    def _github(self) -> dict[str, str]:
        return {"repository": self.repository, "sha": "0" * 40, "ref": "refs/heads/main", "actor": "octocat", "run_id": "1"}

    def _read_files(self, ended: Step, key: str) -> None:
        texts = {
            name: (self.temp / f"_runner_file_commands/{file}_{key}").read_text(encoding="utf-8") for name, file in _FILES.items()
        }
        ended.outputs = dict(_pairs(texts["GITHUB_OUTPUT"]))
        self.contexts.setdefault("env", {}).update(_pairs(texts["GITHUB_ENV"]))
        self.path += texts["GITHUB_PATH"].split()


def worker_log(folder: Path, services: Mapping[str, Any]) -> None:
    """Write the runner's own log, which has the message of the job."""
    folder.mkdir(exist_ok=True)
    message = {"messageType": "PipelineAgentJobRequest", "steps": []} | (
        {"jobServiceContainers": _token(services)} if services else {}
    )
    line, text = "[2026-11-23 10:11:12Z INFO Worker] ", json.dumps(message, indent=2)
    log = f"{line}Message received.\n{line}Job message:\n {text}\n{line}Listening.\n"
    (folder / "Worker_20261123-101112-utc.log").write_text(log, encoding="utf-8")


def _token(value: Any) -> Any:
    """A value of a workflow as the job's message has it."""
    if isinstance(value, Mapping):
        return {
            "type": 2,
            "file": 1,
            "map": [{"Key": {"type": 0, "lit": str(key)}, "Value": _token(one)} for key, one in value.items()],
        }
    return {"type": 1, "seq": [_token(one) for one in value]} if isinstance(value, list) else {"type": 0, "lit": str(value)}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    lines = iter(text.splitlines())
    for line in lines:
        name, mark, end = line.partition("<<")
        if mark and "=" not in name:
            yield name, "\n".join(iter(lambda: next(lines, end), end))  # noqa: B023 - read at once
        elif "=" in line:
            name, _, value = line.partition("=")
            yield name, value
