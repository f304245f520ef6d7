"""Compares a state with the clouds and clusters: what an interrupted run left, and what settles it. Requests only read.

Helm keeps each revision of a release as a Secret of the type helm.sh/release.v1 with the labels name, owner, status and version
(helm/helm, pkg/storage/driver/secrets.go, newSecretsObject). A name is in use unless the release is uninstalled
(pkg/action/install.go, availableName).
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

from fleet.facts.record import Record
from fleet.providers.finding import SourceError
from fleet.providers.provider import Left, Leftovers
from gpu_ci.pending.state import KUBERNETES, Resource, State, cluster_of
from gpu_ci.submit.cluster import Cluster
from gpu_ci.submit.errors import InputError, SubmitError
from gpu_ci.submit.objects import Kind, text

T = TypeVar("T")
RELEASE = "kubernetes:helm.sh/v3:Release"
UNKNOWN, CLEAR, IMPORT, DELETE, REPLACE, REFRESH = "unknown", "clear", "import", "delete", "replace", "refresh"
"""What an entry needs. `clear` and `refresh` are done by the last command of the list."""


class Entry(NamedTuple):
    """One thing that was left. `what` is the kind of the pending operation, or of what exists without a resource.

    `id` is the id to import, `command` what deletes or replaces it, `look` the command that shows whether it exists.
    """

    what: str
    name: str
    needs: str
    says: str
    type: str = ""
    urn: str = ""
    id: str = ""
    command: str = ""
    look: str = ""


class Clouds:
    """The clouds and clusters of a stack. One that cannot be asked is asked once; `not_asked` says why."""

    def __init__(self, state: State, leftovers: Sequence[Leftovers]) -> None:
        self.state, self.not_asked = state, dict[str, str]()
        self.by_package = {each.package: each for each in leftovers}
        self.left = [left for cloud in leftovers for left in self._ask(cloud.cloud, partial(self._own, cloud)) or ()]
        self.releases = {name: self._ask(name, partial(releases, name)) for name in state.clusters}

    def ids(self, resource: Resource) -> tuple[list[str] | None, str]:
        """The ids by which Pulumi imports what a pending create made, None if that is unknown; and the command that shows it."""
        if not resource.custom or resource.type.startswith("pulumi:"):
            # Components and providers exist in the state alone.
            return [], ""
        if resource.type.startswith(KUBERNETES):
            found, look = self._objects(resource)
            # Other kinds may have the same id, so only the same URN says that the state has this object.
            stated = self.state.resources.get(resource.urn)
            return found and [each for each in found if stated is None or each != stated.id], look
        package, provider = resource.type.partition(":")[0], self.state.provider_of(resource)
        cloud = self.by_package.get(package)
        region = resource.inputs.get("region") or provider.get("region") or ""
        search = cloud.search(resource.type, resource.inputs, region) if cloud is not None else None
        if cloud is None or search is None:
            return None, ""
        found = [] if search.again else self._ask(cloud.cloud, search.ids)
        if found is None:
            return None, search.command
        known = self.state.names | self._written_otherwise(resource)
        return [each for each in found if each not in known], search.command

    def _written_otherwise(self, resource: Resource) -> frozenset[str]:
        """The ids to import of what the state has under the same URN. Of some types the state has only their last part."""
        stated = self.state.resources.get(resource.urn)
        found = self.ids(stated)[0] if stated is not None and stated is not resource else None
        return frozenset(each for each in found or () if "/" in each or "," in each)

    def _objects(self, resource: Resource) -> tuple[list[str] | None, str]:
        cluster, inputs = cluster_of(self.state.provider_of(resource)), resource.inputs
        place = () if resource.type == RELEASE else ("metadata",)
        name, namespace = text(inputs, *place, "name"), text(inputs, *place, "namespace")
        if not name:  # a secret
            return None, ""
        if resource.type == RELEASE:
            look = shlex.join(["helm", "list", "--all", "--namespace", namespace or "default", "--filter", f"^{name}$"])
            found = self.releases.get(cluster)
            return None if found is None else [each.id for each in found if each.id == release_id(resource)], look
        scope = ["--namespace", namespace] if namespace else []
        look = shlex.join(["kubectl", "get", text(inputs, "kind"), name, *scope])
        # A client without a name would ask the cluster of the kubeconfig's current context.
        return self._ask(cluster, partial(ids, cluster, inputs)) if cluster else None, look

    def _own(self, cloud: Leftovers) -> list[Left]:
        cloud.require_account(self.state.names)
        return [each for each in cloud if each.own]

    def _ask(self, where: str, question: Callable[[], T]) -> T | None:
        """The answer; None if the cloud or cluster cannot be asked."""
        if where in self.not_asked:
            return None
        try:
            cloud = next((each for each in self.by_package.values() if each.cloud == where), Leftovers())
            errors: tuple[type[Exception], ...] = (*cloud.errors(), SourceError, SubmitError)
        except ImportError as error:
            self.not_asked[where] = f"{error.name} is not installed; make doctor installs it"
            return None
        try:
            return question()
        except errors as error:
            self.not_asked[where] = " ".join(str(error).split()) or type(error).__name__
            return None


def release_id(resource: Resource) -> str:
    """The namespace and the name of a release of Helm."""
    return f"{text(resource.inputs, 'namespace') or 'default'}/{text(resource.inputs, 'name')}"


@dataclass
class Findings:
    """All entries of a stack."""

    state: State
    clouds: Clouds
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._imported: dict[str, str] = {}
        for what, resource in self.state.operations:
            read = _of(resource, what, REFRESH, "the refresh reads what exists", id=resource.id)
            self.entries += self._creating(resource) if what == "creating" else [read]
        self.entries += self._half_created()
        self.entries += self._releases()
        self.entries += self._orphans()

    def _creating(self, resource: Resource) -> Iterator[Entry]:
        found, look = self.clouds.ids(resource)
        entry = partial(_of, resource, "creating", look=look)
        if found is None:
            yield entry(UNKNOWN, "it may exist" if look else "it may exist; this program knows no call that finds it")
        elif not found:
            yield entry(CLEAR, "nothing of it exists")
        for identity in found or ():
            if (waiting := self._release(resource)) is not None and waiting.status != "deployed":
                yield entry(DELETE, f"its release is {waiting.status}", id=identity, command=waiting.command)
            elif resource.urn in self.state.resources or self._imported.setdefault(resource.urn, identity) != identity:
                command = self._delete(identity) or (waiting.command if waiting else "")
                yield entry(DELETE, f"exists as {identity}, and the state has another", id=identity, command=command)
            else:
                yield entry(IMPORT, f"exists as {identity}", id=identity)

    def _release(self, resource: Resource) -> "Release | None":
        releases = self.clouds.releases.get(cluster_of(self.state.provider_of(resource))) or ()
        same = (each for each in releases if each.id == release_id(resource))
        return next(same, None) if resource.type == RELEASE else None

    def _delete(self, identity: str) -> str:
        return next((each.delete for each in self.clouds.left if identity in each.names), "")

    def _half_created(self) -> Iterator[Entry]:
        """Resources of clouds whose create began and failed. A later update of them does not repeat the create."""
        for resource in self.state.resources.values():
            if resource.init_errors and not resource.type.startswith(KUBERNETES):
                yield _of(resource, "half-created", REPLACE, "its create failed when it had begun", id=resource.id)

    def _releases(self) -> Iterator[Entry]:
        told = {entry.command for entry in self.entries}
        for release in (each for releases in self.clouds.releases.values() for each in releases or ()):
            if release.waits and release.command not in told:
                yield Entry("release", release.id, DELETE, f"is {release.status}", command=release.command)

    def _orphans(self) -> Iterator[Entry]:
        told = self.state.names | {entry.id for entry in self.entries}
        for left in self.clouds.left:
            if told.isdisjoint(left.names):
                yield Entry("orphan", left.what, DELETE, "exists and is in no state", command=left.delete)

    def import_file(self) -> dict[str, Any]:
        """What `pulumi import --file` reads (pulumi/pulumi 3.260, pkg/cmd/pulumi/operations/import.go, importFile)."""
        resources: list[dict[str, Any]] = []
        table: dict[str, str] = {}
        for entry in (each for each in self.entries if each.needs == IMPORT):
            resource = next(each for _, each in self.state.operations if each.urn == entry.urn)
            version = self.state.provider_of(resource).get("version")
            links = {key: value for key, value in (("parent", resource.parent), ("provider", resource.provider)) if value}
            table |= {urn: urn for urn in links.values() if urn in self.state.resources}
            # Names are URNs, because two resources of a program may have the same name.
            spec = {"type": entry.type, "name": entry.urn, "logicalName": entry.name, "id": entry.id, **links}
            resources.append(spec | ({"version": version} if isinstance(version, str) else {}))
        return {"nameTable": table, "resources": resources}

    def commands(self, stack: str, file: str) -> list[str]:
        """What settles all entries, in order. Without the last command while something is unknown: it would be forgotten."""
        needs = {entry.needs for entry in self.entries}
        of = shlex.join(["--stack", stack])
        deletes = [_shell(entry) for entry in self.entries if entry.needs == DELETE]
        imports = f"pulumi import {of} --file {shlex.quote(file)} --yes --generate-code=false --protect=false"
        replaced = [f"--replace {shlex.quote(entry.urn)}" for entry in self.entries if entry.needs == REPLACE]
        return [
            *dict.fromkeys(deletes),
            *([imports] if IMPORT in needs else []),
            *([f"pulumi refresh {of} --clear-pending-creates --yes"] if needs and UNKNOWN not in needs else []),
            *([f"pulumi up {of} {' '.join(replaced)}"] if replaced else []),
        ]


def _shell(entry: Entry) -> str:
    """The command that deletes, or a comment if none is known."""
    if entry.command.startswith(("aws ", "oci ", "helm ")):
        return entry.command
    return f"# delete {entry.name} {entry.id}: {entry.command or 'no command is known here'}"


def _of(resource: Resource, what: str, needs: str, says: str, **fields: str) -> Entry:
    return Entry(what, resource.name, needs, says, resource.type, resource.urn, **fields)


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
    if (kind := api.kind(text(inputs, "apiVersion"), text(inputs, "kind"))) is None or not name:
        return []
    namespace = (text(inputs, "metadata", "namespace") or "default") if kind.namespaced else ""
    there = replace(api, namespace=namespace).find(kind, name) is not None
    return ["/".join(filter(None, (namespace, name)))] if there else []
