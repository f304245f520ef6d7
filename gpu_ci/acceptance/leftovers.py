"""Resources that a destroyed stack left in its clouds: those with its tag, or with a tag that Kubernetes gives to its own.

Not seen: resources without these tags. Sources: API references of Resource Groups Tagging and of OCI Search;
aws/amazon-vpc-cni-k8s (`cluster.k8s.amazonaws.com/name` on network interfaces); kubernetes/cloud-provider-aws
(`kubernetes.io/cluster/<name>` on load balancers, volumes and security groups).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.fleet import Fleet
from fleet.providers.oke.cluster import OkePools
from fleet.providers.tags import STACK_TAG
from gpu_ci.acceptance.shell import StepError

_GONE = ("terminated", "deleted")
"""States in which a cloud still lists what it has deleted."""
_SAME = ("internet-gateway", "launch-template", "network-interface", "route-table", "snapshot", "subnet", "volume", "vpc")
DELETE = {
    **{f"ec2 {kind}": f"aws ec2 delete-{kind} --{kind}-id {{id}}" for kind in _SAME},
    "ec2 elastic-ip": "aws ec2 release-address --allocation-id {id}",
    "ec2 instance": "aws ec2 terminate-instances --instance-ids {id}",
    "ec2 natgateway": "aws ec2 delete-nat-gateway --nat-gateway-id {id}",
    "ec2 security-group": "aws ec2 delete-security-group --group-id {id}",
    "eks cluster": "aws eks delete-cluster --name {id}",
    "elasticfilesystem file-system": "aws efs delete-file-system --file-system-id {id}",
    "elasticloadbalancing loadbalancer": "aws elbv2 delete-load-balancer --load-balancer-arn {arn}",
    "logs log-group": "aws logs delete-log-group --log-group-name {id}",
    "BootVolume": "oci bv boot-volume delete --boot-volume-id {id}",
    "Instance": "oci compute instance terminate --instance-id {id}",
    "LoadBalancer": "oci lb load-balancer delete --load-balancer-id {id}",
    "Vcn": "oci network vcn delete --vcn-id {id}",
    "Volume": "oci bv volume delete --volume-id {id}",
}
"""The command by service and kind of an ARN, and by OCI's resource type. OCI's commands are those of oci-cli 3.95.1."""


@dataclass(frozen=True, slots=True)
class Left:
    """A thing that exists, and the command that deletes it."""

    what: str
    delete: str

    def __str__(self) -> str:
        return f"{self.what}\n    {self.delete}"


def _left(region: str, kind: str, identity: str, arn: str = "") -> Left:
    command = DELETE.get(kind, "").format(id=identity, arn=arn)
    fix = f"{command} --region {region}" if command else "no command is known here; look for it in the cloud's console"
    return Left(f"{region}: {kind} {arn or identity}", fix)


class Scan:
    """Lists what the stack has in its clouds. `search` gives OCI's search client of a region."""

    def __init__(self, project: str, stack: str, fleet: Fleet, search: Callable[[str], Any] | None = None) -> None:
        self._stack = stack
        self._search = search or _search
        clusters = dict(fleet.clusters_by_name())
        self._eks = {f"{project}-{stack}-{name}": each.region for name, each in clusters.items() if isinstance(each, EksCluster)}
        eks = [each for each in clusters.values() if isinstance(each, EksPools)]
        aws = {each.region for each in eks} | {region for each in eks for ami in each.amis.values() for region in ami.regions}
        # Global services answer in us-east-1.
        self._aws_regions = sorted(aws | {"us-east-1"}) if aws else []
        oke = [each for each in clusters.values() if isinstance(each, OkePools)]
        homes = {each.home_region or each.region for each in oke}
        self._oci_regions = sorted(homes | {each.region for each in oke} | {shape[1] for each in oke for shape in each.shapes()})

    def __call__(self) -> list[Left]:
        """Everything that exists, each once. Raises StepError if a cloud's SDK is missing."""
        try:
            return list(dict.fromkeys((*self._aws(), *self._oci())))
        except ImportError as error:
            raise StepError(f"{error.name} is not installed; make acceptance installs it") from None

    def delete_log_groups(self) -> None:
        """Delete the log groups of the control planes: the last lines of a deleted EKS cluster can create its group again."""
        for region, name in self._log_groups():
            _client("logs", region).delete_log_group(logGroupName=name)

    def _log_groups(self) -> Iterator[tuple[str, str]]:
        """(region, name). Those that AWS creates have no tags."""
        for cluster, region in self._eks.items():
            pages = _client("logs", region).get_paginator("describe_log_groups")
            for page in pages.paginate(logGroupNamePrefix=f"/aws/eks/{cluster}/"):
                yield from ((region, each["logGroupName"]) for each in page["logGroups"])

    def _aws(self) -> Iterator[Left]:
        logs = dict.fromkeys(self._log_groups())
        yield from (_left(region, "logs log-group", name) for region, name in logs)
        for region in self._aws_regions:
            filters: list[dict[str, Any]] = [{"Key": STACK_TAG, "Values": [self._stack]}]
            for cluster in (name for name, place in self._eks.items() if place == region):
                filters.append({"Key": f"kubernetes.io/cluster/{cluster}"})
                filters.append({"Key": "cluster.k8s.amazonaws.com/name", "Values": [cluster]})
            pages = _client("resourcegroupstaggingapi", region).get_paginator("get_resources")
            found = (
                each
                for wanted in filters
                for page in pages.paginate(TagFilters=[wanted])
                for each in page["ResourceTagMappingList"]
            )
            for arn in dict.fromkeys(each["ResourceARN"] for each in found):
                service, place, kind, identity = _parts(arn)
                if (place, identity) not in logs and not _gone(place or region, f"{service} {kind}", identity):
                    yield _left(place or region, f"{service} {kind}", identity, arn)

    def _oci(self) -> Iterator[Left]:
        if not self._oci_regions:
            return
        import oci  # noqa: PLC0415 - an optional extra

        query = f"query all resources where (freeformTags.key = '{STACK_TAG}' && freeformTags.value = '{self._stack}')"
        details = oci.resource_search.models.StructuredSearchDetails(query=query)
        for region in self._oci_regions:
            for each in oci.pagination.list_call_get_all_results(self._search(region).search_resources, details).data:
                if (each.lifecycle_state or "").lower() not in _GONE:
                    yield _left(region, each.resource_type, each.identifier)


