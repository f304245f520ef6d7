"""OCI: credentials, availability domains, limits, shapes, Kubernetes version, add-ons and images on offer."""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from fleet.providers.finding import Finding, fault, guarded, offer, ok, skipped, wrong
from fleet.providers.oke.bill import own_needs
from fleet.providers.oke.cluster import OkeCluster, OkePools
from fleet.providers.oke.nodes import FLEX_SHAPE

AREA = "oci"
_LATER = "availability domains, limits, shapes, add-ons and images"
Clusters = Mapping[str, OkePools]


class _Api:
    """Clients of the SDK by service and region, for one tenancy."""

    def __init__(self, config: dict[str, Any], endpoint: str) -> None:
        import oci  # noqa: PLC0415 - an optional extra

        kinds = {"identity": oci.identity.IdentityClient, "limits": oci.limits.LimitsClient, "compute": oci.core.ComputeClient}
        kinds |= {"engine": oci.container_engine.ContainerEngineClient}
        quick = {"timeout": (5, 30), "retry_strategy": oci.retry.NoneRetryStrategy()}
        quick |= {"service_endpoint": endpoint} if endpoint else {}
        self.tenancy = config["tenancy"]
        # A new client checks the key and connects again.
        self.client = cache(lambda service, region: kinds[service]({**config, "region": region}, **quick))


def findings(clusters: Clusters, endpoint: str = "") -> Iterator[Finding]:
    """The findings for OKE clusters, by profile DEFAULT of OCI's config file. `endpoint` replaces all services."""
    try:
        import oci  # noqa: PLC0415 - an optional extra
    except ImportError:
        yield skipped(AREA, f"oci is not installed, so credentials, {_LATER} are not checked; make doctor installs it")
        return
    errors = oci.exceptions
    try:
        config = oci.config.from_file()
        oci.config.validate_config(config)
        api = _Api(config, endpoint)
        regions = api.client("identity", config["region"]).list_region_subscriptions(api.tenancy).data
    except errors.RequestException as error:
        yield skipped(AREA, f"OCI cannot be reached, so credentials, {_LATER} are not checked: {error}")
        return
    except (errors.ClientError, errors.ServiceError, ValueError, OSError) as error:
        yield wrong(AREA, f"credentials: {_reason(error)}", "oci setup config")
        yield skipped(AREA, f"{_LATER}: there are no credentials")
        return
    yield from guarded(_tenancy(clusters, config, regions), AREA, "credentials", ())
    for title, checks in (
        ("availability domains", _domains(api, clusters)),
        ("limits", _limits(api, clusters)),
        ("shapes", _shapes(api, clusters)),
        ("Kubernetes versions and add-ons", _engine(api, clusters)),
        ("images", _images(api, clusters)),
    ):
        yield from guarded(checks, AREA, title, (errors.ServiceError, errors.RequestException), _reason)


def _tenancy(clusters: Clusters, config: Mapping[str, Any], regions: Any) -> Iterator[Finding]:
    yield ok(AREA, f"credentials: {config['user']} of {config['tenancy']}")
    for name, cluster in clusters.items():
        if cluster.tenancy not in (None, config["tenancy"]):
            yield fault(AREA, "tenancy", name=name, cluster=cluster, tenancy=config["tenancy"])
    for region in _places(clusters):
        subscribed = any(subscription.region_name == region for subscription in regions)
        missing = fault(AREA, "no_subscription", region=region, tenancy=config["tenancy"])
        yield ok(AREA, f"the tenancy subscribes to {region}") if subscribed else missing
    home = next((each.region_name for each in regions if each.is_home_region), "")
    for name, cluster in clusters.items():
        if home != (cluster.home_region or cluster.region):
            yield fault(AREA, "home_region", name=name, home=home)


def _places(clusters: Clusters) -> dict[str, list[str]]:
    """The availability domains of the fleet's machines by region, each once."""
    places: dict[str, list[str]] = {}
    for cluster in clusters.values():
        for region, domains in ((cluster.region, cluster.zones), *((group[1], group[2]) for group in cluster.shapes())):
            domains_here = places.setdefault(region, [])
            domains_here += [domain for domain in domains if domain not in domains_here]
    return places


def _domains(api: _Api, clusters: Clusters) -> Iterator[Finding]:
    for region, domains in _places(clusters).items():
        offered = [domain.name for domain in api.client("identity", region).list_availability_domains(api.tenancy).data]
        if unknown := [each for each in domains if each not in offered]:
            yield fault(AREA, "no_domain", region=region, unknown=", ".join(unknown), offered=", ".join(offered))
        else:
            yield ok(AREA, f"{region} has {', '.join(domains)}")


