"""The judge against the SDK's own servicer, and what it does with settings."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
import pytest
from google.protobuf import json_format
from pulumi.runtime import proto
from pulumi_policy import EnforcementLevel
from pulumi_policy.policy import _PolicyAnalyzerServicer

from fleet.facts.errors import InputError
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.judge import configure, judge, properties_of
from gpu_ci.offline.record import record
from policies.pack import policy
from policies.rules.read import known, walk
from policies.rules.record import File, Unknown
from policies.rules.rule import STACK_KINDS, Rule, StackRule
from tests.analyzed import analyze_request, stack_request
from tests.day import AS_OF

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
KEYS = "kubernetes:core/v1:Secret"
POOL = "gpu-ci:index:Pool"
PARENT = "test:index:Parent"
UNKNOWN_STRING = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def of(name, *types, level="mandatory", kind=Rule, **config):
    """A rule as the pack has them, from its check."""

    def made(check: Callable):
        return kind(
            id=name,
            section="Spot, cost and scale",
            order=1,
            title=f"Title of {name}",
            severity="low",
            types=frozenset(types),
            levels=dict.fromkeys(STACK_KINDS, level),
            rationale=f"About {name}.",
            source="https://example.com",
            fix="Fix it.",
            config=config,
            check=check,
        )

    return made


@of(
    "max-nodes",
    NODE_GROUP,
    max={"type": "integer", "default": 4, "minimum": 1},
    allowed={"type": "array", "items": {"type": "string"}},
)
def max_nodes(args, later):
    most = walk(args.props, "scalingConfig", "maxSize")
    limit = args.config["max"]
    if most > limit and args.name not in args.config.get("allowed", ()):
        yield f"{type(most).__name__} {most} > {type(limit).__name__} {limit}"


@of("known-template", NODE_GROUP)
def known_template(args, later):
    if "taints" not in args.props:
        yield "no taints"
    if walk(args.props, "launchTemplate", "id") == "lt-1":
        yield "never reached"


@of("known-subnets", NODE_GROUP)
def known_subnets(args, later):
    for subnet in args.props["subnetIds"]:
        known(subnet)
    yield "never reached"


@of(
    "everything",
    NODE_GROUP,
    KEYS,
    POOL,
    PARENT,
    "test:index:Thing",
    "pulumi:providers:aws",
    "pulumi:pulumi:Stack",
    level="advisory",
)
def everything(args, later):
    """Reports all that a rule can see, in a form that does not depend on the order of keys."""
    provider = args.provider
    yield repr(
        [
            told(args.props),
            args.urn,
            args.name,
            args.opts,
            provider and [told(provider.props), provider.urn, provider.name],
            sorted(args.config.items()),
        ]
    )


@of("secret-sized", KEYS)
def secret_sized(args, later):
    if len(args.props["stringData"]["key"]) < 100:
        yield "the secret is seen by policies as it is"


@of("together", NODE_GROUP, POOL, "aws:ec2/launchTemplate:LaunchTemplate", "pulumi:pulumi:Stack", kind=StackRule)
def together(stack, later):
    for each in stack.resources:
        above = each.parent.name if each.parent else None
        names = sorted((name, sorted(one.name for one in found)) for name, found in each.property_dependencies.items() if found)
        yield f"{each.name} {above} {[one.name for one in each.dependencies]} {names} {told(each.props)}", each.urn
    yield f"{len(stack.resources)} in all", None


@of("unsure", NODE_GROUP, kind=StackRule)
def unsure(stack, later):
    yield "said first", None
    for each in stack.resources:
        walk(each.props, "launchTemplate", "id")


RULES = [max_nodes, known_template, known_subnets, everything, secret_sized, together, unsure]


def told(value):
    """Plain data with sorted keys; an unknown as a word."""
    if isinstance(value, dict):
        return {key: told(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [told(item) for item in value]
    if isinstance(value, File):
        return ["file", told(value.wire)]
    return "unknown" if isinstance(value, Unknown) else value


class Pool(pulumi.ComponentResource):
    def __init__(self, name, most, opts=None):
        super().__init__(POOL, name, {"most": most, "nothing": None}, opts)
        template = aws.ec2.LaunchTemplate(f"{name}-template", opts=pulumi.ResourceOptions(parent=self))
        aws.eks.NodeGroup(
            f"{name}-nodes",
            cluster_name="usw2",
            node_role_arn="arn",
            subnet_ids=["subnet-1", template.id],
            scaling_config={"min_size": 0, "max_size": most, "desired_size": 0},
            launch_template={"id": template.id, "version": "1"},
            opts=pulumi.ResourceOptions(
                parent=self,
                protect=True,
                delete_before_replace=False,
                ignore_changes=["scalingConfig.desiredSize"],
                additional_secret_outputs=["arn"],
                aliases=[pulumi.Alias(name="old")],
            ),
        )
        self.register_outputs({})


class Thing(pulumi.CustomResource):
    def __init__(self, name, **properties):
        super().__init__("test:index:Thing", name, properties)


class Parent(pulumi.ComponentResource):
    def __init__(self, name):
        super().__init__(PARENT, name)
        self.register_outputs({})


def program():
    provider = aws.Provider("aws", region="us-west-2")
    Pool("small", 2, pulumi.ResourceOptions(providers=[provider]))
    Pool("big", 9, pulumi.ResourceOptions(providers=[provider]))
    kubernetes.core.v1.Secret("s", string_data={"key": pulumi.Output.secret("word")})
    Thing(
        "odd",
        made=Thing("made"),
        parent=Parent("parent"),
        asset=pulumi.StringAsset("text"),
        archive=pulumi.AssetArchive({"a": pulumi.FileAsset(__file__)}),
        nested=[[1, 2.5, None, True], {"deep": pulumi.Output.secret([{"x": 1}])}],
        __internal="hidden",
    )
    aws.ec2.LaunchTemplate.get("read", "lt-1")


CONFIG = StackConfig("gpu-ci", "dev", Path("Pulumi.dev.yaml"), {}, frozenset(), {})


@pytest.fixture(scope="module", params=[True, False], ids=["preview", "update"])
def recording(request):
    return preview() if request.param else record(program, CONFIG, preview=False)


def texts(verdicts, rule):
    return [(verdict.urn.rpartition("::")[2], verdict.kind, verdict.message) for verdict in verdicts if verdict.rule == rule]


@cache
def preview():
    return record(program, CONFIG)


def judged(recording, rules, settings):
    return judge(recording, configure(rules, settings, AS_OF))


def as_the_pack_says(rules, settings, recording):
    """What the SDK's servicer says of each resource under the config that the CLI would send, as (rule, kind, …)."""
    servicer = _PolicyAnalyzerServicer("gpu-ci", "0.0.1", [policy(rule, AS_OF) for rule in rules], EnforcementLevel.ADVISORY)
    request = proto.ConfigureAnalyzerRequest()
    levels = {"advisory": 0, "mandatory": 1, "disabled": 2, "remediate": 3}
    for configured in configure(rules, settings, AS_OF):
        sent = request.policyConfig[configured.policy.id]
        sent.enforcementLevel = levels[configured.level.value]
        sent.properties.update(configured.config)
    servicer.Configure(request, None)
    said: list[tuple] = []
    for resource in recording.resources:
        if resource.read:
            continue
        asked = proto.AnalyzeRequest.FromString(analyze_request(resource).SerializeToString())
        answer = servicer.Analyze(asked, None)
        for found in answer.diagnostics:
            before = f"can't run policy '{found.policyName}' from policy pack 'gpu-ci@v0.0.1' during preview: "
            if found.message.startswith(before):
                said.append((found.policyName, "undeterminable", None, resource.urn, found.message.removeprefix(before)))
            else:
                level = "advisory" if found.enforcementLevel == 0 else "mandatory"
                message = found.message.removeprefix(found.description).removeprefix("\n")
                said.append((found.policyName, "violation", level, resource.urn, message))
        said += [
            (none.policy_name, "not-applicable", None, resource.urn, none.reason)
            for none in answer.not_applicable
            if not none.reason.startswith("Policy does not")
        ]
    answer = servicer.AnalyzeStack(proto.AnalyzeStackRequest.FromString(stack_request(recording).SerializeToString()), None)
    for found in answer.diagnostics:
        before = f"can't run policy '{found.policyName}' from policy pack 'gpu-ci@v0.0.1' during preview: "
        if found.message.startswith(before):
            said.append((found.policyName, "undeterminable", None, "", found.message.removeprefix(before)))
        else:
            level = "advisory" if found.enforcementLevel == 0 else "mandatory"
            said.append(
                (found.policyName, "violation", level, found.urn, found.message.removeprefix(f"About {found.policyName}.\n"))
            )
    said += [(none.policy_name, "not-applicable", None, "", none.reason) for none in answer.not_applicable]
    return sorted(said, key=repr)


