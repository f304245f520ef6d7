"""quota-declared: vCPUs by code and region, GPUs by series and region, GPUs of a namespace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.facts.hardware import machine, quota_code
from policies.rules import quota_declared
from policies.rules.kinds import CONFIG_MAP, RESOURCE_QUOTA
from policies.rules.quota_declared import OCI_QUOTA, RULE, SERVICE_QUOTA
from tests.policies.cases import Member
from tests.policies.container_fixtures import INSIDE, JOBS, hooked, hooks
from tests.policies.harness import CLEAN, UNKNOWN, judge_stack
from tests.policies.machine_fixtures import (
    AWS,
    BOX,
    FLEX,
    LAUNCHERS,
    LEFT,
    MACHINE,
    NODE_POOLS,
    REGION,
    RESERVED,
    SCALING_GROUP,
    SPOT_BOX,
    STANDING,
    SYSTEM,
    T4,
    TEMPLATE,
    V100,
    VM,
    but,
    case,
    elsewhere,
)
from tests.policies.pool_fixtures import GPU, LEAVING, RUNNER, RUNNER_SET, RUNNER_SET_PATCH, runner_set, scale_set
from tests.policies.suite import Suite

SPOT_G, ON_DEMAND_G, ON_DEMAND_P = "L-3819A6DF", "L-DB2E81BA", "L-417A185B"


def vcpus(code: str, value: Any) -> Member:
    return Member(SERVICE_QUOTA, code, {"serviceCode": "ec2", "quotaCode": code, "value": value}, provider=AWS)


def statements(*texts: str) -> Member:
    return Member(OCI_QUOTA, "quotas", {"statements": list(texts)})


def setting(code: str, number: int, region: str = "us-sanjose-1", path: str = "ci") -> str:
    return f"set compute-core quota {code} to {number} in compartment {path} where request.region = '{region}'"


def undeclared(names: str, units: int, code: str, region: str = REGION) -> str:
    return (
        f"AWS {region}: {names} may take {units} vCPUs of quota {code}: "
        f"aws service-quotas get-service-quota --region {region} --service-code ec2 --quota-code {code}"
    )


def too_few(names: str, units: int, code: str, value: str) -> str:
    return (
        f"AWS {REGION}: {names} may take {units} vCPUs of quota {code}, and {value} are declared; "
        f"raise value to {units}, or lower nodes.max"
    )


def unset(names: str, gpus: int, code: str, region: str = "us-sanjose-1") -> str:
    wanted = f"set compute-core quota {code} to {gpus} in compartment <path> where request.region = '{region}'"
    return (
        f"OCI {region}: {names} may take {gpus} GPUs of quota {code}, and no statement of an {OCI_QUOTA} sets it; "
        f'add "{wanted}", or set Pulumi.staging.yaml: gpu-ci:clusters.<cluster>.declareQuotas'
    )


def too_low(names: str, gpus: int, code: str, allowed: int) -> str:
    return (
        f"OCI us-sanjose-1: {names} may take {gpus} GPUs of quota {code}, and statements allow {allowed}; "
        f"raise the number to {gpus}, or lower nodes.max or scale.max"
    )


def unbounded(name: str, resource: str = GPU, namespace: str = "runners") -> str:
    return (
        f'namespace "{namespace}": no {RESOURCE_QUOTA} in it limits requests.{resource}, which runners of {name} ask for; '
        f'add one with spec.hard["requests.{resource}"]'
    )


def messages(*members: Member) -> tuple[str, ...]:
    return judge_stack(RULE, members).messages


def undetermined(*members: Member) -> tuple[str, ...]:
    """The quotas that the account may or may not have."""
    found = judge_stack(RULE, members)
    assert not found.messages
    start = "accountQuotas does not say what the account has; "
    assert found.undeterminable.startswith(start)
    return tuple(found.undeterminable.removeprefix(start).split("; "))


# -- EC2 ---------------------------------------------------------------------------------------------------------------


def test_a_group_takes_the_vcpus_of_its_largest_type_at_its_maximum() -> None:
    assert machine("g4dn.4xlarge").vcpus * 5 == 80
    assert undetermined(TEMPLATE, T4) == (undeclared("usw2/t4", 80, SPOT_G),)
    assert messages(TEMPLATE, T4, vcpus(SPOT_G, 80)) == ()
    assert messages(TEMPLATE, T4, vcpus(SPOT_G, 79)) == (too_few("usw2/t4", 80, SPOT_G, "79"),)


def test_spot_and_on_demand_are_two_quotas_and_each_is_a_sum() -> None:
    on_demand = replace(but(T4, "capacityType", "ON_DEMAND"), name="release")
    members = (TEMPLATE, T4, on_demand, SPOT_BOX, BOX)
    assert undetermined(*members) == (undeclared("box, usw2/t4", 84, ON_DEMAND_G), undeclared("spot-box, usw2/t4", 84, SPOT_G))
    assert messages(*members, vcpus(SPOT_G, 84), vcpus(ON_DEMAND_G, 84)) == ()


def test_a_reservation_takes_its_quota_whole() -> None:
    assert undetermined(RESERVED) == (undeclared("a100-nodes", 192, ON_DEMAND_P),), "two machines are held, one may run"


def test_quotas_are_a_region_s() -> None:
    assert undetermined(TEMPLATE, T4, elsewhere(vcpus(SPOT_G, 999), "us-east-1")) == (undeclared("usw2/t4", 80, SPOT_G),)
    other = replace(elsewhere(T4, "us-east-1"), name="use1-nodes")
    both = (TEMPLATE, T4, other, vcpus(SPOT_G, 80))
    assert undetermined(*both) == (undeclared("usw2/t4", 80, SPOT_G, "us-east-1"),)
    named = but(vcpus(SPOT_G, 80), "region", "us-east-1")
    assert messages(*both, replace(named, name="far")) == (), "a resource's own region goes over its provider's"


def test_the_largest_of_several_declarations_counts_and_those_of_other_services_do_not() -> None:
    assert messages(TEMPLATE, T4, vcpus(SPOT_G, 8), replace(vcpus(SPOT_G, 80), name="more")) == ()
    other = but(vcpus(SPOT_G, 999), "serviceCode", "sagemaker")
    assert undetermined(TEMPLATE, T4, other) == (undeclared("usw2/t4", 80, SPOT_G),)


def test_karpenter_takes_what_its_gpus_are_on_the_largest_type_where_there_is_one_region() -> None:
    assert undetermined(NODE_POOLS, SYSTEM) == (undeclared("a10g", 32, ON_DEMAND_G),)
    assert messages(NODE_POOLS, SYSTEM, replace(elsewhere(SYSTEM, "us-east-1"), name="other")) == ()


def test_cpu_pools_and_types_without_a_known_quota_need_none() -> None:
    assert messages(SYSTEM, FLEX) == ()
    assert quota_code(machine("p5e.48xlarge"), "spot") is not None
    assert quota_code(machine("BM.GPU.L40S.4"), "on-demand") is None
    assert messages(but(VM, "shape", "BM.GPU.L40S.4"), but(BOX, "instanceType", "g9.mega")) == ()


def test_a_declaration_that_is_unknown_may_be_the_one() -> None:
    hidden = judge_stack(RULE, (TEMPLATE, T4, vcpus(SPOT_G, UNKNOWN)))
    assert (hidden.messages, hidden.unknown) == ((), "value")
    assert judge_stack(RULE, (TEMPLATE, T4, vcpus(SPOT_G, 80), replace(vcpus(SPOT_G, UNKNOWN), name="two"))) == CLEAN


# -- OCI ---------------------------------------------------------------------------------------------------------------


def test_a_series_takes_its_gpus_in_each_region_where_they_may_boot() -> None:
    assert messages(V100) == (unset("v100", 4, "gpu3-count"),)
    a10 = "gpu-a10-count"
    assert messages(LAUNCHERS, VM) == (unset("oracle, bench", 10, a10), unset("oracle", 8, a10, "us-ashburn-1"))
    assert messages(LAUNCHERS, statements(setting(a10, 8), setting(a10, 8, "us-ashburn-1"))) == ()
    assert messages(LAUNCHERS, statements(setting(a10, 7), setting(a10, 8, "us-ashburn-1"))) == (too_low("oracle", 8, a10, 7),)


def test_pools_that_leave_need_none() -> None:
    leaving = {LEAVING["key"]: "true"}
    pool = replace(STANDING, props={**STANDING.props, "freeformTags": leaving})
    assert messages(MACHINE, STANDING) == (unset("a10-standing", 2, "gpu-a10-count"),)
    assert messages(MACHINE, pool) == ()
    assert messages(replace(V100, props={**V100.props, "freeformTags": {**V100.props["freeformTags"], **leaving}})) == ()


@pytest.mark.parametrize(
    "texts",
    [
        ("set compute-core quota gpu3-count to 4 in tenancy",),
        ("Set Compute-Core Quotas gpu3-count to 4 in compartment a:b:c",),
        ("set compute-core quota /gpu*/ to 4 in tenancy where request.region = us-sanjose-1",),
        ("zero compute-core quotas in tenancy", setting("gpu3-count", 4)),
        ("zero compute-core quota /*gpu*/ in compartment ci", setting("gpu3-count", 4)),
        (setting("gpu3-count", 1), setting("gpu3-count", 3, path="ci:machines")),
        (setting("gpu3-count", 1), setting("gpu3-count", 4)),
        ("set compute-core quota gpu3-count to 4 in compartment ci where request.ad = 'abcd:US-SANJOSE-1-AD-1'",),
    ],
)
def test_statements_that_allow_it(texts: tuple[str, ...]) -> None:
    assert messages(V100, statements(*texts)) == ()


@pytest.mark.parametrize(
    ("texts", "allowed"),
    [
        (("zero compute-core quotas in tenancy",), 0),
        ((setting("gpu3-count", 4), "zero compute-core quota gpu3-count in compartment ci"), 0),
        ((setting("gpu3-count", 4), setting("gpu3-count", 3)), 3),
        ((setting("gpu3-count", 4), "unset compute-core quota gpu3-count in compartment ci"), None),
        ((setting("gpu3-count", 4, "us-ashburn-1"),), None),
        ((setting("gpu2-count", 4),), None),
        (("set database quota gpu3-count to 4 in tenancy",), None),
        (("set compute-core quota gpu3-count to many in tenancy",), None),
        ((), None),
    ],
)
def test_statements_that_do_not(texts: tuple[str, ...], allowed: int | None) -> None:
    wanted = unset("v100", 4, "gpu3-count") if allowed is None else too_low("v100", 4, "gpu3-count", allowed)
    assert messages(V100, statements(*texts)) == (wanted,)


def test_a_statement_that_is_unknown_may_set_it_or_take_it_back() -> None:
    for texts in ((UNKNOWN,), (setting("gpu3-count", 4), UNKNOWN)):
        hidden = judge_stack(RULE, (V100, statements(*texts)))
        assert not hidden.messages
        assert hidden.unknown
    assert judge_stack(RULE, (SYSTEM, statements(UNKNOWN))) == CLEAN, "nobody asks"


def test_a_statement_of_any_length_is_read() -> None:
    assert messages(V100, statements("set compute-core quota " * 50_000)) == (unset("v100", 4, "gpu3-count"),)


# -- namespaces --------------------------------------------------------------------------------------------------------

SET = Member("kubernetes:helm.sh/v3:Release", "gpu-t4-chart", scale_set(RUNNER) | {"name": "gpu-t4", "namespace": "runners"})
CUSTOM = {
    token: Member(token, "custom", runner_set(RUNNER) | {"metadata": {"name": "own", "namespace": "runners"}})
    for token in (RUNNER_SET, RUNNER_SET_PATCH)
}
HARD = Member(RESOURCE_QUOTA, "quota", {"metadata": {"namespace": "runners"}, "spec": {"hard": {f"requests.{GPU}": "20"}}})


def test_runners_with_a_gpu_have_a_quota_in_their_namespace() -> None:
    assert messages(SET) == (unbounded("gpu-t4"),)
    assert messages(SET, HARD) == ()
    assert messages(SET, but(HARD, "metadata", "namespace", "elsewhere")) == (unbounded("gpu-t4"),)
    assert messages(SET, but(HARD, "spec", "hard", {GPU: "20"})) == (unbounded("gpu-t4"),), "of it requests alone are counted"
    assert messages(SET, but(HARD, "spec", "hard", {f"requests.{GPU}": "none"})) == (unbounded("gpu-t4"),)


def test_the_resource_that_they_ask_for_is_the_one_bounded() -> None:
    sliced = but(SET, "values", "template", "spec", "containers", 0, "resources", "limits", {"nvidia.com/mig-1g.5gb": 1})
    assert messages(sliced, HARD) == (unbounded("gpu-t4", "nvidia.com/mig-1g.5gb"),)


def test_without_a_namespace_it_is_the_default_one() -> None:
    assert messages(but(SET, "namespace", None)) == (unbounded("gpu-t4", namespace="default"),)
    assert messages(but(SET, "namespace", None), but(HARD, "metadata", {})) == ()


def test_a_quota_of_another_cluster_is_none_of_theirs() -> None:
    here = replace(SET, provider={"clusterIdentifier": "here"})
    assert messages(here, HARD) == (unbounded("gpu-t4"),), "no provider is another one"
    assert messages(here, replace(HARD, provider={"clusterIdentifier": "here"})) == ()


@pytest.mark.parametrize("mode", ["kubernetes", "kubernetes-novolume"])
def test_runners_that_make_a_pod_for_each_job_are_left_out(mode: str) -> None:
    assert messages(but(SET, "values", "containerMode", {"type": mode})) == ()
    hook = {"name": "ACTIONS_RUNNER_CONTAINER_HOOKS", "value": "/home/runner/k8s/index.js"}
    assert messages(but(SET, "values", "template", "spec", "containers", 0, "env", [hook])) == ()
    assert messages(but(SET, "values", "containerMode", {"type": "dind"})) == (unbounded("gpu-t4"),)


def small(admits: int, runners: str, asked: int, beyond: str) -> str:
    return (
        f'namespace "runners": a {RESOURCE_QUOTA} admits {admits} requests.{GPU}, and {runners} may ask for {asked}: {beyond}; '
        f'lower maxRunners, so that jobs wait at GitHub, or raise spec.hard["requests.{GPU}"] to {asked}'
    )


def test_a_quota_admits_the_most_runners_of_all_sets_of_its_namespace() -> None:
    """The two sets have four runners of one GPU each. ARC retries a runner that the quota refuses, so its job waits there."""
    holds = "a runner beyond it holds its job until there is room"
    assert messages(SET, but(HARD, "spec", "hard", f"requests.{GPU}", "4")) == ()
    assert messages(SET, but(HARD, "spec", "hard", f"requests.{GPU}", "3")) == (small(3, "4 runners of gpu-t4", 4, holds),)
    own = CUSTOM[RUNNER_SET]
    both = "4 runners of own and 4 runners of gpu-t4", "4 runners of gpu-t4 and 4 runners of own"
    assert messages(SET, own, but(HARD, "spec", "hard", f"requests.{GPU}", "8")) == ()
    (fault,) = messages(SET, own, but(HARD, "spec", "hard", f"requests.{GPU}", "7"))
    assert fault in {small(7, text, 8, holds) for text in both}
    two = but(SET, "values", "template", "spec", "containers", 0, "resources", "limits", {GPU: 2})
    assert messages(two, but(HARD, "spec", "hard", f"requests.{GPU}", "7")) == (small(7, "4 runners of gpu-t4", 8, holds),)
    assert messages(but(SET, "values", "maxRunners", 3), but(HARD, "spec", "hard", f"requests.{GPU}", "3")) == ()
    assert messages(but(SET, "values", "maxRunners", None), but(HARD, "spec", "hard", f"requests.{GPU}", "3")) == ()


def test_where_runners_make_a_pod_for_each_job_a_small_quota_fails_jobs() -> None:
    hooks = but(SET, "values", "containerMode", {"type": "kubernetes"})
    fails = small(3, "4 runners of gpu-t4", 4, "a job beyond it fails")
    assert messages(hooks, but(HARD, "spec", "hard", f"requests.{GPU}", "3")) == (fails,)
    assert messages(hooks, HARD) == ()


def test_a_quota_of_gpus_where_the_pods_of_jobs_are_counts_their_templates() -> None:
    """The set has four runners, and each job one GPU. The program's own quota there counts pods alone."""
    quota = OF_JOBS
    fails = small(3, "4 runners of gpu-t4", 4, "a job beyond it fails").replace('"runners"', f'"{JOBS}"', 1)
    assert messages(hooked(), hooks(), quota) == (fails,)
    assert messages(hooked(), hooks(), but(quota, "spec", "hard", f"requests.{GPU}", "4")) == ()
    of_pods = but(quota, "spec", "hard", {"pods": "4"})
    assert judge_stack(RULE, (hooked(), hooks(), of_pods)) == CLEAN
    assert RULE.in_manifests is not None
    assert CONFIG_MAP in RULE.in_manifests[0], "a check of manifests gives the rule the templates"