def _limits(api: _Api, clusters: Clusters) -> Iterator[Finding]:
    """The limits of the tenancy. Each is per availability domain, and any domain may get the machines."""
    places, needed = _places(clusters), Counter[tuple[str, str]]()
    for need in (own_need for cluster in clusters.values() for own_need in own_needs(cluster)):
        if need.code is None:
            yield skipped(AREA, f"{need.region}: no source names the limit of {need.machine}")
        else:
            needed[need.region, need.code] += need.units
    for (region, code), gpus in needed.items():
        availabilities = [
            api.client("limits", region).get_resource_availability("compute", code, api.tenancy, availability_domain=domain).data
            for domain in places[region]
        ]
        if all(availability.available is None for availability in availabilities):
            yield skipped(AREA, f"{region}: limit {code}: OCI does not say how many GPUs are available")
            continue
        limit = sum((each.available or 0) + (each.used or 0) for each in availabilities)
        fact = f"{region}: limit {code}: full pools and machine sets need {gpus} GPUs, the tenancy has {limit}"
        yield ok(AREA, fact) if limit >= gpus else fault(AREA, "small_limit", fact=fact, code=code, region=region)


def _shapes(api: _Api, clusters: Clusters) -> Iterator[Finding]:
    import oci  # noqa: PLC0415 - an optional extra

    offers: dict[str, set[str]] = {}
    for region, domain in ((region, domain) for region, domains in _places(clusters).items() for domain in domains):
        call, every = api.client("compute", region).list_shapes, oci.pagination.list_call_get_all_results
        offers[domain] = {shape.shape for shape in every(call, api.tenancy, availability_domain=domain).data}
    for name, cluster in clusters.items():
        system = (("system pool", cluster.region, cluster.zones, (FLEX_SHAPE,)),) if isinstance(cluster, OkeCluster) else ()
        for title, region, domains, shapes in (*system, *cluster.shapes()):
            bare = [domain for domain in domains if offers[domain].isdisjoint(shapes)]
            show = f"oci compute shape list --region {region} --compartment-id {api.tenancy} --query 'data[].shape'"
            fix = f"{show} --availability-domain <domain>, then write domains that have it"
            yield offer(AREA, f"{name}: {title}", domains, bare, " or ".join(shapes), fix)


def _engine(api: _Api, clusters: Clusters) -> Iterator[Finding]:
    import oci  # noqa: PLC0415 - an optional extra

    for name, cluster in clusters.items():
        client, version = api.client("engine", cluster.region), cluster.kubernetes
        offered = client.get_node_pool_options("all", compartment_id=api.tenancy).data.kubernetes_versions
        fix = f"use another kubernetesVersion; OKE offers {', '.join(offered)}"
        yield _release(f"{name}: OKE", f"nodes of Kubernetes {version}", version in offered, fix)
        options = oci.pagination.list_call_get_all_results(client.list_addon_options, version).data
        addons = {option.name: [release.version_number for release in option.versions] for option in options}
        for addon, wanted_version in cluster.addon_versions.items():
            releases = addons.get(addon, ())
            fix = f"set addonVersions.{addon} to one of: {', '.join(releases) or 'none is on offer'}"
            yield _release(f"{name}: OKE", f"{addon} {wanted_version} for Kubernetes {version}", wanted_version in releases, fix)


def _release(who: str, fact: str, there: bool, fix: str) -> Finding:
    return ok(AREA, f"{who} offers {fact}") if there else wrong(AREA, f"{who} does not offer {fact}", fix)


def _images(api: _Api, clusters: Clusters) -> Iterator[Finding]:
    import oci  # noqa: PLC0415 - an optional extra

    for name, cluster in clusters.items():
        for region, image in dict.fromkeys(cluster.images()):
            try:
                image_model = api.client("compute", region).get_image(image).data
            except oci.exceptions.ServiceError as error:
                if error.status not in (400, 404):
                    raise
                yield fault(AREA, "no_image", name=name, region=region, image=image)
            else:
                yield ok(AREA, f"{name}: {region} has image {image_model.display_name}")


def _reason(error: Any) -> str:
    """The error on one line. An error of the service has many fields, of which these say what happened."""
    if hasattr(error, "status"):
        return f"{error.operation_name} is answered {error.status} {error.code}: {error.message}"
    return " ".join(str(error).split()) or type(error).__name__
