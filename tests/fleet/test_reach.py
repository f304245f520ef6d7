"""Which pools run a pod: each filter of the scheduler, templates of autoscalers, five broken fleets with their fixes.

`tests/kwok/test_reach.py` compares a thousand of the random fleets with a real scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from fleet.facts import hardware
from fleet.facts.requests import amounts
from fleet.facts.scheduling import Effect, Taint
from fleet.facts.tables import beside
from fleet.prove import reach as module
from fleet.prove.pod import Pod, pod_of
from fleet.prove.reach import (
    Node,
    Pool,
    Reach,
    Refusal,
    applied,
    judge,
    reach,
    refusals,
    repair,
    template,
)
from fleet.settings.kubelet import DescribedKubelet
from tests.cases import cases
from tests.examples import examples
from tests.fleet.random_nodes import REQUIRED, fleet

GPU, ZONE, HOST = "nvidia.com/gpu", "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SIZE = {"cpu": "4", "memory": "14Gi", "ephemeral-storage": "40Gi", "pods": "20", GPU: "1"}
TAINT = Taint(GPU, "true", Effect.NO_SCHEDULE)
Spec = dict[str, Any]


def asks(amounts_: Mapping[str, str] | None = None, kind: str = "Job", name: str = "train", **spec: Any) -> Pod:
    """A pod with one container that asks for these amounts, in namespace `jobs`."""
    container = {"name": "job", "resources": {"limits": dict(amounts_ or {})}} | spec.pop("container", {})
    labels = spec.pop("labels", {"app": name})
    template_ = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    pod = pod_of(name, {"kind": kind, "metadata": {"name": name, "namespace": "jobs"}, "spec": {"template": template_}})
    assert pod is not None
    return pod


def node(name: str = "n1", labels: Mapping[str, str] | None = None, free: Mapping[str, str] | None = None, **more: Any) -> Node:
    """A node in zone a with one GPU."""
    return Node(name, {ZONE: "a", HOST: name, **(labels or {})}, free=amounts({**SIZE, **(free or {})}), **more)


def term(key: str = ZONE, app: str = "web") -> Spec:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def near(kind: str, *terms: Spec) -> Spec:
    return {kind: {REQUIRED: list(terms)}}


def expressions(*rows: Spec, fields: tuple[Spec, ...] = ()) -> Spec:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": list(rows), "matchFields": list(fields)}]}}}


def row(key: str, operator: str, *values: str) -> Spec:
    return {"key": key, "operator": operator, "values": list(values)}


WEB = asks(name="web", kind="Pod", container={"ports": [{"containerPort": 80, "hostPort": 80}]})
LONER = asks(name="alone", kind="Pod", affinity=near("podAntiAffinity", term(app="train")))
SPREAD = {
    "topologyKey": ZONE,
    "maxSkew": 1,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}

# (pod, node, filter, text, first change)
FILTERS: list[Any] = [
    pytest.param(
        asks(),
        node(unschedulable=True),
        "NodeUnschedulable",
        "the node is cordoned (spec.unschedulable), and no toleration covers node.kubernetes.io/unschedulable=:NoSchedule",
        "pool: uncordon p: kubectl uncordon n1",
        id="cordoned",
    ),
    pytest.param(
        asks(nodeName="n9"), node(), "NodeName", "spec.nodeName is n9, and the node is n1", "pod: remove spec.nodeName", id="name"
    ),
    pytest.param(
        asks(),
        node(taints=(TAINT,)),
        "TaintToleration",
        "it does not tolerate the taint nvidia.com/gpu=true:NoSchedule",
        "pod: add toleration {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}",
        id="taint",
    ),
    pytest.param(
        asks(tolerations=[{"key": GPU, "value": "present"}]),
        node(taints=(replace(TAINT, effect=Effect.NO_EXECUTE),)),
        "TaintToleration",
        "it does not tolerate the taint nvidia.com/gpu=true:NoExecute (its toleration has the value 'present')",
        "pod: set operator: Exists, without a value, in the toleration of nvidia.com/gpu",
        id="value of a taint",
    ),
    pytest.param(
        asks(nodeSelector={"gpu": "t4"}),
        node(labels={"gpu": "a10g"}),
        "NodeAffinity",
        "spec.nodeSelector asks for gpu=t4, and the node has gpu=a10g",
        'pod: set spec.nodeSelector.gpu: "a10g"',
        id="selector",
    ),
    pytest.param(
        asks(nodeSelector={"gpu": "t4"}),
        node(),
        "NodeAffinity",
        "spec.nodeSelector asks for gpu=t4, and the node has no label gpu",
        "pool: add the label gpu: t4 to the nodes of p",
        id="missing label",
    ),
    pytest.param(
        asks(nodeSelector={ZONE: "b"}),
        node(),
        "NodeAffinity",
        f"spec.nodeSelector asks for {ZONE}=b, and the node has {ZONE}=a",
        f'pod: set spec.nodeSelector.{ZONE}: "a"',
        id="label of the cloud",
    ),
    pytest.param(
        asks(affinity=expressions(row("gpu", "In", "t4", "l4"), row("gen", "Gt", "4"))),
        node(labels={"gpu": "a10g", "gen": "5"}),
        "NodeAffinity",
        "the required node affinity asks for gpu In [t4, l4] and gen Gt [4], and the node has gpu=a10g, gen=5",
        f'pod: set spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values.-: "a10g"',
        id="affinity",
    ),
    pytest.param(
        asks(affinity=expressions(fields=(row("metadata.name", "In", "n2"),))),
        node(),
        "NodeAffinity",
        "the required node affinity asks for metadata.name In [n2], and the node has the name n1",
        f"pod: remove spec.affinity.nodeAffinity.{REQUIRED}",
        id="name by affinity",
    ),
    pytest.param(
        asks(container={"ports": [{"containerPort": 80}]}, hostNetwork=True),
        node(pods=(WEB,)),
        "NodePorts",
        "host port 80/TCP is taken by Pod jobs/web",
        "pod: remove spec.containers[0].ports[0]",
        id="host port",
    ),
    pytest.param(
        asks({"memory": "15Gi"}),
        node(),
        "NodeResourcesFit",
        "it requests 15Gi memory, and the node has 14Gi free",
        "pod: lower memory of container job from 15Gi to 14Gi",
        id="memory",
    ),
    pytest.param(
        asks({GPU: "4"}),
        node(),
        "NodeResourcesFit",
        "it requests 4 nvidia.com/gpu, and the node has 1 free",
        "pod: lower nvidia.com/gpu of container job from 4 to 1",
        id="GPUs",
    ),
    pytest.param(
        asks({GPU: "1"}),
        node(free={GPU: "0", "nvidia.com/gpu.shared": "4"}),
        "NodeResourcesFit",
        "it requests 1 nvidia.com/gpu, and the node has 0 free",
        "pod: ask for nvidia.com/gpu.shared instead of nvidia.com/gpu",
        id="another resource",
    ),
    pytest.param(
        asks({"ephemeral-storage": "60Gi"}),
        node(),
        "NodeResourcesFit",
        "it requests 60Gi ephemeral-storage, and the node has 40Gi free",
        "pool: give the nodes of p room for 60Gi of ephemeral-storage",
        id="disk",
    ),
    pytest.param(
        asks(),
        node(free={"pods": "0"}),
        "NodeResourcesFit",
        "the node takes no more pods",
        "pool: give the nodes of p room for 1 of pods",
        id="pods",
    ),
    pytest.param(
        replace(asks(), zones=("b",)),
        node(),
        "VolumeBinding",
        f"a volume of it is bound in zone b, and the node has {ZONE}=a",
        "pool: give p nodes in zone b",
        id="volume",
    ),
    pytest.param(
        asks(labels={"app": "web"}, topologySpreadConstraints=[SPREAD | {"minDomains": 2}]),
        node(pods=(WEB,)),
        "PodTopologySpread",
        f"spec.topologySpreadConstraints[0] allows a skew of 1 over {ZONE}, and {ZONE}=a would have 2",
        "pod: set spec.topologySpreadConstraints[0].maxSkew: 2",
        id="spread",
    ),
    pytest.param(
        asks(topologySpreadConstraints=[SPREAD | {"topologyKey": "rack"}]),
        node(),
        "PodTopologySpread",
        "spec.topologySpreadConstraints[0] spreads over rack, and the node has no such label",
        "pod: set spec.topologySpreadConstraints[0].whenUnsatisfiable: ScheduleAnyway",
        id="spread over a missing label",
    ),
    pytest.param(
        asks(affinity=near("podAffinity", term())),
        node(),
        "InterPodAffinity",
        f"podAffinity[0] wants a pod with app In [web] in the same {ZONE}, and there is none beside this node",
        f"pod: remove spec.affinity.podAffinity.{REQUIRED}[0]",
        id="neighbour",
    ),
    pytest.param(
        asks(affinity=near("podAntiAffinity", term())),
        node(pods=(WEB,)),
        "InterPodAffinity",
        f"podAntiAffinity[0] forbids Pod jobs/web in the same {ZONE}",
        f"pod: remove spec.affinity.podAntiAffinity.{REQUIRED}[0]",
        id="unwanted neighbour",
    ),
    pytest.param(
        asks(),
        node(pods=(LONER,)),
        "InterPodAffinity",
        f"the podAntiAffinity of Pod jobs/alone forbids this pod in the same {ZONE}",
        "",
        id="neighbour that wants to be alone",
    ),
]


@cases(("pod", "one", "by", "text", "change"), FILTERS)
def test_each_filter_gives_its_reason_and_a_change_that_removes_it(pod: Pod, one: Node, by: str, text: str, change: str) -> None:
    (refusal,) = judge(pod, Pool("p", (one,), minimum=1), (one,)).reasons
    assert (refusal.filter, refusal.text) == (by, text)
    assert next((edit.words for edit in refusal.edits), "") == change
    for edit in refusal.edits:
        assert not judge(*applied((edit,), pod, Pool("p", (one,), minimum=1)), (one,)).reasons, edit.words
    assert not refusals(asks(), node()), "a pod that asks for nothing runs on a node without taints"


def test_the_filters_come_in_the_order_of_the_scheduler() -> None:
    alone = [SPREAD | {"minDomains": 2, "nodeAffinityPolicy": "Ignore"}]
    pod = asks({"memory": "15Gi"}, nodeSelector={"gpu": "t4"}, topologySpreadConstraints=alone, labels={"app": "web"})
    found = [one.filter for one in refusals(replace(pod, zones=("b",)), node(taints=(TAINT,), pods=(WEB,), unschedulable=True))]
    order = ["NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodeResourcesFit", "VolumeBinding", "PodTopologySpread"]
    assert found == order


ADMITS: list[Any] = [
    pytest.param(asks(), node(taints=(replace(TAINT, effect=Effect.PREFER_NO_SCHEDULE),)), id="a taint that only scores"),
    pytest.param(asks(tolerations=[{"operator": "Exists"}]), node(taints=(TAINT,), unschedulable=True), id="tolerates all"),
    pytest.param(asks(affinity=expressions(row("gpu", "NotIn", "t4"))), node(), id="NotIn without the label"),
    pytest.param(asks(affinity=expressions(row("gpu", "DoesNotExist"))), node(), id="DoesNotExist"),
    pytest.param(asks(affinity=near("podAffinity", term(app="train"))), node(), id="the first of a group that keeps together"),
    pytest.param(asks(topologySpreadConstraints=[SPREAD | {"labelSelector": {}}]), node(pods=(WEB,) * 3), id="an empty selector"),
    pytest.param(
        asks(labels={"app": "web"}, topologySpreadConstraints=[SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]),
        node(pods=(WEB,)),
        id="a spread that only scores",
    ),
    pytest.param(asks({"cpu": "0"}), node(free={"cpu": "-1"}), id="a request of 0"),
    pytest.param(
        asks(container={"ports": [{"containerPort": 80, "hostPort": 80, "protocol": "UDP"}]}), node(pods=(WEB,)), id="protocol"
    ),
    pytest.param(replace(asks(affinity=near("podAntiAffinity", term())), namespace="own"), node(pods=(WEB,)), id="namespace"),
    pytest.param(asks(), Node("n", free=None), id="room that is not compared"),
]


@cases(("pod", "one"), ADMITS)
def test_what_only_looks_like_a_reason_is_none(pod: Pod, one: Node) -> None:
    assert refusals(pod, one) == ()


def test_a_spread_counts_the_nodes_that_its_policies_name() -> None:
    pod = asks(labels={"app": "web"}, topologySpreadConstraints=[SPREAD])
    far = node("n2", {ZONE: "b"}, taints=(TAINT,))
    assert refusals(pod, node(pods=(WEB,)), (far,)), "zone b has none, so zone a would have one more than allowed"
    honor = asks(labels={"app": "web"}, topologySpreadConstraints=[SPREAD | {"nodeTaintsPolicy": "Honor"}])
    assert not refusals(honor, node(pods=(WEB,)), (far,)), "the tainted zone does not count"
    other = asks(labels={"app": "web"}, topologySpreadConstraints=[SPREAD], nodeSelector={ZONE: "a"})
    assert not refusals(other, node(pods=(WEB,)), (far,)), "the pod does not select zone b"
    three = asks(labels={"app": "web"}, topologySpreadConstraints=[SPREAD | {"minDomains": 3}], nodeSelector={ZONE: "a"})
    assert refusals(three, node(pods=(WEB,)), (far,)), "with fewer domains than minDomains the fewest is 0"


# -- templates ---------------------------------------------------------------------------------------------------------

MACHINE = amounts({"cpu": "4", "memory": "16Gi", GPU: "1", "ephemeral-storage": "100Gi"})
PREFIX = "k8s.io/cluster-autoscaler/node-template"


def test_the_template_of_an_own_group_on_aws_knows_what_its_tags_say() -> None:
    real = node(labels={"gpu": "t4", "node.kubernetes.io/instance-type": "g4dn.xlarge"}, taints=(TAINT,))
    bare = template("eks", real, MACHINE, {})
    assert bare.labels == {ZONE: "a", "node.kubernetes.io/instance-type": "g4dn.xlarge", HOST: "template"}
    assert bare.taints == ()
    assert bare.free == amounts({"cpu": "4", "memory": "16Gi", GPU: "1", "pods": "110"}), "no disk, no reserve"
    tags = {
        f"{PREFIX}/label/gpu": "t4",
        f"{PREFIX}/taint/{GPU}": "true:NoSchedule",
        f"{PREFIX}/taint/odd": "no effect",
        f"{PREFIX}/resources/ephemeral-storage": "80Gi",
        "other": "x",
    }
    tagged = template("eks", real, MACHINE, {}, tags=tags)
    assert (tagged.labels["gpu"], tagged.taints) == ("t4", (TAINT,))
    assert tagged.free == amounts({"cpu": "4", "memory": "16Gi", GPU: "1", "pods": "110", "ephemeral-storage": "80Gi"})
    managed = template("eks", real, MACHINE, {"gpu": "t4"}, (TAINT,))
    assert (managed.labels["gpu"], managed.taints) == ("t4", (TAINT,)), "of a managed group the API has both"


def test_the_template_on_oke_has_the_gpu_taint_without_a_value_and_its_disk_by_a_tag() -> None:
    real = node(taints=(replace(TAINT, value="present"),))
    tags = {f"{PREFIX}/label/gpu": "t4", "cluster-autoscaler/node-ephemeral-storage": "50Gi"}
    found = template("oke", real, MACHINE, {"gpu": "a10"}, tags=tags)
    assert (found.labels["gpu"], found.taints) == ("a10", (replace(TAINT, value=""),)), "tags say no labels there"
    assert (found.free or {})["ephemeral-storage"] == 50 * 2**30
    assert template("oke", real, amounts({"cpu": "4"}), {}).taints == ()


# -- five broken fleets ------------------------------------------------------------------------------------------------


def untagged() -> tuple[Pod, list[Pool]]:
    """An Auto Scaling group of one's own, without tags for the autoscaler."""
    pod = asks(
        {GPU: "1", "ephemeral-storage": "20Gi"}, nodeSelector={"gpu": "t4"}, tolerations=[{"key": GPU, "operator": "Exists"}]
    )
    real = node(labels={"gpu": "t4"}, taints=(TAINT,))
    group = Pool("t4", (real,), "asg.tf:12", template("eks", real, MACHINE, {}), scaler="eks")
    return pod, [group, Pool("cpu", (node("c1", free={GPU: "0"}),), "asg.tf:40")]


