"""One runner scale set whose runners are OCI machines."""

import json
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_oci as oci

from components.arguments import checked, require, settings, typed
from components.component import PackagedComponent, Resources, Text
from components.generations import Generations
from components.kubernetes.arc_runner_set import GitHubAppArgs
from components.kubernetes.args import GitOpsArgs
from components.kubernetes.scale_set import ScaleSet, ScaleSetArgs, read_app
from components.oci.governance import home_provider
from components.oci.launchers import keep_launchers, launcher_objects
from components.oci.rights import NETWORK, PER_JOB, STANDING, allowed, calls, policy
from fleet.charts.arc import QUICKSTART_ACCOUNT
from fleet.charts.chart import Chart
from fleet.facts.record import Record
from fleet.providers.oke.launcher_set import LAUNCHER, MachineSet, PerJobSet, StandingSet, machine_chart
from fleet.providers.oke.machine.launch import encoded, launcher_config
from fleet.providers.oke.machine.launcher import METRICS_KEY, SET_TAG
from fleet.providers.oke.ocid import ClusterId, SecurityGroupId, SubnetId, located
from fleet.providers.tags import STACK_TAG
from fleet.settings.github import GitHubApp

WORKLOAD_IDENTITY = 12250
"""TCP port beside the API server where OKE exchanges a pod's token for rights in OCI (oracle/oci-python-sdk@474b72dc
src/oci/auth/signers/resource_principals_signer.py). Its address is private: a service's, then the endpoint's."""

_PUSH = "metricsSecurityGroupId"
_PATHS = {"group": "runnerGroup", "capacity": "capacityType"}
_SPAN = {"scale.min": "minRunners", "scale.max": "maxRunners"}
_OF_KIND = {"vm": ("count", "availabilityDomains"), "vm-per-job": ("places", "launcher", "lifetime", *_SPAN.values())}
"""Arguments that only sets of one kind have."""
_OF_OWN_LAUNCHER = ("clusterId", "subnetId", "securityGroupId")
"""Arguments that this project's launcher needs. CNCF's launcher has its own API key, and each of its places names a subnet."""


class MachineImageArgs(TypedDict):
    """The boot image of machines: Ubuntu with NVIDIA's driver."""

    id: str
    """OCID of the image, in `region`."""
    driver: str
    """Version of its driver, such as 580.159.03. The machine checks it at boot."""


class MachinePlaceArgs(TypedDict):
    """Availability domains of one region. Outside of the cluster's region it needs its own network and image."""

    region: str
    """A commercial OCI region, such as us-sanjose-1."""
    availability_domains: list[str]
    """Tried in this order, with the tenancy's prefix, such as abcd:US-SANJOSE-1-AD-1."""
    subnet: NotRequired[str]
    """OCID of the machines' subnet. Default: `subnetId`."""
    security_group: NotRequired[str]
    """OCID of the machines' security group. Default: `securityGroupId`."""
    image: NotRequired[str]
    """OCID of the image there. Default: the image of the set."""


