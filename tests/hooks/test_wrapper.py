"""The program before GitHub's hooks, with one in their place that records what it gets. Nothing here runs without node."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fleet.charts import container_jobs
from tests.hooks.runner import worker_log
from tests.hooks.world import CLASS, example, sets_of

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="not on PATH: node")

_HOOKS = """
const fs = require('node:fs')
const text = fs.readFileSync(0, 'utf8')
const input = JSON.parse(text)
const file = process.env.ACTIONS_RUNNER_CONTAINER_HOOK_TEMPLATE
const places = file ? [file, require('node:path').dirname(file)] : []
const mode = places.map((place) => (fs.statSync(place).mode & 0o777).toString(8))
const template = file && JSON.parse(fs.readFileSync(file))
const { PATH: path } = process.env
fs.writeFileSync(process.env.RECORD, JSON.stringify({ lines: text.split('\\n').length, input, template, file, mode, path }))
if (input.responseFile) {
  const services = (input.args.services ?? []).map(({ image }) => ({ image, ports: {} }))
  const answer = { state: { jobPod: 'x' }, context: { container: {}, services }, isAlpine: false }
  fs.writeFileSync(input.responseFile, JSON.stringify(answer))
}
console.log('the hooks say this')
console.error('and this')
if (process.env.WAIT) setTimeout(() => {}, 60000)
else process.exitCode = +process.env.STATUS
"""
"""What replaces GitHub's hooks."""
_API = """
const fs = require('node:fs')
const https = require('node:https')
const { PassThrough } = require('node:stream')
const read = fs.readFileSync
fs.readFileSync = (file, ...rest) => (`${file}`.includes('serviceaccount') ? 'x' : read(file, ...rest))
const wait = setTimeout
globalThis.setTimeout = (done, time) => wait(done, time === +process.env.QUICK ? 5 : time)
let answers = JSON.parse(process.env.ANSWERS)
https.get = (options, done) => {
  fs.appendFileSync(process.env.ASKED, options.path + '\\n')
  const [status, body] = options.path.includes('/log?') ? [200, 'the log'] : answers.length > 1 ? answers.shift() : answers[0]
  const answer = Object.assign(new PassThrough(), { statusCode: status })
  process.nextTick(() => { done(answer); answer.end(typeof body === 'string' ? body : JSON.stringify(body)) })
  return { on() { return this }, destroy() {} }
}
"""
"""What replaces the API server in the wrapper's process: the answers in order. Waits of $QUICK milliseconds are short."""


class Wrapper:
    """The wrapper in a folder that looks like a runner's. `ended` is its process, and `got` what the hooks recorded."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        self.folder, self.answer, self.asked = folder, folder / "answer.json", folder / "asked"
        for name in ("hooks", "k8s-novolume", "_diag", "tmp"):
            (folder / name).mkdir()
        self.hook = folder / "hooks/index.js"
        self.hook.write_text(container_jobs.hook(), encoding="utf-8")
        for name, template in sets_of(example(**changes))[CLASS].templates.items():
            (folder / "hooks" / name).write_text(json.dumps(template), encoding="utf-8")
        (folder / "k8s-novolume/index.js").write_text(_HOOKS, encoding="utf-8")
        (folder / "api.js").write_text(_API, encoding="utf-8")
        self.answer.touch()
        self.asked.touch()
        self.ended = subprocess.CompletedProcess[str]([], 0)

    def start(self, status: int = 0, answers: Any = ((200, {"status": {}}),), **more: str) -> subprocess.Popen[str]:
        """Start it. `status` is that of the hooks, and `answers` those of the API server."""
        env = {
            "PATH": os.environ["PATH"],
            "TMPDIR": str(self.folder / "tmp"),
            "STATUS": str(status),
            "RECORD": str(self.folder / "got"),
        }
        env |= {"GPU_CI_HOOKS": str(self.folder / "k8s-novolume/index.js"), "NODE_OPTIONS": f"--require {self.folder}/api.js"}
        env |= {"ANSWERS": json.dumps(answers), "ASKED": str(self.asked), "ACTIONS_RUNNER_POD_NAME": "r" * 60}
        env |= {
            "ACTIONS_RUNNER_KUBERNETES_NAMESPACE": "jobs",
            "ACTIONS_RUNNER_IMAGE": "runner:1",
            "GITHUB_WORKSPACE": "/w/app/app",
        }
        pipe = subprocess.PIPE
        command = ["node", str(self.hook)]
        return subprocess.Popen(command, env=env | more, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def call(self, body: Mapping[str, Any] | str, status: int = 0, **more: Any) -> Any:
        """Run it to its end. Returns what the hooks recorded."""
        process = self.start(status, **more)
        text = body if isinstance(body, str) else json.dumps(body) + "\n"
        out, errors = process.communicate(text, timeout=60)
        self.ended = subprocess.CompletedProcess([], process.returncode, out, errors)
        assert list((self.folder / "tmp").iterdir()) == [], "it left a file"
        got = self.folder / "got"
        return json.loads(got.read_text(encoding="utf-8")) if got.exists() else None

    def prepare(self, services: Mapping[str, Mapping[str, Any]], container: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Run it for a job with these services, whose names are in the runner's log."""
        worker_log(self.folder / "_diag", services)
        return self.call(self.job(list(services.values()), container or {}), **more)

    def job(self, services: list[Mapping[str, Any]], container: Mapping[str, Any]) -> dict[str, Any]:
        """The runner's input for the start of a job."""
        arguments = {"container": {"image": "python:3.12", "environmentVariables": {}, **container}, "services": services}
        return {"command": "prepare_job", "responseFile": str(self.answer), "args": arguments, "state": None}

    @property
    def said(self) -> list[str]:
        """The lines that it wrote itself."""
        return [line for line in self.ended.stdout.splitlines() if line.startswith("::")]

    @property
    def ports(self) -> list[dict[str, str]]:
        """The ports in the answer for the runner."""
        return [row["ports"] for row in json.loads(self.answer.read_text(encoding="utf-8"))["context"]["services"]]


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    return Wrapper(tmp_path)


