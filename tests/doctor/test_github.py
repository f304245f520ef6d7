"""The checks of GitHub against a server on loopback.

The answers have the required fields of GitHub's OpenAPI description (github/rest-api-description): `integration` has id, name,
html_url and permissions; `installation` has id, account, app_id, permissions, html_url and suspended_at; an answer of
`/orgs/{org}/actions/runner-groups` has total_count and runner_groups, each with id, name, visibility and default.
"""

from __future__ import annotations

import sys
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fleet.loading.config import fleet_of
from fleet.loading.stackfile import load
from fleet.providers.finding import Finding
from gpu_ci.doctor import github
from gpu_ci.doctor.sources.github import api_of
from tests.builders import ROOT
from tests.doctor.fleets import edited, lines, shipped
from tests.doctor.loopback import Loopback, serve, serve_raw

_PAIR = rsa.generate_private_key(65537, 2048)
KEY = _PAIR.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
).decode()
TOKEN = "a-token-of-a-person"  # noqa: S105 - of nobody
PAGE = "https://github.com/organizations/example/settings/installations/12345678"
GROUPS = ((2, "GPU"), (3, "gpu-releases"))
APP = {"id": 123456, "name": "gpu-runners", "html_url": "https://github.com/apps/gpu-runners", "permissions": {}}


def installation(**changes: Any) -> dict[str, Any]:
    """An installation in the organization of the shipped stacks; `changes` replace keys."""
    return {
        "id": 12345678,
        "account": {"login": "Example", "id": 1},
        "app_id": 123456,
        "permissions": {"metadata": "read", "organization_self_hosted_runners": "write"},
        "html_url": PAGE,
        "suspended_at": None,
    } | changes


def answers(**changes: Any) -> dict[str, tuple[int, Any]]:
    """An App and an organization that fit the shipped stacks. `changes` replace the answers app, installed, own and groups."""
    groups = [{"id": number, "name": name, "visibility": "selected", "default": False} for number, name in GROUPS]
    found: dict[str, Any] = {
        "app": APP,
        "installed": installation(),
        "own": installation(id=777),
        "groups": {"total_count": 2, "runner_groups": groups},
    } | changes
    paths = {
        "app": "/app",
        "installed": "/app/installations/12345678",
        "own": "/orgs/example/installation",
        "groups": "/orgs/example/actions/runner-groups",
    }
    return {paths[name]: answer if isinstance(answer, tuple) else (200, answer) for name, answer in found.items()}


def ask(fleet: Any, given: Any, key: str = KEY, token: str = TOKEN) -> tuple[list[Finding], Loopback]:
    with serve(given) as server:
        return list(github.findings("staging", fleet, lambda _: (key, "no key is set"), token, server.url)), server


def test_an_app_and_groups_that_fit_are_ok() -> None:
    found, _ = ask(shipped("staging"), answers())
    assert lines(found) == [
        "ok: the key belongs to App 123456 (gpu-runners)",
        "ok: installation 12345678 belongs to example",
        "ok: the installation has organization_self_hosted_runners: write",
        "ok: example has the runner group gpu",
        "ok: example has the runner group gpu-releases",
    ]


def test_every_request_is_a_get_and_the_app_signs_in_without_a_token_of_the_installation() -> None:
    _, server = ask(shipped("staging"), answers(), token="")
    assert [method for method, _ in server.asked] == ["GET"] * len(server.asked)
    assert not any("access_tokens" in path for _, path in server.asked)
    claims = jwt.decode(server.headers["Authorization"].removeprefix("Bearer "), _PAIR.public_key(), algorithms=["RS256"])
    assert claims["iss"] == "123456"
    assert claims["exp"] - claims["iat"] <= 600, "GitHub's limit"


def test_no_finding_has_the_key_or_the_token() -> None:
    found, _ = ask(shipped("staging"), answers(groups=(403, {"message": TOKEN})))
    text = repr(found)
    assert "PRIVATE KEY" not in text
    assert TOKEN not in text