class OciGpuRunnerArgs(TypedDict):
    """Arguments of OciGpuRunner. The component's providers must have the cluster's Kubernetes provider and an OCI provider of
    `region`. With CNCF's launcher it needs only the first.

    The cluster is an enhanced OKE cluster. It must have the controller of ARC (chart gha-runner-scale-set-controller), of the
    same minor version.
    """

    kind: str
    """vm: standing machines, which an instance pool replaces after each job. vm-per-job: one machine for each job."""
    region: str
    """The cluster's OCI region, such as us-sanjose-1."""
    compartment_id: str
    """OCID of the machines' compartment. In a compartment of their own the launchers have no rights on the cluster's nodes."""
    cluster_id: NotRequired[Text]
    """OCID of the OKE cluster. Its launchers get their rights by workload identity. Required unless `launcher` is cncf."""
    subnet_id: NotRequired[Text]
    """OCID of the machines' subnet, which must reach the internet. Required unless `launcher` is cncf."""
    security_group_id: NotRequired[Text]
    """OCID of the security group of the machines. Required unless `launcher` is cncf."""
    metrics_url: NotRequired[str]
    """URL of a gateway for Prometheus remote write, such as http://10.0.255.226:30000/api/v1/write. Machines in `subnetId` push
    the metrics of their GPUs there. Nothing may be secret in it. Default: machines push no metrics."""
    metrics_security_group_id: NotRequired[Text]
    """OCID of a second security group of these machines, which lets them reach the gateway. Required with `metricsUrl`."""
    network_compartment_ids: NotRequired[list[str]]
    """OCIDs of the compartments of subnet and security group. Default: `compartmentId`."""
    home_region: NotRequired[str]
    """The tenancy's home region. OCI accepts policies only there. If it is not `region`, the component creates an OCI provider
    for it, with credentials and settings from the environment. Default: `region`."""
    machine_set_name: NotRequired[str]
    """Value of the free-form tag gpu-ci-set of the machines. No other set in the compartment may have it, because the launcher
    removes machines by it. Default: the component's name."""
    shapes: list[str]
    """GPU shapes, such as VM.GPU.A10.1, tried in this order. Standing machines have one."""
    capacity_type: str
    """on-demand or spot. Standing machines are on-demand."""
    role: str
    """release or burst. Release jobs never run on spot capacity."""
    image: NotRequired[MachineImageArgs]
    """The boot image. Required unless `launcher` is cncf, which finds its own."""
    disk: NotRequired[str]
    """Boot volume of a machine in whole Gi. Default: 400Gi."""
    toolkit: NotRequired[str]
    """Version of NVIDIA's container toolkit packages. Default: the pinned version."""
    nvkind: NotRequired[bool]
    """Whether jobs create kind clusters with GPUs. Installs nvkind, kind, kubectl and helm. Default: true."""
    count: NotRequired[int]
    """Number of standing machines, 1 to 50. Required with kind vm. A later change takes effect by the launchers."""
    availability_domains: NotRequired[list[str]]
    """Availability domains of standing machines. Required with kind vm."""
    places: NotRequired[list[MachinePlaceArgs]]
    """Where a machine is tried: each shape in every place before the next shape. Required with kind vm-per-job."""
    min_runners: NotRequired[int]
    """Machines that wait for jobs, with kind vm-per-job. Default: 0."""
    max_runners: NotRequired[int]
    """Most machines at the same time. Required with kind vm-per-job."""
    lifetime: NotRequired[str]
    """Maximum age of a machine, 10m to 120h, with kind vm-per-job. Its job ends with it. Default: 24h."""
    launcher: NotRequired[str]
    """gpu-ci or cncf, with kind vm-per-job. CNCF's launcher signs with an API key, in the Secrets oci-config and oci-api-key of
    the namespace. Default: gpu-ci."""
    launcher_image: NotRequired[str]
    """Image of the launcher, by version or digest. Default: the pinned one."""
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
    listener_node_selector: NotRequired[dict[str, str]]
    """Labels of the nodes for the listener. Default: any node."""
    launcher_node_selector: NotRequired[dict[str, str]]
    """Labels of the nodes for launchers. Each needs 50m CPU and 128Mi. Default: any node."""
    priority_class: NotRequired[str]
    """PriorityClass of the launchers, which must exist. Default: the cluster's default."""
    namespace: NotRequired[str]
    """Namespace of the set. Default: runners-<runnerScaleSetName>."""
    create_namespace: NotRequired[bool]
    """Whether the component creates the namespace, with a Pod Security Standard: restricted, or baseline for CNCF's launcher.
    Default: true."""
    isolate: NotRequired[bool]
    """Whether the namespace gets a NetworkPolicy, a ResourceQuota and a LimitRange for the launchers. Default: true."""
    closed_networks: NotRequired[list[str]]
    """CIDR blocks that launchers cannot reach, except for workload identity. Default: private, shared and link-local IPv4
    networks."""
    controller_namespace: NotRequired[str]
    """Namespace of ARC's controller. Default: arc-systems, that of GitHub's quickstart."""
    controller_service_account: NotRequired[str]
    """Service account of ARC's controller. Default: arc-gha-rs-controller, that of GitHub's quickstart."""
    manifests: NotRequired[list[dict[str, Any]]]
    """Kubernetes objects that must exist in the namespace before the set, such as an ExternalSecret that creates the Secret."""
    install_chart: NotRequired[bool]
    """Whether the component installs the chart. False if Git has it. Default: true."""
    gitops: NotRequired[GitOpsArgs]
    """Declare an ArgoCD Application instead of a Helm release."""
    tags: NotRequired[dict[str, str]]
    """Free-form tags of all OCI resources, at most 6. Default: only `stackTag`."""
    stack_tag: NotRequired[str]
    """Value of the free-form tag gpu-ci/stack. Default: the name of the stack."""


