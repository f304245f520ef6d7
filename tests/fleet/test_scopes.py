"""Several GitHub organizations and repositories in one stack: which rules hold for the jobs of each, and what each owner sees."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from fleet.facts.errors import FleetError
from fleet.loading.config import load, load_fleet
from fleet.prove import remarks, works
from fleet.providers.fleet import Fleet
from fleet.render.monitoring.rules.cost import cost_groups
from fleet.settings.github import GitHubScope
from tests.builders import build_caches, cluster, config, gitops, pool, runner, talos_cluster
from tests.cases import cases

OURS = {"url": "https://github.com/example", "appId": "123456", "installationId": "12345678"}
RESEARCH = {"url": "https://github.com/example-research", "appId": "234567", "installationId": "23456789", "group": "lab"}
SHARED = {"t4": pool(acceptSharedNodes="both organizations are of one company")}
EAST = {"region": "us-east-1", "zones": ["us-east-1a", "us-east-1b"]}


def fleet(clusters: dict[str, Any], **scopes: Any) -> Fleet:
    """A fleet with the scope research, or with `scopes`."""
    return load(config(github=OURS | {"scopes": scopes or {"research": RESEARCH}}, clusters=clusters))


def two(here: dict[str, Any], there: dict[str, Any], **scopes: Any) -> Fleet:
    """A class of each of two clusters. The second cluster is of the scope research."""
    clusters = {"usw2": cluster(runners=here), "use1": cluster(**EAST, runners=there, github="research")}
    return fleet(clusters, **scopes)


def refused(match: str, *args: Any, **scopes: Any) -> None:
    with pytest.raises(FleetError, match=match):
        two(*args, **scopes)


def test_a_class_wins_over_its_cluster_and_default_is_the_first_scope() -> None:
    runners = {"gpu-t4": runner(), "gpu-own": runner(github="default"), "gpu-team": runner(group="team")}
    found = fleet({"usw2": cluster(github="research", pools=SHARED, runners=runners)})
    seats = {name: (found.scope_of(of, row).url, found.group_of(of, row)) for of, name, row in found.runner_sets()}
    assert seats == {
        "gpu-t4": (RESEARCH["url"], "lab"),
        "gpu-own": (OURS["url"], "default"),
        "gpu-team": (RESEARCH["url"], "team"),
    }


def test_the_plan_says_which_runners_each_organization_has() -> None:
    found = fleet({"usw2": cluster(pools=SHARED, runners={"gpu-t4": runner(), "gpu-lab": runner(github="research")})})
    assert list(remarks.scopes(found)) == [
        "scope default: runners of https://github.com/example: usw2/gpu-t4 in group default",
        "scope research: runners of https://github.com/example-research: usw2/gpu-lab in group lab",
    ]
    assert not list(remarks.scopes(load(config()))), "with one organization there is nothing to distinguish"


# -- names and labels ------------------------------------------------------------------------------------------------------


def test_two_organizations_may_use_the_same_name_and_the_same_labels() -> None:
    same = {"gpu-t4": runner(labels=["gpu", "any-t4"])}
    found = two(same, same, research=RESEARCH | {"group": "default"})
    assert found.shared_names == (), "no job reaches both"
    with pytest.raises(FleetError, match="cluster usw2 has a runner set with that name in group default"):
        load(config(clusters={"usw2": cluster(runners=same), "use1": cluster(**EAST, runners=same)}))


APP = RESEARCH | {"url": "https://github.com/Example/app", "group": "default"}
"""A repository of the first organization: its jobs reach the runners of both."""


@cases(
    ("labels", "other", "told"),
    [
        ({}, {}, "cluster use. has a runner set with that name|cluster usw2 has a runner set with that name in group default"),
        ({"labels": ["gpu"]}, {"labels": ["cuda"]}, "both have generic labels"),
    ],
)
def test_jobs_of_a_repository_also_reach_the_sets_of_its_organization(
    labels: dict[str, Any], other: dict[str, Any], told: str
) -> None:
    name = "gpu-t4" if not labels else "gpu-east"
    refused(told, {"gpu-t4": runner(**labels)}, {name: runner(**other)}, research=APP)


def test_an_error_that_holds_for_the_jobs_of_two_scopes_is_reported_once() -> None:
    runners = {"one": runner(labels=["gpu"]), "two": runner(labels=["cuda"]), "of-app": runner(github="research")}
    with pytest.raises(FleetError, match="both have generic labels") as error:
        fleet({"usw2": cluster(pools=SHARED, runners=runners)}, research=APP)
    assert len(error.value.problems) == 1


def test_a_label_of_an_organization_selects_no_other_set_of_its_repository() -> None:
    sets = {"gpu-t4": runner(labels=["big"])}, {"gpu-e": runner(labels=["big"])}
    refused("label 'big' already selects set usw2/gpu-t4", *sets, research=APP)
    two(*sets)


def test_a_runs_on_must_name_the_group_where_one_job_reaches_both() -> None:
    sets = {"gpu-t4": runner()}, {"gpu-t4": runner(group="own")}
    assert two(*sets, research=APP).shared_names == ("gpu-t4",)
    assert two(*sets).shared_names == ()


def test_two_repositories_of_one_owner_share_nothing() -> None:
    github = OURS | {"url": "https://github.com/example/one", "scopes": {"research": APP}}
    same = {"gpu-t4": runner()}
    there = cluster(**EAST, runners=same, github="research")
    load(config(github=github, clusters={"usw2": cluster(runners=same), "use1": there}))


@given(st.lists(st.sampled_from(["a", "B", "c-d", "a.b"]), min_size=1, max_size=2), st.lists(st.sampled_from("aBb"), max_size=2))
def test_a_scope_serves_itself_and_what_is_below_it(path: list[str], more: list[str]) -> None:
    scope = GitHubScope.model_construct(url=f"https://github.com/{'/'.join(path)}", app_id="1", installation_id="2")
    below = f"github.com/{'/'.join([*path, *more])}"
    assert scope.serves(below)
    assert scope.serves(below.swapcase().replace("GITHUB.COM", "github.com"))
    assert not scope.serves(f"{scope.path}x/{'/'.join(more)}"), "acme is not acme-labs"
    assert not scope.serves(below.replace("github.com", "ghes.example.com"))


# -- reruns and sets of one class ------------------------------------------------------------------------------------------


@cases(("scope", "told"), [("research", "group default has no other set of pods with this name"), ("default", "")])
def test_interrupted_jobs_run_again_in_their_own_organization(scope: str, told: str) -> None:
    runners = {"gpu-t4": runner(pool=None, pools=["spot", "t4"], rerunOn="again"), "again": runner(github=scope)}
    more = {} if told else {"other": runner(pool="lab", github="research")}
    pools = {"spot": pool(capacity="spot"), "t4": pool(), "lab": pool()}
    clusters = {"usw2": cluster(pools=pools, runners=runners | more)}
    if told:
        with pytest.raises(FleetError, match=told):
            fleet(clusters, research=RESEARCH | {"group": "default"})
    else:
        fleet(clusters)


def test_sets_of_one_class_are_of_one_organization() -> None:
    refused(
        "GitHub scope is https://github.com/example-research here and https://github.com/example there",
        {"gpu-t4": runner(labels=["any"])},
        {"gpu-east": runner(labels=["any"], sameAs="usw2/gpu-t4")},
        research=RESEARCH | {"group": "default"},
    )


# -- servers ---------------------------------------------------------------------------------------------------------------


def test_each_cluster_must_reach_the_server_of_its_own_classes() -> None:
    found = two({"gpu-t4": runner()}, {"gpu-t4": runner()}, research=RESEARCH | {"url": "https://10.1.2.3/example"})
    (told,) = works.github_server(found)
    assert str(told).startswith("use1: GitHub server 10.1.2.3 has a private address")


def test_each_server_has_its_own_line_about_labels() -> None:
    sets = {"gpu-t4": runner(labels=["a"])}, {"gpu-east": runner(labels=["b"])}
    lines = list(remarks.labels(two(*sets, research=RESEARCH | {"url": "https://ghes.example.com/example"})))
    assert [line.partition(":")[0] for line in lines] == ["labels of usw2/gpu-t4", "labels of use1/gpu-east"]
    assert "disputed" in lines[0]
    assert "GitHub Enterprise Server" in lines[1]
    assert len(list(remarks.labels(two(*sets)))) == 1


# -- secrets ---------------------------------------------------------------------------------------------------------------


def test_an_app_that_is_installed_twice_has_one_key() -> None:
    sets = {"gpu-t4": runner()}, {"gpu-east": runner()}
    assert two(*sets).secrets == {"default": "githubPrivateKey", "research": "githubPrivateKey-research"}
    again = RESEARCH | {"appId": OURS["appId"]}
    assert two(*sets, research=again).secrets == dict.fromkeys(("default", "research"), "githubPrivateKey")
    elsewhere = again | {"url": "https://ghes.example.com/example"}
    assert two(*sets, research=elsewhere).secrets["research"] == "githubPrivateKey-research", "Apps of another server"


def test_a_stack_needs_no_key_of_a_scope_without_classes() -> None:
    assert fleet({"usw2": cluster(github="research")}).secrets == {"research": "githubPrivateKey-research"}


@cases(
    ("key", "secret", "told"),
    [
        ("githubPrivateKey-research", True, ""),
        ("githubPrivateKey-research", False, "a secret in clear text; a private key must not be in a file"),
        ("githubPrivateKey-reserch", True, "unknown key; did you mean githubPrivateKey-research?"),
        ("githubPrivateKey-old", True, "that is gone: pulumi config rm gpu-ci:githubPrivateKey-old"),
        ("githubPrivateKeys", True, "unknown key"),
    ],
)
def test_a_key_of_a_scope_is_a_secret_of_its_own(key: str, secret: bool, told: str) -> None:
    whole = config(github=OURS | {"scopes": {"research": RESEARCH}}, clusters={"usw2": cluster(github="research")})
    held = whole | {key: "[secret]"}
    if not told:
        load_fleet(held, [key], "gpu-ci", "test")
        return
    with pytest.raises(FleetError, match=told) as error:
        load_fleet(held, [key] if secret else [], "gpu-ci", "test")
    assert "[secret]" not in str(error.value)


SOPS = {"by": "sops", "file": "github-app.enc.yaml"}


@cases(
    ("secrets", "scope", "entry", "told"),
    [
        ({"by": "external-secrets"}, RESEARCH, None, "scope research needs its own entry"),
        ({"by": "external-secrets"}, RESEARCH, {"by": "external-secrets", "key": "research"}, ""),
        ({"by": "external-secrets"}, RESEARCH, SOPS, "the keys of all scopes come the same way, here external-secrets"),
        ({"by": "external-secrets"}, RESEARCH | {"appId": "123456"}, None, ""),
        (SOPS, RESEARCH | {"appId": "123456"}, None, "scope research needs its own entry"),
        (SOPS, RESEARCH, SOPS | {"file": "research.enc.yaml"}, ""),
    ],
)
def test_in_git_each_app_has_its_own_key(secrets: Any, scope: Any, entry: Any, told: str) -> None:
    more = {} if entry is None else {"scopeSecrets": {"research": entry}}
    clusters = {"home": talos_cluster(github="research", gitops=gitops(secrets=secrets, **more))}
    if not told:
        found = fleet(clusters, research=scope).clusters["home"]
        assert found.secrets_of("research") == (found.gitops.scope_secrets.get("research") or found.gitops.secrets)
        return
    with pytest.raises(FleetError, match=told):
        fleet(clusters, research=scope)


# -- what each owner sees --------------------------------------------------------------------------------------------------


def test_build_caches_are_written_by_owners_of_the_cluster_s_scopes() -> None:
    caches = build_caches(repositories=["example-research/app"])
    fleet({"usw2": cluster(buildCaches=caches, github="research")})
    with pytest.raises(FleetError, match="its owner is not example; add example-research to owners"):
        fleet({"usw2": cluster(buildCaches=caches), "use1": cluster(**EAST, runners={"e": runner()}, github="research")})
    elsewhere = RESEARCH | {"url": "https://ghes.example.com/example-research"}
    with pytest.raises(FleetError, match=r"github\.scopes\.research\.url: build caches trust the tokens of github\.com"):
        fleet({"usw2": cluster(buildCaches=caches, github="research")}, research=elsewhere)


def test_groups_of_one_name_in_two_organizations_are_two_teams() -> None:
    runners = {"gpu-t4": runner(), "gpu-lab": runner(github="research")}
    watched = cluster(pools=SHARED, runners=runners, monitoring={"prometheus": "install"})
    found = fleet({"usw2": watched}, research=RESEARCH | {"group": "default"})
    rules = [rule for rule in cost_groups(found, "usw2")[0]["rules"] if rule["record"] == "gpu_ci:team_usd_per_hour"]
    assert [rule["labels"]["team"] for rule in rules] == ["default", "research/default", "other"]


def test_the_sets_that_a_repository_reaches() -> None:
    found = two({"gpu-t4": runner()}, {"gpu-east": runner()})
    assert [name for _, name, _ in found.reached_by("Example-Research/sim")] == ["gpu-east"]
    assert [name for _, name, _ in found.reached_by("example/app")] == ["gpu-t4"]
    assert [*found.reached_by("other/app")] == []
    assert len([*found.reached_by("")]) == 2
