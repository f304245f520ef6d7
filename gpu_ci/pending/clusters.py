"""What the clusters of a stack have: objects of pending creates, and releases of Helm that wait. Requests only read.

Helm keeps each revision of a release as a Secret of the type helm.sh/release.v1 with the labels name, owner, status and version
(helm/helm, pkg/storage/driver/secrets.go, newSecretsObject). A name is in use unless the release is uninstalled
(pkg/action/install.go, availableName).
"""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from fleet.facts.record import Record
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import InputError
from gpu_ci.submit.objects import Kind, text

SECRETS = Kind("v1", "secrets", namespaced=False)
_SELECTOR = "owner=helm,status in (deployed,failed,pending-install,pending-rollback,pending-upgrade)"


class Release(Record):
    """The newest revision of a release that Helm keeps in a cluster."""

    namespace: str
    name: str
    status: str
    context: str

    @property
    def id(self) -> str:
        """The id by which Pulumi imports it."""
        return f"{self.namespace}/{self.name}"

    @property
    def waits(self) -> bool:
        """Whether an interrupted run left it."""
        return self.status.startswith("pending-")

    @property
    def command(self) -> str:
        """What ends its wait. Only a rollback keeps what was installed before."""
        verb = "uninstall" if self.status in ("pending-install", "failed", "deployed") else "rollback"
        return shlex.join(["helm", verb, self.name, "--namespace", self.namespace, "--kube-context", self.context])


@cache
def connect(cluster: str) -> tuple[Cluster, str]:
    """A cluster with its context: the one with the cluster's name, or whose name ends with `/` and it, as the AWS CLI writes it.

    Raises InputError if the kubeconfig has none, or several of the second kind and none of the first.
    """
    from gpu_ci.submit import kubeconfig  # noqa: PLC0415 - loading the client takes a third of a second

    names = [name for name in kubeconfig.contexts() if name.rpartition("/")[2] == cluster]
    if len(names) > 1 and cluster not in names:
        fix = f"rename the right one: kubectl config rename-context OLD {cluster}"
        raise InputError(f"the kubeconfig has several contexts for {cluster}: {', '.join(names)}; {fix}")
    context = names[0] if len(names) == 1 else cluster
    return kubeconfig.connect(context=context), context


def releases(cluster: str) -> list[Release]:
    """The releases in a cluster. Raises InputError, ApiError or UnreachableError."""
    api, context = connect(cluster)
    newest: dict[tuple[str, str], tuple[int, str]] = {}
    for secret in api.list(SECRETS, {"labelSelector": _SELECTOR}):
        place = (text(secret, "metadata", "namespace"), text(secret, "metadata", "labels", "name"))
        version, status = (text(secret, "metadata", "labels", label) for label in ("version", "status"))
        newest[place] = max(newest.get(place, (0, "")), (int(version) if version.isdecimal() else 0, status))
    return [Release(*place, status, context) for place, (_, status) in newest.items()]


def ids(cluster: str, inputs: Mapping[str, Any]) -> list[str]:
    """The id of the object with these inputs, if it exists. Raises InputError, ApiError or UnreachableError."""
    api, _ = connect(cluster)
    name = text(inputs, "metadata", "name")
    kind = api.kind(text(inputs, "apiVersion"), text(inputs, "kind"))
    if kind is None or not name:
        return []
    namespace = (text(inputs, "metadata", "namespace") or "default") if kind.namespaced else ""
    there = replace(api, namespace=namespace).find(kind, name) is not None
    return ["/".join(filter(None, (namespace, name)))] if there else []
