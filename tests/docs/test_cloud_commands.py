"""Calls of the clouds' CLIs in the documentation: commands and options that exist, clusters and regions of our stacks."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

import botocore.session
import jmespath
import oci
import pytest
from botocore import validate
from oci.container_engine import ContainerEngineClient
from oci.core import ComputeClient, ComputeManagementClient
from oci.identity import IdentityClient
from oci.resource_search import ResourceSearchClient

from components.context import Context
from fleet.loading.config import load
from fleet.providers import fleet as settings
from tests.builders import read_stack
from tests.docs.inside import PAGES_NAME, stack
from tests.docs.kubectl import commands
from tests.docs.markdown import fences, pages
from tests.fleet.conformance import STACKS

SHELLS = ("bash", "sh")
CLUSTERS = {
    Context(settings.NAMESPACE, name, {}).cluster_name(cluster): held
    for name in PAGES_NAME
    for cluster, held in stack(name).clusters.items()
}
"""Settings of our stacks' clusters, by their names in the cloud."""
FLEETS = [load(read_stack(path)) for path in STACKS.values()]
REGIONS = {cluster.region for fleet in FLEETS for _, cluster in fleet.clusters_by_name()}

CUSTOM = {("eks", "update-kubeconfig"): {"--name", "--region"}, ("sso", "login"): set()}
"""Commands of the AWS CLI that are not API operations, with the options that we use (AWS CLI 2, awscli/customizations)."""

AWS_GLOBAL = {"--region", "--query", "--output"}

OCI = {
    "ce addon-option list": {"--kubernetes-version", "--addon-name"},
    "ce cluster create-kubeconfig": {"--cluster-id", "--file", "--kube-endpoint", "--token-version"},
    "ce cluster list": {"--compartment-id", "--name", "--lifecycle-state"},
    "ce cluster list-addons": {"--cluster-id"},
    "ce node-pool get": {"--node-pool-id"},
    "ce node-pool list": {"--compartment-id", "--cluster-id"},
    "ce node-pool-options get": {"--node-pool-option-id"},
    "compute capacity-reservation get": {"--capacity-reservation-id"},
    "compute compute-capacity-report create": {"--compartment-id", "--availability-domain", "--shape-availabilities"},
    "compute console-history capture": {"--instance-id", "--wait-for-state"},
    "compute console-history get-content": {"--instance-console-history-id", "--length", "--file"},
    "compute image list": {"--compartment-id", "--all"},
    "compute image-shape-compatibility-entry list": {"--image-id"},
    "compute instance list": {"--compartment-id", "--all"},
    "compute-management instance-pool list": {"--compartment-id"},
    "compute-management instance-pool update": {"--instance-pool-id", "--size"},
    "compute-management instance-pool-instance detach": {
        "--instance-pool-id",
        "--instance-id",
        "--is-decrement-size",
        "--is-auto-terminate",
    },
    "iam availability-domain list": set(),
    "iam region-subscription list": set(),
    "search resource structured-search": {"--query-text"},
}
"""Commands of Oracle's CLI and the options of each that we use, as `oci … --help` of oci-cli 3.95.1 has them."""
OCI_OPERATIONS = {
    "search resource structured-search": (ResourceSearchClient, "search_resources"),
    "ce addon-option list": (ContainerEngineClient, "list_addon_options"),
    "ce cluster create-kubeconfig": (ContainerEngineClient, "create_kubeconfig"),
    "ce cluster list": (ContainerEngineClient, "list_clusters"),
    "ce cluster list-addons": (ContainerEngineClient, "list_addons"),
    "ce node-pool get": (ContainerEngineClient, "get_node_pool"),
    "ce node-pool list": (ContainerEngineClient, "list_node_pools"),
    "ce node-pool-options get": (ContainerEngineClient, "get_node_pool_options"),
    "compute capacity-reservation get": (ComputeClient, "get_compute_capacity_reservation"),
    "compute compute-capacity-report create": (ComputeClient, "create_compute_capacity_report"),
    "compute console-history capture": (ComputeClient, "capture_console_history"),
    "compute console-history get-content": (ComputeClient, "get_console_history_content"),
    "compute image list": (ComputeClient, "list_images"),
    "compute image-shape-compatibility-entry list": (ComputeClient, "list_image_shape_compatibility_entries"),
    "compute instance list": (ComputeClient, "list_instances"),
    "compute-management instance-pool list": (ComputeManagementClient, "list_instance_pools"),
    "compute-management instance-pool update": (ComputeManagementClient, "update_instance_pool"),
    "compute-management instance-pool-instance detach": (ComputeManagementClient, "detach_instance_pool_instance"),
    "iam availability-domain list": (IdentityClient, "list_availability_domains"),
    "iam region-subscription list": (IdentityClient, "list_region_subscriptions"),
}
"""The operation of Oracle's SDK behind each command: its parameters, and the response that `--query` reads."""
OCI_TAGS = ("gpu-ci-set", "gpu-ci-runner", "gpu-ci-claimed")
"""Tags of our machines (fleet/providers/tags.py)."""
OCI_GLOBAL = {"--region", "--output", "--query", "--raw-output"}


