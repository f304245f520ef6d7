"""Objects from manifests, of any kind."""

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
    """Declare a manifest's object, with the Kubernetes provider of `parent`.

    The provider's own class for custom objects has only metadata and spec, and some kinds have other fields. `replace_on` are
    property paths whose value the API server does not let anyone change.
    """
    api = str(manifest["apiVersion"])
    return pulumi.CustomResource(
        # The provider refuses a type without a group (pulumi/pulumi-kubernetes, gvkFromURN).
        f"kubernetes:{api if '/' in api else f'core/{api}'}:{manifest['kind']}",
        logical_name,
        dict(manifest),
        pulumi.ResourceOptions(
            parent=parent, depends_on=list(depends_on), replace_on_changes=list(replace_on), delete_before_replace=True
        ),
    )
