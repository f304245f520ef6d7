"""gpu-mig-resource-known: slices of profiles that the stack has, and strategies that make slices resources."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules import kinds
from policies.rules.gpu_mig_resource_known import RULE
from tests.policies.cases import Case
from tests.policies.fixtures import GPU, GPU_POD, POD, RELEASE, pod
from tests.policies.harness import CLEAN, Verdict, changed, config_of, judge, said, spelled
from tests.policies.published import chart_values, has_field, resource_schema
from tests.policies.suite import Suite, in_pods

SLICE = "nvidia.com/mig-1g.5gb"
ONE = {"profiles": ["1g.5gb"]}
QUEUE = "kubernetes:kueue.x-k8s.io/v1beta2:ClusterQueue"
POLICY = "kubernetes:nvidia.com/v1:ClusterPolicy"


def taking(name: str = SLICE, field: str = "limits") -> dict[str, Any]:
    return {"containers": [{"name": "a", "resources": {field: {"cpu": 1, name: 1}}}]}


def unknown(name: str = SLICE, *profiles: str, place: str = "spec.containers[0].resources.limits asks for") -> str:
    there = f"has {', '.join(profiles)}" if profiles else "has no MIG profiles, so a slice is named nvidia.com/gpu"
    more, profile = config_of(RULE.id, "profiles"), name.removeprefix("nvidia.com/mig-").removesuffix(".shared")
    return f'{place} "{name}": this stack {there}; ask for one that exists, or add "{profile}" to {more}'


def mixed(path: str) -> str:
    return (
        f'{path} is "mixed": each MIG profile then has its own resource name, but this stack lists no profile; '
        f"list its profiles in {config_of(RULE.id, 'profiles')}"
    )


def queue(*names: str) -> dict[str, Any]:
    return {"spec": {"resourceGroups": [{"coveredResources": ["cpu"]}, {"coveredResources": list(names), "flavors": []}]}}


def covered(name: str) -> str:
    return unknown(name, place="spec.resourceGroups[1].coveredResources[1] is")


def operator(strategy: Any) -> dict[str, Any]:
    return {"chart": "nvidia/gpu-operator", "values": {"mig": {"strategy": strategy}}}


def plugin(strategy: Any = None, **files: str) -> dict[str, Any]:
    return {"chart": "nvidia-device-plugin-0.20.0.tgz", "values": {"migStrategy": strategy, "config": {"map": files}}}


def policy(strategy: str) -> dict[str, Any]:
    return {"spec": {"mig": {"strategy": strategy}}}


def judged(spec: dict[str, Any], **config: Any) -> Verdict:
    return judge(RULE, POD, pod(spec), config)


def test_without_mig_there_are_no_slices_to_ask_for() -> None:
    assert judged(GPU_POD) == CLEAN
    assert judged(taking()) == said(unknown())
    assert judged(taking(field="requests")) == said(unknown(place="spec.containers[0].resources.requests asks for"))


def test_a_limit_and_its_request_are_told_once() -> None:
    spec = changed(taking(), "containers", 0, "resources", "requests", {SLICE: 1})
    assert judged(spec) == said(unknown())


@pytest.mark.parametrize("name", [SLICE, f"{SLICE}.shared"])
def test_a_profile_that_the_stack_has_passes(name: str) -> None:
    assert judged(taking(name), **ONE) == CLEAN


@pytest.mark.parametrize("profile", ["1g.5gb.me", "1g.5gb+me"])
def test_a_profile_with_media_engines_is_another_one(profile: str) -> None:
    name = f"{SLICE}.me"
    assert judged(taking(name), **ONE) == said(unknown(name, "1g.5gb"))
    assert judged(taking(name), profiles=[profile]) == CLEAN
    assert judged(taking(), profiles=[profile]) == said(unknown(SLICE, "1g.5gb.me"))


@pytest.mark.parametrize("name", ["nvidia.com/mig-9g.900gb", "nvidia.com/mig-", "nvidia.com/mig-small"])
def test_a_name_that_is_no_profile_at_all_is_told(name: str) -> None:
    assert judged(taking(name), **ONE) == said(unknown(name, "1g.5gb"))


def test_a_slice_beside_a_whole_gpu_is_judged_for_itself() -> None:
    spec = {"containers": [*GPU_POD["containers"], taking()["containers"][0]]}
    assert judged(spec) == said(unknown(place="spec.containers[1].resources.limits asks for"))


def test_how_many_slices_does_not_matter_and_may_be_unknown() -> None:
    path = ("spec", "containers", 0, "resources", "limits", SLICE)
    assert judge(RULE, POD, pod(taking()), unknown=path).messages == (unknown(),)
    assert judge(RULE, POD, pod(taking()), unknown=path[:-1]) == said(unknown=spelled(path[:-1]))


def test_queues_cover_what_there_is() -> None:
    assert judge(RULE, QUEUE, queue(GPU, SLICE), ONE) == CLEAN
    assert judge(RULE, QUEUE, queue(GPU, SLICE)) == said(covered(SLICE))


@pytest.mark.parametrize("strategy", ["none", "single", None, 7])
def test_other_strategies_make_no_new_resource(strategy: Any) -> None:
    assert judge(RULE, RELEASE, operator(strategy)) == CLEAN
    assert judge(RULE, RELEASE, plugin(strategy)) == CLEAN


def test_who_mixes_lists_the_profiles() -> None:
    assert judge(RULE, RELEASE, operator("mixed")) == said(mixed("values.mig.strategy"))
    assert judge(RULE, RELEASE, plugin("mixed")) == said(mixed("values.migStrategy"))
    assert judge(RULE, POLICY, policy("mixed")) == said(mixed("spec.mig.strategy"))
    for token, props in ((RELEASE, operator("mixed")), (RELEASE, plugin("mixed")), (POLICY, policy("mixed"))):
        assert judge(RULE, token, props, ONE) == CLEAN


def test_a_value_of_the_plugin_is_above_its_configs() -> None:
    files = {"a": "flags: {migStrategy: none}", "b": "version: v1\nflags:\n  migStrategy: mixed"}
    path = 'values.config.map["b"].flags.migStrategy'
    assert judge(RULE, RELEASE, plugin(**files)) == said(mixed(path))
    assert judge(RULE, RELEASE, plugin("none", **files)) == CLEAN


def test_values_of_other_charts_say_nothing_of_mig() -> None:
    assert judge(RULE, RELEASE, operator("mixed") | {"chart": "kueue"}) == CLEAN


@pytest.mark.reference
def test_the_fields_are_those_of_the_charts_and_of_the_resource() -> None:
    assert chart_values("gpu-operator")["mig"]["strategy"] == "single", "the operator's is too, without a word"
    assert chart_values("nvidia-device-plugin")["migStrategy"] is None
    assert has_field(resource_schema("nvidia.com", "ClusterPolicy", "v1"), "spec", "mig", "strategy")


@pytest.mark.reference
@pytest.mark.parametrize("token", sorted(kinds.QUEUES))
def test_the_fields_of_queues_are_those_of_their_schemas(token: str) -> None:
    _, version, kind = token.split(":")
    group, _, version = version.partition("/")
    schema = resource_schema(group, kind.removesuffix("Patch"), version)
    assert has_field(schema, "spec", "resourceGroups", "coveredResources")
    assert has_field(schema, "spec", "resourceGroups", "flavors", "resources", "nominalQuota")


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(GPU_POD),
        *(Case(token, queue(GPU)) for token in sorted(kinds.QUEUES)),
        *(Case(token, policy("single")) for token in sorted(kinds.CLUSTER_POLICY)),
        Case(RELEASE, operator("single")),
        Case(RELEASE, plugin("none", a="flags: {migStrategy: mixed}")),
        Case(POD, pod(taking()), config=ONE),
    ),
    violating=(
        *in_pods(taking(), unknown(place="{pod}.containers[0].resources.limits asks for")),
        Case(POD, pod(taking("nvidia.com/mig-7g.40gb")), (unknown("nvidia.com/mig-7g.40gb", "1g.5gb"),), ONE),
        *(Case(token, queue(GPU, SLICE), (covered(SLICE),)) for token in sorted(kinds.QUEUES)),
        *(Case(token, policy("mixed"), (mixed("spec.mig.strategy"),)) for token in sorted(kinds.CLUSTER_POLICY)),
        Case(RELEASE, operator("mixed"), (mixed("values.mig.strategy"),)),
        Case(RELEASE, plugin("mixed"), (mixed("values.migStrategy"),)),
    ),
)