def part(got: Any, name: str) -> Any:
    """A container of the template that the hooks got."""
    (one,) = (row for row in got["template"]["spec"]["containers"] if row["name"] == name)
    return one


def test_the_hooks_get_the_input_and_a_private_template_and_their_output_passes_through(wrapper: Wrapper) -> None:
    got = wrapper.prepare({})
    assert got["input"]["args"]["container"]["image"] == "python:3.12"
    assert got["lines"] == 2, "the hooks read the last line"
    assert got["mode"] == ["600", "700"]
    assert (wrapper.ended.stdout, wrapper.ended.stderr) == ("the hooks say this\n", "and this\n")
    assert wrapper.ended.returncode == 0
    assert wrapper.asked.read_text(encoding="utf-8") == "", "it asks the API server only where it waits"


@pytest.mark.parametrize("command", ["run_script_step", "cleanup_job"])
def test_other_commands_reach_the_hooks_unchanged_without_a_template(wrapper: Wrapper, command: str) -> None:
    pod = f"{'r' * 54}-workflow"
    body = {"command": command, "responseFile": "", "args": {"entryPoint": "sh"}, "state": {"jobPod": pod}}
    got = wrapper.call(body)
    assert got["input"] == body
    assert "file" not in got


@pytest.mark.parametrize("action", ["checkout", "cache"])
def test_a_checkout_brings_the_actions_of_the_repository_to_the_runner(wrapper: Wrapper, action: str) -> None:
    names = (
        "_runner_file_commands/gpu-ci-actions/.github/actions/report/action.yml",
        "../app/app/.github/actions/report/action.yml",
    )
    left, there = (wrapper.folder / "work/_temp" / name for name in names)
    left.parent.mkdir(parents=True)
    left.write_text("runs", encoding="utf-8")
    (wrapper.folder / "work/app/app").mkdir(parents=True)
    line = [f'"/__w/_actions/actions/{action}/v4/dist/index.js"']
    body = {"command": "run_script_step", "responseFile": "", "args": {"entryPoint": "node", "entryPointArgs": line}}
    places = {"RUNNER_TEMP": str(wrapper.folder / "work/_temp"), "RUNNER_WORKSPACE": str(wrapper.folder / "work/app")}
    got = wrapper.call(body, status=3, **places)
    assert wrapper.ended.returncode == 3
    assert there.exists() is (action == "checkout")
    entry = got["input"]["args"]["entryPoint"]
    assert (entry == "node") is (action != "checkout")
    assert entry.endswith("node")


