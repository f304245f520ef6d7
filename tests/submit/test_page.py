"""docs/submit.md is true: the rights, the exit statuses, the options, the Python example."""

from __future__ import annotations

import ast
import re
import subprocess
import sys

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

import gpu_ci.submit
from fleet.facts.streams import READER_GONE
from gpu_ci.submit import Outcome, RunOptions, delete, run
from gpu_ci.submit.cli import app
from gpu_ci.submit.explain import explain_live
from gpu_ci.submit.runs import STATUS, Timing
from tests.builders import ROOT
from tests.docs.kubectl import commands
from tests.docs.markdown import fences
from tests.submit.conftest import OPTIONS
from tests.submit.life import complete, ready, show, until
from tests.submit.objects import ended, job, running, unscheduled, workload
from tests.submit.server import Reply

PAGE = ROOT / "docs" / "submit.md"
TEXT = PAGE.read_text()
BLOCKS = {fence.language: fence.text for fence in fences() if fence.page == PAGE}


def granted():
    """(group, resource, verb) of every right of the page's Role."""
    role = YAML(typ="safe", pure=True).load(BLOCKS["yaml"])
    assert role["kind"] == "Role"
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_role_has_the_rights_that_are_used_and_no_other(server, cluster, told, meanwhile):
    """A run that needs every right: the Job is sent twice, queued, waits for a node, is explained, and it is deleted."""

    def life():
        made = ready(server)
        server.wait("list", "workloads")
        server.put("workloads", workload(made["metadata"]["uid"]))
        server.put("jobs", made | {"spec": made["spec"] | {"suspend": False}})
        show(server, made, "train-a", unscheduled("0/3 nodes"), node="")
        server.wait("list", "events")
        server.write("train-a", "one")
        show(server, made, "train-a", running())
        until(lambda: told.logs == ["one"])
        server.drop()
        server.wait("get", "pods/log", 2)
        server.write("train-a", "two")
        show(server, made, "train-a", ended(0))
        complete(server)

    server.reply("create", "jobs", Reply(cut=True, late=True))
    queued = job(suspend=True) | {"metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}}}
    meanwhile(life)
    assert run(queued, cluster, OPTIONS, told).ok
    explain_live("train-a", cluster)
    delete("train", cluster)
    assert {(request.group, request.resource, request.verb) for request in server.requests} == granted()


def test_the_statuses_are_those_of_the_program():
    told = {int(number) for number in re.findall(r"^\| (\d+) \|", TEXT, re.MULTILINE)}
    assert told == {*STATUS.values(), 70, READER_GONE}
    assert STATUS[Outcome.COMPLETE] == 0


def test_every_option_is_one_of_the_commands():
    shown = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["run", "--help"]).output
    options = set(re.findall(r"--[a-z][a-z-]+", TEXT))
    assert {"--existing", "--cancel-on-interrupt", "--secret-env"} <= options
    assert [option for option in sorted(options) if option not in shown] == []


def test_the_commands_are_taken(tmp_path):
    """Without a kubeconfig the commands end with that error and no other."""
    told = list(commands(BLOCKS["bash"], "gpu-ci"))
    assert [words[1] for words in told] == ["print", "print", "print", "run", "run", "follow", "explain", "delete"]
    (tmp_path / "job.yaml").write_text(CliRunner().invoke(app, list(told[0][1:])).stdout)
    for call in told:
        # train.log is the target of a redirection.
        words = [str(tmp_path / word) if word == "job.yaml" else word for word in call[1:] if word != "train.log"]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == (0 if words[0] == "print" else 2), done.output
        assert words[0] == "print" or done.stderr.startswith("error: there is no kubeconfig")


def test_the_python_runs_up_to_the_cluster(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BLOCKS["python"]],
        cwd=ROOT,
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1].startswith("gpu_ci.submit.errors.InputError: there is no kubeconfig")
    names = [
        alias.name for node in ast.walk(ast.parse(BLOCKS["python"])) if isinstance(node, ast.ImportFrom) for alias in node.names
    ]
    assert set(names) - {"create_gpu_job"} <= set(gpu_ci.submit.__all__)


def test_the_times_are_those_of_the_program():
    assert (Timing().patience, Timing().longest_pause, Timing().remind) == (600, 30, 300)
    assert "for ten minutes" in TEXT
    assert "at most 30 seconds apart" in TEXT
    assert "After five minutes without news" in TEXT
    assert RunOptions().stuck_after == 180
    assert "`--stuck-after 3m`" in TEXT


@pytest.mark.parametrize(
    "name", ["send", "follow", "delete", "Output", "SubmitError", "InputError", "ApiError", "UnreachableError"]
)
def test_every_name_of_the_page_is_there(name):
    assert f"{name}`" in TEXT
    assert hasattr(gpu_ci.submit, name)
