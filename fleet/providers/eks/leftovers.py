"""Resources on AWS that a destroyed stack left: those with its tag, or with a tag that Kubernetes gives to its own.

Not seen: resources without these tags. Sources: API reference of Resource Groups Tagging; aws/amazon-vpc-cni-k8s
(`cluster.k8s.amazonaws.com/name` on network interfaces); kubernetes/cloud-provider-aws (`kubernetes.io/cluster/<name>` on load
balancers, volumes and security groups).

A resource of which only the inputs are known is found by the calls in `imports.toml`, which only read.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from fleet.facts.nested import at
from fleet.facts.tables import beside
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.eks.sources import client
from fleet.providers.finding import SourceError
from fleet.providers.provider import GONE, Left, Leftovers, Search, left
from fleet.providers.tags import STACK_TAG
from fleet.settings.cluster import physical_name

IMPORTS: dict[str, dict[str, Any]] = beside(__file__, "imports.toml")
"""The table, by Pulumi's type."""
_SERVICES = {"s3api": "s3"}
"""Services by another name in the AWS CLI than in the API."""
_MISSING = re.compile(r"NotFound|NoSuch")
"""Codes of errors that say that nothing exists."""
Client = Callable[[str, str], Any]
"""The client of a service in a region."""


def search(kind: str, inputs: Mapping[str, Any], region: str, stack: str, account: str, client: Client) -> Search | None:
    """How to find what these inputs created; None if the table has no way or an input is unknown."""
    row = IMPORTS.get(kind, {})
    if row.get("again"):
        return Search("", again=True)
    fields = {"stack": stack, "account": account or "ACCOUNT"}
    try:
        words = [_filled(word, inputs, fields) for word in shlex.split(row["look"])]
        identity = _filled(row["id"], inputs, {**fields, "found": "{found}"})
    except KeyError:
        return None
    return Search(shlex.join(["aws", *words, "--region", region]), partial(_ids, words, identity, region, client))


