"""Workflows of public GPU projects, and single jobs in containers, on classes with `containers: job`."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from gpu_ci.audit.reading import audit
from gpu_ci.offline.workflows import check_workflows
from gpu_ci.workflows.judge import Answer
from tests.builders import oke_cluster, oke_runner, runner, vm_per_job
from tests.cases import cases
from tests.workflows.moved import FLEET, FOLDER, RUNS_ON, STACK, fleet_in, moved

BUILT = "send the build to BuildKit (docs/builds.md), or move the step to a job with runs-on: ubuntu-latest"
EDITS = {
    "image-build.yml": [BUILT, "push its image, and write image: docker://<image> and entrypoint: in the action"],
    "linux-job.yml": ["write its image as container: of the job, and its command as a step"],
    "no-container.yml": ["write container: <image>, or write runs-on: gpu-t4-bare", "write container: <image>"],
    "volumes.yml": ["remove it, and name the volume in volumes of class gpu-t4 (docs/pod-template.md)"],
}
"""What `check` says of the workflows that do not run as they are."""
ACCEPTED = (
    "all-gpus.yml",
    "always.yml",
    "artifacts.yml",
    "build-then-test.yml",
    "composite.yml",
    "container-action.yml",
    "default-shell.yml",
    "health-checks.yml",
    "matrix-images.yml",
    "outputs.yml",
    "private-image.yml",
    "reusable.yml",
    "secrets.yml",
    "service-ports.yml",
    "shared-memory.yml",
    "working-directory.yml",
)
"""Those whose every job a class runs, without a remark."""
CALLED = "called-tests.yml"
"""Its jobs are those of the workflow that calls it."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of the fleet with containers."""
    return fleet_in(tmp_path_factory.mktemp("project"))


def edit_of(text: str) -> str:
    """What follows the reason."""
    return text.partition("; ")[2]


def test_of_twenty_workflows_sixteen_need_no_more_than_another_runs_on(tmp_path, project):
    checked = check_workflows(str(moved(tmp_path)), STACK, project)
    assert checked is not None
    edits = defaultdict[str, list[str]](list)
    for answer in checked.answers:
        name = Path(answer.job.place.rsplit(":", 1)[0]).name
        edits[name] += [answer.edit] if answer.state == "no runner" else [edit_of(remark) for remark in answer.remarks]
        assert answer.state != "undeterminable"
    assert {name: texts for name, texts in edits.items() if texts} == EDITS
    assert sorted(name for name, texts in edits.items() if not texts) == [*ACCEPTED]
    assert {path.name for path in (FOLDER / ".github" / "workflows").iterdir()} == {*EDITS, *ACCEPTED, CALLED}
    assert (len(ACCEPTED), len(EDITS)) == (16, 4)


def test_only_their_runs_on_is_another(tmp_path):
    for path in moved(tmp_path).iterdir():
        before = (FOLDER / ".github" / "workflows" / path.name).read_text().splitlines()
        for old, new in zip(before, path.read_text().splitlines(), strict=True):
            key, _, label = old.partition(": ")
            assert new == old or (key.strip() in ("runs-on", "runner") and new == f"{key}: {RUNS_ON[label]}")


def answer_of(project: Path, folder: Path, *lines: str) -> Answer:
    """The answer for one job with `runs-on: gpu-t4` and more lines."""
    path = folder / "ci.yml"
    path.write_text("\n".join(["on: push", "jobs:", "  test:", "    runs-on: gpu-t4", *(f"    {line}" for line in lines), ""]))
    checked = check_workflows(str(path), STACK, project)
    assert checked is not None
    (answer,) = checked.answers
    return answer


HOOKS = "GitHub's hooks call its container"
NAME = "give the image a name of lower-case letters, digits and hyphens, other than job"


@cases(
    ("lines", "message", "edit"),
    [
        (
            ("container: ''",),
            "gpu-t4 of usw2 takes no job without container",
            "write container: <image>, or write runs-on: gpu-t4-bare",
        ),
        (
            ("container: a:1", "services: {a: {image: a}, b: {image: b}, c: {image: c}}"),
            "the job has 3 services, and one of gpu-t4 of usw2 may have 2",
            "write most: 3 below services: of class gpu-t4",
        ),
        (
            ("container: a:1", "services: {db: {image: 'ghcr.io/acme/my_db:1'}}"),
            f"services.db: {HOOKS} my_db, after the image, which no pod allows",
            NAME,
        ),
        (
            ("container: a:1", "services: {db: {image: 'acme/job'}}"),
            f"services.db: {HOOKS} job, after the image, which no pod allows",
            NAME,
        ),
        (
            ("container: a:1", "services: {a: {image: a, ports: ['5432:5432']}, b: {image: b, ports: ['5433:5432']}}"),
            "services.a and services.b both listen on 5432, and the containers of a job of gpu-t4 of usw2 have one network",
            "let services.b listen on another port",
        ),
        (
            ("container: a:1", "services: {a: {image: a, ports: [7000-7002]}, b: {image: b, ports: ['1:7001/tcp']}}"),
            "services.a and services.b both listen on 7001, and the containers of a job of gpu-t4 of usw2 have one network",
            "let services.b listen on another port",
        ),
        (
            ("container: a:1", "services: {a: {image: 'postgres:16'}, b: {image: 'acme/postgres:17'}}"),
            "services.a and services.b: GitHub's hooks call both containers postgres, after the image, which no pod allows",
            "push one of the images under another name",
        ),
        (
            ("container: {image: a, volumes: [cache:/cache]}",),
            "container.volumes has cache:/cache, and jobs of gpu-t4 of usw2 mount no folder of a machine",
            "remove it, and name the volume in volumes of class gpu-t4 (docs/pod-template.md)",
        ),
    ],
)
def test_a_refusal_has_its_reason_and_an_edit(project, tmp_path, lines, message, edit):
    answer = answer_of(project, tmp_path, *lines)
    assert (answer.state, answer.message, answer.edit) == ("no runner", message, edit)


