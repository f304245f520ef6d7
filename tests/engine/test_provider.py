"""The simulated providers by themselves, and our program on them: no CLI is needed."""

from __future__ import annotations

import csv
import re
import socket
import subprocess
import sys
from concurrent import futures

import grpc
import pytest
from google.protobuf import empty_pb2, struct_pb2
from pulumi.runtime import rpc
from pulumi.runtime.proto import (
    plugin_pb2,
    provider_pb2,
    provider_pb2_grpc,
    resource_pb2,
    resource_pb2_grpc,
    status_pb2,
)

from gpu_ci.offline import wire
from policies.rules.record import SECRET, SIGNATURE
from tests.components.recorded import SECRET as KEY, STACKS, recordings, stack_config
from tests.engine import replacing
from tests.engine.cli import ROOT
from tests.engine.compare import deployed, graph_differences, input_differences, on_default_provider, planned
from tests.engine.eks_cluster import CONTROL_PLANE, ROLE, TYPE as CLUSTER
from tests.engine.live import Fault
from tests.engine.provider import Provider, attach, providers
from tests.engine.small_engine import SmallEngine, run

TAG = "aws:autoscaling/tag:Tag"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"


def struct(**values):
    made = struct_pb2.Struct()
    made.update(values)
    return made


def secret(value):
    return {SIGNATURE: SECRET, "value": value}


def urn(kind, name="it"):
    return f"urn:pulumi:dev::gpu-ci::gpu-ci:index:Parent${kind}::{name}"


def create(stub, kind, preview=False, **inputs):
    return stub.Create(provider_pb2.CreateRequest(urn=urn(kind), type=kind, properties=struct(**inputs), preview=preview))