EXCEPTIONS = [
    {"urn": f"*{token}::{name}", "reason": "because a test says so", "expires": "2027-01-01"}
    for token, end in ((NODE_GROUP, "nodes"), ("aws:ec2/launchTemplate:LaunchTemplate", "template"))
    for name in (f"big-{end}", f"small-{end}")
]
SETTINGS = [
    {},
    {"all": "advisory"},
    {"all": "disabled", "max-nodes": "mandatory"},
    {"max-nodes": {"max": 1, "allowed": ["big-nodes"]}, "everything": "remediate"},
    {"max-nodes": {"enforcementLevel": "advisory", "max": 8}, "known-template": "disabled"},
    {name: {"exceptions": EXCEPTIONS} for name in ("max-nodes", "known-template", "together")},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_the_judge_says_what_the_sdks_servicer_says(recording, settings):
    ours = [
        (
            verdict.rule,
            "not-applicable" if verdict.kind == "excepted" else verdict.kind,
            verdict.level if verdict.kind == "violation" else None,
            verdict.urn,
            verdict.message,
        )
        for verdict in judged(recording, RULES, settings)
    ]
    theirs = as_the_pack_says(RULES, settings, recording)
    assert sorted(ours, key=repr) == theirs
    assert settings.get("all") == "disabled" or len(theirs) > 8, "the corpus says something"


def test_numbers_reach_a_rule_as_floats_and_defaults_are_filled_in():
    found = texts(judged(preview(), RULES, {}), "max-nodes")
    assert found == [("big-nodes", "violation", "float 9.0 > float 4.0")]


def test_settings_override_defaults():
    assert texts(judged(preview(), RULES, {"max-nodes": {"max": 9}}), "max-nodes") == []
    found = texts(judged(preview(), RULES, {"max-nodes": {"max": 1, "allowed": ["big-nodes"]}}), "max-nodes")
    assert found == [("small-nodes", "violation", "float 2.0 > float 1.0")]


def test_an_unknown_is_undeterminable_after_what_was_said_before_it():
    found = texts(judged(preview(), RULES, {}), "known-template")
    unknown = "string value at .launchTemplate.id can't be known during preview"
    assert found == [
        ("small-nodes", "violation", "no taints"),
        ("small-nodes", "undeterminable", unknown),
        ("big-nodes", "violation", "no taints"),
        ("big-nodes", "undeterminable", unknown),
    ]


def test_an_unknown_item_of_a_list_is_spelled_as_in_messages():
    assert {message for _, _, message in texts(judged(preview(), [known_subnets], {}), "known-subnets")} == {
        "string value at .subnetIds[1] can't be known during preview"
    }


def test_an_undeterminable_verdict_keeps_the_level_of_its_rule():
    levels = {verdict.level for verdict in judged(preview(), [known_template], {}) if verdict.kind == "undeterminable"}
    assert levels == {"mandatory"}, "so that a gate can fail on it, which the engine would let pass"


def test_a_secret_is_judged_by_its_value():
    assert texts(judged(preview(), RULES, {}), "secret-sized") == [("s", "violation", "the secret is seen by policies as it is")]


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ({}, "mandatory"),
        ({"all": "advisory"}, "advisory"),
        ({"all": {"enforcementLevel": "advisory"}}, "advisory"),
        ({"all": "advisory", "max-nodes": "mandatory"}, "mandatory"),
        ({"max-nodes": {"enforcementLevel": "advisory"}}, "advisory"),
        ({"max-nodes": "remediate"}, "mandatory"),
        ({"all": "disabled"}, None),
        ({"max-nodes": "disabled"}, None),
        ({"environments": ["aws/dev"]}, "mandatory"),
    ],
)
def test_levels_come_from_the_policy_then_all_then_its_own_entry(settings, level):
    verdicts = judged(preview(), [max_nodes], settings)
    assert [verdict.level for verdict in verdicts] == ([level] if level else [])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max-node": "mandatory"}, ["max-node: no policy has this name", "max-nodes"]),
        ({"max-nodes": "strict"}, ["a level is one of disabled, advisory, remediate, mandatory", "'strict'"]),
        ({"max-nodes": {"enforcementLevel": 1}}, ["a level is one of", "got 1"]),
        ({"all": "off"}, ["all: a level is one of"]),
        ({"all": {"max": 3}}, ["all: can set only the level"]),
        ({"max-nodes": ["mandatory"]}, ["must be a level or an object"]),
        ({"max-nodes": {"maximum": 3}}, ["max-nodes.maximum: the policy does not have this property", "did you mean max?"]),
        ({"everything": {"x": 3}}, ["its properties: exceptions, why"]),
        ({"max-nodes": {"max": "3"}}, ["max-nodes.max: must be of type integer", "'3'"]),
        ({"max-nodes": {"max": True}}, ["must be of type integer"]),
        ({"max-nodes": {"max": 0}}, ["must be at least 1", "got 0"]),
        ({"max-nodes": {"allowed": ["a", 1]}}, ["max-nodes.allowed[1]: must be of type string"]),
    ],
)
def test_settings_that_the_rules_do_not_take_are_an_input_error(settings, words):
    with pytest.raises(InputError) as caught:
        judged(preview(), RULES, settings)
    for word in words:
        assert word in str(caught.value), str(caught.value)


