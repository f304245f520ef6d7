"""No output shows a credential: each kind of credential in each place where one can be pasted, in each form of output."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pulumi
import pytest
from typer.testing import CliRunner

from components.config import read_fleet as read_program_fleet
from fleet.facts.credentials import holds_credential, mask, masked
from fleet.facts.errors import FleetError, InputError
from fleet.jobs import JobError, gpu_job
from fleet.loading.config import read_fleet
from fleet.loading.project import Project
from fleet.loading.stackfile import load
from fleet.prove.placement import PlacementError
from gpu_ci import cli
from gpu_ci.offline import jsontext
from gpu_ci.offline.annotations import of_input
from gpu_ci.offline.base import read_base
from gpu_ci.offline.judge import configure
from gpu_ci.offline.markdown import wrong_input
from gpu_ci.offline.plan import make_plan
from gpu_ci.offline.policyconfig import policy_settings
from gpu_ci.submit.errors import SubmitError
from gpu_ci.submit.sending import read_job
from policies.rules import RULES
from tests.builders import ROOT
from tests.cases import cases, naming


def _one_pool(text: str) -> str:
    """The staging stack with one pool and one runner set, and less of what no test changes: it is read hundreds of times."""
    for first, after in (("        t4-spot:\n", "        t4-release:\n"), ("        gpu-t4:\n", "        gpu-t4-release:\n")):
        text = text[: text.index(first)] + text[text.index(after) :]
    left = ("#", "nodeConfig:", "health:", "budget:")
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith(left))


STAGING = _one_pool((ROOT / "Pulumi.staging.yaml").read_text())
PROJECT = cache(Project.read)
"""The project's own file is read once."""
# Made of parts, so that no scanner of secrets takes them for real ones.
HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
WORD = "Q7wE9rT2yU4iO6pA8sD1fG3hJ5kL7zX9cV2bN4mK"
BODY = "\n".join(("MIIEowIBAAKCAQEA" + WORD, WORD[::-1], WORD.swapcase()))
PEM = f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{BODY}\n-----END RSA {'PRIVATE'} KEY-----"
JSON_TEXT = base64.urlsafe_b64encode(b'{"alg":"RS256","typ":"JWT"}').decode()
# Text and the part of it that must stay hidden.
CREDENTIALS: dict[str, tuple[str, str]] = {
    **{f"GitHub {kind}": (f"{kind}_{WORD[:36]}", WORD[:36]) for kind in ("ghp", "ghs")},
    "GitHub fine-grained": (f"github_pat_{WORD[:22]}_{WORD}", WORD),
    "GitHub, cut": (f"ghp_{WORD[:20]}", WORD[:20]),
    "AWS key id": ("AKIA" + "IOSFODNN7Q2W4E6R", "IOSFODNN7Q2W4E6R"),
    "AWS secret": (f"{WORD[:20]}/{WORD[20:39]}", WORD[:20]),
    "AWS secret by its name": (f"aws_secret_access_key={WORD}", WORD),
    "private key": (PEM, BODY),
    "private key, cut": (PEM[:100], PEM[40:100]),
    "private key without its first sign": (PEM[1:], BODY),
    "private key in base64": (base64.b64encode(PEM.encode()).decode(), base64.b64encode(PEM.encode()).decode()[44:]),
    "Slack": (f"xoxb-123456789012-{WORD[:24]}", WORD[:24]),
    "Slack webhook": (f"https://hooks.slack.com/services/T0AB/B0CD/{WORD[:24]}", WORD[:24]),
    "Google": (f"AIza{WORD[:35]}", WORD[:35]),
    "Hugging Face": (f"hf_{WORD[:34]}", WORD[:34]),
    "NVIDIA": (f"nvapi-{WORD}{WORD[:24]}", WORD),
    "Pulumi": (f"pul-{HEX}", HEX),
    "GitLab": (f"glpat-{WORD[:20]}", WORD[:20]),
    "OpenAI": (f"sk-proj-{WORD}", WORD),
    "JWT": (f"{JSON_TEXT}.{WORD}.{WORD[::-1]}", WORD),
    "JWT, cut": (f"{JSON_TEXT}.{WORD[:12]}", WORD[:12]),
    "age": (f"AGE-SECRET-KEY-1{WORD.upper()}{WORD[:18].upper()}", WORD.upper()),
    "bearer header": (f"Authorization: Bearer {WORD}", WORD),
    "basic header": (f"Authorization: Basic {WORD}", WORD),
    "password in a URL": ("https://ci:hunter2-and-more@example.com/x", "hunter2-and-more"),
    "password with a slash": ("https://ci:hunter2/and-more@example.com/x", "hunter2/and-more"),
    "token as the user of a URL": (f"https://{HEX}@example.com/x", HEX),
    "token in a query": (f"https://example.com/x?access_token={WORD}&y=1", WORD),
    "pre-authenticated request": (f"https://objectstorage.us-sanjose-1.oraclecloud.com/p/{WORD}/n/a/b/c/o/d", WORD),
}
OBJECT = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
BROKEN = {"containers": [{"name": "web", "image": "registry.k8s.io/pause"}], "hostNetwork": True}


