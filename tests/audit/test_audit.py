"""`gpu-ci audit` reads runner sets as people spell them, and says what harms a job."""

import json
import os
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from gpu_ci.app import app
from gpu_ci.audit.reading import audit
from gpu_ci.audit.rules import findings
from gpu_ci.offline.commands import audit as _command  # noqa: F401 - registers it
from tests.builders import ROOT

DAY = date(2026, 11, 26)
FRESH = "ghcr.io/actions/actions-runner:2.338.1"
SET = """\
githubConfigUrl: https://github.com/acme
runnerScaleSetName: gpu-t4
scaleSetLabels: [gpu]
template:
  spec:
    containers: [{name: runner, image: "%s"}]
"""
ARGO = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: gpu-t4}
spec:
  source:
    chart: gha-runner-scale-set
    targetRevision: %s
    helm:
      values: |
        githubConfigUrl: https://github.com/acme
        containerMode: {type: dind}
        template: {spec: {containers: [{name: runner, image: "ghcr.io/actions/actions-runner:2.338.1"}]}}
"""
FLUX = """\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: gpu-t4}
spec:
  chart: {spec: {chart: gha-runner-scale-set, version: %s}}
  values: {githubConfigUrl: https://github.com/acme, containerMode: {type: kubernetes}}
"""
KUSTOMIZE = """\
helmCharts:
- name: gha-runner-scale-set
  version: %s
  releaseName: gpu-t4
  valuesInline: {containerMode: {type: kubernetes-novolume}}
"""
CONTROLLER = """\
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: arc}
spec:
  sources:
  - {repoURL: ghcr.io/actions/actions-runner-controller-charts, chart: gha-runner-scale-set-controller, targetRevision: %s}
"""
MANIFEST = """\
apiVersion: actions.github.com/v1alpha1
kind: AutoscalingRunnerSet
metadata: {name: gpu-t4, labels: {app.kubernetes.io/version: %s}}
spec:
  template:
    spec:
      containers:
      - name: runner
        image: ghcr.io/actions/actions-runner:2.338.1
        env: [{name: ACTIONS_RUNNER_CONTAINER_HOOKS, value: /home/runner/k8s/index.js}]
