"""Our own stacks under our own policies: as declared, with one thing broken, and as the real pack sees them over gRPC."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import date
from functools import cache
from typing import Any

import pytest
from google.protobuf import struct_pb2

from fleet.facts.scheduling import is_gpu_resource
from fleet.loading.config import fleet_of
from gpu_ci.offline import judge as judging
from gpu_ci.offline.judge import ENDED, Configured, Verdict, by_time, configure, judge
from gpu_ci.offline.plan import blocked_of
from gpu_ci.offline.policyconfig import policy_settings
from gpu_ci.offline.recording import Recording, Resource
from gpu_ci.offline.wire import Secret, raw
from policies.rules import RULES, Rule, StackRule
from policies.rules.kinds import APPLICATION, CONFIG_MAP, EXISTING_CLUSTER, NAMESPACE, RELEASE, ROLE_BINDING, TALOS_NODE
from tests.analyzed import analyze_request, stack_request
from tests.components.recorded import ROOT, STACKS, recorded, stack_config
from tests.day import AS_OF
from tests.policies.harness import Pack
from tests.policies.served import served

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
CHARTS = {RELEASE, APPLICATION}
OKE_POOL = "oci:ContainerEngine/nodePool:NodePool"
STANDING = "oci:Core/instanceConfiguration:InstanceConfiguration"
MACHINES = (NODE_GROUP, OKE_POOL, STANDING, "oci:Core/instance:Instance")
"""Resources of our own that boot machines."""


DEPLOYED = [stack for stack in STACKS if fleet_of(stack_config(stack)).deployable]
"""Stacks of which `pulumi up` makes something."""
BUYING = [stack for stack in DEPLOYED if stack != "existing-context"]
"""Those of which it buys machines."""


@pytest.fixture(scope="module")
def pack() -> Iterator[Pack]:
    with served() as running:
        yield running


ACCOUNT = "accountQuotas does not say what the account has"
"""How quota-declared begins if a stack does not request its EC2 quotas. tests/policies/test_quota_declared.py has the rest."""


BY_DAY = "nothing-expired"
"""What it refuses depends on the day, and no change of the stacks makes it so. A test of its own has it."""


EVERY = frozenset(rule.id for rule in RULES)
OF_ONE = frozenset(rule.id for rule in RULES if isinstance(rule, Rule))
OF_STACK = {rule.id: rule for rule in RULES if isinstance(rule, StackRule)}


def verdicts(recording: Recording, stack: str, rules: Set[str] = EVERY) -> tuple[Verdict, ...]:
    """The verdicts of these rules, without versions that have ended and are not excepted."""
    return _timeless(judge(recording, [each for each in configured(stack) if each.policy.id in rules]))


def _timeless(judged: Iterable[Verdict]) -> tuple[Verdict, ...]:
    return tuple(
        dataclasses.replace(each, message=_short(each.message))
        for each in judged
        if (each.rule, each.kind) != (BY_DAY, "violation")
    )


@cache
def judged(stack: str) -> tuple[Verdict, ...]:
    """Every verdict on the stack as it is declared."""
    return judge(recorded(stack), configured(stack))


@cache
def as_declared(stack: str) -> tuple[Verdict, ...]:
    """Those without versions that have ended and are not excepted."""
    return _timeless(judged(stack))


def _short(message: str) -> str:
    """The message without the list of EC2 quotas."""
    return ACCOUNT if message.startswith(f"{ACCOUNT}; AWS") else message


@cache
def configured(stack: str) -> tuple[Configured, ...]:
    return configure(RULES, policy_settings(stack, ROOT), AS_OF)


def level(rule: str, stack: str) -> str:
    """What the rule enforces on the stack."""
    (found,) = [each.level.value for each in configured(stack) if each.policy.id == rule]
    return found


# -- breaking one thing ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One thing that `rule` guards: `change` breaks it in the inputs of each resource of these types that `has` it.

    `also` are other rules that may have something to say of the same change.
    """

    rule: str
    tokens: Set[str]
    has: Callable[[dict[str, Any]], bool]
    change: Callable[[dict[str, Any]], None]
    also: frozenset[str] = frozenset()


def _dig(inputs: Any, *path: str | int) -> Any:
    """The value at a path; None where a step is absent."""
    for step in path:
        if isinstance(step, int):
            inputs = inputs[step] if isinstance(inputs, list) and len(inputs) > step else None
        else:
            inputs = inputs.get(step) if isinstance(inputs, dict) else None
    return inputs


