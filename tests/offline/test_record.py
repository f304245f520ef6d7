"""What the recorder keeps of a program, and that nothing of one recording reaches the next."""

import asyncio
import contextvars
import copy
import gc
import json
import logging
import os
import pickle
import sys
import textwrap
import unittest
import warnings
from dataclasses import replace
from pathlib import Path

import pulumi
import pulumi_aws as aws
import pulumi_eks as eks
import pulumi_kubernetes as kubernetes
import pytest
from google.protobuf import json_format
from pulumi.runtime import settings

from fleet.loading.stackfile import StackConfig
from gpu_ci.offline import wire
from gpu_ci.offline.private import Loop
from gpu_ci.offline.record import record
from gpu_ci.offline.recording import ProgramError
from gpu_ci.offline.wire import UNKNOWN, Secret
from tests.analyzed import alias_urns
from tests.components.recorded import recordings, stack_config
from tests.offline.order import Bucket

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ROOT = "urn:pulumi:dev::gpu-ci::"
PLAIN = "-----BEGIN PRIVATE KEY-----"


def config(values=None, secret=(), stack="dev"):
    return StackConfig("gpu-ci", stack, Path("Pulumi.dev.yaml"), values or {}, frozenset(secret), {})


def run(program, **options):
    return record(program, config(), **options)


def named(recording, name):
    (found,) = (resource for resource in recording.resources if resource.name == name)
    return found


class Pool(pulumi.ComponentResource):
    def __init__(self, name, role, opts=None):
        super().__init__("gpu-ci:index:Pool", name, {"role": role}, opts)
        self.template = aws.ec2.LaunchTemplate(
            f"{name}-template",
            metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 1},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.nodes = aws.eks.NodeGroup(
            f"{name}-nodes",
            cluster_name="usw2",
            node_role_arn="arn:aws:iam::1:role/r",
            subnet_ids=["subnet-1"],
            scaling_config={"min_size": 0, "max_size": 5, "desired_size": 0},
            launch_template={"id": self.template.id, "version": self.template.latest_version.apply(str)},
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["scalingConfig.desiredSize"], protect=True),
        )
        self.register_outputs({"name": self.nodes.node_group_name})


def fleet():
    provider = aws.Provider("aws", region="us-west-2")
    pool = Pool("t4", "burst", pulumi.ResourceOptions(providers=[provider]))
    aws.autoscaling.Tag(
        "tag",
        autoscaling_group_name=pool.nodes.resources[0].autoscaling_groups[0].name,
        tag={"key": "k", "value": "v", "propagate_at_launch": False},
        opts=pulumi.ResourceOptions(
            provider=provider,
            depends_on=[pool.template],
            delete_before_replace=True,
            replace_on_changes=["tag"],
            additional_secret_outputs=["tag"],
            aliases=[
                pulumi.Alias(name="old"),
                pulumi.Alias(name="older", parent=pool),
                pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE),
            ],
        ),
    )
    pulumi.export("nodes", pool.nodes.arn)
    pulumi.export("sizes", {"min": 0, "share": 0.5})


def test_resources_come_parents_first_with_the_engines_urns():
    recording = run(fleet)
    assert [resource.urn for resource in recording.resources] == [
        ROOT + "pulumi:pulumi:Stack::gpu-ci-dev",
        ROOT + "pulumi:providers:aws::aws",
        ROOT + "gpu-ci:index:Pool::t4",
        ROOT + "gpu-ci:index:Pool$aws:ec2/launchTemplate:LaunchTemplate::t4-template",
        ROOT + "gpu-ci:index:Pool$aws:eks/nodeGroup:NodeGroup::t4-nodes",
        ROOT + "aws:autoscaling/tag:Tag::tag",
    ]
    seen = {""}
    for resource in recording.resources:
        assert resource.parent in seen, f"{resource.name} came before its parent"
        seen.add(resource.urn)
    assert recording.by_urn[ROOT + "gpu-ci:index:Pool::t4"].name == "t4"


def test_options_are_kept_as_the_request_has_them():
    recording = run(fleet)
    provider, pool, nodes, tag = (named(recording, name) for name in ("aws", "t4", "t4-nodes", "tag"))
    assert (pool.custom, pool.remote, nodes.custom) == (False, False, True)
    assert nodes.parent == pool.urn
    assert nodes.protect
    assert nodes.ignore_changes == ("scalingConfig.desiredSize",)
    assert nodes.provider_urn == tag.provider_urn == provider.urn
    assert nodes.provider_resource is provider
    assert pool.providers == {"aws": tag.provider}
    assert nodes.delete_before_replace is None, "not said is not False"
    assert tag.delete_before_replace is True
    assert tag.replace_on_changes == tag.additional_secret_outputs == ("tag",)
    assert alias_urns(tag) == (
        ROOT + "aws:autoscaling/tag:Tag::old",
        ROOT + "gpu-ci:index:Pool$aws:autoscaling/tag:Tag::older",
        ROOT + "aws:autoscaling/tag:Tag::tag",
    )


