"""Every component of the package, constructed by the plugin as for a program in any language."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent import futures
from typing import Any

import pytest
from pulumi.runtime import rpc

from gpu_ci.offline import wire
from package.reference import SCHEMA
from tests.package.arguments import ARGUMENTS, WRONG
from tests.package.plugin import UNKNOWN, Constructed, output, secret, urn_of

RESOURCES: Mapping[str, Any] = {
    token.rpartition(":")[2]: held for token, held in json.loads(SCHEMA.read_text())["resources"].items()
}
CASES = [pytest.param(name, index, id=f"{name}-{index}") for name, cases in ARGUMENTS.items() for index in range(len(cases))]
INPUTS = [
    pytest.param(name, key, next(case[key] for case in cases if key in case), id=f"{name}.{key}")
    for name, cases in ARGUMENTS.items()
    for key in sorted({key for case in cases for key in case})
]
SUBNET = "subnet-0123456789abcdef1"
BEFORE = "urn:pulumi:s::p::test:index:Other::before"


def is_plain(name: str, key: str) -> bool:
    return bool(RESOURCES[name]["inputProperties"][key].get("plain"))


def first_with(name: str, key: str) -> dict[str, Any]:
    return dict(next(case for case in ARGUMENTS[name] if key in case))


def test_every_component_has_arguments_here_and_none_is_missing():
    assert ARGUMENTS.keys() == RESOURCES.keys() == WRONG.keys()
    for name, found in RESOURCES.items():
        assert {key for case in ARGUMENTS[name] for key in case} == found["inputProperties"].keys(), name


@pytest.mark.parametrize("preview", [True, False], ids=["preview", "update"])
@pytest.mark.parametrize(("name", "index"), CASES)
def test_a_component_registers_its_type_inputs_and_outputs(plugin, name, index, preview):
    given = ARGUMENTS[name][index]
    found = plugin.construct(name, given, preview=preview)
    assert found.errors == ()
    assert found.component.type == f"gpu-ci:index:{name}"
    held = opened(wire.raw(found.inputs))
    assert {key: held[key] for key in given} == given, "the state shows the arguments as they were passed"
    assert held.keys() - given.keys() <= {"runnerScaleSetName", "poolName", "machineSetName"}, (
        "the component's name is the default"
    )
    assert len(found.asked) > 1, "it has children"
    assert all(each.parent for each in found.asked[1:])
    assert_outputs(name, found)
    if not preview:
        assert UNKNOWN not in json.dumps(rpc.unwrap_rpc_secret(found.outputs), default=str), "an update knows everything"


def assert_outputs(name: str, found: Constructed) -> None:
    """Every annotated output is set that is not optional."""
    held = RESOURCES[name]
    assert set(held["required"]) <= found.outputs.keys() <= held["properties"].keys()


@pytest.mark.parametrize("name", ARGUMENTS)
def test_children_get_the_providers_and_dependencies_of_the_component(plugin, name):
    (case, *_) = ARGUMENTS[name]
    reference = "urn:pulumi:s::p::pulumi:providers:kubernetes::own::own-id"
    found = plugin.construct(name, case, providers={"kubernetes": reference}, dependencies=[BEFORE])
    objects = [each for each in found.asked if each.type.startswith("kubernetes:")]
    if not any(each.type == "pulumi:providers:kubernetes" for each in found.asked):  # a new cluster has its own provider
        assert {each.provider for each in objects} <= {reference}
    later = {BEFORE}
    for each in found.asked:
        if later & set(each.dependencies):
            later.add(urn_of(each))
    assert [each.name for each in objects if urn_of(each) not in later] == [], (
        "depends_on of the component is that of its objects"
    )


@pytest.mark.parametrize(("name", "key", "value"), INPUTS)
def test_an_argument_is_an_input_or_must_be_known(plugin, name, key, value):
    """A secret, an unknown and an output with a dependency, in preview and update."""
    case = first_with(name, key)
    kinds = {
        "secret": secret(value),
        "output": output(value, BEFORE),
        "unknown": UNKNOWN,
        "unknown output": output(UNKNOWN, BEFORE),
    }
    for kind, held in kinds.items():
        for preview in (True, False):
            if "unknown" in kind and not preview:
                continue  # in an update every output is known before the component is constructed
            found = plugin.construct(name, {**case, key: held}, preview=preview)
            what = f"{kind}, {'preview' if preview else 'update'}"
            if is_plain(name, key):
                ((path, reason),) = found.errors
                assert (path, "pass a plain value" in reason) == (key, True), what
                assert found.asked == [], f"{what}: nothing is registered before the arguments are checked"
                continue
            assert found.errors == (), what
            assert_outputs(name, found)
            if kind == "secret":
                assert list(unwrapped(found, value)) == [], f"{what}: no request shows it"
            if kind == "output":
                assert BEFORE in found.component.propertyDependencies[key].urns, what


@pytest.mark.parametrize("given", [output(SUBNET, BEFORE), output(SUBNET, secret=True), UNKNOWN, output(UNKNOWN, BEFORE)])
def test_subnets_can_be_outputs_where_their_zones_are_known(plugin, given):
    case = first_with("GpuNodeGroup", "subnetIds")
    found = plugin.construct("GpuNodeGroup", {**case, "subnetIds": {"us-west-2a": given, "us-west-2b": SUBNET}}, preview=True)
    assert found.errors == ()
    groups = {each.name.split("-")[-2] for each in found.asked if each.type == "aws:eks/nodeGroup:NodeGroup"}
    assert groups == {"2a", "2b"}, "a node group for each zone"


@pytest.mark.parametrize("preview", [True, False], ids=["preview", "update"])
@pytest.mark.parametrize("name", [name for name, found in RESOURCES.items() if "githubPrivateKey" in found["inputProperties"]])
def test_the_apps_key_stays_secret_however_a_program_passes_it(plugin, name, preview):
    case = first_with(name, "githubPrivateKey")
    key = str(case["githubPrivateKey"])
    for held in (key, secret(key), output(key, BEFORE, secret=True), output(key, BEFORE), *([UNKNOWN] if preview else [])):
        found = plugin.construct(name, {**case, "githubPrivateKey": held}, preview=preview)
        assert found.errors == ()
        assert list(unwrapped(found, key)) == [], f"{held}: every request has the key as a secret"
        (created,) = [each for each in found.asked if each.type == "kubernetes:core/v1:Secret"]
        assert held == UNKNOWN or key in str(opened(wire.raw(created.object)))


def opened(value: Any) -> Any:
    """A value from the wire without markers of secrets."""
    if isinstance(value, Mapping):
        return opened(value["value"]) if rpc._special_sig_key in value else {key: opened(each) for key, each in value.items()}
    return [opened(each) for each in value] if isinstance(value, list) else value


def unwrapped(found: Any, value: object) -> Iterator[str]:
    """Texts of a value that a request to the engine has outside a secret."""
    texts = [each for each in leaves(value) if len(each) > 5]
    for request in found.asked:
        for leaf in leaves(wire.raw(request.object)):
            yield from (f"{request.type} {request.name}: {leaf}" for text in texts if text in leaf)


def leaves(value: Any) -> Iterator[str]:
    """Texts of a value, without those in secrets."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from leaves(each)
    elif isinstance(value, Mapping):
        kind = value.get(rpc._special_sig_key)
        if kind == rpc._special_secret_sig or (kind and value.get("secret")):
            return
        for each in value.values():
            yield from leaves(each)


