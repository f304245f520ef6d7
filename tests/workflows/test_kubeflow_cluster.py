"""The action that makes a kind cluster with GPUs: whatever fails, one line says what and how to fix it, and nothing is left."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from fleet.facts import versions
from fleet.facts.node_image import NODE_IMAGES
from fleet.facts.scheduling import EKS_PROFILE, GPU_RESOURCE
from fleet.settings.operator import OperatorSettings
from tests.charts import gpu_operator
from tests.stubs import Call
from tests.workflows import kubeflow
from tests.workflows.stub_gpu_machine import (
    ACTION,
    COMMANDS,
    INPUTS,
    KUBEFLOWS,
    PRESENT,
    SCRIPT,
    UUIDS,
    StubGpuMachine,
    replicated,
    runtimes,
)

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed: the script's filters are jq's")

STEPS = [
    "start",
    "tools",
    "driver",
    "toolkit",
    "runtime",
    "cluster",
    "nodes",
    "operator",
    "capacity",
    "trainer",
    "runtimes",
    "smoke",
]
FOUR = "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1"


@pytest.fixture
def machine(tmp_path: Path) -> StubGpuMachine:
    """A machine without a cluster."""
    return StubGpuMachine(tmp_path / "machine")


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> StubGpuMachine:
    """A machine on which a cluster was made."""
    machine = StubGpuMachine(tmp_path_factory.mktemp("good") / "machine")
    assert machine.run() == 0, machine.output
    return machine


def refused(machine: StubGpuMachine) -> str:
    """The one line of a run that failed, compared with the facts of all: no output, no cluster left."""
    assert machine.outputs.read_text() == "", "a later step would take it for a cluster"
    assert not machine.has_cluster
    assert len(machine.errors) == 1
    return machine.errors[0]


# -- success -------------------------------------------------------------------------------------------------------------


def test_success_gives_a_kubeconfig_and_the_count_of_gpus(good):
    assert good.outputs.read_text() == f"kubeconfig={good.state}/kubeconfig\ngpus=2\n"
    assert good.errors == []
    assert good.has_cluster
    summary = good.summary.read_text()
    for told in (
        "2, driver 570.195.03",
        "1.17.8 on the machine, 1.19.1-1 in the nodes",
        "v26.7.0",
        f"| a pod sees | {UUIDS[1]} |",
    ):
        assert told in summary


def test_every_stub_is_used_and_every_step_has_its_turn(good):
    begun = re.findall(r"^kubeflow-gpu-cluster step=(\w+)$", good.output, re.MULTILINE)
    assert ["start", *begun] == STEPS
    assert {call.name for call in good.calls} == {*COMMANDS} - {*PRESENT, "sleep", "tail"}, "these are for failures"


@pytest.mark.parametrize("fail", ["", "chmod"])
def test_commands_that_are_programs_end_a_run_as_functions_do(tmp_path, fail):
    functions, programs = (StubGpuMachine(tmp_path / name, programs=name == "programs") for name in ("functions", "programs"))
    assert functions.run(fail=fail) == programs.run(fail=fail)
    assert functions.classes == programs.classes
    if fail:
        assert refused(programs).endswith(': chmod 0644 "$STATE/preferences"')
        assert refused(functions).rpartition(": ")[0] == refused(programs).rpartition(": ")[0], "the same line"
    # Both ends of a pipe write at once.
    outputs = [sorted(end.output.replace(str(end.folder), "").splitlines()) for end in (functions, programs)]
    assert [line for line in outputs[0] if "::error " not in line] == [line for line in outputs[1] if "::error " not in line]


def test_nothing_of_the_machine_is_changed(good):
    text = SCRIPT.read_text()
    assert not re.search(r"^\s*(sudo|systemctl|apt-get)\b", text, re.MULTILINE)
    assert all(" config" not in call and "runtime configure" not in call for call in good.called("nvidia-ctk"))


def test_whatever_may_hang_has_a_limit(good):
    outside = [
        call for call in good.calls if call.name in ("docker", "helm", "kind", "kubectl", "nvidia-ctk", "nvidia-smi", "nvkind")
    ]
    assert outside
    assert [call for call in outside if not call.limit.isdigit()] == []


def test_versions_are_checked_before_anything_is_made(good):
    made = [call.step for call in good.calls if call.arguments.startswith(("cluster create", "upgrade", "apply"))]
    assert made[0] == "cluster"
    assert STEPS.index("driver") < STEPS.index("toolkit") < STEPS.index("cluster")


def test_the_cluster_is_nvkinds_with_the_pinned_image_and_our_template(good):
    create, gpus = good.called("nvkind")
    assert create == (
        f"cluster create --name gpu --image {kubeflow.NODE_IMAGE} "
        f"--config-template {ACTION}/cluster.yaml.tmpl --config-values {good.state}/values.yaml"
    )
    assert gpus == "cluster print-gpus --name gpu"
    assert json.loads((good.state / "values.yaml").read_text()) == {"preferences": f"{good.state}/preferences"}


def test_the_nodes_get_the_pinned_toolkit(good):
    assert (good.state / "preferences").read_text() == (
        f"Package: {FOUR}\nPin: version {kubeflow.NODE_TOOLKIT}\nPin-Priority: 1001\n"
    )
    assert (good.state / "preferences").stat().st_mode & 0o777 == 0o644, "apt reads it as another user than who wrote it"


def test_the_operator_brings_neither_driver_nor_toolkit(good):
    (call,) = good.called("helm")
    chart = versions.CHARTS["gpu-operator"]
    assert f"--repo {chart.repository} --version {chart.version} " in call
    said = dict(re.findall(r"--set (\w+)\.enabled=(\w+)", call))
    image = NODE_IMAGES["nvkind"]
    ours = gpu_operator(image, OperatorSettings(), cdi=True, tolerations=EKS_PROFILE.tolerations).values
    assert {name: str(ours[name]["enabled"]).lower() for name in ("driver", "toolkit", "cdi")} == {
        name: said[name] for name in ("driver", "toolkit", "cdi")
    }, "as a fleet's own operator would be set on such nodes"


def test_trainer_comes_from_its_commit(good):
    applied = [call for call in good.called("kubectl") if call.startswith("apply ")]
    ref = f"?ref={kubeflow.TRAINER_COMMIT}&timeout=300s"
    base = "apply --server-side --kustomize https://github.com/kubeflow/trainer.git/manifests/overlays"
    assert applied == [f"{base}/manager{ref}", f"{base}/runtimes{ref}"]


def test_the_smoke_test_is_a_job_that_every_kubernetes_takes_and_asks_for_a_gpu_with_the_runtime_class(good):
    assert f"create --filename={good.state}/smoke.json" in good.called("kubectl")
    job = json.loads((good.state / "smoke.json").read_text())
    for version in ("1.33", "1.34", "1.35", "1.36"):
        kubernetes_validate.validate(job, version, strict=True)
    pod = job["spec"]["template"]["spec"]
    assert pod["runtimeClassName"] == "nvidia"
    (container,) = pod["containers"]
    assert container["image"] == INPUTS["smoke-image"]["default"]
    assert container["resources"]["limits"][GPU_RESOURCE] == container["resources"]["requests"][GPU_RESOURCE] == 1


# -- the runtime class -----------------------------------------------------------------------------------------------------


def test_every_job_that_trains_gets_the_runtime_class_and_initializers_do_not(good):
    assert good.classes == {
        "torch-distributed": {"node": "nvidia"},
        "torchtune": {"dataset-initializer": None, "model-initializer": None, "node": "nvidia"},
        "deepspeed-distributed": {"node": "nvidia", "launcher": "nvidia"},
    }


def test_a_patch_sets_a_class_that_is_missing_or_another_and_changes_nothing_else(tmp_path):
    held = runtimes(
        has=[replicated("node", "trainer", runtimeClassName="nvidia")],
        lacks=[replicated("node", "trainer", hostNetwork=True)],
        other=[replicated("node", "trainer", runtimeClassName="nvidia-legacy")],
        empty=[],
    )
    machine = StubGpuMachine(tmp_path / "machine", held=held)
    assert machine.run() == 0
    patched = [call.split()[2] for call in machine.called("kubectl") if call.startswith("patch ")]
    assert patched == ["lacks", "other"]
    for item in held["items"][1:3]:
        (job,) = item["spec"]["template"]["spec"]["replicatedJobs"]
        job["template"]["spec"]["template"]["spec"]["runtimeClassName"] = "nvidia"
    assert machine.runtimes == held["items"]


def test_runtimes_that_all_have_the_class_need_no_patch(tmp_path):
    machine = StubGpuMachine(tmp_path / "machine", held=runtimes(has=[replicated("node", runtimeClassName="nvidia")]))
    assert machine.run() == 0, machine.errors
    assert not [call for call in machine.called("kubectl") if call.startswith("patch ")]


def filtered(held: dict[str, Any]) -> list[tuple[str, list[dict[str, Any]]]]:
    """What the filter does with runtimes: names and patches."""
    command = ["jq", "--raw-output", "--arg", "class", "nvidia", "--from-file", str(ACTION / "runtime-class.jq")]
    done = subprocess.run(command, input=json.dumps(held), capture_output=True, text=True, check=True)
    return [(name, json.loads(patch)) for name, _, patch in (line.partition("\t") for line in done.stdout.splitlines())]


def test_a_patch_holds_the_jobs_name_before_it_sets_the_class():
    at = "/spec/template/spec/replicatedJobs/2"
    assert filtered(runtimes(torchtune=KUBEFLOWS["torchtune"])) == [
        (
            "torchtune",
            [
                {"op": "test", "path": f"{at}/name", "value": "node"},
                {"op": "add", "path": f"{at}/template/spec/template/spec/runtimeClassName", "value": "nvidia"},
            ],
        )
    ]


def test_a_runtime_without_jobs_is_no_reason_to_fail():
    bare = {"metadata": {"name": "bare"}, "spec": {"mlPolicy": {"numNodes": 1}}}
    assert filtered({"items": [bare, {"metadata": {"name": "empty"}}]}) == []


# -- every command failing in turn -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A call that failed, from that call on each of the command's, and the line that came of it."""

    call: Call
    line: str