def hides(output: str, secret: str) -> bool:
    """Whether no eight characters in a row of the secret are in the output, in whichever case."""
    shown = output.lower()
    pieces = (secret.lower()[at : at + 8] for at in range(len(secret) - 7))
    return not any(piece in shown for piece in pieces if piece.isprintable())


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli.app, list(arguments))
    return int(done.exit_code), str(done.output)


def changed(old: str, new: str) -> str:
    assert old in STAGING, f"the staging file has no {old!r} any more"
    return STAGING.replace(old, new, 1)


def error_of(read: Callable[[], object]) -> str:
    """The reader's error message; empty if it accepts the text."""
    try:
        read()
    except (InputError, SubmitError, JobError) as error:
        return str(error)
    return ""


def quoted(text: str) -> str:
    """A text as a scalar of YAML, which JSON's are."""
    return json.dumps(text)


# -- stack files -------------------------------------------------------------------------------------------------------

RELEASE = "pool: t4-release"
RUNNER = "      runners:\n"
STACKS: dict[str, Callable[[str], str]] = {
    "url": lambda text: changed("https://github.com/example", quoted(text)),
    "password of the url": lambda text: changed("https://github.com/example", quoted(f"https://u:{text}@github.com/example")),
    "two equal labels": lambda text: changed(RELEASE, f"{RELEASE}\n          labels: {json.dumps([text, text])}"),
    "name of a runner set": lambda text: changed(RUNNER, f"{RUNNER}        {quoted(text)}: {{}}\n"),
    "value of an unknown key": lambda text: changed("config:\n", f"config:\n  gpu-ci:tag: {quoted(text)}\n"),
    "value of an unknown key of a pool": lambda text: changed("role: release", f"role: release\n          rol: {quoted(text)}"),
    "unknown key": lambda text: changed("role: release", f"role: release\n          {quoted(text)}: 1"),
    "key of the configuration": lambda text: changed("config:\n", f"config:\n  {quoted('gpu-ci:' + text)}: 1\n"),
    "key with too many colons": lambda text: changed("config:\n", f"config:\n  {quoted('a:b:' + text)}: 1\n"),
    "key of the file": lambda text: f"{STAGING}\n{quoted(text)}: 1\n",
    "equal keys": lambda text: changed("config:\n", f"config:\n  {quoted(text)}: 1\n  {quoted(text)}: 1\n"),
    "number of nodes": lambda text: changed("min: 0", f"min: {quoted(text)}"),
    "deep in a wrong value": lambda text: changed("https://github.com/example", f"{{a: [1, {{b: {quoted(text)}}}]}}"),
    "behind a long text": lambda text: changed("https://github.com/example", quoted("x" * 30 + " " + text)),
    "merged text": lambda text: changed("role: release", f"role: release\n          <<: {quoted(text)}"),
    "syntax": lambda text: f"config:\n  a: {{b: {text.splitlines()[0]}\n  c: [\n",
    "alias": lambda text: f"config:\n  a: *{text.splitlines()[0]}\n",
    "anchor": lambda text: f"config:\n  a: &{text.splitlines()[0]} 1\n  a: 2\n",
    "tag": lambda text: f"config:\n  a: !{text.splitlines()[0]} 1\n",
    "tag's handle": lambda text: f"config:\n  a: !{text.splitlines()[0]}!x 1\n",
    "value of the wrong kind": lambda text: f"config:\n  a: !!int {quoted(text)}\n",
    "private key in clear": lambda text: changed("config:\n", f"config:\n  gpu-ci:githubPrivateKey: {quoted(text)}\n"),
}