@pytest.mark.parametrize(
    ("name", "given", "path", "rule"),
    [pytest.param(name, *case, id=f"{name}-{case[1]}") for name, cases in WRONG.items() for case in cases],
)
def test_a_wrong_argument_is_a_property_error_with_path_and_fix(plugin, name, given, path, rule):
    found = plugin.construct(name, {**ARGUMENTS[name][0], **given})
    assert [place for place, _ in found.errors] == [path]
    assert rule in found.errors[0][1]
    assert found.asked == [], "nothing is registered"


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_missing_argument_is_named(plugin, name):
    for key in RESOURCES[name]["requiredInputs"]:
        (case, *_) = ARGUMENTS[name]
        found = plugin.construct(name, {given: value for given, value in case.items() if given != key})
        ((_, reason),) = found.errors
        assert "required argument is missing" in reason


def test_whole_numbers_arrive_as_floats_and_are_whole_again(plugin):
    found = plugin.construct("DevicePluginStack", ARGUMENTS["DevicePluginStack"][1])
    (configs,) = [each.object for each in found.asked if each.type == "kubernetes:core/v1:ConfigMap"]
    assert [text for text in dict(configs["data"]).values() if text.endswith("replicas: 4")]


def test_the_plugin_constructs_components_at_the_same_time(plugin):
    def one(index: int) -> bool:
        name = sorted(ARGUMENTS)[index % len(ARGUMENTS)]
        found = plugin.construct(name, ARGUMENTS[name][0], preview=index % 4 < 2)
        return found.component.type == f"gpu-ci:index:{name}" and len(found.asked) > 1

    with futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(8)))
