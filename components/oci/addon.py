"""An add-on of an OKE cluster."""

from collections.abc import Mapping

import pulumi_oci as oci

from components.component import Opts, Text


def declare_addon(name: str, cluster: Text, addon: str, version: str | None, values: Mapping[str, Text], opts: Opts) -> None:
    """The add-on, which takes over what is there already. `values` are its configuration."""
    of = {"cluster_id": cluster, "addon_name": addon, "version": version}
    configured = [{"key": key, "value": value} for key, value in values.items()] or None
    owns = {"override_existing": True, "remove_addon_resources_on_delete": True}
    oci.containerengine.Addon(name, **of, configurations=configured, **owns, opts=opts)