class Read(Record):
    """What a set is made of, its App with the private key, OCIDs, which are empty for CNCF's launcher, and the stack's record."""

    settings: MachineSet
    github_app: GitHubApp | None
    github_private_key: pulumi.Output[str] | None
    cluster_id: Text = ""
    subnet_id: Text = ""
    security_group_id: Text = ""
    metrics_security_group_id: Text | None = None
    generations: Generations | None = field(default=None, kw_only=True)


class OciGpuRunner(PackagedComponent[Read]):
    """A runner scale set of launchers, and for standing machines (kind vm) their instance pool.

    A launcher signs as its own service account (OKE workload identity), so no dynamic group is necessary. A job has the instance
    principal of its machine, and that one has no rights. With CNCF's launcher the component creates only the scale set: you
    create the launcher's API key and its rights.
    """

    _paths = _PATHS | _SPAN

    runs_on: pulumi.Output[list[str]]
    """Labels that select the set in `runs-on`, its name first."""
    namespace_name: pulumi.Output[str]
    """The set's namespace."""
    instance_pool_id: pulumi.Output[str] | None
    """OCID of the instance pool of standing machines. Missing with kind vm-per-job."""

    def __init__(self, name: str, args: OciGpuRunnerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        own = {"runner_scale_set_name": name, "machine_set_name": name, "controller_service_account": QUICKSTART_ACCOUNT}
        super().__init__(name, {**own, **args}, opts)

    @classmethod
    def read(cls, inputs: dict[str, Any]) -> Read:
        runners = _machine_set(inputs)
        app = read_app(inputs)
        kinds = {"clusterId": ClusterId, "subnetId": SubnetId, "securityGroupId": SecurityGroupId, _PUSH: SecurityGroupId}
        if runners.booted_here:
            encoded(runners, pushes=_PUSH in inputs)  # raises ValueError for user data that is too large
        keys = [key for key in kinds if key in inputs] if runners.booted_here else []
        return Read(runners, *app, *(typed(key, inputs[key], located(kinds[key], runners.region)) for key in keys))

    def declare(self, name: str, args: Read) -> None:
        settings = args.settings
        self._tags = {STACK_TAG: settings.stack_tag or pulumi.get_stack()} | settings.tags
        chart = machine_chart(settings)
        self.instance_pool_id = self._standing(name, settings, args).id if isinstance(settings, StandingSet) else None

        def companions(namespace: Text, parent: pulumi.Resource) -> Resources:
            made: Resources = ()
            if settings.booted_here:
                made = launcher_objects(name, chart, self._config(args), self._rights(name, args, chart), namespace, parent)
            return [*made, keep_launchers(f"{name}-keep", namespace, parent)]

        ports, app = (WORKLOAD_IDENTITY,) if settings.booted_here else (), (args.github_app, args.github_private_key)
        of_set = ScaleSetArgs(chart, settings, app, self._after, companions, private_ports=ports, generations=args.generations)
        runner_set = ScaleSet(f"{name}-set", self._child, of_set)
        self.namespace_name, self.runs_on = runner_set.namespace_name, runner_set.runs_on

    def _standing(self, name: str, settings: StandingSet, args: Read) -> oci.core.InstancePool:
        """The pool `<name>-pool` and its configuration `<name>-machine`: no public address, no SSH key, no agent.

        They wait for what machines need, such as the rules by which they reach the internet. The pool's size is set once. After
        that a machine is detached for each job and the pool makes another; a lower size would end the oldest machine, busy or
        not.
        """
        (shape,), disk, pushes = settings.machines, str(settings.disk // 1024), args.metrics_security_group_id
        tags = self._tags | {SET_TAG: settings.machine_set_name}
        shared: dict[str, Any] = {"compartment_id": settings.compartment_id, "freeform_tags": tags}
        groups = [args.security_group_id, *([pushes] if pushes is not None else [])]
        address = {METRICS_KEY: settings.metrics_url} if settings.metrics_url else {}
        details: oci.core.InstanceConfigurationInstanceDetailsLaunchDetailsArgsDict = {
            **shared,
            "shape": shape.name,
            "source_details": {"source_type": "image", "image_id": settings.image.id, "boot_volume_size_in_gbs": disk},
            "create_vnic_details": {"assign_public_ip": False, "nsg_ids": groups},
            "instance_options": {"are_legacy_imds_endpoints_disabled": True},
            # Only paravirtualized volumes have it, and bare metal boots by iSCSI.
            **({} if shape.bare_metal else {"is_pv_encryption_in_transit_enabled": True}),
            # Its plugins run commands and sign as the instance: a job's machine needs neither.
            "agent_config": {"are_all_plugins_disabled": True, "is_management_disabled": True, "is_monitoring_disabled": True},
            "metadata": {"user_data": encoded(settings, pushes=pushes is not None)} | address,
        }
        instance_details = {"instance_type": "compute", "launch_details": details}
        named, opts = {**shared, "display_name": name}, self._below(*self._after)
        machine = oci.core.InstanceConfiguration(f"{name}-machine", instance_details=instance_details, **named, opts=opts)
        subnets = {"subnet_id": args.subnet_id}
        places = [{"availability_domain": one, "primary_vnic_subnets": subnets} for one in settings.availability_domains]
        of = {**named, "size": settings.count, "opts": self._below(*self._after, ignore_changes=["size"])}
        return oci.core.InstancePool(f"{name}-pool", instance_configuration_id=machine.id, placement_configurations=places, **of)

    def _config(self, args: Read) -> pulumi.Output[str]:
        """The launcher's config as JSON, once the ids in it are known."""
        settings = args.settings
        where = {"compartment": settings.compartment_id, "region": settings.region}
        of: dict[str, Any] = {**where, "metrics_url": settings.metrics_url, "tags": self._tags}
        config = partial(launcher_config, settings.machine_set_name, settings, **of)
        groups = {"security_group": args.security_group_id, "metrics_group": args.metrics_security_group_id}
        late = pulumi.Output.all(subnet=args.subnet_id, pool=self.instance_pool_id, **groups)
        return late.apply(lambda ids: json.dumps(config(**ids), indent=2))

    def _rights(self, name: str, args: Read, chart: Chart) -> list[oci.identity.Policy]:
        """A policy in the compartment of the machines, and one in each other compartment of their network."""
        settings = args.settings
        home = home_provider(name, settings.home_region, settings.region, self._child)
        cluster: pulumi.Output[str] = pulumi.Output.from_input(args.cluster_id)
        permissions = STANDING if isinstance(settings, StandingSet) else PER_JOB
        network = [permission for permission in permissions if permission in NETWORK]
        elsewhere = [where for where in dict.fromkeys(settings.network_compartment_ids) if where != settings.compartment_id]
        rights: dict[str, tuple[str, Sequence[str]]] = {f"{name}-rights": (settings.compartment_id, permissions)}
        rights |= {f"{name}-network-rights-{index}": (where, network) for index, where in enumerate(elsewhere)}
        why = f"The launchers of runner set {settings.machine_set_name} make and remove its machines"
        made, opts = list[oci.identity.Policy](), self._below(*self._after, provider=home)
        for logical_name, (where, needed) in rights.items():
            statements = cluster.apply(partial(allowed, chart.namespace, LAUNCHER, [calls(needed)], where))
            made.append(policy(logical_name, statements, where, why, self._tags, opts))
        return made


def _machine_set(inputs: dict[str, Any]) -> MachineSet:
    """The settings of a set from its inputs. Raises InputPropertyError for the first broken rule."""
    kind = inputs["kind"]
    checked("kind", kind, _OF_KIND.__contains__, f"must be {' or '.join(_OF_KIND)}; write one of them")
    for only, keys in _OF_KIND.items():
        for key in keys:
            require(only == kind or key not in inputs, key, f"only a set of kind {only} has this argument; remove it")
    runners: MachineSet
    if kind == "vm":
        runners = settings(StandingSet, inputs, _PATHS)
    else:
        require("maxRunners" in inputs, "maxRunners", "required argument is missing; add it")
        runners = settings(PerJobSet, inputs, _PATHS | _SPAN)
    for key in _OF_OWN_LAUNCHER:
        require(not runners.booted_here or key in inputs, key, "this project's launcher needs it; add it")
    pushes = runners.metrics_url is not None
    require(runners.booted_here or not pushes, "metricsUrl", "CNCF's launcher cannot pass it to its machines; remove it")
    key = "metricsSecurityGroupId"
    require(pushes == (key in inputs), key, "it goes with metricsUrl; give both or neither")
    return runners