def failures(good: StubGpuMachine, folder: Path) -> list[Row]:
    """Every call of a good run, made to fail in turn. Checks at each end the facts of all."""

    def row(number: int, call: Call) -> Row:
        machine = StubGpuMachine(folder / str(number))
        assert machine.run(fail=call.name, from_=str(call.count), code="3", hasty="yes") != 0, call
        return Row(call, refused(machine))

    # What timeout runs fails in its own turn.
    calls = [call for call in good.calls if call.name != "timeout"]
    return [row(number, call) for number, call in enumerate(calls)]


def test_every_command_that_fails_leaves_no_cluster_no_output_and_one_line_of_its_step(good, tmp_path):
    rows = failures(good, tmp_path)
    table = "\n".join(f"{row.call.step:9} {row.call.name:12} {row.call.count:3}  {row.line}" for row in rows)
    assert {row.call.name for row in rows} == {*COMMANDS} - {*PRESENT, "sleep", "tail", "timeout"}, "each has failed"
    wrong = [row for row in rows if not row.line.startswith(f"step {row.call.step}: ")]
    assert wrong == [], table
    assert [row for row in rows if row.line.endswith(": ")] == [], table


def test_what_the_network_fails_once_is_tried_again(tmp_path):
    for name, first in {"docker": "2", "nvkind": "1", "helm": "1"}.items():
        machine = StubGpuMachine(tmp_path / name)
        assert machine.run(fail=name, from_=first, to=first) == 0, machine.errors
        assert len(machine.called("sleep")) == 1


