"""What a destroyed stack left in its clouds: what has its tag, or a tag by which Kubernetes marks what it creates.

Not seen: what has none of these tags. Sources: API references of Resource Groups Tagging and of OCI Search;
aws/amazon-vpc-cni-k8s (`cluster.k8s.amazonaws.com/name` on network interfaces); kubernetes/cloud-provider-aws
(`kubernetes.io/cluster/<name>` on load balancers, volumes and security groups).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from acceptance.shell import StepError
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.fleet import Fleet
from fleet.providers.oke.cluster import OkePools
from fleet.providers.tags import STACK_TAG

_GONE = {"terminated", "shutting-down", "deleted", "deleting", "terminating"}
"""States in which a cloud still lists what is deleted."""

_AWS = {
    ("ec2", "elastic-ip"): "aws ec2 release-address --region {region} --allocation-id {id}",
    ("ec2", "instance"): "aws ec2 terminate-instances --region {region} --instance-ids {id}",
    ("ec2", "internet-gateway"): "aws ec2 delete-internet-gateway --region {region} --internet-gateway-id {id}",
    ("ec2", "launch-template"): "aws ec2 delete-launch-template --region {region} --launch-template-id {id}",
    ("ec2", "natgateway"): "aws ec2 delete-nat-gateway --region {region} --nat-gateway-id {id}",
    ("ec2", "network-interface"): "aws ec2 delete-network-interface --region {region} --network-interface-id {id}",
    ("ec2", "route-table"): "aws ec2 delete-route-table --region {region} --route-table-id {id}",
    ("ec2", "security-group"): "aws ec2 delete-security-group --region {region} --group-id {id}",
    ("ec2", "snapshot"): "aws ec2 delete-snapshot --region {region} --snapshot-id {id}",
    ("ec2", "subnet"): "aws ec2 delete-subnet --region {region} --subnet-id {id}",
    ("ec2", "volume"): "aws ec2 delete-volume --region {region} --volume-id {id}",
    ("ec2", "vpc"): "aws ec2 delete-vpc --region {region} --vpc-id {id}",
    ("eks", "cluster"): "aws eks delete-cluster --region {region} --name {id}",
    ("elasticfilesystem", "file-system"): "aws efs delete-file-system --region {region} --file-system-id {id}",
    ("elasticloadbalancing", "loadbalancer"): "aws elbv2 delete-load-balancer --region {region} --load-balancer-arn {arn}",
    ("logs", "log-group"): "aws logs delete-log-group --region {region} --log-group-name {id}",
}
_OCI = {
    "BootVolume": "oci bv boot-volume delete --region {region} --boot-volume-id {id}",
    "ClustersCluster": "oci ce cluster delete --region {region} --cluster-id {id}",
    "Instance": "oci compute instance terminate --region {region} --instance-id {id}",
    "LoadBalancer": "oci lb load-balancer delete --region {region} --load-balancer-id {id}",
    "Vcn": "oci network vcn delete --region {region} --vcn-id {id}",
    "Volume": "oci bv volume delete --region {region} --volume-id {id}",
}
_NO_COMMAND = "no command is known here; look for it in the cloud's console"


@dataclass(frozen=True, slots=True)
class Left:
    """A thing that exists, and the command that deletes it."""

    what: str
    delete: str

    def __str__(self) -> str:
        return f"{self.what}\n    {self.delete}"


class Scan:
    """Lists what the stack has in its clouds. `session` is a boto3 session; `search` gives OCI's search client of a region."""

    def __init__(
        self, project: str, stack: str, fleet: Fleet, session: Any = None, search: Callable[[str], Any] | None = None
    ) -> None:
        self._stack = stack
        self._session = session
        self._search = search or _search
        eks = {name: each for name, each in fleet.clusters_by_name() if isinstance(each, EksPools)}
        self._eks = {f"{project}-{stack}-{name}": each.region for name, each in eks.items() if isinstance(each, EksCluster)}
        # Global services answer in us-east-1.
        self._regions = sorted({*(each.region for each in eks.values()), "us-east-1"}) if eks else []
        oke = [each for _, each in fleet.clusters_by_name() if isinstance(each, OkePools)]
        homes = {each.home_region or each.region for each in oke}
        self._oci = sorted({*homes, *(each.region for each in oke), *(shape[1] for each in oke for shape in each.shapes())})

    def __call__(self) -> list[Left]:
        """Everything that exists, each once. Raises StepError if a cloud cannot be asked."""
        try:
            return list(dict.fromkeys((*self._aws(), *self._log_groups(), *self._oracle())))
        except ImportError as error:
            raise StepError(f"{error.name} is not installed; make acceptance installs it") from None

    def delete_log_groups(self) -> None:
        """Delete the log groups of the control planes: AWS keeps them when it deletes an EKS cluster."""
        for cluster, region in self._eks.items():
            for name in self._groups_of(cluster, region):
                self._client("logs", region).delete_log_group(logGroupName=name)

    def _client(self, service: str, region: str) -> Any:
        import boto3  # noqa: PLC0415 - an optional extra

        return (self._session or boto3).client(service, region_name=region)

    def _groups_of(self, cluster: str, region: str) -> list[str]:
        pages = (
            self._client("logs", region).get_paginator("describe_log_groups").paginate(logGroupNamePrefix=f"/aws/eks/{cluster}/")
        )
        return [each["logGroupName"] for page in pages for each in page["logGroups"]]

    def _log_groups(self) -> Iterator[Left]:
        """AWS creates them without tags."""
        for cluster, region in self._eks.items():
            for name in self._groups_of(cluster, region):
                command = _AWS["logs", "log-group"].format(region=region, id=name)
                yield Left(f"{region}: log group {name}", command)

    def _aws(self) -> Iterator[Left]:
        for region in self._regions:
            filters: list[dict[str, Any]] = [{"Key": STACK_TAG, "Values": [self._stack]}]
            for cluster in (name for name, place in self._eks.items() if place == region):
                filters += [
                    {"Key": f"kubernetes.io/cluster/{cluster}"},
                    {"Key": "cluster.k8s.amazonaws.com/name", "Values": [cluster]},
                ]
            pages = self._client("resourcegroupstaggingapi", region).get_paginator("get_resources")
            arns = [
                each["ResourceARN"]
                for wanted in filters
                for page in pages.paginate(TagFilters=[wanted])
                for each in page["ResourceTagMappingList"]
            ]
            for arn in dict.fromkeys(arns):
                service, place, kind, called = _parts(arn)
                if not (service == "ec2" and self._gone(place or region, kind, called)):
                    command = _AWS.get((service, kind), _NO_COMMAND).format(region=place or region, id=called, arn=arn)
                    yield Left(f"{place or region}: {arn}", command)

    def _gone(self, region: str, kind: str, called: str) -> bool:
        """Whether AWS lists a deleted instance or NAT gateway, as it does for about an hour."""
        client = self._client("ec2", region)
        if kind == "instance":
            found = client.describe_instances(Filters=[{"Name": "instance-id", "Values": [called]}])["Reservations"]
            return all(each["State"]["Name"] in _GONE for reservation in found for each in reservation["Instances"])
        if kind == "natgateway":
            found = client.describe_nat_gateways(Filters=[{"Name": "nat-gateway-id", "Values": [called]}])["NatGateways"]
            return all(each["State"] in _GONE for each in found)
        return False

    def _oracle(self) -> Iterator[Left]:
        if not self._oci:
            return
        import oci  # noqa: PLC0415 - an optional extra

        query = f"query all resources where (freeformTags.key = '{STACK_TAG}' && freeformTags.value = '{self._stack}')"
        details = oci.resource_search.models.StructuredSearchDetails(query=query)
        for region in self._oci:
            client = self._search(region)
            for each in oci.pagination.list_call_get_all_results(client.search_resources, details).data:
                if (each.lifecycle_state or "").lower() not in _GONE:
                    command = _OCI.get(each.resource_type, _NO_COMMAND).format(region=region, id=each.identifier)
                    yield Left(f"{region}: {each.resource_type} {each.display_name or ''} {each.identifier}", command)


def _search(region: str) -> Any:
    import oci  # noqa: PLC0415 - an optional extra

    return oci.resource_search.ResourceSearchClient({**oci.config.from_file(), "region": region})


def _parts(arn: str) -> tuple[str, str, str, str]:
    """(service, region, kind, id) of an ARN: `…:volume/vol-1`, `…:log-group:/aws/x`, `…:loadbalancer/net/a/1` or `…:bucket`."""
    _, _, service, region, _, rest = arn.split(":", 5)
    kind, _, called = rest.replace(":", "/", 1).partition("/") if ":" in rest.partition("/")[0] else rest.partition("/")
    return service, region, kind, called
