"""Manifests from anywhere under the policies: where each verdict is, what is wrong input, and what is another's file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pulumi.runtime import rpc
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import yaml_text
from fleet.loading.home import ROOT
from gpu_ci.cli import app
from gpu_ci.offline.manifests import check as command
from gpu_ci.offline.manifests.check import Check, make_check
from gpu_ci.offline.manifests.tree import read_tree
from gpu_ci.offline.render import render
from policies.rules import RULES, StackRule
from policies.rules.record import SIGNATURE
from tests.examples import examples
from tests.offline.git_tree import of
from tests.offline.rendered import plan_of

UNKNOWN = rpc.UNKNOWN
SEEDS = Path(__file__).parent / "manifests"
CLEAN = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  namespace: apps
spec:
  template:
    spec:
      containers:
        - name: web
          image: registry.k8s.io/pause:3.10
"""
HOST = CLEAN.replace("      containers:", "      hostNetwork: true\n      containers:")
ON_HOST = "spec.template.spec.hostNetwork is true: the pod then uses the node's network, metadata included; remove it"

OF_STACKS = ("read_fleet", "require_current", "policy_values", "policy_settings")
"""What a check reads of the project's own stacks, which no test changes: it takes longer than the manifests of a test do."""
READ_ONCE = {name: cache(getattr(command, name)) for name in OF_STACKS}


@pytest.fixture(autouse=True)
def _of_stacks(monkeypatch):
    for name, read in READ_ONCE.items():
        monkeypatch.setattr(command, name, read)


def run(folder: str, *options: str, stack: str = "staging"):
    return CliRunner().invoke(app, ["check", *options, "--", stack, folder])


def written(folder: Path, files: Mapping[str, str]) -> str:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return str(folder)


def said(check: Check) -> set[tuple[str, str]]:
    """Place from the folder on, and policy, of each finding."""
    return {(found.place.removeprefix(f"{check.target}/"), found.verdict.rule) for found in check.findings}


def checked(folder: Path, files: Mapping[str, str], stack: str = "staging") -> Check:
    return make_check(written(folder, files), stack, ROOT)


def wrong(folder: Path, files: Mapping[str, str]) -> str:
    """The one line of wrong input, from the folder on."""
    with pytest.raises(InputError) as raised:
        read_tree("staging", written(folder, files))
    (line,) = str(raised.value).splitlines()
    return line.removeprefix(f"{folder}/")


# -- statuses ----------------------------------------------------------------------------------------------------------


def test_a_clean_folder_is_status_0(tmp_path):
    result = run(written(tmp_path, {"web.yaml": CLEAN}))
    assert result.exit_code == 0, result.output
    assert f"gpu-ci check of {tmp_path} by the policies of stack staging" in result.stdout
    assert "OK: 1 object in 1 file; policies that judged: " in result.stdout
    assert "FAILED" not in result.stdout


def test_a_broken_mandatory_policy_is_status_1_with_file_and_line(tmp_path):
    result = run(written(tmp_path, {"deep/er/web.yaml": f"# a comment\n---\n{HOST}"}))
    assert result.exit_code == 1
    assert f"{tmp_path}/deep/er/web.yaml:11: mandatory runner-no-privileged: Deployment apps/web: {ON_HOST}" in result.stdout
    assert "FAILED: 1 mandatory violation; 1 object in 1 file; " in result.stdout


def test_quiet_prints_only_what_fails_and_the_result(tmp_path):
    folder = written(tmp_path, {"web.yaml": HOST})
    line = f"{tmp_path}/web.yaml:9: mandatory runner-no-privileged: Deployment apps/web: {ON_HOST}"
    failed, result = run(folder, "-q").stdout.splitlines()
    assert failed == line
    assert result.startswith("FAILED: 1 mandatory violation; 1 object in 1 file; ")
    (result,) = run(folder, "-q", stack="dev").stdout.splitlines()
    assert result.startswith("OK: 1 object in 1 file; "), "an advisory verdict does not fail"


def test_a_broken_advisory_policy_is_told_and_does_not_fail(tmp_path):
    result = run(written(tmp_path, {"web.yaml": HOST}), stack="dev")
    assert result.exit_code == 0, result.output
    assert f"web.yaml:9: advisory runner-no-privileged: Deployment apps/web: {ON_HOST}" in result.stdout


def test_one_file_is_checked_as_a_folder_is(tmp_path):
    written(tmp_path, {"web.yaml": HOST, "other.yaml": "a: b: c"})
    result = run(str(tmp_path / "web.yaml"))
    assert result.exit_code == 1
    assert "1 object in 1 file" in result.stdout


@pytest.mark.parametrize(("strict", "status"), [((), 0), (("--strict",), 1)])
def test_strict_fails_on_what_a_critical_policy_cannot_tell(tmp_path, strict, status):
    operator = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "operators", "namespace": "argocd"},
        "spec": {
            "template": {
                "metadata": {"name": "x"},
                "spec": {
                    "destination": {"namespace": "{{ .namespace }}"},
                    "source": {
                        "chart": "{{ .chart }}",
                        "repoURL": "https://argoproj.github.io/argo-helm",
                        "targetRevision": "1.2.3",
                    },
                },
            }
        },
    }
    result = run(written(tmp_path, {"set.json": json.dumps(operator)}), *strict)
    assert result.exit_code == status, result.output
    assert "mandatory runner-no-privileged (undeterminable): ApplicationSet argocd/operators: " in result.stdout
    assert ("undeterminable verdicts of critical policies" in result.stdout) is bool(strict)