def _filled(text: str, inputs: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    """The text with its fields. Raises KeyError for another input than a text: a secret is an object in a state."""

    def value(match: re.Match[str]) -> str:
        found = fields.get(match[1], at(inputs, *match[1].split(".")))
        if not isinstance(found, str):
            raise KeyError(match[1])
        return found

    return re.sub(r"\{([\w.]+)\}", value, text)


def _ids(words: Sequence[str], identity: str, region: str, client: Client) -> list[str]:
    """The ids by which Pulumi imports what the call finds."""
    import jmespath  # noqa: PLC0415 - of the optional extra boto3
    from botocore.exceptions import ClientError  # noqa: PLC0415

    service, operation, *rest = words
    query = rest[rest.index("--query") + 1]
    try:
        found = [jmespath.search(query, one) for one in _pages(client(_SERVICES.get(service, service), region), operation, rest)]
    except ClientError as error:
        if _MISSING.search(error.response["Error"]["Code"]):
            return []
        raise
    values = [value for page in found if page for value in ([page] if isinstance(page, str) else page)]
    return [identity.replace("{found}", value) for value in dict.fromkeys(values)]


def _pages(client: Any, operation: str, rest: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    from botocore import xform_name  # noqa: PLC0415

    method = operation.replace("-", "_")
    shape = client.meta.service_model.operation_model(client.meta.method_to_api_mapping[method]).input_shape
    members = {f"--{xform_name(name, '-')}": (name, member.type_name) for name, member in shape.members.items()}
    request: dict[str, Any] = {}
    for word in rest[: rest.index("--query")]:
        if word in members:
            name, form = members[word]
        elif form == "list":
            request.setdefault(name, []).append(_filter(word))
        else:
            request[name] = word
    if client.can_paginate(method):
        yield from client.get_paginator(method).paginate(**request)
    else:
        yield getattr(client, method)(**request)


def _filter(word: str) -> str | dict[str, Any]:
    """A filter of EC2, or a name."""
    match = re.fullmatch(r"Name=([^,]*),Values=(.*)", word)
    return {"Name": match[1], "Values": [match[2]]} if match else word


_TABLES = beside(__file__, "leftovers.toml")
DELETE = _TABLES["delete"]
"""The command by service and kind of an ARN."""
_OF_NODES = _TABLES["of-nodes"]
"""What node groups, image pipelines and Kubernetes create, and no resource of the program does."""
_OF_EKS = ("aws:eks:", "eks:", "kubernetes.io/cluster/", "cluster.k8s.amazonaws.com/", "aws:autoscaling:")
"""Starts of the tags of what EKS, its node groups and Kubernetes create. Sources: EKS user guide, and those above."""


class AwsLeftovers(Leftovers):
    """What a stack has on AWS."""

    cloud, package = "AWS", "aws"

    def __init__(self, project: str, stack: str, clusters: Mapping[str, EksPools]) -> None:
        self._stack, self._account = stack, ""
        created = {name: cluster for name, cluster in clusters.items() if isinstance(cluster, EksCluster)}
        self._regions_of = {physical_name(project, stack, name): each.region for name, each in created.items()}
        copies = {region for each in clusters.values() for ami in each.amis.values() for region in ami.regions}
        # Global services answer in us-east-1.
        self._regions = sorted({each.region for each in clusters.values()} | copies | {"us-east-1"})

    def delete_late(self) -> None:
        """The log groups of the control planes: the last lines of a deleted EKS cluster can create its group again."""
        for region, name in self._log_groups():
            _client("logs", region).delete_log_group(logGroupName=name)

    def _log_groups(self) -> Iterator[tuple[str, str]]:
        """(region, name). Those that AWS creates have no tags."""
        for cluster, region in self._regions_of.items():
            pages = _client("logs", region).get_paginator("describe_log_groups")
            for page in pages.paginate(logGroupNamePrefix=f"/aws/eks/{cluster}/"):
                yield from ((region, group["logGroupName"]) for group in page["logGroups"])

    def __iter__(self) -> Iterator[Left]:
        """As in the base class."""
        logs = dict.fromkeys(self._log_groups())
        yield from (left(DELETE, region, "logs log-group", name) for region, name in logs)
        for region in self._regions:
            filters: list[dict[str, Any]] = [{"Key": STACK_TAG, "Values": [self._stack]}]
            for cluster in (name for name, place in self._regions_of.items() if place == region):
                filters.append({"Key": f"kubernetes.io/cluster/{cluster}"})
                filters.append({"Key": "cluster.k8s.amazonaws.com/name", "Values": [cluster]})
            pages = _client("resourcegroupstaggingapi", region).get_paginator("get_resources")
            found = (page for tags in filters for page in pages.paginate(TagFilters=[tags]))
            mappings = (mapping for page in found for mapping in page["ResourceTagMappingList"])
            for arn, tags in {each["ResourceARN"]: each["Tags"] for each in mappings}.items():
                service, place, kind, identity = _parts(arn)
                what = f"{service} {kind}"
                if (place, identity) not in logs and not _gone(place or region, what, identity):
                    own = what not in _OF_NODES and not any(tag["Key"].startswith(_OF_EKS) for tag in tags)
                    yield left(DELETE, place or region, what, identity, arn, own=own)

    def errors(self) -> tuple[type[Exception], ...]:
        """As in the base class."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an optional extra

        return (BotoCoreError, ClientError)

    def require_account(self, names: Collection[str]) -> None:
        """As in the base class."""
        self._account = _client("sts", self._regions[0]).get_caller_identity()["Account"]
        owners = {parts[4] for name in names if name.startswith("arn:") and (parts := name.split(":", 5))[4].isdecimal()}
        if owners and self._account not in owners:
            raise SourceError(f"the credentials are of account {self._account}, the stack's resources of {', '.join(owners)}")

    def search(self, kind: str, inputs: Mapping[str, Any], region: str) -> Search | None:
        """As in the base class."""
        return search(kind, inputs, region or self._regions[0], self._stack, self._account, _client)


def _client(service: str, region: str) -> Any:
    import boto3  # noqa: PLC0415 - an optional extra

    return client(boto3, service, region)


def _gone(region: str, kind: str, identity: str) -> bool:
    """Whether it is a deleted instance or NAT gateway, which AWS lists for about an hour."""
    if kind == "ec2 instance":
        filters = [{"Name": "instance-id", "Values": [identity]}]
        reservations = _client("ec2", region).describe_instances(Filters=filters)["Reservations"]
        return all(resource["State"]["Name"] in GONE for reservation in reservations for resource in reservation["Instances"])
    if kind == "ec2 natgateway":
        filters = [{"Name": "nat-gateway-id", "Values": [identity]}]
        return all(each["State"] in GONE for each in _client("ec2", region).describe_nat_gateways(Filters=filters)["NatGateways"])
    return False


def _parts(arn: str) -> tuple[str, str, str, str]:
    """(service, region, kind, id) of an ARN: `…:volume/vol-1`, `…:log-group:/aws/x`, `…:loadbalancer/net/a/1` or `…:bucket`."""
    _, _, service, region, _, resource = arn.split(":", 5)
    kind, _, identity = (resource.replace(":", "/", 1) if ":" in resource.partition("/")[0] else resource).partition("/")
    return service, region, kind, identity
