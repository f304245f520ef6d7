"""addon-version-pinned: cluster add-ons have a version that the program sets.

Judged: add-ons of EKS and OKE. The component `eks:index:Addon` is judged by its inputs, if it has any, because an offline plan
does not have its children. Without a version, EKS installs its default version, and OKE updates the add-on by itself.
"""

import re

from .kinds import fields
from .read import Faults, Later, shown, text, walk
from .rule import Args, Rule, facts

_VERSIONS = fields("addon_versions")


def _check(args: Args, later: Later) -> Faults:
    field, otherwise, example = _VERSIONS[args.type]
    version = walk(args.props, field)
    # The start of an exact version. A range does not match.
    if re.match(r"v?[0-9]+\.[0-9]+\.[0-9]", text(version)) is None:
        yield f"{field} is {shown(version)}: {otherwise}; write a version such as {example}"


RULE = Rule(**facts(__name__), types=frozenset(_VERSIONS), check=_check)