# -- wrong input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "DIR: must not be empty; name a folder of manifests or of workflows, or one file"),
        (("no/such/folder",), "DIR: no/such/folder does not exist; name a folder of manifests or of workflows, or one file"),
        (
            ("/dev/null",),
            "DIR: /dev/null is neither a folder nor a file; name a folder of manifests or of workflows, or one file",
        ),
        (
            (".", "STACK", "prd"),
            "stack: there must be a stack or a policy config of that name; got 'prd'; did you mean prod?",
        ),
        (
            (".", "STACK", "../config/prod"),
            "stack: there must be a stack or a policy config of that name; got '../config/prod'; ",
        ),
        ((".", "--as-of", "tomorrow"), "--as-of: must be a day before the year 3000 as YYYY-MM-DD; got 'tomorrow'; correct it"),
    ],
)
def test_what_cannot_be_checked_is_status_2_and_one_line(arguments, message):
    folder, *words = arguments
    result = run(folder, stack=words[1]) if words[:1] == ["STACK"] else run(folder, *words)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = [line for line in result.stderr.splitlines() if not line.startswith("…")]
    assert line.startswith(f"error: {message}")


def test_a_folder_without_an_object_is_wrong_input(tmp_path):
    assert wrong(tmp_path, {"notes.txt": CLEAN, ".git/web.yaml": CLEAN, "web.yaml.bak": CLEAN}) == (
        f"DIR: {tmp_path} has no Kubernetes object in *.yaml, *.yml or *.json; "
        "name a folder of manifests or of workflows, or one file"
    )
    assert ", and 1 other documents; " in wrong(tmp_path, {"values.yaml": "a: 1"})


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.yaml", "a: b: c\n", "a.yaml:1: not valid YAML: mapping values are not allowed here; fix the syntax of"),
        (
            "a.yaml",
            CLEAN + "kind: Pod\n",
            "a.yaml:12: a key may appear once, and line 2 has it too; got 'kind'; remove one of them",
        ),
        (
            "a.yml",
            f"{CLEAN}---\n{CLEAN}  template: x\n",
            "a.yml:24: a key may appear once, and line 19 has it too; got 'template'",
        ),
        (
            "a.yaml",
            "kind: Pod\nmetadata: {name: x}\n",
            "a.yaml:1: an object has apiVersion and kind; apiVersion is not set; add it",
        ),
        (
            "a.yaml",
            f"{CLEAN}---\napiVersion: v1\nspec: {{}}\n",
            "a.yaml:13: an object has apiVersion and kind; kind is not set; add it",
        ),
        ("a.yaml", "apiVersion: 1\nkind: Pod\n", "a.yaml:1: apiVersion must be v1 or group/version; got 1; correct it"),
        (
            "a.yaml",
            "apiVersion: v1\nkind: [Pod]\n",
            "a.yaml:1: kind must be one word, such as Deployment; got ['Pod']; correct it",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  metadata: {}\n",
            "a.yaml:4: an object has apiVersion and",
        ),
        (
            "a.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- 7\n",
            "a.yaml:4: an item of a list of objects must have apiVersion and kind;",
        ),
        (
            "a.yaml",
            CLEAN.replace("web\n", "!vault x\n", 1),
            "a.yaml:4: kubectl supports only YAML's own tags; got '!vault'; remove the",
        ),
        ("a.json", '{"apiVersion": "v1",\n "kind": "Pod",}', "a.json:2: not valid JSON: "),
        (
            "a.json",
            '{"apiVersion": "v1",\n "kind": "Pod",\n "kind": "Job"}',
            "a.json:3: a key may appear once, and line 2 has it too",
        ),
        (
            "a.json",
            '{"apiVersion": "v1", "kind": "Pod", "spec": {"a": NaN}}',
            "a.json:1: not JSON that kubectl can read (NaN is no",
        ),
        (
            "a.json",
            f'{{"apiVersion": "v1", "kind": "Pod", "a": {"[" * 150}{"]" * 150}}}',
            "a.json:1: values nest at most 100 levels",
        ),
        (
            "a.json",
            '{"apiVersion": "v1", "kind": "Pod", "spec": {"a": "\\ud800"}}',
            "a.json:1: contains half of a surrogate pair, or a number that",
        ),
        (
            "a.yaml",
            f"apiVersion: v1\nkind: Pod\nspec: {{a: [{{{SIGNATURE}: x}}]}}\n",
            "a.yaml:1: contains a string that Pulumi reserves for secrets and unknown values; write another text",
        ),
        (
            "a.yaml",
            f"apiVersion: v1\nkind: Pod\nspec: {{a: {UNKNOWN}}}\n",
            "a.yaml:1: contains a string that Pulumi reserves for",
        ),
        ("a.json", "{}\n" + json.dumps({"apiVersion": "v1", "kind": "Pod"}), "a.json:2: not valid JSON: Extra data in column 1;"),
        ("a.json", "apiVersion: v1\nkind: [Pod\n", "a.json:3: not valid YAML: "),
        (
            "a.json",
            '// a comment\n{"apiVersion":"v1","kind":"Pod"}',
            "a.json:1: neither JSON nor YAML with an object",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line_with_file_and_line(tmp_path, name, text, message):
    assert wrong(tmp_path, {name: text}).startswith(message)


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"a: \xff")
    assert wrong(tmp_path, {}) == "a.yaml: a YAML file must be UTF-8 text; byte 3 is not; save it as UTF-8"


