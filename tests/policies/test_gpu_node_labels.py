"""gpu-node-labels: pods that no pool takes, pools that no pod takes, and labels that cannot be known here."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.gpu_node_labels import RULE
from policies.rules.kinds import APPLICATION, CONFIG_MAP, POD_PATHS
from policies.rules.node_labels import Ask, ours
from tests.policies.applications import application
from tests.policies.cases import Member, StackCase
from tests.policies.harness import CLEAN, UNKNOWN, changed, judge_stack
from tests.policies.pool_fixtures import (
    EKS,
    GPU,
    HOST,
    NODE_POOL,
    RELEASE,
    RELEASES,
    REQUIREMENTS,
    RUNNER,
    SPOT,
    SYSTEM,
    TALOS,
    V100,
    karpenter,
    oke,
    oke_cluster,
    scale_set,
)
from tests.policies.suite import Suite, in_pods

INSIDE = {"clusterIdentifier": "usw2"}
BURST, SYSTEM_POOL = Member(EKS, "burst", SPOT), Member(EKS, "system", SYSTEM)
CPU_POD = {"nodeSelector": {"gpu-ci/pool": "system"}, "containers": [{"name": "listener"}]}
TEMPLATE = "values.template.spec"


def runners(spec: dict[str, Any] | None = None, name: str = "gpu-t4", cluster: str = "usw2") -> Member:
    return Member(RELEASE, name, scale_set(RUNNER if spec is None else spec), provider={"clusterIdentifier": cluster})


def selecting(**selector: Any) -> dict[str, Any]:
    return RUNNER | {"nodeSelector": {key.replace("__", "/").replace("_", "-"): value for key, value in selector.items()}}


def requiring(*terms: Any) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": list(term)} for term in terms]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"containers": RUNNER["containers"], "affinity": affinity}


def expression(operator: str, *values: str, key: str = "gpu-ci/pool") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def own(name: str = "home.gpu-worker-00", cluster: str = "home", **labels: str) -> Member:
    """A Talos machine."""
    told = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
    return Member(TALOS, name, HOST | {"clusterName": cluster, "nodeLabels": HOST["nodeLabels"] | told})


def at_home(pool: str = "gpu", name: str = "gpu-3090", cluster: str = "gpu-ci-homelab-home") -> Member:
    return runners(selecting(gpu_ci__pool=pool), name, cluster)


def waits(asks: str, names: str, path: str = TEMPLATE, kind: str = "GPU pool", cluster: str = "cluster usw2") -> str:
    return (
        f"{path}: no {kind} of {cluster} has nodes with {asks}, so the pod waits forever; the pools are {names}: select on a "
        "label that one of them has"
    )


def idle(sign: str = 'amiType is "AL2023_x86_64_NVIDIA"') -> str:
    return (
        f"no GPU pod of the stack can run on this pool ({sign}): nothing would use it; give a runner set the pool's "
        "labels as selector, or remove the pool"
    )


def idling() -> str:
    return (
        "no GPU pod of the stack can run on this machine (gpus is 2): nothing would use it; "
        "give a runner set the machine's labels as selector, or remove the machine"
    )


def messages(*members: Member) -> tuple[str, ...]:
    return judge_stack(RULE, members).messages


# -- pods --------------------------------------------------------------------------------------------------------------


def test_a_selector_that_no_pool_meets_is_told_with_the_pools_that_there_are() -> None:
    lost = runners(selecting(gpu_ci__pool="t5"), "lost")
    assert messages(BURST, SYSTEM_POOL, runners(), lost) == (waits("gpu-ci/pool In [t5]", "burst, system"),)


def test_a_gpu_pod_that_selects_the_system_pool_finds_no_gpu() -> None:
    lost = runners(selecting(gpu_ci__pool="system"), "lost")
    assert messages(BURST, SYSTEM_POOL, runners(), lost) == (waits("gpu-ci/pool In [system]", "burst, system"),)
    assert messages(BURST, SYSTEM_POOL, runners(), runners(CPU_POD, "cpu")) == ()


def test_a_cpu_pod_is_told_too() -> None:
    lost = runners(changed(CPU_POD, "nodeSelector", "gpu-ci/pool", "sytem"), "lost")
    assert messages(BURST, SYSTEM_POOL, runners(), lost) == (waits("gpu-ci/pool In [sytem]", "burst, system", kind="node pool"),)


@pytest.mark.parametrize(
    "key", ["kubernetes.io/arch", "nvidia.com/gpu.product", "topology.kubernetes.io/zone", "example.com/mine"]
)
def test_labels_that_others_put_on_nodes_are_not_compared(key: str) -> None:
    assert messages(BURST, runners(RUNNER | {"nodeSelector": {key: "x"}})) == ()


def test_a_label_that_some_pool_has_is_compared_whoevers_it_is() -> None:
    labelled = Member(EKS, "burst", changed(SPOT, "labels", "example.com/mine", "y"))
    assert messages(labelled, runners(), runners(RUNNER | {"nodeSelector": {"example.com/mine": "x"}}, "lost")) == (
        waits("example.com/mine In [x]", "burst"),
    )


@pytest.mark.parametrize("key", ["gpu-ci/role", "role", "accelerator", "gpu"])
def test_labels_of_this_project_are_only_where_a_pool_says_so(key: str) -> None:
    bare = Member(EKS, "burst", changed(SPOT, "labels", {"gpu-ci/pool": "t4"}))
    assert len(messages(bare, runners(), runners(RUNNER | {"nodeSelector": {key: "x"}}, "lost"))) == 1


def test_all_of_a_selector_must_hold_on_one_pool() -> None:
    other = Member(EKS, "release", RELEASES)
    both = runners(selecting(gpu_ci__pool="t4", gpu_ci__role="release"), "lost")
    more = runners(selecting(gpu_ci__role="release"), "more")
    assert messages(BURST, other, runners(), more, both) == (
        waits("gpu-ci/pool In [t4] and gpu-ci/role In [release]", "burst, release"),
    )


@pytest.mark.parametrize(
    ("terms", "lands"),
    [
        ([[expression("In", "t4", "t5")]], True),
        ([[expression("In", "t5")]], False),
        ([[expression("NotIn", "t4")]], False),
        ([[expression("NotIn", "t5")]], True),
        ([[expression("Exists")]], True),
        ([[expression("Exists", key="gpu-ci/cluster")]], False),
        ([[expression("DoesNotExist")]], False),
        ([[expression("DoesNotExist", key="gpu-ci/cluster")]], True),
        ([[expression("In", "t5")], [expression("In", "t4")]], True),
        ([[expression("In", "t4"), expression("In", "release", key="gpu-ci/role")]], False),
        ([[expression("In", "t5"), expression("In", "x", key="kubernetes.io/arch")]], False),
    ],
)
def test_required_affinity_is_read_as_kubernetes_reads_it(terms: Any, lands: bool) -> None:
    assert bool(messages(BURST, runners(), runners(requiring(*terms), "other"))) is not lands


@pytest.mark.parametrize(
    ("operator", "bound", "admits"),
    [("Gt", "3", True), ("Gt", "4", False), ("Lt", "5", True), ("Lt", "4", False), ("Gt", "x", False)],
)
def test_numbers_are_compared(operator: str, bound: str, admits: bool) -> None:
    ask = Ask("example.com/size", operator, (bound,))
    assert ask.admits({"example.com/size": "4"}, frozenset()) is admits


def test_preferred_affinity_binds_nobody() -> None:
    pod = RUNNER | {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}}}
    assert messages(BURST, runners(pod)) == ()


def test_pods_and_pools_meet_within_one_cluster() -> None:
    far = Member(EKS, "far", changed(SPOT, "labels", "gpu-ci/pool", "t5") | {"clusterName": "use1"})
    lost = runners(selecting(gpu_ci__pool="t5"), "lost")
    assert messages(BURST, far, runners(), lost) == (waits("gpu-ci/pool In [t5]", "burst"),)
    assert messages(BURST, far, runners(), runners(selecting(gpu_ci__pool="t5"), "there", "use1")) == ()


def test_a_pod_whose_cluster_nothing_tells_may_be_in_any() -> None:
    anywhere = Member(RELEASE, "runners", scale_set(RUNNER))
    far = Member(EKS, "far", SPOT | {"clusterName": "use1"})
    assert messages(BURST, far, anywhere) == ()
    lost = Member(RELEASE, "lost", scale_set(selecting(gpu_ci__pool="t5")))
    assert messages(BURST, far, anywhere, lost) == (waits("gpu-ci/pool In [t5]", "burst, far", cluster="the cluster"),)


def test_a_cluster_without_pools_of_the_stack_is_another_stacks() -> None:
    assert messages(BURST, runners(), runners(selecting(gpu_ci__pool="t5"), "there", "use1")) == ()
    assert judge_stack(RULE, [runners()]) == CLEAN


# -- pools -------------------------------------------------------------------------------------------------------------


def test_a_gpu_pool_that_no_gpu_pod_selects_is_bought_for_nobody() -> None:
    idling = Member(EKS, "release", RELEASES)
    verdict = judge_stack(RULE, [BURST, idling, runners()])
    assert verdict.messages == (idle(),)
    assert verdict.urns[0].endswith("::release")


def test_a_stack_without_gpu_pods_leaves_its_pools_to_others() -> None:
    assert messages(BURST, runners(CPU_POD), SYSTEM_POOL) == ()


def test_a_gpu_pod_without_a_selector_lands_on_every_gpu_pool() -> None:
    assert messages(BURST, Member(EKS, "release", RELEASES), runners({"containers": RUNNER["containers"]})) == ()


def test_a_requirement_that_leaves_one_value_is_a_label_of_karpenters_nodes() -> None:
    pool = changed(NODE_POOL, "spec", "template", "metadata", {})
    own = changed(pool, *REQUIREMENTS, 2, {"key": "gpu-ci/pool", "operator": "In", "values": ["a10g"]})
    a10g = runners(selecting(gpu_ci__pool="a10g"))
    assert messages(karpenter("a10g", own), a10g) == ()
    assert len(messages(karpenter("a10g", pool), a10g)) == 2


def test_pools_of_oke_are_in_the_cluster_that_they_depend_on() -> None:
    there = {"cluster": "gpu-ci-iad"}
    v100 = selecting(gpu_ci__pool="v100")
    assert messages(oke_cluster(), oke("v100", V100), runners(v100, **there)) == ()
    assert messages(oke_cluster(), oke("v100", V100), runners(RUNNER, **there)) == (
        waits("gpu-ci/pool In [t4]", "v100", cluster="cluster gpu-ci-iad"),
        idle("nodeShape: VM.GPU3.1 has 1 GPU"),
    )


AT_HOME = "cluster gpu-ci-homelab-home"


def test_a_machine_of_ones_own_is_a_pool_by_itself() -> None:
    other = own("home.gpu-worker-01", gpu_ci__pool="big")
    assert messages(own(), at_home()) == ()
    assert judge_stack(RULE, [own(), other, at_home()]).messages == (idling(),)
    assert messages(own(), other, at_home(), at_home("big", "more")) == ()


def test_a_gpu_pod_that_no_machine_of_ones_own_meets_is_told() -> None:
    lost = waits("gpu-ci/pool In [gqu]", "home.gpu-worker-00", cluster=AT_HOME)
    assert messages(own(), at_home(), at_home("gqu", "lost")) == (lost,)


def test_labels_of_ones_own_machines_are_compared() -> None:
    coral = RUNNER | {"nodeSelector": {"gpu-ci/pool": "gpu", "example.com/coral": "true"}}
    there = runners(coral, "coral", "gpu-ci-homelab-home")
    assert messages(own(**{"example.com/coral": "true"}), there) == ()
    other = own("home.gpu-worker-01", **{"example.com/coral": "false"})
    assert messages(other, at_home(), there) == (
        waits("example.com/coral In [true] and gpu-ci/pool In [gpu]", "home.gpu-worker-01", cluster=AT_HOME),
    )


def test_a_pod_without_gpus_may_mean_a_machine_that_is_no_resource() -> None:
    assert messages(own(), at_home(), runners(CPU_POD, "cpu", "gpu-ci-homelab-home")) == ()


@pytest.mark.parametrize(
    ("cluster", "met"),
    [("gpu-ci-homelab-home", True), ("home", True), ("gpu-ci-homelab-away", False), ("gpu-ci-homelabhome", False)],
)
def test_a_talos_node_is_of_the_cluster_whose_physical_name_ends_with_its_own(cluster: str, met: bool) -> None:
    lost = at_home("gqu", "lost", cluster)
    assert bool(messages(own(), lost)) is met
    assert messages(BURST, runners(), lost) == (), "and no pool of a cloud's is"


def test_a_talos_node_is_in_no_cluster_of_a_cloud() -> None:
    named_alike = Member(EKS, "burst", SPOT | {"clusterName": "home"})
    assert messages(own(), named_alike, runners(cluster="home")) == (idling(),)


def test_an_unknown_label_of_a_machine_may_be_the_one() -> None:
    for path in (("nodeLabels",), ("nodeLabels", "gpu-ci/pool"), ("clusterName",)):
        hidden = Member(TALOS, "host", changed(HOST, *path, UNKNOWN))
        verdict = judge_stack(RULE, [hidden, at_home(), at_home("gqu", "lost")])
        assert (verdict.messages, verdict.unknown) == ((), ".".join(path))


def test_an_unknown_pool_may_be_the_one_and_an_unknown_pod_too() -> None:
    lost = runners(selecting(gpu_ci__pool="t5"), "lost")
    hidden = Member(EKS, "burst", changed(SPOT, "labels", "gpu-ci/pool", UNKNOWN))
    verdict = judge_stack(RULE, [hidden, runners(), lost])
    assert (verdict.messages, verdict.unknown) == ((), "labels.gpu-ci/pool")
    secretive = Member(RELEASE, "other", changed(scale_set(RUNNER), "values", "template", "spec", UNKNOWN), provider=INSIDE)
    verdict = judge_stack(RULE, [BURST, Member(EKS, "release", RELEASES), runners(), secretive])
    assert not verdict.messages
    assert verdict.unknown == "values.template.spec"


def test_ours_are_the_labels_that_only_a_pools_owner_sets() -> None:
    assert all(map(ours, ("gpu-ci/pool", "gpu-ci/anything", "role", "accelerator")))
    assert not any(map(ours, (GPU, "kubernetes.io/arch", "k8s.amazonaws.com/accelerator", "node.kubernetes.io/instance-type")))


PLAIN = sorted(RULE.types & {*POD_PATHS, CONFIG_MAP})
PATHS = {token: ".".join(path) for token, path in POD_PATHS.items()} | {CONFIG_MAP: 'data["job.json"].spec'}
LOST = selecting(gpu_ci__pool="t5")
OKE_SIGN = "nodeShape: VM.GPU3.1 has 1 GPU"


def held(token: str, spec: dict[str, Any]) -> Member:
    (case,) = in_pods(spec, tokens=[token])
    return Member(token, "pods", case.props, provider=INSIDE)


def test_what_argo_cd_delivers_elsewhere_may_be_meant_for_any_cluster() -> None:
    elsewhere = Member(EKS, "elsewhere", SPOT | {"clusterName": "use1", "labels": {"gpu-ci/pool": "t5"}})
    props = application(scale_set(selecting(gpu_ci__pool="t5")))
    here = Member(APPLICATION, "lost", props, provider=INSIDE)
    away = Member(APPLICATION, "lost", changed(props, "spec", "destination", {"name": "use1"}), provider=INSIDE)
    path = "spec.source.helm.valuesObject.template.spec"
    stack = (BURST, SYSTEM_POOL, runners(), elsewhere)
    assert waits("gpu-ci/pool In [t5]", "burst, system", path) in messages(*stack, here)
    assert messages(*stack, away) == ()


SUITE = Suite(
    RULE,
    passing=(
        StackCase((BURST, SYSTEM_POOL, runners(), runners(CPU_POD, "cpu"))),
        StackCase((karpenter("a10g", NODE_POOL), runners(selecting(gpu_ci__pool="a10g")))),
        StackCase((oke_cluster(), oke("v100", V100), runners(selecting(gpu_ci__pool="v100"), cluster="gpu-ci-iad"))),
        StackCase((own(), at_home(), runners(CPU_POD, "cpu", "gpu-ci-homelab-home"))),
        *(StackCase((BURST, held(token, RUNNER))) for token in PLAIN),
    ),
    violating=(
        StackCase((BURST, runners(), runners(LOST, "lost")), {waits("gpu-ci/pool In [t5]", "burst"): "lost"}),
        StackCase((BURST, Member(EKS, "release", RELEASES), runners()), {idle(): "release"}),
        StackCase(
            (karpenter("a10g", NODE_POOL), runners(LOST)),
            {
                waits("gpu-ci/pool In [t5]", "a10g"): "gpu-t4",
                idle("spec.template.spec.requirements[1].values[0]: g5.xlarge has 1 GPU"): "a10g",
            },
        ),
        StackCase(
            (oke_cluster(), oke("v100", V100), runners(LOST, cluster="gpu-ci-iad")),
            {waits("gpu-ci/pool In [t5]", "v100", cluster="cluster gpu-ci-iad"): "gpu-t4", idle(OKE_SIGN): "v100"},
        ),
        StackCase(
            (own(), at_home("gqu")),
            {
                waits("gpu-ci/pool In [gqu]", "home.gpu-worker-00", cluster=AT_HOME): "gpu-3090",
                idling(): "home.gpu-worker-00",
            },
        ),
        *(
            StackCase(
                (BURST, runners(), held(token, LOST)),
                {waits("gpu-ci/pool In [t5]", "burst", path=PATHS[token]): "pods"},
            )
            for token in PLAIN
        ),
    ),
)