def _pod(inputs: dict[str, Any]) -> Any:
    """The runner pod of a chart, delivered by Helm or ArgoCD."""
    values = inputs.get("values") or _dig(inputs, "spec", "source", "helm", "valuesObject")
    return _dig(values, "template", "spec")


def _limits(inputs: dict[str, Any]) -> Any:
    return _dig(_pod(inputs), "containers", 0, "resources", "limits")


def _role(inputs: dict[str, Any]) -> Any:
    labels = inputs.get("labels") or {each["key"]: each["value"] for each in inputs.get("initialNodeLabels", [])}
    return labels.get("gpu-ci/role")


def _places(inputs: dict[str, Any]) -> list[dict[str, Any]]:
    return _dig(inputs, "nodeConfigDetails", "placementConfigs") or []


def _pool(target: Resource) -> str:
    """The name of the pool whose nodes a resource makes; its own name if it makes none."""
    inputs = raw(target.wire)
    labels = inputs.get("labels")
    return str(labels["gpu-ci/pool"]) if isinstance(labels, Mapping) and "gpu-ci/pool" in labels else target.name


def _takes_a_gpu(inputs: dict[str, Any]) -> bool:
    return any(map(is_gpu_resource, _limits(inputs) or {}))


def _boots_a_machine(inputs: dict[str, Any]) -> bool:
    return _pod(inputs) is not None and not _takes_a_gpu(inputs) and not _needs_no_gpu(inputs)


def _needs_no_gpu(inputs: dict[str, Any]) -> bool:
    return {"key": "gpu-ci/cpu", "operator": "Exists", "effect": "NoSchedule"} in (_pod(inputs) or {}).get("tolerations", ())


def _unlimited(inputs: dict[str, Any]) -> None:
    limits = _limits(inputs)
    for name in filter(is_gpu_resource, list(limits)):
        del limits[name]


def _onto_gpu_nodes(inputs: dict[str, Any]) -> None:
    _pod(inputs)["nodeSelector"] = {"gpu-ci/role": "burst"}


def _into_a_gpu_pool(inputs: dict[str, Any]) -> None:
    _pod(inputs)["nodeSelector"] = {"gpu-ci/pool": "t4-spot"}


def _tolerates_gpu_nodes(inputs: dict[str, Any]) -> None:
    _pod(inputs)["tolerations"].append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})


def _untaint(inputs: dict[str, Any]) -> None:
    del inputs["taints"]


def _misspell(inputs: dict[str, Any]) -> None:
    inputs["taints"][0]["effect"] = "NoSchedule"


def _taint_otherwise(inputs: dict[str, Any]) -> None:
    inputs["taints"][0]["key"] = "nvidia.com/gqu"


def _own_untainted(inputs: dict[str, Any]) -> None:
    inputs["nodeTaints"] = {}


def _own_mislabelled(inputs: dict[str, Any]) -> None:
    inputs["nodeLabels"]["gpu-ci/pool"] = "gqu"


def _on_demand(inputs: dict[str, Any]) -> None:
    inputs["capacityType"] = "ON_DEMAND"


def _not_preemptible(inputs: dict[str, Any]) -> None:
    for place in _places(inputs):
        del place["preemptibleNodeConfig"]


def _two_hops(inputs: dict[str, Any]) -> None:
    inputs["metadataOptions"]["httpPutResponseHopLimit"] = 2


def _no_template(inputs: dict[str, Any]) -> None:
    del inputs["launchTemplate"]


def _legacy_nodes(inputs: dict[str, Any]) -> None:
    del inputs["nodeMetadata"]["areLegacyImdsEndpointsDisabled"]


def _legacy_machines(inputs: dict[str, Any]) -> None:
    del inputs["instanceDetails"]["launchDetails"]["instanceOptions"]


def _has_templates(inputs: dict[str, Any]) -> bool:
    return "job.json" in inputs.get("data", {})


