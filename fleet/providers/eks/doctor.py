"""AWS: credentials, quotas, instance types, add-ons and node images on offer."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fleet.facts.eks_images import build_of, minor_of, parameter, parameters
from fleet.facts.support import EKS_SUPPORT
from fleet.providers.eks import sources
from fleet.providers.eks.bill import increase, vcpus_needed
from fleet.providers.eks.cluster import EksCluster, EksPools
from fleet.providers.finding import FRESHNESS, Finding, SourceError, fault, guarded, offer, ok, skipped, wrong

AREA = "aws"
_LATER = "quotas, instance types, add-ons and node images"
Clusters = Mapping[str, EksPools]


def findings(clusters: Clusters, session: Any = None) -> Iterator[Finding]:
    """The findings for EKS clusters. `session` is a boto3 session; the default has the usual credentials."""
    try:
        import boto3  # noqa: PLC0415 - an optional extra
        from botocore import exceptions as errors  # noqa: PLC0415
    except ImportError:
        yield skipped(AREA, f"boto3 is not installed, so credentials, {_LATER} are not checked; make doctor installs it")
        return
    try:
        session = session or boto3.Session()
        who = sources.client(session, "sts", next(iter(clusters.values())).region).get_caller_identity()
    except (errors.ConnectionError, errors.HTTPClientError) as error:
        yield skipped(AREA, f"AWS cannot be reached, so credentials, {_LATER} are not checked: {error}")
        return
    except (errors.BotoCoreError, errors.ClientError) as error:
        yield wrong(AREA, f"credentials: {error}", "aws configure sso, then export AWS_PROFILE=<the profile>")
        yield skipped(AREA, f"{_LATER}: there are no credentials")
        return
    yield from guarded(_account(clusters, who), AREA, "credentials", ())
    for region in dict.fromkeys(cluster.region for cluster in clusters.values()):
        here = {name: cluster for name, cluster in clusters.items() if cluster.region == region}
        for title, service, check in (
            ("quotas", "service-quotas", _quotas),
            ("instance types", "ec2", _offered),
            ("add-ons", "eks", _addons),
            ("node images", "ssm", _images),
            ("your own images", "ec2", _own_images),
        ):
            checks = check(sources.client(session, service, region), region, here)
            yield from guarded(checks, AREA, f"{region}: {title}", (errors.ClientError, errors.BotoCoreError))


def _account(clusters: Clusters, who: Mapping[str, str]) -> Iterator[Finding]:
    account, principal = who["Account"], who["Arn"]
    accounts = {name: cluster.account for name, cluster in clusters.items() if cluster.account not in (None, account)}
    for name, owner in accounts.items():
        yield fault(AREA, "aws_account", name=name, owner=owner, principal=principal)
    if not accounts:
        yield ok(AREA, f"credentials: {principal}")


def _quotas(client: Any, region: str, clusters: Clusters) -> Iterator[Finding]:
    declaring = next(iter(clusters.values()))
    for code, vcpus in vcpus_needed(declaring, clusters.values()).items():
        quota = client.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
        fact = f"{region}: quota {code} ({quota['QuotaName']}): full pools need {vcpus} vCPUs, the account has {quota['Value']:g}"
        yield ok(AREA, fact) if quota["Value"] >= vcpus else wrong(AREA, fact, increase(region, code, vcpus))


def _offered(client: Any, region: str, clusters: Clusters) -> Iterator[Finding]:
    """A node group in a zone needs one of its types there."""
    groups: list[tuple[str, Sequence[str], Sequence[str]]] = []
    for name, cluster in clusters.items():
        if isinstance(cluster, EksCluster):
            groups.append((f"{name}: system pool", cluster.fixed_zones, cluster.system.instance_types))
        pools = cluster.pools.items()
        groups += [(f"{name}: pool {title}", cluster.zones_with_nodes(pool), pool.instance_types) for title, pool in pools]
    all_types = sorted({each for _, _, types in groups for each in types})
    pages = client.get_paginator("describe_instance_type_offerings").paginate(
        LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": all_types}]
    )
    offers = {(each["InstanceType"], each["Location"]) for page in pages for each in page["InstanceTypeOfferings"]}
    for what, zones, types in groups:
        bare = [zone for zone in zones if not any((each, zone) in offers for each in types)]
        choices = " or ".join(types)
        show = f"--region {region} --location-type availability-zone --filters Name=instance-type,Values={','.join(types)}"
        fix = f"aws ec2 describe-instance-type-offerings {show}, then write zones that have it"
        yield offer(AREA, what, zones, bare, choices, fix)


def _addons(client: Any, region: str, clusters: Clusters) -> Iterator[Finding]:
    for name, cluster in clusters.items():
        if not isinstance(cluster, EksCluster):
            continue
        minor, missing = cluster.kubernetes_version, False
        for addon, version in cluster.addon_versions.items():
            pages = client.get_paginator("describe_addon_versions").paginate(kubernetesVersion=minor, addonName=addon)
            offers = [release["addonVersion"] for page in pages for entry in page["addons"] for release in entry["addonVersions"]]
            if version not in offers:
                missing = True
                yield fault(AREA, "no_addon", name=name, addon=addon, version=version, minor=minor, region=region)
        if not missing:
            yield ok(AREA, f"{name}: EKS offers all {len(cluster.addon_versions)} add-ons for Kubernetes {minor}")


def _images(client: Any, region: str, clusters: Clusters) -> Iterator[Finding]:
    """The releases of AWS' images. The program gives Bottlerocket's nodes no release of which the parameter is known."""
    for name, cluster in clusters.items():
        release = cluster.kubernetes.ami_release
        pools = [pool for pool_name, pool in cluster.gpu_pools.items() if cluster.image_id(pool_name) is None]
        variants = ["standard"] * (isinstance(cluster, EksCluster) or len(cluster.gpu_pools) < len(cluster.pools))
        variants += ["nvidia"] * any(each.image == "al2023-nvidia" for each in pools)
        for variant in variants:
            fact = f"{name}: node image AL2023 {variant} {release}"
            try:
                client.get_parameter(Name=parameter(release, variant))
            except client.exceptions.ParameterNotFound:
                path = parameters(minor_of(release), variant)
                yield fault(AREA, "no_node_image", fact=fact, region=region, path=path)
            else:
                yield ok(AREA, f"{fact} is on offer")
        if any(each.image != "al2023-nvidia" for each in pools):
            yield skipped(AREA, f"{name}: no source names the parameter of a release of Bottlerocket")


def _own_images(client: Any, region: str, clusters: Clusters) -> Iterator[Finding]:
    used = {(name, image) for name, cluster in clusters.items() for pool in cluster.pools if (image := cluster.image_id(pool))}
    for name, image in sorted(used):
        # A filter, because an unknown id would be an error.
        exists = client.describe_images(Filters=[{"Name": "image-id", "Values": [image]}])["Images"]
        missing = fault(AREA, "no_own_image", name=name, region=region, image=image)
        yield ok(AREA, f"{name}: image {image} exists in {region}") if exists else missing


def freshness(clusters: Clusters, session: Callable[[], Any] | None = None) -> Iterator[Finding]:
    """Whether the support and the node images that clusters pin are those that AWS has now.

    `session` gives a boto3 session, or raises SourceError.
    """
    try:
        yield from list(_fresh(clusters, (session or sources.session)()))
    except SourceError as error:
        yield skipped(FRESHNESS, f"EKS: {error}")


def _fresh(clusters: Clusters, session: Any) -> Iterator[Finding]:
    first = next(iter(clusters.values()))
    minors = {entry.minor: entry for entry in sources.minors(sources.client(session, "eks", first.region))}
    for name, cluster in clusters.items():
        minor, release = cluster.kubernetes.minor, cluster.kubernetes.ami_release
        real, row = minors.get(minor), EKS_SUPPORT.get(minor)
        if real is None:
            yield fault(FRESHNESS, "no_minor", name=name, minor=minor, minors=", ".join(minors))
        elif row is None or (row.standard_until, row.extended_until) != (real.standard_until, real.extended_until):
            yield fault(FRESHNESS, "other_support", name=name, minor=minor, real=real)
        else:
            yield ok(FRESHNESS, f"{name}: AWS ends standard support of {minor} on {real.standard_until}, as the table has it")
        newest = sources.recommended(sources.client(session, "ssm", cluster.region), minor)
        state = f"is pinned, and AWS recommends {newest}" if build_of(newest) > build_of(release) else "is the newest"
        yield ok(FRESHNESS, f"{name}: node image {release} {state}")
