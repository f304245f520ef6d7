"""addon-version-pinned: cluster add-ons have a version that the program chose.

Judged: add-ons of EKS and OKE. `eks:index:Addon` is judged by its inputs where it has some, since an offline plan sees none of
its children. EKS takes its default version for an add-on without one, and OKE updates such an add-on by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .kinds import EKS_ADDON, EKS_ADDON_COMPONENT, OKE_ADDON, is_hollow
from .read import Later, shown, text, walk
from .rule import Args, Rule, Section, Severity

_WHOLE = re.compile(r"v?[0-9]+\.[0-9]+\.[0-9]")
"""How a version starts that is one and no range of them."""
_VERSIONS = {
    EKS_ADDON: ("addonVersion", "EKS then takes its default of the day", "v1.2.3-eksbuild.1"),
    EKS_ADDON_COMPONENT: ("addonVersion", "EKS then takes its default of the day", "v1.2.3-eksbuild.1"),
    OKE_ADDON: ("version", "OKE then updates the add-on by itself", "v1.2.3"),
}


def _check(args: Args, later: Later) -> Iterator[str]:
    if is_hollow(args.resource_type, args.props):
        return
    field, otherwise, example = _VERSIONS[args.resource_type]
    version = walk(args.props, field)
    if _WHOLE.match(text(version)) is None:
        yield f"{field} is {shown(version)}: {otherwise}; write a version such as {example}"


RULE = Rule(
    id="addon-version-pinned",
    order=(Section.SUPPLY_CHAIN, 40),
    title="Cluster add-ons have a chosen version",
    severity=Severity.LOW,
    types=frozenset(_VERSIONS),
    levels={"dev": "disabled", "staging": "advisory", "prod": "mandatory", "homelab": "disabled"},
    rationale="An add-on that changes by itself changes network, names or GPUs of a cluster on a day that nobody chose.",
    source="https://docs.aws.amazon.com/eks/latest/userguide/updating-an-add-on.html",
    fix="Write addonVersion (EKS) or version (OKE); the cloud's CLI lists what fits a cluster's Kubernetes version.",
    check=_check,
)
