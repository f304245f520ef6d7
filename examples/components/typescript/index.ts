// NVIDIA's GPU operator on a cluster that exists already. The node images have the driver and the container toolkit.
import * as gpuCi from "@gpu-ci/components";
import * as kubernetes from "@pulumi/kubernetes";
import * as pulumi from "@pulumi/pulumi";

const kubeconfig = new pulumi.Config().requireSecret("kubeconfig");
const cluster = new kubernetes.Provider("cluster", { kubeconfig });
const operator = new gpuCi.GpuOperator(
    "gpu",
    {
        access: [{ sharing: { strategy: "time-slicing", replicas: 4 } }],
        serviceMonitor: true,
    },
    { providers: [cluster] },
);

export const namespace = operator.namespaceName;
export const configNames = operator.configNames;
