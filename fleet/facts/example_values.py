"""Example values of the project's own stack files and of the clouds' documentation, which you replace by your own.

Sources: RFC 5737 and RFC 3849 (addresses), RFC 2606 (domains), the AWS documentation's example accounts and ids.
"""

import ipaddress
import re

from fleet.facts.tables import beside

_NETWORKS = "publicCidrs"
"""The key of networks that must be public: any reserved network there is an example."""
_DOCUMENTATION = tuple(map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")))
_FORMS: dict[str, str] = beside(__file__, "example-values.toml")
"""Regular expressions of whole values, by what they are."""


def meaning(key: str, value: str) -> str:
    """What kind of example the value of a setting is; empty if it is none. `key` is the last name in the setting's path."""
    # Values that are examples only under their key.
    if value in {"appId": ("123456", "234567"), "installationId": ("12345678", "23456789")}.get(key, ()):
        return "an example id of GitHub"
    if (network := _network(value)) is not None:
        if key == _NETWORKS:
            return "" if network.is_global else "a reserved network, which clouds refuse"
        within = any(network.version == block.version and network.subnet_of(block) for block in _DOCUMENTATION)  # type: ignore[arg-type]
        return "an address for documentation" if within else ""
    return next((kind for kind, pattern in _FORMS.items() if re.fullmatch(pattern, value)), "")


def _network(value: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The address or network in a text, or in the host of a URL; None if there is none."""
    host = re.fullmatch(r"https?://\[?([0-9a-fA-F.:]+?)\]?(?::[0-9]+)?(?:/.*)?", value)
    try:
        return ipaddress.ip_network(host[1] if host else value, strict=False)
    except ValueError:
        return None
