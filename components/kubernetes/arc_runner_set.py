"""One runner scale set whose runners are pods. Workflows use it with `runs-on`."""

from typing import Any, NotRequired, TypedDict

import pulumi

from components.arguments import settings
from components.component import PackagedComponent, Text
from components.generations import Generations
from components.kubernetes import args as shared
from components.kubernetes.scale_set import ScaleSetArgs, read_app, scale_set
from fleet.charts.arc import QUICKSTART_ACCOUNT
from fleet.charts.runner_sets import PodSet
from fleet.facts.record import Record
from fleet.render.container_jobs import WALLS, container_jobs
from fleet.render.isolation import API_PORTS
from fleet.render.kept_jobs import kept_jobs
from fleet.settings.github import GitHubApp


class GitHubAppArgs(TypedDict):
    """The GitHub App that registers the runners."""

    app_id: str
    """Id of the App, digits."""
    installation_id: str
    """Id of its installation in the organization, digits."""


class ArcRunnerSetArgs(TypedDict):
    """Arguments of ArcRunnerSet. The component's providers must have the cluster's Kubernetes provider.

    The cluster must have the controller of ARC (chart gha-runner-scale-set-controller), of the same minor version.
    """

    github_url: str
    """URL of the organization or repository."""
    github_app: NotRequired[GitHubAppArgs]
    """The App whose Secret the component creates. Default: the namespace has the Secret `githubSecret`."""
    github_private_key: NotRequired[Text]
    """Private key of `githubApp` in PEM format. The component marks it as secret. Required with `githubApp`."""
    github_secret: NotRequired[str]
    """Name of the Secret with the App's ids and key. Default: github-app."""
    runner_scale_set_name: NotRequired[str]
    """Name of the set, of its release, and its first label. At most 45 characters. Default: the component's name."""
    labels: NotRequired[list[str]]
    """More labels for runs-on. A change replaces the release."""
    runner_group: NotRequired[str]
    """Runner group on GitHub, which must exist. Default: default."""
    min_runners: NotRequired[int]
    """Runners that wait for jobs. Default: 0."""
    declare_min_runners: NotRequired[bool]
    """Whether the set declares `minRunners`: false if another program changes it by the hour. Default: true."""
    max_runners: int
    """Most runners at the same time."""
    gpus: NotRequired[int]
    """GPUs of a runner, or units of `gpuResource`; 0 for nodes without GPUs, whose taint gpu-ci/cpu is then tolerated by default.
    Default: 1."""
    gpu_resource: NotRequired[str]
    """The extended resource that the nodes advertise. Default: nvidia.com/gpu."""
    cpu: shared.SpanArgs
    """CPU of a runner, in cores ("4") or millicores ("500m")."""
    memory: shared.SpanArgs
    """Memory of a runner, in Mi or Gi ("16Gi")."""
    shm: NotRequired[str]
    """Size of /dev/shm. It counts against the memory limit. Default: 2Gi."""
    mounts_shm: NotRequired[bool]
    """Whether a runner mounts its own /dev/shm: false on nodes with MPS, whose device plugin mounts it. Default: true."""
    scratch: NotRequired[str]
    """Ephemeral storage for the workspace of a job. Default: 20Gi."""
    image: NotRequired[str]
    """Image of the runner, by version or digest. Default: GitHub's runner of the pinned version."""
    keep_failed: NotRequired[shared.KeepFailedArgs]
    """Keep the pod of a failed job for some minutes. Not with `containers: job`. Default: no pod stays."""
    fill_nodes: NotRequired[bool]
    """Whether a runner prefers the node with the most runners. Not with `containers: job`. Default: false."""
    env: NotRequired[dict[str, str]]
    """Environment variables of every job, no credentials. Default: none."""
    secret_env: NotRequired[dict[str, shared.SecretValueArgs]]
    """Environment variables whose values are in Secrets of the namespace. Default: none."""
    pull_secrets: NotRequired[list[str]]
    """Names of Secrets in the namespace with which nodes pull the image. Default: none."""
    service_account: NotRequired[str]
    """Service account of the runners, which must exist. Jobs get no token of it. Default: the chart's own."""
    proxy: NotRequired[shared.ProxyArgs]
    """HTTP proxy of listener and jobs. Default: none."""
    ca_bundle: NotRequired[shared.CaBundleArgs]
    """Certificates that listener and jobs trust. Default: those of the image."""
    template: NotRequired[shared.TemplateArgs]
    """More of the runner's pod: other containers, their volumes, names. Default: none."""
    volumes: NotRequired[dict[str, shared.ExtraVolumeArgs]]
    """Volumes of each runner besides /dev/shm, by name. Default: none."""
    containers: NotRequired[str]
    """`job` for jobs with `container`, each in a pod of its own in the namespace <namespace>-jobs, or `none`. Default: none."""
    services: NotRequired[shared.ServicesArgs]
    """Number and size of the services of a job in a container. Default: at most 2, each of 250m and 512Mi."""
    pod_security: NotRequired[str]
    """Pod Security Standard of the jobs' pods: baseline or restricted. Only with `containers: job`. Default: baseline."""
    runner_node_selector: NotRequired[dict[str, str]]
    """Labels of the nodes for the runners' own pods, with `containers: job`. Default: any node."""
    runner_tolerations: NotRequired[list[shared.TolerationArgs]]
    """Tolerations of the runners' own pods, with `containers: job`. Default: none."""
    prepare_timeout: NotRequired[str]
    """How long a runner waits until the pod of its job runs, with `containers: job`. Default: 10m."""
    job_deadline: NotRequired[str]
    """How long the pod of a job may run, with `containers: job`. Default: without end."""
    node_selector: NotRequired[dict[str, str]]
    """Labels of the nodes for runners. Default: any node."""
    node_selectors: NotRequired[list[dict[str, str]]]
    """Labels of several kinds of nodes for runners, the first choice first, instead of `nodeSelector`. Default: none."""
    tolerations: NotRequired[list[shared.TolerationArgs]]
    """Tolerations of the runners. Default: nvidia.com/gpu, Exists, NoSchedule."""
    runtime_class: NotRequired[str]
    """RuntimeClass that a pod must name to get GPUs. Default: none."""
    usd_per_hour: NotRequired[str]
    """USD per hour of a runner's part of its node, "0.376" or "0.188-0.376". Jobs read GPU_CI_USD_PER_HOUR. Default: unknown."""
    per_node: NotRequired[int]
    """How many runners that wait a node holds, for the policies that price them. Default: 1."""
    listener_node_selector: NotRequired[dict[str, str]]
    """Labels of the nodes for the listener. Default: any node."""
    priority_class: NotRequired[str]
    """PriorityClass of the runners, which must exist. Default: the cluster's default."""
    namespace: NotRequired[str]
    """Namespace of the set. Default: runners-<runnerScaleSetName>."""
    create_namespace: NotRequired[bool]
    """Whether the component creates the namespace, with the Pod Security Standard restricted. Default: true."""
    isolate: NotRequired[bool]
    """Whether the namespace gets a NetworkPolicy, a ResourceQuota and a LimitRange for the runners. Default: true."""
    closed_networks: NotRequired[list[str]]
    """CIDR blocks that jobs cannot reach. Default: private, shared and link-local IPv4 networks."""
    open_networks: NotRequired[list[str]]
    """CIDR blocks inside the closed ones that jobs can reach. Default: none."""
    builders: NotRequired[list[str]]
    """Namespaces of BuildKit that jobs can reach, at port 1234. Default: none."""
    controller_namespace: NotRequired[str]
    """Namespace of ARC's controller. Default: arc-systems, that of GitHub's quickstart."""
    controller_service_account: NotRequired[str]
    """Service account of ARC's controller. Default: arc-gha-rs-controller, that of GitHub's quickstart."""
    manifests: NotRequired[list[dict[str, Any]]]
    """Kubernetes objects that must exist in the namespace before the set, such as an ExternalSecret that creates the Secret."""
    install_chart: NotRequired[bool]
    """Whether the component installs the chart. False if Git has it. Default: true."""
    gitops: NotRequired[shared.GitOpsArgs]
    """Declare an ArgoCD Application instead of a Helm release."""


