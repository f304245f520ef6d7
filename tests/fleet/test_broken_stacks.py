"""Stack files with one thing wrong each, in `broken/`: where the error points, what it says, what it shows."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from fleet import settings, suggest
from fleet.errors import FleetError, Problem
from fleet.settings import Fleet, load
from offline import stackfile
from offline.errors import InputError
from tests.builders import ROOT, read_stack

FOLDER = Path(__file__).parent / "broken"
SOURCE = Path(settings.__file__).parent

_GROUP = (
    "a runner group begins with a letter, goes on with letters, digits, spaces, _ . or -, and is no YAML word such as on, "
    "since the chart does not quote it; rename the group on GitHub"
)
# File: path, rule and how to mend it, value as JSON (empty where the key is missing).
BROKEN: dict[str, tuple[str, str, str]] = {
    "unknown-key-top": (
        "gpu-ci:tag",
        "unknown key; did you mean tags?",
        '{"owner": "ci"}',
    ),
    "unknown-key-github": (
        "gpu-ci:github.groups",
        "unknown key; did you mean group?",
        '"gpu"',
    ),
    "unknown-key-cluster": (
        "gpu-ci:clusters.usw2.kubernetes_version",
        "unknown key; did you mean kubernetesVersion?",
        '"latest"',
    ),
    "unknown-key-endpoint": (
        "gpu-ci:clusters.usw2.endpoint.privat",
        "unknown key; did you mean private?",
        "true",
    ),
    "unknown-key-network": (
        "gpu-ci:clusters.usw2.network.natGateway",
        "unknown key; did you mean natGateways?",
        '"one"',
    ),
    "unknown-key-pool": (
        "gpu-ci:clusters.usw2.pools.t4.taints",
        "unknown key; known keys: instanceTypes, capacity, role, nodes, idleDelay, disk, labels",
        "[]",
    ),
    "unknown-key-pool-snake": (
        "gpu-ci:clusters.usw2.pools.t4.idle_delay",
        "unknown key; did you mean idleDelay?",
        '"5m"',
    ),
    "unknown-key-nodes": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.maximum",
        "unknown key; did you mean max?",
        "3",
    ),
    "unknown-key-system": (
        "gpu-ci:clusters.usw2.system.instanceType",
        "unknown key; did you mean instanceTypes?",
        '["m6i.large"]',
    ),
    "unknown-key-runner": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.runnerGroup",
        "unknown key; known keys: kind, pool, gpus, cpu, memory, shm, scratch, labels, group, scale, image",
        '"gpu"',
    ),
    "unknown-key-cpu": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.cpu.limits",
        "unknown key; did you mean limit?",
        "4",
    ),
    "unknown-key-memory": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.memory.max",
        "unknown key; known keys: request, limit",
        '"32Gi"',
    ),
    "unknown-key-scale": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.scale.mins",
        "unknown key; did you mean min?",
        "1",
    ),
    "missing-github": (
        "gpu-ci:github",
        "required key is missing; add it",
        "",
    ),
    "missing-clusters": (
        "gpu-ci:clusters",
        "required key is missing; add it",
        "",
    ),
    "missing-app-id": (
        "gpu-ci:github.appId",
        "required key is missing; add it",
        "",
    ),
    "missing-region": (
        "gpu-ci:clusters.usw2.region",
        "required key is missing; add it",
        "",
    ),
    "missing-endpoint": (
        "gpu-ci:clusters.usw2.endpoint",
        "required key is missing; add it",
        "",
    ),
    "missing-pools": (
        "gpu-ci:clusters.usw2.pools",
        "required key is missing; add it",
        "",
    ),
    "missing-runners": (
        "gpu-ci:clusters.usw2.runners",
        "required key is missing; add it",
        "",
    ),
    "missing-capacity": (
        "gpu-ci:clusters.usw2.pools.t4.capacity",
        "required key is missing; add it",
        "",
    ),
    "missing-nodes-max": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "required key is missing; add it",
        "",
    ),
    "missing-runner-pool": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pool",
        "required key is missing; add it",
        "",
    ),
    "missing-provider": (
        "gpu-ci:clusters.usw2.provider",
        "required key is missing; name one of: eks",
        "",
    ),
    "no-clusters": (
        "gpu-ci:clusters",
        "at least 1 entry is needed; add one",
        "{}",
    ),
    "no-instance-types": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        "at least 1 entry is needed; add one",
        "[]",
    ),
    "string-for-number": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "not a whole number; write digits without quotes",
        '"2"',
    ),
    "fraction-for-number": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "not a whole number; write digits without quotes",
        "2.5",
    ),
    "bool-for-number": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "not a whole number; write digits without quotes",
        "true",
    ),
    "number-for-string": (
        "gpu-ci:clusters.usw2.region",
        "not a string; fill it in, in quotes if it looks like a number",
        "2",
    ),
    "null-for-string": (
        "gpu-ci:clusters.usw2.region",
        "not a string; fill it in, in quotes if it looks like a number",
        "null",
    ),
    "string-for-bool": (
        "gpu-ci:clusters.usw2.endpoint.private",
        "not a truth value; write true or false without quotes",
        '"true"',
    ),
    "yes-for-bool": (
        "gpu-ci:clusters.usw2.endpoint.private",
        "not a truth value; write true or false without quotes",
        '"yes"',
    ),
    "string-for-list": (
        "gpu-ci:clusters.usw2.zones",
        "not a list; write [one, another]",
        '"us-west-2a"',
    ),
    "list-for-mapping": (
        "gpu-ci:clusters.usw2.pools",
        "not a mapping; write its keys below it",
        '[{"instanceTypes": ["g4dn.2xlarge"], "capacity": "on-demand…',
    ),
    "string-for-model": (
        "gpu-ci:clusters.usw2.endpoint",
        "not a mapping; write its keys below it",
        '"public"',
    ),
    "empty-cluster": (
        "gpu-ci:clusters.usw2",
        "not a mapping; write its keys below it",
        "null",
    ),
    "number-for-tag": (
        "gpu-ci:tags.cost-center",
        "not a string; fill it in, in quotes if it looks like a number",
        "4711",
    ),
    "min-above-max": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.min",
        "min is above max 2; lower min or raise max",
        "3",
    ),
    "max-zero": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "must be at least 1; raise it",
        "0",
    ),
    "min-negative": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.min",
        "must be at least 0; raise it",
        "-1",
    ),
    "runner-min-above-max": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.scale.min",
        "min is above max 2; lower min or raise max",
        "3",
    ),
    "runner-without-gpu": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.gpus",
        "must be at least 1; raise it",
        "0",
    ),
    "unknown-provider": (
        "gpu-ci:clusters.usw2.provider",
        "must be one of: eks; name one of them",
        '"gke"',
    ),
    "unknown-capacity": (
        "gpu-ci:clusters.usw2.pools.t4.capacity",
        "must be 'on-demand' or 'spot'; correct it",
        '"SPOT"',
    ),
    "unknown-role": (
        "gpu-ci:clusters.usw2.pools.t4.role",
        "must be 'burst' or 'release'; correct it",
        '"ci"',
    ),
    "unknown-nat": (
        "gpu-ci:clusters.usw2.network.natGateways",
        "must be 'one' or 'per-zone'; correct it",
        '"two"',
    ),
    "unknown-log-type": (
        "gpu-ci:clusters.usw2.logTypes.1",
        "must be 'api', 'audit', 'authenticator', 'controllerManager' or 'scheduler'; correct it",
        '"kubelet"',
    ),
    "unknown-enablement": (
        "gpu-ci:clusters.usw2.enablement",
        "must be 'device-plugin'; correct it",
        '"gpu-operator"',
    ),
    "unknown-delivery": (
        "gpu-ci:clusters.usw2.delivery",
        "must be 'helm'; correct it",
        '"argocd"',
    ),
    "kind-vm": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.kind",
        "must be 'pod'; correct it",
        '"vm"',
    ),
    "unknown-reach": (
        "gpu-ci:clusters.usw2.endpoint.reachableFrom",
        "must be 'vpc-agent' or 'vpn'; correct it",
        '"laptop"',
    ),
    "name-cluster": (
        "gpu-ci:clusters.us_west_2",
        ("a name is a DNS label: lower-case letters, digits and hyphens, a letter first, at most 63 characters; rename it"),
        '"us_west_2"',
    ),
    "name-upper-case": (
        "gpu-ci:clusters.usw2.runners.GPU-T4",
        ("a name is a DNS label: lower-case letters, digits and hyphens, a letter first, at most 63 characters; rename it"),
        '"GPU-T4"',
    ),
    "name-64-characters": (
        "gpu-ci:clusters.usw2.pools.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ("a name is a DNS label: lower-case letters, digits and hyphens, a letter first, at most 63 characters; rename it"),
        '"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…',
    ),
    "name-trailing-hyphen": (
        "gpu-ci:clusters.usw2.pools.t4-",
        ("a name is a DNS label: lower-case letters, digits and hyphens, a letter first, at most 63 characters; rename it"),
        '"t4-"',
    ),
    "name-set-46-characters": (
        "gpu-ci:clusters.usw2.runners.gpu-tttttttttttttttttttttttttttttttttttttttttt",
        "a runner set's name has at most 45 characters, this one has 46; shorten it",
        '"gpu-tttttttttttttttttttttttttttttttttttttttttt"',
    ),
    "pool-named-system": (
        "gpu-ci:clusters.usw2.pools.system",
        "'system' is the untainted pool's name; give the GPU pool another",
        '"system"',
    ),
    "runner-names-no-pool": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pool",
        "no pool of that name in this cluster; name one of: t4",
        '"t5"',
    ),
    "runner-without-pools": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pool",
        "the cluster has no pool; add one",
        '"t4"',
    ),
    "version-unquoted": (
        "gpu-ci:clusters.usw2.kubernetesVersion",
        "YAML read a number here, and would read 1.30 as 1.3; put quotes around what you wrote",
        "1.34",
    ),
    "version-unquoted-zero": (
        "gpu-ci:clusters.usw2.kubernetesVersion",
        "YAML read a number here, and would read 1.30 as 1.3; put quotes around what you wrote",
        "1.3",
    ),
    "version-unsupported": (
        "gpu-ci:clusters.usw2.kubernetesVersion",
        "no node image is known for this version; use one of: 1.34",
        '"1.28"',
    ),
    "type-unknown": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes.0",
        "unknown machine 'g4dn.2xlarg'; did you mean g4dn.2xlarge, g4dn.12xlarge, g4dn.xlarge?",
        '"g4dn.2xlarg"',
    ),
    "type-without-gpu": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes.0",
        "m6i.large has no GPU; a pool is made of GPU types (the system pool has the CPU nodes); name one",
        '"m6i.large"',
    ),
    "type-of-another-cloud": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        "not an EC2 instance type; give this cluster EC2 types",
        '"VM.GPU.A10.1"',
    ),
    "types-of-mixed-counts": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        (
            "types of one pool have one GPU model, memory and count, here g4dn.8xlarge 1x T4 16Gi, g4dn.12xlarge "
            "4x T4 16Gi; split the pool"
        ),
        '["g4dn.8xlarge", "g4dn.12xlarge"]',
    ),
    "types-of-mixed-models": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        (
            "types of one pool have one GPU model, memory and count, here g4dn.2xlarge 1x T4 16Gi, g5.2xlarge 1x "
            "A10G 22Gi; split the pool"
        ),
        '["g4dn.2xlarge", "g5.2xlarge"]',
    ),
    "type-repeated": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        "an instance type is given twice; remove one",
        '["g4dn.2xlarge", "g4dn.2xlarge"]',
    ),
    "system-type-with-gpu": (
        "gpu-ci:clusters.usw2.system.instanceTypes.0",
        "g4dn.xlarge has a GPU; the system pool runs controllers, give it a CPU type such as m6i.large",
        '"g4dn.xlarge"',
    ),
    "system-type-unknown": (
        "gpu-ci:clusters.usw2.system.instanceTypes.0",
        "unknown machine 'm6i.largee'; did you mean m6i.large, m6i.xlarge, m6i.2xlarge?",
        '"m6i.largee"',
    ),
    "release-on-spot": (
        "gpu-ci:clusters.usw2.pools.t4.capacity",
        "a release pool is never spot: an interruption would abort a release; use on-demand",
        '"spot"',
    ),
    "label-reserved-domain": (
        "gpu-ci:clusters.usw2.pools.t4.labels.node-role.kubernetes.io/gpu",
        "EKS or kubelet refuses labels of this domain; use one of your own, such as example.com/team",
        '"ci"',
    ),
    "label-reserved-eks": (
        "gpu-ci:clusters.usw2.pools.t4.labels.eks.amazonaws.com/team",
        "EKS or kubelet refuses labels of this domain; use one of your own, such as example.com/team",
        '"ml"',
    ),
    "label-ours": (
        "gpu-ci:clusters.usw2.pools.t4.labels.gpu-ci/pool",
        "label gpu-ci/pool is set by the program; remove it",
        '"mine"',
    ),
    "label-alias": (
        "gpu-ci:clusters.usw2.pools.t4.labels.accelerator",
        "label accelerator is set by the program as an alias; remove it and use gpu-ci/pool=<pool>",
        '"nvidia-tesla-t4"',
    ),
    "label-refused": (
        "gpu-ci:clusters.usw2.pools.t4.labels.node.kubernetes.io/lifecycle",
        "label node.kubernetes.io/lifecycle is refused; remove it and use gpu-ci/capacity=spot",
        '"spot"',
    ),
    "label-of-provider": (
        "gpu-ci:clusters.usw2.pools.t4.labels.node.kubernetes.io/instance-type",
        ("label node.kubernetes.io/instance-type is set by the provider; remove it and use the pool's instanceTypes"),
        '"g4dn.2xlarge"',
    ),
    "label-key": (
        "gpu-ci:clusters.usw2.pools.t4.labels.Team Vision",
        ("a label's key is a name, or domain/name, of letters, digits, '-', '_' and '.', at most 63 characters; rename it"),
        '"Team Vision"',
    ),
    "label-key-64-characters": (
        ("gpu-ci:clusters.usw2.pools.t4.labels.example.com/tttttttttttttttttttttttttttttttttttttttttttttttttttt"),
        ("a label's key is a name, or domain/name, of letters, digits, '-', '_' and '.', at most 63 characters; rename it"),
        '"example.com/tttttttttttttttttttttttttttttttttttttttttttttt…',
    ),
    "label-value": (
        "gpu-ci:clusters.usw2.pools.t4.labels.team",
        ("a label's value has 1 to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends; rename it"),
        '"vision, speech"',
    ),
    "label-value-empty": (
        "gpu-ci:clusters.usw2.pools.t4.labels.team",
        ("a label's value has 1 to 63 letters, digits, '-', '_' and '.', a letter or digit at both ends; rename it"),
        '""',
    ),
    "label-value-number": (
        "gpu-ci:clusters.usw2.pools.t4.labels.generation",
        "not a string; fill it in, in quotes if it looks like a number",
        "4",
    ),
    "endpoint-both": (
        "gpu-ci:clusters.usw2.endpoint",
        "give either publicCidrs with your networks or private: true",
        '{"publicCidrs": ["203.0.113.0/24"], "private": true, "reach…',
    ),
    "endpoint-neither": (
        "gpu-ci:clusters.usw2.endpoint",
        "give either publicCidrs with your networks or private: true",
        '{"private": false}',
    ),
    "endpoint-open-ipv4": (
        "gpu-ci:clusters.usw2.endpoint.publicCidrs.0",
        "the API server would be open to the world; list your own networks, or set private: true",
        '"0.0.0.0/0"',
    ),
    "endpoint-open-ipv6": (
        "gpu-ci:clusters.usw2.endpoint.publicCidrs.0",
        "the API server would be open to the world; list your own networks, or set private: true",
        '"::/0"',
    ),
    "endpoint-private-without-reach": (
        "gpu-ci:clusters.usw2.endpoint",
        "a private endpoint needs reachableFrom (vpc-agent or vpn), or nobody can deploy",
        '{"private": true}',
    ),
    "endpoint-reach-without-private": (
        "gpu-ci:clusters.usw2.endpoint",
        "reachableFrom belongs to a private endpoint; remove it or set private: true",
        '{"publicCidrs": ["203.0.113.0/24"], "reachableFrom": "vpn"}',
    ),
    "cidr-host-bits": (
        "gpu-ci:clusters.usw2.endpoint.publicCidrs.0",
        "not a CIDR block (203.0.113.7/24 has host bits set); write a network such as 203.0.113.0/24",
        '"203.0.113.7/24"',
    ),
    "cidr-no-network": (
        "gpu-ci:clusters.usw2.endpoint.publicCidrs.0",
        ("not a CIDR block ('office' does not appear to be an IPv4 or IPv6 network); write a network such as 203.0.113.0/24"),
        '"office"',
    ),
    "vpc-too-small": (
        "gpu-ci:clusters.usw2.network.cidr",
        "a new VPC is an IPv4 network from /16 to /22; write for example 10.0.0.0/16",
        '"10.0.0.0/23"',
    ),
    "vpc-too-large": (
        "gpu-ci:clusters.usw2.network.cidr",
        "a new VPC is an IPv4 network from /16 to /22; write for example 10.0.0.0/16",
        '"10.0.0.0/8"',
    ),
    "vpc-ipv6": (
        "gpu-ci:clusters.usw2.network.cidr",
        "a new VPC is an IPv4 network from /16 to /22; write for example 10.0.0.0/16",
        '"fd00::/20"',
    ),
    "vpc-without-subnets": (
        "gpu-ci:clusters.usw2.network",
        "an existing network needs both vpcId and privateSubnets; give both or neither",
        '{"vpcId": "vpc-0123456789abcdef0"}',
    ),
    "subnets-without-vpc": (
        "gpu-ci:clusters.usw2.network",
        "an existing network needs both vpcId and privateSubnets; give both or neither",
        '{"privateSubnets": {"us-west-2a": "subnet-0123456789abcdef0…',
    ),
    "vpc-with-cidr": (
        "gpu-ci:clusters.usw2.network",
        "cidr and natGateways belong to a new VPC; remove them, or remove vpcId",
        '{"vpcId": "vpc-0123456789abcdef0", "cidr": "10.0.0.0/16", "…',
    ),
    "vpc-id": (
        "gpu-ci:clusters.usw2.network.vpcId",
        "not a VPC id; write vpc-… as AWS shows it",
        '"staging"',
    ),
    "subnet-id": (
        "gpu-ci:clusters.usw2.network.privateSubnets.us-west-2b",
        "not a subnet id; write subnet-…",
        '"private-b"',
    ),
    "subnets-of-other-zones": (
        "gpu-ci:clusters.usw2.network.privateSubnets",
        "privateSubnets names one subnet for each of the cluster's zones; give the same zones",
        '["us-west-2a", "us-west-2c"]',
    ),
    "zone-foreign": (
        "gpu-ci:clusters.usw2.zones",
        "not a zone of us-west-2; write for example us-west-2a",
        '"us-east-1b"',
    ),
    "zone-only-one": (
        "gpu-ci:clusters.usw2.zones",
        "an EKS control plane needs two different zones at least; add one",
        '["us-west-2a"]',
    ),
    "zone-repeated": (
        "gpu-ci:clusters.usw2.zones",
        "a zone is given twice; remove one",
        '["us-west-2a", "us-west-2b", "us-west-2a"]',
    ),
    "region": (
        "gpu-ci:clusters.usw2.region",
        "not a commercial AWS region; write for example us-west-2",
        '"oregon"',
    ),
    "region-empty": (
        "gpu-ci:clusters.usw2.region",
        "empty; fill it in",
        '""',
    ),
    "principal-session": (
        "gpu-ci:clusters.usw2.admins.0",
        "not an IAM principal; write arn:aws:iam::<account>:role/<name> (no assumed-role session)",
        '"arn:aws:sts::123456789012:assumed-role/ops/me"',
    ),
    "github-enterprise": (
        "gpu-ci:github.url",
        "a GitHub App cannot register runners of an enterprise; give the URL of an organisation or repository",
        '"https://github.com/enterprises/example"',
    ),
    "github-no-scope": (
        "gpu-ci:github.url",
        "not a GitHub scope; write https://github.com/<organisation> or …/<organisation>/<repository>",
        '"https://github.com"',
    ),
    "github-trailing-slash": (
        "gpu-ci:github.url",
        "not a GitHub scope; write https://github.com/<organisation> or …/<organisation>/<repository>",
        '"https://github.com/example/"',
    ),
    "github-app-id-number": (
        "gpu-ci:github.appId",
        "YAML read a number here, and would read 1.30 as 1.3; put quotes around what you wrote",
        "123456",
    ),
    "github-app-id-text": (
        "gpu-ci:github.appId",
        'an id is a quoted number, for example "123456"',
        '"gpu-ci-app"',
    ),
    "github-group-empty": (
        "gpu-ci:github.group",
        "empty; fill it in",
        '""',
    ),
    "cpu-with-unit": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.cpu.request",
        "a CPU quantity is a positive number of cores (4, 0.5) or of millicores (500m)",
        '"4 cores"',
    ),
    "cpu-zero": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.cpu.request",
        "a CPU quantity is a positive number of cores (4, 0.5) or of millicores (500m)",
        "0",
    ),
    "cpu-too-fine": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.cpu.request",
        "a CPU quantity is a positive number of cores (4, 0.5) or of millicores (500m)",
        "0.0005",
    ),
    "cpu-limit-below-request": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.cpu",
        "limit is below request; raise limit or lower request",
        '{"request": 4, "limit": 2}',
    ),
    "memory-without-unit": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.memory.request",
        "a memory quantity is a positive whole number with its unit, Mi or Gi: 16Gi",
        "16",
    ),
    "memory-decimal-unit": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.memory.request",
        "a memory quantity is a positive whole number with its unit, Mi or Gi: 16Gi",
        '"16GB"',
    ),
    "memory-limit-below-request": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.memory",
        "limit is below request; raise limit or lower request",
        '{"request": "16Gi", "limit": "8Gi"}',
    ),
    "disk-not-whole": (
        "gpu-ci:clusters.usw2.pools.t4.disk",
        "a root disk is a whole number of Gi, 30Gi at least for the node image; write for example 100Gi",
        '"51300Mi"',
    ),
    "disk-too-small": (
        "gpu-ci:clusters.usw2.pools.t4.disk",
        "a root disk is a whole number of Gi, 30Gi at least for the node image; write for example 100Gi",
        '"20Gi"',
    ),
    "types-of-mixed-memory": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        (
            "types of one pool have one GPU model, memory and count, here p4d.24xlarge 8x A100 40Gi, "
            "p4de.24xlarge 8x A100 80Gi; split the pool"
        ),
        '["p4d.24xlarge", "p4de.24xlarge"]',
    ),
    "labels-too-many": (
        "gpu-ci:clusters.usw2.pools.t4.labels",
        "a pool has at most 25 labels of its own; remove some",
        '{"team.example/l0": "x", "team.example/l1": "x", "team.exam…',
    ),
    "tag-key": (
        "gpu-ci:tags.aws:team",
        ("a tag's key has 1 to 128 letters, digits, spaces or _.:/=+-@, and does not start with aws:; rename it"),
        '"aws:team"',
    ),
    "tag-value": (
        "gpu-ci:tags.team",
        "a tag's value has at most 256 letters, digits, spaces or _.:/=+-@; correct it",
        '"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…',
    ),
    "tags-too-many": (
        "gpu-ci:tags",
        "at most 40 entries are possible; remove some",
        '{"t0": "x", "t1": "x", "t2": "x", "t3": "x", "t4": "x", "t5…',
    ),
    "github-group-word": (
        "gpu-ci:github.group",
        _GROUP,
        '"on"',
    ),
    "runner-group-number": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.group",
        _GROUP,
        '"2024"',
    ),
    "set-named-yaml-word": (
        "gpu-ci:clusters.usw2.runners.on",
        "YAML reads on as no text, and the chart does not quote it; rename the set",
        '"on"',
    ),
    "endpoint-nearly-open": (
        "gpu-ci:clusters.usw2.endpoint.publicCidrs.0",
        "the API server would be open to the world; list your own networks, or set private: true",
        '"128.0.0.0/1"',
    ),
    "disk-zero": (
        "gpu-ci:clusters.usw2.pools.t4.disk",
        "a memory quantity is a positive whole number with its unit, Mi or Gi: 16Gi",
        '"0Gi"',
    ),
    "shm-fills-memory": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.shm",
        "shm counts against the memory limit and would fill it; lower shm or raise memory.limit",
        '"16Gi"',
    ),
    "shm-without-unit": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.shm",
        "a memory quantity is a positive whole number with its unit, Mi or Gi: 16Gi",
        "2",
    ),
    "scratch-fraction": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.scratch",
        "a memory quantity is a positive whole number with its unit, Mi or Gi: 16Gi",
        '"1.5Gi"',
    ),
    "duration-without-unit": (
        "gpu-ci:clusters.usw2.pools.t4.idleDelay",
        "a duration is a whole number with its unit, s, m or h: 10m",
        "600",
    ),
    "duration-go": (
        "gpu-ci:clusters.usw2.pools.t4.idleDelay",
        "a duration is a whole number with its unit, s, m or h: 10m",
        '"10m0s"',
    ),
    "idle-delay-too-short": (
        "gpu-ci:clusters.usw2.pools.t4.idleDelay",
        "an idle delay is from 1m to 24h; write one between, such as 10m",
        '"30s"',
    ),
    "idle-delay-too-long": (
        "gpu-ci:clusters.usw2.pools.t4.idleDelay",
        "an idle delay is from 1m to 24h; write one between, such as 10m",
        '"25h"',
    ),
    "runner-label-comma": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels.0",
        ("a runner label has 1 to 255 characters, no comma, no control character and no space around it; correct it"),
        '"gpu,cuda"',
    ),
    "runner-label-empty": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels.0",
        ("a runner label has 1 to 255 characters, no comma, no control character and no space around it; correct it"),
        '""',
    ),
    "runner-label-twice": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels",
        "label given twice: t4 (GitHub ignores case); remove one",
        '["t4", "T4"]',
    ),
    "runner-group-empty": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.group",
        "empty; fill it in",
        '""',
    ),
    "runner-image-empty": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.image",
        "empty; fill it in",
        '""',
    ),
    "generic-label-on-two-sets": (
        "gpu-ci:clusters.usw2.runners.gpu-big.labels",
        (
            "generic label 'gpu', but usw2/gpu-t4 is the default set; one default set per GitHub scope carries "
            "self-hosted, linux, x64, gpu, cuda, every other set is reached by its name or a label of its own: "
            "remove it here"
        ),
        '["gpu"]',
    ),
    "own-label-on-two-sets": (
        "gpu-ci:clusters.usw2.runners.gpu-big.labels",
        ("label 'vision' already reaches set usw2/gpu-t4, so a runs-on would be ambiguous; remove it or rename it"),
        '["Vision"]',
    ),
    "set-name-as-label": (
        "gpu-ci:clusters.usw2.runners.gpu-big.labels",
        "label 'gpu-t4' is the name of a runner set; remove it or rename one",
        '["GPU-T4"]',
    ),
    "set-named-like-a-label": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels",
        "label 'gpu-big' is the name of a runner set; remove it or rename one",
        '["gpu-big"]',
    ),
    "set-in-two-clusters": (
        "gpu-ci:clusters.use1.runners.gpu-t4",
        "cluster usw2 has a runner set of that name in group default; rename one",
        '"gpu-t4"',
    ),
    "names-that-join-alike": (
        "gpu-ci:clusters.usw2-b.pools.t4",
        "'usw2-b-t4' is also the joined name of one of cluster usw2's pools; rename one",
        '"t4"',
    ),
    "admin-twice": (
        "gpu-ci:clusters.usw2.admins",
        "a principal is given twice; remove one",
        '["arn:aws:iam::123456789012:role/ops", "arn:aws:iam::123456…',
    ),
    "cluster-name-29-characters": (
        "gpu-ci:clusters.ccccccccccccccccccccccccccccc",
        "a cluster's name has at most 28 characters, cloud resources are named after it; shorten it",
        '"ccccccccccccccccccccccccccccc"',
    ),
    "endpoint-ipv6": (
        "gpu-ci:clusters.usw2.endpoint.publicCidrs.0",
        "a public endpoint is reached from public IPv4 networks; list those, or set private: true",
        '"2600:1f14::/36"',
    ),
    "endpoint-private-cidrs-without-private": (
        "gpu-ci:clusters.usw2.endpoint",
        "privateCidrs belongs to a private endpoint; remove it or set private: true",
        '{"publicCidrs": ["203.0.113.0/24"], "privateCidrs": ["10.0.…',
    ),
    "endpoint-private-network": (
        "gpu-ci:clusters.usw2.endpoint.publicCidrs.0",
        "a public endpoint is reached from public IPv4 networks; list those, or set private: true",
        '"10.1.0.0/16"',
    ),
    "generic-labels-split-over-two-sets": (
        "gpu-ci:clusters.usw2.runners.gpu-t4-b.labels",
        (
            "generic label 'linux', but usw2/gpu-t4 is the default set; one default set per GitHub scope carries "
            "self-hosted, linux, x64, gpu, cuda, every other set is reached by its name or a label of its own: "
            "remove it here"
        ),
        '["linux"]',
    ),
    "github-orgs-page": (
        "gpu-ci:github.url",
        "not a GitHub scope; write https://github.com/<organisation> or …/<organisation>/<repository>",
        '"https://github.com/orgs/example"',
    ),
    "names-too-long-together": (
        "gpu-ci:clusters.usw2.pools.t4-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "cluster and pool names together have at most 48 characters; shorten one",
        '"t4-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"',
    ),
    "own-label-on-two-sets-of-one-name": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels",
        ("label 't4-special' already reaches set use1/gpu-t4, so a runs-on would be ambiguous; remove it or rename it"),
        '["t4-special"]',
    ),
    "runner-image-latest": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.image",
        ("an image names its version or digest, not latest; write registry/name:version or registry/name@sha256:…"),
        '"ghcr.io/example/runner:latest"',
    ),
    "runner-label-control": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels.0",
        ("a runner label has 1 to 255 characters, no comma, no control character and no space around it; correct it"),
        '"a\\u0007b"',
    ),
    "system-pool-empty": (
        "gpu-ci:clusters.usw2.system.nodes.min",
        "the autoscaler runs in the system pool and cannot start it; raise min to 1 or more",
        "0",
    ),
    "tag-character": (
        "gpu-ci:tags.team",
        "a tag's value has at most 256 letters, digits, spaces or _.:/=+-@; correct it",
        '"ci\\n"',
    ),
    "unknown-key-private": (
        "gpu-ci:github.privateKey",
        "unknown key; known keys: url, appId, installationId, group",
        "",
    ),
    "zone-beyond-g": (
        "gpu-ci:clusters.usw2.zones",
        "a new VPC has subnets for zones a to g; use those",
        '["us-west-2a", "us-west-2h"]',
    ),
}

# A slip that breaks two rules at once.
TWICE = {
    "misspelt-required-key": [
        "gpu-ci:github.appId: required key is missing; add it",
        'gpu-ci:github.appID: unknown key; did you mean appId? (got "123456")',
    ],
    "numbers-in-list": [
        "gpu-ci:clusters.usw2.zones.0: not a string; fill it in, in quotes if it looks like a number (got 1)",
        "gpu-ci:clusters.usw2.zones.1: not a string; fill it in, in quotes if it looks like a number (got 2)",
    ],
}


def _problems(name: str) -> tuple[Problem, ...]:
    with pytest.raises(FleetError) as caught:
        load(read_stack(FOLDER / f"{name}.yaml"))
    return caught.value.problems


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_told_by_path_rule_and_value(name: str) -> None:
    where, message, value = BROKEN[name]
    problems = _problems(name)
    assert [(problem.where, problem.message, problem.value) for problem in problems] == [(where, message, value)]
    line = f"{where}: {message} (got {value})" if value else f"{where}: {message}"
    assert list(map(str, problems)) == [line], "the line holds all three"


@pytest.mark.parametrize("name", TWICE)
def test_a_slip_that_breaks_two_rules_is_told_in_two_lines(name: str) -> None:
    assert list(map(str, _problems(name))) == TWICE[name]


@pytest.mark.parametrize("key", ["t4", "gpu-t4"])
def test_two_pools_or_two_sets_of_one_name_are_the_loaders_error(tmp_path: Path, key: str) -> None:
    """A parser that keeps the last of equal keys would drop a pool without a word."""
    text = (FOLDER / "valid.yaml").read_text(encoding="utf-8")
    first = text[: text.index(f"        {key}:")].count("\n") + 1
    path = tmp_path / "Pulumi.twice.yaml"
    path.write_text(re.sub(rf"^( +{key}:)", r"\1 {}\n\1", text, count=1, flags=re.MULTILINE), encoding="utf-8")
    with pytest.raises(InputError, match=f"a key may stand once; it stands on line {first} too; got '{key}'"):
        stackfile.load("twice", ROOT, stack_file=path)


def test_the_file_that_all_broken_ones_vary_is_valid() -> None:
    fleet = load(read_stack(FOLDER / "valid.yaml"))
    assert [name for _, name, _ in fleet.runner_sets()] == ["gpu-t4"]


def test_every_broken_file_is_in_the_tables() -> None:
    files = {path.stem for path in FOLDER.glob("*.yaml")} - {"valid"}
    assert files == {*BROKEN, *TWICE}


def test_every_broken_file_differs_from_the_valid_one() -> None:
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.glob("*.yaml")]
    assert len(set(texts)) == len(texts), "two files show the same"


# Every message ends in what to do; these are the words by which a reader finds it.
_MEND = re.compile(
    r"(; |, )(add|name|write|use|rename|remove|raise|lower|correct|give|split|shorten|fill|put|list|did you mean|known keys)"
    r"|: 16Gi$|: 10m$|\(500m\)$|for example|give either|private endpoint needs|: remove it here"
)


@pytest.mark.parametrize("name", BROKEN)
def test_every_message_says_how_to_mend_it(name: str) -> None:
    assert _MEND.search(BROKEN[name][1]), BROKEN[name][1]


# -- completeness ------------------------------------------------------------------------------------------------------


def _raised() -> set[tuple[str, str]]:
    """(rule, message) of every error that the files raise; pydantic's own rules keep their names."""
    return {
        (error["type"].removeprefix("gpu_ci_"), str(error.get("ctx", {}).get("message", "")))
        for name in (*BROKEN, *TWICE)
        for error in _errors(name)
    }


