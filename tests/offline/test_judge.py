"""The judge against the SDK's own servicer, and what it does with settings."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as kubernetes
import pytest
from google.protobuf import json_format
from pulumi.runtime import proto
from pulumi_policy import EnforcementLevel, PolicyConfigSchema, ResourceValidationPolicy, StackValidationPolicy
from pulumi_policy.deserialize import deserialize_properties
from pulumi_policy.policy import _PolicyAnalyzerServicer

from fleet.facts.errors import InputError
from fleet.loading.stackfile import StackConfig
from gpu_ci.offline.judge import configure, judge
from gpu_ci.offline.record import record
from tests.analyzed import analyze_request, stack_request
from tests.day import AS_OF

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
KEYS = "kubernetes:core/v1:Secret"
POOL = "gpu-ci:index:Pool"
PARENT = "test:index:Parent"
UNKNOWN_STRING = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@dataclasses.dataclass(frozen=True, eq=False)
class Rule:
    """A rule as the pack has them, reduced to what the judge reads."""

    id: str
    reads: frozenset[str]
    check: Callable
    level: EnforcementLevel | None = EnforcementLevel.MANDATORY
    config: Mapping[str, dict] = dataclasses.field(default_factory=dict)

    def policy(self, as_of):
        assert as_of == AS_OF

        def validate(args, report):
            if args.resource_type in self.reads:
                return self.check(args, report)
            return None

        schema = PolicyConfigSchema(dict(self.config)) if self.config else None
        return ResourceValidationPolicy(self.id, f"About {self.id}.", validate, self.level, schema)


def of(name, *types, level=EnforcementLevel.MANDATORY, **config):
    return lambda check: Rule(name, frozenset(types), check, level, config)


@of(
    "max-nodes",
    NODE_GROUP,
    max={"type": "integer", "default": 4, "minimum": 1},
    allowed={"type": "array", "items": {"type": "string"}},
)
def max_nodes(args, report):
    most = args.props["scalingConfig"]["maxSize"]
    limit = args.get_config()["max"]
    if most > limit and args.name not in args.get_config().get("allowed", ()):
        report(f"{type(most).__name__} {most} > {type(limit).__name__} {limit}")


@of("known-template", NODE_GROUP)
def known_template(args, report):
    if "taints" not in args.props:
        report("no taints")
    if args.props["launchTemplate"]["id"] == "lt-1":
        report("never reached")


@of(
    "everything",
    NODE_GROUP,
    KEYS,
    POOL,
    PARENT,
    "test:index:Thing",
    "pulumi:providers:aws",
    "pulumi:pulumi:Stack",
    level=EnforcementLevel.ADVISORY,
)
def everything(args, report):
    """Reports all that a policy can see, in a form that does not depend on the order of keys."""
    opts = args.opts
    provider = args.provider
    report(
        repr(
            [
                plain(args.props),
                args.urn,
                args.name,
                opts.protect,
                list(opts.ignore_changes),
                opts.delete_before_replace,
                list(opts.aliases),
                dataclass_of(opts.custom_timeouts),
                list(opts.additional_secret_outputs),
                opts.parent,
                provider and [provider.resource_type, plain(provider.props), provider.urn, provider.name],
                dict(args.stack_tags),
                dict(args.get_config()),
            ]
        )
    )


@of("secret-sized", KEYS)
def secret_sized(args, report):
    if len(args.props["stringData"]["key"]) < 100:
        report("the secret is seen by policies as it is")


@of("not-for-pools", POOL)
def not_for_pools(args, report):
    report("said first")
    args.not_applicable("pools are judged by their node groups")


@of("waits", NODE_GROUP)
def waits(args, report):
    async def later():
        report("said later")
        args.props["launchTemplate"]["id"]

    return later()


@dataclasses.dataclass(frozen=True)
class StackRule:
    """A stack rule of the pack, reduced likewise: it checks resources of its types alone."""

    id: str
    reads: frozenset[str]
    check: Callable

    def policy(self, as_of):
        def validate(args, report):
            self.check([each for each in args.resources if each.resource_type in self.reads], report)

        return StackValidationPolicy(self.id, f"About {self.id}.", validate, EnforcementLevel.MANDATORY)


def _together(resources, report):
    for each in resources:
        above = each.parent.name if each.parent else None
        names = sorted((name, sorted(one.name for one in found)) for name, found in each.property_dependencies.items() if found)
        report(f"{each.name} {above} {[one.name for one in each.dependencies]} {names} {plain(each.props)}", each.urn)
    report(f"{len(resources)} in all")


def _unsure(resources, report):
    report("said first")
    for each in resources:
        each.props["launchTemplate"]["id"]


RULES = [
    max_nodes,
    known_template,
    everything,
    secret_sized,
    not_for_pools,
    waits,
    StackRule(
        "together", frozenset({NODE_GROUP, POOL, "aws:ec2/launchTemplate:LaunchTemplate", "pulumi:pulumi:Stack"}), _together
    ),
    StackRule("unsure", frozenset({NODE_GROUP}), _unsure),
]


def plain(value):
    """A proxy as plain data with sorted keys; an unknown as a word."""
    if isinstance(value, Mapping):
        raw = value["__target"]
        return {
            key: "unknown" if isinstance(raw[key], str) and raw[key] == UNKNOWN_STRING else plain(raw[key]) for key in sorted(raw)
        }
    if hasattr(value, "__getitem__") and not isinstance(value, str):
        return [plain(item) for item in value["__target"]]
    if isinstance(value, pulumi.Asset | pulumi.Archive):
        return [
            type(value).__name__,
            {
                key: [plain(item) for item in each.values()] if isinstance(each, dict) else each
                for key, each in vars(value).items()
            },
        ]
    return value


def dataclass_of(timeouts):
    return [timeouts.create_seconds, timeouts.update_seconds, timeouts.delete_seconds]


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
                custom_timeouts=pulumi.CustomTimeouts(create="1h", update="0.5s"),
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
    return record(program, CONFIG, preview=request.param)


def texts(verdicts, rule):
    return [(verdict.urn.rpartition("::")[2], verdict.kind, verdict.message) for verdict in verdicts if verdict.rule == rule]


def preview():
    return record(program, CONFIG)


def judged(recording, rules, settings):
    return judge(recording, configure(rules, settings, AS_OF))


def as_the_pack_says(rules, settings, recording):
    """What the SDK's servicer says of each resource under the config that the CLI would send, as (rule, kind, …)."""
    servicer = _PolicyAnalyzerServicer("gpu-ci", "0.0.1", [rule.policy(AS_OF) for rule in rules], EnforcementLevel.ADVISORY)
    request = proto.ConfigureAnalyzerRequest()
    levels = {"advisory": 0, "mandatory": 1, "disabled": 2, "remediate": 3}
    for configured in configure(rules, settings, AS_OF):
        sent = request.policyConfig[configured.policy.name]
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
        said += [(none.policy_name, "not-applicable", None, resource.urn, none.reason) for none in answer.not_applicable]
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
    return sorted(said, key=repr)