def equal_toleration() -> tuple[Pod, list[Pool]]:
    """OKE: the toleration has the value of the real taint, and the autoscaler's template has none."""
    pod = asks({GPU: "1"}, tolerations=[{"key": GPU, "value": "present", "effect": "NoSchedule"}])
    real = node(taints=(replace(TAINT, value="present"),))
    return pod, [Pool("a10", (real,), "p.yaml:3", template("oke", real, MACHINE, {}), scaler="oke")]


def whole_machine() -> tuple[Pod, list[Pool]]:
    """The class asks for the memory that the type is sold with."""
    pod = asks({GPU: "1", "cpu": "4", "memory": "16Gi"}, tolerations=[{"key": GPU, "operator": "Exists"}])
    real = node(taints=(TAINT,), free={"cpu": "3920m", "memory": "14670Mi"})
    return pod, [Pool("t4", (real,), "eks.tf:7", template("eks", real, MACHINE, {}, (TAINT,)), scaler="eks")]


def reached_limit() -> tuple[Pod, list[Pool]]:
    """Karpenter: the limits of the NodePool are used up, and the other pool has another taint."""
    pod = asks({GPU: "1"}, tolerations=[{"key": GPU, "operator": "Exists"}])
    spot = node("s1", taints=(TAINT, Taint("spot", "true", Effect.NO_SCHEDULE), Taint("team", "ml", Effect.NO_SCHEDULE)))
    limits = {"limits nvidia.com/gpu": 0}
    return pod, [Pool("gpu", (node(taints=(TAINT,)),), "np.yaml:9", ceilings=limits, chooses=True), Pool("spot", (spot,))]