def test_tries_have_an_end(machine):
    machine.run(fail="helm")
    assert len(machine.called("helm")) == 3
    assert machine.called("sleep") == ["30", "30"]


def test_a_cluster_that_did_not_come_up_is_deleted_before_the_next_try(machine):
    assert machine.run(fail="nvkind", to="1") == 0
    order = [
        call.arguments.split()[1] for call in machine.calls if call.name in ("kind", "nvkind") and "cluster" in call.arguments
    ]
    assert order == ["clusters", "create", "cluster", "create", "print-gpus"]


def test_what_the_cluster_says_is_shown_before_it_is_deleted(machine):
    machine.run(logs="GPU 0: somebody else's")
    refused(machine)
    last = [(call.name, call.arguments.split()[0]) for call in machine.calls if call.step == "smoke" and call.name != "timeout"][
        -3:
    ]
    assert last == [("kubectl", "get"), ("kubectl", "get"), ("kind", "delete")]


# -- wrong states ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["docker", "git", "helm", "jq", "kind", "kubectl", "nvidia-ctk", "nvidia-smi", "nvkind"])
def test_a_tool_that_is_missing_is_named_with_the_machine_that_has_it(machine, name):
    assert machine.without(name).run() == 1
    assert refused(machine) == f"step tools: {name} not found; run the job on a machine that has it (a set with nvkind: true)"


