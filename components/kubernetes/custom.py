"""Objects from manifests, of any kind."""

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from components.component import Resources


def custom(
    name: str, manifest: Mapping[str, Any], *, parent: pulumi.Resource, depends_on: Resources = (), replace_on: Sequence[str] = ()
) -> pulumi.CustomResource:
    """Declare a manifest's object, with the Kubernetes provider of `parent`.

    The provider's own class for custom objects has only metadata and spec, and some kinds have other fields. `replace_on` are
    property paths whose value the API server does not let anyone change.
    """
    # The provider refuses a type without a group (pulumi/pulumi-kubernetes, gvkFromURN).
    api = str(manifest["apiVersion"])
    kind = f"kubernetes:{api if '/' in api else f'core/{api}'}:{manifest['kind']}"
    opts = pulumi.ResourceOptions(parent=parent, depends_on=[*depends_on], replace_on_changes=[*replace_on])
    opts.delete_before_replace = True
    return pulumi.CustomResource(kind, name, dict(manifest), opts)
