"""imds-v2-hop-one: each clause broken once, each kind, and what it leaves to the launch template."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pulumi_oci.containerengine import NodePoolArgs

from policies.rules.imds_v2_hop_one import RULE
from policies.rules.kinds import SPOT_REQUEST
from tests.policies.cases import Case
from tests.policies.fixtures import (
    A10_POOL_PROPS,
    EC2_INSTANCE,
    LAUNCH_TEMPLATE,
    LEGACY,
    METADATA_OPTIONS,
    NODE_CLASS,
    NODE_GROUP,
    NODE_GROUP_PROPS,
    OCI_CONFIGURATION,
    OCI_INSTANCE,
    OCI_OPTIONS,
    OKE_POOL,
    STANDING_PROPS,
    SYSTEM_GROUP_PROPS,
)
from tests.policies.harness import CLEAN, REMOVE, changed, judge, said
from tests.policies.suite import Suite

WHOLE = {"metadataOptions": METADATA_OPTIONS}
OPTIONLESS = "metadataOptions is not set: metadata then answers requests without a token; write {}"
WANTED = "{httpTokens: required, httpPutResponseHopLimit: 1}"
HOP = "httpPutResponseHopLimit"


def hop_fault(shown: str, path: str = "metadataOptions", limit: int = 1) -> str:
    return f"{path}.{HOP} is {shown}: above {limit} pods can reach the node's credentials; write {limit}"


def token_fault(shown: str, path: str = "metadataOptions") -> str:
    return f"{path}.httpTokens is {shown}: IMDSv2 requires a session token; write required"


def by_ipv6(name: str, path: str = "metadataOptions") -> str:
    return f"{path}.{name} is enabled: pods can reach the metadata at a second address; write disabled"


def legacy_fault(path: str, shown: str = "not set") -> str:
    return f"{path}instanceOptions.{LEGACY} is {shown}: IMDSv1 then answers requests without a header; write true"


def pool_fault(shown: str = "not set") -> str:
    return f'nodeMetadata.{LEGACY} is {shown}: IMDSv1 then answers requests without a header; write "true"'


@pytest.mark.parametrize("token", [LAUNCH_TEMPLATE, EC2_INSTANCE])
@pytest.mark.parametrize("options", [REMOVE, None, {}, "required"])
def test_the_options_must_be_there(token: str, options: Any) -> None:
    message = f"metadataOptions is not set: metadata then answers requests without a token; write {WANTED}"
    assert judge(RULE, token, changed(WHOLE, "metadataOptions", options)) == said(message)


@pytest.mark.parametrize("token", [LAUNCH_TEMPLATE, EC2_INSTANCE])
@pytest.mark.parametrize(("tokens", "shown"), [("optional", '"optional"'), (REMOVE, "not set"), (True, "true")])
def test_tokens_are_required(token: str, tokens: Any, shown: str) -> None:
    assert judge(RULE, token, changed(WHOLE, "metadataOptions", "httpTokens", tokens)) == said(token_fault(shown))


@pytest.mark.parametrize("token", [LAUNCH_TEMPLATE, EC2_INSTANCE])
@pytest.mark.parametrize(
    ("hop", "shown"), [(2, "2"), ("64", '"64"'), (0, "0"), (1.5, "1.5"), (REMOVE, "not set"), (None, "not set"), ([], "a list")]
)
def test_the_answer_does_not_leave_the_node(token: str, hop: Any, shown: str) -> None:
    assert judge(RULE, token, changed(WHOLE, "metadataOptions", HOP, hop)) == said(hop_fault(shown))


@pytest.mark.parametrize("hop", [1, 1.0, "1"])
def test_one_hop_passes_however_it_is_written(hop: Any) -> None:
    assert judge(RULE, LAUNCH_TEMPLATE, changed(WHOLE, "metadataOptions", HOP, hop)) == CLEAN


def test_the_hop_limit_is_configurable_but_not_below_one() -> None:
    two = changed(WHOLE, "metadataOptions", HOP, 2)
    assert judge(RULE, LAUNCH_TEMPLATE, two, {"maxHop": 2}) == CLEAN
    assert judge(RULE, LAUNCH_TEMPLATE, changed(two, "metadataOptions", HOP, 3), {"maxHop": 2}) == said(hop_fault("3", limit=2))


@pytest.mark.parametrize("limit", [0, "all", None])
def test_a_hop_limit_that_is_none_leaves_the_default(limit: Any) -> None:
    assert judge(RULE, LAUNCH_TEMPLATE, WHOLE, {"maxHop": limit}) == CLEAN
    assert judge(RULE, LAUNCH_TEMPLATE, changed(WHOLE, "metadataOptions", HOP, 2), {"maxHop": limit}) == said(hop_fault("2"))


def test_a_disabled_endpoint_is_no_excuse() -> None:
    props = changed(WHOLE, "metadataOptions", {"httpEndpoint": "disabled"})
    assert judge(RULE, LAUNCH_TEMPLATE, props) == said(token_fault("not set"), hop_fault("not set"))


@pytest.mark.parametrize("template", [REMOVE, None, {}])
@pytest.mark.parametrize("props", [NODE_GROUP_PROPS, SYSTEM_GROUP_PROPS])
def test_every_node_group_has_a_launch_template(props: dict[str, Any], template: Any) -> None:
    message = (
        f"launchTemplate is not set: EKS then chooses the metadata options; set a launch template with metadataOptions {WANTED}"
    )
    assert judge(RULE, NODE_GROUP, changed(props, "launchTemplate", template)) == said(message)


@pytest.mark.parametrize("step", ["id", "version"])
def test_the_ids_of_a_launch_template_may_be_unknown(step: str) -> None:
    assert judge(RULE, NODE_GROUP, NODE_GROUP_PROPS, unknown=("launchTemplate", step)) == CLEAN
    props = {"launchTemplate": {"id": "lt-1", "version": "1"}}
    assert judge(RULE, EC2_INSTANCE, props, unknown=("launchTemplate", step)) == CLEAN


def test_an_instance_with_options_of_its_own_is_judged_by_them() -> None:
    props = {"launchTemplate": {"id": "lt-1"}, "metadataOptions": {"httpTokens": "optional", HOP: 1}}
    assert judge(RULE, EC2_INSTANCE, props) == said(token_fault('"optional"'))


def test_karpenter_fills_in_safe_values_for_what_is_absent() -> None:
    for options in ({}, {"httpTokens": "required"}, {HOP: 1}, None):
        assert judge(RULE, NODE_CLASS, {"spec": {"metadataOptions": options}}) == CLEAN
    props = {"spec": {"metadataOptions": {"httpTokens": "optional", HOP: 2}}}
    path = "spec.metadataOptions"
    assert judge(RULE, NODE_CLASS, props) == said(token_fault('"optional"', path), hop_fault("2", path))


@pytest.mark.parametrize(("value", "shown"), [(REMOVE, "not set"), (False, "false"), ("false", '"false"'), (1, "1")])
def test_oci_turns_the_legacy_endpoints_off(value: Any, shown: str) -> None:
    options = changed({"instanceOptions": OCI_OPTIONS}, "instanceOptions", LEGACY, value)
    assert judge(RULE, OCI_INSTANCE, options) == said(legacy_fault("", shown))
    props = {"instanceDetails": {"launchDetails": options}}
    assert judge(RULE, OCI_CONFIGURATION, props) == said(legacy_fault("instanceDetails.launchDetails.", shown))
    props = {"instanceDetails": {"options": [{"launchDetails": {"instanceOptions": OCI_OPTIONS}}, {"launchDetails": options}]}}
    assert judge(RULE, OCI_CONFIGURATION, props) == said(legacy_fault("instanceDetails.options[1].launchDetails.", shown))


def test_launch_details_beside_options_are_judged_too() -> None:
    good = {"launchDetails": {"instanceOptions": OCI_OPTIONS}}
    props = {"instanceDetails": {"options": [good], "launchDetails": {}}}
    assert judge(RULE, OCI_CONFIGURATION, props) == said(legacy_fault("instanceDetails.launchDetails."))


def test_oci_takes_the_flag_as_text_too() -> None:
    assert judge(RULE, OCI_INSTANCE, {"instanceOptions": {LEGACY: "true"}}) == CLEAN


def test_the_configuration_of_standing_machines_is_judged_in_its_launch_details() -> None:
    path = ("instanceDetails", "launchDetails", "instanceOptions")
    assert judge(RULE, OCI_CONFIGURATION, STANDING_PROPS) == CLEAN
    assert judge(RULE, OCI_CONFIGURATION, changed(STANDING_PROPS, *path, REMOVE)) == said(
        legacy_fault("instanceDetails.launchDetails.")
    )


@pytest.mark.parametrize("shape", ["VM.GPU.A10.1", "BM.GPU.A10.4", "VM.Standard.E5.Flex"])
@pytest.mark.parametrize(
    ("value", "shown"), [(REMOVE, "not set"), ("false", '"false"'), (False, "false"), (None, "not set"), ("1", '"1"')]
)
def test_an_oke_pool_turns_them_off_in_the_metadata_of_its_nodes_with_or_without_gpu(shape: str, value: Any, shown: str) -> None:
    props = changed(A10_POOL_PROPS | {"nodeShape": shape}, "nodeMetadata", LEGACY, value)
    assert judge(RULE, OKE_POOL, props) == said(pool_fault(shown))


@pytest.mark.parametrize("metadata", [REMOVE, None, {}, {"user_data": "IyEvYmluL2Jhc2g="}])
def test_an_oke_pool_without_metadata_leaves_them_on(metadata: Any) -> None:
    assert judge(RULE, OKE_POOL, changed(A10_POOL_PROPS, "nodeMetadata", metadata)) == said(pool_fault())


def test_other_metadata_of_an_oke_pool_may_be_unknown() -> None:
    assert judge(RULE, OKE_POOL, A10_POOL_PROPS, unknown=("nodeMetadata", "user_data")) == CLEAN


def test_a_node_pool_has_no_instance_options_to_set_instead() -> None:
    fields = set(inspect.signature(NodePoolArgs).parameters)
    assert "node_metadata" in fields
    assert not [field for field in fields if "option" in field or "imds" in field]


@pytest.mark.parametrize("props", [{}, {"instanceDetails": {}}, {"source": "INSTANCE", "instanceId": "ocid1"}])
def test_a_configuration_that_says_nothing_is_not_safe(props: dict[str, Any]) -> None:
    assert judge(RULE, OCI_CONFIGURATION, props) == said(legacy_fault("instanceDetails.launchDetails."))


@pytest.mark.parametrize(
    ("token", "props", "path"),
    [
        (LAUNCH_TEMPLATE, WHOLE, ("metadataOptions",)),
        (LAUNCH_TEMPLATE, WHOLE, ("metadataOptions", "httpTokens")),
        (LAUNCH_TEMPLATE, WHOLE, ("metadataOptions", HOP)),
        (EC2_INSTANCE, WHOLE, ("metadataOptions",)),
        (NODE_GROUP, NODE_GROUP_PROPS, ("launchTemplate",)),
        (NODE_CLASS, {"spec": WHOLE}, ("spec",)),
        (NODE_CLASS, {"spec": WHOLE}, ("spec", "metadataOptions", HOP)),
        (OCI_INSTANCE, {"instanceOptions": OCI_OPTIONS}, ("instanceOptions",)),
        (OCI_CONFIGURATION, {"instanceDetails": {"options": []}}, ("instanceDetails", "options")),
        (OKE_POOL, A10_POOL_PROPS, ("nodeMetadata",)),
        (OKE_POOL, A10_POOL_PROPS, ("nodeMetadata", LEGACY)),
    ],
)
def test_what_is_read_must_be_known(token: str, props: dict[str, Any], path: tuple[str, ...]) -> None:
    assert judge(RULE, token, props, unknown=path) == said(unknown=".".join(path))


def test_a_known_fault_is_reported_before_an_unknown_stops_the_rule() -> None:
    props = changed(WHOLE, "metadataOptions", HOP, 2)
    found = judge(RULE, LAUNCH_TEMPLATE, props, unknown=("metadataOptions", "httpTokens"))
    assert found == said(hop_fault("2"), unknown="metadataOptions.httpTokens")


NO_TEMPLATE = (
    "launchTemplate is not set: EKS then chooses the metadata options; set a launch template with metadataOptions " + WANTED
)
TWO_HOPS = changed(WHOLE, "metadataOptions", HOP, 2)

SUITE = Suite(
    RULE,
    passing=(
        Case(LAUNCH_TEMPLATE, WHOLE),
        Case(LAUNCH_TEMPLATE, TWO_HOPS, config={"maxHop": 2}),
        Case(EC2_INSTANCE, WHOLE),
        Case(EC2_INSTANCE, {"launchTemplate": {"id": "lt-1"}}),
        Case(SPOT_REQUEST, WHOLE),
        Case(NODE_GROUP, NODE_GROUP_PROPS),
        Case(NODE_CLASS, {"spec": {"role": "node"}}),
        Case(NODE_CLASS, {"spec": WHOLE}),
        Case(OCI_INSTANCE, {"instanceOptions": OCI_OPTIONS}),
        Case(OCI_CONFIGURATION, STANDING_PROPS),
        Case(OKE_POOL, A10_POOL_PROPS),
    ),
    violating=(
        Case(LAUNCH_TEMPLATE, {"namePrefix": "gpu"}, (OPTIONLESS.format(WANTED),)),
        Case(LAUNCH_TEMPLATE, TWO_HOPS, (hop_fault("2"),)),
        Case(EC2_INSTANCE, changed(WHOLE, "metadataOptions", "httpTokens", "optional"), (token_fault('"optional"'),)),
        Case(LAUNCH_TEMPLATE, changed(WHOLE, "metadataOptions", "httpProtocolIpv6", "enabled"), (by_ipv6("httpProtocolIpv6"),)),
        Case(
            NODE_CLASS,
            {"spec": changed(WHOLE, "metadataOptions", "httpProtocolIPv6", "enabled")},
            (by_ipv6("httpProtocolIPv6", "spec.metadataOptions"),),
        ),
        Case(SPOT_REQUEST, {"instanceType": "g5.xlarge"}, (OPTIONLESS.format(WANTED),)),
        Case(NODE_GROUP, {"clusterName": "usw2"}, (NO_TEMPLATE,), unremedied=True),
        Case(
            NODE_CLASS,
            {"spec": {"metadataOptions": {"httpTokens": "optional"}}},
            (token_fault('"optional"', "spec.metadataOptions"),),
        ),
        Case(OCI_INSTANCE, {"shape": "VM.GPU.A10.1"}, (legacy_fault(""),)),
        Case(OCI_CONFIGURATION, {"instanceDetails": {}}, (legacy_fault("instanceDetails.launchDetails."),), unremedied=True),
        Case(OKE_POOL, {"nodeShape": "VM.GPU.A10.1"}, (pool_fault(),)),
    ),
)
