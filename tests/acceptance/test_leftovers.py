"""The scan against moto and a fake of OCI's search. Commands are checked against AWS' models and Oracle's SDK."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import oci
import pytest

from fleet.providers.eks.ami import GpuAmi
from fleet.providers.eks.cluster import EksPools
from fleet.providers.eks.leftovers import DELETE as AWS
from fleet.providers.fleet import Fleet
from fleet.providers.oke.provider import DELETE as OCI, OciLeftovers
from fleet.providers.provider import Left
from gpu_ci.acceptance.steps import Scan
from tests.docs.test_cloud_commands import aws_faults
from tests.doctor.fleets import shipped
from tests.doctor.loopback import serve
from tests.doctor.test_oci import account  # noqa: F401 - a fixture
from tests.simulated_aws import simulated_aws

REGION, CLUSTER = "us-west-2", "gpu-ci-staging-usw2"
TAGS = [{"Key": "gpu-ci/stack", "Value": "staging"}]


@pytest.fixture
def cloud() -> Iterator[Any]:
    with simulated_aws(REGION) as client:
        yield client


@pytest.fixture
def scan() -> Scan:
    return Scan("gpu-ci", "staging", shipped("staging"))


def volume(ec2: Any, *tags: dict[str, str]) -> str:
    made = ec2.create_volume(
        AvailabilityZone=f"{REGION}a", Size=1, TagSpecifications=[{"ResourceType": "volume", "Tags": list(tags)}] if tags else []
    )
    found: str = made["VolumeId"]
    return found


def test_an_account_without_the_stack_has_nothing_left(cloud: Any, scan: Scan) -> None:
    volume(cloud("ec2"))
    volume(cloud("ec2"), {"Key": "gpu-ci/stack", "Value": "other"})
    assert scan() == []


def test_a_volume_of_a_claim_is_found_with_its_command(cloud: Any, scan: Scan) -> None:
    called = volume(cloud("ec2"), *TAGS)
    (left,) = scan()
    assert left.delete == f"aws ec2 delete-volume --volume-id {called} --region us-west-2"
    assert called in left.what


def test_what_kubernetes_marks_is_found_once(cloud: Any, scan: Scan) -> None:
    called = volume(cloud("ec2"), *TAGS, {"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"})
    other = volume(cloud("ec2"), {"Key": f"kubernetes.io/cluster/{CLUSTER}", "Value": "owned"})
    of_cni = volume(cloud("ec2"), {"Key": "cluster.k8s.amazonaws.com/name", "Value": CLUSTER})
    volume(cloud("ec2"), {"Key": "cluster.k8s.amazonaws.com/name", "Value": f"{CLUSTER}x"})
    assert sorted(each.delete.split()[4] for each in scan()) == sorted([called, other, of_cni])


def test_the_regions_of_node_images_are_scanned_too(cloud: Any) -> None:
    fleet = shipped("staging")
    cluster = fleet.clusters["usw2"]
    assert isinstance(cluster, EksPools)
    image = GpuAmi.model_validate({"buildType": "g4dn.xlarge", "regions": ("eu-west-1",)})
    fleet = fleet.model_copy(update={"clusters": {"usw2": cluster.model_copy(update={"amis": {"own": image}})}})
    copied = cloud("ec2", "eu-west-1").create_volume(
        AvailabilityZone="eu-west-1a", Size=1, TagSpecifications=[{"ResourceType": "volume", "Tags": TAGS}]
    )
    (left,) = Scan("gpu-ci", "staging", fleet)()
    assert left.delete == f"aws ec2 delete-volume --volume-id {copied['VolumeId']} --region eu-west-1"


def test_a_terminated_instance_is_gone(cloud: Any, scan: Scan) -> None:
    ec2 = cloud("ec2")
    image = ec2.register_image(Name="own")["ImageId"]
    spec = [{"ResourceType": "instance", "Tags": TAGS}]
    made = ec2.run_instances(ImageId=image, MinCount=2, MaxCount=2, TagSpecifications=spec)["Instances"]
    kept, gone = (each["InstanceId"] for each in made)
    ec2.terminate_instances(InstanceIds=[gone])
    assert [each.delete for each in scan()] == [f"aws ec2 terminate-instances --instance-ids {kept} --region us-west-2"]


def test_log_groups_of_the_control_plane_are_found_and_deleted(cloud: Any, scan: Scan) -> None:
    logs = cloud("logs")
    for name in (f"/aws/eks/{CLUSTER}/cluster", "/aws/eks/gpu-ci-staging-usw2x/cluster"):
        logs.create_log_group(logGroupName=name, tags={"gpu-ci/stack": "staging"} if name.endswith(f"{CLUSTER}/cluster") else {})
    assert [each.delete for each in scan()] == [
        f"aws logs delete-log-group --log-group-name /aws/eks/{CLUSTER}/cluster --region us-west-2"
    ]
    scan.delete_late()
    assert scan() == []
    assert len(logs.describe_log_groups()["logGroups"]) == 1, "another cluster's logs stay"


def test_every_command_is_one_of_aws() -> None:
    lines = [each.format(id="xx", arn="arn:x", parts=["x", "y"]) for each in AWS.values()]
    assert [fault for line in lines for fault in aws_faults(tuple(shlex.split(line)[1:]))] == []


def test_every_command_is_one_of_oracles() -> None:
    """oci-cli has a command for each operation of the SDK: `oci bv volume delete --volume-id` calls delete_volume(volume_id)."""
    clients = {
        "bv": oci.core.BlockstorageClient,
        "compute": oci.core.ComputeClient,
        "lb": oci.load_balancer.LoadBalancerClient,
        "network": oci.core.VirtualNetworkClient,
    }
    lines = [each.split() for each in OCI.values()]
    assert len(lines) == 5
    for _, group, thing, verb, option, _ in lines:
        operation = getattr(clients[group], f"{verb}_{thing.replace('-', '_')}")
        assert f"--{list(inspect.signature(operation).parameters)[1].replace('_', '-')}" == option


@pytest.fixture
def prod() -> Fleet:
    """Only its OKE cluster."""
    fleet = shipped("prod")
    return fleet.model_copy(update={"clusters": {"sjc": fleet.clusters["sjc"]}})


def test_oracles_search_is_asked_by_tag_and_what_is_terminated_is_gone(prod: Fleet, account: None) -> None:  # noqa: F811 - a fixture
    """The client is Oracle's own, which reads the answer by its models."""
    item = {"compartmentId": "c", "displayName": "runner"}
    items = [
        {**item, "identifier": "ocid1.instance.a", "resourceType": "Instance", "lifecycleState": "RUNNING"},
        {**item, "identifier": "ocid1.instance.b", "resourceType": "Instance", "lifecycleState": "TERMINATED"},
        {**item, "identifier": "ocid1.dashboard.c", "resourceType": "ConsoleDashboard", "lifecycleState": None},
    ]
    with serve({"/": (200, {"items": items})}) as server:
        client = oci.resource_search.ResourceSearchClient(oci.config.from_file(), service_endpoint=server.url)
        found = list(OciLeftovers("gpu-ci", "prod", prod.clusters, lambda _: client))
        assert {method for method, _ in server.asked} == {"POST"}
        assert {path.partition("?")[0] for _, path in server.asked} == {"/20180409/resources"}
    assert [each.delete for each in found if "us-sanjose-1" in each.what] == [
        "oci compute instance terminate --instance-id ocid1.instance.a --region us-sanjose-1",
        "no command is known here; look for it in the cloud's console",
    ]


def test_the_query_has_the_tag_and_the_stack(prod: Fleet) -> None:
    asked: list[Any] = []

    def answer(details: Any, **_: Any) -> Any:
        asked.append(details)
        return SimpleNamespace(
            data=SimpleNamespace(items=[]), headers={}, has_next_page=False, next_page=None, status=200, request=None
        )

    list(OciLeftovers("gpu-ci", "prod", prod.clusters, lambda _: SimpleNamespace(search_resources=answer)))
    assert {each.query for each in asked} == {
        "query all resources where (freeformTags.key = 'gpu-ci/stack' && freeformTags.value = 'prod')"
    }
    assert {each.type for each in asked} == {"Structured"}


def test_a_line_has_the_thing_and_the_command() -> None:
    assert str(Left("us-west-2: a volume", "delete it")) == "us-west-2: a volume\n    delete it"
