"""What the chart of a runner set is made of. The chart, and the component that installs it, read these settings."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import Field

from fleet.charts.arc import CONTROLLER, GRACE, LISTENER, NAMESPACE, controller_of, runner_pod
from fleet.charts.chart import Chart, fixed, manifests, resources
from fleet.charts.container_jobs import job_template, own_pod, step_template
from fleet.charts.enablement import Tolerations
from fleet.facts import scheduling
from fleet.facts.pods import Level
from fleet.settings.cluster import Cluster
from fleet.settings.container_jobs import MAX_SET_NAME as MAX_WITH_CONTAINERS
from fleet.settings.egress import CLOSED, LINK_LOCAL, within
from fleet.settings.existing import ServiceAccount
from fleet.settings.github import APP_SECRET, DEFAULT_SCOPE, GitHub, ScopeUrl
from fleet.settings.gitops import GitOps, ObjectName
from fleet.settings.model import Cidr, DnsLabel, Duration, LabelKey, LabelValue
from fleet.settings.namespaces import JOBS, runner_namespace
from fleet.settings.refusals import matching, refusal, refuse, refuse_if
from fleet.settings.runner import MAX_SET_NAME, PodRunner, Runner, RunnerPod, SetName

_CHART = "gha-runner-scale-set"
_WAVE = 5
"""The sets come after all controllers and after the secrets that they need (`WAVE_OF_SECRETS`)."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_GITHUB, _SUFFIX = "https://github.com/", len("-3fa9c1")
IDLE: Mapping[str, Any] = MappingProxyType({"minRunners": 0, "maxRunners": 0})
"""Values of a set that takes no job. Both may be 0 (ARC 0.14.2, autoscalingrunnerset_types.go)."""


class SetSettings(Runner):
    """What runner sets of every kind find in their cluster, and how they are installed."""

    github_url: ScopeUrl
    github_secret: ObjectName = APP_SECRET
    runner_scale_set_name: SetName
    listener_node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    priority_class: str = ""
    namespace: DnsLabel | None = None
    create_namespace: bool = True
    isolate: bool = True
    closed_networks: tuple[Cidr, ...] = CLOSED
    controller_namespace: DnsLabel = NAMESPACE
    controller_service_account: ServiceAccount = CONTROLLER
    manifests: tuple[dict[str, Any], ...] = ()
    install_chart: bool = True
    gitops: GitOps | None = None

    @property
    def home(self) -> str:
        """The namespace of the runners."""
        return self.namespace or runner_namespace(self.runner_scale_set_name)

    def scale_set(
        self,
        pod: dict[str, Any],
        *,
        level: Level = "restricted",
        annotations: Mapping[str, str] = _NOTHING,
        more: Mapping[str, Any] = _NOTHING,
        declares_minimum: bool = True,
    ) -> Chart:
        """A runner scale set. ARC starts a pod for each job: `pod` is its spec, `annotations` are its own.

        `level` is the Pod Security Standard of its namespace. `more` are further values of the chart. `declares_minimum` is false
        if a sweep sets `minRunners`: neither Helm nor ArgoCD then owns the field, so no update reverts it.
        """
        name, priority = self.runner_scale_set_name, {"priorityClassName": self.priority_class} if self.priority_class else {}
        of_set = {"url": self.github_url, "secret": self.github_secret, "name": name, "labels": list(self.labels)}
        size = {"least": self.span.min if declares_minimum else None, "most": self.span.max}
        group = self.group or "default"
        controller = {"controller": self.controller_service_account, "home": self.controller_namespace}
        of_pod = {"annotations": {scheduling.SAFE_TO_EVICT: "false", **annotations}, "pod": priority | pod}
        listener = {"selector": dict(self.listener_node_selector), "sizes": resources(LISTENER)}
        values = fixed(_CHART, **of_set, **size, group=group, **controller, **of_pod, **listener) | dict(more)
        folder = f"infrastructure/runners/{name}"
        return Chart(_CHART, name, self.home, values, (LISTENER,), folder, _WAVE, (CONTROLLER,), level)


def moves_beside(url: str, name: str, runner: Runner) -> bool:
    """Whether a set may be registered again under another name, with the class's name as a label (docs/runner-set-changes.md).

    Only of github.com is it known that jobs reach a set by one of its labels. The longer name must fit, too. The machines of a
    set have its name.
    """
    most = MAX_WITH_CONTAINERS if runner.needs_container else MAX_SET_NAME
    return isinstance(runner, RunnerPod) and url.lower().startswith(_GITHUB) and len(name) + _SUFFIX <= most


def generation(chart: Chart, suffix: str) -> Chart:
    """A set's chart under the name of a generation. One with a suffix has the name of its class as its first label.

    All objects of the chart have the name of the set in theirs, so two generations fit in one namespace.
    """
    if not suffix:
        return chart
    name = f"{chart.name}{suffix}"
    labels = [chart.name, *chart.values["scaleSetLabels"]]
    return replace(chart, name=name, values=chart.values | {"runnerScaleSetName": name, "scaleSetLabels": labels})