def _errors(name: str) -> list[ErrorDetails]:
    with pytest.raises(ValidationError) as caught:
        Fleet.model_validate_json(json.dumps(read_stack(FOLDER / f"{name}.yaml")))
    return caught.value.errors()


def _calls() -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """(place, rule, pattern of the message) of every `problem(…)` in fleet/."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "problem":
                rule, message = node.args
                assert isinstance(rule, ast.Constant), f"{path.name}:{node.lineno}: write the rule's name as a literal"
                yield f"{path.name}:{node.lineno}", str(rule.value), re.compile(_pattern(message), re.DOTALL)


def _pattern(message: ast.expr) -> str:
    if isinstance(message, ast.Constant):
        return re.escape(str(message.value))
    if isinstance(message, ast.JoinedStr):
        return "".join(_pattern(part) if isinstance(part, ast.Constant) else ".*" for part in message.values)
    if isinstance(message, ast.IfExp):
        return f"(?:{_pattern(message.body)}|{_pattern(message.orelse)})"
    return ".*"


BEYOND_FILES = {"idle_delay_target"}
"""No provider of this version breaks it; test_settings gives it one that does."""


def test_every_rule_of_the_settings_has_a_broken_file() -> None:
    raised, calls = _raised(), list(_calls())
    assert len(calls) > 40, "the calls were found"
    unshown = [
        f"{place} {rule}"
        for place, rule, pattern in calls
        if rule not in BEYOND_FILES and not any(rule == known and pattern.fullmatch(message) for known, message in raised)
    ]
    assert unshown == [], "add a file to broken/ for each"


def test_every_rule_of_pydantic_that_has_words_of_ours_has_a_broken_file() -> None:
    told = {*suggest._MEND, "extra_forbidden"}
    assert told - {rule for rule, _ in _raised()} == set(), "a rule that nothing raises needs no words; else add a file"


def test_no_broken_file_falls_back_to_pydantics_words() -> None:
    assert [name for name, (_, message, _) in BROKEN.items() if message.endswith("; correct the value")] == []