@cases(
    "lines",
    [
        ("container: a:1", "services: {a: {image: a}, b: {image: b}, c: {image: ''}}"),
        ("container: a:1", "services: {a: {image: 'redis@sha256:0f'}, b: {image: 'ghcr.io:443/acme/kv:8'}}"),
        ("container: a:1", "services: {a: {image: '${{ vars.A }}'}, b: {image: 'acme/my_${{ vars.B }}'}}"),
        ("container: a:1", "services: {a: {image: a, ports: [80:80]}, b: {image: b, ports: [80:81, '80/udp']}}"),
        ("container: a:1", "services: {a: {image: a, ports: ['6379:6379', '6380:6379']}}"),
        ("container: a:1", "services: [a, b, c]"),
        ("container: {image: a, volumes: []}",),
        ("container: a:1", "services: ${{ fromJSON(inputs.services) }}"),
        ("container: {image: a, options: --gpus 1 --ipc=host --network host --init --ulimit memlock=-1 --shm-size 8192m}",),
        ("container: {image: a, options: '--health-cmd \"'}",),
        ("container: a:1", "services: {a: {image: a, options: --health-cmd 'a -e b' --network-alias x, ports: [6380:6379]}}"),
        ("container: a:1", "steps: [{uses: 'docker://a', with: {entryPoint: /bin/a}}]"),
    ],
)
def test_what_works_or_changes_nothing_has_no_remark(project, tmp_path, lines):
    answer = answer_of(project, tmp_path, *lines)
    assert (answer.state, answer.remarks) == ("runs", ())


ON = "gpu-t4 of usw2 ignores"


@cases(
    ("lines", "remark"),
    [
        (("container: {image: a, options: --gpus 2}",), "--gpus 2 names 2 GPUs, and a job of gpu-t4 of usw2 has 1; name 1"),
        (
            ("container: {image: a, options: --shm-size=16g}",),
            "container: --shm-size is 16Gi, and /dev/shm of gpu-t4 of usw2 has 8Gi; write shm: 16Gi in class gpu-t4",
        ),
        (
            ("container: a", "services: {db: {image: b, options: --shm-size 9g}}"),
            "services.db: --shm-size is 9Gi, and /dev/shm of gpu-t4 of usw2 has 8Gi; write shm: 9Gi in class gpu-t4",
        ),
        (("container: {image: a, options: --user root}",), f"container: {ON} --user: the steps run as the user of the image"),
        (("container: {image: a, options: --device /dev/fuse}",), f"container: {ON} --device: no class of pods gives it"),
        (("container: {image: a, options: -e A=1 -e B=2}",), f"container: {ON} -e: write env: of the container"),
        (("container: {image: a, options: '-eA=1'}",), f"container: {ON} -e: write env: of the container"),
        (("container: {image: a, options: '-v /a:/b'}",), f"container: {ON} -v: name a volume in volumes of the class"),
        (
            ("container: a", "services: {db: {image: b, volumes: ['./sql:/init']}}"),
            f"services.db: {ON} volumes: ./sql:/init is not there; put the files into its image",
        ),
        (
            ("container: a", "services: {my_db: {image: b}}"),
            "services.my_db: gpu-t4 of usw2 knows no name such as my_db: it answers at localhost; write a hyphen for each _",
        ),
    ],
)
def test_what_the_hooks_ignore_has_a_remark(project, tmp_path, lines, remark):
    answer = answer_of(project, tmp_path, *lines)
    assert answer.state == "runs"
    assert [text[: len(remark)] for text in answer.remarks] == [remark]


OWN = "credentials: {username: a, password: b}"