def test_dependencies_are_those_of_inputs_and_of_depends_on():
    recording = run(fleet)
    template, nodes, tag = (named(recording, name) for name in ("t4-template", "t4-nodes", "tag"))
    assert nodes.dependencies == (template.urn,)
    assert nodes.property_dependencies == {"launchTemplate": (template.urn,)}
    assert set(tag.dependencies) == {nodes.urn, template.urn}
    assert tag.property_dependencies == {"autoscalingGroupName": (nodes.urn,)}


def test_inputs_are_kept_in_wire_form_and_shown_for_reading():
    nodes = named(run(fleet), "t4-nodes")
    assert json_format.MessageToDict(nodes.wire)["scalingConfig"] == {"minSize": 0.0, "maxSize": 5.0, "desiredSize": 0.0}
    assert nodes.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 5, "desiredSize": 0}
    assert isinstance(nodes.inputs["scalingConfig"]["maxSize"], int), "5 prints as 5"
    assert nodes.inputs["launchTemplate"]["id"] is UNKNOWN
    assert json.dumps(nodes.inputs["launchTemplate"], sort_keys=True) == '{"id": "[unknown]", "version": "[unknown]"}'
    assert nodes.inputs is nodes.inputs, "the view is made once"


def test_raw_properties_are_what_protobuf_makes_of_them():
    for resource in run(fleet).resources:
        assert wire.raw(resource.wire) == json_format.MessageToDict(resource.wire)


def test_in_preview_what_the_cloud_decides_is_unknown_and_apply_does_not_run_on_it():
    ran: list = []

    def program():
        bucket = Bucket("b", bucket="given")
        bucket.id.apply(ran.append)
        bucket.arn.apply(ran.append)
        bucket.bucket.apply(ran.append)
        bucket.urn.apply(lambda _: ran.append("urn"))
        pulumi.export("arn", bucket.arn)
        pulumi.export("bucket", bucket.bucket)

    recording = run(program)
    assert sorted(ran) == ["given", "urn"], "inputs and URNs are known, nothing else"
    assert recording.outputs["arn"] is UNKNOWN
    assert recording.outputs["bucket"] == "given"
    assert named(recording, "b").id == ""


def test_resources_register_while_the_program_still_runs():
    seen: list[str] = []
    registered: list[int] = []

    def program():
        for number in range(60):
            Bucket(f"b{number}", bucket="x").urn.apply(seen.append)
        registered.append(len(seen))

    run(program)
    assert 0 < registered[0] < len(seen) == 60


def test_a_recording_does_not_depend_on_when_resources_register(monkeypatch):
    def fields(recording):
        return {resource.urn: vars(replace(resource, provider_resource=None)) for resource in recording.resources}

    stacks = {name: recordings(name)[0] for name in ("capacity-block", "existing-oke")}
    monkeypatch.setattr(Loop, "_BATCH", 10**9)
    for name, usual in stacks.items():
        assert fields(record(REPOSITORY / "__main__.py", stack_config(name))) == fields(usual)
    late = fields(run(fleet))
    monkeypatch.setattr(Loop, "_BATCH", 1)
    assert fields(run(fleet)) == late


def test_in_update_mode_ids_are_known_and_apply_runs():
    ran: list = []

    def program():
        bucket = Bucket("b")
        bucket.id.apply(ran.append)
        bucket.arn.apply(ran.append)
        Bucket("o", bucket=bucket.id)

    recording = run(program, preview=False)
    assert ran == ["b-id", None]
    assert named(recording, "o").inputs["bucket"] == "b-id"
    assert named(recording, "b").id == "b-id"
    assert not recording.preview


def test_outputs_are_plain_values():
    assert run(fleet).outputs == {"nodes": UNKNOWN, "sizes": {"min": 0, "share": 0.5}}
    assert isinstance(run(fleet).outputs["sizes"]["min"], int)


def secretive():
    key = pulumi.Config().require_secret("key")
    kubernetes.core.v1.Secret("s", string_data={"key": key}, opts=pulumi.ResourceOptions(provider=kubernetes.Provider("k")))
    pulumi.export("key", key)
    pulumi.export("length", key.apply(len))