def told(program: str) -> list[tuple[str, tuple[str, ...]]]:
    """(place, words) of every call of a program in a shell block."""
    return [(fence.place, words) for fence in fences() if fence.language in SHELLS for words in commands(fence.text, program)]


def options(words: tuple[str, ...]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def value(words: tuple[str, ...], option: str) -> str | None:
    return words[words.index(option) + 1] if option in words else None


# -- AWS ---------------------------------------------------------------------------------------------------------------


def aws_faults(words: tuple[str, ...]) -> Iterator[str]:
    """What a call of the AWS CLI names and the API does not have."""
    service, command = words[:2]
    known = CUSTOM.get((service, command))
    if known is None:
        # The CLI keeps `s3` for commands of its own.
        model = botocore.session.get_session().get_service_model("s3" if service == "s3api" else service)
        operation = "".join(map(str.capitalize, command.split("-")))
        if operation not in model.operation_names:
            yield f"{service} {command}"
            return
        members = model.operation_model(operation).input_shape.members
        spelled = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower(): shape for name, shape in members.items()}
        # The CLI gives each flag a twin that switches it off.
        off = {f"--no-{name}" for name, shape in spelled.items() if shape.type_name == "boolean"}
        known = {f"--{name}" for name in spelled} | off
        if options(words) <= known | AWS_GLOBAL:
            yield from request_faults(words[2:], spelled, model.operation_model(operation))
    yield from sorted(options(words) - known - AWS_GLOBAL)


def request_faults(words: tuple[str, ...], spelled: Mapping[str, Any], operation: Any) -> Iterator[str]:
    """Why the API would refuse the request of a call, and what its `--query` does not find in the response."""
    names = {shape_of: name for name, shape_of in zip(operation.input_shape.members, spelled, strict=True)}
    # The CLI makes these itself.
    request: dict[str, Any] = {names[name]: "0" * 32 for name, shape in spelled.items() if shape.metadata.get("idempotencyToken")}
    for option, values in given(words):
        name = option.removeprefix("--")
        if name in spelled:
            request[names[name]] = typed(spelled[name], values)
        elif name.removeprefix("no-") in spelled:
            request[names[name.removeprefix("no-")]] = False
    report = validate.ParamValidator().validate(request, operation.input_shape)
    if report.has_errors():
        yield report.generate_report()
    yield from (
        f"{name}: {request[names[name]]} is no {shape.name}"
        for name, shape in spelled.items()
        if getattr(shape, "enum", None) and names[name] in request and request[names[name]] not in shape.enum
    )
    query = value(words, "--query")
    if query is not None:
        yield from query_faults(query, sample(operation.output_shape))