@pytest.mark.parametrize(
    ("changes", "said", "fix"),
    [
        (
            {"app": (401, {"message": "A JSON web token could not be decoded"})},
            "GitHub refuses the key for App 123456 (401)",
            "set appId to the number on the App's page",
        ),
        (
            {"installed": (404, {})},
            "installation 12345678 of the App does not exist",
            'set github.installationId to "777"',
        ),
        (
            {"installed": installation(account={"login": "other"})},
            "installation 12345678 of the App belongs to other",
            'set github.installationId to "777"',
        ),
        (
            {"installed": installation(account={"slug": "acme-enterprise", "id": 1})},
            "installation 12345678 of the App belongs to acme-enterprise",
            'set github.installationId to "777"',
        ),
        (
            {"installed": installation(account=None)},
            "installation 12345678 of the App belongs to no account",
            'set github.installationId to "777"',
        ),
        (
            {"installed": (404, {}), "own": (404, {})},
            "installation 12345678 of the App does not exist",
            "install the App for example: https://github.com/apps/gpu-runners",
        ),
        (
            {"installed": installation(permissions={"organization_self_hosted_runners": "read"})},
            "the installation has organization_self_hosted_runners: read, and runners need write",
            "give the App organization_self_hosted_runners: Read and write, then accept it: https://",
        ),
        (
            {"installed": installation(suspended_at="2026-11-01T00:00:00Z")},
            "the installation has been suspended since 2026-11-01T00:00:00Z",
            PAGE,
        ),
        (
            {
                "groups": {
                    "total_count": 1,
                    "runner_groups": [{"id": 3, "name": "gpu-releases", "visibility": "all", "default": False}],
                }
            },
            "example has no runner group gpu",
            "gh api --method POST orgs/example/actions/runner-groups -f name='gpu'",
        ),
    ],
)
def test_what_does_not_fit_is_wrong_with_its_fix(changes: dict[str, Any], said: str, fix: str) -> None:
    found, _ = ask(shipped("staging"), answers(**changes))
    (wrong,) = [each for each in found if each.state == "wrong"]
    assert wrong.said == said
    assert wrong.fix.startswith(fix)


def test_a_key_that_is_no_key_is_wrong_and_is_not_shown() -> None:
    found, server = ask(shipped("staging"), answers(), key="not a key at all")
    assert found[0].state == "wrong"
    assert found[0].fix == "pulumi config set --stack staging --secret gpu-ci:githubPrivateKey < app.private-key.pem"
    assert "not a key at all" not in repr(found)
    assert [path for _, path in server.asked if path.startswith("/app")] == []


def test_a_repository_needs_another_permission_and_has_no_groups(tmp_path: Any) -> None:
    fleet = edited("staging", tmp_path, ("https://github.com/example", "https://github.com/example/tools"))
    found, _ = ask(fleet, answers(installed=installation(permissions={"administration": "write"})))
    assert lines(found)[-2:] == [
        "ok: the installation has administration: write",
        "skipped: runner groups: a repository has none",
    ]


def test_without_key_and_token_both_parts_are_skipped_with_the_reason() -> None:
    found, server = ask(shipped("staging"), answers(), key="", token="")
    assert lines(found) == [
        "skipped: the App, its permissions and its installation: no key is set",
        'skipped: runner groups: set GH_TOKEN to a token with admin:org: export GH_TOKEN="$(gh auth token)"',
    ]
    assert server.asked == []


def test_a_token_that_may_not_read_groups_is_skipped_with_githubs_answer() -> None:
    found, _ = ask(shipped("staging"), answers(groups=(403, {})))
    assert lines(found)[-1] == ("skipped: runner groups: GitHub answers 403 Forbidden to GET /orgs/example/actions/runner-groups")


