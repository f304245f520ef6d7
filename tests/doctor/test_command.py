"""`gpu-ci doctor`: its report, its exit status, and a whole run against simulated clouds."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import InputError
from fleet.facts.example_values import meaning
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import load
from fleet.providers.finding import Finding, ok, skipped, wrong
from fleet.settings.github import PRIVATE_KEY
from gpu_ci.cli import app
from gpu_ci.doctor import backend, github, network, settings
from gpu_ci.doctor.sources import web
from gpu_ci.offline.commands import doctor
from tests.builders import ROOT
from tests.docs.test_cloud_commands import aws_faults
from tests.doctor.fleets import OWN, copy
from tests.doctor.loopback import serve
from tests.doctor.test_github import KEY, TOKEN, answers as github_answers
from tests.fleet.test_example_values import EXAMPLES


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["doctor", *words])


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces all checks by these findings."""

    def put(*found: Finding) -> None:
        def findings(*_: object) -> Iterator[Finding]:
            yield from found

        monkeypatch.setattr(doctor, "_findings", findings)

    return put


def test_each_line_has_state_area_and_text_and_the_fix_follows(checks: Callable[..., None]) -> None:
    command = "aws service-quotas" + " request" * 40
    checks(ok("tools", "git 2.43.0"), wrong("aws", "a quota is too small", command), skipped("oci", "no file"))
    done = run("staging")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "ok      tools     git 2.43.0",
        "wrong   aws       a quota is too small",
        f"                  fix: {command}",
        "skipped oci       no file",
        "FAILED: 1 ok, 1 wrong, 1 skipped",
    ]


def test_quiet_prints_only_what_is_wrong_and_the_result(checks: Callable[..., None]) -> None:
    checks(ok("tools", "git 2.43.0"), wrong("aws", "a quota is too small", "ask"), skipped("oci", "no file"))
    done = run("--quiet", "staging")
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "wrong   aws       a quota is too small",
        "                  fix: ask",
        "FAILED: 1 ok, 1 wrong, 1 skipped",
    ]


def test_what_is_skipped_does_not_fail(checks: Callable[..., None]) -> None:
    checks(ok("tools", "git 2.43.0"), skipped("oci", "no file"))
    done = run("staging")
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "OK: 1 ok, 0 wrong, 1 skipped")


def test_json_has_each_finding(checks: Callable[..., None]) -> None:
    checks(wrong("aws", "a quota is too small", "ask for more"))
    done = run("staging", "--json")
    assert done.exit_code == 1
    finding = {"state": "wrong", "area": "aws", "said": "a quota is too small", "fix": "ask for more"}
    assert json.loads(done.stdout) == {"stack": "staging", "ok": False, "findings": [finding]}


def test_wrong_input_is_a_json_document_too() -> None:
    done = run("nowhere", "--json")
    assert done.exit_code == 2
    (error,) = json.loads(done.stdout)["errors"]
    assert error["path"] == "stack"
    assert "Pulumi.nowhere.yaml does not exist" in error["message"]


@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_no_credential_is_shown(checks: Callable[..., None], as_json: tuple[str, ...]) -> None:
    checks(wrong("github", f"GitHub says {KEY}", "ghp_0123456789abcdefABCD0123456789abcdef"))
    text = run("staging", *as_json).stdout
    assert "***" in text
    assert "PRIVATE KEY" not in text
    assert "ghp_" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere"], "error: stack: there must be a file for the stack"),
        (["staging", "--key-file", "/nonexistent"], "error: --key-file: cannot read /nonexistent"),
        (["staging", "--address", "home"], "error: --address: must be an IPv4 address; got 'home'"),
    ],
)
def test_wrong_input_has_status_2(words: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "read", lambda *_: (None, "no backend in this test"))
    done = run(*words)
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_key_comes_from_the_cli_only_if_the_stack_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def read(_: Path, *words: str) -> tuple[str, str]:
        asked.append(words)
        return KEY, ""

    monkeypatch.setattr(backend, "read", read)
    bare = load("staging", ROOT)
    fleet = fleet_of(bare)
    assert doctor._key(bare, fleet, {}, PRIVATE_KEY) == ("", "the stack's config has no key of the App; give it: --key-file FILE")
    assert asked == []
    with_key = load("staging", ROOT, stack_file=copy("staging", tmp_path, secret()))
    assert doctor._key(with_key, fleet, {}, PRIVATE_KEY)[0] == KEY
    assert asked == [("config", "get", "gpu-ci:githubPrivateKey", "--stack", "staging")]


