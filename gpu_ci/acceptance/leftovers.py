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
        self._eks = {
            f"{project}-{stack}-{name}": settings.region
            for name, settings in clusters.items()
            if isinstance(settings, EksCluster)
        }
        eks = [settings for settings in clusters.values() if isinstance(settings, EksPools)]
        aws = {settings.region for settings in eks} | {
            region for settings in eks for ami in settings.amis.values() for region in ami.regions
        }
        # Global services answer in us-east-1.
        self._aws_regions = sorted(aws | {"us-east-1"}) if aws else []
        oke = [settings for settings in clusters.values() if isinstance(settings, OkePools)]
        homes = {settings.home_region or settings.region for settings in oke}
        self._oci_regions = sorted(
            homes | {settings.region for settings in oke} | {shape[1] for settings in oke for shape in settings.shapes()}
        )

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
                yield from ((region, group["logGroupName"]) for group in page["logGroups"])

    def _aws(self) -> Iterator[Left]:
        logs = dict.fromkeys(self._log_groups())
        yield from (_left(region, "logs log-group", name) for region, name in logs)
        for region in self._aws_regions:
            filters: list[dict[str, Any]] = [{"Key": STACK_TAG, "Values": [self._stack]}]
            for cluster in (name for name, place in self._eks.items() if place == region):
                filters.append({"Key": f"kubernetes.io/cluster/{cluster}"})
                filters.append({"Key": "cluster.k8s.amazonaws.com/name", "Values": [cluster]})
            pages = _client("resourcegroupstaggingapi", region).get_paginator("get_resources")
            resources = (
                resource
                for tag in filters
                for page in pages.paginate(TagFilters=[tag])
                for resource in page["ResourceTagMappingList"]
            )
            for arn in dict.fromkeys(resource["ResourceARN"] for resource in resources):
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
            for resource in oci.pagination.list_call_get_all_results(self._search(region).search_resources, details).data:
                if (resource.lifecycle_state or "").lower() not in _GONE:
                    yield _left(region, resource.resource_type, resource.identifier)


def _client(service: str, region: str) -> Any:
    import boto3  # noqa: PLC0415 - an optional extra

    return boto3.client(service, region_name=region)


def _search(region: str) -> Any:
    import oci  # noqa: PLC0415 - an optional extra

    return oci.resource_search.ResourceSearchClient({**oci.config.from_file(), "region": region})


def _gone(region: str, kind: str, identity: str) -> bool:
    """Whether it is a deleted instance or NAT gateway, which AWS lists for about an hour."""
    if kind == "ec2 instance":
        filters = [{"Name": "instance-id", "Values": [identity]}]
        reservations = _client("ec2", region).describe_instances(Filters=filters)["Reservations"]
        return all(instance["State"]["Name"] in _GONE for reservation in reservations for instance in reservation["Instances"])
    if kind == "ec2 natgateway":
        filters = [{"Name": "nat-gateway-id", "Values": [identity]}]
        return all(
            gateway["State"] in _GONE for gateway in _client("ec2", region).describe_nat_gateways(Filters=filters)["NatGateways"]
        )
    return False


def _parts(arn: str) -> tuple[str, str, str, str]:
    """(service, region, kind, id) of an ARN: `…:volume/vol-1`, `…:log-group:/aws/x`, `…:loadbalancer/net/a/1` or `…:bucket`."""
    _, _, service, region, _, resource = arn.split(":", 5)
    kind, _, identity = (
        resource.replace(":", "/", 1).partition("/") if ":" in resource.partition("/")[0] else resource.partition("/")
    )
    return service, region, kind, identity