"""


def workflow(runs_on: str, *more: str) -> str:
    return "\n".join(["on: push", "jobs:", "  train:", f"    runs-on: {runs_on}", *(f"    {line}" for line in more), ""])


def lines(folder: Path, day: date = DAY, **files: str) -> list[tuple[str, str, str]]:
    """Place, level and rule of every finding in a folder of these files; `job` is a workflow."""
    for name, text in files.items():
        path = folder / (".github/workflows/job.yml" if name == "job" else f"{name}.yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return [(str(Path(line.place).relative_to(folder)), line.level, line.rule) for line in findings(audit(folder), day)]


@pytest.mark.parametrize("text", [ARGO, FLUX, KUSTOMIZE, MANIFEST])
def test_a_set_is_read_in_every_form_with_version_name_and_containers(tmp_path, text):
    found = lines(tmp_path, set=text % "0.15.1", job=workflow("gpu-t4", "container: nvidia/cuda:12.8"))
    assert [line for line in found if line[1] == "error"] == []
    (runner_set,) = audit(tmp_path).classes
    assert (runner_set.name, runner_set.version, runner_set.runs_containers) == ("gpu-t4", "0.15.1", True)


@pytest.mark.parametrize(
    ("image", "day", "level"),
    [
        ("ghcr.io/actions/actions-runner:2.331.0", date(2026, 3, 1), "warning"),
        ("ghcr.io/actions/actions-runner:2.331.0", date(2026, 3, 27), "warning"),
        ("ghcr.io/actions/actions-runner:2.331.0", date(2026, 3, 28), "error"),
        (f"{FRESH}@sha256:{'0' * 64}", date(2026, 10, 24), ""),
        ("ghcr.io/actions/actions-runner:latest", DAY, "undeterminable"),
        ("ghcr.io/actions/actions-runner:2.999.0", DAY, "undeterminable"),
        ("acme/runner:7", DAY, "undeterminable"),
    ],
)
def test_a_runner_is_an_error_from_the_day_after_its_last(tmp_path, image, day, level):
    found = [line for line in lines(tmp_path, day, values=SET % image) if line[2] == "runner-age"]
    assert found == ([("values.yaml:1", level, "runner-age")] if level else [])


@pytest.mark.parametrize(("version", "levels"), [("0.12.1", ["warning"]), ("0.15.1", []), ("", ["undeterminable"])])
def test_the_controller_is_compared_with_the_newest_release_of_the_day(tmp_path, version, levels):
    found = lines(tmp_path, controller=CONTROLLER % version)
    assert found == [("controller.yaml:6", level, "arc-age") for level in levels]


def test_a_release_of_tomorrow_is_not_missed_today(tmp_path):
    assert lines(tmp_path, date(2026, 10, 22), controller=CONTROLLER % "0.15.0") == []
    assert lines(tmp_path, date(2026, 10, 23), controller=CONTROLLER % "0.15.0") != []


@pytest.mark.parametrize(
    ("runs_on", "levels"),
    [
        ("gpu-t4", []),
        ("GPU-T4", []),
        ("[gpu-t4, gpu]", []),
        ("[gpu-t4, a100]", ["error"]),
        ("gpu-t5", ["error"]),
        ("ubuntu-latest", []),
        ("ubuntu-24.04-arm", []),
        ("macos-26-xlarge", []),
        ("windows-server", ["error"]),
        ("{group: Default, labels: gpu}", []),
        ("{group: default, labels: gpu}", []),
        ("{group: GPUs, labels: gpu}", ["error"]),
        ("${{ inputs.where }}", ["undeterminable"]),
    ],
)
def test_a_job_needs_a_set_that_has_all_its_labels(tmp_path, runs_on, levels):
    found = lines(tmp_path, values=SET % FRESH, job=workflow(runs_on))
    assert [line for line in found if line[2] == "runs-on"] == [
        (".github/workflows/job.yml:4", level, "runs-on") for level in levels
    ]


def test_each_label_of_a_matrix_is_a_job(tmp_path):
    text = workflow("${{ matrix.gpu }}", "strategy: {matrix: {gpu: [gpu-t4, gpu-a100, gpu-h100]}}")
    lines(tmp_path, values=SET % FRESH, job=text)
    messages = [line.message for line in findings(audit(tmp_path), DAY) if line.rule == "runs-on"]
    assert [message.split(",")[0] for message in messages] == [
        f"job train: no set serves {label}" for label in ("gpu-a100", "gpu-h100")
    ]


def test_a_matrix_of_more_jobs_than_github_starts_is_not_multiplied_out(tmp_path):
    keys = [f"k{number}" for number in range(9)]
    matrix = ", ".join(f"{key}: [{', '.join(map(str, range(50)))}]" for key in keys)
    asked = "[" + ", ".join(f'"${{{{ matrix.{key} }}}}"' for key in keys) + "]"
    found = lines(tmp_path, values=SET % FRESH, job=workflow(asked, f"strategy: {{matrix: {{{matrix}}}}}"))
    assert [line for line in found if line[2] == "runs-on"] == [(".github/workflows/job.yml:4", "undeterminable", "runs-on")]


def test_a_label_with_a_line_break_stays_on_the_line_of_its_finding(tmp_path):
    lines(tmp_path, values=SET % FRESH, job=workflow('"gpu-x\\n::error::forged"'))
    shown = CliRunner().invoke(app, ["audit", str(tmp_path), "--as-of", "2026-10-24"]).stdout.splitlines()
    assert not [line for line in shown if line.startswith("::error")]
    assert [line for line in shown if "gpu-x ::error::forged" in line]


def test_without_the_name_of_every_set_no_job_is_called_unserved(tmp_path):
    found = lines(tmp_path, values=SET.replace("runnerScaleSetName: gpu-t4\n", "") % FRESH, job=workflow("gpu-x"))
    assert (".github/workflows/job.yml:4", "undeterminable", "runs-on") in found


@pytest.mark.parametrize("key", ["container: nvidia/cuda:12.8", "services: {redis: {image: redis}}"])
def test_a_job_with_containers_needs_a_set_that_starts_them(tmp_path, key):
    found = lines(tmp_path, values=SET % FRESH, job=workflow("gpu-t4", key))
    assert [line for line in found if line[1] == "error"] == [(".github/workflows/job.yml:4", "error", "containers")]


@pytest.mark.parametrize(("image", "levels"), [("''", []), ("'${{ inputs.image }}'", ["undeterminable"]), ("a", ["error"])])
def test_only_an_image_needs_a_set_that_starts_containers(tmp_path, image, levels):
    found = lines(tmp_path, values=SET % FRESH, job=workflow("gpu-t4", f"services: {{db: {{image: {image}}}}}"))
    assert [line[1] for line in found if line[2] == "containers"] == levels


@pytest.mark.parametrize(
    ("more", "errors"),
    [
        ("containerMode: {type: kubernetes-novolume}", 1),
        ("containerMode: {type: dind}", 0),
        ("containerMode: {type: kubernetes}\ntemplate: {spec: {containers: [{name: runner, env: [%s 'false'}]}]}}", 0),
        ("template: {spec: {containers: [{name: runner, env: [%s 'true'}, {name: ACTIONS_RUNNER_CONTAINER_HOOKS}]}]}}", 1),
    ],
)
def test_a_set_that_only_takes_jobs_with_a_container_says_so(tmp_path, more, errors):
    required = "{name: ACTIONS_RUNNER_REQUIRE_JOB_CONTAINER, value:"
    values = f"githubConfigUrl: https://github.com/acme\nrunnerScaleSetName: gpu-t4\n{more.replace('%s', required)}\n"
    for key, wrong in (("timeout-minutes: 5", errors), ("container: a", 0)):
        found = lines(tmp_path, values=values, job=workflow("gpu-t4", key))
        assert [line for line in found if line[1] == "error"] == [(".github/workflows/job.yml:4", "error", "containers")] * wrong


def test_an_empty_document_at_the_end_of_a_workflow_is_nothing(tmp_path):
    lines(tmp_path, values=SET % FRESH, job=workflow("gpu-t4") + "---\n")
    seen = audit(tmp_path)
    assert (len(seen.jobs), seen.not_read) == (1, [])


def test_a_template_of_helm_is_listed_and_does_not_stop_the_audit(tmp_path):
    (tmp_path / "chart.yaml").write_text("a: {{ .Values.a }}\n")
    lines(tmp_path, values=SET % FRESH)
    assert [line.split(":")[0] for line in audit(tmp_path).not_read] == [str(tmp_path / "chart.yaml")]


def test_a_name_that_no_line_can_hold_does_not_stop_the_audit(tmp_path):
    (tmp_path / "values.yaml").write_text(SET % FRESH)
    (tmp_path / os.fsdecode(b"x\xe9.yaml")).write_text("{")
    result = CliRunner().invoke(app, ["audit", str(tmp_path), "--as-of", str(DAY)])
    assert result.exit_code == 0, result.output
    assert [line for line in result.stdout.splitlines() if "not read" in line][-1].endswith("1 files and 0 keys not read")


def test_a_link_in_the_folder_is_not_followed(tmp_path):
    (tmp_path / "elsewhere.yaml").write_text(SET.replace("gpu-t4", "gpu-a100") % FRESH)
    (tmp_path / "fleet").mkdir()
    (tmp_path / "fleet" / "link.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    lines(tmp_path / "fleet", values=SET % FRESH)
    assert [runner_set.name for runner_set in audit(tmp_path / "fleet").classes] == ["gpu-t4"]


@pytest.mark.parametrize("name", ["missing", ""])
def test_a_folder_without_anything_of_arc_is_wrong_input(tmp_path, name):
    with pytest.raises(InputError, match=r"PATH: .*; name a folder"):
        audit(tmp_path / name if name else tmp_path)


def test_the_command_prints_lines_and_json_with_status_1_for_an_error(tmp_path):
    lines(tmp_path, values=SET % FRESH, job=workflow("gpu-t5"))
    shown = CliRunner().invoke(app, ["audit", str(tmp_path), "--as-of", "2026-10-24"])
    assert shown.exit_code == 1
    counts = "1 runner classes, 0 node pools, 0 controllers, 1 jobs"
    last = f"FAILED: 1 error · {counts} · 1 undeterminable · 0 files and 0 keys not read"
    assert shown.stdout.splitlines()[-1] == last
    as_json = json.loads(CliRunner().invoke(app, ["audit", str(tmp_path), "--json"]).stdout)
    assert [entry["name"] for entry in as_json["classes"]] == ["gpu-t4"]
    assert "runs-on" in {entry["rule"] for entry in as_json["findings"]}


def test_an_audit_imports_nothing_of_pulumi(tmp_path):
    lines(tmp_path, values=SET % FRESH)
    program = (
        "import sys\n"
        "from importlib.abc import MetaPathFinder\n"
        "class Refuse(MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        assert not name.startswith('pulumi'), name\n"
        "sys.meta_path.insert(0, Refuse())\n"
        "from gpu_ci.offline.commands.audit import audit_command\n"
        "from gpu_ci.app import app\n"
        f"app(['audit', {str(tmp_path)!r}, '--as-of', '2026-10-24'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
