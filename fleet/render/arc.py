"""Commands for Actions Runner Controller (ARC) that people run by hand: free a set, and upgrade to another minor.

Facts: actions/actions-runner-controller@gha-runner-scale-set-0.14.2, controllers/actions.github.com/.
"""

from collections.abc import Callable, Iterator, Mapping

from fleet.charts.arc import CONTROLLER, NAMESPACE, installs_controller
from fleet.charts.sweeps import NAMESPACE as SWEEPS, SCHEDULER, sweep_pods
from fleet.facts.versions import CHARTS
from fleet.providers.fleet import Fleet, guard_urn
from fleet.settings.cluster import Cluster
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import PodRunner

SETS, CHART = "gha-runner-scale-set", "gha-runner-scale-set-controller"
"""The charts of runner sets and of their controller, which have one version."""
_SKIP = "argocd.argoproj.io/skip-reconcile"
"""With this annotation Argo CD leaves an Application alone (argo-cd docs/user-guide/skip_reconcile.md, since 2.7)."""
_PAUSED = '{"spec":{"minRunners":0,"maxRunners":0}}'
"""Both may be 0 (autoscalingrunnerset_types.go). A listener refuses a minimum above its maximum (cmd/ghalistener/config)."""


def freeing_command(namespace: str, name: str) -> str:
    """The command that makes ARC start an `Outdated` set again, once GitHub accepts its runners.

    ARC 0.14.2 leaves the phase only if the set's spec or labels change, or if somebody writes another phase. It then registers
    the set again, because it has removed the registration's id (autoscalingrunnerset_controller.go, deleteRunnerScaleSet).
    `status` is a subresource of the CRD, so the command needs `--subresource`.
    """
    patch = '{"status":{"phase":"Pending"}}'
    return f"kubectl -n {namespace} patch autoscalingrunnerset {name} --subresource=status --type=merge -p '{patch}'"


def another_minor(before: str, after: str) -> bool:
    """Whether a controller of `after` deletes the sets of `before`: it compares major and minor (IsVersionAllowed)."""
    return minor_of(before) != minor_of(after)


def minor_of(version: str) -> str:
    """Major and minor of a version."""
    return ".".join(version.split(".")[:2])


def upgrade(fleet: Fleet, stack: str, before: str, after: str) -> tuple[str, ...]:
    """The lines of a shell script, with comments, that takes a deployed stack from one minor of ARC to another.

    Order: no set takes a job, the jobs that run end, the sets go while the old controller can still remove their registration,
    then CRDs and controller, then the sets of the new version. Nothing that a job needs goes before the job has ended: a loop
    that cannot reach the cluster waits. Without runner sets, and within a minor, there are no lines.
    """
    clusters = {name: cluster for name, cluster in fleet.clusters.items() if cluster.runners}
    return () if not clusters or not another_minor(before, after) else tuple(_script(clusters, stack, before, after))