def test_two_rules_of_one_id_are_refused():
    with pytest.raises(ValueError, match="max-nodes"):
        judged(preview(), [max_nodes, max_nodes], {})


def test_an_exception_of_a_rule_passes_with_rule_and_urn():
    @of("broken", POOL)
    def broken(args, later):
        raise KeyError("x")

    with pytest.raises(KeyError) as caught:
        judged(preview(), [broken], {})
    assert caught.value.__notes__ == ["raised by policy broken on urn:pulumi:dev::gpu-ci::gpu-ci:index:Pool::small"]


def test_only_what_some_rule_wants_is_deserialized(monkeypatch):
    read: list = []

    def count(resource):
        read.append(resource.urn)
        return properties_of(resource)

    monkeypatch.setattr("gpu_ci.offline.judge.properties_of", count)
    recording = record(program, CONFIG)  # nothing has read it
    judged(recording, [of("pools", POOL)(lambda args, later: ())], {})
    assert len(read) == 2, "two pools, each read once"
    read.clear()
    judged(recording, [max_nodes, known_template, known_subnets], {})
    assert len(read) == 3, "two node groups once each for three rules, and their one provider"


def test_a_resource_that_is_only_read_is_not_judged():
    @of("templates", "aws:ec2/launchTemplate:LaunchTemplate")
    def templates(args, later):
        yield args.name

    assert [verdict.message for verdict in judged(preview(), [templates], {})] == ["small-template", "big-template"]


