"""The simulated providers by themselves, and our program on them: no CLI is needed."""

from __future__ import annotations

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
)

from gpu_ci.offline import wire
from policies.rules.record import SECRET, SIGNATURE
from tests.components.recorded import SECRET as KEY
from tests.components.recorded import recordings, stack_config
from tests.engine.cli import ROOT
from tests.engine.compare import deployed, graph_differences, input_differences, on_default_provider, planned
from tests.engine.eks_cluster import CONTROL_PLANE, ROLE
from tests.engine.eks_cluster import TYPE as CLUSTER
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
    assert made == create(stub, ROLE, assumeRolePolicy="{}", key=secret("pem")), "ids must be the same in every run"


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


def test_diff_sees_a_change_and_its_absence(stub):
    def changes(old, new):
        request = provider_pb2.DiffRequest(urn=urn(TAG), type=TAG, id="x", old_inputs=struct(**old), news=struct(**new))
        return stub.Diff(request).changes

    assert changes({"a": [1], "s": secret("x")}, {"s": secret("x"), "a": [1]}) == provider_pb2.DiffResponse.DIFF_NONE
    assert changes({"a": [1]}, {"a": [1, 2]}) == provider_pb2.DiffResponse.DIFF_SOME
    assert changes({"s": secret("x")}, {"s": secret("y")}) == provider_pb2.DiffResponse.DIFF_SOME


def test_update_read_and_delete(aws, stub):
    made = create(stub, ROLE, path="/a/")
    update = provider_pb2.UpdateRequest(id=made.id, urn=urn(ROLE), type=ROLE, olds=made.properties, news=struct(path="/b/"))
    after = wire.raw(stub.Update(update).properties)
    assert after == {**wire.raw(made.properties), "path": "/b/"}, "an update changes the inputs and keeps the rest"
    read = stub.Read(provider_pb2.ReadRequest(id=made.id, urn=urn(ROLE), properties=made.properties))
    assert (read.id, read.properties) == (made.id, made.properties)
    stub.Delete(provider_pb2.DeleteRequest(id=made.id, urn=urn(ROLE), type=ROLE, properties=made.properties))
    assert [call.method for call in aws.asked] == ["Create", "Update", "Read", "Delete"]


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
