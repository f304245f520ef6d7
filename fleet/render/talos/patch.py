"""What a machine is told beyond what its config's generator writes, as the release wants it said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.facts.scheduling import Taint
from fleet.providers.talos.release import has_documents

Document = dict[str, Any]

_API = "v1alpha1"
_CRI_PART = "/etc/cri/conf.d/20-customization.part"
"""The one file outside /var that Talos up to 1.13 lets a config create (siderolabs/talos v1.13.9 v1alpha1_sequencer_tasks.go)."""
_CRI_NAME = "nvidia-default-runtime"
_DELETED = {"$patch": "delete"}
"""Has Talos' strategic merge remove a part. talhelper takes it for a variable, so no file that talhelper reads has it."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A machine's part of a config, in no release's words.

    `runtime` is containerd's default one. `policies` has Flannel enforce NetworkPolicies, `no_network` leaves the network to
    another; `takes_pods` keeps a control plane without its taint.
    """

    hostname: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taint: Taint | None = None
    kernel_modules: tuple[str, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    runtime: str = ""
    policies: bool = False
    no_network: bool = False
    takes_pods: bool = False

    def documents(self, talos_version: str) -> tuple[Document, ...]:
        """The patch for a Talos minor; nothing where there is nothing to say."""
        return (*self._host(), *(self._documents() if has_documents(talos_version) else self._fields()))

    def _host(self) -> Iterator[Document]:
        """As every release that is pinned has it."""
        if self.hostname:
            # Without `auto: off` it conflicts with the name that the generator has Talos make up.
            yield document("HostnameConfig", auto="off", hostname=self.hostname)

    def _fields(self) -> Iterator[Document]:
        """As fields of the v1alpha1 config, which Talos has up to 1.13."""
        machine: Document = {}
        if self.kernel_modules:
            machine["kernel"] = {"modules": [{"name": name} for name in self.kernel_modules]}
        if self.sysctls:
            machine["sysctls"] = dict(self.sysctls)
        if self.runtime:
            machine["files"] = [{"path": _CRI_PART, "op": "create", "content": _default_runtime(self.runtime)}]
        if self.taint is not None:
            # nodeTaints of a worker is refused by NodeRestriction, and its labels with it (siderolabs/talos#8193, #10935).
            taint = {"key": self.taint.key, "value": self.taint.value, "effect": str(self.taint.effect)}
            machine["kubelet"] = {"extraConfig": {"registerWithTaints": [taint]}}
        if self.labels:
            machine["nodeLabels"] = dict(self.labels)
        cluster: Document = {}
        if self.policies:
            cluster["network"] = {"cni": {"name": "flannel", "flannel": {"kubeNetworkPoliciesEnabled": True}}}
        if self.no_network:
            cluster["network"] = {"cni": {"name": "none"}}
        if self.takes_pods:
            cluster["allowSchedulingOnControlPlanes"] = True
        if found := {key: part for key, part in (("machine", machine), ("cluster", cluster)) if part}:
            yield found

    def _documents(self) -> Iterator[Document]:
        """As documents, which Talos has from 1.14 on. There kubelet registers with the taint of `KubeNodeConfig`."""
        for name in self.kernel_modules:
            yield document("KernelModuleConfig", name=name)
        if self.sysctls:
            yield document("SysctlConfig", params=dict(self.sysctls))
        if self.runtime:
            yield document("CRICustomizationConfig", name=_CRI_NAME, content=_default_runtime(self.runtime))
        node: Document = {}
        if self.labels:
            node["labels"] = dict(self.labels)
        if self.taint is not None:
            node["taints"] = {self.taint.key: f"{self.taint.value}:{self.taint.effect}"}
        if self.takes_pods:
            # talosctl gen config writes the control plane's taint, and has no option that would leave it out.
            node["taints"] = _DELETED
        if node:
            yield document("KubeNodeConfig", **node)
        if self.policies:
            yield document("KubeFlannelCNIConfig", kubeNetworkPoliciesEnabled=True)
        if self.no_network:
            yield document("KubeFlannelCNIConfig", **_DELETED)


def document(kind: str, **parts: Any) -> Document:
    """A document of Talos' config besides the v1alpha1 one."""
    return {"apiVersion": _API, "kind": kind} | parts


def _default_runtime(name: str) -> str:
    """containerd's config, plugin as of containerd 2 (seed 004; siderolabs/docs v1.13 nvidia-gpu.mdx)."""
    plugin = '"io.containerd.cri.v1.runtime"'
    return f'[plugins]\n  [plugins.{plugin}]\n    [plugins.{plugin}.containerd]\n      default_runtime_name = "{name}"\n'