@cases(
    ("own", "service", "remarks"),
    [
        (f"{{image: ghcr.io/a/c, {OWN}}}", "ghcr.io/a/b", 0),
        (f"{{image: a/c, {OWN}}}", "ghcr.io/a/b", 1),
        (f"{{image: a/c, {OWN}}}", "a/b", 0),
        ("a/c", "ghcr.io/a/b", 0),
        (f"{{image: 'host:5000/c', {OWN}}}", "c", 1),
        (f"{{image: localhost/c, {OWN}}}", "c", 1),
    ],
)
def test_a_job_has_the_credentials_of_one_registry(project, tmp_path, own, service, remarks):
    lines = (f"container: {own}", f"services: {{db: {{image: {service}, {OWN}}}}}")
    found = answer_of(project, tmp_path, *lines).remarks
    fix = "name a Secret in pullSecrets of class gpu-t4 (docs/pod-template.md)"
    ignored = f"services.db: {ON} its credentials, because a job has those of one registry; {fix}"
    assert found == (ignored,) * remarks
    secret = {"gpu-t4": FLEET["runners"]["gpu-t4"] | {"pullSecrets": ["registry"]}}
    with_secret = fleet_in(tmp_path / "secret", FLEET | {"runners": secret})
    assert answer_of(with_secret, tmp_path, *lines).remarks == ()


def test_a_container_action_names_its_program(project, tmp_path):
    answer = answer_of(project, tmp_path, "container: a", "steps: [{uses: 'docker://alpine:3'}]")
    why = "docker://alpine:3 has no entrypoint, which jobs of gpu-t4 of usw2 need"
    fix = "write the program of the image as entrypoint: below with:"
    assert answer.remarks == (f"{tmp_path}/ci.yml:6: {why}; {fix}",)


@cases(("program", "remarks"), [("", 1), (", entrypoint: /bin/a", 0)])
def test_an_action_of_the_repository_names_its_program(project, tmp_path, program, remarks):
    folder = tmp_path / f"repository-{remarks}" / ".github" / "workflows"
    folder.mkdir(parents=True)
    (folder.parents[1] / "action.yml").write_text(f"runs: {{using: docker, image: 'docker://a'{program}}}\n")
    assert len(answer_of(project, folder, "container: a", "steps: [{uses: ./}]").remarks) == remarks


def test_an_image_that_only_github_knows_may_be_none(project, tmp_path):
    image = "${{ vars.IMAGE }}"
    answer = answer_of(project, tmp_path, f"container: {image}")
    assert (answer.state, answer.message, answer.edit) == (
        "undeterminable",
        f"only GitHub knows whether container starts a container, by '{image}', and gpu-t4 of usw2 takes no job without one",
        "write container: <image>",
    )


def test_a_service_that_only_github_knows_may_be_one_too_many(project, tmp_path):
    services = "services: {a: {image: a}, b: {image: b}, c: {image: '${{ vars.C }}'}}"
    answer = answer_of(project, tmp_path, "container: a", services)
    message = "only GitHub knows whether all 3 services start, and a job of gpu-t4 of usw2 may have 2"
    assert (answer.state, answer.message) == ("undeterminable", message)
    assert answer.edit == "write most: 3 below services: of class gpu-t4"


def test_the_other_class_has_no_fewer_gpus(tmp_path):
    bare = {"gpu-t4": FLEET["runners"]["gpu-t4"], "gpu-t4-cpu": runner(pool="builds", gpus=0)}
    project = fleet_in(tmp_path / "project", FLEET | {"runners": bare})
    assert answer_of(project, tmp_path, "timeout-minutes: 5").edit == "write container: <image>"


def test_a_job_that_asks_for_all_gpus_of_a_class_without_any_has_a_remark(project, tmp_path):
    path = tmp_path / "ci.yml"
    path.write_text("on: push\njobs: {a: {runs-on: cpu-build, container: {image: a, options: --gpus all}}}\n")
    checked = check_workflows(str(path), STACK, project)
    assert checked is not None
    why = "--gpus all asks for GPUs, and jobs of cpu-build of usw2 have none"
    assert checked.answers[0].remarks == (f"{why}; write runs-on: with a class that has",)


def test_machines_are_the_other_way_for_what_pods_refuse(tmp_path):
    containers = oke_cluster(
        machineCompartment="ocid1.compartment.oc1..examplemachines",
        runners={"gpu-t4": oke_runner(containers="job", scale={"max": 1}), "vm-a10": vm_per_job()},
    )
    project = fleet_in(tmp_path / "project", containers)
    volume = answer_of(project, tmp_path, "container: {image: a, volumes: ['/a:/b']}")
    assert volume.edit.endswith("(docs/pod-template.md), or write runs-on: with one of vm-a10")
    assert answer_of(project, tmp_path).edit == "write container: <image>, or write runs-on: with one of vm-a10"
    build = answer_of(project, tmp_path, "container: a", "steps: [{run: docker build .}]")
    assert build.remarks[0].endswith("which gpu-t4 of usw2 cannot; write runs-on: vm-a10")


def test_an_audit_reads_the_same_containers(tmp_path):
    assert {job.containers for job in audit(moved(tmp_path).parents[1]).jobs} == {"", "container", "services"}