def test_what_would_never_end_is_not_read(tmp_path):
    (tmp_path / "a.yaml").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "b.yaml")
    assert checked(tmp_path, {"web.yaml": CLEAN}).tree.files == 1


@pytest.mark.parametrize("name", ["a\n::error::b.yaml", "a\udcff.yaml"])
def test_a_name_that_no_line_can_hold_is_refused(tmp_path, name):
    line = wrong(tmp_path, {name: CLEAN})
    assert line.startswith("DIR: '")
    assert line.isprintable()
    assert line.endswith("has a character in its name that cannot be shown; rename it")


def test_a_link_to_nothing_is_named(tmp_path):
    (tmp_path / "a.yaml").symlink_to(tmp_path / "gone.yaml")
    assert wrong(tmp_path, {}).startswith("a.yaml: cannot be read (No such file or directory); ")


@pytest.mark.parametrize(
    "text",
    [
        "{{- if .Values.enabled }}\napiVersion: v1\nkind: Pod\n{{- end }}\n",
        "apiVersion: v1\nkind: Pod\nspec:\n  image: {{ .Values.image }}\n",
        "apiVersion: v1\nkind: '{{ .Values.kind }}'\n",
    ],
)
def test_a_template_is_to_be_rendered_first(tmp_path, text):
    line = wrong(tmp_path, {"templates/pod.yaml": text})
    assert line.startswith("templates/pod.yaml:")
    assert "helm template" in line


def test_a_template_that_is_yaml_all_the_same_is_judged(tmp_path):
    held = checked(tmp_path, {"web.yaml": HOST.replace("name: web\n", "name: '{{ .Release.Name }}'\n", 1)})
    assert held.findings[0].label == "Deployment apps/{{ .Release.Name }}"


def test_all_files_are_read_before_any_is_refused(tmp_path):
    result = run(written(tmp_path, {"a.yaml": "a: b: c", "b.yaml": CLEAN, "c/d.json": '{"apiVersion"'}))
    assert result.exit_code == 2
    assert [line.partition(": not")[0] for line in result.stderr.splitlines()] == [
        f"error: {tmp_path}/a.yaml:1",
        f"error: {tmp_path}/c/d.json:1",
    ]


HIDDEN = "hunter2-of-the-cluster"


@pytest.mark.parametrize(
    "text",
    [
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{token: !!int {HIDDEN}}}\n",
        f'apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{token: "{HIDDEN}\\uD800"}}\n',
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{<<: {HIDDEN}}}\n",
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{token: [{HIDDEN}}}\n",
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{token: {HIDDEN}}}\n",
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{github_token: {HIDDEN}}}\n",
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",), ("--annotations",)])
def test_a_secret_is_never_told(tmp_path, text, form):
    result = run(written(tmp_path, {"secret.yaml": text}), *form)
    assert result.exit_code in (0, 1, 2)
    assert HIDDEN not in result.output


# -- what is read ------------------------------------------------------------------------------------------------------


def test_documents_and_lists_are_taken_apart(tmp_path):
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"hostPID": True}}
    bare = {"metadata": {"name": "b"}, "spec": {"hostIPC": True}}
    held = checked(
        tmp_path,
        {
            "list.json": json.dumps(
                {"apiVersion": "v1", "kind": "List", "items": [pod, {**pod, "metadata": {"name": "c"}}]}, indent=1
            ),
            "pods.yaml": f"---\n---\napiVersion: v1\nkind: PodList\nitems:\n- {json.dumps(bare)}\n---\n# nothing\n",
            "several.yaml": f"{HOST}---\n{CLEAN}",
        },
    )
    assert [each.label for each in held.tree.manifests] == [
        "Pod a",
        "Pod c",
        "Pod b",
        "Deployment apps/web",
        "Deployment apps/web",
    ]
    assert held.tree.documents == 4
    assert [each.resource.type for each in held.tree.manifests[2:4]] == [
        "kubernetes:core/v1:Pod",
        "kubernetes:apps/v1:Deployment",
    ]
    assert {place for place, rule in said(held) if rule == "runner-no-privileged"} == {
        "list.json:12",
        "list.json:22",
        "pods.yaml:6",
        "several.yaml:9",
    }


