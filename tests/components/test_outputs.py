"""What a stack exports: the keys of its TypedDict, and no secret beside the kubeconfigs. And a program that reads it."""

from __future__ import annotations

import runpy
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

import pulumi
import pytest

from components.outputs import OkeOutputs, StackOutputs
from fleet.loading.config import fleet_of
from fleet.settings.existing import ExistingContext
from gpu_ci.offline.recording import Recording
from gpu_ci.offline.wire import UNKNOWN, Secret, hidden
from tests.cases import cases
from tests.components.built import updated
from tests.components.recorded import ROOT, STACKS, recordings, stack_config

DEPLOYED = [stack for stack in STACKS if fleet_of(stack_config(stack)).deployable]
EXAMPLE = ROOT / "examples/stack_reference/__main__.py"


def exported(stack: str) -> Recording:
    """What `pulumi up` of a stack registers, in preview."""
    recording, _ = recordings(stack)
    assert recording is not None
    return recording


def outputs_of(stack: str) -> dict[str, Any]:
    """What a stack exports, in preview."""
    return dict(exported(stack).outputs)


def faults(value: Any, hint: Any, path: str = "") -> Iterator[str]:
    """Where a value has not the shape of a TypedDict."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is types.UnionType:
        (chosen,) = [each for each in args if get_args(get_type_hints(each)["provider"]) == (value.get("provider"),)]
        yield from faults(value, chosen, path)
    elif is_typeddict(hint):
        hints = get_type_hints(hint)
        yield from (f"{path}: {key}" for key in (hints.keys() ^ value.keys()) - (optional(hint) - value.keys()))
        for key in hints.keys() & value.keys():
            yield from faults(value[key], hints[key], f"{path}.{key}")
    elif origin is dict:
        for key, each in value.items():
            yield from faults(each, args[1], f"{path}.{key}")
    elif origin is list:
        for index, each in enumerate(value):
            yield from faults(each, args[0], f"{path}[{index}]")
    elif origin is Literal:
        yield from () if value in args else (f"{path}: {value!r}",)
    else:
        # The first of what an Input allows is the plain value.
        plain = get_origin(args[0]) or args[0] if args else hint
        yield from () if isinstance(value, plain) and (plain is str) is isinstance(value, str) else (f"{path}: {value!r}",)


def optional(kind: Any) -> set[str]:
    """The keys of a TypedDict that only some clusters have."""
    return {key for key, hint in get_type_hints(kind, include_extras=True).items() if get_origin(hint) is NotRequired}


@cases("stack", DEPLOYED)
def test_a_stack_exports_the_keys_that_the_types_promise(stack):
    assert list(faults(outputs_of(stack), StackOutputs)) == []


@cases("stack", DEPLOYED)
def test_the_outputs_name_every_cluster_pool_and_runner_set(stack):
    outputs, fleet = outputs_of(stack), fleet_of(stack_config(stack))
    assert outputs["clusters"].keys() == fleet.clusters.keys()
    by_context = {name for name, settings in fleet.clusters.items() if isinstance(settings.found, ExistingContext)}
    assert outputs["kubeconfigs"].keys() == fleet.clusters.keys() - by_context
    for name, settings in fleet.clusters_by_name():
        cluster = outputs["clusters"][name]
        assert settings.found is not None or optional(OkeOutputs) <= cluster.keys() or settings.provider != "oke"
        if settings.provider != "kubernetes":
            pools = cluster["nodeGroups" if settings.provider == "eks" else "nodePoolIds"]
            assert pools.keys() == settings.pools.keys()
            assert all(pools.values()), f"{name}: a pool without a node group"
        assert cluster["runnerSets"].keys() == settings.runners.keys()


def test_a_missing_a_strange_and_a_wrong_key_are_faults():
    usw2 = outputs_of("staging")["clusters"]["usw2"]
    broken = {key: value for key, value in usw2.items() if key != "vpcId"} | {"runsOn": [], "subnetIds": {"a": 1}}
    found = sorted(faults({"clusters": {"usw2": broken}, "kubeconfigs": {}, "generations": {}}, StackOutputs))
    assert found == [".clusters.usw2.subnetIds.a: 1", ".clusters.usw2: runsOn", ".clusters.usw2: vpcId"]


def secret(recording: Recording) -> set[str]:
    """The top-level outputs that are secret for a StackReference: those with a secret anywhere below."""
    return {path.partition(".")[0] for path, held in hidden(recording.outputs) if isinstance(held, Secret)}


@cases("stack", DEPLOYED)
def test_only_the_kubeconfigs_are_secret(stack):
    recording = exported(stack)
    expected = {"kubeconfigs"} if recording.outputs["kubeconfigs"] else set()
    assert secret(recording) == expected, "a secret beside them would hide the names of clusters and node groups"


def test_only_the_kubeconfigs_are_secret_once_the_stack_is_deployed():
    for made in (updated("staging"), updated("prod", "sjc")):
        assert secret(made) == {"kubeconfigs"}


# -- the example ---------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """An output as a StackReference has it after `pulumi up`; a text stands for what only the cloud decides."""
    if isinstance(value, Secret):
        return plain(value.reveal())
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return "known after up" if value is UNKNOWN else value


class Reader(pulumi.runtime.Mocks):
    """Answers a StackReference with a recording's outputs, and keeps the resources that the program declares."""

    def __init__(self, recording: Recording) -> None:
        self.made: dict[str, pulumi.runtime.MockResourceArgs] = {}
        self._state = {"outputs": plain(dict(recording.outputs)), "secretOutputNames": sorted(secret(recording))}

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict]:
        self.made[args.typ] = args
        return args.name, self._state if args.typ == "pulumi:pulumi:StackReference" else args.inputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> tuple[dict, list]:
        raise AssertionError(f"the example calls {args.token}")


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize(("stack", "cluster"), [("staging", "usw2"), ("prod", "sjc")])
def test_the_example_reads_what_a_stack_exports(stack, cluster):
    """On EKS and on OKE: it breaks if an output that it reads is renamed."""
    reader = Reader(exported(stack))
    pulumi.runtime.set_mocks(reader, project="example", stack="dev", preview=False)
    pulumi.runtime.set_all_config({"example:stack": f"acme/gpu-ci/{stack}", "example:cluster": cluster})

    def program() -> None:
        runpy.run_path(str(EXAMPLE), run_name="__main__")

    pulumi.runtime.test(program)()
    assert reader.made["pulumi:pulumi:StackReference"].resource_id == f"acme/gpu-ci/{stack}"
    assert reader.made["kubernetes:core/v1:ConfigMap"].inputs["data"] == {
        name: ", ".join([name, *runner.labels])
        for name, runner in fleet_of(stack_config(stack)).clusters[cluster].runners.items()
    }
    kubeconfig = reader.made["pulumi:providers:kubernetes"].inputs["kubeconfig"]
    assert pulumi.runtime.rpc.is_rpc_secret(kubeconfig), "the reader's state must not have it in clear"