def bound_volume() -> tuple[Pod, list[Pool]]:
    """The cache's volume is in zone b, and the group has zone a first."""
    pod = replace(asks({GPU: "1"}, tolerations=[{"key": GPU, "operator": "Exists"}]), zones=("b",))
    real = node(labels={ZONE: "b"}, taints=(TAINT,))
    assumed = template("eks", node(), MACHINE, {}, (TAINT,))
    return pod, [Pool("t4", (real,), "eks.tf:7", assumed, scaler="eks")]


def told(found: Reach) -> Iterator[str]:
    """A proof as text."""
    if found.runs or found.nearest is None:
        yield "; ".join(f"{verdict.pool.name} {verdict.text}" for verdict in found.runs) or "there is no pool"
        return
    yield f"nearest: {found.nearest.pool.name} ({found.nearest.pool.place}): {found.nearest.text}"
    yield from (f"  because {reason.text}" for reason in found.nearest.reasons)
    yield from (f"  fix: {words}" for words in [edit.words for edit in found.fix] or ["none with these pools"])
    others = (verdict for verdict in found.verdicts if verdict is not found.nearest)
    yield from (f"other pool: {verdict.pool.name}: {verdict.text}: {verdict.reasons[0].text}" for verdict in others)


BROKEN: list[Any] = [
    pytest.param(
        untagged,
        """\
nearest: t4 (asg.tf:12): never scales from zero: real nodes admit the pod, the autoscaler's template of an empty pool does not
  because the template node: spec.nodeSelector asks for gpu=t4, and the node has no label gpu
  because the template node: it requests 20Gi ephemeral-storage, and the node has 0 free
  fix: pool: tag the group of t4 k8s.io/cluster-autoscaler/node-template/label/gpu: t4
  fix: pool: tag the group of t4 k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage: 20Gi
other pool: cpu: does not run: spec.nodeSelector asks for gpu=t4, and the node has no label gpu""",
        id="untagged group",
    ),
    pytest.param(
        equal_toleration,
        """\
nearest: a10 (p.yaml:3): never scales from zero: real nodes admit the pod, the autoscaler's template of an empty pool does not
  because the template node: it does not tolerate the taint nvidia.com/gpu=:NoSchedule (its toleration has the value 'present')
  fix: pod: set operator: Exists, without a value, in the toleration of nvidia.com/gpu""",
        id="toleration Equal on OKE",
    ),
    pytest.param(
        whole_machine,
        """\
nearest: t4 (eks.tf:7): nodes are added without end: the autoscaler's template admits the pod, the real node does not
  because it requests 4 cpu, and the node has 3920m free
  because it requests 16Gi memory, and the node has 14670Mi free
  fix: pod: lower cpu of container job from 4 to 3920m
  fix: pod: lower memory of container job from 16Gi to 14670Mi""",
        id="memory of the whole machine",
    ),
    pytest.param(
        reached_limit,
        """\
nearest: gpu (np.yaml:9): never gets a node: a ceiling is reached
  because limits nvidia.com/gpu leaves room for no node
  fix: pool: raise limits nvidia.com/gpu of gpu by a node
other pool: spot: does not run: it does not tolerate the taint spot=true:NoSchedule""",
        id="reached limit",
    ),
    pytest.param(
        bound_volume,
        """\
nearest: t4 (eks.tf:7): never scales from zero: real nodes admit the pod, the autoscaler's template of an empty pool does not
  because the template node: a volume of it is bound in zone b, and the node has topology.kubernetes.io/zone=a
  fix: pool: make a group of t4 for zone b alone""",
        id="volume in the second zone",
    ),
]