def _client(service: str, region: str) -> Any:
    import boto3  # noqa: PLC0415 - an optional extra

    return boto3.client(service, region_name=region)


def _search(region: str) -> Any:
    import oci  # noqa: PLC0415 - an optional extra

    return oci.resource_search.ResourceSearchClient({**oci.config.from_file(), "region": region})


def _gone(region: str, kind: str, identity: str) -> bool:
    """Whether it is a deleted instance or NAT gateway, which AWS lists for about an hour."""
    if kind == "ec2 instance":
        wanted = [{"Name": "instance-id", "Values": [identity]}]
        found = _client("ec2", region).describe_instances(Filters=wanted)["Reservations"]
        return all(each["State"]["Name"] in _GONE for reservation in found for each in reservation["Instances"])
    if kind == "ec2 natgateway":
        wanted = [{"Name": "nat-gateway-id", "Values": [identity]}]
        return all(each["State"] in _GONE for each in _client("ec2", region).describe_nat_gateways(Filters=wanted)["NatGateways"])
    return False


def _parts(arn: str) -> tuple[str, str, str, str]:
    """(service, region, kind, id) of an ARN: `…:volume/vol-1`, `…:log-group:/aws/x`, `…:loadbalancer/net/a/1` or `…:bucket`."""
    _, _, service, region, _, rest = arn.split(":", 5)
    kind, _, identity = rest.replace(":", "/", 1).partition("/") if ":" in rest.partition("/")[0] else rest.partition("/")
    return service, region, kind, identity