def test_a_request_to_the_pack_holds_what_the_engine_sends():
    recording = preview()
    (nodes,) = (resource for resource in recording.resources if resource.name == "big-nodes")
    request = analyze_request(nodes)
    assert json_format.MessageToDict(request.options) == {
        "protect": True,
        "ignoreChanges": ["scalingConfig.desiredSize"],
        "deleteBeforeReplaceDefined": True,
        "additionalSecretOutputs": ["arn"],
        "aliases": ["urn:pulumi:dev::gpu-ci::gpu-ci:index:Pool$aws:eks/nodeGroup:NodeGroup::old"],
        "parent": "urn:pulumi:dev::gpu-ci::gpu-ci:index:Pool::big",
    }
    assert (request.provider.type, request.provider.name) == ("pulumi:providers:aws", "aws")
    assert request.properties["subnetIds"][1] == UNKNOWN_STRING
    assert math.isclose(request.properties["scalingConfig"]["maxSize"], 9.0)


def test_references_and_internal_keys_are_turned_as_the_engine_turns_them():
    (odd,) = (resource for resource in preview().resources if resource.name == "odd")
    properties = json_format.MessageToDict(analyze_request(odd).properties)
    assert properties["parent"] == "urn:pulumi:dev::gpu-ci::test:index:Parent::parent"
    assert properties["made"] == UNKNOWN_STRING, "the id of a resource that does not exist yet"
    assert "__internal" not in properties