@cases(("broken", "text"), BROKEN)
def test_five_broken_fleets_have_a_chain_of_reasons_and_a_fix_that_works(broken: Any, text: str) -> None:
    pod, pools = broken()
    found = reach(pod, pools)
    assert "\n".join(told(found)) == text
    assert not found.runs
    assert found.nearest is not None
    fixed, pool = applied(found.fix, pod, found.nearest.pool)
    assert judge(fixed, pool).outcome == "runs"
    assert next(told(reach(fixed, [pool]))) == f"{pool.name} runs, from zero nodes"


def test_a_pool_with_nodes_needs_no_template_and_no_ceiling() -> None:
    pod, (pool, _) = untagged()
    kept = replace(pool, minimum=1, ceilings={"maximum": 0})
    assert next(told(reach(pod, [kept]))) == "t4 runs, on nodes that always run"


def test_every_type_of_a_pool_must_take_the_pod_unless_the_autoscaler_chooses() -> None:
    pod, types = asks({"memory": "10Gi"}), (node(), node("n2", free={"memory": "8Gi"}))
    assert judge(pod, Pool("p", types)).reasons[0].text == "it requests 10Gi memory, and the node has 8Gi free"
    assert not judge(pod, Pool("p", types, chooses=True)).reasons


def test_a_request_that_no_node_has_has_no_fix() -> None:
    found = reach(asks({"example.com/fpga": "1"}), [Pool("p", (node(),))])
    assert list(told(found))[-1] == "  fix: none with these pools"
    assert list(told(reach(asks(), []))) == ["there is no pool"]