def free(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.fixture
def aws():
    with Provider("aws") as provider:
        yield provider


@pytest.fixture
def stub(aws):
    with grpc.insecure_channel(f"127.0.0.1:{aws.port}") as channel:
        yield provider_pb2_grpc.ResourceProviderStub(channel)


def test_it_shakes_hands_as_the_engine_demands(aws, stub):
    hands = stub.Handshake(provider_pb2.ProviderHandshakeRequest(engine_address="127.0.0.1:1"))
    ready = stub.Configure(provider_pb2.ConfigureRequest(type="pulumi:providers:aws"))
    assert stub.Attach(plugin_pb2.PluginAttach(address="127.0.0.1:1")) == empty_pb2.Empty()
    assert hands.accept_secrets, "without it no component can be constructed"
    assert ready.supportsPreview
    assert (ready.acceptSecrets, ready.acceptResources, ready.acceptOutputs) == (
        hands.accept_secrets,
        hands.accept_resources,
        hands.accept_outputs,
    ), "the two answers must match"
    assert stub.GetPluginInfo(empty_pb2.Empty()).version == aws.version


def test_check_returns_the_inputs_with_secrets_and_unknowns_and_keeps_them(aws, stub):
    given = struct(plain=[1, "two", {"three": None}], key=secret("pem"), later=rpc.UNKNOWN, deep={"key": secret({"a": 1})})
    checked = stub.Check(provider_pb2.CheckRequest(urn=urn(TAG), type=TAG, news=given))
    assert checked.inputs == given
    assert not checked.failures
    call = aws.asked[-1]
    assert (call.method, call.type, call.urn) == ("Check", TAG, urn(TAG))
    assert call.inputs["later"] is wire.UNKNOWN
    assert call.inputs["key"].reveal() == "pem"
    assert "pem" not in f"{call} {call!r}", "printed text must show no secret"


def test_create_echoes_and_adds_what_a_cloud_would(aws, stub):
    made = create(stub, ROLE, assumeRolePolicy="{}", key=secret("pem"))
    outputs = wire.raw(made.properties)
    assert made.id
    assert outputs["assumeRolePolicy"] == "{}"
    assert outputs["key"] == secret("pem")
    assert outputs["name"] == made.id
    assert str(outputs["arn"]).startswith("arn:aws:")
    with Provider("aws") as again, grpc.insecure_channel(f"127.0.0.1:{again.port}") as channel:
        second = create(provider_pb2_grpc.ResourceProviderStub(channel), ROLE, assumeRolePolicy="{}", key=secret("pem"))
    assert made == second, "ids must be the same in every run"
    assert create(stub, ROLE).id != made.id, "another creation makes another resource"


def test_a_value_that_was_given_wins_over_an_invented_one(stub):
    assert wire.raw(create(stub, ROLE, name="mine").properties)["name"] == "mine"
    assert wire.raw(create(stub, ROLE, preview=True, name="mine").properties)["name"] == "mine"


def test_in_a_preview_exactly_the_additions_are_unknown(stub):
    made = create(stub, NODE_GROUP, preview=True, clusterName="c", later=rpc.UNKNOWN)
    assert made.id == ""
    assert wire.view(wire.raw(made.properties)) == {
        "clusterName": "c",
        "later": wire.UNKNOWN,
        "arn": wire.UNKNOWN,
        "nodeGroupName": wire.UNKNOWN,
        "resources": wire.UNKNOWN,
    }


def diff(stub, kind, old, new):
    request = provider_pb2.DiffRequest(urn=urn(kind), type=kind, id="x", old_inputs=struct(**old), news=struct(**new))
    return stub.Diff(request)


def test_diff_sees_a_change_and_its_absence(stub):
    def changes(old, new):
        return diff(stub, TAG, old, new).changes

    assert changes({"a": [1], "s": secret("x")}, {"s": secret("x"), "a": [1]}) == provider_pb2.DiffResponse.DIFF_NONE
    assert changes({"a": [1]}, {"a": [1, 2]}) == provider_pb2.DiffResponse.DIFF_SOME
    assert changes({"s": secret("x")}, {"s": secret("y")}) == provider_pb2.DiffResponse.DIFF_SOME


def test_update_read_and_delete(aws, stub):
    made = create(stub, ROLE, path="/a/")
    update = provider_pb2.UpdateRequest(id=made.id, urn=urn(ROLE), type=ROLE, olds=made.properties, news=struct(path="/b/"))
    after = wire.raw(stub.Update(update).properties)
    assert after == {**wire.raw(made.properties), "path": "/b/"}, "an update changes the inputs and keeps the rest"
    assert wire.raw(read(stub, ROLE, made).properties) == after
    assert wire.raw(read(stub, ROLE, made).inputs) == {"path": "/b/"}
    assert [(live.type, live.id, live.inputs) for live in aws.cloud.live()] == [(ROLE, made.id, {"path": "/b/"})]
    stub.Delete(provider_pb2.DeleteRequest(id=made.id, urn=urn(ROLE), type=ROLE, properties=made.properties))
    assert read(stub, ROLE, made).id == "", "not found"
    assert aws.cloud.live() == []
    refused(lambda: stub.Update(update), "not found")
    assert [call.method for call in aws.asked] == ["Create", "Update", "Read", "Read", "Delete", "Read", "Update"]


def read(stub, kind, made):
    return stub.Read(provider_pb2.ReadRequest(id=made.id, urn=urn(kind), type=kind, properties=made.properties))


def refused(call, text):
    """Calls, and returns the error that has this text."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    assert text in caught.value.details()
    return caught.value


# -- replacements ------------------------------------------------------------------------------------------------------

TEMPLATE, POOL, RELEASE = "aws:ec2/launchTemplate:LaunchTemplate", "oci:ContainerEngine/nodePool:NodePool", replacing.RELEASE
SECRET_OBJECT, QUEUE = "kubernetes:core/v1:Secret", "kubernetes:kueue.x-k8s.io/v1beta2:LocalQueue"
PROVIDER = "pulumi:providers:kubernetes"
PLACED = {"metadata": {"name": "a", "namespace": "b"}}


@pytest.mark.parametrize(
    ("kind", "old", "new", "replaces", "updates"),
    [
        (NODE_GROUP, {"instanceTypes": ["a", "b"]}, {"instanceTypes": ["b", "a"]}, ["instanceTypes[0]", "instanceTypes[1]"], []),
        (NODE_GROUP, {"subnetIds": ["a", "b"]}, {"subnetIds": ["b", "a"]}, [], []),
        (NODE_GROUP, {"subnetIds": ["a", "b"]}, {"subnetIds": ["b", "c"]}, ["subnetIds"], []),
        (NODE_GROUP, {"subnetIds": ["a"]}, {"subnetIds": rpc.UNKNOWN}, ["subnetIds"], []),
        (NODE_GROUP, {"launchTemplate": {"version": "1"}}, {"launchTemplate": {"version": "2"}}, [], ["launchTemplate.version"]),
        (NODE_GROUP, {"launchTemplate": {"id": "a"}}, {"launchTemplate": {"id": rpc.UNKNOWN}}, ["launchTemplate.id"], []),
        (NODE_GROUP, {"remoteAccess": {"ec2SshKey": "a"}}, {}, ["remoteAccess"], []),
        (NODE_GROUP, {"capacityType": "SPOT", "tags": {"a": "b"}}, {"tags": {"a": "c"}}, [], ["tags.a"]),
        (ROLE, {"assumeRolePolicy": '{"a": ["b", "c"]}'}, {"assumeRolePolicy": '{ "a": ["c", "b"] }'}, [], []),
        (ROLE, {"assumeRolePolicy": '{"a": ["b"]}'}, {"assumeRolePolicy": '{"a": ["c"]}'}, [], ["assumeRolePolicy"]),
        (CONTROL_PLANE, {"name": "a"}, {"name": "a", "encryptionConfig": {"resources": ["secrets"]}}, [], ["encryptionConfig"]),
        (CONTROL_PLANE, {"encryptionConfig": {"resources": ["secrets"]}}, {}, ["encryptionConfig"], []),
        (POOL, {"nodeShape": "a", "compartmentId": "b"}, {"nodeShape": "c", "compartmentId": "b"}, [], ["nodeShape"]),
        (POOL, {"compartmentId": "b"}, {"compartmentId": "c"}, ["compartmentId"], []),
        (SECRET_OBJECT, {"stringData": {"a": secret("b")}}, {"stringData": {"a": secret("c")}}, ["stringData.a"], []),
        (QUEUE, {**PLACED, "spec": {"clusterQueue": "a"}}, {**PLACED, "spec": {"clusterQueue": "b"}}, [], ["spec.clusterQueue"]),
        (RELEASE, {"name": "a", "values": {"b": 1}}, {"name": "a", "values": {"b": 2}}, [], ["values.b"]),
        (PROVIDER, {"clusterIdentifier": "a", "kubeconfig": "b"}, {"clusterIdentifier": "a"}, [], ["kubeconfig"]),
        (PROVIDER, {"clusterIdentifier": "a"}, {"clusterIdentifier": "b"}, ["clusterIdentifier"], []),
        (PROVIDER, {}, {"clusterIdentifier": "b"}, [], ["clusterIdentifier"]),
        (PROVIDER, {"kubeconfig": "b"}, {"kubeconfig": "c"}, ["kubeconfig"], []),
    ],
)  # fmt: skip
def test_diff_tells_replacements_from_updates(stub, kind, old, new, replaces, updates):
    answer = diff(stub, kind, old, new)
    assert sorted(answer.replaces) == replaces
    assert sorted(set(answer.diffs) - set(answer.replaces)) == updates
    assert {path for path, change in answer.detailedDiff.items() if change.kind in REPLACING} == set(replaces)
    assert answer.hasDetailedDiff


REPLACING = [provider_pb2.PropertyDiff.Kind.Value(f"{how}_REPLACE") for how in ("ADD", "DELETE", "UPDATE")]


def test_only_an_object_that_keeps_its_name_is_deleted_first(stub):
    def first(kind, old, new):
        answer = diff(stub, kind, old, new)
        assert answer.replaces
        return answer.deleteBeforeReplace

    moved = {"metadata": {"name": "a", "namespace": "c"}}
    assert first(SECRET_OBJECT, {**PLACED, "stringData": {"a": "b"}}, {**PLACED, "stringData": {"a": "c"}})
    assert not first(SECRET_OBJECT, {**PLACED, "stringData": {"a": "b"}}, {**moved, "stringData": {"a": "c"}})
    assert not first(RELEASE, {"name": "a"}, {"name": "b"})
    assert not first(NODE_GROUP, {"amiType": "a"}, {"amiType": "b"})


def test_each_fact_has_a_source_and_stands_once():
    rows = list(csv.DictReader(replacing.FILE.open(newline="")))
    keys = [(row["type"], row["property"], row["fact"]) for row in rows]
    assert len(keys) == len(set(keys))
    assert {row["fact"] for row in rows} == {"replaces", "replaces-if-removed", "set", "json", "kept"}
    assert [row for row in rows if not re.search(r"@[0-9a-f]{12} \S|\[K\]", row["source"])] == [], "a commit and a file, or [K]"


def test_every_type_that_a_stack_registers_has_facts():
    types = {entry.type for stack in STACKS for recording in recordings(stack)[:1] if recording for entry in recording.resources
             if entry.custom and not entry.remote and not entry.type.startswith("pulumi:")}  # fmt: skip
    assert len(types) > 50
    unlisted = {kind for kind in types if not any(replacing.facts(kind, fact) for fact in ("replaces", "set", "kept"))}
    assert unlisted == {"aws:ec2/internetGateway:InternetGateway"}, "that one moves to another VPC; look others up"


def test_an_edit_of_a_template_makes_a_version_and_its_preview_does_not_know_it(stub):
    made = create(stub, TEMPLATE, userData="a", updateDefaultVersion=True)

    def update(preview, **news):
        old = read(stub, TEMPLATE, made)
        olds = {"olds": old.properties, "old_inputs": old.inputs}
        request = provider_pb2.UpdateRequest(
            id=made.id, urn=urn(TEMPLATE), type=TEMPLATE, news=struct(**news), preview=preview, **olds
        )
        outputs = wire.view(wire.raw(stub.Update(request).properties))
        return outputs["latestVersion"], outputs["defaultVersion"]

    assert update(True, userData="b", updateDefaultVersion=True) == (wire.UNKNOWN, wire.UNKNOWN)
    assert update(False, userData="b", updateDefaultVersion=True) == (2, 2)
    assert update(False, userData="b", updateDefaultVersion=False) == (2, 2)
    assert update(True, userData="c", updateDefaultVersion=False) == (wire.UNKNOWN, 2)
    assert update(False, userData="b", tags={"a": "b"}) == (2, 2), "tags make no version"


# -- what is live ------------------------------------------------------------------------------------------------------

SUBNET, POLICY_ATTACHED = "aws:ec2/subnet:Subnet", "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
SIZES = {"minSize": 0, "maxSize": 3, "desiredSize": 1}


@pytest.mark.parametrize(
    ("kind", "inputs", "text"),
    [
        (SECRET_OBJECT, PLACED, '"b/a" already exists'),
        (RELEASE, {"name": "a", "namespace": "b"}, "cannot re-use a name that is still in use"),
        (NODE_GROUP, {"clusterName": "c", "nodeGroupName": "a", "scalingConfig": SIZES}, "NodeGroup already exists with name a"),
        (ROLE, {"name": "a"}, "EntityAlreadyExists: Role with name a already exists"),
        (CONTROL_PLANE, {"name": "a"}, "Cluster already exists with name: a"),
        (SUBNET, {"vpcId": "v", "cidrBlock": "10.0.0.0/24"}, "InvalidSubnet.Conflict"),
    ],
)  # fmt: skip
def test_a_name_that_is_taken_is_refused(aws, stub, kind, inputs, text):
    made = create(stub, kind, **inputs)
    refused(lambda: create(stub, kind, **inputs), text)
    assert [live.id for live in aws.cloud.live()] == [made.id], "what fails to be created does not exist"
    aws.cloud.remove(aws.cloud.live()[0])
    create(stub, kind, **inputs)


def test_a_name_may_be_in_each_region_and_a_role_once_in_an_account(aws):
    def connection(region):
        # gRPC shares the connections of a process to one address unless an option differs.
        channel = grpc.insecure_channel(f"127.0.0.1:{aws.port}", options=[("region", region)])
        stub = provider_pb2_grpc.ResourceProviderStub(channel)
        stub.Configure(provider_pb2.ConfigureRequest(type="pulumi:providers:aws", args=struct(region=region)))
        return stub

    west, east = connection("us-west-2"), connection("us-east-1")
    for region in (west, east):
        create(region, CONTROL_PLANE, name="a")
    create(west, ROLE, name="a")
    refused(lambda: create(east, ROLE, name="a"), "EntityAlreadyExists")
    assert [live.scope for live in aws.cloud.live(CONTROL_PLANE)] == ["us-west-2", "us-east-1"]


def test_eks_refuses_sizes_out_of_order_and_a_refresh_shows_what_the_autoscaler_did(aws, stub):
    made = create(stub, NODE_GROUP, clusterName="c", scalingConfig=SIZES)
    aws.cloud.live(NODE_GROUP)[0].change("scalingConfig.desiredSize", 2)
    assert wire.raw(read(stub, NODE_GROUP, made).inputs)["scalingConfig"] == {**SIZES, "desiredSize": 2}

    def update(**sizes):
        news = struct(clusterName="c", scalingConfig={**SIZES, **sizes})
        stub.Update(provider_pb2.UpdateRequest(id=made.id, urn=urn(NODE_GROUP), type=NODE_GROUP, news=news))

    refused(lambda: update(minSize=2, desiredSize=0), "Minimum capacity 2 can't be greater than desired size 0")
    refused(lambda: update(maxSize=1, desiredSize=2), "desiredSize can't be greater than maxSize")
    refused(lambda: update(maxSize=0, desiredSize=0), "maxSize")
    update(minSize=1)
    assert aws.cloud.live(NODE_GROUP)[0].inputs["scalingConfig"] == {"minSize": 1, "maxSize": 3, "desiredSize": 1}


def test_eks_refuses_subnets_of_another_network_or_other_zones(aws, stub):
    places = [("v", "a", "1"), ("v", "b", "2"), ("v", "b", "3"), ("w", "a", "4"), ("w", "b", "5")]
    subnets = [create(stub, SUBNET, vpcId=vpc, availabilityZone=zone, cidrBlock=block).id for vpc, zone, block in places]
    made = create(stub, CONTROL_PLANE, name="a", vpcConfig={"subnetIds": subnets[:2]})

    def update(*places):
        news = struct(name="a", vpcConfig={"subnetIds": [subnets[place] for place in places]})
        stub.Update(provider_pb2.UpdateRequest(id=made.id, urn=urn(CONTROL_PLANE), type=CONTROL_PLANE, news=news))

    refused(lambda: update(3, 4), "must belong to the VPC v")
    refused(lambda: update(0), "exact set of AZs 'a, b'")
    update(0, 2)


def test_eks_deletes_no_protected_cluster(aws, stub):
    made = create(stub, CONTROL_PLANE, name="a", deletionProtection=True)

    def delete():
        stub.Delete(provider_pb2.DeleteRequest(id=made.id, urn=urn(CONTROL_PLANE), type=CONTROL_PLANE))

    refused(delete, "deletionProtection is on")
    aws.cloud.live(CONTROL_PLANE)[0].change("deletionProtection", False)
    delete()
    assert aws.cloud.live(CONTROL_PLANE) == []


# -- faults ------------------------------------------------------------------------------------------------------------


def test_a_fault_refuses_the_nth_call_or_each_nth(aws, stub):
    aws.cloud.fail(Fault(where="Role::", nth=2, error="no"))
    create(stub, ROLE, name="a")
    create(stub, SUBNET)
    create(stub, ROLE, preview=True)
    refused(lambda: create(stub, ROLE, name="b"), "no")
    create(stub, ROLE, name="c")
    aws.cloud.faults.clear()
    aws.cloud.fail(Fault(nth=2, every=True))
    create(stub, ROLE, name="d")
    refused(lambda: create(stub, ROLE, name="e"), "Throttling")
    create(stub, ROLE, name="f")
    refused(lambda: create(stub, ROLE, name="g"), "Throttling")
    assert [live.id for live in aws.cloud.live(ROLE)] == ["a", "c", "d", "f"]
    assert [str(call) for call in aws.cloud.asked][2] == f"Create (preview) {urn(ROLE)}", "the log is in order"


def test_a_half_created_resource_is_live_and_the_engine_is_told_its_id(aws, stub):
    aws.cloud.fail(Fault(harm="half", error="CREATE_FAILED"))
    error = refused(lambda: create(stub, ROLE, name="a"), "CREATE_FAILED")
    (packed,) = (value for key, value in error.trailing_metadata() if key == "grpc-status-details-bin")
    (detail,) = status_pb2.Status.FromString(packed).details
    failed = provider_pb2.ErrorResourceInitFailed()
    assert detail.Unpack(failed)
    assert (failed.id, list(failed.reasons)) == ("a", ["CREATE_FAILED"])
    assert aws.cloud.find(ROLE, "a") is not None


def test_a_held_creation_is_live_before_it_returns(aws, stub):
    fault = aws.cloud.fail(Fault(harm="held"))
    with futures.ThreadPoolExecutor(1) as background:
        creating = background.submit(create, stub, ROLE, name="a")
        assert fault.reached.wait(10)
        assert [live.id for live in aws.cloud.live()] == ["a"]
        assert not creating.done()
        fault.release.set()
        assert creating.result(10).id == "a"


# -- functions ---------------------------------------------------------------------------------------------------------


def test_the_live_sizes_of_node_groups_can_be_read(aws, stub):
    def invoke(name, **arguments):
        answer = stub.Invoke(provider_pb2.InvokeRequest(tok=f"aws:eks/{name}:{name}", args=struct(**arguments)))
        return wire.view(wire.raw(getattr(answer, "return")))

    refused(lambda: invoke("getNodeGroups", clusterName="c"), "No cluster found for name: c")
    create(stub, CONTROL_PLANE, name="c")
    template = create(stub, "aws:ec2/launchTemplate:LaunchTemplate", name="t").id
    asked = {"id": template, "version": "1"}
    create(stub, NODE_GROUP, clusterName="c", nodeGroupName="g", scalingConfig=SIZES, launchTemplate=asked)
    aws.cloud.live(NODE_GROUP)[0].change("scalingConfig.desiredSize", 2)
    assert invoke("getClusters")["names"] == ["c"]
    assert invoke("getNodeGroups", clusterName="c")["names"] == ["g"]
    group = invoke("getNodeGroup", clusterName="c", nodeGroupName="g")
    assert group["scalingConfigs"] == [{**SIZES, "desiredSize": 2}]
    assert (group["id"], group["updateConfigs"], group["launchTemplates"]) == ("c:g", [], [{**asked, "name": "t"}])
    refused(lambda: invoke("getNodeGroup", clusterName="c", nodeGroupName="h"), "No node group found for name: h")


def test_an_update_that_does_not_change_the_sizes_of_a_node_group_leaves_the_live_ones(aws, stub):
    created = create(stub, NODE_GROUP, clusterName="c", nodeGroupName="g", scalingConfig=SIZES, labels={"a": "1"})
    (live,) = aws.cloud.live(NODE_GROUP)
    live.change("scalingConfig.desiredSize", 2)
    old = {"clusterName": "c", "nodeGroupName": "g", "scalingConfig": SIZES, "labels": {"a": "1"}}
    for news, size in ((old | {"labels": {"a": "2"}}, 2), (old | {"scalingConfig": {**SIZES, "maxSize": 9}}, 1)):
        named = {"id": created.id, "type": NODE_GROUP, "urn": urn(NODE_GROUP)}
        stub.Update(provider_pb2.UpdateRequest(old_inputs=struct(**old), news=struct(**news), **named))
        assert live.inputs["scalingConfig"]["desiredSize"] == size
        assert live.inputs["labels"] == news["labels"]


def test_a_function_is_refused_by_name(stub):
    with pytest.raises(grpc.RpcError) as caught:
        stub.Invoke(provider_pb2.InvokeRequest(tok="aws:index/getCallerIdentity:getCallerIdentity"))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "getCallerIdentity" in caught.value.details()


class Monitor(resource_pb2_grpc.ResourceMonitorServicer):
    """The engine as a component sees it; answers a control plane with `answer`."""

    def __init__(self, answer):
        self.answer = answer
        self.registered = []
        self.outputs = {}

    def RegisterResource(self, request, context):  # noqa: N802 - gRPC's name
        self.registered.append(request)
        made = struct(**self.answer) if request.custom else None
        return resource_pb2.RegisterResourceResponse(urn=urn(request.type, request.name), object=made)

    def RegisterResourceOutputs(self, request, context):  # noqa: N802 - gRPC's name
        self.outputs[request.urn] = wire.raw(request.outputs)
        return empty_pb2.Empty()


ASKED = struct(
    name="gpu-ci-dev",
    version="1.34",
    vpcId=rpc.UNKNOWN,
    privateSubnetIds=rpc.UNKNOWN,
    endpointPublicAccess=True,
    publicAccessCidrs=["203.0.113.0/24"],
    enabledClusterLogTypes=["audit"],
    authenticationMode="API",
    tags={"owner": "ci"},
)


def construct(answer, kind=CLUSTER):
    """What the eks provider answers, and the monitor that it talked to."""
    monitor = Monitor(answer)
    server = grpc.server(futures.ThreadPoolExecutor(2))
    resource_pb2_grpc.add_ResourceMonitorServicer_to_server(monitor, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with Provider("eks") as eks, grpc.insecure_channel(f"127.0.0.1:{eks.port}") as channel:
            request = provider_pb2.ConstructRequest(
                type=kind,
                name="plane",
                parent=urn("gpu-ci:index:EksGpuCluster"),
                inputs=ASKED,
                providers={"aws": "aws-urn::id", "eks": "eks-urn::id"},
                dependencies=[urn("aws:ec2/vpc:Vpc")],
                protect=True,
                monitorEndpoint=f"127.0.0.1:{port}",
            )
            return provider_pb2_grpc.ResourceProviderStub(channel).Construct(request), monitor
    finally:
        server.stop(grace=None).wait()


def test_a_cluster_is_a_component_without_inputs_whose_children_have_what_was_asked_of_it():
    made, monitor = construct({"endpoint": "https://plane.example", "arn": "arn:of-it"})
    component, role, plane = monitor.registered
    assert (component.type, component.custom, component.remote) == (CLUSTER, False, False)
    assert wire.raw(component.object) == {}, "the SDK in pulumi-eks sends none"
    assert component.parent == urn("gpu-ci:index:EksGpuCluster")
    assert list(component.dependencies) == [urn("aws:ec2/vpc:Vpc")]
    assert {each.protect for each in monitor.registered} == {True}, "protection is inherited"
    assert made.urn == urn(CLUSTER, "plane") == role.parent == plane.parent
    assert [(each.type, each.custom, each.provider) for each in (role, plane)] == [
        (ROLE, True, "aws-urn::id"),
        (CONTROL_PLANE, True, "aws-urn::id"),
    ]
    assert wire.raw(role.object)["tags"] == {"owner": "ci"}
    assert wire.raw(plane.object) == {
        "name": "gpu-ci-dev",
        "version": "1.34",
        "roleArn": "arn:of-it",
        "enabledClusterLogTypes": ["audit"],
        "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
        "vpcConfig": {"subnetIds": rpc.UNKNOWN, "endpointPublicAccess": True, "publicAccessCidrs": ["203.0.113.0/24"]},
        "tags": {"Name": "plane-eksCluster", "owner": "ci"},
    }
    assert "https://plane.example" in made.state["kubeconfigJson"]
    assert monitor.outputs == {made.urn: wire.raw(made.state)}, "a component's outputs are registered before it is done"
    assert list(made.stateDependencies["kubeconfigJson"].urns) == [urn("aws:eks/cluster:Cluster", "plane-eksCluster")]


def test_its_outputs_are_unknown_while_the_control_plane_is():
    made, _ = construct({})
    assert set(wire.raw(made.state).values()) == {rpc.UNKNOWN}


def test_another_component_is_refused_by_name():
    with pytest.raises(grpc.RpcError) as caught:
        construct({}, kind="eks:index:ManagedNodeGroup")
    assert "eks:index:ManagedNodeGroup" in caught.value.details()


def test_providers_stop_with_their_context_manager_and_name_their_ports():
    with providers(["aws", "kubernetes"]) as serving:
        ports = {name: provider.port for name, provider in serving.items()}
        assert attach(serving) == f"aws:{ports['aws']},kubernetes:{ports['kubernetes']}"
        assert not any(free(port) for port in ports.values())
    assert all(free(port) for port in ports.values()), "a port is still open"


def test_a_provider_ends_with_its_process_even_when_nobody_stops_it():
    script = "from tests.engine.provider import Provider\np = Provider('aws').__enter__()\nprint(p.port, flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert not free(port)
        process.communicate("\n", timeout=20)
    assert process.returncode == 0
    assert free(port), "a port is still open"


def test_the_staging_program_runs_to_its_end_on_them_and_asks_for_what_the_plan_shows():
    config, (plan, _) = stack_config("staging"), recordings("staging")
    assert plan is not None
    packages = sorted(entry.type.rpartition(":")[2] for entry in plan.resources if entry.type.startswith("pulumi:providers:"))
    with providers(packages) as previewing, providers(packages) as updating:
        preview = SmallEngine(config, previewing, preview=True)
        update = SmallEngine(config, updating, preview=False)
        with preview, update:
            status, stdout, stderr = run([preview, update], ROOT, {KEY: "clear-text-of-the-key"})
    assert status == 0, f"{stderr}\n" + "\n".join([*preview.log.lines, *update.log.lines])
    assert_registered(plan, preview)
    assert_registered(plan, update)
    # In a preview the cluster's kubeconfig is unknown, so nothing in the cluster reaches its provider.
    asked = [entry for entry in plan.resources if entry.provider and not entry.remote]
    assert_asked([entry for entry in asked if not entry.type.startswith("kubernetes:")], previewing, preview=True)
    assert_asked(asked, updating, preview=False)
    assert "clear-text-of-the-key" not in f"{stdout}{stderr}"


def assert_registered(plan, engine):
    """The graph and the outputs that the plan shows, and no secret in clear text."""
    state = list(engine.resources.values())
    remote = [entry.urn for entry in plan.resources if entry.remote]
    assert graph_differences(planned(plan), deployed(state, remote)) == []
    assert on_default_provider(state) == []
    assert set(engine.outputs) == set(plan.outputs)
    assert "clear-text-of-the-key" not in f"{engine.log.lines}{state}"


def assert_asked(expected, serving, *, preview):
    """The providers were asked for these resources."""
    asked = {urn: inputs for provider in serving.values() for urn, inputs in provider.checked(preview=preview).items()}
    assert {entry.urn for entry in expected} <= asked.keys()
    differences = [input_differences(entry.inputs, asked[entry.urn], exact=preview) for entry in expected]
    assert [(entry.urn, lines) for entry, lines in zip(expected, differences, strict=True) if lines] == []
