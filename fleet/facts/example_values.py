"""Example values of the project's own stack files and of the clouds' documentation, which you replace by your own.

Sources: RFC 5737 and RFC 3849 (addresses), RFC 2606 (domains), the AWS documentation's example accounts and ids.
"""

import ipaddress
import re

_NETWORKS = "publicCidrs"
"""The key of networks that must be public: any reserved network there is an example."""
_DOCUMENTATION = tuple(map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")))
_DOMAIN = r"example(?:\.(?:com|net|org))?|[^@/]*\.(?:example(?:\.(?:com|net|org))?|test|invalid|localhost)"
_FORMS = (
    ("an example OCID", r"ocid1\.[a-z0-9]+\.oc1\.[a-z0-9-]*\.example.*"),
    ("the prefix of an example tenancy", r"abcd:.*-AD-[1-3]"),
    ("an example organization", r"(?i:https://github\.com/example(?:-research)?(?:/.*)?)"),
    ("a repository of an example organization", r"(?i:example/[\w.-]+)"),
    ("an address that receives no mail", rf"(?i:[^@\s]+@(?:{_DOMAIN}))"),
    ("an example AWS account", r"(?:.*[^0-9])?(?:111122223333|123456789012|210987654321)(?:[^0-9].*)?"),
    ("an example id", r"(?:ami|cr|subnet|vpc)-(?:0123456789abcdef0|0([0-9a-f])\1{9,}.)"),
)


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
    return next((kind for kind, pattern in _FORMS if re.fullmatch(pattern, value)), "")


def _network(value: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """The address or network in a text, or in the host of a URL; None if there is none."""
    host = re.fullmatch(r"https?://\[?([0-9a-fA-F.:]+?)\]?(?::[0-9]+)?(?:/.*)?", value)
    try:
        return ipaddress.ip_network(host[1] if host else value, strict=False)
    except ValueError:
        return None