def test_kubelet_may_refuse_what_the_scheduler_places() -> None:
    shared = Pool("p", (node(free={GPU: "4"}),), minimum=1, single=GPU)
    found = reach(asks({GPU: "2"}), [shared])
    assert [one.text for one in found.verdicts[0].reasons] == [
        "job asks for 2 shares, and the device plugin gives a container 1 (UnexpectedAdmissionError)"
    ]
    assert found.fix[0].words == "pod: ask for 1 nvidia.com/gpu in job"
    assert not judge(*applied(found.verdicts[0].reasons[0].edits[1:], asks({GPU: "2"}), shared)).reasons
    machine = hardware.machine("g4dn.metal")
    numa = node(free={GPU: "8", "cpu": "95", "memory": "300Gi"}, machine=machine)
    pool = Pool("p", (numa,), minimum=1, managers=DescribedKubelet(topologyManagerPolicy="single-numa-node"))
    wide = asks({GPU: "6", "cpu": "8", "memory": "32Gi"})
    found = reach(wide, [pool])
    assert found.verdicts[0].outcome == "rejected"
    assert found.verdicts[0].reasons[0].text.startswith("it is rejected by topologyManagerPolicy single-numa-node of g4dn.metal")
    assert [edit.words for edit in found.fix] == ["pool: set topologyManagerPolicy of p: best-effort"]


