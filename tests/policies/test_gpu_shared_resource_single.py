"""gpu-shared-resource-single: pods that take several shares, and configs that call shares whole GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules import kinds
from policies.rules.gpu_shared_resource_single import RULE
from tests.policies.cases import Case
from tests.policies.fixtures import CPU_POD, GPU, POD, RELEASE, pod
from tests.policies.harness import CLEAN, Verdict, changed, config_of, judge, said, spelled
from tests.policies.published import has_field, resource_schema
from tests.policies.suite import Suite, in_pods

SHARED = f"{GPU}.shared"
CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
POLICY = "kubernetes:nvidia.com/v1:ClusterPolicy"
RENAMED = """
version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: true
    resources: [{name: nvidia.com/gpu, replicas: 4}]
"""
SILENT = RENAMED.replace("    renameByDefault: true\n", "")
LENIENT = RENAMED.replace("GreaterThanOne: true", "GreaterThanOne: false")
MPS = "version: v1\nsharing: {mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}}"
WHOLE = "version: v1\nflags: {migStrategy: none}"


def taking(amount: Any, name: str = SHARED, field: str = "limits") -> dict[str, Any]:
    return {"containers": [{"name": "a"}, {"name": "b", "resources": {field: {name: amount, "memory": 2}}}]}


def several(shown: str, name: str = SHARED, field: str = "limits", path: str = "spec", why: str = "") -> str:
    return (
        f'{path}.containers[1].resources.{field}["{name}"] is {shown}: {why}several shares are not a larger '
        "part of a GPU; write 1"
    )


SLICED = f"GPUs of this stack are shared ({config_of(RULE.id, 'timeSliced')}), and "


def nameless(path: str, shown: str = "not set", strategy: str = "timeSlicing") -> str:
    return (
        f'{path}.sharing.{strategy}.renameByDefault is {shown}: shares would be called "{GPU}" like whole GPUs; '
        f'write true and ask for "{SHARED}", or set {config_of(RULE.id, "timeSliced")}'
    )


def granted(path: str, shown: str, strategy: str = "timeSlicing") -> str:
    field = f"{path}.sharing.{strategy}.failRequestsGreaterThanOne"
    return f"{field} is {shown}: a request for several shares would be granted; write true"


def inert(path: str) -> str:
    return (
        f"{path}.sharing is not a field of the operator, so it shares no GPU; write it into a config of the device plugin, "
        "as a file of devicePlugin.config.data"
    )


def plugin(**files: str) -> dict[str, Any]:
    return {"chart": "oci://example.com/charts/nvidia-device-plugin", "values": {"config": {"map": files}}}


def operator(**config: Any) -> dict[str, Any]:
    return {"chart": "gpu-operator", "values": {"devicePlugin": {"enabled": True, "config": config}}}


def policy(**config: Any) -> dict[str, Any]:
    return {"spec": {"devicePlugin": {"config": config}}}


def held(token: str, content: str) -> tuple[dict[str, Any], str]:
    """A ConfigMap of `token` with a config, and the path of the config."""
    body = {"data": {"any": content}}
    return ({"items": [body]}, 'items[0].data["any"]') if token.endswith("List") else (body, 'data["any"]')


def judged(spec: dict[str, Any], **config: Any) -> Verdict:
    return judge(RULE, POD, pod(spec), config)


@pytest.mark.parametrize("amount", [1, "1", 1.0, 0, "x", None, [2]])
def test_one_share_passes(amount: Any) -> None:
    assert judged(taking(amount)) == CLEAN
    assert judged(taking(amount, GPU), timeSliced=True) == CLEAN


@pytest.mark.parametrize(("amount", "shown"), [(2, "2"), ("2", '"2"'), ("1001m", '"1001m"')])
def test_several_shares_are_told(amount: Any, shown: str) -> None:
    assert judged(taking(amount)) == said(several(shown))
    assert judged(taking(amount, field="requests")) == said(several(shown, field="requests"))


def test_a_request_beside_its_limit_is_told_once() -> None:
    spec = changed(taking(2), "containers", 1, "resources", "requests", {SHARED: 2})
    assert judged(spec) == said(several("2"))


def test_a_shared_slice_is_a_share_too() -> None:
    name = "nvidia.com/mig-1g.5gb.shared"
    assert judged(taking(2, name)) == said(several("2", name))


def test_whole_gpus_count_where_the_stack_shares_them_under_their_name() -> None:
    assert judged(taking(2, GPU)) == CLEAN
    assert judged(taking(2, GPU), timeSliced=True) == said(several("2", GPU, why=SLICED))
    assert judged(taking(2), timeSliced=True) == said(several("2"))
    assert judged(taking(2, "amd.com/gpu"), timeSliced=True) == CLEAN, "NVIDIA's plugin does not share those"
    assert judged(taking(9, "nvidia.com/memory"), timeSliced=True) == CLEAN


def test_an_unknown_amount_leaves_it_open_unless_the_other_tells() -> None:
    path = ("spec", "containers", 1, "resources", "limits", SHARED)
    assert judge(RULE, POD, pod(taking(1)), unknown=path) == said(unknown=spelled(path))
    both = changed(taking(1), "containers", 1, "resources", "requests", {SHARED: 2})
    assert judge(RULE, POD, pod(both), unknown=path).messages == (several("2", field="requests"),)
    assert judge(RULE, POD, pod(CPU_POD), unknown=("spec", "nodeSelector")) == CLEAN


@pytest.mark.parametrize("content", [RENAMED, MPS, WHOLE, "", "[]", "sharing: none"])
def test_configs_that_share_nothing_or_call_shares_so_pass(content: str) -> None:
    assert judge(RULE, RELEASE, plugin(any=content)) == CLEAN


def test_shares_are_renamed_unless_the_stack_says_that_it_shares() -> None:
    path = 'values.config.map["b"]'
    props = plugin(a=RENAMED, b=SILENT)
    assert judge(RULE, RELEASE, props) == said(nameless(path))
    assert judge(RULE, RELEASE, props, {"timeSliced": True}) == CLEAN
    off = plugin(b=RENAMED.replace("renameByDefault: true", "renameByDefault: false"))
    assert judge(RULE, RELEASE, off) == said(nameless(path, "false"))


def test_the_plugin_refuses_requests_for_several_shares() -> None:
    path = 'values.config.map["any"]'
    assert judge(RULE, RELEASE, plugin(any=LENIENT)) == said(granted(path, "false"))
    unset = RENAMED.replace("    failRequestsGreaterThanOne: true\n", "")
    assert judge(RULE, RELEASE, plugin(any=unset)) == said(granted(path, "not set"))
    assert judge(RULE, RELEASE, plugin(any=unset), {"timeSliced": True}) == said(granted(path, "not set"))


def test_mps_refuses_them_by_itself_and_wins_where_both_are_there() -> None:
    path = 'values.config.map["any"]'
    bare = MPS.replace("renameByDefault: true, ", "")
    assert judge(RULE, RELEASE, plugin(any=bare)) == said(nameless(path, strategy="mps"))
    lenient = MPS.replace("mps: {", "mps: {failRequestsGreaterThanOne: no, ")
    assert judge(RULE, RELEASE, plugin(any=lenient)) == said(granted(path, "false", "mps"))
    both = MPS.replace("mps:", "timeSlicing: {}, mps:")
    assert judge(RULE, RELEASE, plugin(any=both)) == CLEAN


def test_a_config_that_cannot_be_read_is_told() -> None:
    message = 'values.config.map["any"] cannot be read: it is not YAML, or too long; write a config of version v1'
    assert judge(RULE, RELEASE, plugin(any="{")) == said(message)
    assert judge(RULE, CONFIG_MAP, {"data": {"any": "sharing: {"}}) == CLEAN, "the owner of a ConfigMap is unknown"


def test_the_operator_takes_files_while_it_creates_them_and_ignores_sharing_beside_them() -> None:
    path = 'values.devicePlugin.config.data["any"]'
    assert judge(RULE, RELEASE, operator(create=True, name="c", default="any", data={"any": SILENT})) == said(nameless(path))
    assert judge(RULE, RELEASE, operator(create=False, data={"any": SILENT})) == CLEAN
    # Seed 004's values.
    seed = operator(name="time-slicing-config", default="0", sharing={"timeSlicing": {"resources": [{"name": GPU}]}})
    assert judge(RULE, RELEASE, seed) == said(inert("values.devicePlugin.config"))


def test_value_files_of_these_charts_are_refused() -> None:
    message = "valueYamlFiles: files may share GPUs and are not read; move them to values"
    assert judge(RULE, RELEASE, plugin() | {"valueYamlFiles": ["text"]}) == said(message)
    assert judge(RULE, RELEASE, {"chart": "kueue", "valueYamlFiles": ["text"]}) == CLEAN


def test_unknown_files_leave_it_open() -> None:
    path = ("values", "config", "map", "any")
    assert judge(RULE, RELEASE, plugin(any=RENAMED), unknown=path) == said(unknown=".".join(path))
    assert judge(RULE, CONFIG_MAP, {"data": {"any": "x"}}, unknown=("data", "any")) == said(unknown="data.any")
    assert judge(RULE, CONFIG_MAP, {"data": {"launcher.json": "x"}}, unknown=("data", "launcher.json")) == CLEAN


@pytest.mark.reference
def test_the_cluster_policy_has_a_config_without_sharing() -> None:
    schema = resource_schema("nvidia.com", "ClusterPolicy", "v1")
    assert has_field(schema, "spec", "devicePlugin", "config", "default")
    assert not has_field(schema, "spec", "devicePlugin", "config", "sharing")


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(taking(1)),
        *(Case(token, held(token, RENAMED)[0]) for token in sorted(kinds.CONFIG_MAPS)),
        *(Case(token, policy(name="slices", default="any")) for token in sorted(kinds.CLUSTER_POLICY)),
        Case(RELEASE, plugin(any=RENAMED, mps=MPS, none=WHOLE)),
        Case(RELEASE, operator(create=True, name="c", data={"any": RENAMED})),
        Case(RELEASE, plugin(any=SILENT), config={"timeSliced": True}),
    ),
    violating=(
        *in_pods(taking(2), several("2", path="{pod}")),
        Case(POD, pod(taking(2, GPU)), (several("2", GPU, why=SLICED),), {"timeSliced": True}),
        *(Case(token, held(token, SILENT)[0], (nameless(held(token, SILENT)[1]),)) for token in sorted(kinds.CONFIG_MAPS)),
        *(
            Case(token, policy(name="slices", sharing={}), (inert("spec.devicePlugin.config"),))
            for token in sorted(kinds.CLUSTER_POLICY)
        ),
        Case(RELEASE, plugin(any=LENIENT), (granted('values.config.map["any"]', "false"),)),
        Case(RELEASE, operator(name="c", sharing={}), (inert("values.devicePlugin.config"),)),
    ),
)
