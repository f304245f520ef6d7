"""Two GitHub organizations in one stack, through the whole program: each set has its App's Secret, no key is in clear."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from fleet.loading import stackfile
from fleet.loading.config import fleet_of
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.effects import effects
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import Secret, hidden
from tests import plans
from tests.components.recorded import ROOT, STACKS, named, of_type, recorded, with_clusters

KEYS = {"gpu-ci:githubPrivateKey": "the-key-of-example", "gpu-ci:githubPrivateKey-research": "the-key-of-research"}
SECRET = "kubernetes:core/v1:Secret"  # noqa: S105 - a type of resources
RELEASE = "kubernetes:helm.sh/v3:Release"
BUDGET = "aws:budgets/budget:Budget"
EXAMPLE = "two-organizations"


def with_keys(config: StackConfig, keys: dict[str, str]) -> StackConfig:
    """The config with these keys, as the program gets them: decrypted, and marked."""
    return replace(
        config, values={**config.values, **keys}, objects={**config.objects, **keys}, secret_keys=config.secret_keys | keys.keys()
    )


@cache
def example() -> StackConfig:
    """The config of the example, without keys."""
    return stackfile.load(EXAMPLE, ROOT, stack_file=STACKS[EXAMPLE])


@cache
def with_both() -> Recording:
    """What `pulumi up` of the example registers with a key for each App."""
    return plans.program(with_keys(example(), KEYS))


def wire(resource: Resource) -> str:
    """All inputs of a resource, with their secrets."""
    return str(resource.wire)


def test_each_set_has_the_secret_of_its_own_app_in_its_own_namespace() -> None:
    apps = {
        str(secret.inputs["metadata"]["namespace"]): (
            [key for key in KEYS.values() if key in wire(secret)],
            [number for number in ("123456", "234567") if f'"{number}"' in wire(secret)],
        )
        for secret in of_type(with_both(), SECRET)
        if "-github-app" in secret.name
    }
    assert apps == {
        "runners-gpu-t4": (["the-key-of-example"], ["123456"]),
        "runners-gpu-t4-research": (["the-key-of-research"], ["234567"]),
    }


def test_no_key_is_in_clear_and_only_its_set_has_it() -> None:
    for key, name in (("the-key-of-example", "usw2-gpu-t4"), ("the-key-of-research", "usw2-gpu-t4-research")):
        holders = {(resource.type, resource.name) for resource in with_both().resources if key in wire(resource)}
        secret = f"{name}-github-app{'-research' if name.endswith('research') else ''}"
        assert holders == {(SECRET, secret), ("gpu-ci:index:ArcRunnerSet", name)}
        assert key not in repr(with_both().resources)
        assert isinstance(named(with_both(), name, "gpu-ci:index:ArcRunnerSet").inputs["githubPrivateKey"], Secret)


def test_each_set_registers_at_its_own_organization_and_group() -> None:
    sets = {
        chart.name: (chart.inputs["values"]["githubConfigUrl"], chart.inputs["values"]["runnerGroup"])
        for chart in of_type(recorded(EXAMPLE), RELEASE)
        if "githubConfigUrl" in chart.inputs["values"]
    }
    assert sets == {
        "usw2-gpu-t4-chart": ("https://github.com/example", "gpu"),
        "usw2-gpu-t4-research-chart": ("https://github.com/example-research", "gpu-research"),
    }


def test_a_set_that_changes_its_organization_leaves_the_old_one_with_the_old_key() -> None:
    clusters: Any = json.loads(example().values["gpu-ci:clusters"])
    clusters["usw2"]["runners"]["gpu-t4"]["github"] = "research"
    after = plans.program(with_keys(with_clusters(example(), clusters), KEYS))
    chart = named(after, "usw2-gpu-t4-chart", RELEASE)
    effect = effects(with_both().resources, after.resources)
    states = {urn.rpartition("::")[2]: effect[urn].state for urn in effect if "usw2-gpu-t4-" in urn and effect[urn].state}
    assert states["usw2-gpu-t4-github-app"] == "removed", "Pulumi deletes what no program declares last, so ARC has the old key"
    assert states["usw2-gpu-t4-github-app-research"] == "added", "the new set has the key of its own App"
    assert states["usw2-gpu-t4-chart"] == "replaced"
    assert chart.inputs["values"]["githubConfigSecret"] == "github-app-research"
    assert named(after, "usw2-gpu-t4-github-app-research", SECRET).urn in chart.dependencies


@pytest.mark.parametrize("missing", KEYS)
def test_a_missing_key_is_told_by_its_name_before_any_resource(missing: str) -> None:
    there = {name: value for name, value in KEYS.items() if name != missing}
    with pytest.raises(Exception, match=f"Missing required configuration variable '{missing}'"):
        plans.program(with_keys(example(), there))


def test_one_app_in_two_organizations_needs_one_key() -> None:
    config = example()
    github: Any = json.loads(config.values["gpu-ci:github"])
    github["scopes"]["research"]["appId"] = github["appId"]
    shared = replace(
        config,
        objects={**config.objects, "gpu-ci:github": github},
        values={**config.values, "gpu-ci:github": json.dumps(github)},
    )
    recording = plans.program(with_keys(shared, {"gpu-ci:githubPrivateKey": "one-key"}))
    secrets = [secret for secret in of_type(recording, SECRET) if "-github-app" in secret.name]
    assert len(secrets) == 2
    assert all("one-key" in wire(secret) for secret in secrets)
    assert sorted(number for secret in secrets for number in ("12345678", "23456789") if f'"{number}"' in wire(secret)) == [
        "12345678",
        "23456789",
    ], "each has the installation of its organization"


def test_git_has_a_reference_for_each_scope_and_no_key() -> None:
    clusters: Any = json.loads(example().values["gpu-ci:clusters"])
    clusters["usw2"] |= {
        "delivery": "argocd",
        "gitops": {
            "repository": "https://github.com/example/fleet",
            "path": "clusters/gpu-ci-two-organizations-usw2",
            "secrets": {"by": "external-secrets", "key": "github-app"},
            "scopeSecrets": {"research": {"by": "external-secrets", "key": "github-app-research"}},
        },
    }
    config = with_clusters(example(), clusters)
    program, git = plans.declared(ROOT, config, fleet_of(config))
    assert git is not None
    assert program is not None, "needs no key at all"
    external = [resource for resource in git.resources if resource.inputs.get("kind") == "ExternalSecret"]
    keys = {
        resource.inputs["metadata"]["namespace"]: (
            resource.inputs["spec"]["data"][0]["remoteRef"]["key"],
            resource.inputs["spec"]["target"]["template"]["data"]["github_app_id"],
        )
        for resource in external
    }
    assert keys == {
        "runners-gpu-t4": ("github-app", "123456"),
        "runners-gpu-t4-research": ("github-app-research", "234567"),
    }
    assert not any(any(hidden(resource.inputs)) for resource in external)


# -- budgets of pools ------------------------------------------------------------------------------------------------------


def test_a_budget_of_pools_counts_the_nodes_of_its_pools_in_this_cluster_of_this_stack() -> None:
    budgets = {budget.name: budget for budget in of_type(recorded(EXAMPLE), BUDGET)}
    assert budgets.keys() == {"usw2-budget", "usw2-pools.product-budget", "usw2-pools.research-budget"}
    research = budgets["usw2-pools.research-budget"].inputs
    assert "costFilters" not in research, "AWS takes one of the two"
    assert (research["limitAmount"], research["metrics"]) == ("300", "UnblendedCost")
    counted = {part["tags"]["key"]: part["tags"]["values"] for part in research["filterExpression"]["ands"]}
    assert counted == {"gpu-ci/stack": [EXAMPLE], "gpu-ci/cluster": ["usw2"], "gpu-ci/pool": ["t4-research"]}
    template = named(recorded(EXAMPLE), "usw2-t4-research-launch", "aws:ec2/launchTemplate:LaunchTemplate")
    for specification in template.inputs["tagSpecifications"]:
        tags = specification["tags"]
        assert all(tags[key] in values for key, values in counted.items()), f"{specification['resourceType']} is counted"


def test_a_budget_of_pools_changes_no_other_resource() -> None:
    clusters: Any = json.loads(example().values["gpu-ci:clusters"])
    del clusters["usw2"]["poolBudgets"]
    without = plans.program(with_keys(with_clusters(example(), clusters), KEYS))
    kept = {resource.urn: wire(resource) for resource in with_both().resources if "-pools." not in resource.name}
    assert {resource.urn: wire(resource) for resource in without.resources} == kept