def _in_template(key: str, change: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    """Changes the spec in a template of jobs in containers."""

    def changed(inputs: dict[str, Any]) -> None:
        template = json.loads(inputs["data"][key])
        change(template["spec"])
        inputs["data"][key] = json.dumps(template)

    return changed


def _job_without_limit(spec: dict[str, Any]) -> None:
    del spec["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
    spec["containers"][0]["resources"]["requests"].pop("nvidia.com/gpu", None)


def _step_with_gpus(spec: dict[str, Any]) -> None:
    spec["containers"][0]["env"] = []


def _intolerant(spec: dict[str, Any]) -> None:
    spec["tolerations"] = []


def _binds_the_runner(inputs: dict[str, Any]) -> bool:
    return [(each["kind"], each["name"]) for each in inputs["subjects"]] == [("ServiceAccount", "runner")]


def _binds_it_beside_the_key(inputs: dict[str, Any]) -> None:
    inputs["metadata"]["namespace"] = inputs["subjects"][0]["namespace"]
    inputs["roleRef"] |= {"kind": "ClusterRole", "name": "edit"}


def _is_for_jobs(inputs: dict[str, Any]) -> bool:
    return str(inputs["metadata"]["name"]).endswith("-jobs")


def _unconfined(inputs: dict[str, Any]) -> None:
    inputs["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] = "privileged"


def _always(inputs: dict[str, Any]) -> bool:
    return True


def _is_tainted(inputs: dict[str, Any]) -> bool:
    return any(taint["key"] == "nvidia.com/gpu" for taint in inputs.get("taints") or ())


def _is_spot_burst(inputs: dict[str, Any]) -> bool:
    return inputs.get("capacityType") == "SPOT" and _role(inputs) == "burst"


def _is_preemptible_burst(inputs: dict[str, Any]) -> bool:
    return all("preemptibleNodeConfig" in place for place in _places(inputs)) and _role(inputs) == "burst"


OWN = {TALOS_NODE}
DEARER = frozenset({"quota-declared", "stack-cost-ceiling"})
"""What on-demand machines may also break: they have their own quota and cost more."""

MUTATIONS = {
    "a runner without its limit": Mutation("gpu-limits-required", CHARTS, _takes_a_gpu, _unlimited),
    # If the cluster has no such pool, the message also has the labels.
    "a launcher on GPU nodes": Mutation(
        "gpu-limits-required", CHARTS, _boots_a_machine, _onto_gpu_nodes, frozenset({"gpu-node-labels"})
    ),
    "a runner without GPUs in a GPU pool": Mutation("gpu-node-labels", CHARTS, _needs_no_gpu, _into_a_gpu_pool),
    "a runner without GPUs on GPU nodes": Mutation(
        "gpu-limits-required", CHARTS, _needs_no_gpu, _tolerates_gpu_nodes, frozenset({"gpu-toleration-scope"})
    ),
    "a pool without its taint": Mutation("gpu-node-taint", {NODE_GROUP}, _is_tainted, _untaint),
    # EKS has no such effect, so the limits of its API report it, too.
    "a taint misspelt": Mutation("gpu-node-taint", {NODE_GROUP}, _is_tainted, _misspell, frozenset({"cloud-limits"})),
    "a taint of another key": Mutation("gpu-node-taint", {NODE_GROUP}, _is_tainted, _taint_otherwise),
    "a machine of one's own without its taint": Mutation("gpu-node-taint", OWN, _always, _own_untainted),
    # The message then also names the pods without a machine.
    "a machine of one's own mislabelled": Mutation(
        "gpu-node-labels", OWN, _always, _own_mislabelled, frozenset({"gpu-node-labels"})
    ),
    # The node groups of the pool that stay on spot are in fewer zones.
    "a spot pool on demand": Mutation(
        "spot-required-nonprod", {NODE_GROUP}, _is_spot_burst, _on_demand, DEARER | {"spot-diversified"}
    ),
    "a preemptible pool on demand": Mutation(
        "spot-required-nonprod", {OKE_POOL}, _is_preemptible_burst, _not_preemptible, DEARER
    ),
    "two hops": Mutation("imds-v2-hop-one", {TEMPLATE}, _always, _two_hops),
    "a group without template": Mutation("imds-v2-hop-one", {NODE_GROUP}, _always, _no_template),
    "nodes with legacy metadata": Mutation("imds-v2-hop-one", {OKE_POOL}, _always, _legacy_nodes),
    "machines with legacy metadata": Mutation("imds-v2-hop-one", {STANDING}, _always, _legacy_machines),
    # Then no pod of the set takes a GPU of its pools.
    "a job in a container without its limit": Mutation(
        "gpu-limits-required",
        {CONFIG_MAP},
        _has_templates,
        _in_template("job.json", _job_without_limit),
        frozenset({"gpu-toleration-scope", "gpu-node-labels"}),
    ),
    "a job in a container off GPU nodes": Mutation(
        "gpu-toleration-required", {CONFIG_MAP}, _has_templates, _in_template("job.json", _intolerant)
    ),
    "a container action that sees GPUs": Mutation(
        "gpu-limits-required",
        {CONFIG_MAP},
        _has_templates,
        _in_template("step.json", _step_with_gpus),
        frozenset({"gpu-toleration-scope"}),
    ),
    "rights of runners beside the key": Mutation(
        "runner-no-app-key", {ROLE_BINDING}, _binds_the_runner, _binds_it_beside_the_key
    ),
    "a namespace of jobs that confines nothing": Mutation(
        "runner-namespace-isolated", {NAMESPACE}, _is_for_jobs, _unconfined, frozenset({"runner-no-privileged"})
    ),
}


def reported(level: str) -> str:
    """The level of a violation: what a remediation leaves wrong is mandatory."""
    return "mandatory" if level == "remediate" else level


def targets(mutation: Mutation, stack: str) -> list[Resource]:
    """The stack's resources that the mutation can break."""
    return [each for each in recorded(stack).resources if each.type in mutation.tokens and mutation.has(raw(each.wire))]


def all_broken(mutation: Mutation, stack: str) -> dict[str, Resource]:
    """By URN, one resource of each pool that the mutation can break, broken: node groups of a pool differ in zones alone."""
    ones = {_pool(target): target for target in targets(mutation, stack)}
    return {target.urn: broken(mutation, target) for target in ones.values()}


def broken(mutation: Mutation, target: Resource) -> Resource:
    """The resource with its inputs changed in wire form."""
    inputs = copy.deepcopy(raw(target.wire))
    mutation.change(inputs)
    struct = struct_pb2.Struct()
    struct.update(inputs)
    return dataclasses.replace(target, wire=struct)


def among(changed: Mapping[str, Resource], stack: str) -> Recording:
    """The stack's recording with these resources, by URN, in place of its own."""
    resources = tuple(changed.get(resource.urn, resource) for resource in recorded(stack).resources)
    return dataclasses.replace(recorded(stack), resources=resources)


@cache
def of_each(stack: str) -> Mapping[str, Sequence[Verdict]]:
    """What the rules of one resource say of the stack as it is declared, by URN."""
    by_urn: dict[str, list[Verdict]] = {each.urn: [] for each in recorded(stack).resources}
    for verdict in as_declared(stack):
        if verdict.rule in OF_ONE:
            by_urn[verdict.urn].append(verdict)
    return by_urn


def verdicts_with(changed: Mapping[str, Resource], stack: str) -> tuple[Verdict, ...]:
    """The verdicts on the stack with these resources in place of its own. A rule judges again only what it reads.

    A rule of one resource judges these resources alone, a rule of the stack judges the stack if it reads one of their types.
    """
    of_resources = dict(of_each(stack))
    for urn, resource in changed.items():
        of_resources[urn] = verdicts(dataclasses.replace(recorded(stack), resources=(resource,)), stack, OF_ONE)
    types = {resource.type for resource in changed.values()}
    reading = {name for name, rule in OF_STACK.items() if any(map(rule.sees, types))}
    of_stack = {name: [each for each in as_declared(stack) if each.rule == name] for name in OF_STACK.keys() - reading}
    again = verdicts(among(changed, stack), stack, reading)
    of_stack |= {name: [each for each in again if each.rule == name] for name in reading}
    return (
        *(each for those in of_resources.values() for each in those),
        *(each for name in OF_STACK for each in of_stack[name]),
    )


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each resource is read once, not again for each change of another one."""
    monkeypatch.setattr(judging, "properties_of", _properties_of)


_properties_of = cache(judging.properties_of)


# -- as declared -------------------------------------------------------------------------------------------------------


UNSHOWN = {"oke-pods": "oci-a10", "gitops": "gpu-a10", "monitoring": "oci-a10", "oci-machines": "gpu-a100, gpu-v100"}
"""Runner sets of pods on OKE, where no stack shows that NetworkPolicies are enforced."""


_ENDPOINT = ("eks-endpoint-private", "who reaches its API")
_LOGS = ("eks-logging-and-secrets", "which logs its control plane writes")
_SYSTEM = ("system-pool-exists", "its nodes without taints")
_BUDGET = ("budget-alarm-required", "whether an alarm watches the account; declare a budget in the stack file")
_QUOTA = ("quota-declared", "whether a quota bounds its compartment")
_ACCOUNT = ("quota-declared", "")
_SUBNETS = ("private-nodes", "whether its subnets give out public addresses")
_ROLE = ("node-role-least-privilege", "the rights of its nodes' role")
_WALLS = ("runner-namespace-isolated", "whether its network enforces NetworkPolicies")
EXISTING = {
    "existing-eks": ("platform", (_ENDPOINT, _LOGS, _SYSTEM, _BUDGET, _ACCOUNT, _SUBNETS, _ROLE, _WALLS)),
    "existing-oke": ("ocid1.cluster.oc1.sjc.exampleplatform", (_ENDPOINT, _SYSTEM, _BUDGET, _QUOTA, _SUBNETS, _WALLS)),
    "existing-context": ("admin@lab", (_ENDPOINT, _LOGS, _SYSTEM, _WALLS)),
}
"""By stack with a cluster that exists already: the cluster, and what each policy cannot see of it, in the order of verdicts.

The text is empty for quotas, which belong to the account."""


EVICTION = "no-silent-eviction"
UNSEEN = "a pack sees no earlier state; `gpu-ci plan --base` says which running jobs a change ends, and decides"


def _of_existing(stack: str) -> list[Verdict]:
    cluster, rules = EXISTING[stack]
    (marker,) = [each.urn for each in recorded(stack).resources if each.type == EXISTING_CLUSTER]
    return [
        Verdict(
            rule,
            reported(level(rule, stack)),
            "undeterminable",
            marker if rule in (_ENDPOINT[0], _LOGS[0]) else "",
            f"cluster {cluster} exists already, and nothing in the stack shows {what}" if what else ACCOUNT,
        )
        for rule, what in rules
    ]


def unshown(stack: str) -> list[Verdict]:
    """What a stack leaves undeterminable. No stack shows what a change does."""
    order = [rule.id for rule in RULES]
    eviction = Verdict(EVICTION, reported(level(EVICTION, stack)), "undeterminable", "", UNSEEN)
    # Policies of one resource come first.
    return sorted((*_unshown(stack), eviction), key=lambda verdict: (not verdict.urn, order.index(verdict.rule)))


def _unshown(stack: str) -> list[Verdict]:
    if stack in EXISTING:
        return _of_existing(stack)
    found = []
    if any(each.type == NODE_GROUP for each in recorded(stack).resources):
        rule = "quota-declared"
        found.append(Verdict(rule, reported(level(rule, stack)), "undeterminable", "", ACCOUNT))
    if stack not in UNSHOWN:
        return found
    why = (
        f"nothing in the stack shows whether jobs of {UNSHOWN[stack]} are isolated: OKE enforces no NetworkPolicy until Calico "
        "is installed in the cluster"
    )
    rule = "runner-namespace-isolated"
    return [*found, Verdict(rule, reported(level(rule, stack)), "undeterminable", "", why)]


@pytest.mark.parametrize("stack", STACKS)
def test_our_own_stacks_break_no_policy_and_leave_undetermined_quotas_what_oke_enforces_and_existing_clusters_alone(stack):
    assert [each for each in as_declared(stack) if each.kind != "excepted"] == unshown(stack)


@pytest.mark.parametrize("stack", ["staging", "prod", "homelab"])
def test_a_version_that_has_ended_stops_no_update_of_a_shipped_stack(stack):
    late = [verdict for verdict in judged(stack) if verdict.rule == BY_DAY]
    assert {(verdict.kind, verdict.level) for verdict in late} <= {("violation", "advisory"), ("excepted", "mandatory")}
    assert late, "this day is after the end of the pinned runner"


@pytest.mark.parametrize("stack", UNSHOWN)
def test_a_strict_plan_passes_where_the_owner_has_accepted_that_oke_enforces_nothing(stack):
    assert blocked_of(unshown(stack), strict=True) == ()


@pytest.mark.parametrize("stack", STACKS)
def test_every_exception_of_our_own_hides_something(stack):
    told = as_declared(stack)
    for each in configured(stack):
        for index, entry in enumerate(each.config["exceptions"]):
            found = [verdict for verdict in told if verdict.rule == each.policy.id and f"exceptions[{index}]" in verdict.message]
            # One with a `#` is of a check of manifests.
            assert bool(found) != ("#" in entry["urn"]), (each.policy.id, entry["urn"])


def test_every_policy_judges_something_of_our_own_or_is_named_here():
    types = {resource.type for stack in STACKS for resource in recorded(stack).resources}
    assert {rule.id for rule in RULES if not any(map(rule.judges, types))} == NOTHING_OF_OURS


NOTHING_OF_OURS: set[str] = set()
"""Policies for what a user of the pack may have, and this project's own stacks do not."""


@pytest.mark.parametrize("stack", BUYING)
def test_whatever_boots_machines_is_asked_for_its_metadata_options(stack):
    (rule,) = [rule for rule in RULES if rule.id == "imds-v2-hop-one"]
    booting = {resource.type for resource in recorded(stack).resources} & set(MACHINES)
    assert booting, "a stack that is deployed without machines runs nothing"
    assert booting <= rule.types


# -- with one thing broken ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_rule_of_one_resource_says_the_same_of_others_whatever_one_resource_has(mutation):
    pairs = [(stack, target) for stack in STACKS for target in targets(mutation, stack)[:1]]
    stack, target = min(pairs, key=lambda pair: len(recorded(pair[0]).resources))
    changed = {target.urn: broken(mutation, target)}
    assert verdicts_with(changed, stack) == verdicts(among(changed, stack), stack)


@pytest.mark.usefixtures("read_once")
@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_one_thing_broken_is_told_by_the_policy_that_guards_it_and_no_other(mutation):
    """It is broken in every pool at once, and reported of each."""
    enforced = {stack: level(mutation.rule, stack) for stack in STACKS if targets(mutation, stack)}
    assert set(enforced.values()) - {"disabled"}, "nothing of our own shows it"
    for stack, rule_level in enforced.items():
        changed = all_broken(mutation, stack)
        told = {
            (each.rule, each.kind, each.level, each.urn)
            for each in verdicts_with(changed, stack)
            if each.kind != "excepted" and each not in unshown(stack)
        }
        mine = {(mutation.rule, "violation", reported(rule_level), urn) for urn in changed if rule_level != "disabled"}
        assert mine <= told, stack
        assert {rule for rule, *_ in told - mine} <= mutation.also, stack


def test_a_node_group_without_its_taint_is_told_what_to_add():
    mutation = MUTATIONS["a pool without its taint"]
    (target,) = [each for each in targets(mutation, "staging") if each.name == "usw2-t4-spot-us-west-2a-nodes"]
    (verdict,) = [
        each
        for each in verdicts(among({target.urn: broken(mutation, target)}, "staging"), "staging")
        if each.rule == mutation.rule
    ]
    assert verdict.message == (
        'taints: a GPU pool (amiType is "AL2023_x86_64_NVIDIA") needs a taint nvidia.com/gpu with effect NO_SCHEDULE '
        'or NO_EXECUTE; add {key: nvidia.com/gpu, value: "true", effect: NO_SCHEDULE}'
    )


# -- as the pack sees them over the wire -----------------------------------------------------------------------------------


def _kinds(value: Any) -> Any:
    """The keys of a value and the types below them: what it is read as over the wire depends on nothing else."""
    if isinstance(value, Mapping):
        return tuple((key, _kinds(entry)) for key, entry in sorted(value.items()))
    if isinstance(value, Secret):
        return "secret", _kinds(value.reveal())
    return frozenset(map(_kinds, value)) if isinstance(value, list | tuple) else type(value)


def said_of(pack: Pack, recording: Recording, analyzed: Iterable[Resource] | None = None) -> list[tuple[str, str, str, str]]:
    """(policy, level, urn, message) of each diagnostic of the pack, without the description that it puts before.

    It analyzes these resources, else all of the recording, and then the stack.
    """
    # The engine does not analyze what is only read.
    alone = [resource for resource in (recording.resources if analyzed is None else analyzed) if not resource.read]
    told = [(each, resource.urn) for resource in alone for each in pack.stub.Analyze(analyze_request(resource)).diagnostics]
    told += [(each, each.urn) for each in pack.stub.AnalyzeStack(stack_request(recording)).diagnostics]
    return [
        (each.policyName, str(each.enforcementLevel), urn, each.message.partition("\n")[2] or each.message) for each, urn in told
    ]


def _shape(resource: Resource, configs: Mapping[str, Any]) -> tuple[Any, ...]:
    """What decides how the pack reads a resource: of a type that no rule reads only the type, else the configs, too."""
    if not (readers := _readers(resource.type)):
        return (resource.type,)
    return resource.type, _kinds(resource.inputs), *(configs[name] for name in readers)


@cache
def _readers(token: str) -> list[str]:
    return [rule.id for rule in RULES if isinstance(rule, Rule) and rule.sees(token)]


def _unlike(stack: str, sent: set[tuple[Any, ...]]) -> list[Resource]:
    """Resources of a stack that are like none that was sent before, and each of which a rule has something to say."""
    settings = policy_settings(stack, ROOT)
    configs = {rule.id: _kinds(settings.get(rule.id)) for rule in RULES}
    told = {verdict.urn for verdict in judged(stack)}
    unlike = []
    for resource in recorded(stack).resources:
        shape = _shape(resource, configs)
        if shape not in sent or resource.urn in told:
            unlike.append(resource)
        if not resource.read:
            sent.add(shape)
    return unlike


def _together(stack: str, types: set[str]) -> Recording:
    """The stack with what rules of a stack read, and of each other type, unless it was sent before, one resource."""
    resources = []
    for resource in recorded(stack).resources:
        if any(rule.sees(resource.type) for rule in OF_STACK.values()) or resource.type not in types:
            resources.append(resource)
            types.add(resource.type)
    return dataclasses.replace(recorded(stack), resources=tuple(resources))


def test_the_pack_over_the_wire_says_the_same_of_every_resource(pack):
    sent: set[tuple[Any, ...]] = set()
    types: set[str] = set()
    for stack in STACKS:
        pack.configure(policy_settings(stack, ROOT))
        said = [
            (policy, level, urn, _short(message.partition(" during preview: ")[2]))
            for policy, level, urn, message in said_of(pack, _together(stack, types), _unlike(stack, sent))
        ]
        ended = [
            (each.rule, "1" if each.level == "mandatory" else "0", each.urn)
            for each in judged(stack)
            if (each.rule, each.kind) == (BY_DAY, "violation")
        ]
        assert [each[:3] for each in said if each[0] == BY_DAY] == ended, stack
        # Only a preview has the remark on what no policy judges.
        told = [each for each in said if each[0] not in (BY_DAY, "types-judged")]
        assert told == [(each.rule, "0", each.urn, each.message) for each in unshown(stack)], stack


def test_a_plan_and_the_pack_differ_in_one_thing_what_has_ended_fails_the_pack_alone(pack):
    stack = "ordered-pools"
    pack.configure(policy_settings(stack, ROOT))
    refused = {
        (policy, urn) for policy, level, urn, _ in said_of(pack, _together(stack, set()), _unlike(stack, set())) if level == "1"
    }
    early = [each for each in configure(RULES, policy_settings(stack, ROOT), date.min) if each.policy.id == BY_DAY]
    offline = by_time(
        judged(stack), lambda rules: judge(recorded(stack), early) if rules == {BY_DAY} else pytest.fail(str(rules))
    )
    assert refused == {(each.rule, each.urn) for each in offline if each.kind == ENDED}
    assert refused
    assert blocked_of(offline, strict=True) == blocked_of(unshown(stack), strict=True)


@pytest.mark.parametrize("stack", STACKS)
def test_the_pack_over_the_wire_says_the_same_of_what_is_broken(pack, stack):
    pack.configure(policy_settings(stack, ROOT))
    told = set()
    for name, mutation in MUTATIONS.items():
        for target in targets(mutation, stack)[:1]:
            resource = broken(mutation, target)
            # The process reads the whole stack for each policy of it: the resource alone is what it is asked here.
            recording = dataclasses.replace(recorded(stack), resources=(resource,))
            here = [
                (verdict.rule, "1" if verdict.level == "mandatory" else "0", verdict.urn, verdict.message)
                for verdict in verdicts(recording, stack)
                if verdict.kind == "violation"
            ]
            judged_now = [each for each in said_of(pack, recording) if each[0] not in (BY_DAY, "types-judged")]
            said = [each for each in judged_now if "can't run policy" not in each[3]]
            assert said == here, name
            told |= {verdict[0] for verdict in here}
    # Of an OKE cluster without preemptible pools only these two can be broken in a resource: OKE sets the taint itself.
    of_machines = {"imds-v2-hop-one"} if stack in BUYING else {"gpu-node-taint"} if stack not in DEPLOYED else set()
    assert {"gpu-limits-required"} | of_machines <= told
