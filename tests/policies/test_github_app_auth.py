"""github-app-auth: a GitHub App's three keys, in values and in Secrets; no person's token, and no value in any message."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from policies.rules.github_app_auth import APP_KEYS, RULE
from policies.rules.kinds import RELEASE, SECRET
from tests.policies.cases import Case
from tests.policies.fixtures import GPU_POD, release
from tests.policies.harness import CLEAN, REMOVE, changed, judge, said, secret
from tests.policies.suite import Suite

PERSONAL = (
    "a personal access token has more permissions than runners need and ends with its owner's account; use a GitHub App's keys"
)
ALL = "github_app_id, github_app_installation_id and github_app_private_key"
APP = {"github_app_id": "123456", "github_app_installation_id": "654321", "github_app_private_key": "hunter2"}
SET = changed(release(GPU_POD), "values", "githubConfigSecret", "github-app")
PATH = ("values", "githubConfigSecret")


def unset(shown: str) -> str:
    return f"values.githubConfigSecret is {shown}: runners register with a GitHub App; write the name of a Secret with {ALL}"


def lacking(path: str, *names: str) -> str:
    return f"{path} has no {', '.join(names)}: a GitHub App needs {ALL}; write all three"


def encoded(values: dict[str, str]) -> dict[str, str]:
    return {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}


def set_with(given: Any) -> dict[str, Any]:
    return dict(changed(SET, *PATH, given))


def test_the_name_of_a_secret_is_believed() -> None:
    assert judge(RULE, RELEASE, SET) == CLEAN


@pytest.mark.parametrize(("given", "shown"), [(REMOVE, "not set"), ("", '""'), ({}, "an object"), ([], "a list"), (7, "7")])
def test_a_set_without_a_secret_cannot_register(given: Any, shown: str) -> None:
    assert judge(RULE, RELEASE, set_with(given)) == said(unset(shown))


@pytest.mark.parametrize("token", ["ghp_hunter2", secret("ghp_hunter2")])
def test_a_token_in_the_values_is_a_persons(token: Any) -> None:
    for given in ({"github_token": token}, APP | {"github_token": token}):
        assert judge(RULE, RELEASE, set_with(given)) == said(f"values.githubConfigSecret.github_token is set: {PERSONAL}")


@pytest.mark.parametrize("lost", APP_KEYS)
@pytest.mark.parametrize("value", [REMOVE, "", None])
def test_an_app_has_three_keys(lost: str, value: Any) -> None:
    assert judge(RULE, RELEASE, set_with(APP)) == CLEAN
    assert judge(RULE, RELEASE, set_with(changed(APP, lost, value))) == said(lacking("values.githubConfigSecret", lost))
    assert judge(RULE, SECRET, {"stringData": changed(APP, lost, value)}) == said(lacking("stringData", lost))


def test_a_number_is_a_key_too() -> None:
    assert judge(RULE, RELEASE, set_with(APP | {"github_app_id": 123456})) == CLEAN


def test_an_empty_token_is_none() -> None:
    assert judge(RULE, RELEASE, set_with({"github_token": ""})) == said(lacking("values.githubConfigSecret", *APP_KEYS))
    assert judge(RULE, RELEASE, set_with(APP | {"github_token": ""})) == CLEAN


@pytest.mark.parametrize("props", [{"stringData": APP}, {"data": encoded(APP)}, {"data": {}, "stringData": APP}])
def test_a_secret_has_them_as_text_or_in_base64(props: dict[str, Any]) -> None:
    assert judge(RULE, SECRET, props) == CLEAN


def test_text_goes_over_base64() -> None:
    first, *others = APP_KEYS
    rest = {key: APP[key] for key in others}
    assert judge(RULE, SECRET, {"data": encoded({first: "1"}), "stringData": rest}) == CLEAN
    assert judge(RULE, SECRET, {"data": encoded(APP), "stringData": {first: ""}}) == said(lacking("stringData", first))


@pytest.mark.parametrize(("field", "held"), [("stringData", "ghp_hunter2"), ("data", base64.b64encode(b"ghp_hunter2").decode())])
def test_a_token_in_a_secret_is_a_persons(field: str, held: str) -> None:
    assert judge(RULE, SECRET, {field: {"github_token": held}}) == said(f"{field}.github_token is set: {PERSONAL}")


@pytest.mark.parametrize(
    "props", [{}, {"data": {"tls.key": "x"}}, {"stringData": {"password": "x"}}, {"type": "Opaque", "data": None}]
)
def test_other_secrets_are_none_of_its_business(props: dict[str, Any]) -> None:
    assert judge(RULE, SECRET, props) == CLEAN


def test_a_value_that_is_unknown_is_neither_there_nor_absent() -> None:
    props = {"stringData": APP}
    key = "github_app_private_key"
    assert judge(RULE, SECRET, props, unknown=("stringData", key)) == said(unknown=f"stringData.{key}")
    assert judge(RULE, SECRET, {"data": {}, **props}, unknown=("data",)) == said(unknown="data")
    broken = {"stringData": changed(APP, "github_app_id", "")}
    assert judge(RULE, SECRET, broken, unknown=("stringData", key)).messages == (lacking("stringData", "github_app_id"),)


def test_no_value_is_ever_in_a_message() -> None:
    for props in (set_with(APP | {"github_token": "hunter2"}), set_with({"github_token": "hunter2", "hunter": "hunter2"})):
        for message in judge(RULE, RELEASE, props).messages:
            assert "hunter2" not in message


SUITE = Suite(
    RULE,
    passing=(
        Case(RELEASE, SET),
        Case(RELEASE, set_with(APP)),
        Case(SECRET, {"stringData": APP}),
        Case(SECRET, {"data": encoded(APP)}),
    ),
    violating=(
        Case(RELEASE, set_with({"github_token": "x"}), (f"values.githubConfigSecret.github_token is set: {PERSONAL}",)),
        Case(SECRET, {"stringData": {"github_token": "x"}}, (f"stringData.github_token is set: {PERSONAL}",)),
        Case(SECRET, {"data": encoded(changed(APP, "github_app_id", REMOVE))}, (lacking("data", "github_app_id"),)),
    ),
)
