"""runner-group-scoped: a group of its own, at an owner that the stack serves."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.kinds import RELEASE
from policies.rules.runner_group_scoped import RULE, RUNNER_SET
from tests.policies.cases import Case
from tests.policies.fixtures import GPU_POD, release
from tests.policies.harness import CLEAN, REMOVE, changed, config_of, judge, said
from tests.policies.suite import Suite

OWNERS = {"owners": ["github.com/example", "ghes.example.com/ml", "github.com/enterprises/acme"]}
SET = changed(release(GPU_POD), "values", "runnerGroup", "gpu")
DECLARED = {"spec": {"githubConfigUrl": "https://github.com/example", "runnerGroup": "gpu"}}


def ungrouped(shown: str, path: str = "values") -> str:
    return (
        f"{path}.runnerGroup is {shown}: every repository of the owner may use the default group; create a group for the "
        "repositories that these runners serve, and write its name"
    )


def unscoped(shown: str, path: str = "values") -> str:
    return (
        f"{path}.githubConfigUrl is {shown}: not the URL of an owner or repository; write https://github.com/<organization>, or "
        "…/<organization>/<repository>"
    )


def foreign(shown: str, path: str = "values", owner: str = "github.com/other") -> str:
    return (
        f"{path}.githubConfigUrl is {shown}: its owner is not one that this stack serves (github.com/example, "
        f"ghes.example.com/ml, github.com/enterprises/acme); correct Pulumi.staging.yaml: gpu-ci:github.url, or add "
        f'"{owner}" to {config_of(RULE.id, "owners")}'
    )


def with_url(url: Any) -> dict[str, Any]:
    return dict(changed(SET, "values", "githubConfigUrl", url))


@pytest.mark.parametrize(
    ("group", "shown"),
    [
        (REMOVE, "not set"),
        (None, "not set"),
        ("", '""'),
        ("default", '"default"'),
        ("Default", '"Default"'),
        (" ", '" "'),
        ([], "a list"),
    ],
)
def test_the_default_group_is_everybodys(group: Any, shown: str) -> None:
    assert judge(RULE, RELEASE, changed(SET, "values", "runnerGroup", group)) == said(ungrouped(shown))


@pytest.mark.parametrize("url", ["https://github.com/example/tools", "https://github.com/example/tools/"])
def test_a_set_of_one_repository_has_no_group(url: str) -> None:
    props = changed(with_url(url), "values", "runnerGroup", REMOVE)
    assert judge(RULE, RELEASE, props, OWNERS) == CLEAN


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/example",
        "https://GitHub.com/Example/",
        "https://ghes.example.com/ml",
        "https://github.com/enterprises/acme",
    ],
)
def test_the_owners_of_the_stack_pass_however_they_are_written(url: str) -> None:
    assert judge(RULE, RELEASE, with_url(url), OWNERS) == CLEAN


@pytest.mark.parametrize(
    "url", ["https://github.com/other", "https://gitlab.com/example", "https://github.com/enterprises/other"]
)
def test_other_owners_are_refused_where_the_stack_names_its_own(url: str) -> None:
    assert judge(RULE, RELEASE, with_url(url)) == CLEAN, "no owners, no list to keep to"
    assert judge(RULE, RELEASE, with_url(url), OWNERS) == said(foreign(f'"{url}"', owner=url.removeprefix("https://")))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://github.com/example", '"http://github.com/example"'),
        ("https://github.com/", '"https://github.com/"'),
        ("https://github.com/a/b/c", '"https://github.com/a/b/c"'),
        ("github.com/example", '"github.com/example"'),
        ("", '""'),
        (None, "not set"),
        (7, "7"),
    ],
)
def test_a_scope_is_an_owner_or_a_repository_by_https(url: Any, shown: str) -> None:
    assert judge(RULE, RELEASE, with_url(url)) == said(unscoped(shown))


def test_a_password_in_the_url_is_not_shown() -> None:
    (message,) = judge(RULE, RELEASE, with_url("https://ci:hunter2@github.com/example")).messages
    assert message == unscoped("one with a password")


@pytest.mark.parametrize("chart", ["gha-runner-scale-set-controller", "gpu-operator", None])
def test_other_charts_are_none_of_its_business(chart: str | None) -> None:
    assert judge(RULE, RELEASE, {"chart": chart, "values": {}}) == CLEAN


def test_an_unknown_url_may_be_one_repositorys() -> None:
    path = ("values", "githubConfigUrl")
    assert judge(RULE, RELEASE, SET, unknown=path).unknown == ".".join(path)
    default = changed(SET, "values", "runnerGroup", "default")
    assert judge(RULE, RELEASE, default, unknown=path) == said(unknown=".".join(path))


SUITE = Suite(
    RULE,
    passing=(Case(RELEASE, SET), Case(RELEASE, SET, config=OWNERS), Case(RUNNER_SET, DECLARED)),
    violating=(
        Case(RELEASE, changed(SET, "values", "runnerGroup", "default"), (ungrouped('"default"'),)),
        Case(RELEASE, with_url("https://github.com/other"), (foreign('"https://github.com/other"'),), config=OWNERS),
        Case(RUNNER_SET, changed(DECLARED, "spec", "runnerGroup", REMOVE), (ungrouped("not set", "spec"),)),
    ),
)
