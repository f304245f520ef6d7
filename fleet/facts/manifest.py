"""A Kubernetes object as plain data."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Manifest = dict[str, Any]
"""One Kubernetes object, with apiVersion, kind and metadata."""


def filled(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields without those whose value is empty."""
    return {key: value for key, value in fields.items() if value}


def manifest(api: str, kind: str, name: str, namespace: str = "", spec: Manifest | None = None, **metadata: Any) -> Manifest:
    """An object of API version `api`. `metadata` are further fields of its metadata, and empty ones are left out.

    Without a `spec` the object has only its metadata: some kinds have other fields instead.
    """
    fields = filled({"name": name, "namespace": namespace, **metadata})
    return {"apiVersion": api, "kind": kind, "metadata": fields} | ({} if spec is None else {"spec": spec})


def single(name: str, namespace: str, files: Mapping[str, str], pod: Manifest) -> Manifest:
    """A Deployment of one pod, whose program reads the texts of `files` only when it starts: other texts replace the pod.

    Two pods would do the same work twice, so the old one ends first.
    """
    labels = {"app.kubernetes.io/name": name}
    changed = hashlib.sha256("".join(files.values()).encode()).hexdigest()[:10]
    template = {"metadata": {"labels": labels, "annotations": {"gpu-ci/config": changed}}, "spec": pod}
    spec = {"replicas": 1, "strategy": {"type": "Recreate"}, "selector": {"matchLabels": labels}, "template": template}
    return manifest("apps/v1", "Deployment", name, namespace, spec)


_RBAC = "rbac.authorization.k8s.io"


def service_account(name: str, namespace: str) -> Manifest:
    """A service account whose token no pod gets by default."""
    return manifest("v1", "ServiceAccount", name, namespace) | {"automountServiceAccountToken": False}


def rule(resource: str, *verbs: str, group: str = "") -> Manifest:
    """A rule of RBAC for one kind of objects."""
    return {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}


def role(account: str, home: str, namespace: str, rules: Sequence[Manifest]) -> Iterator[Manifest]:
    """A role with its binding to a service account of the namespace `home`. Both have its name.

    The rights are for `namespace`, or for the whole cluster if that is empty.
    """
    return bound(account, namespace, rules, {"kind": "ServiceAccount", "name": account, "namespace": home})


def group(name: str) -> Manifest:
    """A group of people, as a binding names it. The API server knows it from the credentials of its members alone."""
    return {"kind": "Group", "name": name, "apiGroup": _RBAC}


def bound(name: str, namespace: str, rules: Sequence[Manifest], subject: Manifest) -> Iterator[Manifest]:
    """A role with its binding to a subject, for `namespace`, or for the whole cluster if that is empty."""
    kind = "Role" if namespace else "ClusterRole"
    binding = {"roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name}, "subjects": [subject]}
    yield manifest(f"{_RBAC}/v1", kind, name, namespace) | {"rules": list(rules)}
    yield manifest(f"{_RBAC}/v1", f"{kind}Binding", name, namespace) | binding