def of_cluster(cluster: Cluster, name: str, runner: Runner, github: GitHub) -> dict[str, Any]:
    """The fields that a set of every kind has from its cluster."""
    scope_name, controller = cluster.scope_of(runner), controller_of(cluster)
    scope = github.every[scope_name]
    # Runners that may land in a pool with placeholders may end those.
    preempts = isinstance(runner, PodRunner) and any(cluster.pools[pool].placeholders for pool in runner.ordered)
    of_set: dict[str, Any] = {
        "github_url": scope.url,
        "group": runner.group or scope.group,
        "runner_scale_set_name": name,
        "listener_node_selector": dict(cluster.system_selector),
        "priority_class": (scheduling.PREEMPTING_PRIORITY if preempts else scheduling.RUNNER_PRIORITY).name,
        "closed_networks": cluster.closed_networks,
    }
    if scope_name != DEFAULT_SCOPE and not cluster.by_git:
        # ARC deletes a set that changes its scope with the old App's key. So both Secrets must exist for a moment.
        of_set["github_secret"] = f"{APP_SECRET}-{scope_name}"
    if (controller.namespace, controller.service_account) != (NAMESPACE, CONTROLLER):
        of_set |= {"controller_namespace": controller.namespace, "controller_service_account": controller.service_account}
    return of_set


_AMOUNT = r"[0-9]+(\.[0-9]+)?"
_Price = Annotated[str, matching("usd_per_hour", rf"{_AMOUNT}(-{_AMOUNT})?")]


class PodSet(RunnerPod, SetSettings):
    """A set whose runners are pods."""

    gpu_resource: Annotated[str, Field(min_length=1)] = scheduling.GPU_RESOURCE
    mounts_shm: bool = True
    node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    node_selectors: tuple[Annotated[dict[LabelKey, LabelValue], Field(min_length=1)], ...] = ()
    tolerations: Tolerations = (scheduling.GPU_TOLERATION,)
    runtime_class: str = ""
    usd_per_hour: _Price | None = None
    per_node: Annotated[int, Field(ge=1)] = 1
    open_networks: tuple[Cidr, ...] = ()
    builders: tuple[DnsLabel, ...] = ()
    declare_min_runners: bool = True
    runner_node_selector: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    runner_tolerations: Tolerations = ()
    prepare_timeout: Duration = 600
    job_deadline: Duration | None = None

    @refusal
    def _one_choice_of_nodes(self) -> None:
        """Refuse both ways to name nodes at once."""
        refuse("nodeSelectors", two_selectors=self.node_selector and self.node_selectors)

    @refusal
    def _no_app_for_jobs(self) -> None:
        """Refuse that jobs read the Secret of the App, whatever its name."""
        refuse_if("app_for_jobs", self.reads(self.github_secret), at=("githubSecret",), value=self.github_secret)

    @property
    def opens(self) -> tuple[str, ...]:
        """As in the base class: the open networks that are the node's own."""
        return tuple(network for network in self.open_networks if within(network, (LINK_LOCAL,)))

    @property
    def job(self) -> dict[str, Any]:
        """The spec of the pod that has the GPUs of a job, on the nodes of one of the selectors, the first choice first."""
        tolerations = self.tolerations if self.gpus or "tolerations" in self.model_fields_set else (scheduling.CPU_TOLERATION,)
        pod = runner_pod(self, tolerations, self.gpu_resource, self.mounts_shm, self.usd_per_hour or "")
        placed = scheduling.node_choice(self.node_selectors or [self.node_selector]) | pod
        if self.fill_nodes:
            placed["affinity"] = placed.get("affinity", {}) | scheduling.near_runners()
        return placed | ({"runtimeClassName": self.runtime_class} if self.runtime_class else {})

    @property
    def jobs_home(self) -> str:
        """The namespace of the jobs' pods, if jobs run in containers."""
        return f"{self.home}{JOBS}"

    @property
    def templates(self) -> dict[str, dict[str, Any]]:
        """The templates of the pods that GitHub's hooks make, by the names of their files."""
        pod = ({"priorityClassName": self.priority_class} if self.priority_class else {}) | self.job
        most = self.job_deadline
        return {scheduling.JOB_TEMPLATE: job_template(pod, self, most), scheduling.STEP_TEMPLATE: step_template(pod, self, most)}

    @property
    def chart(self) -> Chart:
        """The chart. The runner's pod is that of its job, unless jobs run in containers."""
        pod = self.job
        if self.in_containers:
            own = own_pod(self, self.jobs_home, self.prepare_timeout)
            pod = scheduling.node_choice([self.runner_node_selector]) | own | {"terminationGracePeriodSeconds": GRACE}
            pod |= {"tolerations": manifests(self.runner_tolerations)}
        waiting, values = scheduling.per_node_annotation(self.per_node), self.scale_set_values
        return self.scale_set(pod, annotations=waiting, more=values, declares_minimum=self.declare_min_runners)