_NAMES = {"group": "runnerGroup", "scale.min": "minRunners", "scale.max": "maxRunners"}


class Read(Record):
    """What a set is made of, its App with the private key, and the generations that the stack records."""

    settings: PodSet
    github_app: GitHubApp | None
    github_private_key: pulumi.Output[str] | None
    generations: Generations | None = None


class ArcRunnerSet(PackagedComponent[Read]):
    """A scale set of ephemeral, unprivileged runners in its own namespace, with the GitHub App's Secret."""

    _paths = _NAMES

    runs_on: pulumi.Output[list[str]]
    """Labels that select the set in `runs-on`, its name first."""
    namespace_name: pulumi.Output[str]
    """The set's namespace."""

    def __init__(self, name: str, args: ArcRunnerSetArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, {"runner_scale_set_name": name, "controller_service_account": QUICKSTART_ACCOUNT, **args}, opts)

    @classmethod
    def read(cls, inputs: dict[str, Any]) -> Read:
        return Read(settings(PodSet, inputs, cls._paths), *read_app(inputs))

    def declare(self, name: str, args: Read) -> None:
        pods, app = args.settings, (args.github_app, args.github_private_key)
        jobs = [*(entry for entry in container_jobs(pods) if pods.isolate or entry["kind"] not in WALLS), *kept_jobs(pods)]
        # Runners whose jobs have pods of their own call the API server. No step runs beside them.
        ports = API_PORTS if pods.in_containers else ()
        reach: dict[str, Any] = {"opened": pods.open_networks, "private_ports": ports, "builders": pods.builders}
        of_set = ScaleSetArgs(pods.chart, pods, app, self._after, **reach, jobs=jobs, generations=args.generations)
        self.runs_on = scale_set(name, of_set, parent=self)
        self.namespace_name = pulumi.Output.from_input(of_set.chart.namespace)