def test_a_file_is_the_key_of_the_scope_that_is_named_before_it() -> None:
    path = ROOT / "examples" / "Pulumi.two-organizations.yaml"
    fleet = fleet_of(load("two-organizations", ROOT, stack_file=path))
    files = doctor._files(fleet, ("one.pem", "research=two.pem"))
    assert files == {PRIVATE_KEY: Path("one.pem"), f"{PRIVATE_KEY}-research": Path("two.pem")}
    assert doctor._files(fleet, ("other=two.pem",)) == {PRIVATE_KEY: Path("other=two.pem")}, "then it is a path"


def secret() -> tuple[str, str]:
    """The replacement that gives the stack file the App's key, encrypted."""
    return "  gpu-ci:tags:", "  gpu-ci:githubPrivateKey: {secure: v1:abc:def}\n  gpu-ci:tags:"


def test_a_stack_with_things_wrong_says_each_with_its_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here is replaced but the addresses of GitHub and of the page that shows one's address; AWS has no credentials."""
    monkeypatch.setenv("GH_TOKEN", TOKEN)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "key.pem").write_text(KEY)
    file = copy("staging", tmp_path, secret())
    missing = {"total_count": 0, "runner_groups": []}
    monkeypatch.setitem(web.INSTEAD, "https://api.github.com", "http://127.0.0.1:9")
    with serve(github_answers(groups=missing)) as server, serve({"/": (200, "52.94.76.1")}) as echo:
        monkeypatch.setattr(github, "api_of", lambda _: server.url)
        monkeypatch.setattr(network.findings, "__defaults__", (echo.url,))
        done = run("staging", "--file", str(file), "--key-file", str(tmp_path / "key.pem"))
    assert done.exit_code == 1
    states = re.findall(r"^(ok|wrong|skipped) +(\w+)", done.stdout, re.MULTILINE)
    assert {"tools", "settings", "policies", "pulumi", "network", "aws", "github", "freshness"} == {area for _, area in states}
    for said in (
        "wrong   settings  an example organization: github.url (line 7)",
        "ok      settings  gpu-ci:githubPrivateKey is set, as a secret",
        "ok      policies  policies/config/staging.json is current",
        "skipped pulumi    the Pulumi CLI is not on PATH",
        "wrong   network   usw2: endpoint.publicCidrs 203.0.113.0/24 does not have this machine's address 52.94.76.1",
        "wrong   aws       credentials: Unable to locate credentials",
        "ok      github    installation 12345678 belongs to example",
        "wrong   github    example has no runner group gpu",
        "skipped freshness ARC: api.github.com cannot be reached",
        "skipped freshness EKS: there are no AWS credentials",
    ):
        assert said in done.stdout
    assert done.stdout.count("\n                  fix: ") == sum(state == "wrong" for state, _ in states)


def test_every_area_has_a_row_on_the_page_and_is_in_the_report() -> None:
    names = [each.stem for each in (ROOT / "gpu_ci" / "doctor").glob("*.py") if each.stem != "__init__"]
    clouds = [each.parent.name for each in (ROOT / "fleet" / "providers").glob("*/doctor.py")]
    checks = [f"gpu_ci.doctor.{name}" for name in names]
    areas = {import_module(check).AREA for check in (*checks, *(f"fleet.providers.{cloud}.doctor" for cloud in clouds))}
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "doctor.md").read_text(), re.MULTILINE)
    assert set(rows) == areas | {"policies"}
    called = (ROOT / "gpu_ci" / "offline" / "commands" / "doctor.py").read_text()
    assert [name for name in names if f"{name}.findings(" not in called] == []


def test_a_policy_config_that_is_not_current_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InputError("policies/config/staging.json:3: must be the config that policies/stacks.toml generates")

    monkeypatch.setattr(doctor, "require_current", refuse)
    (found,) = doctor._policies("staging")
    assert (found.state, found.fix) == ("wrong", "make docs")
    assert [each.state for each in doctor._policies("nobody")] == ["skipped"]


def test_the_commands_that_show_your_own_values_belong_to_meanings_of_examples() -> None:
    meanings = {meaning(key, value) for key, value in EXAMPLES}
    assert set(settings.SHOWS) <= meanings
    calls = [shlex.split(each) for each in settings.SHOWS.values()]
    assert [fault for call in calls if call[0] == "aws" for fault in aws_faults(tuple(call[1:]))] == []


def test_a_stack_without_examples_is_ok_and_lacks_only_its_key(tmp_path: Path) -> None:
    config = load("staging", ROOT, stack_file=copy("staging", tmp_path, *OWN))
    first, second = settings.findings(config, fleet_of(config))
    assert first == ok("settings", "Pulumi.staging.yaml has no example values")
    assert second.fix == "pulumi config set --stack staging --secret gpu-ci:githubPrivateKey < app.private-key.pem"