@cases("place", [pytest.param(place, id=name) for name, place in STACKS.items()])
def test_no_form_of_an_error_shows_a_credential_of_a_stack_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[str], str]
) -> None:
    monkeypatch.setattr(Project, "read", PROJECT)
    path = tmp_path / "Pulumi.staging.yaml"
    for name, (text, secret) in CREDENTIALS.items():
        with naming(name):
            path.write_text(place(text))
            with pytest.raises(InputError) as wrong:
                make_plan("staging", ROOT, path)
            annotations = map(str, of_input(wrong.value, ROOT))
            output = "\n".join((str(wrong.value), wrong_input("staging", wrong.value, ROOT), *annotations))
            assert hides(output, secret), output


@cases("place", [pytest.param(place, id=name) for name, place in STACKS.items()])
def test_every_command_that_reads_a_stack_file_masks_its_errors(tmp_path: Path, place: Callable[[str], str]) -> None:
    path = tmp_path / "Pulumi.staging.yaml"
    for name in ("GitHub ghp", "private key"):
        text, secret = CREDENTIALS[name]
        path.write_text(place(text))
        status, output = run("plan", "staging", "--file", str(path), "--markdown", "--annotations")
        assert status == 2, output
        assert "error: " in output
        assert "::error " in output
        assert "the input is wrong" in output
        assert hides(output, secret), output
    path.write_text(place(CREDENTIALS["GitHub ghp"][0]))
    for arguments in (["plan", "staging", "--json"], ["render", "staging", "--out", "x"], ["inventory", "staging"]):
        status, output = run(*arguments, "--file", str(path))
        assert status == 2, output
        assert hides(output, CREDENTIALS["GitHub ghp"][1]), output


def test_only_the_credential_is_masked(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.staging.yaml"
    path.write_text(changed("https://github.com/example", f"https://{HEX}@github.com/example"))
    status, output = run("plan", "staging", "--file", str(path))
    assert status == 2
    assert 'got "https://***@github.com/example"' in output
    assert "gpu-ci:github.url: not a GitHub scope; write https://github.com/<organization>" in output


CERTAIN = {name: pair for name, pair in CREDENTIALS.items() if holds_credential(pair[0])}
"""What no stack file may have in clear. All else may be another text."""
SCALARS: dict[str, tuple[str, Callable[[str], str]]] = {
    "tag": ("gpu-ci:tags.owner", lambda text: changed("owner: ci-platform", f"owner: {quoted(text)}")),
    "runner group": ("group", lambda text: changed("group: gpu\n", f"group: {quoted(text)}\n")),
    "label": ("labels.1", lambda text: changed(RELEASE, f"{RELEASE}\n          labels: [a, {quoted(text)}]")),
    "value of a provider": ("aws:profile", lambda text: changed("config:\n", f"config:\n  aws:profile: {quoted(text)}\n")),
    "deep in a provider": ("aws:x.1.y", lambda text: changed("config:\n", f"config:\n  aws:x: [1, {{y: {quoted(text)}}}]\n")),
    "inside a text": ("aws:profile", lambda text: changed("config:\n", f"config:\n  aws:profile: {quoted(f'a {text} b')}\n")),
    "environment": ("environment.0", lambda text: f"{STAGING}\nenvironment: [{quoted(text)}]\n"),
}


@cases("place", [pytest.param(place, id=name) for name, place in SCALARS.items()])
def test_a_stack_file_holds_no_credential_in_clear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[str, Callable[[str], str]]
) -> None:
    monkeypatch.setattr(Project, "read", PROJECT)
    (field, text_with), path = place, tmp_path / "Pulumi.staging.yaml"
    assert len(CERTAIN) > 15
    for name, (text, secret) in CERTAIN.items():
        with naming(name):
            path.write_text(text_with(text))
            with pytest.raises(InputError) as wrong:
                load("staging", ROOT, path)
            rule = "must not hold a credential in clear; got '***'; remove and revoke it"
            assert f"{field}: {rule}" in str(wrong.value)
            assert hides(str(wrong.value), secret)


