"""The outputs of a stack, as other programs read them with a StackReference. docs/outputs.md shows the texts below.

One secret anywhere below an output of a stack makes the whole output secret for a StackReference. So the kubeconfigs are an
output of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, NamedTuple, NotRequired, TypedDict

import pulumi

Text = pulumi.Input[str]
_PROVIDER = "the provider of the cluster; it says which of the other keys there are"
_NAME = "physical name of the cluster"
_REGION = "region of the cluster, in the cloud's spelling"
_EXISTING = "a cluster that exists already"
_SETS = "the runner sets, by name"


class RunnerSetOutputs(TypedDict):
    """One runner set."""

    namespace: Annotated[Text, "namespace of its runners, on OCI VMs of its launchers"]
    labels: Annotated[pulumi.Input[Sequence[str]], "labels that select it in `runs-on`, its name first"]


class EksOutputs(TypedDict):
    """One EKS cluster."""

    provider: Annotated[Literal["eks"], _PROVIDER]
    clusterName: Annotated[Text, _NAME]
    region: Annotated[Text, _REGION]
    vpcId: Annotated[Text, "id of the VPC"]
    subnetIds: Annotated[dict[str, Text], "ids of the private subnets with the nodes, by zone"]
    nodeRoleArn: Annotated[Text, "ARN of the IAM role of every node"]
    nodeGroups: Annotated[dict[str, list[Text]], "names of the managed node groups, by GPU pool"]
    amiPipelines: NotRequired[Annotated[dict[str, Text], "ARNs of the pipelines that build node images, by entry of `amis`"]]
    buildCaches: NotRequired[
        Annotated[dict[str, Text], "ARNs of the roles that write build caches, by bucket; only of a cluster with build caches"]
    ]
    runnerSets: Annotated[dict[str, RunnerSetOutputs], _SETS]


class OkeOutputs(TypedDict):
    """One OKE cluster."""

    provider: Annotated[Literal["oke"], _PROVIDER]
    clusterName: NotRequired[Annotated[Text, f"{_NAME}; not of {_EXISTING}"]]
    clusterId: Annotated[Text, "OCID of the cluster"]
    region: Annotated[Text, _REGION]
    vcnId: NotRequired[Annotated[Text, f"OCID of the VCN; not of {_EXISTING}"]]
    nodeSubnetId: Annotated[Text, "OCID of the subnet with the nodes and pods"]
    nodePoolIds: Annotated[dict[str, list[Text]], "OCIDs of the node pools, by GPU pool"]
    runnerSets: Annotated[dict[str, RunnerSetOutputs], _SETS]


class KubernetesOutputs(TypedDict):
    """One cluster that exists already, by its kubeconfig context."""

    provider: Annotated[Literal["kubernetes"], _PROVIDER]
    clusterName: Annotated[Text, "the kubeconfig context"]
    runnerSets: Annotated[dict[str, RunnerSetOutputs], _SETS]


AnyOutputs = EksOutputs | OkeOutputs | KubernetesOutputs


class StackOutputs(TypedDict):
    """All outputs of a stack. Clusters that Pulumi does not deploy have none."""

    clusters: Annotated[dict[str, AnyOutputs], "what each cluster is, by its name in the settings; never secret"]
    kubeconfigs: Annotated[
        dict[str, Text],
        "kubeconfig of each cluster, by its name in the settings; always secret; not of a cluster that you name by context",
    ]
    generations: Annotated[
        dict[str, str],
        "what the first generation of each node group and runner set was made of, as a digest; and the names of all runner sets",
    ]


class Built(NamedTuple):
    """What the builder of a cluster returns: its outputs, and its kubeconfig. None: the settings name a kubeconfig context."""

    outputs: AnyOutputs
    kubeconfig: pulumi.Output[str] | None
