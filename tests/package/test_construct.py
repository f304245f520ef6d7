"""Every component of the package, constructed by the plugin as for a program in any language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from concurrent import futures
from typing import Any

import pytest
import yaml
from pulumi.runtime import rpc

from gpu_ci.offline import wire
from package.reference import SCHEMA
from tests.builders import ROOT
from tests.package.arguments import APP, ARGUMENTS, WRONG
from tests.package.plugin import UNKNOWN, Constructed, output, refusal, secret, urn_of

RESOURCES: Mapping[str, Any] = {
    token.rpartition(":")[2]: held for token, held in json.loads(SCHEMA.read_text())["resources"].items()
}
CASES = [(name, index) for name, cases in ARGUMENTS.items() for index in range(len(cases))]
SUBNET = "subnet-0123456789abcdef1"
BEFORE = "urn:pulumi:s::p::test:index:Other::before"
OWN = "urn:pulumi:s::p::pulumi:providers:kubernetes::own::own-id"


def plain(name: str) -> list[str]:
    """The arguments of a component that must be known."""
    return [key for key, entry in RESOURCES[name]["inputProperties"].items() if entry.get("plain")]


def first_with(name: str, key: str) -> dict[str, Any]:
    return dict(next(case for case in ARGUMENTS[name] if key in case))


def open_cases() -> Iterator[Any]:
    """Arguments, and those of them that may be outputs: each argument in the first case that has it."""
    for name, cases in ARGUMENTS.items():
        done = set(plain(name))
        for case in cases:
            if keys := sorted(case.keys() - done):
                done |= case.keys()
                # Half a hundred rules of it depend on no argument.
                yield name, {key: value for key, value in case.items() if key != "machineSecurityGroup"}, keys


OPEN = list(open_cases())
PREVIEWED = [case for _, case, _ in OPEN]
"""Cases that another test constructs in a preview, with secrets."""


def test_the_running_plugin_has_the_schema(plugin):
    assert json.loads(plugin.schema()) == json.loads(SCHEMA.read_text())


def test_the_yaml_program_has_arguments_that_the_component_takes(plugin):
    program = yaml.safe_load((ROOT / "examples" / "components" / "yaml" / "Pulumi.yaml").read_text())
    ((name, held),) = [(name, held) for name, held in program["resources"].items() if held["type"].startswith("gpu-ci:")]
    component = held["type"].rpartition(":")[2]
    found = plugin.construct(component, held["properties"])
    assert found.errors == ()
    outputs = re.findall(rf"\$\{{{name}\.(\w+)\}}", str(program["outputs"]))
    assert outputs
    assert set(outputs) <= found.outputs.keys()


def test_every_component_has_arguments_here_and_none_is_missing():
    assert ARGUMENTS.keys() == RESOURCES.keys() == WRONG.keys()
    for name, found in RESOURCES.items():
        assert {key for case in ARGUMENTS[name] for key in case} == found["inputProperties"].keys(), name


@pytest.mark.parametrize(("name", "index"), CASES)
def test_a_component_registers_its_type_inputs_and_outputs(plugin, name, index):
    arguments = ARGUMENTS[name][index]
    options = {} if index else {"providers": {"kubernetes": OWN}, "dependencies": [BEFORE]}
    if options or arguments not in PREVIEWED:
        previewed = plugin.construct(name, arguments, **options)
        assert_constructed(name, arguments, previewed)
        if options:
            assert_children_have_what_the_component_has(previewed)
    updated = plugin.construct(name, arguments, preview=False)
    assert_constructed(name, arguments, updated)
    assert UNKNOWN not in json.dumps(rpc.unwrap_rpc_secret(updated.outputs), default=str), "an update knows everything"


def assert_constructed(name: str, arguments: Mapping[str, Any], constructed: Constructed) -> None:
    assert constructed.errors == ()
    assert constructed.component.type == f"gpu-ci:index:{name}"
    state = opened(wire.raw(constructed.inputs))
    assert {key: state[key] for key in arguments} == arguments, "the state shows the arguments as they were passed"
    assert state.keys() - arguments.keys() <= {"runnerScaleSetName", "poolName", "machineSetName", "controllerServiceAccount"}, (
        "the component's name is the default of the first three"
    )
    assert len(constructed.asked) > 1, "it has children"
    assert all(request.parent for request in constructed.asked[1:])
    bound = [request.name for request in constructed.asked if request.hooks.ListFields()]
    assert bound == [], "a hook would stop each destroy of a program in another language, which cannot run it"
    assert_outputs(name, constructed)
    assert_key_is_secret(arguments, constructed)


def assert_outputs(name: str, constructed: Constructed) -> None:
    """Every annotated output is set that is not optional."""
    entry = RESOURCES[name]
    assert set(entry["required"]) <= constructed.outputs.keys() <= entry["properties"].keys()


def assert_children_have_what_the_component_has(constructed: Constructed) -> None:
    """Its providers, and the dependencies of its option `depends_on`."""
    objects = [request for request in constructed.asked if request.type.startswith("kubernetes:")]
    if not any(request.type == "pulumi:providers:kubernetes" for request in constructed.asked):  # of a new cluster
        assert {request.provider for request in objects} <= {OWN}
    later = {BEFORE}
    for request in constructed.asked:
        if later & set(request.dependencies):
            later.add(urn_of(request))
    assert [request.name for request in objects if urn_of(request) not in later] == [], (
        "depends_on of the component is that of its objects"
    )


def assert_key_is_secret(arguments: Mapping[str, Any], constructed: Constructed) -> None:
    """No request shows the App's key of these arguments, and the Secret has it."""
    if key := arguments.get("githubPrivateKey"):
        assert list(unwrapped(constructed, key)) == [], "every request has the key as a secret"
        (created,) = [request for request in constructed.asked if request.type == "kubernetes:core/v1:Secret"]
        assert key in str(opened(wire.raw(created.object)))