def test_the_guides_symptom_is_told_with_its_mend(machine):
    assert machine.without("nvidia-container-runtime").run() == 1
    line = refused(machine)
    assert line.startswith("step tools: nvidia-container-runtime not found; install the four packages of NVIDIA's own archive")
    assert "sudo nvidia-ctk config --set accept-nvidia-visible-devices-as-volume-mounts=true --in-place" in line
    assert line.endswith("sudo nvidia-ctk runtime configure --runtime=docker --set-as-default; sudo systemctl restart docker")


@pytest.mark.parametrize(
    ("behaviour", "step", "said"),
    [
        ({"drivers": "No devices were found"}, "driver", "nvidia-smi names no driver: No devices were found"),
        ({"drivers": ""}, "driver", "nvidia-smi names no driver: "),
        (
            {"drivers": "570.195.03\n535.183.01"},
            "driver",
            "driver 535.183.01 is older than branch 570; use a newer image",
        ),
        (
            {"toolkit": "1.18.2"},
            "toolkit",
            "the pinned nvkind works with toolkit 1.17 1.19, not 1.18.2; on the machine: sudo apt-get",
        ),
        ({"toolkit": "1.170.0"}, "toolkit", "the pinned nvkind works with toolkit 1.17 1.19, not 1.170.0; "),
        ({"toolkit": "unknown"}, "toolkit", "nvidia-ctk names no version: "),
        ({"runtime": "runc"}, "runtime", "docker's default runtime is runc, not nvidia; "),
        ({"container": UUIDS[0]}, "runtime", f"a container does not see {UUIDS[1]}; "),
        ({"clusters": "other\ngpu"}, "cluster", "a cluster gpu exists already; set another cluster-name, or delete it"),
        ({"nodes_gpus": "[]"}, "nodes", "the kind nodes have other GPUs than the machine: "),
        ({"nodes_gpus": "no JSON"}, "nodes", "the kind nodes show no GPUs"),
        (
            {"node_toolkit": "1.20.0"},
            "nodes",
            "the kind node has another toolkit than 1.19.1-1: NVIDIA Container Toolkit CLI version 1.20.0",
        ),
        ({"nodes": '{"items": [{"status": {"allocatable": {}}}]}'}, "capacity", "the nodes do not offer the machine's 2 GPUs; "),
        (
            {"nodes": '{"items": [{"status": {"allocatable": {"nvidia.com/gpu": "4"}}}]}'},
            "capacity",
            "the nodes do not offer the machine's 2 GPUs; ",
        ),
        ({"stubborn": "yes"}, "runtimes", "runtimes without the runtime class: torch-distributed"),
        ({"job": "/"}, "smoke", "the smoke test neither ends nor fails; "),
        (
            {"job": "/1", "logs": "Failed to initialize NVML"},
            "smoke",
            "a pod that asks for a GPU sees none of the machine's GPUs: Failed",
        ),
    ],
)
def test_what_is_not_as_expected_is_told(machine, behaviour, step, said):
    assert machine.run(hasty="yes", **behaviour) == 1
    assert refused(machine).startswith(f"step {step}: {said}")


def test_somebody_elses_cluster_of_the_same_name_is_left_alone(machine):
    (machine.stub / "cluster").write_text("here")
    machine.run(clusters="gpu")
    assert machine.has_cluster
    assert "delete" not in str(machine.called("kind"))


