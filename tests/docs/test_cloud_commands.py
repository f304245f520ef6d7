"""Calls of the clouds' CLIs in the documentation: commands and options that exist, clusters and regions of our stacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

import botocore.session
import pytest

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

CUSTOM = {("eks", "update-kubeconfig"): {"--name", "--region"}}
"""Commands of the AWS CLI that are no API operation, with the options that we use (AWS CLI 2, awscli/customizations/eks)."""

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
}
"""Commands of Oracle's CLI and the options of each that we use, as `oci … --help` of oci-cli 3.95.1 has them."""
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
        model = botocore.session.get_session().get_service_model(service)
        operation = "".join(map(str.capitalize, command.split("-")))
        if operation not in model.operation_names:
            yield f"{service} {command}"
            return
        members = model.operation_model(operation).input_shape.members
        spelled = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower(): shape for name, shape in members.items()}
        # The CLI gives each flag a twin that switches it off.
        off = {f"--no-{name}" for name, shape in spelled.items() if shape.type_name == "boolean"}
        known = {f"--{name}" for name in spelled} | off
    yield from sorted(options(words) - known - {"--region", "--query", "--output"})


def test_the_aws_cli_has_every_command_and_option():
    calls = told("aws")
    assert calls, "no page has a call of aws"
    assert [f"{place}: {fault}" for place, words in calls for fault in aws_faults(words)] == []


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


def test_pages_name_the_clusters_as_the_program_does():
    naming = {"update-kubeconfig": "--name", "list-nodegroups": "--cluster-name", "update-nodegroup-config": "--cluster-name"}
    named = [(place, words) for place, words in told("aws") if words[0] == "eks" and words[1] in naming]
    assert {words[1] for _, words in named} == naming.keys(), "a page says how to reach the cluster and how to size a pool"
    for place, words in named:
        name = value(words, naming[words[1]])
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
    region = value(words, "--region")
    if region is not None and region not in REGIONS:
        yield f"region {region} of no stack"


def test_the_oci_cli_has_every_command_and_option():
    calls = told("oci")
    assert calls, "no page has a call of oci"
    assert [f"{place}: {fault}" for place, words in calls for fault in oci_faults(words)] == []


def test_every_command_of_the_oci_cli_that_was_read_is_used():
    assert OCI.keys() - {oci_command(words) for _, words in told("oci")} == set()


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("oci ce cluster kubeconfig --cluster-id a", ["ce cluster kubeconfig"]),
        ("oci compute instance list --compartment a", ["--compartment"]),
        ("oci compute instance list --compartment-id a --region us-phoenix-1", ["region us-phoenix-1 of no stack"]),
        ("X=$(oci iam availability-domain list --query data) # why", []),
    ],
)
def test_a_command_option_or_region_that_is_not_there_is_found(line, fault):
    (words,) = commands(line, "oci")
    assert list(oci_faults(words)) == fault


def test_pages_name_oke_clusters_as_the_program_does():
    named = {name for _, words in told("oci") if (name := value(words, "--name")) is not None}
    assert named == {name for name, cluster in CLUSTERS.items() if cluster.provider == "oke"}


def test_pages_name_images_of_the_version_that_okes_nodes_have():
    """OKE refuses an image of another version than its pool's (docs.oracle.com, supported images)."""
    named = {version for page in pages() for version in re.findall(r"OKE-(\d+\.\d+\.\d+)", page.read_text())}
    assert named == {cluster.kubernetes.removeprefix("v") for cluster in CLUSTERS.values() if cluster.provider == "oke"}