SETTINGS = [
    {},
    {"all": "advisory"},
    {"all": "disabled", "max-nodes": "mandatory"},
    {"max-nodes": {"max": 1, "allowed": ["big-nodes"]}, "everything": "remediate"},
    {"max-nodes": {"enforcementLevel": "advisory", "max": 8}, "known-template": "disabled"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=repr)
def test_the_judge_says_what_the_sdks_servicer_says(recording, settings):
    ours = [
        (verdict.rule, verdict.kind, verdict.level if verdict.kind == "violation" else None, verdict.urn, verdict.message)
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


def test_an_undeterminable_verdict_keeps_the_level_of_its_rule():
    levels = {verdict.level for verdict in judged(preview(), [known_template], {}) if verdict.kind == "undeterminable"}
    assert levels == {"mandatory"}, "so that a gate can fail on it, which the engine would let pass"


def test_a_secret_is_judged_by_its_value():
    assert texts(judged(preview(), RULES, {}), "secret-sized") == [("s", "violation", "the secret is seen by policies as it is")]


def test_not_applicable_is_told_with_its_reason():
    assert texts(judged(preview(), RULES, {}), "not-for-pools")[:2] == [
        ("small", "violation", "said first"),
        ("small", "not-applicable", "pools are judged by their node groups"),
    ]


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


def test_a_policy_without_a_level_is_advisory_as_in_the_pack():
    rule = dataclasses.replace(max_nodes, level=None)
    assert [verdict.level for verdict in judged(preview(), [rule], {})] == ["advisory"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max-node": "mandatory"}, ["max-node: no policy has this name", "max-nodes"]),
        ({"max-nodes": "strict"}, ["a level is one of advisory, mandatory, remediate, disabled", "'strict'"]),
        ({"max-nodes": {"enforcementLevel": 1}}, ["a level is one of", "got 1"]),
        ({"all": "off"}, ["all: a level is one of"]),
        ({"all": {"max": 3}}, ["all: can set only the level"]),
        ({"max-nodes": ["mandatory"]}, ["must be a level or an object"]),
        ({"max-nodes": {"maximum": 3}}, ["max-nodes.maximum: the policy does not have this property", "did you mean max?"]),
        ({"everything": {"x": 3}}, ["its properties: none"]),
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


def test_a_required_property_must_be_given():
    class Needs:
        id, reads = "r", frozenset({POOL})

        @staticmethod
        def policy(as_of):
            schema = PolicyConfigSchema({"p": {"type": "string"}}, ["p"])
            return ResourceValidationPolicy("r", "d", lambda *_: None, config_schema=schema)

    with pytest.raises(InputError, match=r"r\.p: is required"):
        judged(preview(), [Needs()], {})
    assert judged(preview(), [Needs()], {"r": {"p": "x"}}) == ()


def test_two_rules_of_one_id_are_refused():
    with pytest.raises(ValueError, match="max-nodes"):
        judged(preview(), [max_nodes, max_nodes], {})


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_exception_of_a_rule_passes_with_rule_and_urn(asynchronous):
    @of("broken", POOL)
    def broken(args, report):
        async def later():
            raise KeyError("x")

        if asynchronous:
            return later()
        raise KeyError("x")

    with pytest.raises((KeyError, RuntimeError)) as caught:
        judged(preview(), [broken], {})
    assert caught.value.__notes__ == ["raised by policy broken on urn:pulumi:dev::gpu-ci::gpu-ci:index:Pool::small"]


def test_a_report_must_be_a_text_as_in_the_sdk():
    @of("number", POOL)
    def number(args, report):
        report(3)

    with pytest.raises(TypeError, match="message to be a string"):
        judged(preview(), [number], {})


def test_an_empty_report_is_a_violation_too():
    @of("silent", POOL)
    def silent(args, report):
        report("")

    assert texts(judged(preview(), [silent], {}), "silent") == [("small", "violation", ""), ("big", "violation", "")]


def test_a_policy_that_only_remediates_has_nothing_to_say():
    class Remediates:
        id, reads = "fixes", frozenset({POOL})

        @staticmethod
        def policy(as_of):
            return ResourceValidationPolicy("fixes", "d", remediate=lambda args: None)

    assert texts(judged(preview(), [Remediates()], {}), "fixes")[0] == (
        "small",
        "not-applicable",
        "Policy does not implement validate",
    )


def test_only_what_some_rule_wants_is_deserialized(monkeypatch):
    read: list = []

    def count(props):
        read.append(props)
        return deserialize_properties(props)

    monkeypatch.setattr("gpu_ci.offline.judge.deserialize_properties", count)
    judged(preview(), [not_for_pools], {})
    assert len(read) == 2, "two pools, each read once"
    read.clear()
    judged(preview(), [max_nodes, known_template, waits], {})
    assert len(read) == 3, "two node groups once each for three rules, and their one provider"


def test_a_resource_that_is_only_read_is_not_judged():
    @of("templates", "aws:ec2/launchTemplate:LaunchTemplate")
    def templates(args, report):
        report(args.name)

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
        "customTimeouts": {"create": 3600.0, "update": 0.5},
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
