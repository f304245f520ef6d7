"""Classes that keep the pod of a failed job: the hook, the pod, the right of the group, and what the plan says."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.charts.kept_jobs import hook
from fleet.facts.errors import FleetError
from fleet.loading.config import load
from fleet.prove.bill import bill
from fleet.prove.remarks import kept_jobs as remarks
from fleet.providers.fleet import Fleet
from fleet.providers.installed import pod_set_of
from fleet.render.kept_jobs import kept_jobs
from tests.builders import cluster, config, pool, runner
from tests.cases import cases
from tests.day import AS_OF as DAY
from tests.policies.rendered import published, render
from tests.strategies import KEPT

HOME = "runners-gpu-t4"
_LINE = "[2026-11-27 10:11:12Z INFO StepsRunner] Current state: job state = '{}'\n"


def fleet(keep: Any = KEPT, **changes: Any) -> Fleet:
    of_class = runner(**({"keepFailed": keep} if keep else {}) | changes)
    pools = {"t4": pool(), "large": pool(instanceTypes=["g4dn.12xlarge"])}
    return load(config(clusters={"usw2": cluster(pools=pools, runners={"gpu-t4": of_class})}))


def pods(made: Fleet) -> Any:
    settings = made.clusters["usw2"]
    return pod_set_of(settings, "gpu-t4", settings.pod_runners["gpu-t4"], made.github)


# -- the hook ----------------------------------------------------------------------------------------------------------

bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


class Home:
    """A runner's pod as a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.end = folder, folder / "tmp" / "gpu-ci-done"
        self.end.parent.mkdir()
        (folder / "_diag").mkdir()

    def log(self, *states: str, name: str = "Worker_20261127-101112-utc.log") -> None:
        """The runner's log of a job after these steps."""
        text = "".join(_LINE.format(state) for state in states)
        (self.folder / "_diag" / name).write_text(f"[2026-11-27 10:11:12Z INFO Worker] Job message:\n{text}", encoding="utf-8")

    @contextmanager
    def started(self, seconds: int = 600) -> Iterator[subprocess.Popen[str]]:
        """The hook as the runner starts it. The block's end kills it, if it has not ended."""
        path, places = self.folder / "hook.sh", {"/home/runner": self.folder, "/opt": self.folder, "/tmp/": f"{self.end.parent}/"}  # noqa: S108
        path.write_text(re.sub("/home/runner|/opt|/tmp/", lambda match: str(places[match[0]]), hook()), encoding="utf-8")
        environment = {
            "PATH": os.environ["PATH"],
            "GPU_CI_KEEP_SECONDS": str(seconds),
            "GPU_CI_KEEP_GROUP": "gpu-ci-debug",
            "GPU_CI_POD": "gpu-t4-x7k2p-runner-abcde",
            "GPU_CI_NAMESPACE": HOME,
        }
        command = ["bash", "-e", str(path)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def ended(self, seconds: int = 600) -> str:
        """What the hook prints, if it ends by itself with 0."""
        with self.started(seconds) as process:
            text, _ = process.communicate(timeout=20)
        assert process.returncode == 0, text
        return text


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def until_kept(process: subprocess.Popen[str]) -> list[str]:
    """The lines that the hook prints before it waits."""
    assert process.stdout is not None
    return [process.stdout.readline().rstrip("\n") for _ in range(3)]


@bash
@cases(
    "states",
    [(), ("", ""), ("Succeeded",), ("Canceled",), ("Failed", "Canceled"), ("x = 'Failed",)],
)
def test_a_job_that_did_not_fail_is_not_kept(home: Home, states: tuple[str, ...]) -> None:
    home.log(*states)
    assert home.ended() == ""


@bash
def test_without_a_log_of_the_known_form_nothing_is_kept(home: Home) -> None:
    assert home.ended() == ""
    (home.folder / "_diag" / "Worker_20261127-101112-utc.log").write_text("Current state: job state = 'Failed'\n")
    assert home.ended() == ""


@bash
def test_a_failed_job_is_kept_until_somebody_ends_it(home: Home) -> None:
    home.log("", "Failed", "Failed")
    with home.started() as process:
        first, look, end = until_kept(process)
        assert process.poll() is None
        home.end.touch()
        assert process.wait(20) == 0
    assert first.startswith("The job failed. Its pod stays until ")
    assert first.endswith(" UTC, for members of the Kubernetes group gpu-ci-debug.")
    inside = "kubectl exec --namespace runners-gpu-t4 gpu-t4-x7k2p-runner-abcde --container runner"
    assert look.split(maxsplit=2)[2] == f"{inside} --stdin --tty -- bash"
    assert end.split(maxsplit=3)[3] == f"{inside} -- touch {home.end}"


@bash
def test_the_time_ends_it_with_status_0(home: Home) -> None:
    home.log("Failed")
    assert home.ended(seconds=1).startswith("The job failed.")


@bash
def test_the_end_of_the_pod_ends_it_with_status_0(home: Home) -> None:
    home.log("Failed")
    with home.started() as process:
        until_kept(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@bash
def test_the_last_file_of_a_long_log_counts(home: Home) -> None:
    home.log("", name="Worker_20261127-101112-utc.log")
    home.log("Failed", name="Worker_20261127-111213-utc.log")
    assert home.ended(seconds=1).startswith("The job failed.")


@bash
def test_a_job_can_ask_not_to_be_kept(home: Home) -> None:
    home.log("Failed")
    home.end.touch()
    assert home.ended() == ""


@bash
@cases("status", [0, 3])
def test_the_hook_of_the_image_runs_first_and_its_status_fails_nothing(home: Home, status: int) -> None:
    own = home.folder / "gpu-ci" / "hooks" / "job-completed.sh"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(f"echo of the image\nexit {status}\n")
    home.log("")
    assert home.ended() == "of the image\n"
    home.log("Failed")
    assert home.ended(seconds=1).startswith("of the image\nThe job failed.")


# -- the pod and the rights --------------------------------------------------------------------------------------------


def test_the_pod_has_the_hook_and_what_it_reads() -> None:
    spec = pods(fleet()).chart.values["template"]["spec"]
    (container,) = spec["containers"]
    fields = {"GPU_CI_POD": "metadata.name", "GPU_CI_NAMESPACE": "metadata.namespace"}
    assert container["env"][-5:] == [
        {"name": "ACTIONS_RUNNER_HOOK_JOB_COMPLETED", "value": "/etc/gpu-ci/keep-failed/job-completed.sh"},
        {"name": "GPU_CI_KEEP_SECONDS", "value": "900"},
        {"name": "GPU_CI_KEEP_GROUP", "value": "gpu-ci-debug"},
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]
    assert container["volumeMounts"][-1] == {"name": "keep-failed", "mountPath": "/etc/gpu-ci/keep-failed", "readOnly": True}
    assert spec["volumes"][-1] == {"name": "keep-failed", "configMap": {"name": "keep-failed"}}


def test_the_group_may_look_into_the_pods_of_the_class_and_nothing_else() -> None:
    config_map, role, binding = kept_jobs(pods(fleet()))
    assert {entry["metadata"]["namespace"] for entry in (config_map, role, binding)} == {HOME}
    assert config_map["data"] == {"job-completed.sh": hook()}
    assert {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]} == {
        "pods": ["get", "list"],
        "pods/log": ["get"],
        "pods/exec": ["get", "create"],
    }
    assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]}
    assert binding["subjects"] == [{"kind": "Group", "name": "gpu-ci-debug", "apiGroup": "rbac.authorization.k8s.io"}]


