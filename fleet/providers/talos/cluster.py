"""Settings of a Talos cluster on your own machines, which ArgoCD syncs from Git."""

import ipaddress
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from fleet.facts import versions
from fleet.facts.lifecycle import Use, of_kubernetes, of_row
from fleet.facts.remark import said, todo
from fleet.facts.versions import minor
from fleet.providers.talos.nodes import ControlPlane, Host, TalosPool, TalosSystem, ip_address
from fleet.providers.talos.release import has_documents
from fleet.settings.cluster import Cluster
from fleet.settings.egress import within
from fleet.settings.enablement import GPU_OPERATOR, Enablement
from fleet.settings.existing import no_caches
from fleet.settings.gitops import ByProgram, ExternalSecrets, GitOps, GitSecrets
from fleet.settings.machines import WithMachines
from fleet.settings.model import DnsLabel, QuotedText, without
from fleet.settings.refusals import matching, problem, refusal, refuse, refuse_if
from fleet.settings.runner import PodRunner, SetName

_OPERATOR_FROM = (1, 13)
"""The first Talos release on which NVIDIA supports its operator (NVIDIA/gpu-operator#2731)."""
_POLICIES_FROM = (1, 13)
"""The first Talos release whose Flannel can enforce NetworkPolicies (siderolabs/talos v1.13.9, v1alpha1_types.go)."""


_PORT = r"([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
_ENDPOINT = matching("talos_endpoint", rf"https://([A-Za-z0-9.-]+|\[[0-9a-f:]+\]):{_PORT}")


_NO_CACHES = no_caches("talos_cache")