def test_the_runner_has_the_descriptions_of_actions_and_the_names_of_their_programs(wrapper: Wrapper) -> None:
    """It starts no action whose program it lacks (actions/runner, NodeScriptActionHandler), and the job's container has it."""
    repository, left = wrapper.folder / "app", wrapper.folder / "left"
    for name, programs in {"report": "main: ../../dist/index.js\n  post: 'after.js' # last", "plain": "steps: []"}.items():
        (repository / "actions" / name).mkdir(parents=True)
        (repository / "actions" / name / "action.yml").write_text(f"name: {name}\nruns:\n  {programs}\n", encoding="utf-8")
    line = ['"/__w/_actions/actions/checkout/v4/dist/index.js"']
    body = {"command": "run_script_step", "responseFile": "", "args": {"entryPoint": "exit 3;", "entryPointArgs": line}}
    work = str(wrapper.folder / "work")
    script = wrapper.call(body, RUNNER_TEMP=f"{work}/_temp", RUNNER_WORKSPACE=f"{work}/app")["input"]["args"][
        "entryPoint"
    ].replace("/__w/_temp", str(left))
    # GitHub's hooks write the program and its arguments into a script of the job's container.
    command = script.replace(" sh exit 3;", " sh echo checked out")
    ran = subprocess.run(
        ["/bin/sh", "-c", command], env=os.environ | {"GITHUB_WORKSPACE": str(repository)}, capture_output=True, check=True
    )
    assert ran.stdout == b"checked out\n"
    found = {
        str(path.relative_to(left / "_runner_file_commands/gpu-ci-actions")): path.stat().st_size for path in left.rglob("*.*")
    }
    assert {name for name, size in found.items() if size == 0} == {"dist/index.js", "actions/report/after.js"}
    assert {name for name, size in found.items() if size} == {"actions/report/action.yml", "actions/plain/action.yml"}


def test_a_step_runs_in_the_pod_of_its_own_job_whatever_the_job_writes_into_the_runners_files(wrapper: Wrapper) -> None:
    got = wrapper.call({"command": "run_script_step", "responseFile": "", "args": {}, "state": {"jobPod": "other-workflow"}})
    assert got["input"]["state"]["jobPod"] == f"{'r' * 54}-workflow"


@pytest.mark.parametrize("command", ["prepare_job", "run_container_step", "run_script_step", "cleanup_job"])
def test_the_hooks_start_no_program_of_the_job(wrapper: Wrapper, command: str) -> None:
    """A step may name a folder in GITHUB_PATH that has a program sh, and the hooks' copy of it is in the runner's pod."""
    own = wrapper.folder / "own"
    own.mkdir()
    got = wrapper.call(wrapper.job([], {}) | {"command": command}, PATH=f"{own}:{os.environ['PATH']}")
    assert str(own) not in got["path"]
    assert "/usr/bin" in got["path"].split(":")


def test_a_link_that_the_job_sends_leads_where_the_hooks_have_checked(wrapper: Wrapper) -> None:
    """Otherwise a job's tar could write every file of the runner, such as GitHub's hooks, which have the token."""
    unpacks = """
const fs = require('node:fs')
fs.mkdirSync('in/a/b', { recursive: true })
fs.symlinkSync('../..', 'in/a/b/up')
fs.symlink('a/b/up/../out', 'in/link', () => fs.createWriteStream('in/link').end('x'))
"""
    (wrapper.folder / "in/a/b").mkdir(parents=True)
    hooks = f"process.chdir({json.dumps(str(wrapper.folder))})\n{unpacks}"
    (wrapper.folder / "k8s-novolume/index.js").write_text(hooks, encoding="utf-8")
    wrapper.call({"command": "cleanup_job", "args": {}})
    assert wrapper.ended.returncode == 0, wrapper.ended.stderr
    assert not (wrapper.folder / "out").exists()
    assert (wrapper.folder / "in/a/b/out").read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize("source", ["/var/run/secrets/kubernetes.io/serviceaccount", "/home/runner", None])
def test_a_job_gets_no_folder_of_the_runner(wrapper: Wrapper, source: str | None) -> None:
    volume = {"sourceVolumePath": source, "targetVolumePath": "/data", "readOnly": False}
    assert wrapper.prepare({}, {"userMountVolumes": [volume]}) is None
    assert wrapper.said == ["::error::A job mounts no folder of a machine: /data. Name the volume in volumes of the class."]
    assert wrapper.ended.returncode == 1