def test_how_many_runners_a_set_has_may_be_unknown() -> None:
    few = but(HARD, "spec", "hard", f"requests.{GPU}", "3")
    hidden = judge_stack(RULE, (but(SET, "values", "maxRunners", UNKNOWN), few))
    assert (hidden.messages, bool(hidden.unknown)) == ((), True)


def test_runners_without_a_gpu_need_none() -> None:
    plain = but(SET, "values", "template", "spec", "containers", 0, "resources", {"limits": {"cpu": 1}})
    assert messages(plain, but(SET, "chart", "nginx")) == ()


@pytest.mark.parametrize(
    ("member", "path"),
    [
        (HARD, ("metadata", "namespace")),
        (HARD, ("spec", "hard")),
        (SET, ("namespace",)),
        (SET, ("chart",)),
        (SET, ("values", "containerMode")),
        (SET, ("values", "template", "spec", "containers", 0, "resources")),
    ],
)
def test_an_unknown_part_leaves_it_undetermined(member: Member, path: tuple[Any, ...]) -> None:
    bare = but(HARD, "spec", "hard", {"pods": 4}) if member is SET else None
    members = (but(SET, *path, UNKNOWN), bare) if bare else (SET, but(HARD, *path, UNKNOWN))
    hidden = judge_stack(RULE, members)
    assert not hidden.messages
    assert hidden.unknown


