"""The commands: what they print, send and follow, and their exit status."""

from __future__ import annotations

import json
import re
from functools import partial

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from gpu_ci.submit.cli import app
from gpu_ci.submit.objects import JOBS
from gpu_ci.submit.runs import RunOptions
from tests.submit.conftest import TIMING
from tests.submit.life import complete, fail, ready, show, work
from tests.submit.objects import ended, job, waiting
from tests.submit.server import Reply, status

WORDS = ["--task-id", "ml_task_123", "--image", "ghcr.io/example/agent-bus:1.4.0"]


def submit(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


# -- print ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35", "1.36"])
def test_a_manifest_is_printed_as_kubectl_takes_it(version):
    done = submit(
        *(
            "print",
            *WORDS,
            "--gpus",
            1,
            "--gpu-type",
            "v100",
            "--memory",
            "16Gi",
            "--cpu",
            "8000m",
            "-n",
            "ml",
            "--queue",
            "team-a",
        ),
        *(
            "--env",
            "WORKER_TYPE=gpu",
            "--env",
            "EQUATION=a=b",
            "--secret-env",
            "HF_TOKEN=hf/token",
            "--deadline",
            "2h",
            "--shm",
            "4Gi",
        ),
        *("--workspace", "ml-workspace", "--cache", "models", "--priority", "high-priority", "--", "python", "-m", "src.worker"),
    )
    assert done.exit_code == 0, done.stderr
    made = yaml.safe_load(done.stdout)
    kubernetes_validate.validate(made, version, strict=True)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python", "-m", "src.worker"]
    assert container["resources"]["limits"] == {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "1"}
    env = {each["name"]: each for each in container["env"]}
    assert env["EQUATION"]["value"] == "a=b"
    assert env["HF_TOKEN"] == {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}}
    assert made["metadata"]["namespace"] == "ml"
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert made["spec"]["activeDeadlineSeconds"] == 7200
    claims = [volume.get("persistentVolumeClaim", {}).get("claimName") for volume in made["spec"]["template"]["spec"]["volumes"]]
    assert {"ml-workspace", "models"} <= set(claims)
    assert done.stderr == ""


def test_a_job_is_placed_in_a_stack():
    done = submit("print", *WORDS, "--gpu-type", "t4", "--memory", "8Gi", "--cpu", 4, "--stack", "staging", "--spot")
    assert done.exit_code == 0, done.stderr
    assert yaml.safe_load(done.stdout)["spec"]["template"]["spec"]["nodeSelector"]["gpu-ci/pool"] == "t4-spot"
    assert done.stderr.startswith("placed in usw2/t4-spot, ")


