"""Runners that are machines: terraform-aws-github-runner, RunsOn and CNCF's launchers."""

import json

import pytest

from fleet.facts.errors import InputError
from fleet.prove.runs_on import RunsOn
from gpu_ci.audit.reading import audit
from tests.audit.reading import seen, unread
from tests.audit.test_audit import workflow

CONFIG = """\
matcherConfig:
  exactMatch: %s
  labelMatchers: [[self-hosted, linux, gpu], [self-hosted, t4]]
  priority: 5
fifo: true
runner_config:
  runner_os: linux
  runner_architecture: x64
  instance_types: [g5.xlarge, g4dn.xlarge]
  runners_maximum_count: 7
  %s
"""


def one(folder, more: str = "vpc_id: x", exact: str = "true"):
    (found,) = seen(folder, gpu=CONFIG % (exact, more)).classes
    return found


def test_a_runner_configuration_is_a_class(tmp_path):
    found = one(tmp_path)
    assert (found.name, found.by, found.maximum, found.disk) == ("gpu", "terraform-aws-github-runner", 7, 30)
    assert (found.machines, found.capacities, found.ephemeral) == (("g4dn.xlarge", "g5.xlarge"), ("spot",), False)
    assert found.at.place.endswith("gpu.yaml:6")


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ("instance_target_capacity_type: on-demand", "capacities", ("on-demand",)),
        ("enable_on_demand_failover_for_errors: [InsufficientInstanceCapacity]", "capacities", ("spot", "on-demand")),
        ("instance_allocation_strategy: capacity-optimized-prioritized", "machines", ("g5.xlarge", "g4dn.xlarge")),
        ("enable_ephemeral_runners: true", "ephemeral", True),
        ("runner_group_name: GPUs", "group", "GPUs"),
        ("idle_config: [{cron: '* * * * *', timeZone: UTC, idleCount: 2}]", "minimum", 2),
        ("pool_config: [{schedule_expression: rate(1 hour), size: 3}]", "minimum", 3),
        ("block_device_mappings: [{volume_size: 100}]", "disk", 100),
        ("placement: {availability_zone: us-east-1a}", "region", "us-east-1"),
    ],
)
def test_keys_of_a_runner_configuration(tmp_path, more, field, value):
    assert getattr(one(tmp_path, more), field) == value
    assert unread(audit(tmp_path)) == []


def test_a_maximum_below_zero_is_none(tmp_path):
    (found,) = seen(tmp_path, gpu=(CONFIG % ("true", "vpc_id: x")).replace("count: 7", "count: -1")).classes
    assert found.maximum is None


@pytest.mark.parametrize(
    ("labels", "strict", "loose"),
    [
        (("self-hosted", "gpu"), True, True),
        (("self-hosted", "t4"), True, True),
        (("gpu", "t4"), False, True),
        (("gpu", "arm64"), False, True),
        (("arm64",), False, False),
        (("gpu.yaml",), False, False),
        # The key of a configuration is not a label, though it is the class's name.
        (("gpu-name",), False, False),
    ],
)
def test_a_strict_matcher_wants_all_labels_of_one_list_and_another_any_label(tmp_path, labels, strict, loose):
    assert one(tmp_path).serves(RunsOn(labels)) is strict
    assert one(tmp_path, exact="false").serves(RunsOn(labels)) is loose


def test_dynamic_labels_do_not_count_and_strict_matchers_come_first(tmp_path):
    dynamic = CONFIG.replace("  priority", "  enableDynamicLabels: true\n  priority") % ("true", "vpc_id: x")
    (found,) = seen(tmp_path, gpu=dynamic).classes
    assert found.serves(RunsOn(("gpu", "ghr-x-y")))
    assert found.priority < one(tmp_path, exact="false").priority


ENTRY = {
    "runner_config": {"instance_types": ["g5.xlarge"], "runners_maximum_count": 1, "userdata_template": "x"},
    "matcherConfig": {"labelMatchers": [["gpu"]], "exactMatch": True},
}


