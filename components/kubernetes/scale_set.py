"""Runner scale sets of any kind: what all of a cluster share, and the namespace, isolation, Secret and release of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pulumi
import pulumi_kubernetes as kubernetes

from components.arguments import settings, wrong
from components.component import Component, Parent, Resources, Text
from components.context import PrivateKeys
from components.generations import Generations
from components.kubernetes.custom import custom
from components.kubernetes.deliver import deliver
from components.kubernetes.in_cluster import Inside
from components.kubernetes.leaving import RELEASE, Objects, declare, objects_of, until_idle
from components.kubernetes.namespaces import namespace
from fleet.charts.chart import Chart
from fleet.charts.runner_sets import IDLE, SetSettings, generation, moves_beside
from fleet.facts.manifest import Manifest
from fleet.facts.record import Record
from fleet.prove.namespace_limits import limit_range, resource_quota
from fleet.render.arc import minor_of
from fleet.render.gitops.secrets import github_app
from fleet.render.isolation import network_policy
from fleet.settings.github import APP_SECRET, GitHub, GitHubApp, is_app_secret
from fleet.settings.namespaces import runner_namespace

_NAME = "runners"
"""The name of all three objects, because a namespace has one of each."""


def isolate(logical_name: str, chart: Chart, namespace: Text, policy: Mapping[str, Any], *, parent: Parent) -> Resources:
    """A NetworkPolicy with the given spec, a ResourceQuota and a LimitRange for a set's pods, all created before its release.

    The namespace itself enforces a Pod Security Standard. Its default ServiceAccount is unchanged: it has no rights and none of
    the runner pods uses it.
    """
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=_NAME, namespace=namespace)
    opts = pulumi.ResourceOptions(parent=parent, delete_before_replace=True)
    return [
        kubernetes.networking.v1.NetworkPolicy(f"{logical_name}-network", metadata=metadata, spec={**policy}, opts=opts),
        kubernetes.core.v1.ResourceQuota(f"{logical_name}-quota", metadata=metadata, spec=resource_quota(chart), opts=opts),
        kubernetes.core.v1.LimitRange(f"{logical_name}-limits", metadata=metadata, spec=limit_range(chart), opts=opts),
    ]


# ARC never sends changed labels to GitHub (actions-runner-controller#4424), and a set is registered at one URL.
# A new controller deletes the sets of another minor version, during an upgrade that Helm then reports as deployed.
_URL, _VERSION = "values.githubConfigUrl", "version"
_LABELS, _SECRET = "scaleSetLabels", "kubernetes:core/v1:Secret"

App = tuple[GitHubApp | None, pulumi.Output[str] | None]
"""A GitHub App and its private key, a secret; or neither."""
Companions = Callable[[Text, pulumi.Resource], Resources]
"""(namespace name, parent) → resources that the set's pods need in their namespace, created before the set below `parent`."""


class ScaleSetArgs(Record):
    """`chart` is the scale set and has its name. `settings` are those of its kind of set. `needed` must exist before.

    The program writes the Secret of `app`, if there is one. Pods of the set reach the networks `opened` inside closed ones, the
    TCP ports `private_ports` of every network, and BuildKit in the namespaces `builders`. `companions` creates the other
    resources that they need. `jobs` are the objects of jobs that run in containers (`fleet.render.container_jobs`),
    or that are kept when they fail (`fleet.render.kept_jobs`). Without `generations` each edit that needs another registration
    replaces the set under its name.
    """

    chart: Chart
    settings: SetSettings
    app: App
    needed: Resources
    companions: Companions | None = None
    opened: Sequence[str] = ()
    private_ports: Sequence[int] = ()
    builders: Sequence[str] = ()
    jobs: Sequence[Manifest] = ()
    generations: Generations | None = None


def scale_set(name: str, args: ScaleSetArgs, *, parent: pulumi.Resource) -> pulumi.Output[list[str]]:
    """Declare the objects below `parent`. Returns the labels that select the set in `runs-on`, its name first."""
    chart, of_set, needed = args.chart, args.settings, list(args.needed)
    home: Text = chart.namespace
    if of_set.create_namespace:
        # In Git, sync waves order namespaces.
        space = namespace(f"{name}-namespace", chart, parent=parent, depends_on=() if of_set.gitops is not None else needed)
        home = space.metadata.name
        needed.append(space)
    elif needed:
        # The objects in a namespace of the caller wait by its name, as those in our own do.
        home = _after(needed, chart.namespace)
    if of_set.isolate:
        policy = network_policy(of_set.closed_networks, args.opened, args.private_ports, args.builders)
        needed += isolate(name, chart, home, policy, parent=parent)
    needed += _secret(name, args, home, parent)
    needed += _objects(name, args, home, parent)
    needed += _jobs(name, args, home, needed, parent)
    if args.companions is not None:
        needed += args.companions(home, parent)
    if of_set.install_chart:
        _install(name, args, needed, parent)
    return pulumi.Output.from_input([chart.name, *chart.values[_LABELS]])


