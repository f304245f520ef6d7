"""Lists the runner sets of a gpu-ci cluster in a ConfigMap there. docs/outputs.md describes the outputs that it reads."""

import pulumi
import pulumi_kubernetes as kubernetes

config = pulumi.Config()
name = config.require("cluster")
stack = pulumi.StackReference(config.require("stack"))
# Raises KeyError for an output that the stack does not have. `get_output` would return None.
cluster = stack.require_output("clusters")[name]
kubeconfig = stack.require_output("kubeconfigs")[name]

kubernetes.core.v1.ConfigMap(
    "runner-sets",
    metadata=kubernetes.meta.v1.ObjectMetaArgs(name="runner-sets", namespace="default"),
    data=cluster["runnerSets"].apply(lambda sets: {each: ", ".join(held["labels"]) for each, held in sets.items()}),
    opts=pulumi.ResourceOptions(provider=kubernetes.Provider("gpu-ci", kubeconfig=kubeconfig)),
)
pulumi.export("cluster", cluster["clusterName"])