def test_a_named_pool_implies_the_gpu_type_and_shares():
    done = submit("print", *WORDS, "--stack", "homelab", "--pool", "gpu")
    assert done.exit_code == 0, done.stderr
    spec = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {"gpu-ci/pool": "gpu"}
    assert spec["containers"][0]["resources"]["limits"] == {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu.shared": "1"}
    assert done.stderr.startswith("placed in home/gpu, ")


def test_a_named_pool_of_spot_machines_needs_no_spot_option():
    done = submit("print", *WORDS, "--stack", "prod", "--cluster", "use1", "--pool", "t4-spot", "--cpu", 2, "--memory", "8Gi")
    assert done.exit_code == 0, done.stderr
    assert yaml.safe_load(done.stdout)["spec"]["template"]["spec"]["nodeSelector"] == {"gpu-ci/pool": "t4-spot"}


def test_a_share_of_a_gpu_is_an_option():
    done = submit("print", *WORDS, "--stack", "homelab", "--gpu-type", "rtx-3090", "--shared")
    assert done.exit_code == 0, done.stderr
    assert 'nvidia.com/gpu.shared: "1"' in done.stdout


def test_a_gpu_type_that_the_named_pool_does_not_have_is_refused():
    done = submit("print", *WORDS, "--stack", "homelab", "--pool", "gpu", "--gpu-type", "t4")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == "error: home/gpu: has RTX 3090, the job asks for T4"


def test_the_words_of_a_task_choose_its_gpus():
    done = submit("print", *WORDS, "--requirements", "PyTorch training of an image classifier", "--cpu", 8)
    assert done.exit_code == 0, done.stderr
    assert "machine learning (pytorch)" in done.stderr
    assert "1 x A100, 32Gi: training" in done.stderr
    limits = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "1"}
    more = submit("print", *WORDS, "--requirements", "PyTorch training", "--gpu-type", "h100", "--memory", "64Gi")
    assert "accelerator: nvidia-h100" in more.stdout, "an option wins over the requirements"
    placed = submit("print", *WORDS, "--requirements", "PyTorch training", "--stack", "homelab", "--pool", "gpu")
    assert placed.exit_code == 0, placed.stderr
    assert 'memory: "32Gi"' in placed.stdout, "the pool decides the GPU, the requirements the memory"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--task-id", "a"], "--image: must be given, or --manifest with a file"),
        ([], "--task-id and --image: must be given, or --manifest with a file"),
        ([*WORDS, "--gpus", "3"], "--gpus: a job takes 1, 2, 4, 8 GPUs"),
        (
            [*WORDS, "--gpu-type", "k80"],
            "--gpu-type: no NVIDIA GPU of fleet/facts/data/gpus.csv; write for example t4, l4 or rtx-4090",
        ),
        ([*WORDS, "--memory", "16"], "--memory: a memory quantity is a positive whole number with its unit"),
        ([*WORDS, "--env", "NOTHING"], "--env: must be NAME=VALUE; the value that begins with 'NOTHING' is not"),
        ([*WORDS, "--env", "A=1", "--env", "A=2"], "--env: A is given twice; remove one"),
        ([*WORDS, "--secret-env", "A=b"], "--secret-env: A must be SECRET/KEY"),
        ([*WORDS, "--priority", "A B"], "--priority: "),
        ([*WORDS, "--pool", "t4"], "--cluster, --pool, --file: name a part of a stack; also pass --stack"),
        ([*WORDS, "--stack", "nope"], "stack: there must be a file for the stack; "),
        (
            [*WORDS, "--stack", "../x"],
            "stack: a stack name is 1 to 100 letters, digits, hyphens, underscores and periods; got '../x'; ",
        ),
        ([*WORDS, "--stack", "staging", "--pool", "nope"], "--pool: no pool has that name; name one of: "),
        ([*WORDS, "--stack", "staging", "--gpu-type", "h100"], "no pool can hold ml-task-123-"),
        ([*WORDS, "--requirements", "write a letter"], "--requirements: nothing in it asks for a GPU"),
        (["--manifest", "nope.yaml"], "--manifest: nope.yaml cannot be read (No such file or directory); name another"),
        (
            ["--manifest", "nope.yaml", "--gpus", "1", "--", "a"],
            "--manifest: the file describes the whole Job; remove the command, --gpus",
        ),
    ],
)
def test_wrong_input_is_told_and_ends_with_2(words, line):
    done = submit("print", *words)
    assert done.exit_code == 2
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"error: {line}")
    assert done.stdout == ""


def test_why_no_pool_holds_a_job_is_told_pool_by_pool():
    done = submit("print", *WORDS, "--stack", "staging", "--gpu-type", "h100")
    head, *pools = done.stderr.splitlines()
    assert head.endswith("H100 GPU, 8 CPU, 32Gi, 20Gi of disk):") or "H100" in head
    assert pools
    assert all(line.startswith("error: usw2/") for line in pools)


# -- run, follow, delete -------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch):
    """A command has two seconds between two looks, and no option for them."""
    monkeypatch.setattr("gpu_ci.submit.cli.RunOptions", partial(RunOptions, timing=TIMING))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job()))
    return path


def test_a_job_is_run(server, config, file, meanwhile):
    meanwhile(lambda: work(server, "hello"))
    done = submit("run", "--manifest", file, "--kubeconfig", config)
    assert (done.exit_code, done.stdout) == (0, "hello\n")
    assert done.stderr.splitlines()[0] == "train: created in namespace ml"
    assert done.stderr.splitlines()[-1].startswith("train: complete after ")


def test_a_job_is_described_and_run(server, config, meanwhile):
    def life():
        server.wait("create", "jobs")
        work(server, "hello", name=server.asked("create", "jobs")[0].body["metadata"]["name"])

    meanwhile(life)
    done = submit(
        *("run", *WORDS, "--gpu-type", "t4", "--stack", "staging", "--spot", "--memory", "8Gi", "--cpu", 4),
        *("--kubeconfig", config, "--context", "here", "-n", "team", "--clean-up", "--", "nvidia-smi"),
    )
    assert done.exit_code == 0, done.stderr
    (made,) = server.asked("create", "jobs")
    assert made.namespace == "team"
    assert made.body["spec"]["template"]["spec"]["containers"][0]["command"] == ["nvidia-smi"]
    assert ": placed in usw2/t4-spot, " in done.stderr.splitlines()[0]
    assert len(server.asked("delete", "jobs")) == 1