def test_whatever_has_items_is_a_list(tmp_path):
    """As kubectl and ArgoCD take it: the name of the kind does not count."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"hostPID": True}}
    held = checked(tmp_path, {"a.json": json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "items": [pod]})})
    assert [each.label for each in held.tree.manifests] == ["Pod a"]
    assert ("a.json:1", "runner-no-privileged") in said(held)


def test_hidden_files_are_read_as_argo_cd_reads_them(tmp_path):
    held = checked(tmp_path, {".apps/web.yaml": HOST, ".web.yml": HOST, ".json": "{}"})
    assert {place for place, _ in said(held)} == {".apps/web.yaml:9", ".web.yml:9"}
    assert held.tree.files == 3


def test_yaml_under_the_name_of_json_is_read(tmp_path):
    held = checked(tmp_path, {"a.json": HOST, "notes.json": "// settings of an editor: [\n{}"})
    assert {place for place, _ in said(held)} == {"a.json:9"}
    assert held.tree.passed_over == (f"{tmp_path}/notes.json:1: not a Kubernetes object (a text)",)


def test_a_program_is_passed_over_with_a_note(tmp_path):
    held = checked(tmp_path, {"web.yaml": CLEAN, "pods.jsonnet": "{}"})
    assert held.tree.passed_over == (f"{tmp_path}/pods.jsonnet: a program that ArgoCD evaluates; check what `jsonnet` prints",)


def test_an_empty_list_is_nothing_and_no_stranger(tmp_path):
    held = checked(tmp_path, {"a.yaml": f"apiVersion: v1\nkind: List\nitems: []\n---\n{CLEAN}"})
    assert held.tree.passed_over == ()


def test_what_is_no_object_is_passed_over_with_a_note(tmp_path):
    held = checked(
        tmp_path,
        {
            "web.yaml": CLEAN,
            "Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
            "values.yaml": "image: {tag: x}\n---\nb: 1\n",
            "talos.yaml": "version: v1alpha1\nmachine: {type: worker}\n",
            "list.yaml": "\n- a\n- b\n",
            "home.yaml": "key: !secret api_key\n",
            "package.json": '{"name": "x", "name": "y"}',
            "tsconfig.json": '{"strict": true, // a comment\n}',
            "empty.yaml": "# nothing yet\n",
            "empty.json": "",
            "kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n",
            "notes.md": "# notes\n",
        },
    )
    assert [note.removeprefix(f"{tmp_path}/") for note in held.tree.passed_over] == [
        "Chart.yaml:1: not a Kubernetes object (apiVersion and kind are not set)",
        "home.yaml:1: not a Kubernetes object (apiVersion and kind are not set)",
        "list.yaml:2: not a Kubernetes object (a list)",
        "package.json:1: not a Kubernetes object (apiVersion and kind are not set)",
        "talos.yaml:1: not a Kubernetes object (apiVersion and kind are not set)",
        "tsconfig.json:1: not a Kubernetes object (a text)",
        "values.yaml:1: not a Kubernetes object (apiVersion and kind are not set), and 1 more documents",
    ]
    assert [each.kind for each in held.tree.manifests] == ["Kustomization", "Deployment"]


@pytest.mark.parametrize("flag", ["true", "True", "yes", "Yes", "on", "ON", "y"])
def test_a_flag_is_on_as_kubectl_reads_it(tmp_path, flag):
    assert said(checked(tmp_path, {"web.yaml": HOST.replace("hostNetwork: true", f"hostNetwork: {flag}")})) == {
        ("web.yaml:9", "runner-no-privileged")
    }


def test_dates_and_numbers_as_keys_are_texts(tmp_path):
    data = "data: {8080: a, on: b, day: 2026-11-21, at: 2026-11-21T10:00:00Z, most: .inf}\n"
    (found,) = read_tree("staging", written(tmp_path, {"a.yaml": f"apiVersion: v1\nkind: ConfigMap\n{data}"})).manifests
    assert dict(found.resource.inputs["data"]) == {
        "8080": "a",
        "true": "b",
        "day": "2026-11-21",
        "at": "2026-11-21T10:00:00Z",
        "most": ".inf",
    }


@pytest.mark.parametrize(
    ("version", "kind", "spec"),
    [
        ("v1", "Pod", ("spec",)),
        ("v1", "PodTemplate", ("template", "spec")),
        ("apps/v1", "StatefulSet", ("spec", "template", "spec")),
        ("apps/v1", "DaemonSet", ("spec", "template", "spec")),
        ("apps/v1", "ReplicaSet", ("spec", "template", "spec")),
        ("batch/v1", "CronJob", ("spec", "jobTemplate", "spec", "template", "spec")),
    ],
)
def test_every_kind_of_pod_is_judged(tmp_path, version, kind, spec):
    body: dict[str, Any] = {"hostPID": True, "containers": []}
    for step in reversed(spec):
        body = {step: body}
    held = checked(tmp_path, {"a.json": json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}} | body)})
    (found,) = [each for each in held.findings if each.verdict.rule == "runner-no-privileged"]
    assert found.verdict.message.startswith(f"{'.'.join(spec)}.hostPID is true")


# -- lines -------------------------------------------------------------------------------------------------------------


def test_a_path_with_a_name_in_quotes_is_found(tmp_path):
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n"
        "spec:\n  tolerations:\n    - key: nvidia.com/gpu\n      operator: Exists\n"
        "  containers:\n    - name: a\n      resources:\n        limits:\n          nvidia.com/gpu: 0\n"
    )
    held = checked(tmp_path, {"a.yaml": text})
    assert ("a.yaml:12", "gpu-limits-required") in said(held)


def test_what_no_line_has_stands_at_the_nearest_that_has_one(tmp_path):
    text = "# one\n---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: runners\n"
    runners = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "a"},
        "spec": {
            "destination": {"namespace": "runners"},
            "source": {
                "repoURL": "ghcr.io/actions/actions-runner-controller-charts",
                "chart": "gha-runner-scale-set",
                "targetRevision": "0.14.2",
                "helm": {"values": "template: {spec: {hostPID: true}}"},
            },
        },
    }
    held = checked(tmp_path, {"a.json": json.dumps(runners, indent=1), "b.yaml": text})
    found = {(each.place.rpartition("/")[2], each.verdict.message.partition(" ")[0]) for each in held.findings}
    assert ("a.json:16", "spec.source.helm.values.template.spec.hostPID") in found, "the line of the text that holds it"
    assert ("b.yaml:5", "namespace") in found, "a label of a Namespace that has none"


def test_verdicts_stand_in_the_order_of_files_and_lines(tmp_path):
    held = checked(tmp_path, {"b.yaml": HOST, "a/z.yaml": HOST, "a/b.yaml": f"{HOST}---\n{HOST.replace('web', 'two', 1)}"})
    assert [each.place.removeprefix(f"{tmp_path}/") for each in held.findings] == [
        "b.yaml:9",
        "a/b.yaml:9",
        "a/b.yaml:22",
        "a/z.yaml:9",
    ]


# -- names, levels, exceptions -------------------------------------------------------------------------------------------


def test_each_object_has_a_urn_of_its_own_and_twice_the_same_one_is_remarked(tmp_path):
    files = {
        "a.yaml": f"{HOST}---\n{HOST}",
        "b/c.yaml": HOST.replace("apps/v1", "apps/v1beta2"),
        "d.yaml": "apiVersion: v1\nkind: Pod\n",
        "e.yaml": "---\n".join(["apiVersion: v1\nkind: Pod\nmetadata: {generateName: test-}\n"] * 2),
    }
    result = run(written(tmp_path, files), "--json")
    found = json.loads(result.stdout)
    prefix = "urn:pulumi:staging::check::kubernetes:"
    assert [each["urn"] for each in found["objects"]] == [
        f"{prefix}apps/v1:Deployment::a.yaml#apps/web",
        f"{prefix}apps/v1:Deployment::a.yaml#apps/web~2",
        f"{prefix}core/v1:Pod::d.yaml#",
        f"{prefix}core/v1:Pod::e.yaml#test-",
        f"{prefix}core/v1:Pod::e.yaml#test-~2",
        f"{prefix}apps/v1beta2:Deployment::b/c.yaml#apps/web",
    ]
    assert found["remarks"] == [
        f"Deployment apps/web is here 3 times, and the one that is applied last wins: {tmp_path}/a.yaml:1, {tmp_path}/a.yaml:14, "
        f"{tmp_path}/b/c.yaml:1"
    ]
    assert f"  ! {found['remarks'][0]}" in run(str(tmp_path)).stdout


def test_an_exception_means_a_file_or_an_object(monkeypatch, tmp_path):
    exception = {
        "urn": "*::check::kubernetes:apps/v1:Deployment::b.yaml#apps/*",
        "reason": "a test of exceptions",
        "expires": "2026-12-31",
    }
    config = {"all": "disabled", "runner-no-privileged": {"enforcementLevel": "mandatory", "exceptions": [exception]}}
    monkeypatch.setattr(command, "policy_settings", lambda *_: config)
    folder = written(tmp_path, {"a.yaml": HOST.replace("web", "a", 1), "b.yaml": HOST})
    before, after = run(folder, "--as-of", "2026-12-31"), run(folder, "--as-of", "2027-01-01")
    assert "a.yaml:9: mandatory runner-no-privileged: " in before.stdout
    assert (
        "b.yaml:1: mandatory runner-no-privileged (excepted): Deployment apps/web: exceptions[0], until 2026-12-31"
        in before.stdout
    )
    assert "FAILED: 1 mandatory violation; " in before.stdout
    assert "expired on 2026-12-31" in after.stdout
    assert "FAILED: 2 mandatory violations; " in after.stdout, "two files share a line, and the exception has one"


def test_the_levels_are_those_of_the_stack(tmp_path):
    folder = written(tmp_path, {"web.yaml": HOST})
    staging = json.loads(run(folder, "--json").stdout)
    homelab = make_check(folder, "homelab", ROOT)
    assert {each.rule: each.level for each in homelab.outcomes} != {each["policy"]: each["level"] for each in staging["policies"]}


def test_what_a_plan_would_mend_is_broken_here(monkeypatch, tmp_path):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
    spec = {"template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}}
    monkeypatch.setattr(command, "policy_settings", lambda *_: {"all": "disabled", "gpu-job-deadline": "remediate"})
    held = checked(tmp_path, {"a.json": json.dumps(job | {"spec": spec})})
    assert {found.verdict.level for found in held.findings} == {"mandatory"}


def test_nothing_is_asked_of_clouds_that_are_not_there(tmp_path):
    held = checked(tmp_path, {"web.yaml": CLEAN})
    assert held.findings == ()
    assert {found.rule for found in held.outcomes if found.judged} >= {"images-pinned", "runner-no-privileged"}
    assert not {found.rule for found in held.outcomes if found.judged} & {"stack-cost-ceiling", "imds-v2-hop-one"}


def test_what_only_a_cloud_could_mend_is_not_asked_of_manifests(tmp_path):
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {
            "limits": {"nvidia.com/gpu": 400},
            "template": {
                "spec": {
                    "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                    "requirements": [
                        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p5.48xlarge"]},
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
                    ],
                }
            },
        },
    }
    held = checked(tmp_path, {"pool.json": json.dumps(pool)}, "prod")
    clouds = {rule.id for rule in RULES if isinstance(rule, StackRule) and rule.in_manifests}
    assert len(clouds) > 1
    assert "stack-gpu-ceiling" in {found.verdict.rule for found in held.findings}, "what the manifest says of itself is judged"
    assert not {found.verdict.rule for found in held.findings} & clouds
    assert {found.judged for found in held.outcomes if found.rule in clouds} == {0}
    assert "spot-with-fallback" in {found.verdict.rule for found in held.findings}, "another manifest may be the fallback"
    described = (ROOT / "docs" / "offline.md").read_text()
    assert all(f"`{name}`" in described for name in clouds)


def test_no_quota_of_a_cloud_is_asked_of_its_launchers_manifests(tmp_path):
    for path, text in of("gitops").items():
        written(tmp_path, {path: text})
    launchers = make_check(str(tmp_path / "gpu-ci-gitops-sjc"), "prod", ROOT)
    assert not [found for found in launchers.findings if "oci:Limits" in found.verdict.message]
    assert [found.judged for found in launchers.outcomes if found.rule == "quota-declared"] != [0]


def test_what_no_policy_reads_is_named(tmp_path):
    service = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    nim = "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nspec: {resources: {limits: {nvidia.com/gpu: 1}}}\n"
    folder = written(tmp_path, {"a.yaml": f"{CLEAN}---\n{service}---\n{service}", "c.yaml": f"{nim}---\n{nim}"})
    lines = run(folder).stdout.splitlines()
    assert (
        f"  ! NIMService.apps.nvidia.com has containers or GPUs, and no policy reads it: {tmp_path}/c.yaml:1 and 1 more" in lines
    )
    assert "  1 kind that no policy reads (-v lists them)" in lines
    assert "  no policy reads: Service (2)" in run(folder, "-v").stdout.splitlines()
    assert lines[1] == lines[-1], "the result is first and last"
    assert json.loads(run(folder, "--json").stdout)["notJudged"][0] == {
        "type": "kubernetes:core/v1:Service",
        "count": 2,
        "file": f"{tmp_path}/a.yaml",
        "line": 13,
        "works": False,
    }


@pytest.mark.parametrize(("stack", "options", "status"), [("staging", (), 0), ("staging", ("--strict",), 1), ("prod", (), 1)])
def test_what_works_and_nobody_judges_fails_a_strict_check_and_one_of_prod(tmp_path, stack, options, status):
    nim = "apiVersion: apps.nvidia.com/v1alpha1\nkind: NIMService\nspec: {resources: {limits: {nvidia.com/gpu: 1}}}\n"
    told = run(written(tmp_path, {"a.yaml": CLEAN, "b.yaml": nim}), *options, stack=stack)
    assert told.exit_code == status
    why = "no policy reads NIMService.apps.nvidia.com, and it has containers or GPUs; 2 objects in 2 files"
    assert (why if status else "OK: 2 objects in 2 files") in told.stdout.splitlines()[1]


def test_a_check_that_judged_nothing_is_never_ok(tmp_path):
    told = run(written(tmp_path, {"a.yaml": "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: a}\n"}))
    assert told.exit_code == 1
    assert told.stdout.splitlines()[1] == (
        "FAILED: no policy judged anything here; 1 object in 1 file; policies that judged: none."
    )


def test_a_pod_in_any_kind_is_judged(tmp_path):
    spec = "{template: {spec: {hostPID: true, containers: [{image: a}]}}}"
    rollout = f"apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {{name: a}}\nspec: {spec}\n"
    found = checked(tmp_path, {"b.yaml": rollout})
    assert found.unjudged == ()
    assert "spec.template.spec.hostPID is true: the pod then uses the node's processes; remove it" in [
        each.message for each in found.verdicts
    ]


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ({"path": "apps/llm", "helm": {"parameters": [{"name": "image.tag", "value": "latest"}]}}, "spec.source.helm.parameters"),
        ({"path": "apps/llm", "kustomize": {"images": ["x=y:latest"]}}, "spec.source.kustomize"),
        ({"path": "apps/llm", "helm": {"valueFiles": ["{{ name }}.yaml"]}}, "spec.source.helm.valueFiles"),
        ({"path": "apps/llm", "plugin": {"name": "p"}, "repoURL": "{{ repo }}"}, "spec.source.plugin"),
        ({"path": "apps/llm", "helm": {"releaseName": "llm"}, "directory": {"recurse": True}}, ""),
        ({"chart": "llm", "targetRevision": "1.0.0", "helm": {"values": "a: 1"}}, ""),
    ],
)
def test_what_argo_cd_lays_over_files_of_git_is_remarked(tmp_path, source, where):
    application = {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Application",
        "metadata": {"name": "llm", "namespace": "argocd"},
    }
    spec = {"source": {"repoURL": "https://git.example.com/x"} | source}
    held = checked(tmp_path, {"a.json": json.dumps(application | {"spec": spec})})
    told = (
        f"{tmp_path}/a.json:1: Application argocd/llm: {where} changes the manifests in Git, and this check ignores those changes"
    )
    assert held.remarks == ((told,) if where else ())
    assert not where or f"  ! {told}" in run(str(tmp_path)).stdout


def test_what_an_application_set_lays_over_files_of_git_is_remarked(tmp_path):
    def template(**source: object) -> dict[str, object]:
        return {"spec": {"source": {"repoURL": "{{ .repo }}", "path": "{{ .path }}"} | source}}

    inner = {"git": {"template": template(kustomize={"images": ["x=y:latest"]})}}
    spec = {
        "generators": [{"matrix": {"generators": [{"list": {"elements": [{"template": {}}]}}, inner]}}],
        "template": template(plugin={"name": "p"}, helm={"values": "{{ .values }}"}),
        "templatePatch": "spec: {}",
    }
    body = {"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet", "metadata": {"name": "llm"}, "spec": spec}
    held = checked(tmp_path, {"a.json": json.dumps(body)})
    assert [remark.partition("llm: ")[2].partition(" changes")[0] for remark in held.remarks] == [
        "spec.generators[0].matrix.generators[1].git.template.spec.source.kustomize",
        "spec.template.spec.source.helm.values",
        "spec.template.spec.source.plugin",
        "spec.templatePatch",
    ]


def test_a_definition_of_kinds_runs_nothing_and_a_workflow_does(tmp_path):
    definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {containers: [{image: a}]}\n"
    schema = "apiVersion: example.com/v1\nkind: Schema\nspec: {properties: {containers: {type: array}}}\n"
    argo = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec: {templates: [{container: {image: a}}]}\n"
    tekton = "apiVersion: tekton.dev/v1\nkind: Task\nspec: {steps: [{image: a, name: x}]}\n"
    held = checked(tmp_path, {"a.yaml": "---\n".join([definition, schema, argo, tekton])})
    assert [(each.first.kind, each.works) for each in held.unjudged] == [
        ("CustomResourceDefinition", False),
        ("Schema", False),
    ]


# -- other forms -------------------------------------------------------------------------------------------------------


def test_json_has_the_same_facts(tmp_path):
    found = json.loads(run(written(tmp_path, {"web.yaml": HOST, "values.yaml": "a: 1"}), "--json").stdout)
    assert (found["stack"], found["folder"], found["passes"]) == ("staging", str(tmp_path), False)
    assert found["counts"] | {"policies": 0} == {
        "files": 2,
        "documents": 2,
        "objects": 1,
        "policies": 0,
        "broken": 1,
        "advisory": 0,
        "undeterminable": 0,
        "excepted": 0,
    }
    (verdict,) = found["verdicts"]
    assert (verdict["file"], verdict["line"], verdict["policy"]) == (f"{tmp_path}/web.yaml", 9, "runner-no-privileged")
    assert found["passedOver"] == [f"{tmp_path}/values.yaml:1: not a Kubernetes object (apiVersion and kind are not set)"]
    assert "registry.k8s.io" not in json.dumps(found), "of the manifests themselves it has names and places alone"


def test_annotations_stand_on_the_lines(monkeypatch, tmp_path):
    written(tmp_path, {"deploy/web.yaml": HOST})
    monkeypatch.chdir(tmp_path)
    result = run("deploy", "--annotations")
    assert f"::error file=deploy/web.yaml,line=9,title=runner-no-privileged::Deployment apps/web: {ON_HOST}" in result.stderr
    absolute = run(str(tmp_path / "deploy"), "--annotations")
    assert "::error file=deploy/web.yaml,line=9," in absolute.stderr


def test_wrong_input_is_annotated_too(monkeypatch, tmp_path):
    written(tmp_path, {"deploy/web.yaml": "a: b: c"})
    monkeypatch.chdir(tmp_path)
    result = run("deploy", "--annotations")
    assert result.exit_code == 2
    assert "::error file=deploy/web.yaml,line=1,title=wrong input::not valid YAML: " in result.stderr


def test_a_fault_of_ours_is_no_failed_check(monkeypatch, tmp_path):
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(command, "judge", broken)
    assert run(written(tmp_path, {"web.yaml": CLEAN})).exit_code == 70


# -- what this project writes ------------------------------------------------------------------------------------------


def test_what_render_writes_of_a_stack_is_clean(tmp_path):
    plan = plan_of("staging")
    render(plan, tmp_path / "out")
    held = make_check(str(tmp_path / "out"), "staging", ROOT)
    assert held.findings == ()
    own = {each.type for each in plan.resources if each.type.startswith("kubernetes:") and "helm.sh" not in each.type}
    assert {each.resource.type for each in held.tree.manifests} == own, "manifests are called as the program calls its resources"
    values = [path for path in (tmp_path / "out").glob("*/values/*") if path.suffix == ".yaml"]
    assert len(held.tree.passed_over) == len(values) > 0


# -- any text ----------------------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text("ab{}[]:#-\n\"'é", max_size=6)
BODIES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["spec", "items", "containers", "a"]), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from(["v1", "apps/v1", "argoproj.io/v1alpha1"]),
        "kind": st.sampled_from(["Pod", "Deployment", "Application"]),
    },
    optional={"metadata": BODIES, "spec": BODIES},
)
FEW = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@FEW
@given(body=OBJECTS)
def test_an_object_is_judged_alike_as_yaml_and_as_json(tmp_path, body):
    def messages(name: str) -> list[tuple[str, str]]:
        held = make_check(str(tmp_path / name), "staging", ROOT)
        return sorted((found.verdict.rule, found.verdict.message) for found in held.findings)

    (tmp_path / "a.json").write_text(json.dumps(body, indent=2))
    (tmp_path / "a.yaml").write_text(yaml_text(body))
    assert messages("a.json") == messages("a.yaml")


@FEW
@given(text=st.text("{}[]:-?&*!%@`\"'|>#,\\ \n\tabkind1", max_size=40) | st.text(st.characters(codec="utf-8"), max_size=20))
def test_any_text_is_read_or_is_wrong_input(tmp_path, text):
    for name in ("a.yaml", "a.json"):
        (tmp_path / name).write_text(text)
        told = ""
        try:
            read_tree("staging", str(tmp_path / name))
        except InputError as error:
            told = str(error)
        assert all(line.startswith((str(tmp_path / name), f"DIR: {tmp_path / name}")) for line in told.splitlines()), told


# -- what the project's sources write ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seeds() -> Check:
    return make_check(str(SEEDS), "staging", ROOT)


SEEDS_BREAK = {
    # A Deployment of the newest image there is, on a node that it names by a label of its own, past the taint.
    ("apps/chat.yaml", "Deployment ai/ollama"): {
        "gpu-toleration-required": 18,
        "images-pinned": 23,
        "gpu-cpu-memory-limits": 25,
    },
    # Two shares that are to be half a GPU, and no word of CPU, memory or disk.
    ("apps/images.yaml", "Deployment ai/comfyui"): {"gpu-limit-ceiling": 17, "gpu-cpu-memory-limits": 17},
    # No privilege is asked for: the folder of devices is enough.
    ("apps/coral.yml", "Pod ai/coral"): {"images-pinned": 9, "runner-no-privileged": 15},
    # Nothing ends it, and its toleration is for the taint of one cloud alone.
    ("apps/jobs.yaml", "Job training"): {
        "gpu-job-deadline": 8,
        "gpu-toleration-required": 17,
        "images-pinned": 21,
        "gpu-cpu-memory-limits": 23,
    },
    # A taint that no pool has, a tag that is not a version, a folder of the node for scratch.
    ("apps/jobs.yaml", "Job mnist"): {
        "gpu-job-deadline": 29,
        "gpu-toleration-required": 33,
        "images-pinned": 37,
        "gpu-cpu-memory-limits": 38,
        "runner-no-privileged": 44,
    },
    # A range of versions, and time-slicing where the operator does not read it.
    ("cluster/operator.yaml", "Application argocd/gpu-operator"): {"chart-version-pinned": 14, "gpu-shared-resource-single": 16},
    # A runner set in a namespace without walls, in the group of everybody, partly in a file that is not here.
    ("cluster/runners.json", "Application argocd/gpu-runners"): {
        "runner-namespace-isolated": 1,
        "quota-declared": 1,
        "gpu-limits-required": 15,
        "images-pinned": 15,
        "runner-no-privileged": 15,
        "runner-group-scoped": 16,
        "gpu-toleration-required": 22,
        "gpu-cpu-memory-limits": 28,
    },
}
"""File and object to the mandatory policies that it breaks, each with the first line that it names."""


def test_what_the_sources_write_breaks_what_it_does_and_says_where(seeds):
    found: dict[tuple[str, str], dict[str, int]] = {}
    for each in seeds.findings:
        if each.verdict.level == "mandatory":
            assert each.manifest is not None
            file = each.manifest.file.removeprefix(f"{SEEDS}/")
            found.setdefault((file, each.label), {}).setdefault(each.verdict.rule, each.line)
    assert found == SEEDS_BREAK


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("Deployment ai/ollama", "spec.template.spec.tolerations: a pod that takes GPUs must tolerate the taint"),
        (
            "Deployment ai/ollama",
            'spec.template.spec.containers[0].image is "ollama/ollama:latest": tag "latest" is not a version',
        ),
        ("Deployment ai/comfyui", "spec.template.spec.containers[0].resources asks for too many GPUs (2)"),
        ("Deployment ai/comfyui", "spec.template.spec.containers[0].resources.requests.cpu is not set"),
        ("Pod ai/coral", 'spec.volumes[0].hostPath is "/dev/bus/usb": a folder of the node'),
        ("Job training", "spec.activeDeadlineSeconds is not set: a GPU job ends after at most 7200 seconds"),
        ("Application argocd/gpu-operator", "spec.source.helm.values.devicePlugin.config.sharing is not a field of the operator"),
        ("Application argocd/gpu-operator", 'spec.source.targetRevision is "26.*": must be one exact version'),
        ("Application argocd/gpu-runners", "spec.sources[1].helm.valueFiles: files may change the runner pod"),
        ("Application argocd/gpu-runners", "spec.sources[1].helm.valuesObject.runnerGroup is not set"),
    ],
)
def test_what_the_sources_write_is_told_why(seeds, label, message):
    assert any(found.label == label and found.verdict.message.startswith(message) for found in seeds.findings)


def test_what_the_sources_have_beside_manifests_is_passed_over(seeds):
    assert [note.removeprefix(f"{SEEDS}/").partition(":")[0] for note in seeds.tree.passed_over] == [
        "cluster/talconfig.yaml",
        "cluster/values.yaml",
    ]


RUNNERS = """apiVersion: actions.github.com/v1alpha1
kind: AutoscalingRunnerSet
metadata: {name: gpu, namespace: runners}
spec: {githubConfigUrl: https://github.com/acme, runnerGroup: gpu, maxRunners: 1}
"""
OWNERS = "policies/stacks.toml: staging.runner-group-scoped.owners"


def test_a_runner_set_serves_the_owner_of_the_stacks_url(tmp_path):
    (message,) = [
        each.verdict.message for each in checked(tmp_path, {"set.yaml": RUNNERS}).findings if "owner" in each.verdict.message
    ]
    assert message == (
        'spec.githubConfigUrl is "https://github.com/acme": its owner is not one that this stack serves (github.com/example); '
        f'correct set.yaml, or add "github.com/acme" to {OWNERS}'
    )
    own = {"set.yaml": RUNNERS.replace("github.com/acme", "github.com/example/tools")}
    assert not any("owner" in each.verdict.message for each in checked(tmp_path / "own", own).findings)


def test_owners_that_the_policy_config_lists_are_the_stacks(monkeypatch, tmp_path):
    config = {"all": "disabled", "runner-group-scoped": {"enforcementLevel": "mandatory", "owners": ["github.com/acme"]}}
    monkeypatch.setattr(command, "policy_settings", lambda *_: config)
    assert checked(tmp_path, {"set.yaml": RUNNERS}).passes()
    example = {"set.yaml": RUNNERS.replace("acme", "example")}
    assert not checked(tmp_path / "example", example).passes()


def test_a_level_alone_leaves_the_owner_to_the_stacks_url(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "policy_settings", lambda *_: {"all": "disabled", "runner-group-scoped": "mandatory"})
    assert not checked(tmp_path, {"set.yaml": RUNNERS}).passes()
