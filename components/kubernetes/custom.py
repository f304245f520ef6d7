"""One way to make an object of a kind that a chart brings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi


def custom(
    logical_name: str,
    manifest: Mapping[str, Any],
    *,
    parent: pulumi.Resource,
    depends_on: Sequence[pulumi.Resource],
    replace_on: Sequence[str] = (),
) -> pulumi.CustomResource:
    """The object that a manifest says, by the Kubernetes provider of `parent`.

    The provider's own class for such objects has no field beside metadata and spec, and some kinds have others. `replace_on` are
    property paths that the API server takes no other value for.
    """
    return pulumi.CustomResource(
        f"kubernetes:{manifest['apiVersion']}:{manifest['kind']}",
        logical_name,
        dict(manifest),
        pulumi.ResourceOptions(
            parent=parent, depends_on=list(depends_on), replace_on_changes=list(replace_on), delete_before_replace=True
        ),
    )