def test_a_ciphertext_is_no_credential_in_clear(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.staging.yaml"
    secure = f"config:\n  aws:secretKey: {{secure: {quoted(CREDENTIALS['AWS key id'][0])}}}\n"
    path.write_text(f"encryptionsalt: {quoted(CREDENTIALS['AWS key id'][0])}\n{changed('config:' + chr(10), secure)}")
    assert "aws:secretKey" in load("staging", ROOT, path).secret_keys


@pytest.mark.parametrize(
    "key", ["aws:secretKey", "aws:accessKey", "aws:config:token", "oci:privateKey", "oci:privateKeyPassword"]
)
@pytest.mark.parametrize("value", [WORD, "hunter2", "[hunter2]", "{a: hunter2}", "{secure: AAAB, more: hunter2}"])
def test_what_a_provider_keeps_secret_is_encrypted(tmp_path: Path, key: str, value: str) -> None:
    path = tmp_path / "Pulumi.staging.yaml"
    path.write_text(changed("config:\n", f"config:\n  {key}: {value}\n"))
    status, output = run("plan", "staging", "--file", str(path))
    assert status == 2
    full = key.replace(":config", "")
    fix = f"log in without it (docs/deployments.md), or run `pulumi config set --secret {full}`"
    assert f"{full}: must be encrypted; got '***'; {fix}" in " ".join(output.split())
    assert "hunter2" not in output
    assert hides(output, WORD)


@pytest.mark.parametrize(
    "line",
    ["aws:secretKey: {secure: AAAB}", "aws:region: us-west-2", "aws:tokenBucketRateLimiterCapacity: 100", "oci:privateKey: ''"],
)
def test_another_setting_of_a_provider_may_be_in_clear(tmp_path: Path, line: str) -> None:
    path = tmp_path / "Pulumi.staging.yaml"
    path.write_text(changed("config:\n", f"config:\n  {line}\n"))
    assert line.partition(": ")[0] in load("staging", ROOT, path).values


LIKELY = [text for text, _ in CREDENTIALS.values() if not holds_credential(text)]
LABELS = [text for text in LIKELY if text.isprintable() and "," not in text and len(text) < 256]


def test_a_plan_that_succeeds_shows_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every label is a credential, and every tag that may be one. Nothing else is wrong with the stack."""
    tags = {f"t{index}": text for index, text in enumerate(LABELS) if text.isascii() and not set(text) & set("?&:")}
    path = tmp_path / "Pulumi.staging.yaml"
    stack = changed(RELEASE, f"{RELEASE}\n          labels: {json.dumps(LABELS)}")
    path.write_text(
        stack.replace("  gpu-ci:tags:\n", "  gpu-ci:tags:\n" + "".join(f"    {k}: {quoted(v)}\n" for k, v in tags.items()))
    )
    # One plan and one base for every form.
    command = import_module("gpu_ci.offline.commands.plan")
    made, base = make_plan("staging", ROOT, path), read_base("staging", ROOT, ROOT, path)
    monkeypatch.setattr(command, "make_plan", lambda *_: made)
    monkeypatch.setattr(command, "read_base", lambda *_: base)
    for form in ([], ["--markdown"], ["--json"], ["--annotations"]):
        with naming(form):
            status, output = run("plan", "staging", "--file", str(path), "--base", str(ROOT), *form)
            assert status in (0, 1), output
            assert "***" in output
            # A table folds what it shows: without the frame and its spaces every piece is whole again.
            for shown in (output, "".join(output.split())):
                assert [name for name, (text, secret) in CREDENTIALS.items() if text in LABELS and not hides(shown, secret)] == []


def test_nothing_of_our_own_stacks_is_taken_for_a_credential(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsontext, "masked", lambda value: value)
    for stack in ("staging", "prod", "homelab"):
        status, output = run("plan", stack, "--json")
        assert status == 0
        plan = json.loads(output[output.index("{") :])
        assert masked(plan) == plan, stack
    for path in (
        *ROOT.glob("Pulumi*.yaml"),
        *(ROOT / "examples").glob("*.yaml"),
        *(ROOT / "homelab").rglob("*.yaml"),
    ):
        assert mask(path.read_text()) == path.read_text(), path


# -- manifests ---------------------------------------------------------------------------------------------------------


def pod(**changes: object) -> str:
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "apps"}, "spec": BROKEN} | changes
    )


MANIFESTS: dict[str, Callable[[str], str]] = {
    "kind": lambda text: pod(kind=text),
    "apiVersion": lambda text: pod(apiVersion=text),
    "name": lambda text: pod(metadata={"name": text, "namespace": text, "labels": {text: text}}),
    "image": lambda text: pod(spec=BROKEN | {"containers": [{"name": text, "image": text}]}),
    "environment": lambda text: pod(
        spec=BROKEN | {"containers": [{"name": "a", "image": "b", "env": [{"name": text, "value": text}]}]}
    ),
    "runtime class": lambda text: pod(spec=BROKEN | {"runtimeClassName": text, "priorityClassName": text}),
    "key of a ConfigMap": lambda text: json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {text: f"ghp_{WORD[:36]}"}}
    ),
    "object that is there twice": lambda text: "\n---\n".join([pod(metadata={"name": text})] * 2),
    "kind that no policy reads": lambda text: pod(apiVersion="example.com/v1", kind="Thing", metadata={"name": text}),
    "syntax": lambda text: f"{OBJECT}spec: {{a: {text.splitlines()[0]}\n b: [\n",
    "equal keys": lambda text: f"{OBJECT}{quoted(text)}: 1\n{quoted(text)}: 2\n",
    "alias": lambda text: f"{OBJECT}spec: *{text.splitlines()[0]}\n",
    "key that is a list": lambda text: f"{OBJECT}spec: {{[{quoted(text)}]: 1}}\n",
}


@cases("place", [pytest.param(place, id=name) for name, place in MANIFESTS.items()])
def test_a_check_shows_no_credential_of_a_manifest(tmp_path: Path, place: Callable[[str], str]) -> None:
    for name, (text, secret) in CREDENTIALS.items():
        with naming(name):
            (tmp_path / "a.yaml").write_text(place(text))
            forms = ([], ["--json"]) if text.startswith("ghp_") else ([],)
            for form in forms:
                status, output = run("check", str(tmp_path), "--annotations", *form)
                assert status in (0, 1, 2), output
                assert hides(output, secret), output
                assert hides("".join(output.split()), secret), output


# -- policy config -----------------------------------------------------------------------------------------------------


def _configs(text: str) -> Iterator[dict[str, object]]:
    rule = next(rule.id for rule in RULES if rule.config)
    yield {text: "mandatory"}
    yield {rule: text}
    yield {rule: [text]}
    yield {rule: {"enforcementLevel": text}}
    yield {rule: {text: text}}
    yield {"all": {"enforcementLevel": "mandatory", text: 1}}
    yield {rule: {"exceptions": text}}
    yield {rule: {"exceptions": [{"urn": text, "reason": "r", "expires": text}]}}


def test_no_error_of_a_policy_config_shows_a_credential(tmp_path: Path) -> None:
    for name, (text, secret) in CREDENTIALS.items():
        with naming(name):
            raised = [error_of(partial(configure, RULES, config, date(2026, 11, 22))) for config in _configs(text)]
            folder = tmp_path / "policies" / "config"
            folder.mkdir(parents=True, exist_ok=True)
            for held in (f'{{"a": {quoted(text)} {quoted(text)}}}', f"{{{quoted(text)}: 1, {quoted(text)}: 2}}"):
                (folder / "dev.json").write_text(held)
                raised.append(error_of(lambda: policy_settings("dev", tmp_path)))
            assert sum(map(bool, raised)) >= 9
            for each in raised:
                assert hides(each, secret), each
                assert hides(wrong_input("dev", InputError(each), ROOT), secret)


# -- Pulumi.yaml, submit, jobs, the program ----------------------------------------------------------------------------


def test_no_error_of_the_project_file_shows_a_credential(tmp_path: Path) -> None:
    for name, (text, secret) in CREDENTIALS.items():
        with naming(name):
            (tmp_path / "Pulumi.dev.yaml").write_text("config: {}\n")
            for held in (
                f"name: [{quoted(text)}]",
                f"name: a\nconfig: [{quoted(text)}]",
                f"name: a\nconfig: {{b: {{{quoted(text)}: 1}}}}",
                f"name: a\nconfig: {{b: {{type: {quoted(text)}}}}}",
                f"name: a\nconfig: {{b: {{type: integer, default: {quoted(text)}}}}}",
            ):
                (tmp_path / "Pulumi.yaml").write_text(held)
                with pytest.raises(InputError) as error:
                    load("dev", tmp_path)
                assert hides(str(error.value), secret), error.value


def test_submit_shows_no_credential(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.a.yaml"
    # The test of stack files reads the same places with every other credential.
    token, hidden = CREDENTIALS["GitHub ghp"]
    said = []
    for place in STACKS.values():
        path.write_text(place(token))
        said.append(error_of(partial(read_fleet, "a", path)))
    assert sum(map(bool, said)) > len(STACKS) / 2
    assert [line for line in said if not hides(line, hidden)] == []
    for name, (text, secret) in CREDENTIALS.items():
        with naming(name):
            path.write_text(f"apiVersion: {quoted(text)}\nkind: {quoted(text)}\n")
            with pytest.raises(SubmitError) as wrong:
                read_job(path)
            assert hides(str(wrong.value), secret), wrong.value


def test_no_error_of_a_job_shows_a_credential() -> None:
    for name, (text, secret) in CREDENTIALS.items():
        with naming(name):
            arguments: tuple[dict[str, Any], ...] = (
                {"memory": text},
                {"queue": text},
                {"gpu_type": text},
                {"env": {text: "a"}, "memory": "1Gi"},
                {text: 1},
            )
            said = [error_of(partial(gpu_job, "a", "b:1", **given)) for given in arguments]
            assert sum(map(bool, said)) >= 4
            assert [each for each in said if not hides(each, secret)] == []


def test_the_program_shows_no_credential() -> None:
    for name, (text, secret) in CREDENTIALS.items():
        with naming(name):
            assert hides(str(PlacementError(f"{text}.runners.a: no node holds it")), secret)
            pulumi.runtime.set_all_config({"gpu-ci:github": text, "gpu-ci:clusters": "{}"})
            with pytest.raises(FleetError) as error:
                read_program_fleet(pulumi.Config("gpu-ci"))
            assert hides(str(error.value), secret), error.value


# -- the mask itself ---------------------------------------------------------------------------------------------------


MORE = {
    **{f"GitHub {kind}": (f"{kind}_{WORD[:36]}", WORD[:36]) for kind in ("gho", "ghu", "ghr")},
    **{f"{kind} key": (PEM.replace("RSA", kind), BODY) for kind in ("OPENSSH", "EC", "ENCRYPTED")},
}


def test_a_text_is_masked_wherever_the_credential_begins() -> None:
    for name, (text, secret) in (CREDENTIALS | MORE).items():
        with naming(name):
            for shown in (text, f"got {text}; correct it", f'["{text}"]', repr(f"a\n{text}\nb"), json.dumps({"a": f"b\n{text}"})):
                assert hides(mask(shown), secret), mask(shown)
            assert mask(mask(text)) == mask(text)
            assert hides(json.dumps(masked({text: [text, 1, None, {"a": (text,)}]})), secret)


@cases(
    "text",
    [
        "",
        "https://github.com/example",
        "https://host:8080/path@v1",
        "oci://ghcr.io/actions/chart:1.2@sha256:0a1b",
        "ssh://git@github.com/example/homelab",
        "git@github.com:example/homelab.git",
        HEX,
        f"sha256:{HEX}{HEX[:24]}",
        "laughs_of_the_disk-usw2-t4-spot-and-more",
        "ocid1.image.oc1.us-sanjose-1.aaaaaaaa7gpgpxo5bjcbdzpllfl4iwkjvj5ozvsk6dtvs2u7m7aaaaaaaaaa",
        "arn:aws:iam::123456789012:role/gpu-ci-staging-usw2-autoscaler",
        "AmazonEKSWorkerNodePolicy, AmazonEC2ContainerRegistryPullOnly",
        "a bearer token authenticates; write authorization: none",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "the GitHub App's private key is a secret of the stack",
    ],
)
def test_what_is_no_credential_is_shown(text: str) -> None:
    assert mask(text) == text
    assert not holds_credential(text)


@cases("piece", ["://", "://a:", "eyJ", "gh", "-----BEGIN PRIVATE KEY-----", "bearer ", "MII", "?token=", "a1B/", " "])
def test_masking_takes_time_by_the_length_of_the_text(piece: str) -> None:
    """A pattern that read the rest of the text from each place would take hours here; the suite's timeout ends it."""
    mask(piece * (200_000 // len(piece)))