def test_a_job_has_the_gpus_that_kubelet_gives_it_and_no_others(wrapper: Wrapper) -> None:
    got = wrapper.prepare({}, {"environmentVariables": {"NVIDIA_VISIBLE_DEVICES": "all", "MODE": "x"}})
    assert got["input"]["args"]["container"]["environmentVariables"] == {"MODE": "x"}
    assert "NVIDIA_VISIBLE_DEVICES" not in [row["name"] for row in part(got, "$job")["env"]]


def test_the_job_has_the_gpus_and_a_container_action_has_none(wrapper: Wrapper) -> None:
    assert part(wrapper.prepare({}), "$job")["resources"]["limits"]["nvidia.com/gpu"] == 1
    step = {"command": "run_container_step", "responseFile": "", "args": {"image": "alpine:3", "entryPoint": "sh"}}
    job = part(wrapper.call(step), "$job")
    assert "nvidia.com/gpu" not in job["resources"]["limits"]
    assert {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"} in job["env"]


def test_services_answer_at_the_names_that_the_workflow_gives_them(wrapper: Wrapper) -> None:
    services = {"db": {"image": "ghcr.io/acme/postgres:16"}, "Cache": {"image": "redis", "createOptions": "--network-alias kv"}}
    got = wrapper.prepare(services)
    assert got["template"]["spec"]["hostAliases"] == [
        {"ip": "127.0.0.1", "hostnames": ["db", "postgres", "cache", "redis", "kv"]}
    ]
    assert wrapper.said == []


def test_without_the_log_services_answer_at_the_names_of_their_images_and_the_runner_shows_it(wrapper: Wrapper) -> None:
    got = wrapper.call(wrapper.job([{"image": "postgres:16"}], {}))
    assert got["template"]["spec"]["hostAliases"][0]["hostnames"] == ["postgres"]
    assert wrapper.said == ["::warning::The runner names no services. They answer at localhost and at the names of their images."]


def test_a_name_that_kubernetes_refuses_is_shown_and_the_job_starts(wrapper: Wrapper) -> None:
    got = wrapper.prepare({"my_db": {"image": "postgres"}})
    assert got["template"]["spec"]["hostAliases"][0]["hostnames"] == ["postgres"]
    assert wrapper.said == ["::warning::Kubernetes takes no name such as my_db. Use localhost."]


def test_host_ports_are_dropped_and_the_workflow_reads_the_ports_of_the_containers(wrapper: Wrapper) -> None:
    services = {
        "a": {"image": "x", "portMappings": ["6380:6379", "127.0.0.1:53:53/udp"]},
        "b": {"image": "y", "portMappings": ["80"]},
    }
    got = wrapper.prepare(services, {"portMappings": ["8080:80"]})
    assert [one["portMappings"] for one in got["input"]["args"]["services"]] == [["6379", "53/udp"], ["80"]]
    assert got["input"]["args"]["container"]["portMappings"] == ["80"]
    assert wrapper.ports == [{"6379": "6379", "53": "53"}, {"80": "80"}]


def test_two_services_on_one_port_are_refused_before_a_pod_is_made(wrapper: Wrapper) -> None:
    services = {
        name: {"image": "postgres:16", "portMappings": [f"{port}:5432"]} for name, port in {"one": 5432, "two": 5433}.items()
    }
    assert wrapper.prepare(services) is None
    assert wrapper.said == ["::error::one and two both listen on 5432, and a job's services share a network."]
    assert wrapper.ended.returncode == 1


@pytest.mark.parametrize("images", [("postgres:16", "postgres:17"), ("acme/redis", "redis@sha256:0f")])
def test_two_services_of_one_image_name_are_refused_before_a_pod_is_made(wrapper: Wrapper, images: tuple[str, str]) -> None:
    assert wrapper.prepare({name: {"image": image} for name, image in zip(("one", "two"), images, strict=True)}) is None
    (said,) = wrapper.said
    assert said.startswith("::error::one and two: GitHub's hooks call both containers ")
    assert wrapper.ended.returncode == 1


def test_a_range_of_ports_is_as_many_ports(wrapper: Wrapper) -> None:
    ports = ["8000-8002:7000-7002", "53-54/udp", "6379:6379", "6380:6379", "${x}"]
    got = wrapper.prepare({"a": {"image": "x", "portMappings": ports}})
    (service,) = got["input"]["args"]["services"]
    assert service["portMappings"] == ["7000", "7001", "7002", "53/udp", "54/udp", "6379", "${x}"]


_CHECKED = "--health-cmd \"pg_isready -U 'app'\" --health-interval=1m5s --health-timeout 500ms --health-retries 5 --memory 1g"


def test_a_health_check_becomes_a_probe_and_the_job_waits_for_it(wrapper: Wrapper) -> None:
    ready = [{"name": "redis", "ready": True}, {"name": "postgres", "ready": False, "state": {"running": {}}}]
    answers = [(200, {"status": {"containerStatuses": ready}})] * 3 + [(500, "busy")]
    answers.append((200, {"status": {"containerStatuses": [ready[0], ready[1] | {"ready": True}]}}))
    services = {"old": {"image": "redis:8"}, "new": {"image": "postgres:16", "createOptions": _CHECKED}}
    got = wrapper.prepare(services, answers=answers, QUICK="1000")
    probe = {"command": ["/bin/sh", "-c", "pg_isready -U 'app'"]}
    assert part(got, "$postgres")["readinessProbe"] == {
        "exec": probe,
        "periodSeconds": 65,
        "timeoutSeconds": 1,
        "failureThreshold": 5,
    }
    assert "readinessProbe" not in part(got, "$redis")
    pod = f"/api/v1/namespaces/jobs/pods/{'r' * 54}-workflow?resourceVersion=0\n"
    assert wrapper.asked.read_text(encoding="utf-8") == 5 * pod
    assert wrapper.ended.returncode == 0


def test_a_service_that_ends_before_it_is_healthy_fails_the_job_with_its_log(wrapper: Wrapper) -> None:
    state = {"name": "redis", "ready": False, "state": {"terminated": {"exitCode": 1}}}
    wrapper.prepare(
        {"kv": {"image": "redis", "createOptions": "--health-cmd x"}}, answers=[(200, {"status": {"containerStatuses": [state]}})]
    )
    assert wrapper.ended.returncode == 1
    assert "the log\n" in wrapper.ended.stdout
    assert wrapper.said == ["::error::The service kv is not healthy after 180 seconds."]


def test_a_number_without_a_unit_is_no_duration(wrapper: Wrapper) -> None:
    wrapper.prepare({"kv": {"image": "redis", "createOptions": "--health-interval 10"}})
    assert wrapper.said == ["::error::--health-interval is not a duration such as 10s: 10"]
    assert wrapper.ended.returncode == 1


def test_the_login_of_a_service_is_the_jobs_if_the_job_has_none(wrapper: Wrapper) -> None:
    login = {"username": "u", "password": "p", "serverUrl": "ghcr.io"}
    got = wrapper.prepare({"kv": {"image": "ghcr.io/acme/redis", "registry": login}})
    assert got["input"]["args"]["container"]["registry"] == login
    assert "imagePullSecrets" not in got["template"]["spec"], "it would replace the login"
    wrapper.prepare({"kv": {"image": "ghcr.io/acme/redis", "registry": login}}, {"registry": login | {"serverUrl": "quay.io"}})
    assert wrapper.said == ["::warning::kv: a job has one login, not ghcr.io too. Use pullSecrets."]


def test_the_variables_of_the_workflow_win_over_those_of_the_class(tmp_path: Path) -> None:
    wrapper = Wrapper(tmp_path, env={"MODE": "class", "OTHER": "class"})
    service = {"image": "redis", "environmentVariables": {"MODE": "service"}}
    got = wrapper.prepare({"kv": service}, {"environmentVariables": {"MODE": "job", "HOME": "/github/home"}})
    names = [row["name"] for row in part(got, "$job")["env"]]
    assert "MODE" not in names
    assert "OTHER" in names
    assert [row["value"] for row in part(got, "$redis")["env"]] == ["void"]


def test_a_service_cannot_take_the_gpus_of_its_node_by_a_variable(wrapper: Wrapper) -> None:
    """The hooks append the template's variables, and the last of a name counts. The admission policy refuses such a pod."""
    service = {"image": "redis", "environmentVariables": {"NVIDIA_VISIBLE_DEVICES": "all"}}
    assert part(wrapper.prepare({"kv": service}), "$redis")["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


@pytest.mark.parametrize("level", ["baseline", "restricted"])
def test_the_hooks_own_init_container_stays_confined_and_without_gpus(tmp_path: Path, level: str) -> None:
    got = Wrapper(tmp_path, podSecurity=level).prepare({"kv": {"image": "redis"}})
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    (init,) = got["template"]["spec"]["initContainers"]
    assert init["name"] == "fs-init"
    assert init["image"] == "runner:1"
    assert init["command"][-1] == "mkdir -p /mnt/work/app/app && mv /home/runner/externals/* /mnt/externals/"
    assert init["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    assert init["securityContext"] == {"runAsUser": 1001, "runAsGroup": 1001} | confined
    assert part(got, "$redis").get("securityContext") == (confined if level == "restricted" else None)


def test_an_image_by_digest_alone_gets_a_tag_since_the_hooks_name_its_container_by_it(wrapper: Wrapper) -> None:
    images = ["redis@sha256:ab", "reg:5000/a/one@sha256:ab", "two:7@sha256:ab", "reg:5000/three:7"]
    got = wrapper.prepare({f"s{at}": {"image": image} for at, image in enumerate(images)})
    assert [one["image"] for one in got["input"]["args"]["services"]] == [
        "redis:digest@sha256:ab",
        "reg:5000/a/one:digest@sha256:ab",
        "two:7@sha256:ab",
        "reg:5000/three:7",
    ]


@pytest.mark.parametrize("status", [1, 7])
def test_the_status_of_the_hooks_is_its_own(wrapper: Wrapper, status: int) -> None:
    for command in ("prepare_job", "run_container_step", "run_script_step", "cleanup_job"):
        wrapper.call(wrapper.job([], {}) | {"command": command}, status=status)
        assert wrapper.ended.returncode == status


@pytest.mark.parametrize("text", ["", "no JSON\n", "{"])
def test_input_that_is_no_json_gets_one_clear_line(wrapper: Wrapper, text: str) -> None:
    assert wrapper.call(text) is None
    assert wrapper.ended.returncode == 1
    assert (wrapper.ended.stdout.count("\n"), wrapper.ended.stderr) == (1, "")
    assert wrapper.said == ["::error::Standard input has no JSON. GitHub's runner writes it when it starts this program."]


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_hooks_and_the_template_is_gone(wrapper: Wrapper, name: str) -> None:
    process = wrapper.start(WAIT="yes")
    assert process.stdin is not None
    process.stdin.write(json.dumps(wrapper.job([], {})) + "\n")
    process.stdin.close()
    while not (wrapper.folder / "got").exists():
        time.sleep(0.02)
    process.send_signal(signal.Signals[name])
    assert process.wait(30) == 128 + signal.Signals[name]
    assert list((wrapper.folder / "tmp").iterdir()) == []


_LOST = {
    "evicted": (
        (200, {"status": {"phase": "Failed", "reason": "Evicted", "message": "low on memory"}}),
        "Evicted: low on memory",
    ),
    "gone": ((404, {}), "It is gone."),
    "out of memory": (
        (200, {"status": {"containerStatuses": [{"name": "job", "state": {"terminated": {"reason": "OOMKilled"}}}]}}),
        "OOMKilled",
    ),
}


@pytest.mark.parametrize("case", _LOST)
def test_a_step_whose_pod_is_lost_ends_and_says_why(wrapper: Wrapper, case: str) -> None:
    answer, reason = _LOST[case]
    wrapper.call({"command": "run_script_step", "responseFile": "", "args": {}}, answers=[answer], WAIT="yes", QUICK="5000")
    assert wrapper.ended.returncode == 128 + signal.SIGTERM
    assert wrapper.said == [f"::error::The job's pod {'r' * 54}-workflow has failed. {reason}"]


def test_a_job_whose_image_is_not_there_ends_long_before_the_hooks_give_up(wrapper: Wrapper) -> None:
    waiting = {"name": "job", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    wrapper.prepare({}, answers=[(404, {}), (200, {"status": {"containerStatuses": [waiting]}})], WAIT="yes", QUICK="5000")
    assert wrapper.said[-1].endswith("has failed. ImagePullBackOff: no such image")
    assert 20 < wrapper.asked.read_text(encoding="utf-8").count("\n") < 40


def test_a_step_that_fails_by_itself_gets_no_word_about_its_pod(wrapper: Wrapper) -> None:
    wrapper.call(
        {"command": "run_script_step", "responseFile": "", "args": {}},
        status=1,
        answers=[(200, {"status": {"phase": "Running"}})],
    )
    assert wrapper.said == []