def test_a_daemonset_tolerates_what_its_controller_adds_and_names_the_pools_that_it_misses() -> None:
    agent = asks({"cpu": "100m"}, kind="DaemonSet", name="device-plugin")
    sick = Taint("node.kubernetes.io/memory-pressure", "", Effect.NO_SCHEDULE)
    pools = [
        Pool("cpu", (node(taints=(sick,), unschedulable=True),)),
        Pool("gpu", (node(taints=(TAINT,)),), template=Node("template"), ceilings={"maximum": 0}),
    ]
    found = reach(agent, pools)
    assert [(one.pool.name, one.reasons[0].filter) for one in found.verdicts if one.reasons] == [("gpu", "TaintToleration")]
    (edit,) = repair(agent, pools[1])
    assert edit.value == {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}
    assert judge(replace(agent, kind="Job"), pools[0]).reasons, "the pod of a Job tolerates none of them"


def test_every_text_is_said_by_a_case() -> None:
    words = beside(module.__file__, "reach.toml")
    heads = {name: text.partition("{")[0] for name, text in words["text"].items()}
    said = [text for case in (*FILTERS, *BROKEN) for text in case.values if isinstance(text, str)]
    elsewhere = {"Ceiling", "Sharing", "TopologyAffinity"}
    assert {name for name, head in heads.items() if not any(head in text for text in said)} == set()
    assert elsewhere < heads.keys()