def test_a_secret_never_shows_in_repr_text_or_json():
    recording = record(secretive, config({"gpu-ci:key": PLAIN}, ["gpu-ci:key"]))
    secret = named(recording, "s")
    shown = secret.inputs["stringData"]
    assert isinstance(shown, Secret)
    assert shown.reveal() == {"key": PLAIN}, "a secret input is known, and still a secret"
    for text in (
        repr(recording),
        str(recording.resources),
        repr(secret),
        repr(secret.inputs),
        f"{shown} {shown!r} {shown:>40} {shown + ''}",
        json.dumps(dict(secret.inputs)),
        json.dumps(dict(recording.outputs)),
        repr(dict(recording.outputs)),
        repr(pickle.dumps(shown)),
    ):
        assert "PRIVATE" not in text
    assert json.loads(json.dumps(dict(recording.outputs))) == {"key": "[secret]", "length": "[secret]"}
    assert copy.deepcopy(shown).reveal() is None, "a copy loses the value"


def test_the_program_reads_the_configuration_of_its_stack():
    def program():
        own, other = pulumi.Config(), pulumi.Config("aws")
        pulumi.export("object", own.require_object("clusters"))
        pulumi.export("region", other.require("region"))
        pulumi.export("number", own.require_int("number"))
        pulumi.export("where", f"{pulumi.get_project()}/{pulumi.get_stack()}/{pulumi.get_organization()}")
        pulumi.export("secret", pulumi.runtime.is_config_secret("gpu-ci:number"))

    values = {"gpu-ci:clusters": '{"usw2":{"min":1}}', "aws:region": "us-west-2", "gpu-ci:number": "3"}
    assert record(program, config(values, ["gpu-ci:number"], stack="prod")).outputs == {
        "object": {"usw2": {"min": 1}},
        "region": "us-west-2",
        "number": 3,
        "where": "gpu-ci/prod/organization",
        "secret": True,
    }


def test_recordings_of_one_process_are_independent():
    before = (settings.get_monitor(), settings.get_root_resource(), dict(settings.SETTINGS.__dict__))

    def program():
        pulumi.export("value", pulumi.Config().get("only-first"))
        Bucket("same-name")

    first = record(program, config({"gpu-ci:only-first": "1"}, ["gpu-ci:only-first"]))
    with pytest.raises(KeyError):
        record(lambda: pulumi.Config().require_object("x")["y"], config({"gpu-ci:x": "{}"}))
    second = record(program, config(stack="other"))
    assert (first.outputs["value"], second.outputs.get("value")) == ("1", None)
    assert len(first.resources) == len(second.resources) == 2, "the first recording gets nothing of the second"
    assert second.resources[1].urn.startswith("urn:pulumi:other::")
    assert (settings.get_monitor(), settings.get_root_resource(), dict(settings.SETTINGS.__dict__)) == before
    assert contextvars.Context().run(settings.get_monitor) is None, "no monitor is left as the SDK's default"


def test_an_outer_pulumi_run_does_not_reach_in(monkeypatch):
    monkeypatch.setenv("PULUMI_CONFIG", '{"gpu-ci:x": "outer"}')
    monkeypatch.setenv("PULUMI_CONFIG_GPU_CI_X", "outer")
    monkeypatch.setenv("PULUMI_ENABLE_LEGACY_APPLY", "true")
    recording = run(lambda: pulumi.export("x", pulumi.Config().get("x") or "nothing"))
    assert recording.outputs == {"x": "nothing"}
    assert os.environ["PULUMI_CONFIG_GPU_CI_X"] == "outer", "the variables are put back"


def test_a_remote_component_is_recorded_as_such_and_all_it_gives_is_unknown():
    def program():
        cluster = eks.Cluster("control-plane", skip_default_node_group=True, instance_roles=[])
        provider = kubernetes.Provider("k8s", kubeconfig=cluster.kubeconfig_json, cluster_identifier="usw2")
        kubernetes.core.v1.Namespace("ns", opts=pulumi.ResourceOptions(provider=provider))
        pulumi.export("roles", cluster.instance_roles)

    recording = run(program)
    cluster = named(recording, "control-plane")
    assert (cluster.type, cluster.remote, cluster.inputs["skipDefaultNodeGroup"]) == ("eks:index:Cluster", True, True)
    assert named(recording, "k8s").inputs["kubeconfig"] is UNKNOWN
    assert named(recording, "k8s").dependencies == (cluster.urn,)
    assert recording.outputs["roles"] is UNKNOWN, "the component may change what it was given"