def test_a_job_that_fails_ends_with_1(server, config, file, meanwhile):
    def life():
        made = ready(server)
        server.write("train-a")
        show(server, made, "train-a", ended(1))
        fail(server)

    meanwhile(life)
    done = submit("run", "--manifest", file, "--kubeconfig", config)
    assert done.exit_code == 1
    assert re.search("train: failed after [0-9]+s: BackoffLimitExceeded", done.stderr)


def test_a_job_that_is_stuck_ends_with_1(server, config, file, meanwhile):
    meanwhile(lambda: show(server, ready(server), "train-a", waiting("ImagePullBackOff", "no such image")))
    done = submit("run", "--manifest", file, "--kubeconfig", config, "--stuck-after", "0s")
    assert done.exit_code == 1
    assert "train: stuck after" in done.stderr


@pytest.mark.parametrize("option", [["--stuck-after", "soon"], ["--start-within", "1d"]])
def test_a_time_that_is_none_is_told(config, file, option):
    done = submit("run", "--manifest", file, "--kubeconfig", config, *option)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {option[0]}: must be a whole number of seconds, or with a unit, s, m or h; got ")


def test_a_refusal_ends_with_2(server, config, file):
    server.reply("create", "jobs", Reply(403, status(403, "Forbidden", 'User "alice" cannot create resource "jobs"')))
    done = submit("run", "--manifest", file, "--kubeconfig", config)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: create jobs.batch train in namespace ml: 403 Forbidden: ")


def test_nobody_that_listens_ends_with_2(file, tmp_path, config, server):
    server.__exit__()
    done = submit("run", "--manifest", file, "--kubeconfig", config)
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert "no connection to the server" in line


def test_no_kubeconfig_ends_with_2(file):
    done = submit("run", "--manifest", file)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: there is no kubeconfig")


def test_the_namespace_of_a_manifest_counts(server, config, tmp_path, meanwhile):
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job() | {"metadata": {"name": "train", "namespace": "team"}}))
    meanwhile(lambda: work(server, "hello"))
    assert submit("run", "--manifest", path, "--kubeconfig", config).exit_code == 0
    assert server.asked("create", "jobs")[0].namespace == "team"
    assert submit("run", "--manifest", path, "--kubeconfig", config, "-n", "ml").exit_code == 2


def test_a_job_is_followed_and_deleted_by_name(server, cluster, config, meanwhile):
    cluster.create(JOBS, job())
    meanwhile(lambda: work(server, "hello"))
    done = submit("follow", "train", "--kubeconfig", config)
    assert (done.exit_code, done.stdout) == (0, "hello\n")
    done = submit("delete", "train", "--kubeconfig", config, "--foreground")
    assert (done.exit_code, done.stdout) == (0, "train: deleted from namespace ml\n")
    assert server.asked("delete", "jobs")[0].body["propagationPolicy"] == "Foreground"
    done = submit("delete", "train", "--kubeconfig", config)
    assert done.exit_code == 2
    assert "404 NotFound" in done.stderr


def test_a_fault_of_ours_has_a_status_of_its_own(monkeypatch, config, file):
    monkeypatch.setattr("gpu_ci.submit.api.connect", lambda *_: 1 / 0)
    done = submit("run", "--manifest", file, "--kubeconfig", config)
    assert done.exit_code == 70
    assert "ZeroDivisionError" in done.stderr


def test_the_same_job_is_taken_up_again(server, cluster, config, file, meanwhile):
    meanwhile(lambda: work(server, "hello"))
    assert submit("run", "--manifest", file, "--kubeconfig", config).exit_code == 0
    done = submit("run", "--manifest", file, "--kubeconfig", config, "--existing", "follow")
    assert (done.exit_code, done.stdout) == (0, "hello\n"), "it has ended, and its end is shown again"
    assert submit("run", "--manifest", file, "--kubeconfig", config).exit_code == 2
    complete(server)
