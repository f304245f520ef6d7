"""The runner classes of an OKE cluster, selected by `kind`: pods of a pool, standing machines, and one machine per job."""

from typing import Annotated, Any

from pydantic import Discriminator, Tag

from fleet.providers.oke.vm_runner import VmPerJobRunner, VmRunner
from fleet.settings.refusals import Reason, refusal, refuse
from fleet.settings.runner import KINDS, PodRunner


class OkePodRunner(PodRunner):
    """A runner scale set whose runners are pods of an OKE cluster.

    OKE enforces no NetworkPolicy (docs.oracle.com, installing Calico and setting up network policies). A job therefore reaches
    the VCN, other namespaces and the nodes, and the owner has to accept that. The nodes close their metadata by themselves.
    """

    accept_unenforced_network: Reason | None = None
    """Why you accept that the network isolation of pods is not enforced on OKE, in words. Required until it is
    (docs/isolation.md). Mark: first."""

    @refusal
    def _consent(self) -> None:
        """Refuse a set whose owner has not accepted that its jobs are not isolated."""
        refuse("acceptUnenforcedNetwork", unenforced_network=self.accept_unenforced_network is None)


def _kind(value: Any) -> str | None:
    """The kind that a runner's settings name. Without a kind it is a pod, unless the settings name shapes."""
    # The model of pods reports a value that is not a mapping.
    unnamed = None if isinstance(value, dict) and "shapes" in value else "pod"
    named = value.get("kind", unnamed) if isinstance(value, dict) else getattr(value, "kind", unnamed)
    return named if named in KINDS else None


_KIND_RULE = f"a runner is of kind {', '.join(KINDS[:-1])} or {KINDS[-1]}; name one (a pod needs no kind)"
_BY_KIND = Discriminator(_kind, "gpu_ci_runner_kind", "{message}", {"message": _KIND_RULE})
AnyRunner = Annotated[
    Annotated[OkePodRunner, Tag("pod")] | Annotated[VmRunner, Tag("vm")] | Annotated[VmPerJobRunner, Tag("vm-per-job")], _BY_KIND
]