def test_a_resource_that_is_looked_up_is_recorded_as_a_read():
    def program():
        vpc = aws.ec2.Vpc.get("vpc", "vpc-1")
        pulumi.export("id", vpc.id)
        pulumi.export("cidr", vpc.cidr_block)

    recording = run(program)
    assert (named(recording, "vpc").read, named(recording, "vpc").id) == (True, "vpc-1")
    assert recording.outputs == {"id": "vpc-1", "cidr": UNKNOWN}


def test_an_invoke_without_answer_fails_with_its_token_and_arguments():
    with pytest.raises(ProgramError, match=r'aws:ec2/getAmi:getAmi: .*"mostRecent": true.*settings'):
        run(lambda: aws.ec2.get_ami(most_recent=True))


def test_an_invoke_in_output_form_fails_too():
    with pytest.raises(ProgramError, match="aws:index/getRegion:getRegion"):
        run(lambda: pulumi.export("region", aws.get_region_output().name))


def test_an_invoke_can_be_answered():
    def program():
        pulumi.export("account", aws.get_caller_identity().account_id)

    answers = {
        "aws:index/getCallerIdentity:getCallerIdentity": lambda arguments: {
            "accountId": "1",
            "arn": "a",
            "id": "i",
            "userId": "u",
        }
    }
    assert run(program, answers=answers).outputs == {"account": "1"}


def test_a_name_used_twice_fails_as_on_the_engine():
    def program():
        Bucket("b")
        Bucket("b")

    with pytest.raises(ProgramError, match=r"duplicate URN .*index:Bucket::b: .*rename one"):
        run(program)


def test_a_transform_of_the_stack_sets_properties_as_on_the_engine():
    def versioned(args):
        return pulumi.ResourceTransformResult({**args.props, "versioned": True}, args.opts) if args.name == "b" else None

    def program():
        pulumi.runtime.register_resource_transform(versioned)
        Bucket("a", size=1)
        Bucket("b", size=1)

    assert [each.inputs for each in run(program).resources[1:]] == [{"size": 1}, {"size": 1, "versioned": True}]


def test_other_transforms_fail_for_they_would_not_be_in_the_plan():
    def of_a_resource():
        Bucket("b", opts=pulumi.ResourceOptions(transforms=[lambda args: None]))

    def of_invokes():
        pulumi.runtime.register_invoke_transform(lambda args: None)

    for program in (of_a_resource, of_invokes):
        with pytest.raises(ProgramError, match="transforms of"):
            run(program)


@pytest.mark.parametrize(
    "change",
    [
        lambda args: pulumi.ResourceTransformResult({}, args.opts),
        lambda args: pulumi.ResourceTransformResult(args.props, pulumi.ResourceOptions(protect=True)),
    ],
    ids=["removes a property", "sets an option"],
)
def test_a_transform_that_does_more_than_set_properties_fails(change):
    def program():
        pulumi.runtime.register_resource_transform(lambda args: change(args) if args.name == "b" else None)
        Bucket("b", size=1)

    with pytest.raises(ProgramError, match="may only set properties"):
        run(program)


class FleetError(ValueError):
    """Stands for the project's own errors; the SDK wraps what derives from ValueError."""


def fail_at_once():
    raise FleetError("no such zone")


def fail_after_resources():
    Bucket("o", bucket=Bucket("b").id)
    raise FleetError("no such zone")


def fail_in_apply():
    Bucket("b", bucket=Bucket("a").urn.apply(lambda _: fail_at_once()))


def fail_in_apply_that_nobody_uses():
    Bucket("a").urn.apply(lambda _: fail_at_once())


def fail_in_a_dependency():
    first = Bucket("b", bucket=Bucket("a").urn.apply(lambda _: fail_at_once()))
    for number in range(5):
        Bucket(f"o{number}", bucket=first.id, key=first.bucket)


async def fail_while_awaiting():
    await asyncio.sleep(0)
    fail_at_once()


@pytest.mark.parametrize(
    "program",
    [
        fail_at_once,
        fail_after_resources,
        fail_in_apply,
        fail_in_apply_that_nobody_uses,
        fail_in_a_dependency,
        fail_while_awaiting,
    ],
)
def test_the_programs_exception_passes_as_it_is_and_leaves_nothing_behind(program):
    gc.freeze()  # what earlier tests left is not this program's
    try:
        # Tasks and futures complain in the log.
        with warnings.catch_warnings(), unittest.TestCase().assertNoLogs("asyncio", logging.INFO):
            warnings.simplefilter("error")
            with pytest.raises(FleetError, match="no such zone") as caught:
                run(program)
            assert str(caught.value) == "no such zone"
            assert type(caught.value) is FleetError
            del caught
            gc.collect()
    finally:
        gc.unfreeze()


