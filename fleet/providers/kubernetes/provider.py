"""Any cluster that exists already, by its kubeconfig context."""

from functools import partial
from pathlib import Path

from fleet.facts.scheduling import KUBERNETES_PROFILE
from fleet.providers.kubernetes.cluster import KubernetesCluster
from fleet.providers.provider import Provider, Starter
from fleet.providers.stated_bill import stated_bill
from fleet.providers.tags import NO_TAGS


class ContextStarter(Starter):
    """A cluster whose GPU nodes are there. They are never bought."""

    templates = Path(__file__).parent / "templates"
    answers = ("existing-context",)
    where = "on a cluster that exists already"
    jobs = ("tests", "training")
    reads = True


class Kubernetes(Provider[KubernetesCluster]):
    """A cluster whose nodes are there. The program buys none."""

    settings = KubernetesCluster
    cloud = ""
    starter = ContextStarter()
    profile = KUBERNETES_PROFILE
    tags = NO_TAGS

    # The rest of the cluster is not counted.
    bill = staticmethod(partial(stated_bill, of=" of the cluster"))