def _install(name: str, args: ScaleSetArgs, needed: Resources, parent: pulumi.Resource) -> None:
    """The release of the set. One that needs another registration under its name stays, without jobs, until it is idle."""
    generations, chart, of_chart = args.generations, args.chart, f"{name}-chart"
    objects: Objects = {}
    if generations is not None and args.settings.gitops is None:
        key, now = f"{of_chart}.registered", _registration(chart, chart.values)
        digits = generations.suffix(key, now)[1:]
        objects = _replaced(name, args, now, generations) if digits else {}
        if digits and not objects:
            generations.first[key] = digits
    if generations is None or not objects:
        _register(of_chart, args, needed, parent)
        return

    def stays() -> None:
        later = "it takes no job, its runners finish, and a later pulumi up registers it again"
        pulumi.log.warn(f"runner set {chart.name} is leaving: {later}")
        declared = {resource.pulumi_resource_name for resource in needed}
        # ARC needs the Secret of an earlier scope until the set is gone.
        left = {at: row for at, row in objects.items() if at[0] == RELEASE or (at[0] == _SECRET and at[1] not in declared)}
        declare(left, parent, needed)

    generations.keep(of_chart)
    goes = partial(_register, of_chart, replace(args, generations=Generations(generations.recorded)), needed, parent)
    went = until_idle(name, objects, pulumi.ResourceOptions(provider=parent.get_provider(RELEASE)), stays, goes)
    generations.first[key] = went.apply(lambda goes: digits if goes else generations.recorded[key])


def _replaced(name: str, args: ScaleSetArgs, now: Mapping[str, Any], generations: Generations) -> Objects:
    """What the state has of a set whose registration is not that of `now`, unless another set can be registered beside it."""
    chart = args.chart
    of_scope = f"{name}-chart.{args.settings.github_secret}" in generations.recorded
    if of_scope and moves_beside(args.settings.github_url, chart.name, args.settings):
        return {}
    objects = objects_of(name, chart.namespace)
    releases = (row["values"] for (kind, _), row in objects.items() if kind == RELEASE)
    return objects if any(_registration(chart, values) != now for values in releases) else {}