def given(words: tuple[str, ...]) -> Iterator[tuple[str, list[str]]]:
    """Each option with its values."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            found.append((word.partition("=")[0], [word.partition("=")[2]] if "=" in word else []))
        else:
            found[-1][1].append(word)
    return iter(found)


def typed(shape: Any, values: list[str]) -> Any:
    """Words of the command line as a value of the API: JSON, the CLI's shorthand (`key=value,key=value`), or plain words."""
    if shape.type_name != "string" and values and values[0][:1] in ("{", "["):
        return json.loads(values[0])
    if shape.type_name == "list":
        return [typed(shape.member, [each]) for each in values]
    if shape.type_name == "structure":
        found: dict[str, list[str]] = {}
        for part in values[0].split(","):
            key, equals, held = part.partition("=")
            # A part without a key is one more value of the key before it.
            found.setdefault(key, []).append(held) if equals else found[[*found][-1]].append(part)
        return {key: typed(shape.members[key], held) if key in shape.members else held for key, held in found.items()}
    if shape.type_name == "boolean":
        return True
    text = " ".join(values)
    is_number = shape.type_name in ("integer", "long", "float", "double") and re.fullmatch(r"[\d.]+", text)
    return json.loads(text) if is_number else text


def sample(shape: Any, depth: int = 8) -> Any:
    """A response with every field."""
    if depth == 0:
        return "x"
    if shape.type_name == "structure":
        return {name: sample(member, depth - 1) for name, member in shape.members.items()}
    if shape.type_name == "list":
        return [sample(shape.member, depth - 1)]
    return {"x": sample(shape.value, depth - 1)} if shape.type_name == "map" else "x"


def query_faults(query: str, response: Any) -> Iterator[str]:
    """Fields of a `--query` that the response does not have."""
    # A filter compares values, which a sample does not have.
    found = jmespath.search(re.sub(r"\[\?[^]]*\]", "[*]", query), response)
    if found is None or "null" in json.dumps(found) or found == []:
        yield f"--query {query} finds {json.dumps(found)}"


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("aws eks list-nodepools --cluster-name a", ["eks list-nodepools"]),
        ("aws eks list-nodegroups --cluster a", ["--cluster"]),
        ("aws eks update-kubeconfig --cluster-name a", ["--cluster-name"]),
        ("aws ec2 describe-capacity-reservations --capacity-reservation-ids cr-0 --region us-east-1", []),
    ],
)
def test_a_command_or_option_that_aws_lacks_is_found(line, fault):
    (words,) = commands(line, "aws")
    assert list(aws_faults(words)) == fault


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("aws eks list-nodegroups", 'required parameter in input: "clusterName"'),
        ("aws eks list-insights --cluster-name a --max-results many", "Invalid type for parameter maxResults"),
        ("aws eks list-nodegroups --cluster-name a --query 'nodeGroups[0]'", "--query nodeGroups[0] finds null"),
        (
            "aws eks update-nodegroup-config --cluster-name a --nodegroup-name b --scaling-config min=0",
            'parameter in scalingConfig: "min"',
        ),
        ("aws imagebuilder start-image-pipeline-execution --image-pipeline-arn a", ""),
        (
            "aws service-quotas get-service-quota --service-code ec2 --quota-code L-1 --query Quota.Values",
            "--query Quota.Values finds null",
        ),
    ],
)
def test_a_request_that_the_api_would_refuse_is_found(line, fault):
    (words,) = commands(line, "aws")
    assert fault in "; ".join(aws_faults(words))


def test_a_field_that_oracles_sdk_lacks_is_found():
    (words,) = commands("oci compute instance list --compartment-id a --query 'data[*].{state: \"lifecycle\"}'", "oci")
    assert list(oci_faults(words)) == ['--query data[*].{state: "lifecycle"} finds [{"state": null}]']


def test_pages_name_the_clusters_as_the_program_does():
    named = [(place, words) for place, words in told("aws") if words[:2] == ("eks", "update-kubeconfig")]
    assert named, "a page says how to reach the cluster"
    for place, words in named:
        name = value(words, "--name")
        assert name in CLUSTERS, place
        assert value(words, "--region") == CLUSTERS[name].region, place
    for place, words in told("aws"):
        version = value(words, "--kubernetes-version")
        assert version is None or version in {cluster.kubernetes_version for cluster in CLUSTERS.values()}, place