class TalosCluster(Cluster, WithMachines):
    """A Talos cluster: control plane, system nodes, GPU machines. `pulumi up` does not deploy it; ArgoCD does."""

    model_config = ConfigDict(json_schema_extra=without("budget", "caches"))

    SECRETS_BY: ClassVar[GitSecrets] = ExternalSecrets()
    SELLS_VOLUMES: ClassVar[bool] = False
    SIGNED_KUBELETS: ClassVar[bool] = False
    """On Talos a kubelet signs its own certificate, unless rotate-server-certificates is set and a controller approves its
    requests (docs.siderolabs.com, Deploy Metrics Server)."""

    provider: Literal["talos"]
    """Machines of your own with Talos Linux. `make render` writes their configuration, and ArgoCD installs the charts
    (docs/talos.md)."""
    region: Annotated[str, Field(min_length=1)] = "home"
    """A name for the place of the machines. No cloud reads it. Example: `garage`"""
    talos_version: QuotedText = "1.13"
    """Talos minor version, in quotes. Its release is pinned in fleet/facts/data/versions.toml. Mark: first."""
    endpoint: Annotated[str, _ENDPOINT]
    """URL of the Kubernetes API, with the address of a control-plane host, or an address that all of them share."""
    control_plane: ControlPlane
    """The hosts of etcd and of the API server."""
    system: TalosSystem = TalosSystem()
    """CPU hosts for controllers, listeners and CoreDNS. Default: the control plane runs them too."""
    cni: Literal["flannel", "none"] = "flannel"
    """`flannel` is Talos' own network plugin. Write `none` if you install another one, such as Cilium. Example: `none`"""
    enablement: Enablement = "gpu-operator"
    """What advertises the GPUs of the nodes to Kubernetes: NVIDIA's device plugin or NVIDIA's GPU operator (docs/layers.md).
    Example: `device-plugin`"""
    delivery: Literal["argocd"] = "argocd"
    """Always `argocd`: the program has no access to the cluster."""
    gitops: GitOps
    """The Git repository that ArgoCD reads."""
    caches: Annotated[dict[DnsLabel, Any], _NO_CACHES] = Field(default_factory=dict)
    pools: dict[DnsLabel, TalosPool] = Field(default_factory=dict)
    runners: dict[SetName, PodRunner]

    @property
    def release(self) -> versions.TalosVersion:
        """The Talos release."""
        return versions.TALOS[self.talos_version]

    @property
    def kubernetes(self) -> str:
        """The Kubernetes release that Talos installs."""
        return versions.TALOS_KUBERNETES[self.kubernetes_version]

    @property
    def enforces_policies(self) -> bool:
        """Whether Talos' own network plugin enforces NetworkPolicies."""
        return self.cni == "flannel" and minor(self.talos_version) >= _POLICIES_FROM

    @property
    def node_features(self) -> tuple[str, ...]:
        """With network policies Flannel's pod has a second container."""
        return ("network-policies",) if self.enforces_policies else ()

    @property
    def _endpoint_host(self) -> str:
        return self.endpoint.removeprefix("https://").rpartition(":")[0].strip("[]")

    @property
    def closed_networks(self) -> tuple[str, ...]:
        """The private networks, and the machines' own addresses in case these are public. Jobs must not reach either."""
        addresses = [ipaddress.ip_address(host.address) for _, _, host in self.hosts()]
        if (shared := ip_address(self._endpoint_host)) is not None:
            addresses.append(shared)
        own_networks = dict.fromkeys(f"{address}/32" for address in addresses if address.version == 4)
        closed = super().closed_networks
        return (*closed, *(network for network in own_networks if not within(network, closed)))

    def holdings(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """As in the base class, and the hosts and addresses of the machines."""
        yield from super().holdings()
        yield ("endpoint",), f"the endpoint {self.endpoint} in {self.region}"
        for path, name, host in self.hosts():
            yield path, f"a host {name} in {self.region}"
            yield (*path, "address"), f"the address {host.address} in {self.region}"

    def uses(self) -> Iterator[Use]:
        """The Talos release and the Kubernetes minor that it installs."""
        yield Use(of_row(f"Talos {self.release.release}", "talos", self.talos_version), "raise talosVersion (docs/talos.md)")
        if (life := of_kubernetes(self.kubernetes_version)) is not None:
            yield Use(life, "raise kubernetesVersion (docs/talos.md)")

    def image_driver(self, pool: str) -> str | None:
        """Driver version of the pool's system extensions."""
        return self.release.drivers[self.pools[pool].driver.tier]

    def hosts(self) -> Iterator[tuple[tuple[str, ...], str, Host]]:
        """(path, name, host) of every machine: control plane, system, GPU pools."""
        yield from ((("controlPlane", "hosts", name), name, host) for name, host in self.control_plane.hosts.items())
        yield from ((("system", "hosts", name), name, host) for name, host in self.system.hosts.items())
        for pool_name, pool in self.pools.items():
            yield from ((("pools", pool_name, "nodes", "hosts", name), name, host) for name, host in pool.nodes.hosts.items())

    def _remarks(self) -> Iterator[str]:
        """Warnings about valid settings: pre-releases, network policies."""
        yield from super()._remarks()
        host_addresses = {host.address for host in self.control_plane.hosts.values()}
        if (shared := ip_address(self._endpoint_host)) is not None and str(shared) not in host_addresses:
            yield todo(said("talos_endpoint", address=shared))
        if "-" in self.release.release:
            yield f"talosVersion: {self.release.release} is a pre-release, the newest release whose source was checked"
        if has_documents(self.talos_version):
            # That talhelper was built with the documents of 1.14.0-alpha.2.
            yield said("talhelper", talos=self.talos_version)
        if self.cni == "flannel" and not self.enforces_policies:
            yield said("flannel", talos=self.talos_version)
        if self.cni == "none":
            yield todo(said("cni_none"))

    @refusal
    def _versions_fit(self) -> None:
        """Refuse a Talos release that is not pinned, and a Kubernetes version that it does not support."""
        if self.talos_version not in versions.TALOS:
            raise problem("talos_version", at=("talosVersion",), talos=", ".join(versions.TALOS))
        oldest, newest = map(minor, self.release.kubernetes)
        releases = [release for release in versions.TALOS_KUBERNETES if oldest <= minor(release) <= newest]
        if self.kubernetes_version not in releases:
            raise problem("talos_kubernetes", at=("kubernetesVersion",), talos=self.talos_version, releases=", ".join(releases))

    @refusal
    def _hosts_once(self) -> None:
        """Refuse a host name or an address given twice: Talos would configure one machine as two."""
        names = Counter(name for _, name, _ in self.hosts())
        addresses = Counter(host.address for _, _, host in self.hosts())
        for path, name, host in self.hosts():
            refuse_if("host_twice", names[name] > 1, at=path, value=name)
            refuse_if("address_twice", addresses[host.address] > 1, at=(*path, "address"), value=host.address)

    @refusal
    def _own_machines(self) -> None:
        """Refuse settings that only clouds have, such as budgets and quotas, and secrets that only `pulumi up` could write."""
        for key, value in (("budget", self.budget), ("declareQuotas", self.declare_quotas), ("protect", self.protect)):
            refuse_if("talos_cloud", value, at=(key,), key=key)
        refuse("gitops", "secrets", "by", talos_secrets=isinstance(self.gitops.secrets, ByProgram))

    @refusal
    def _talos_enablement(self) -> None:
        """Refuse pools and an enablement that do not fit each other, and a Talos release that the operator does not support."""
        if self.enablement == GPU_OPERATOR and minor(self.talos_version) < _OPERATOR_FROM:
            raise problem("talos_operator", at=("enablement",), value=self.enablement, talos_version=self.talos_version)
        self._require_enablement(driver_at=lambda name, _: ("pools", name, "driver", "tier"))