def test_a_toolkit_that_does_not_fit_is_told_with_the_pinned_one(machine):
    machine.run(toolkit="1.18.0")
    for package in FOUR.split():
        assert f"{package}={versions.VM_TOOLKIT}" in refused(machine)


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        ("umount: /proc/driver/nvidia: not mounted", "toolkit 1.18 no longer mounts there (NVIDIA/nvkind#61); "),
        ('exec: "nvidia-container-runtime": executable file not found in $PATH', "nvidia-container-runtime not found; install"),
        ("docker: unknown or invalid runtime name: nvidia", "nvidia-container-runtime not found; install"),
        (
            "Job for containerd.service failed because the control process exited",
            "the kind node rejects the configuration of this toolkit",
        ),
        ("toomanyrequests: You have reached your pull rate limit", "the registry limits pulls; "),
        ("failed to create fsnotify watcher: too many open files", "the machine allows too few inotify instances; "),
        ("something new", "something new"),
    ],
)
def test_what_nvkind_is_known_to_fail_with_is_told_with_its_mend(machine, says, cause):
    assert machine.run(fail="nvkind", error=says) == 1
    assert refused(machine).startswith(f"step cluster: Failed to create Kind cluster with GPU support: {cause}")


def test_no_runtimes_are_an_error(tmp_path):
    machine = StubGpuMachine(tmp_path / "machine", held=runtimes())
    assert machine.run() == 1
    assert refused(machine).startswith("step runtimes: there is no ClusterTrainingRuntime; ")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("trainer", "v2.3.0", "trainer v2.3.0 is not a full commit; a tag can move"),
        ("cluster-name", "GPU_1", "cluster-name GPU_1 is not a DNS label"),
    ],
)
def test_an_input_that_cannot_be_is_refused_first(tmp_path, name, value, said):
    machine = StubGpuMachine(tmp_path / "machine", inputs={name: value})
    assert machine.run() == 1
    assert refused(machine) == f"step start: {said}"
    assert machine.calls == []


def test_a_setting_that_is_missing_is_named(tmp_path):
    machine = StubGpuMachine(tmp_path / "machine", inputs={"operator": ""})
    assert machine.run() != 0
    assert "OPERATOR: parameter null or not set" in machine.output
    assert refused(machine).startswith("step start: ")


def test_what_a_tool_says_makes_no_command_of_githubs(machine):
    machine.run(runtime="runc\n::set-output name=kubeconfig::mine")
    assert refused(machine).startswith("step runtime: docker's default runtime is runc%0A::set-output")
    assert not re.search(r"^::set-output", machine.output, re.MULTILINE)


# -- the files -------------------------------------------------------------------------------------------------------------


def test_the_actions_defaults_are_the_pinned_versions():
    data: dict[str, Any] = versions._DATA
    assert {name: found["default"] for name, found in INPUTS.items()} == {
        "cluster-name": "gpu",
        "node-image": kubeflow.NODE_IMAGE,
        "node-toolkit": kubeflow.NODE_TOOLKIT,
        "toolkits": " ".join(versions.NVKIND.toolkits),
        "toolkit": versions.VM_TOOLKIT,
        "driver-branch": str(kubeflow.DRIVER_BRANCH),
        "operator": versions.CHARTS["gpu-operator"].version,
        "operator-repository": versions.CHARTS["gpu-operator"].repository,
        "trainer": kubeflow.TRAINER_COMMIT,
        "smoke-image": data["images"]["cuda"]["reference"],
    }


def test_the_template_is_a_kind_cluster_with_all_gpus_on_one_worker():
    text = (ACTION / "cluster.yaml.tmpl").read_text()
    assert re.findall(r"{{.*?}}", text) == ["{{ .preferences | quote }}"], "what this test fills in"
    cluster = YAML(typ="safe", pure=True).load(text.replace("{{ .preferences | quote }}", '"/run/preferences"'))
    assert (cluster["kind"], cluster["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    plane, worker = cluster["nodes"]
    assert plane == {"role": "control-plane"}
    assert worker == {
        "role": "worker",
        "labels": {"nvidia.com/gpu.present": "true"},
        "extraMounts": [
            {"hostPath": "/dev/null", "containerPath": "/var/run/nvidia-container-devices/all"},
            {"hostPath": "/run/preferences", "containerPath": "/etc/apt/preferences.d/gpu-ci", "readOnly": True},
        ],
    }


def test_shellcheck_finds_nothing():
    checker = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([checker, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_script_is_a_program_and_shows_no_commands_as_it_runs():
    assert SCRIPT.stat().st_mode & 0o111
    assert "set -x" not in SCRIPT.read_text()
    assert "set -Eeuo pipefail" in SCRIPT.read_text()