def test_the_reader_of_statements_knows_the_sample_of_oracle_s_page() -> None:
    """docs.oracle.com, Sample Quotas: the region is written without quotes there."""
    text = "set compute-core quota standard-e4-core-count to 240 in compartment MyCompartment where request.region = us-phoenix-1"
    assert quota_declared._allowed((text,), "standard-e4-core-count", "us-phoenix-1") == 240
    assert quota_declared._allowed((text,), "standard-e4-core-count", "us-ashburn-1") is None


A10 = "gpu-a10-count"
OF_JOBS = Member(
    RESOURCE_QUOTA, "team", {"metadata": {"namespace": JOBS}, "spec": {"hard": {f"requests.{GPU}": "3"}}}, provider=INSIDE
)
ASKING: dict[str, tuple[tuple[Member, ...], Member, Member, tuple[str, ...], str]] = {
    "an EKS group": ((TEMPLATE, T4), vcpus(SPOT_G, 80), vcpus(SPOT_G, 64), (too_few("usw2/t4", 80, SPOT_G, "64"),), SPOT_G),
    "an EKS group, and one that leaves": (
        (TEMPLATE, T4, LEFT),
        vcpus(SPOT_G, 160),
        vcpus(SPOT_G, 80),
        (too_few("usw2/t4, usw2/t4 (leaving)", 160, SPOT_G, "80"),),
        SPOT_G,
    ),
    "an Auto Scaling group": (
        (SCALING_GROUP,),
        vcpus(SPOT_G, 32),
        vcpus(SPOT_G, 16),
        (too_few("asg", 32, SPOT_G, "16"),),
        SPOT_G,
    ),
    "Karpenter": (
        (NODE_POOLS, SYSTEM),
        vcpus(ON_DEMAND_G, 32),
        vcpus(ON_DEMAND_G, 31),
        (too_few("a10g", 32, ON_DEMAND_G, "31"),),
        ON_DEMAND_G,
    ),
    "an EC2 instance": (
        (BOX,),
        vcpus(ON_DEMAND_G, 4),
        vcpus(ON_DEMAND_G, 3),
        (too_few("box", 4, ON_DEMAND_G, "3"),),
        ON_DEMAND_G,
    ),
    "a spot request": ((SPOT_BOX,), vcpus(SPOT_G, 4), vcpus(SPOT_G, 3), (too_few("spot-box", 4, SPOT_G, "3"),), SPOT_G),
    "an OKE pool": (
        (V100,),
        statements(setting("gpu3-count", 4)),
        statements(setting("gpu3-count", 3)),
        (too_low("v100", 4, "gpu3-count", 3),),
        "",
    ),
    "an OCI instance": ((VM,), statements(setting(A10, 2)), statements(), (unset("bench", 2, A10),), ""),
    "standing machines": (
        (MACHINE, STANDING),
        statements(setting(A10, 2)),
        statements(setting(A10, 1)),
        (too_low("a10-standing", 2, A10, 1),),
        "",
    ),
    "machines of launchers": (
        (LAUNCHERS,),
        statements(setting(A10, 8), setting(A10, 8, "us-ashburn-1")),
        statements(setting(A10, 8)),
        (unset("oracle", 8, A10, "us-ashburn-1"),),
        "",
    ),
    "a runner set": ((SET,), HARD, but(HARD, "spec", "hard", {"pods": 4}), (unbounded("gpu-t4"),), "gpu-t4-chart"),
    **{
        token: ((member,), HARD, but(HARD, "spec", "hard", {}), (unbounded("own"),), "custom") for token, member in CUSTOM.items()
    },
    "a template of jobs": (
        (hooked(), hooks()),
        but(OF_JOBS, "spec", "hard", f"requests.{GPU}", "4"),
        OF_JOBS,
        (small(3, "4 runners of gpu-t4", 4, "a job beyond it fails").replace('"runners"', f'"{JOBS}"', 1),),
        "team",
    ),
}


@pytest.mark.parametrize(
    ("code", "value", "told"),
    [(SPOT_G, 1920, 0), (SPOT_G, 1921, 1), (ON_DEMAND_P, 100_000, 1), (ON_DEMAND_P, 1920, 0), ("L-1216C47A", 100_000, 0)],
)
def test_a_quota_of_gpus_is_not_far_above_what_the_stack_may_take(code: str, value: int, told: int) -> None:
    """The group takes 80 vCPUs of its spot quota. Of a quota that no pool takes, an account may have some."""
    found = judge_stack(RULE, [TEMPLATE, T4, vcpus(SPOT_G, 80), replace(vcpus(code, value), name="far")])
    assert sum("lower it" in message for message in found.messages) == told


SUITE = Suite(
    RULE,
    passing=tuple(case(*members, good) for members, good, *_ in ASKING.values()),
    violating=tuple(case(*members, bad, messages=dict.fromkeys(told, name)) for members, _, bad, told, name in ASKING.values()),
)