def test_a_class_that_keeps_nothing_has_none_of_it() -> None:
    made = pods(fleet(None))
    assert list(kept_jobs(made)) == []
    assert "keep" not in str(made.chart.values).lower()


@pytest.mark.reference
def test_the_published_chart_leaves_the_hook_in_the_pod(tmp_path: Path) -> None:
    chart = pods(fleet()).chart
    manifests = render(published(chart.chart), chart.values, tmp_path, name=chart.name, namespace=HOME)
    (scale_set,) = (entry for entry in manifests if entry["kind"] == "AutoscalingRunnerSet")
    ours, spec = chart.values["template"]["spec"], scale_set["spec"]["template"]["spec"]
    names = {"ACTIONS_RUNNER_HOOK_JOB_COMPLETED", "GPU_CI_KEEP_SECONDS", "GPU_CI_KEEP_GROUP", "GPU_CI_POD", "GPU_CI_NAMESPACE"}
    (container,) = spec["containers"]
    assert container["name"] == "runner", "the hook prints this name"
    assert {entry["name"] for entry in container["env"]} >= names
    assert [entry for entry in container["env"] if entry["name"] in names] == ours["containers"][0]["env"][-5:]
    assert ours["containers"][0]["volumeMounts"][-1] in container["volumeMounts"]
    assert ours["volumes"][-1] in spec["volumes"]


# -- settings and plan -------------------------------------------------------------------------------------------------


@given(st.integers(1, 7200), st.integers(600, 40_000))
def test_a_job_is_kept_within_an_hour_and_before_the_reaper_comes(time: int, lifetime: int) -> None:
    keep = {"time": f"{time}s", "group": "gpu-ci-debug"}
    if 60 <= time <= 3600 and lifetime >= 21_600 + time:
        made = fleet(keep, maxLifetime=f"{lifetime}s").clusters["usw2"].pod_runners["gpu-t4"].keep_failed
        assert made is not None
        assert made.time == time
    else:
        with pytest.raises(FleetError, match=r"keepFailed\.time"):
            fleet(keep, maxLifetime=f"{lifetime}s")


@given(st.text(max_size=20))
def test_no_group_of_kubernetes_own_looks_inside(tail: str) -> None:
    with pytest.raises(FleetError, match=r"keepFailed\.group"):
        fleet({"time": "15m", "group": f"system:{tail}"})


@cases("group", ["gpu-ci-debug", "oidc:team/ml", "ocid1.group.oc1..aaaaexample", "ml@example.com"])
def test_the_groups_of_clouds_and_of_identity_providers_are_names(group: str) -> None:
    assert load(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(keepFailed={"time": "1m", "group": group})})}))


def test_the_plan_prices_a_kept_job_by_the_most_expensive_node_and_the_bill_stays() -> None:
    made = fleet(pool=None, pools=["t4", "large"])
    (line,) = remarks(made)
    # g4dn.12xlarge in us-west-2: 3.912 USD an hour.
    assert "keeps its pod for 15 minutes, 0.978 USD on the most expensive node, which the worst hour includes" in line
    assert line.kind == "cost"
    assert bill(made, DAY) == bill(fleet(None, pool=None, pools=["t4", "large"]), DAY)
    assert list(remarks(fleet(None))) == []


@cases(("group", "open_to_all"), [("gpu", False), ("Default", True)])
def test_the_plan_warns_of_the_group_that_every_repository_may_use(group: str, open_to_all: bool) -> None:
    (line,) = remarks(fleet(group=group))
    assert line.act == open_to_all
    assert ("even a public one" in line) == open_to_all