def test_a_run_error_and_an_exit_pass_too():
    def stop():
        raise pulumi.RunError("stop here")

    with pytest.raises(pulumi.RunError, match="stop here"):
        run(stop)
    with pytest.raises(SystemExit):
        run(lambda: sys.exit(3))


def test_the_cause_of_an_exception_is_kept():
    def program():
        try:
            fail_at_once()
        except FleetError as error:
            raise KeyError("x") from error

    with pytest.raises(KeyError) as caught:
        run(program)
    assert isinstance(caught.value.__cause__, FleetError)


def test_the_programs_messages_are_kept():
    def program():
        pulumi.log.info("one")
        pulumi.log.warn("two", resource=Bucket("b"))
        pulumi.log.debug("three")

    assert [(message.severity, message.text, message.urn) for message in run(program).messages] == [
        ("info", "one", ""),
        ("warning", "two", ROOT + "test:index:Bucket::b"),
    ]


def test_assets_are_shown_by_what_they_are():
    def program():
        Bucket("o", source=pulumi.StringAsset("text"))
        Bucket("f", code=pulumi.AssetArchive({"a": pulumi.StringAsset("x")}))

    recording = run(program)
    assert named(recording, "o").inputs["source"] == {"asset": {"text": "text"}}
    assert named(recording, "f").inputs["code"] == {"archive": {"assets": {"a": {"asset": {"text": "x"}}}}}


def test_a_resource_given_as_input_is_its_id_or_urn_as_a_policy_sees_it():
    class Thing(pulumi.CustomResource):
        def __init__(self, name, **properties):
            super().__init__("test:index:Thing", name, properties)

    class Group(pulumi.ComponentResource):
        def __init__(self, name):
            super().__init__("test:index:Group", name)
            self.register_outputs({})

    def program():
        Thing("user", thing=Thing("made"), group=Group("group"), __internal="x")

    for preview, identity in ((True, UNKNOWN), (False, "made-id")):
        recording = run(program, preview=preview)
        user = named(recording, "user")
        assert user.inputs["group"] == ROOT + "test:index:Group::group"
        assert user.inputs["thing"] == identity
        assert "__internal" in user.inputs
        assert "__internal" not in wire.analyzed(wire.raw(user.wire)), "the engine keeps such keys from policies"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "sibling.py").write_text(
        textwrap.dedent("""\
        import pulumi
        class Thing(pulumi.CustomResource): pass
        def build(): return Thing("test:index:Thing", "from-file", {"bucket": "b"})
        """)
    )
    (tmp_path / "data.txt").write_text("read from the program's own folder")
    (tmp_path / "__main__.py").write_text(
        textwrap.dedent("""\
        from pathlib import Path
        import pulumi
        from sibling import build
        assert __name__ == "__main__"
        pulumi.export("bucket", build().bucket)
        pulumi.export("data", Path("data.txt").read_text())
        """)
    )
    yield tmp_path
    sys.modules.pop("sibling", None)


def test_a_program_file_runs_in_its_folder_with_its_siblings(project):
    here, path = Path.cwd(), list(sys.path)
    recording = run(project / "__main__.py")
    assert [resource.name for resource in recording.resources[1:]] == ["from-file"]
    assert recording.outputs["data"] == "read from the program's own folder"
    assert (Path.cwd(), sys.path) == (here, path)


def test_a_program_file_that_fails_names_its_own_line(project):
    (project / "__main__.py").write_text("import pulumi\n\nraise LookupError('here')\n")
    with pytest.raises(LookupError) as caught:
        run(project / "__main__.py")
    assert [entry.lineno for entry in caught.traceback if Path(entry.path) == project / "__main__.py"] == [2]


def test_an_async_program_is_awaited():
    async def program():
        await asyncio.sleep(0)
        Bucket("late")

    assert named(run(program), "late")


def test_markers_are_texts_that_serialise():
    assert json.dumps({"a": UNKNOWN, "b": Secret({"c": 1})}) == '{"a": "[unknown]", "b": "[secret]"}'
    assert (repr(UNKNOWN), repr(Secret("x")), f"{Secret('x')}") == ("[unknown]", "[secret]", "[secret]")
    assert wire.view({"a": "[unknown]"})["a"] is not UNKNOWN, "a text that looks like it is not it"