@pytest.mark.parametrize(
    ("document", "key"),
    [
        ({"multi_runner_config": {"gpu": ENTRY}}, "multi_runner_config.gpu.runner_config.userdata_template"),
        (
            {
                "format_version": "1.2",
                "terraform_version": "1.13.0",
                "variables": {"multi_runner_config": {"value": {"gpu": ENTRY}}, "other": {"value": 1}},
            },
            "variables.multi_runner_config.value.gpu.runner_config.userdata_template",
        ),
        (
            {
                "format_version": "1.2",
                "terraform_version": "1.13.0",
                "configuration": {
                    "root_module": {
                        "module_calls": {"r": {"expressions": {"multi_runner_config": {"constant_value": {"gpu": ENTRY}}}}}
                    }
                },
            },
            "",
        ),
    ],
)
def test_maps_of_configurations_are_read_from_json(tmp_path, document, key):
    found = seen(tmp_path, terraform_json=json.dumps(document))
    assert [(each.name, each.machines) for each in found.classes] == [("gpu", ("g5.xlarge",))]
    assert unread(found) == ([key] if key else [])


def test_hcl_is_not_read_and_the_line_says_what_to_give(tmp_path):
    (tmp_path / "main.tf").write_text('module "r" {\n  multi_runner_config = {\n  }\n}\n')
    with pytest.raises(InputError, match=r"main\.tf:2: multi_runner_config in HCL is not read; give it as YAML or JSON"):
        audit(tmp_path)
    (line,) = seen(tmp_path, gpu=CONFIG % ("true", "vpc_id: x")).not_read
    assert "terraform show -json" in line
    (tmp_path / "main.tf").write_text('variable "multi_runner_config" {}\n')
    assert audit(tmp_path).not_read == []


RUNS_ON = """\
runners:
  gpu:
    family: [g4dn, "g5.*"]
    cpu: [4, 8]
    ram: 16
    spot: false
    volume: 80gb:gp3
    image: mine
    extras: [s3-cache]
    preinstall: echo
  odd: {family: [c7]}
images:
  mine: {platform: linux, arch: x64, ami: ami-1}
pools:
  warm: {env: production, runner: gpu, timezone: UTC, schedule: [{name: default, hot: 2, stopped: 1}]}
admins: [someone]
"""


@pytest.fixture
def repo(tmp_path):
    (tmp_path / ".github" / "workflows").mkdir(parents=True)

    def of(runs_on: str = "", text: str = RUNS_ON):
        if text:
            (tmp_path / ".github" / "runs-on.yml").write_text(text)
        if runs_on:
            (tmp_path / ".github" / "workflows" / "job.yml").write_text(workflow(runs_on))
        return audit(tmp_path)

    return of


def test_runners_of_runs_on_are_classes(repo):
    found = repo()
    gpu, odd, warm = found.classes
    assert (gpu.name, gpu.machines, gpu.capacities, gpu.disk) == ("gpu", ("g4dn.xlarge", "g5.xlarge"), ("on-demand",), 80)
    assert (odd.machines, odd.capacities) == (("c7",), ("spot", "on-demand"))
    assert (warm.name, warm.machines, warm.minimum) == ("pool=warm", gpu.machines, 2)
    assert [keys.text("ami") for keys in found.of_kind("RunsOn image")] == ["ami-1"]
    assert unread(found) == ["runners.gpu.preinstall"]


@pytest.mark.parametrize(
    ("family", "cpu", "types"),
    [
        ("[g4dn.metal]", "", ("g4dn.metal",)),
        ("[g4dn.xlarge+g5.xlarge]", "", ("g4dn.xlarge", "g5.xlarge")),
        ("g4dn.12xlarge", "", ("g4dn.12xlarge",)),
        ("[p4]", "", ("p4d.24xlarge", "p4de.24xlarge")),
        ("[g4dn, c7]", "cpu: 4", ("g4dn.xlarge", "c7")),
        ("[g99.large]", "", ("g99.large",)),
    ],
)
def test_a_family_is_a_prefix(repo, family, cpu, types):
    (found,) = repo(text=f"runners:\n  a:\n    family: {family}\n    {cpu}\n").classes
    assert set(found.machines) == set(types)


RUN = "runs-on=${{ github.run_id }}"