def _registration(chart: Chart, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """What GitHub knows a set by, besides its name, and its Secret."""
    labels = sorted({*values[_LABELS]} - {chart.name})
    return {"url": values["githubConfigUrl"], "labels": labels, "secret": values["githubConfigSecret"]}


def _register(name: str, args: ScaleSetArgs, needed: Resources, parent: pulumi.Resource) -> None:
    """The release of the set and, in the update that gives the set another generation, that of the one before.

    The generation before takes no more jobs then. The next update does not declare it, and its deletion waits for nothing: ARC
    lets its runners finish before it removes the registration (docs/runner-set-changes.md).
    """
    chart, generations, git, suffix = args.chart, args.generations, args.settings.gitops, ""
    replace_on = [_URL, _VERSION]
    if generations is not None and git is None:
        minor = minor_of(chart.version)
        if generations.before(f"{name}.minor", minor) == minor:
            replace_on.remove(_VERSION)
        if moves_beside(args.settings.github_url, chart.name, args.settings):
            # A set of another scope has another Secret. ARC needs the old one until the set is gone, so nothing stays beside.
            key = f"{name}.{args.settings.github_secret}"
            labels = sorted(chart.values[_LABELS])
            suffix = generations.suffix(key, {"url": args.settings.github_url, "labels": labels})
            if (before := generations.before(f"{key}.now", suffix)) is not None and before != suffix:
                _leave(f"{name}{before}", generation(chart, before), needed, parent)
    made = generation(chart, suffix)
    deliver(f"{name}{suffix}", made, git=git, parent=parent, depends_on=needed, replace_on=replace_on, replace_on_items=_LABELS)


def _leave(name: str, chart: Chart, needed: Resources, parent: pulumi.Resource) -> None:
    """The release of a generation that takes no more jobs: everything but its minimum and its maximum is as it was."""
    pulumi.log.warn(f"runner set {chart.name} is leaving: it takes no job, its runners finish, and the next pulumi up deletes it")
    idle = replace(chart, values={**chart.values, **IDLE})
    kept = [f"values.{key}" for key in chart.values if key not in IDLE]
    deliver(name, idle, parent=parent, depends_on=needed, keeps=[_VERSION, *kept], awaits=False)


class ScaleSet(Component[ScaleSetArgs]):
    """A runner scale set whose chart another component makes."""

    _kind = "ArcRunnerSet"  # the state has it under this token

    runs_on: pulumi.Output[list[str]]
    """Labels that select the set in `runs-on`, its name first."""
    namespace_name: pulumi.Output[str]
    """The set's namespace."""

    def declare(self, name: str, args: ScaleSetArgs) -> None:
        self.runs_on = scale_set(name, args, parent=self)
        self.namespace_name = pulumi.Output.from_input(args.chart.namespace)


def _secret(name: str, args: ScaleSetArgs, home: Text, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """The App's Secret, unless another program creates it."""
    app, private_key = args.app
    if app is None or private_key is None:
        return []
    secret_name = args.settings.github_secret
    logical_name = f"{name}-{secret_name if is_app_secret(secret_name) else APP_SECRET}"
    metadata = kubernetes.meta.v1.ObjectMetaArgs(name=secret_name, namespace=home)
    data = {"github_app_id": app.app_id, "github_app_installation_id": app.installation_id, "github_app_private_key": private_key}
    opts = pulumi.ResourceOptions(parent=parent, delete_before_replace=True)
    return [kubernetes.core.v1.Secret(logical_name, metadata=metadata, string_data=data, opts=opts)]


def _objects(name: str, args: ScaleSetArgs, home: Text, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """The manifests of the settings. Those in the set's namespace wait for it: `home` is its name with the dependency."""
    resources: list[pulumi.Resource] = []
    for manifest in args.settings.manifests:
        placed = _placed(manifest, {args.chart.namespace: home})
        resources.append(custom(f"{name}-{manifest['metadata']['name']}", placed, parent=parent, depends_on=()))
    return resources


def _placed(manifest: Manifest, spaces: Mapping[str, Text]) -> Manifest:
    """The manifest with the name of its namespace as `spaces` has it, if it has."""
    metadata = manifest["metadata"]
    where = metadata.get("namespace")
    return {**manifest, "metadata": {**metadata, "namespace": spaces[where]}} if where in spaces else manifest


def _jobs(name: str, args: ScaleSetArgs, home: Text, needed: Resources, parent: pulumi.Resource) -> list[pulumi.Resource]:
    """The objects of jobs in containers. Those of a namespace wait for it. In Git, sync waves order them."""
    resources: list[pulumi.Resource] = []
    spaces: dict[str, Text] = {args.chart.namespace: home}
    for manifest in args.jobs:
        kind, metadata = manifest["kind"], manifest["metadata"]
        role = f"{'hooks' if metadata.get('namespace') == args.chart.namespace else 'jobs'}-{kind.lower()}"
        before = needed if kind == "Namespace" and args.settings.gitops is None else ()
        resource = custom(f"{name}-{role}", _placed(manifest, spaces), parent=parent, depends_on=before)
        resources.append(resource)
        if kind == "Namespace":
            spaces[metadata["name"]] = _after([resource], metadata["name"])
    return resources


def _after(resources: Resources, name: str) -> pulumi.Output[str]:
    """A name. What uses it waits for the resources."""
    return pulumi.Output.all(*(resource.urn for resource in resources)).apply(lambda _: name)


def read_app(inputs: dict[str, Any]) -> App:
    """The App of the inputs, if they name one. Marks its private key as secret in the inputs. Raises InputPropertyError."""
    app, key = inputs.get("githubApp"), inputs.get("githubPrivateKey")
    if (app is None) != (key is None):
        raise wrong("githubPrivateKey", "githubApp and githubPrivateKey belong together; give both or neither")
    if app is None:
        return None, None
    secret = inputs["githubPrivateKey"] = pulumi.Output.secret(key)
    return settings(GitHubApp, app, at="githubApp"), secret


Set = TypeVar("Set", bound=SetSettings)


class Arc(Record):
    """What all runner sets of the cluster `inside` share.

    `private_keys` are the keys of the Apps of those GitHub scopes whose Secrets the program writes. `after` must exist before a
    set, and is deleted after it: system nodes, the controller and the priority class. With `inside.git` each set is an ArgoCD
    Application, and objects in Git make its Secret. Without `installs` another program installs the charts. `home` is the
    controller's namespace, if the program creates it.
    """

    inside: Inside
    github: GitHub
    private_keys: PrivateKeys
    after: Resources
    installs: bool = True
    home: pulumi.Resource | None = None

    def app(self, scope: str) -> App:
        """The App of a scope whose Secret the program writes, and its key; neither if another program writes it."""
        if scope not in self.private_keys:
            return None, None
        settings = self.github.every[scope]
        of_app = GitHubApp.model_construct(app_id=settings.app_id, installation_id=settings.installation_id)
        return of_app, pulumi.Output.secret(self.private_keys[scope])

    def installed(self, made: Set, scope: str) -> Set:
        """A set of a scope as the program installs it: with the objects in Git that create its Secret, and by Git or Helm."""
        cluster, git, secrets = self.inside.settings, self.inside.git, tuple[Manifest, ...]()
        if git is not None:
            namespace = runner_namespace(made.runner_scale_set_name)
            secrets = github_app(namespace, self.github.every[scope], git, cluster.secrets_of(scope))
            git = git.model_copy(update={"secrets": None})
        closed_networks = tuple(cluster.closed_networks)
        manifests = (*made.manifests, *secrets)
        more = {"closed_networks": closed_networks, "manifests": manifests, "gitops": git, "install_chart": self.installs}
        return made.model_copy(update=more)
