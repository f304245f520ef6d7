"""A Kubernetes object as plain data."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]
"""One Kubernetes object, with apiVersion, kind and metadata."""


def manifest(api: str, kind: str, name: str, namespace: str = "", spec: Manifest | None = None, **metadata: Any) -> Manifest:
    """An object of API version `api`. `metadata` are further fields of its metadata, and empty ones are left out.

    Without a `spec` the object has only its metadata: some kinds have other fields instead.
    """
    fields = {key: value for key, value in {"name": name, "namespace": namespace, **metadata}.items() if value}
    return {"apiVersion": api, "kind": kind, "metadata": fields} | ({} if spec is None else {"spec": spec})