def test_a_github_that_cannot_be_reached_is_skipped() -> None:
    found = list(github.findings("staging", shipped("staging"), lambda _: (KEY, ""), TOKEN, "http://127.0.0.1:9"))
    assert {each.state for each in found} == {"skipped"}
    assert all("GitHub cannot be reached" in each.said for each in found)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"what is this\r\n\r\n", "127.0.0.1 does not answer as HTTP has it (BadStatusLine)"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}", "an answer ends early"),
    ],
)
def test_an_answer_that_is_not_http_or_ends_early_is_skipped(raw: bytes, why: str) -> None:
    with serve_raw(raw) as url:
        (_, only) = github.findings("staging", shipped("staging"), lambda _: ("", "no key is set"), TOKEN, url)
    assert only.state == "skipped"
    assert only.said == f"runner groups: GitHub cannot be reached ({why})"


@pytest.mark.parametrize("content", [[1], [], "text"])
def test_an_answer_that_is_no_json_object_is_skipped(content: Any) -> None:
    found, _ = ask(shipped("staging"), answers(groups=(200, content)), key="")
    assert [each.state for each in found] == ["skipped", "skipped"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"groups": {}}, "runner groups: an answer does not have the expected form (KeyError: 'runner_groups')"),
        ({"groups": {"runner_groups": None}}, "runner groups: an answer does not have the expected form (TypeError: "),
        ({"groups": {"runner_groups": [{"name": None}]}}, "runner groups: an answer does not have the expected form (AttributeE"),
        ({"app": {}}, "the App: an answer does not have the expected form (KeyError: 'name')"),
        ({"installed": installation(permissions=[])}, "the App: an answer does not have the expected form (AttributeError: "),
    ],
)
def test_an_answer_without_a_field_that_the_check_reads_is_skipped(changes: dict[str, Any], said: str) -> None:
    found, _ = ask(shipped("staging"), answers(**changes))
    (line,) = [each for each in lines(found) if each.startswith("skipped")]
    assert line.startswith(f"skipped: {said}")


def test_without_pyjwt_the_app_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    found, _ = ask(shipped("staging"), answers())
    assert found[0] == Finding("skipped", "github", "the App: PyJWT is not installed; make doctor installs it")


@pytest.mark.parametrize(
    ("url", "api"),
    [
        ("https://github.com/acme", "https://api.github.com"),
        ("https://acme.ghe.com/platform", "https://api.acme.ghe.com"),
        ("https://git.acme.io/platform/tools", "https://git.acme.io/api/v3"),
    ],
)
def test_each_kind_of_github_has_its_own_address(url: str, api: str) -> None:
    assert api_of(url) == api


def two_organizations() -> Any:
    """The fleet of the example with two scopes."""
    return fleet_of(load("two-organizations", ROOT, stack_file=ROOT / "examples" / "Pulumi.two-organizations.yaml"))


def test_each_scope_is_asked_with_its_own_key_and_its_own_groups() -> None:
    theirs = installation(id=23456789, account={"login": "other"})
    more = {
        "/app/installations/23456789": (200, theirs),
        "/orgs/example-research/installation": (404, {}),
        "/orgs/example-research/actions/runner-groups": (200, {"total_count": 0, "runner_groups": []}),
    }
    asked: list[str] = []

    def key_of(secret: str) -> tuple[str, str]:
        asked.append(secret)
        return KEY, ""

    with serve(answers() | more) as server:
        found = list(github.findings("two-organizations", two_organizations(), key_of, TOKEN, server.url))
    assert asked == ["githubPrivateKey", "githubPrivateKey-research"]
    assert [line for line in lines(found) if line.startswith("wrong")] == [
        "wrong: installation 23456789 of the App belongs to other",
        "wrong: example-research has no runner group gpu-research",
    ]
    assert "ok: example has the runner group gpu" in lines(found)
    assert not any("group gpu-research" in line and "example has" in line for line in lines(found))


def test_without_a_key_each_scope_is_named() -> None:
    found = list(github.findings("two-organizations", two_organizations(), lambda _: ("", "no key"), "", "http://127.0.0.1:9"))
    assert [line for line in lines(found) if "no key" in line] == [
        f"skipped: the App of scope {scope}, its permissions and its installation: no key" for scope in ("default", "research")
    ]