def _script(clusters: Mapping[str, Cluster], stack: str, before: str, after: str) -> Iterator[str]:
    yield f"# ARC {before} -> {after}. The new controller deletes every runner set of another minor: do not begin with pulumi up."
    yield "# Jobs that wait stay queued at GitHub, for 24 hours at most. Alerts of missing listeners fire until step 5."
    yield "# 1. No set takes another job."
    yield from _each(clusters, _pause)
    yield "# 2. Wait until no set has a runner. A loop goes on while the cluster does not answer. Delete Failed runners."
    yield from _each(clusters, lambda cluster: (_until_none(name, "ephemeralrunners", 30) for name in cluster.runners))
    yield "# 3. Remove the sets, while their old controller runs. Namespaces, Secrets and caches stay."
    helm = [release for name, cluster in clusters.items() if cluster.gitops is None for release in releases(name, cluster)]
    if helm:
        # A generation has a suffix behind the name (components.generations).
        targets = " ".join(f"--target '**::{release}*'" for release in helm)
        if any(cluster.protect for cluster in clusters.values()):
            yield "# The state's guard against pulumi destroy, a record without a resource of a cloud. Step 5 records it again."
            yield f"pulumi state delete -s {stack} --yes '{guard_urn(stack)}'"
        yield "# From a checkout of the commit that is deployed:"
        yield f"pulumi destroy -s {stack} --target-dependents {targets}"
    yield from _each(clusters, _remove)
    yield f"# 4. The CRDs of {after}: Helm never renews those of a chart."
    yield f"helm pull {CHARTS[CHART].repository}/{CHART} --version {after} --untar"
    for name, cluster in clusters.items():
        if cluster.gitops is None:
            note = "" if installs_controller(cluster) else f"; then upgrade its own controller to {after}"
            yield f"# With the kubeconfig of {name}{note}:"
            yield f"kubectl apply --server-side --force-conflicts -f {CHART}/crds/"
    yield f"# 5. From a checkout that pins {after}: the controller first, then the sets."
    if helm:
        yield f"pulumi up -s {stack} --policy-pack policies --policy-pack-config policies/config/{stack}.json"
    yield from _in_git(clusters, after)
    for name, cluster in clusters.items():
        yield from (f"{line} # {name}" for line in _schedules(cluster, 1))
    yield "# 6. Every set is Running, with its old maximum."
    columns = "SET:.metadata.name,MAX:.spec.maxRunners,PHASE:.status.phase"
    yield f"kubectl get autoscalingrunnersets --all-namespaces -o custom-columns='{columns}'"


def _each(clusters: Mapping[str, Cluster], lines: Callable[[Cluster], Iterator[str]]) -> Iterator[str]:
    for name, cluster in clusters.items():
        yield f"# With the kubeconfig of {name}:"
        yield from lines(cluster)


def _pause(cluster: Cluster) -> Iterator[str]:
    yield from _schedules(cluster, 0)
    for runner_set in cluster.runners:
        space = runner_namespace(runner_set)
        if cluster.gitops is not None:
            yield f"kubectl -n {cluster.gitops.namespace} annotate application {space} {_SKIP}=true --overwrite"
        sets = f"$(kubectl -n {space} get autoscalingrunnersets -o name)"
        yield f"for set in {sets}; do kubectl -n {space} patch $set --type=merge -p '{_PAUSED}'; done"


def _schedules(cluster: Cluster, replicas: int) -> Iterator[str]:
    """Stop or start the sweep that sets `minRunners`, if the cluster has it: it would set a minimum above the maximum of 0."""
    if SCHEDULER in sweep_pods(cluster):
        yield f"kubectl -n {SWEEPS} scale deployment {SCHEDULER.name} --replicas={replicas}"


def _remove(cluster: Cluster) -> Iterator[str]:
    """The sets of a cluster are gone once the controller has removed their registrations and its finalizers."""
    for runner_set in cluster.runners:
        if cluster.gitops is not None:
            yield f"kubectl -n {runner_namespace(runner_set)} delete autoscalingrunnerset {runner_set}"
        yield _until_none(runner_set, "autoscalingrunnersets", 5)


def _until_none(runner_set: str, kind: str, pause: int) -> str:
    """A loop that ends when the cluster has answered that the set's namespace has no object of a kind."""
    names = f"$(kubectl -n {runner_namespace(runner_set)} get {kind} -o name)"
    return f'until left={names} && [ -z "$left" ]; do sleep {pause}; done'


def _in_git(clusters: Mapping[str, Cluster], after: str) -> Iterator[str]:
    for name, cluster in clusters.items():
        if cluster.gitops is None:
            continue
        yield f"# {name}: merge the change. Argo CD applies CRDs and controller. Continue when the image's tag is {after}:"
        yield f"kubectl -n {NAMESPACE} get deployment {CONTROLLER} -o jsonpath='{{.spec.template.spec.containers[0].image}}'"
        for runner_set in cluster.runners:
            yield f"kubectl -n {cluster.gitops.namespace} annotate application {runner_namespace(runner_set)} {_SKIP}-"


def releases(name: str, cluster: Cluster) -> Iterator[str]:
    """Logical names of the releases of a cluster's runner sets, as the components give them."""
    for runner_set, runner in cluster.runners.items():
        yield f"{name}-{runner_set}-chart" if isinstance(runner, PodRunner) else f"{name}-{runner_set}-set-chart"