# -- OCI ---------------------------------------------------------------------------------------------------------------


def oci_command(words: tuple[str, ...]) -> str:
    """The words before the first option."""
    return " ".join(takewhile(lambda word: not word.startswith("-"), words))


def oci_faults(words: tuple[str, ...]) -> Iterator[str]:
    """What a call of Oracle's CLI names and the CLI does not have, as far as it was read."""
    command = oci_command(words)
    if command not in OCI:
        yield command
        return
    yield from sorted(options(words) - OCI[command] - OCI_GLOBAL)
    yield from sdk_faults(command, words)
    region = value(words, "--region")
    if region is not None and region not in REGIONS:
        yield f"region {region} of no stack"


def sdk_faults(command: str, words: tuple[str, ...]) -> Iterator[str]:
    """Required parameters that a call of Oracle's CLI leaves out, and what its `--query` does not find in the response."""
    client, operation = OCI_OPERATIONS[command]
    method = getattr(client, operation)
    own = [name for name in list(inspect.signature(method).parameters)[1:-1] if not name.endswith("_details")]
    needed = {f"--{name.replace('_', '-')}" for name in own}
    # Commands of iam take the tenancy from the CLI's own config.
    tenancy = {"--compartment-id", "--tenancy-id"} if command.startswith("iam ") else set()
    yield from (f"without {option}" for option in sorted(needed - options(words) - tenancy))
    query = value(words, "--query")
    if query is None:
        return
    kind = re.search(r"with data of type (list of )?:class:`~oci\.(\w+)\.models\.(\w+)`", method.__doc__)
    assert kind is not None, f"{operation} returns no model"
    models = getattr(oci, kind[2]).models
    response = oci_sample(models, kind[3])
    yield from query_faults(query, {"data": [response] if kind[1] else response})


def oci_sample(models: Any, kind: str, depth: int = 4) -> Any:
    """A model of Oracle's SDK with every field, in the spelling of the CLI's output."""
    if found := re.fullmatch(r"list\[(.+)\]", kind):
        return [oci_sample(models, found[1], depth)]
    model = getattr(models, kind, None)
    if kind.startswith("dict("):
        return dict.fromkeys(OCI_TAGS, "x")
    if model is None or depth == 0:
        return "x"
    # A field of a base class may hold any of its subclasses.
    subclasses: list[Any] = [each for each in vars(models).values() if inspect.isclass(each) and issubclass(each, model)]
    types = {name: each for cls in subclasses for name, each in cls().swagger_types.items()}
    return {name.replace("_", "-"): oci_sample(models, each, depth - 1) for name, each in types.items()}


def test_every_command_of_the_oci_cli_that_was_read_is_used():
    assert OCI.keys() - {oci_command(words) for _, words in told("oci")} == set()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("oci ce cluster kubeconfig --cluster-id a", ["ce cluster kubeconfig"]),
        ("oci compute instance list --compartment a", ["--compartment", "without --compartment-id"]),
        ("oci compute instance list --compartment-id a --region us-phoenix-1", ["region us-phoenix-1 of no stack"]),
        ("X=$(oci iam availability-domain list --query data) # why", []),
    ],
)
def test_a_command_option_or_region_that_is_not_there_is_found(line, fault):
    (words,) = commands(line, "oci")
    assert list(oci_faults(words)) == fault


def test_pages_name_oke_clusters_as_the_program_does():
    named = {name for _, words in told("oci") if (name := value(words, "--name")) is not None}
    assert named == {name for name, cluster in CLUSTERS.items() if cluster.provider == "oke" and "examples/" not in name}


def test_pages_name_images_of_the_version_that_okes_nodes_have():
    """OKE refuses an image of another version than its pool's (docs.oracle.com, supported images)."""
    named = {version for page in pages() for version in re.findall(r"OKE-(\d+\.\d+\.\d+)", page.read_text())}
    assert named == {cluster.kubernetes.removeprefix("v") for cluster in CLUSTERS.values() if cluster.provider == "oke"}
