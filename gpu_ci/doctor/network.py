"""Whether this machine reaches the API servers: its public address against `endpoint.publicCidrs`."""

import ipaddress
from collections.abc import Iterator

from fleet.facts.errors import InputError, quoted
from fleet.providers.finding import Finding, SourceError, ok, skipped, wrong
from fleet.providers.fleet import Fleet
from fleet.settings.endpoint import Endpoint
from gpu_ci.doctor.sources.web import Web

AREA = "network"
ECHO = "https://checkip.amazonaws.com"
"""AWS' page that shows a caller's public IPv4 address."""


def findings(fleet: Fleet, given: str | None, echo: str = ECHO) -> Iterator[Finding]:
    """A finding for each cluster whose endpoint the settings describe. `given` is the address; None asks `echo` for it.

    Raises InputError if `given` is not an address.
    """
    endpoints = {name: getattr(cluster, "endpoint", None) for name, cluster in fleet.clusters_by_name()}
    public: dict[str, tuple[str, ...]] = {}
    for name, endpoint in endpoints.items():
        if isinstance(endpoint, Endpoint) and endpoint.private:
            yield skipped(AREA, f"{name}: the endpoint is private; {endpoint.reachable_from} reaches it")
        elif isinstance(endpoint, Endpoint):
            public[name] = endpoint.public_cidrs
    if not public:
        return
    try:
        shown = Web().get(echo, 100).body.decode(errors="replace").strip() if given is None else given
        address = ipaddress.IPv4Address(shown)
    except (SourceError, ValueError) as error:
        if given is not None:
            message = f"--address: must be an IPv4 address; got {quoted(given)}; write one such as 52.94.76.1"
            raise InputError(message) from None
        yield skipped(AREA, f"{echo} does not show this machine's public address ({error}); give it: --address ADDRESS")
        return
    for name, networks in public.items():
        key = f"{name}: endpoint.publicCidrs"
        if any(address in ipaddress.ip_network(network) for network in networks):
            yield ok(AREA, f"{key} has this machine's address {address}")
        else:
            fix = f"add {address}/32 to clusters.{name}.endpoint.publicCidrs, or run pulumi from an address that is in it"
            yield wrong(AREA, f"{key} {', '.join(networks)} does not have this machine's address {address}", fix)
