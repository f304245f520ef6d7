"""A Kubernetes object as plain data, for the modules of this floor."""

from fleet.facts.manifest import Manifest, manifest

__all__ = ["Manifest", "manifest"]