@pytest.mark.parametrize(
    ("runs_on", "name", "machines"),
    [
        (f"{RUN}/runner=gpu", "gpu", ("g4dn.xlarge", "g5.xlarge")),
        (f"'{RUN},runner=gpu'", "gpu", ("g4dn.xlarge", "g5.xlarge")),
        (f"['{RUN}', runner=gpu]", "gpu", ("g4dn.xlarge", "g5.xlarge")),
        ("[runs-on, runner=gpu]", "gpu", ("g4dn.xlarge", "g5.xlarge")),
        (f"{RUN}/pool=warm", "pool=warm", ("g4dn.xlarge", "g5.xlarge")),
        (f"{RUN}/family=g6e.xlarge/spot=false", "family=g6e.xlarge/spot=false", ("g6e.xlarge",)),
        (f"{RUN}/runner=gpu/family=g6.xlarge", "runner=gpu/family=g6.xlarge", ("g6.xlarge",)),
        (f"{RUN}/runner=gpu/spot=true", "runner=gpu/spot=true", ("g4dn.xlarge", "g5.xlarge")),
        (f"{RUN}/runner=2cpu-linux-x64", "runner=2cpu-linux-x64", ("runner=2cpu-linux-x64",)),
        ("runs-on/fleet=small/env=production", "fleet=small/env=production", ("fleet=small/env=production",)),
    ],
)
def test_a_label_of_a_job_names_one_class_or_makes_it(repo, runs_on, name, machines):
    found = repo(runs_on)
    (job,) = found.jobs
    assert job.unresolved == ""
    (serving,) = [each for each in found.classes if each.serves(job.runs_on)]
    assert (serving.name, serving.machines) == (name, machines)


def test_the_place_of_a_class_that_a_label_makes_is_the_job(repo):
    found = repo(f"{RUN}/family=g6e.xlarge", text="")
    assert [each.at.place.rpartition("/")[2] for each in found.classes] == ["job.yml:3"]


@pytest.mark.parametrize(("extends", "served"), [("", 0), ("_extends: .github-private\n", 1)])
def test_an_unknown_runner_is_elsewhere_only_if_the_file_extends_another(repo, extends, served):
    found = repo(f"{RUN}/runner=other", extends + RUNS_ON)
    (job,) = found.jobs
    assert len([each for each in found.classes if each.serves(job.runs_on)]) == served
    assert ("_extends" in unread(found)) is bool(extends)


LAUNCHER = """\
apiVersion: actions.github.com/v1alpha1
kind: AutoscalingRunnerSet
metadata: {name: a10, labels: {app.kubernetes.io/version: 0.14.1}}
spec:
  githubConfigUrl: https://github.com/acme
  maxRunners: 20
  template:
    spec:
      containers:
      - name: runner
        image: acme/launcher:1
        args: ["--shape=%s", --region=us-sanjose-1, --fallback-region=us-ashburn-1, --preemptible=%s, --boot-volume-size-gb=400]
"""


@pytest.mark.parametrize(
    ("shape", "preemptible", "machines", "capacities"),
    [
        ("VM.GPU.A10.1", "false", ("VM.GPU.A10.1",), ("on-demand",)),
        ("VM.GPU.A10.1", "true", ("VM.GPU.A10.1",), ("spot",)),
        ("VM.Standard.E5.Flex,VM.Standard.E4.Flex", "false", ("VM.Standard.E5.Flex", "VM.Standard.E4.Flex"), ("on-demand",)),
    ],
)
def test_the_machine_of_a_launcher_is_an_argument(tmp_path, shape, preemptible, machines, capacities):
    text = LAUNCHER.replace("--shape=%s", f"{shape[0] if shape[0] == chr(39) else ''}--shape=%s") % (
        shape.lstrip("'"),
        preemptible,
    )
    (found,) = seen(tmp_path, launcher=text).classes
    assert (found.name, found.by, found.version, found.disk) == ("a10", "launcher", "0.14.1", 400)
    assert (found.machines, found.capacities, found.regions) == (machines, capacities, ("us-sanjose-1", "us-ashburn-1"))