# -- random fleets -----------------------------------------------------------------------------------------------------


@settings(max_examples=examples(300), database=None, deadline=None)
@given(st.integers(0, 99_999))
def test_a_fix_that_is_applied_passes_and_none_with_fewer_changes_does(seed: int) -> None:
    pod, nodes = fleet(seed)
    pools = [Pool(one.name, (one,), minimum=1) for one in nodes]
    found = reach(pod, pools, nodes)
    assert bool(found.runs) == any(not refusals(pod, one, nodes) for one in nodes)
    if found.runs or not found.fix:
        return
    assert found.nearest is not None
    pool = found.nearest.pool
    assert not judge(*applied(found.fix, pod, pool), nodes).reasons
    for index in range(len(found.fix)):
        fewer = found.fix[:index] + found.fix[index + 1 :]
        assert judge(*applied(fewer, pod, pool), nodes).reasons, "a change that is not needed"
    if len(found.fix) > 1:
        for edit in (edit for reason in found.nearest.reasons for edit in reason.edits):
            assert judge(*applied((edit,), pod, pool), nodes).reasons, f"this one alone is enough: {edit.words}"


def test_a_node_that_is_asked_for_by_several_fleets_stays_as_it_is() -> None:
    pod, nodes = fleet(3)
    before = (pod, nodes)
    for one in nodes:
        repair(pod, Pool(one.name, (one,)), nodes)
    assert (pod, nodes) == before == fleet(3)


def test_refusals_are_plain_data() -> None:
    (refusal,) = refusals(asks(nodeName="n9"), node())
    assert refusal == Refusal("NodeName", "spec.nodeName is n9, and the node is n1", refusal.edits)