@pytest.mark.parametrize(("name", "case", "keys"), OPEN, ids=[f"{name}.{'+'.join(keys)}" for name, _, keys in OPEN])
def test_an_argument_can_be_a_secret_an_output_or_unknown(plugin, name, case, keys):
    """In an update every output is known before the component is constructed."""
    secrets = {key: secret(case[key]) for key in keys}
    outputs = {key: output(case[key], BEFORE, secret=True) for key in keys}
    for constructed in (
        plugin.construct(name, case | secrets),
        depending := plugin.construct(name, case | outputs, preview=False),
    ):
        assert_constructed(name, case, constructed)
        for key in keys:
            assert list(unwrapped(constructed, case[key])) == [], f"{key}: no request shows it"
    for key in keys:
        assert BEFORE in depending.component.propertyDependencies[key].urns, key
    unknown = [dict.fromkeys(keys, UNKNOWN), *({key: output(UNKNOWN, BEFORE)} for key in keys)]
    for some in unknown:
        constructed = plugin.construct(name, case | some)
        assert (some, constructed.errors) == (some, ())
        assert_outputs(name, constructed)


def kinds(value: Any) -> Mapping[str, Any]:
    """A value as nothing but its program knows it, on the wire."""
    return {
        "secret": secret(value),
        "output": output(value, BEFORE),
        "unknown": UNKNOWN,
        "unknown output": output(UNKNOWN, BEFORE),
    }


@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_argument_that_decides_names_or_counts_must_be_known(plugin, name):
    for key in plain(name):
        case = first_with(name, key)
        for kind, value in kinds(case[key]).items():
            path, reason = refusal(name, {**case, key: value})
            assert (path, "pass a plain value" in reason) == (key, True), f"{key}: {kind}"
    for preview, kind in ((True, "unknown output"), (False, "secret")):
        constructed = plugin.construct(name, {**case, key: kinds(case[key])[kind]}, preview=preview)
        assert constructed.errors == ((path, reason),)
        assert constructed.asked == [], f"{kind}: nothing is registered before the arguments are checked"


@pytest.mark.parametrize("given", [output(SUBNET, BEFORE), output(SUBNET, secret=True), UNKNOWN, output(UNKNOWN, BEFORE)])
def test_subnets_can_be_outputs_where_their_zones_are_known(plugin, given):
    case = first_with("GpuNodeGroup", "subnetIds")
    found = plugin.construct("GpuNodeGroup", {**case, "subnetIds": {"us-west-2a": given, "us-west-2b": SUBNET}}, preview=True)
    assert found.errors == ()
    groups = {each.name.split("-")[-2] for each in found.asked if each.type == "aws:eks/nodeGroup:NodeGroup"}
    assert groups == {"2a", "2b"}, "a node group for each zone"


@pytest.mark.parametrize("name", [name for name, entry in RESOURCES.items() if "githubPrivateKey" in entry["inputProperties"]])
def test_the_apps_key_stays_secret_however_a_program_passes_it(plugin, name):
    case = {**ARGUMENTS[name][0], "githubApp": APP, "githubPrivateKey": "the-key-of-the-app"}
    key = str(case["githubPrivateKey"])
    for value in (secret(key), output(key, BEFORE, secret=True), output(key, BEFORE)):
        for preview in (True, False):
            constructed = plugin.construct(name, {**case, "githubPrivateKey": value}, preview=preview)
            assert constructed.errors == ()
            assert_key_is_secret(case, constructed)


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


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_a_property_error_with_path_and_fix(plugin, name):
    for change, path, rule in WRONG[name]:
        constructed = plugin.construct(name, {**ARGUMENTS[name][0], **change})
        assert [place for place, _ in constructed.errors] == [path], change
        assert rule in constructed.errors[0][1], change
        assert constructed.asked == [], f"{change}: nothing is registered"


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_missing_argument_is_named(name):
    (case, *_) = ARGUMENTS[name]
    for key in RESOURCES[name]["requiredInputs"]:
        path, reason = refusal(name, {other: value for other, value in case.items() if other != key})
        assert (path, "required argument is missing" in reason) == (key, True)


def test_whole_numbers_arrive_as_floats_and_are_whole_again(plugin):
    found = plugin.construct("DevicePluginStack", ARGUMENTS["DevicePluginStack"][1])
    (configs,) = [each.object for each in found.asked if each.type == "kubernetes:core/v1:ConfigMap"]
    assert [text for text in dict(configs["data"]).values() if text.endswith("replicas: 4")]


def test_the_plugin_constructs_components_at_the_same_time(plugin):
    # A cluster registers the most resources, and none that shows more.
    names = [name for name in sorted(ARGUMENTS) if not name.endswith("Cluster")]

    def one(index: int) -> bool:
        name = names[index % len(names)]
        found = plugin.construct(name, ARGUMENTS[name][0], preview=index % 4 < 2)
        return found.component.type == f"gpu-ci:index:{name}" and len(found.asked) > 1

    with futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(one, range(8)))
