"""Stack files with one thing wrong each, in `broken/`: where the error points, what it says, what it shows."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from string import Formatter

import pytest

from fleet.facts.errors import FleetError, InputError, Problem
from fleet.loading import stackfile
from fleet.loading.config import load
from fleet.settings import reading
from tests.builders import ROOT
from tests.cases import cases
from tests.fleet import broken_stacks
from tests.fleet.broken_stacks import changed, stack, texts
from tests.sources import parsed

VALID = {
    "valid": {"gpu-t4": "pod"},
    "valid-existing-eks": {"gpu-t4": "pod"},
    "valid-existing-context": {"gpu-t4": "pod"},
    "valid-existing-oke": {"oci-a10": "pod"},
    "valid-oke": {"oci-a10": "pod", "standing": "vm", "per-job": "vm-per-job"},
    "valid-oke-pods": {"oci-a10": "pod"},
    "valid-oke-vm": {"oci-a10": "pod", "standing": "vm"},
    "valid-oke-vm-per-job": {"oci-a10": "pod", "per-job": "vm-per-job"},
    "valid-queues": {},
    "valid-schedules": {"gpu-t4": "pod"},
    "valid-talos": {"gpu-3090": "pod"},
    "valid-two-clusters": {"gpu-t4": "pod", "gpu-t4-east": "pod"},
}
"""Files that the broken ones vary, with the kinds of their runner sets."""
SOURCE = ROOT / "fleet"
REFUSALS: dict[str, str] = tomllib.loads((SOURCE / "settings" / "refusals.toml").read_text(encoding="utf-8"))

_GROUP = (
    "a runner group starts with a letter, then has letters, digits, spaces, _ . or -, and is not a YAML word such as on, "
    "because the chart does not quote it; rename the group on GitHub"
)
_NOT_PRIVATE = (
    "not a private IPv4 network; jobs can always reach public ones, and never link-local ones (instance metadata); "
    "write one such as 10.20.0.0/16"
)
_ONE_SUBNET = "a subnet is in one zone, and here several have the same; give each zone its own"
_DEFAULT_SET = "only one default set per GitHub scope may have them, and jobs select every other set by its name or its own label"
# File: path, rule and how to fix it, value as JSON (empty if the key is missing).
_TOGETHER = "gpu-second (group public-prs of github.com/example) and gpu-t4 (group default of github.com/example)"
BROKEN: dict[str, tuple[str, str, str]] = {
    "releases-in-the-group-of-others": (
        "gpu-ci:clusters.usw2.runners.gpu-second.group",
        "this group also has usw2/gpu-t4, which run no releases: people who may use a group may start a job in each of its sets; "
        "give the sets of releases a runner group of their own",
        '"default"',
    ),
    "pool-of-two-groups": (
        "gpu-ci:clusters.usw2.pools.t4.acceptSharedNodes",
        f"{_TOGETHER} would share nodes; give each a pool of its own, or write the reason why they may share",
        "",
    ),
    "pool-of-two-groups-by-time-slicing": (
        "gpu-ci:clusters.usw2.pools.t4.sharing.strategy",
        f"{_TOGETHER} would share a GPU, and time-slicing separates neither their memory nor their crashes; give each a pool of "
        "its own, or share by mig",
        '"time-slicing"',
    ),
    "pool-of-one-group-with-a-reason": (
        "gpu-ci:clusters.usw2.pools.t4.acceptSharedNodes",
        "all runner sets of the pool are of one group and one role, so nothing needs a reason; remove it",
        '"both groups have the same repositories"',
    ),
    "reason-of-one-word": (
        "gpu-ci:clusters.usw2.pools.t4.acceptSharedNodes",
        "the plan prints this reason; write it in one line of 20 to 200 characters",
        '"trusted"',
    ),
    "first-name-is-its-own": (
        "gpu-ci:clusters.usw2.was",
        "this is its present name; write the name with which it was deployed first, or remove was",
        '"usw2"',
    ),
    "first-name-of-another": (
        "gpu-ci:clusters.usw2.pools.t4.was",
        "the file still has pools.old; rename that too, or correct was",
        '"old"',
    ),
    "first-name-twice": (
        "gpu-ci:clusters.usw2.runners.second.was",
        "runners.gpu-t4 was first already, and only one can be; correct one of the two",
        '"first"',
    ),
    "first-name-is-a-list": (
        "gpu-ci:clusters.usw2.pools.t4.was",
        "not a string; fill it in, in quotes if it looks like a number",
        '["t4-spot", "t4-cheap"]',
    ),
    "scope-unknown": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.github",
        "gpu-ci:github.scopes has no scope of this name; did you mean research?",
        '"reserch"',
    ),
    "scope-of-a-cluster-unknown": (
        "gpu-ci:clusters.usw2.github",
        "gpu-ci:github.scopes has no scope of this name; name one of: default, or add it there",
        '"research"',
    ),
    "scope-unused": (
        "gpu-ci:github.scopes.research",
        "no runner class takes the jobs of this scope; write github: research in a class, or remove the scope",
        '{"url": "https://github.com/example-research", "appId": "23…',
    ),
    "scope-named-default": (
        "gpu-ci:github.scopes.default",
        "this name means the organization or repository of gpu-ci:github itself; rename the scope",
        '"default"',
    ),
    "scope-twice": (
        "gpu-ci:github.scopes.research.url",
        "scope default has the same url; write github: default for its classes, with a group if they differ",
        '"https://github.com/Example"',
    ),
    "scope-of-an-enterprise": (
        "gpu-ci:github.scopes.research.url",
        "a GitHub App cannot register runners of an enterprise; give the URL of an organization or repository",
        '"https://github.com/enterprises/example"',
    ),
    "scope-secret-beside-program": (
        "gpu-ci:clusters.usw2.gitops.scopeSecrets.research.by",
        "pulumi up writes the keys of all scopes of this cluster; remove it, or set gitops.secrets",
        '"external-secrets"',
    ),
    "scope-secret-another-way": (
        "gpu-ci:clusters.usw2.gitops.scopeSecrets.research.by",
        "the keys of all scopes come the same way, here external-secrets; write by: external-secrets",
        '"sops"',
    ),
    "scope-secret-missing": (
        "gpu-ci:clusters.usw2.gitops.scopeSecrets",
        "scope research needs its own entry, because secrets has the key of another App or installation; add it",
        "",
    ),
    "scope-secret-unused": (
        "gpu-ci:clusters.usw2.gitops.scopeSecrets.research",
        "no runner class of the cluster has a further scope of this name; remove it, or correct its name",
        '"research"',
    ),
    "pool-budget-of-no-pool": (
        "gpu-ci:clusters.usw2.poolBudgets.ml.pools.0",
        "no pool of that name in this cluster; did you mean t4?",
        '"t44"',
    ),
    "pool-budget-with-a-pool-twice": (
        "gpu-ci:clusters.usw2.poolBudgets.ml.pools",
        "a pool is given twice; remove one",
        '["t4", "t4"]',
    ),
    "pool-budget-on-oke": (
        "gpu-ci:clusters.sjc.poolBudgets",
        "unknown key; it belongs to provider eks, remove it",
        '{"ml": {"monthlyUsd": 100, "emails": ["ci@example.com"], "p…',
    ),
    "container-set-name": (
        "gpu-ci:clusters.usw2.runners.gpu-t4-for-the-long-tests-of-a-team2",
        "the name of a set with containers: job has at most 35 characters, this one has 36, and GitHub's hooks would cut off "
        "what distinguishes the pods of its jobs; shorten it",
        '"gpu-t4-for-the-long-tests-of-a-team2"',
    ),
    "template-of-ours": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.nodeSelector",
        "unknown key; a word of Kubernetes: write pool of the class",
        '{"a": "b"}',
    ),
    "template-kubernetes-name": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "name: a name here has lower-case letters, digits and hyphens, at most 63 characters; rename it",
        "",
    ),
    "template-host-name": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.hostAliases.0",
        "hostnames.0: not a host name; write one such as mirror.example.com",
        "",
    ),
    "template-ip-address": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.hostAliases.0",
        "ip: not an IP address; write one such as 10.20.0.5",
        "",
    ),
    "template-root": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "securityContext.runAsUser: the namespace admits no pod with root; write another user, such as 1001",
        "",
    ),
    "template-capabilities": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "securityContext.capabilities.drop: the namespace admits no pod without ALL in it; add it, or remove drop",
        "",
    ),
    "template-mount-path-twice": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "volumeMounts has a mountPath twice; correct one",
        "",
    ),
    "template-volume-kind": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes.0",
        (
            "the namespace admits no volume nfs; write one of configMap, csi, downwardAPI, emptyDir, ephemeral, "
            "persistentVolumeClaim, projected, secret"
        ),
        "",
    ),
    "template-env-name": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "env.0.name: not the name of a variable; rename it",
        "",
    ),
    "template-env-source": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "env A has not one of value and a source in valueFrom; give one",
        "",
    ),
    "template-limit": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "resources.requests.cpu is above its limit; raise the limit, or lower the request",
        '"a"',
    ),
    "template-volume-size": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes.0",
        "emptyDir.sizeLimit is not a quantity; write one such as 1Gi",
        "",
    ),
    "template-volume-key": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes.0",
        "persistentVolumeClaim of a volume needs claimName; add it",
        "",
    ),
    "template-mount": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template",
        "a container mounts a volume that the pod lacks; add it to volumes of the template, or correct the name",
        '"nope"',
    ),
    "template-dns-default": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.dnsPolicy",
        "the node's resolver is at a private address, which is closed; write None, and nameservers in dnsConfig",
        '"Default"',
    ),
    "template-dns-none": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.dnsPolicy",
        "None needs a resolver; add nameservers to dnsConfig, or remove dnsPolicy",
        '"None"',
    ),
    "template-volume-twice": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes",
        "two volumes have the same name; rename one",
        '[{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {…',
    ),
    "template-restart": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers",
        "only init containers have a restartPolicy; write the container below initContainers",
        '"a"',
    ),
    "template-ends": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.initContainers",
        "readinessProbe is of containers that run beside the runner; add restartPolicy: Always, or remove it",
        '"a"',
    ),
    "cpu-name": (
        "gpu-ci:clusters.usw2.runners.cuda",
        "the name is a label that promises a GPU, and the class has gpus: 0; rename it, such as cuda-build",
        '"cuda"',
    ),
    "template-mps-mount": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template",
        "pool t4 shares its GPUs by MPS, so the runner has no volume shm; remove the mount",
        '"shm"',
    ),
    "template-field": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "comand is not a field that such an object may have; did you mean command?",
        "",
    ),
    "template-without-image": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "image: field required; correct it",
        "",
    ),
    "template-runner": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "gpu-ci writes the container runner; write image, env, volumes, cpu and memory of the class, and rename yours",
        "",
    ),
    "template-without-limits": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "without resources.limits of cpu and memory the namespace gives it those of the runner; add them",
        '"a"',
    ),
    "template-with-gpu": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "resources.limits has more than quantities of cpu, memory and disk; correct it, and raise gpus for GPUs",
        '"a"',
    ),
    "template-twice": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers",
        "two containers have the same name; rename one",
        '[{"name": "a", "image": "a:1", "resources": {"requests": {"…',
    ),
    "template-volume": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes.0",
        "a volume has a name and one source, as in a pod; correct it",
        "",
    ),
    "template-volume-name": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes",
        "the pod has a volume of that name already; rename this one",
        '"shm"',
    ),
    "template-token": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes.0",
        "it opens the API server, and jobs get no token of it; remove the volume",
        "",
    ),
    "template-app": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes.0",
        "the Secret github-app has the private key of the GitHub App; name another",
        "",
    ),
    "template-credential": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers.0",
        "a text in it looks like a credential; put it into a Secret, and name that by secretKeyRef",
        "",
    ),
    "env-of-proxy": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.env.HTTPS_PROXY",
        "the set's listener needs the proxy, too, so ARC sets the variable; write proxy of the class",
        '"HTTPS_PROXY"',
    ),
    "env-of-bundle": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.env.SSL_CERT_FILE",
        "caBundle sets the variable; remove one of the two",
        '"/a"',
    ),
    "proxy-with-password": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.proxy.url",
        "not the URL of a proxy; write http://<host>:<port>, without user and password, which a Secret has",
        "",
    ),
    "proxy-except": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.proxy.noProxy.0",
        "not a host; write a host, a domain or a network such as 10.0.0.0/8",
        '"a b"',
    ),
    "account-of-others": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.serviceAccount",
        "other pods and the policies know that account; write another name, such as jobs",
        '"default"',
    ),
    "role-without-account": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.role",
        "EKS gives a role to a service account, which the program creates; name it in serviceAccount, such as jobs",
        '"arn:aws:iam::123456789012:role/jobs"',
    ),
    "role-arn": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.role",
        "not the ARN of an IAM role; write arn:aws:iam::<account>:role/<name>",
        '"jobs"',
    ),
    "role-of-another-account": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.role",
        "EKS gives pods only roles of its own account, 123456789012; correct it",
        '"arn:aws:iam::999999999999:role/jobs"',
    ),
    "containers-services-alone": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.services",
        "only a class with containers: job starts containers; write containers: job, or remove this",
        '{"most": 1}',
    ),
    "containers-pool-alone": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.runnerPool",
        "only a class with containers: job starts containers; write containers: job, or remove this",
        '"t4"',
    ),
    "containers-pool-unknown": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.runnerPool",
        "no pool of that name in this cluster; name one of: t4",
        '"cpu"',
    ),
    "containers-pool-with-gpus": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.runnerPool",
        (
            "the pool has GPUs, and the runners' own pods need none; name a pool of types without GPU such as m6i.2xlarge, or "
            "remove this for the system pool"
        ),
        '"t4"',
    ),
    "containers-pool-of-a-homelab": (
        "gpu-ci:clusters.home.runners.gpu-3090.runnerPool",
        (
            "the pool has GPUs, and the runners' own pods need none; remove this for the system pool: only EKS has pools without "
            "GPUs (docs/cpu-classes.md)"
        ),
        '"gpu"',
    ),
    "containers-more-than-the-pool": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.scale.max",
        (
            "a job in a container that gets no node within 26 minutes fails instead of waiting; here all of them need 3 nodes, "
            "and the pools have at most 2; lower scale.max or raise nodes.max"
        ),
        "3",
    ),
    "containers-volume-of-the-hooks": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.data",
        "GitHub's hooks have a volume of that name or at that path in each job; give yours another",
        '"data"',
    ),
    "containers-template-of-the-hooks": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.volumes",
        "GitHub's hooks have one of that name in each job's pod; rename yours",
        '"externals"',
    ),
    "containers-sidecar-of-the-hooks": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.template.containers",
        "GitHub's hooks have one of that name in each job's pod; rename yours",
        '"job"',
    ),
    "keep-failed-in-containers": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.keepFailed",
        "GitHub's hooks delete the pod of a job in a container before anything can keep it; remove one of the two",
        '{"time": "15m", "group": "gpu-ci-debug"}',
    ),
    "fill-nodes-in-containers": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.fillNodes",
        "the jobs' pods of a class with containers have no such preference; remove one of the two",
        "true",
    ),
    "keep-failed-beyond-the-reaper": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.keepFailed.time",
        (
            "GitHub ends a job after 360 minutes by default, and the reaper takes a runner older than maxLifetime for one that "
            "hangs; raise maxLifetime to 405m or more, or lower this"
        ),
        '"45m"',
    ),
    "keep-failed-too-long": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.keepFailed.time",
        "a failed job is kept from 1m to 60m; write a time such as 15m",
        '"2h"',
    ),
    "keep-failed-for-everybody": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.keepFailed.group",
        (
            "not a Kubernetes group of your own: it begins with a letter or digit, has no space, and not the prefix system:, "
            "which Kubernetes reserves (all users are in one of these groups); write one such as gpu-ci-debug"
        ),
        '"system:authenticated"',
    ),
    "keep-failed-of-a-machine": (
        "gpu-ci:clusters.sjc.runners.per-job.keepFailed",
        "unknown key; it belongs to kind pod, remove it or change kind",
        '{"time": "15m", "group": "gpu-ci-debug"}',
    ),
    "containers-jobs-namespace": (
        "gpu-ci:clusters.usw2.runners.gpu-t4",
        (
            "the pods of its jobs are in the namespace runners-gpu-t4-jobs, which has the GitHub App's key for class gpu-t4-jobs"
            "; rename one of the two"
        ),
        '"gpu-t4"',
    ),
    "env-of-ours": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.env.NVIDIA_VISIBLE_DEVICES",
        "gpu-ci, ARC, the runner or NVIDIA's toolkit sets variables that begin with NVIDIA_, ACTIONS_, RUNNER_, "
        "GITHUB_, GPU_CI_; rename or remove it",
        '"NVIDIA_VISIBLE_DEVICES"',
    ),
    "env-name": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.env.1ST",
        "an environment variable has letters, digits, '_', '-' and '.', and no digit first; rename it",
        '"1ST"',
    ),
    "env-credential": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.env.TOKEN_OF_US",
        "looks like a credential, and everybody who reads the stack file reads it: put it into a Secret and name "
        "that in secretEnv",
        "",
    ),
    "env-number": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.env.LEVEL",
        "must be text, and YAML reads a number here; put quotes around what you wrote",
        "3",
    ),
    "env-twice": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.secretEnv.KEY",
        "env has the variable too; remove one of the two",
        '{"secret": "own", "key": "a"}',
    ),
    "env-of-app": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.secretEnv.KEY.secret",
        "github-app has the private key of the GitHub App, which no job may read; name another Secret",
        '"github-app"',
    ),
    "env-secret-key": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.secretEnv.KEY.key",
        "not a key of a Secret; write letters, digits, '-', '_' and '.'",
        '"a/b"',
    ),
    "pull-secret-twice": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pullSecrets",
        "a Secret is given twice; remove one",
        '["ghcr", "ghcr"]',
    ),
    "volume-without-kind": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.data",
        "a volume has one of size, claim, configMap and secret; give one of them",
        '{"path": "/data"}',
    ),
    "volume-of-node": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.data.hostPath",
        "unknown key; a word of Kubernetes: jobs reach no directory of a node; write a cache of the cluster and "
        "its claim (docs/storage.md)",
        '"/mnt"',
    ),
    "volume-in-memory": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.data.inMemory",
        "only an empty directory can be in memory; remove inMemory, or give size",
        "true",
    ),
    "volume-read-only": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.data.readOnly",
        "an empty directory that is read-only stays empty; remove readOnly",
        "true",
    ),
    "volume-name-of-ours": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.shm",
        "gpu-ci has a volume of that name; rename yours",
        '"shm"',
    ),
    "volume-path": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.data.path",
        "not a path for a mount; write an absolute path without .., ':' or a slash at its end, such as /data",
        '"data"',
    ),
    "volume-path-of-runner": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.data.path",
        "/home/runner belongs to the runner, its system or /dev/shm; write a path such as /data",
        '"/home/runner/_work"',
    ),
    "volume-path-twice": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.more.path",
        "volume data is mounted there; give yours another path",
        '"/data"',
    ),
    "volume-fills-memory": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes",
        "what is in memory counts against the memory limit, and would fill it with shm; lower it or raise memory.limit",
        '"14Gi"',
    ),
    "volume-of-app": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.volumes.data.secret",
        "github-app has the private key of the GitHub App, which no job may read; name another Secret",
        '"github-app"',
    ),
    "word-of-arc": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.maxRunners",
        "unknown key; a word of ARC: write scale.max of the class",
        "4",
    ),
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
        "unknown key; it belongs to provider kubernetes, remove it",
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
        "unknown key; a word of ARC: write group of the class",
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
        "required key is missing; write {appId: …, installationId: …, url: …}",
        "",
    ),
    "missing-clusters": (
        "gpu-ci:clusters",
        "required key is missing; write {<name>: {provider: …}}",
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
        "required key is missing; write at least one of its keys below it: publicCidrs, private, reachableFrom, privateCidrs",
        "",
    ),
    "missing-runners": (
        "gpu-ci:clusters.usw2.runners",
        "required key is missing; write {<name>: {cpu: {…}, memory: {…}, scale: {…}}}",
        "",
    ),
    "missing-capacity": (
        "gpu-ci:clusters.usw2.pools.t4.capacity",
        "required key is missing; write one of capacity-block, on-demand, reserved, spot",
        "",
    ),
    "missing-role": (
        "gpu-ci:clusters.usw2.pools.t4.role",
        "required key is missing; write one of burst, fallback, release",
        "",
    ),
    "missing-cpu-limit": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.cpu.limit",
        "required key is missing; write for example 4",
        "",
    ),
    "number-for-cpu": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.cpu",
        "not a mapping; write {request: 4, limit: 4}",
        "4",
    ),
    "missing-nodes-max": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "required key is missing; write a whole number, at least 1 and at most 1000",
        "",
    ),
    "missing-runner-pool": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pool",
        "a class names one pool in pool, or several in pools with the first choice first; give one of the two",
        "",
    ),
    "runner-pool-and-pools": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pools",
        "a class names one pool in pool, or several in pools with the first choice first; give one of the two",
        '["t4-spot"]',
    ),
    "runner-pools-repeated": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pools",
        "a pool is given twice; remove one",
        '["t4-spot", "t4-spot"]',
    ),
    "runner-pools-unknown": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pools.1",
        "no pool of that name in this cluster; name one of: t4-spot, t4-shared",
        '"t4-ondemand"',
    ),
    "runner-pools-sharing": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pools.1",
        "pool t4-spot shares its GPUs in another way, and a runner requests one resource; give both pools the same "
        "sharing, or write a class for each",
        '"t4-shared"',
    ),
    "same-as-a-name": (
        "gpu-ci:clusters.use1.runners.gpu-t4-east.sameAs",
        "not a runner set of another cluster; write <cluster>/<set>, for example usw2/gpu-t4",
        '"gpu-t4"',
    ),
    "same-as-unknown": (
        "gpu-ci:clusters.use1.runners.gpu-t4-east.sameAs",
        "names no set of pods in another cluster that has no sameAs itself; name one of: usw2/gpu-t4",
        '"usw2/gpu-l4"',
    ),
    "same-as-differs": (
        "gpu-ci:clusters.use1.runners.gpu-t4-east.sameAs",
        "GitHub may give a job to either set, so they must be equal: capacity is spot here and not spot there; give both the "
        "same, or remove sameAs",
        '"usw2/gpu-t4"',
    ),
    "same-as-without-labels": (
        "gpu-ci:clusters.use1.runners.gpu-t4-east.sameAs",
        "no label selects both sets; add the same labels to this set and to usw2/gpu-t4",
        '"usw2/gpu-t4"',
    ),
    "same-as-without-room": (
        "gpu-ci:clusters.use1.runners.gpu-t4-east.scale.max",
        "GitHub may give all jobs of this set and its equals (sameAs: usw2/gpu-t4) to one cluster; here they need 2 nodes, and "
        "its pools may have only 1 beside other sets; lower scale.max or raise nodes.max",
        "2",
    ),
    "pool-orders-against": (
        "gpu-ci:clusters.usw2.runners.gpu-b.pools",
        "the cluster's autoscaler has one order of pools, and these contradict each other: runners.gpu-a puts t4-spot "
        "before t4, runners.gpu-b puts t4 before t4-spot; use one order",
        '["t4", "t4-spot"]',
    ),
    "pool-orders-in-a-circle": (
        "gpu-ci:clusters.usw2.runners.gpu-c.pools",
        "the cluster's autoscaler has one order of pools, and these contradict each other: runners.gpu-a puts t4-spot "
        "before t4, runners.gpu-b puts t4 before t4-more, runners.gpu-c puts t4-more before t4-spot; use one order",
        '["t4-more", "t4-spot"]',
    ),
    "rerun-unknown": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.rerunOn",
        "group default has no other set of pods with this name; name one of: gpu-t4-ondemand",
        '"gpu-t4-again"',
    ),
    "rerun-alone": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.rerunOn",
        "group default has no other set of pods with this name; add one, or remove this",
        '"gpu-t4"',
    ),
    "rerun-on-spot": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.rerunOn",
        "its pool t4-other is spot, and no rerun follows this one; name a set without spot pools",
        '"gpu-t4-other"',
    ),
    "rerun-first-on-demand": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.rerunFirstOn",
        "no pool of this set is spot, so no interruption ends the first rerun; name it in rerunOn, and remove this",
        '"gpu-t4-other"',
    ),
    "rerun-first-unknown": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.rerunFirstOn",
        "group default has no set of pods with this name; name one of: gpu-t4, gpu-t4-other",
        '"gpu-t4-again"',
    ),
    "rerun-first-alone": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.rerunFirstOn",
        "the second rerun has no set; name one without spot pools in rerunOn, or remove this",
        '"gpu-t4"',
    ),
    "rerun-without-spot": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.rerunOn",
        "no pool of this class is spot, so no interruption ends its jobs; remove it",
        '"gpu-t4-again"',
    ),
    "rerun-gpus": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.rerunOn",
        "its runners have 1x A10G 22Gi, and jobs of this class need 1x T4 16Gi; name a set with the same GPUs and at least as "
        "many",
        '"gpu-a10g"',
    ),
    "same-as-order-twice": (
        "gpu-ci:clusters.use1.runners.gpu-t4-east.sameAsOrder",
        "euw1/gpu-t4-europe has the same place; give one of them another",
        "2",
    ),
    "same-order-alone": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.sameAsOrder",
        "only a set with sameAs has a place after others; add sameAs, or remove this",
        "2",
    ),
    "runner-quota-sum": (
        "gpu-ci:clusters.usw2.runnerQuotas.vision.gpus",
        "its classes may have 2 GPUs together (2 gpu-t4 x 1); lower scale.max of one of them, or raise gpus",
        "1",
    ),
    "runner-quota-twice": (
        "gpu-ci:clusters.usw2.runnerQuotas.vision.runners",
        "a runner class is given twice; remove one",
        '["gpu-t4", "gpu-t4"]',
    ),
    "runner-quota-units": (
        "gpu-ci:clusters.usw2.runnerQuotas.vision.runners",
        "its classes ask for different resources (nvidia.com/gpu, nvidia.com/gpu.shared); write a quota for each of them",
        '["gpu-t4", "shares"]',
    ),
    "runner-quota-unknown": (
        "gpu-ci:clusters.usw2.runnerQuotas.vision.runners",
        "this cluster has no class of pods with GPUs called gpu-l4; name one of: gpu-t4",
        '["gpu-t4", "gpu-l4"]',
    ),
    "fallback-spot": (
        "gpu-ci:clusters.usw2.pools.t4-ondemand.capacity",
        "a fallback pool runs jobs while spot has no capacity, so it must not be spot; use on-demand",
        '"spot"',
    ),
    "fallback-first": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pools.0",
        "a pool with role fallback is only used when spot has no capacity; write a spot pool before it, or give it another role",
        '"t4-ondemand"',
    ),
    "fallback-alone": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pool",
        "a pool with role fallback is only used when spot has no capacity; write a spot pool before it, or give it another role",
        '"t4-ondemand"',
    ),
    "fallback-behind-on-demand": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pools.1",
        "a pool with role fallback is only used when spot has no capacity; write a spot pool before it, or give it another role",
        '"t4-ondemand"',
    ),
    "fallback-of-a-job": (
        "gpu-ci:clusters.usw2.jobs.train.pools.0",
        "a pool with role fallback is only used when spot has no capacity; write a spot pool before it, or give it another role",
        '"t4-ondemand"',
    ),
    "fallback-unused": (
        "gpu-ci:clusters.usw2.pools.t4-ondemand.role",
        "no runner class uses this fallback pool; add it to pools of a class, after a spot pool, or remove it",
        '"fallback"',
    ),
    "missing-provider": (
        "gpu-ci:clusters.usw2.provider",
        "required key is missing; name one of: eks, oke, kubernetes, talos",
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
        "not a mapping; write {<name>: {instanceTypes: […], capacity: on-demand, role: burst, nodes: {…}}}",
        '[{"instanceTypes": ["g4dn.2xlarge"], "capacity": "on-demand…',
    ),
    "string-for-model": (
        "gpu-ci:clusters.usw2.endpoint",
        "not a mapping; write at least one of its keys below it: publicCidrs, private, reachableFrom, privateCidrs",
        '"public"',
    ),
    "empty-cluster": (
        "gpu-ci:clusters.usw2",
        "not a mapping; write {provider: …}",
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
    "nodes-too-many": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "must be at most 1000; lower it",
        "1001",
    ),
    "runners-too-many": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.scale.max",
        "must be at most 10000; lower it",
        "10001",
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
    "runner-negative-gpus": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.gpus",
        "must be at least 0; raise it",
        "-1",
    ),
    "runner-without-gpus-on-gpu-pool": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pool",
        ("the pool has GPUs, and the class has gpus: 0; name a pool of types without GPU such as m6i.2xlarge, or write gpus: 1"),
        '"t4"',
    ),
    "runner-without-gpus-with-gpu-label": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels",
        "label CUDA promises a GPU, and the class has gpus: 0; remove the label",
        '["build", "CUDA"]',
    ),
    "cpu-pool-with-cdi": (
        "gpu-ci:clusters.usw2.pools.t4.cdi",
        "the pool has no GPUs, and this setting is about GPUs; remove it",
        "true",
    ),
    "cpu-pool-with-placeholders": (
        "gpu-ci:clusters.usw2.pools.t4.placeholders",
        "the pool has no GPUs, and this setting is about GPUs; remove it",
        "1",
    ),
    "cpu-pool-with-gpu-image": (
        "gpu-ci:clusters.usw2.pools.t4.image",
        "the pool has no GPUs, and this setting is about GPUs; remove it",
        '"al2023-nvidia"',
    ),
    "cpu-pool-of-workload": (
        "gpu-ci:clusters.usw2.queues.teams.ml.quotas.0.pool",
        "the pool has no GPUs, and its user takes GPUs; name a pool with GPUs, or give a runner class gpus: 0",
        '"builds"',
    ),
    "types-with-and-without-gpus": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        (
            "types of one pool must have the same GPU model, memory and count, and these are g4dn.2xlarge 1x T4 16Gi, "
            "m6i.2xlarge without GPU; split the pool"
        ),
        '["g4dn.2xlarge", "m6i.2xlarge"]',
    ),
    "ami-built-without-gpu": (
        "gpu-ci:clusters.usw2.amis.gpu.buildType",
        "m6i.large has no GPU, and only EKS has pools without (docs/cpu-classes.md); name a GPU type",
        '"m6i.large"',
    ),
    "oke-runner-without-gpus": (
        "gpu-ci:clusters.sjc.runners.oci-a10.pool",
        (
            "the class has gpus: 0, and only EKS has pools without GPUs (docs/cpu-classes.md); write gpus: 1, or move the class "
            "to a cluster on EKS"
        ),
        '"a10"',
    ),
    "talos-pool-without-gpus": (
        "gpu-ci:clusters.home.pools.gpu.instanceTypes.0",
        "m6i.large has no GPU, and only EKS has pools without (docs/cpu-classes.md); name a GPU type",
        '"m6i.large"',
    ),
    "unknown-provider": (
        "gpu-ci:clusters.usw2.provider",
        "must be one of: eks, oke, kubernetes, talos; name one of them",
        '"gke"',
    ),
    "unknown-capacity": (
        "gpu-ci:clusters.usw2.pools.t4.capacity",
        "must be 'on-demand', 'spot', 'reserved' or 'capacity-block'; correct it",
        '"SPOT"',
    ),
    "unknown-role": (
        "gpu-ci:clusters.usw2.pools.t4.role",
        "must be 'burst', 'release' or 'fallback'; correct it",
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
        "must be 'device-plugin' or 'gpu-operator'; correct it",
        '"gpu-plugin-addon"',
    ),
    "unknown-delivery": (
        "gpu-ci:clusters.usw2.delivery",
        "must be 'helm' or 'argocd'; correct it",
        '"flux"',
    ),
    "kind-vm": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.kind",
        (
            "provider eks supports only pods, and runners of kind vm are machines on OCI; move the set to a cluster of "
            "provider oke, "
            "or remove kind"
        ),
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
        "'system' is the untainted pool's name; rename the GPU pool",
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
        "must be text, and YAML reads a number here (1.30 as 1.3); put quotes around what you wrote",
        "1.34",
    ),
    "version-unquoted-zero": (
        "gpu-ci:clusters.usw2.kubernetesVersion",
        "must be text, and YAML reads a number here (1.30 as 1.3); put quotes around what you wrote",
        "1.3",
    ),
    "version-unsupported": (
        "gpu-ci:clusters.usw2.kubernetesVersion",
        "no node image is known for this version; use one of: 1.34, 1.35, 1.36",
        '"1.28"',
    ),
    "type-unknown": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes.0",
        "unknown machine 'g4dn.2xlarg'; did you mean g4dn.2xlarge, g4dn.12xlarge, g4dn.xlarge?",
        '"g4dn.2xlarg"',
    ),
    "type-without-gpu": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.pool",
        "the pool has no GPUs, and its user takes GPUs; name a pool with GPUs, or give a runner class gpus: 0",
        '"t4"',
    ),
    "type-of-another-cloud": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        "not an EC2 instance type; give this cluster EC2 types",
        '"VM.GPU.A10.1"',
    ),
    "types-of-mixed-counts": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        (
            "types of one pool must have the same GPU model, memory and count, and these are g4dn.8xlarge 1x T4 16Gi, "
            "g4dn.12xlarge "
            "4x T4 16Gi; split the pool"
        ),
        '["g4dn.8xlarge", "g4dn.12xlarge"]',
    ),
    "types-of-mixed-models": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        (
            "types of one pool must have the same GPU model, memory and count, and these are g4dn.2xlarge 1x T4 16Gi, "
            "g5.2xlarge 1x "
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
        "a release pool must not be spot: an interruption would abort a release; use on-demand",
        '"spot"',
    ),
    "label-nvidia": (
        "gpu-ci:clusters.usw2.pools.t4.labels.nvidia.com/gpu.deploy.operands",
        "NVIDIA's software reads labels of nvidia.com, and some of them leave a node without GPUs; remove it",
        '"false"',
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
        "a private endpoint needs reachableFrom (vpc-agent or vpn), or no deployment can reach it",
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
        "gpu-ci:clusters.usw2.network.privateSubnets",
        "an existing network needs both vpcId and privateSubnets; give both or neither",
        "",
    ),
    "subnets-without-vpc": (
        "gpu-ci:clusters.usw2.network.vpcId",
        "an existing network needs both vpcId and privateSubnets; give both or neither",
        "",
    ),
    "vpc-with-cidr": (
        "gpu-ci:clusters.usw2.network.cidr",
        "cidr and natGateways belong to a new VPC; remove them, or remove vpcId",
        '"10.0.0.0/16"',
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
        "privateSubnets must have one subnet for each zone in zones and controlPlaneZones; use the same zones",
        '["us-west-2a", "us-west-2c"]',
    ),
    "zones-of-an-unknown-region": (
        "gpu-ci:clusters.usw2.zones",
        "fleet/facts/data/zones.csv has no region eu-south-1; write the zones here, or correct region",
        '"eu-south-1"',
    ),
    "zone-foreign": (
        "gpu-ci:clusters.usw2.zones",
        "not a zone of us-west-2; write for example us-west-2a",
        '"us-east-1b"',
    ),
    "control-plane-zone-foreign": (
        "gpu-ci:clusters.usw2.controlPlaneZones",
        "not a zone of us-west-2; write for example us-west-2a",
        '"us-east-1b"',
    ),
    "control-plane-zone-letter": (
        "gpu-ci:clusters.usw2.controlPlaneZones",
        "a new VPC has subnets for zones a to g; use those",
        '["us-west-2a", "us-west-2h"]',
    ),
    "control-plane-zone-only-one": (
        "gpu-ci:clusters.usw2.controlPlaneZones",
        "an EKS control plane needs at least two different zones; add one",
        '["us-west-2a"]',
    ),
    "control-plane-zone-repeated": (
        "gpu-ci:clusters.usw2.controlPlaneZones",
        "a zone is given twice; remove one",
        '["us-west-2a", "us-west-2b", "us-west-2a"]',
    ),
    "control-plane-zone-without-subnet": (
        "gpu-ci:clusters.usw2.network.privateSubnets",
        "privateSubnets must have one subnet for each zone in zones and controlPlaneZones; use the same zones",
        '["us-west-2a", "us-west-2b"]',
    ),
    "zone-only-one": (
        "gpu-ci:clusters.usw2.zones",
        "an EKS control plane needs at least two different zones; add one",
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
        "a GitHub App cannot register runners of an enterprise; give the URL of an organization or repository",
        '"https://github.com/enterprises/example"',
    ),
    "github-no-scope": (
        "gpu-ci:github.url",
        "not a GitHub scope; write https://github.com/<organization> or …/<organization>/<repository>",
        '"https://github.com"',
    ),
    "github-trailing-slash": (
        "gpu-ci:github.url",
        "not a GitHub scope; write https://github.com/<organization> or …/<organization>/<repository>",
        '"https://github.com/example/"',
    ),
    "github-app-id-number": (
        "gpu-ci:github.appId",
        "must be text, and YAML reads a number here; put quotes around what you wrote",
        "123456",
    ),
    "github-app-id-text": (
        "gpu-ci:github.appId",
        'an id is a quoted number from 1, for example "123456"',
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
            "types of one pool must have the same GPU model, memory and count, and these are p4d.24xlarge 8x A100 40Gi, "
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
    "oci-tags-too-many": (
        "gpu-ci:tags",
        "cluster sjc is of provider oke, whose cloud allows only 6 tags; remove some",
        '["t0", "t1", "t2", "t3", "t4", "t5", "t6"]',
    ),
    "oci-tag-key": (
        "gpu-ci:tags.cost.center",
        "cluster sjc is of provider oke, whose tags have keys of 1 to 100 ASCII characters without space or full stop; rename it",
        '"cost.center"',
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
        "label given twice: T4, t4 (GitHub ignores case); remove one",
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
        f"sets usw2/gpu-t4 (self-hosted, gpu) and usw2/gpu-big (gpu) both have generic labels; {_DEFAULT_SET}; keep them on one",
        '["gpu"]',
    ),
    "own-label-on-two-sets": (
        "gpu-ci:clusters.usw2.runners.gpu-big.labels",
        ("label 'Vision' already selects set usw2/gpu-t4, so a runs-on would be ambiguous; remove it or rename it"),
        '["Vision"]',
    ),
    "set-name-as-label": (
        "gpu-ci:clusters.usw2.runners.gpu-big.labels",
        "label 'GPU-T4' is the name of a runner set; remove it or rename one",
        '["GPU-T4"]',
    ),
    "set-named-like-a-label": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels",
        "label 'gpu-big' is the name of a runner set; remove it or rename one",
        '["gpu-big"]',
    ),
    "set-in-two-clusters": (
        "gpu-ci:clusters.use1.runners.gpu-t4",
        "cluster usw2 has a runner set with that name in group default; rename one",
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
    "viewer-twice": (
        "gpu-ci:clusters.usw2.viewers",
        "a principal is given twice; remove one",
        '["arn:aws:iam::123456789012:role/sees", "arn:aws:iam::12345…',
    ),
    "viewer-session": (
        "gpu-ci:clusters.usw2.viewers.0",
        "not an IAM principal; write arn:aws:iam::<account>:role/<name> (no assumed-role session)",
        '"arn:aws:sts::123456789012:assumed-role/sees/me"',
    ),
    "viewer-and-admin": (
        "gpu-ci:clusters.usw2.viewers.1",
        "also one of admins, and EKS has one access entry for each principal; remove it here or there",
        '"arn:aws:iam::123456789012:role/ops"',
    ),
    "upgrade-policy": (
        "gpu-ci:clusters.usw2.upgradePolicy",
        "must be 'STANDARD' or 'EXTENDED'; correct it",
        '"standard"',
    ),
    "log-retention": (
        "gpu-ci:clusters.usw2.logRetentionDays",
        "must be 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288 or 3653; "
        "correct it",
        "45",
    ),
    "cluster-name-29-characters": (
        "gpu-ci:clusters.ccccccccccccccccccccccccccccc",
        "a cluster's name has at most 28 characters, because cloud resources are named after it; shorten it",
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
    "private-egress-public": (
        "gpu-ci:clusters.usw2.privateEgress.1",
        _NOT_PRIVATE,
        '"203.0.113.0/24"',
    ),
    "private-egress-repeated": (
        "gpu-ci:clusters.usw2.privateEgress",
        "a network is given twice; remove one",
        '["10.20.0.0/16", "10.20.0.0/16"]',
    ),
    "private-egress-link-local": (
        "gpu-ci:clusters.usw2.privateEgress.1",
        _NOT_PRIVATE,
        '"169.254.169.254/32"',
    ),
    "generic-labels-split-over-two-sets": (
        "gpu-ci:clusters.usw2.runners.gpu-t4-b.labels",
        f"sets usw2/gpu-t4 (self-hosted) and usw2/gpu-t4-b (linux) both have generic labels; {_DEFAULT_SET}; keep them on one",
        '["linux"]',
    ),
    "github-orgs-page": (
        "gpu-ci:github.url",
        "not a GitHub scope; write https://github.com/<organization> or …/<organization>/<repository>",
        '"https://github.com/orgs/example"',
    ),
    "names-too-long-together": (
        "gpu-ci:clusters.usw2.pools.t4-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "cluster and pool names together have at most 37 characters; shorten one",
        '"t4-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"',
    ),
    "own-label-on-two-sets-of-one-name": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels",
        ("label 't4-special' already selects set use1/gpu-t4, so a runs-on would be ambiguous; remove it or rename it"),
        '["t4-special"]',
    ),
    "runner-image-latest": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.image",
        ("an image must name a version or digest, not latest; write registry/name:version, registry/name@sha256:… or both"),
        '"ghcr.io/example/runner:latest"',
    ),
    "runner-image-digest-cut-off": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.image",
        "an image must name a version or digest, not latest; write registry/name:version, registry/name@sha256:… or both",
        '"ghcr.io/example/runner:2.338.0@sha256:4ffadc"',
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
        f"unknown key; {reading.KEY_IN_FILE}",
        "",
    ),
    "zone-beyond-g": (
        "gpu-ci:clusters.usw2.zones",
        "a new VPC has subnets for zones a to g; use those",
        '["us-west-2a", "us-west-2h"]',
    ),
    "ocid-of-another-kind": (
        "gpu-ci:clusters.sjc.compartment",
        "not an OCID of kind compartment; write ocid1.compartment.oc1.… as the console shows it",
        '"ocid1.tenancy.oc1..example"',
    ),
    "ocid-of-another-region": (
        "gpu-ci:clusters.sjc.nodeImages.oke-gpu.id",
        "this OCID belongs to region us-ashburn-1; use one of us-sanjose-1",
        '"ocid1.image.oc1.iad.examplegpu"',
    ),
    "network-of-another-region": (
        "gpu-ci:clusters.sjc.network.endpointSubnet",
        "this OCID belongs to region us-phoenix-1; use one of us-sanjose-1",
        '"ocid1.subnet.oc1.phx.example"',
    ),
    "machine-image-of-another-region": (
        "gpu-ci:clusters.sjc.runners.per-job.image.id",
        "this OCID belongs to region us-ashburn-1; use one of us-sanjose-1",
        '"ocid1.image.oc1.us-ashburn-1.examplevm"',
    ),
    "place-subnet-of-another-region": (
        "gpu-ci:clusters.sjc.runners.per-job.places.0.subnet",
        "this OCID belongs to region us-ashburn-1; use one of us-sanjose-1",
        '"ocid1.subnet.oc1.iad.example"',
    ),
    "oke-region": (
        "gpu-ci:clusters.sjc.region",
        "not a commercial OCI region; did you mean us-sanjose-1?",
        '"sanjose"',
    ),
    "oke-region-misspelt": (
        "gpu-ci:clusters.sjc.region",
        "not a commercial OCI region; did you mean us-sanjose-1?",
        '"us-sanjoes-1"',
    ),
    "home-region-misspelt": (
        "gpu-ci:clusters.sjc.homeRegion",
        "not a commercial OCI region; did you mean us-ashburn-1?",
        '"us-ashbrun-1"',
    ),
    "place-region-unknown": (
        "gpu-ci:clusters.sjc.runners.per-job.places.0.region",
        "not a commercial OCI region; write for example us-sanjose-1",
        '"us-dallas-1"',
    ),
    "tenancy-prefix-of-zones": (
        "gpu-ci:clusters.sjc.zones.1",
        "the tenancy's prefix is efgh here and abcd at clusters.sjc.zones.0, and a tenancy has only one prefix; "
        "use yours everywhere",
        '"efgh:US-SANJOSE-1-AD-1"',
    ),
    "tenancy-prefix-of-a-place": (
        "gpu-ci:clusters.sjc.runners.per-job.places.0.availabilityDomains.0",
        "the tenancy's prefix is efgh here and abcd at clusters.sjc.zones.0, and a tenancy has only one prefix; "
        "use yours everywhere",
        '"efgh:US-SANJOSE-1-AD-1"',
    ),
    "availability-domain": (
        "gpu-ci:clusters.sjc.zones.0",
        "not an availability domain; write it with the tenancy's prefix, as `oci iam availability-domain list` gives it",
        '"US-SANJOSE-1-AD-1"',
    ),
    "oke-zone-foreign": (
        "gpu-ci:clusters.sjc.zones.0",
        "not an availability domain of us-sanjose-1; use its own",
        '"abcd:US-ASHBURN-AD-1"',
    ),
    "oke-zone-repeated": (
        "gpu-ci:clusters.sjc.zones",
        "an availability domain is given twice; remove one",
        '["abcd:US-SANJOSE-1-AD-1", "abcd:US-SANJOSE-1-AD-1"]',
    ),
    "place-domain-foreign": (
        "gpu-ci:clusters.sjc.runners.per-job.places.0.availabilityDomains.0",
        "not an availability domain of us-sanjose-1; use that region's",
        '"abcd:US-ASHBURN-AD-1"',
    ),
    "place-domain-repeated": (
        "gpu-ci:clusters.sjc.runners.per-job.places.0.availabilityDomains",
        "an availability domain is given twice; remove one",
        '["abcd:US-SANJOSE-1-AD-1", "abcd:US-SANJOSE-1-AD-1"]',
    ),
    "place-repeated": (
        "gpu-ci:clusters.sjc.runners.per-job.places.1.availabilityDomains",
        "an earlier place has that availability domain; remove one",
        '"abcd:US-SANJOSE-1-AD-1"',
    ),
    "place-without-network": (
        "gpu-ci:clusters.sjc.runners.per-job.places.1",
        "a place outside of the cluster's region needs its own network and image; add securityGroup, image",
        '"us-ashburn-1"',
    ),
    "standing-domain-foreign": (
        "gpu-ci:clusters.sjc.runners.standing.availabilityDomains.0",
        "standing machines are in the cluster's own availability domains; use one of zones",
        '"abcd:US-SANJOSE-1-AD-2"',
    ),
    "standing-domain-repeated": (
        "gpu-ci:clusters.sjc.runners.standing.availabilityDomains",
        "an availability domain is given twice; remove one",
        '["abcd:US-SANJOSE-1-AD-1", "abcd:US-SANJOSE-1-AD-1"]',
    ),
    "oke-version-unquoted": (
        "gpu-ci:clusters.sjc.kubernetesVersion",
        "must be text, and YAML reads a number here (1.30 as 1.3); put quotes around what you wrote",
        "1.34",
    ),
    "oke-version-unsupported": (
        "gpu-ci:clusters.sjc.kubernetesVersion",
        "no OKE version is known for this minor; use one of: 1.34, 1.35, 1.36",
        '"v1.34.2"',
    ),
    "shape-without-gpu": (
        "gpu-ci:clusters.sjc.pools.a10.instanceTypes.0",
        (
            "VM.Standard.E5.Flex has no GPU; name a GPU shape such as VM.GPU.A10.1 (only EKS has pools without GPUs: "
            "docs/cpu-classes.md)"
        ),
        '"VM.Standard.E5.Flex"',
    ),
    "shape-of-another-cloud": (
        "gpu-ci:clusters.sjc.pools.a10.instanceTypes.0",
        "g5.2xlarge is not an OCI shape; name one such as VM.GPU.A10.1",
        '"g5.2xlarge"',
    ),
    "cuda-unknown": (
        "gpu-ci:clusters.sjc.runners.oci-a10.cuda",
        'not a version of CUDA 11, 12, 13; write major and minor version in quotes, for example "13.0"',
        '"14.0"',
    ),
    "cuda-without-quotes": (
        "gpu-ci:clusters.sjc.runners.oci-a10.cuda",
        "not a string; fill it in, in quotes if it looks like a number",
        "13.0",
    ),
    "cuda-without-gpus": (
        "gpu-ci:clusters.usw2.runners.builds.cuda",
        "the class has gpus: 0, so no image uses CUDA; remove it",
        '"12.8"',
    ),
    "cuda-newer-than-driver": (
        "gpu-ci:clusters.sjc.runners.oci-a10.cuda",
        (
            "pool a10: CUDA 13.0 needs driver branch R580 or newer (NVIDIA, minor version compatibility), and the nodes have "
            "570.211.01; use images with an older CUDA, or nodes with a newer driver"
        ),
        '"13.0"',
    ),
    "cuda-newer-than-gpu": (
        "gpu-ci:clusters.sjc.runners.oci-a10.cuda",
        (
            "pool a10: V100 (VM.GPU3.1, volta) has compute capability 7.0, and CUDA 13 supports 7.5 and newer; use images with "
            "an older CUDA, or another GPU"
        ),
        '"13.2"',
    ),
    "cuda-newer-than-driver-of-machine": (
        "gpu-ci:clusters.sjc.runners.per-job.cuda",
        (
            "CUDA 13.0 needs driver branch R580 or newer (NVIDIA, minor version compatibility), and the nodes have 570.211.01; "
            "use images with an older CUDA, or nodes with a newer driver"
        ),
        '"13.0"',
    ),
    "shape-unknown": (
        "gpu-ci:clusters.sjc.runners.standing.shapes.0",
        "unknown machine 'VM.GPU.A10.3'; did you mean VM.GPU.A10.2, VM.GPU.A10.1, BM.GPU.A10.4?",
        '"VM.GPU.A10.3"',
    ),
    "shape-of-amd": (
        "gpu-ci:clusters.sjc.pools.a10.instanceTypes.0",
        "BM.GPU.MI300X.8 has no NVIDIA GPU, and GPUs of other vendors are not supported; name an NVIDIA shape",
        '"BM.GPU.MI300X.8"',
    ),
    "shapes-of-one-pool": (
        "gpu-ci:clusters.sjc.pools.a10.instanceTypes",
        "an OKE node pool has one shape; keep one, and add a pool for each other shape",
        '["BM.GPU4.8", "BM.GPU.B4.8"]',
    ),
    "machine-shape-without-gpu": (
        "gpu-ci:clusters.sjc.runners.standing.shapes.0",
        (
            "VM.Standard3.Flex has no GPU; name a GPU shape such as VM.GPU.A10.1 (only EKS has pools without GPUs: "
            "docs/cpu-classes.md)"
        ),
        '"VM.Standard3.Flex"',
    ),
    "machine-shape-of-arm": (
        "gpu-ci:clusters.sjc.runners.per-job.shapes.0",
        "machines download their tools for x86_64, BM.GPU.GB200.4 is arm64; name another shape, or use a pool",
        '"BM.GPU.GB200.4"',
    ),
    "machine-shapes-mixed": (
        "gpu-ci:clusters.sjc.runners.per-job.shapes",
        (
            "shapes of one set must have the same GPU model and count, and these are VM.GPU.A10.1 1x A10, VM.GPU.A10.2 2x "
            "A10; give each "
            "its own set"
        ),
        '["VM.GPU.A10.1", "VM.GPU.A10.2"]',
    ),
    "machine-shape-repeated": (
        "gpu-ci:clusters.sjc.runners.per-job.shapes",
        "a shape is given twice; remove one",
        '["VM.GPU.A10.1", "VM.GPU.A10.1"]',
    ),
    "standing-shapes": (
        "gpu-ci:clusters.sjc.runners.standing.shapes",
        "standing machines have one shape; keep one and add a set for each other shape, or use kind: vm-per-job",
        '["BM.GPU4.8", "BM.GPU.B4.8"]',
    ),
    "boot-volume-too-small": (
        "gpu-ci:clusters.sjc.pools.a10.disk",
        "an OCI boot volume has 50Gi to 32768Gi; write for example 400Gi",
        '"40Gi"',
    ),
    "machine-disk-too-large": (
        "gpu-ci:clusters.sjc.runners.standing.disk",
        "an OCI boot volume has 50Gi to 32768Gi; write for example 400Gi",
        '"40000Gi"',
    ),
    "spot-on-bare-metal": (
        "gpu-ci:clusters.sjc.pools.a10.instanceTypes",
        "OCI has no preemptible bare metal; use on-demand",
        '"BM.GPU.A10.4"',
    ),
    "spot-on-shape-without": (
        "gpu-ci:clusters.sjc.pools.a10.instanceTypes",
        "OCI has no preemptible capacity of this shape; use on-demand",
        '"VM.GPU.A10.1"',
    ),
    "machine-spot-on-shape-without": (
        "gpu-ci:clusters.sjc.runners.per-job.shapes",
        "OCI has no preemptible capacity of this shape; use on-demand",
        '"VM.GPU.A10.1"',
    ),
    "machine-release-on-spot": (
        "gpu-ci:clusters.sjc.runners.per-job.capacity",
        "a release job must not run on preemptible capacity: an interruption would abort it; use on-demand",
        '"spot"',
    ),
    "standing-on-spot": (
        "gpu-ci:clusters.sjc.runners.standing.capacity",
        "OCI does not keep standing machines on preemptible capacity; use on-demand, or kind: vm-per-job",
        '"spot"',
    ),
    "machine-reserved": (
        "gpu-ci:clusters.sjc.runners.standing.capacity",
        "must be 'on-demand' or 'spot'; correct it",
        '"reserved"',
    ),
    "reserved-without-reservation": (
        "gpu-ci:clusters.usw2.pools.t4.capacity",
        "capacity reserved and a reservation (id, zone, count) belong together; give both or neither",
        '"reserved"',
    ),
    "reservation-without-reserved": (
        "gpu-ci:clusters.usw2.pools.t4.capacity",
        "capacity reserved or capacity-block and a reservation (id, zone, count) belong together; give both or neither",
        '"on-demand"',
    ),
    "reservation-too-small": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "the reservation holds 2 machines, and nodes beyond them never start; lower max",
        "3",
    ),
    "reservation-id": (
        "gpu-ci:clusters.usw2.pools.t4.reservation.id",
        "not a capacity reservation's id; write cr-… as AWS shows it",
        '"ocid1.capacityreservation.oc1..example"',
    ),
    "reservation-of-two-types": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        "a capacity reservation has one instance type; keep one, and add a pool for each other type",
        '["g4dn.2xlarge", "g4dn.4xlarge"]',
    ),
    "reservation-zone": (
        "gpu-ci:clusters.usw2.pools.t4.reservation.zone",
        "the reservation's zone is not one of the cluster's; add it to zones",
        '"us-west-2c"',
    ),
    "reservation-in-two-pools": (
        "gpu-ci:clusters.usw2.pools.t4-more.reservation.id",
        "pool usw2/t4 already uses that reservation; give each pool its own",
        '"cr-0123456789abcdef0"',
    ),
    "oke-pool-zone-foreign": (
        "gpu-ci:clusters.sjc.pools.a10.zones.0",
        "the availability domain is not one of the cluster's; use one of zones",
        '"abcd:US-SANJOSE-1-AD-2"',
    ),
    "oke-pool-zones-beside-reservation": (
        "gpu-ci:clusters.sjc.pools.a10.zones",
        "the nodes of a reserved pool are in the reservation's zone; remove zones",
        '["abcd:US-SANJOSE-1-AD-1"]',
    ),
    "vcn-compartment-without-vcn": (
        "gpu-ci:clusters.sjc.network.compartment",
        "a new VCN is created in the cluster's compartment; remove compartment, or give vcn",
        '"ocid1.compartment.oc1..examplenetwork"',
    ),
    "oke-reservation-zone": (
        "gpu-ci:clusters.sjc.pools.a10.reservation.zone",
        "the reservation's availability domain is not one of the cluster's; add it to zones",
        '"abcd:US-SANJOSE-1-AD-2"',
    ),
    "unknown-key-reservation": (
        "gpu-ci:clusters.usw2.pools.t4.reservation.size",
        "unknown key; known keys: id, zone, count, startDate, endDate, owner",
        "2",
    ),
    "capacity-block-without-reservation": (
        "gpu-ci:clusters.usw2.pools.t4.capacity",
        "capacity capacity-block and a reservation (id, zone, count) belong together; give both or neither",
        '"capacity-block"',
    ),
    "capacity-block-type": (
        "gpu-ci:clusters.usw2.pools.t4.instanceTypes",
        (
            "EC2 has no capacity blocks of g4dn.2xlarge; use one of: p4d.24xlarge, p4de.24xlarge, p5.4xlarge, p5.48xlarge, "
            "p5e.48xlarge, p5en.48xlarge, p6-b200.48xlarge, p6-b300.48xlarge"
        ),
        '["g4dn.2xlarge"]',
    ),
    "capacity-block-too-large": (
        "gpu-ci:clusters.usw2.pools.t4.reservation.count",
        "a capacity block has 64 machines at most; give each of several blocks a pool",
        "65",
    ),
    "capacity-block-end-date": (
        "gpu-ci:clusters.usw2.pools.t4.reservation.endDate",
        "not a day; write year, month and day such as 2026-12-19",
        '"2027-03-32"',
    ),
    "reservation-dates": (
        "gpu-ci:clusters.usw2.pools.t4.reservation.endDate",
        "it starts after that day, on 2027-03-20; correct one of them",
        '"2027-03-13"',
    ),
    "reservation-owner": (
        "gpu-ci:clusters.usw2.pools.t4.reservation.owner",
        "not an AWS account; write its 12 digits in quotes",
        '"gpu-team"',
    ),
    "reservation-owner-is-the-account": (
        "gpu-ci:clusters.usw2.pools.t4.reservation.owner",
        "that is the cluster's own account, which needs no share; remove owner",
        '"123456789012"',
    ),
    "capacity-block-in-a-placement-group": (
        "gpu-ci:clusters.usw2.pools.t4.placementGroup",
        (
            "EC2 places the machines of a capacity block close together by itself, and in a placement group it may find no "
            "capacity; remove placementGroup"
        ),
        '{"strategy": "spread"}',
    ),
    "efa-on-type-without": (
        "gpu-ci:clusters.usw2.pools.t4.efaInterfaces",
        "g4dn.2xlarge takes no EFA interfaces; write as many at most, or use another type",
        "1",
    ),
    "efa-too-many": (
        "gpu-ci:clusters.usw2.pools.t4.efaInterfaces",
        "g4dn.8xlarge takes 1 EFA interfaces; write as many at most, or use another type",
        "2",
    ),
    "placement-group-new-and-existing": (
        "gpu-ci:clusters.usw2.pools.t4.placementGroup",
        "a placement group is a new one (strategy) or an existing one (name); give one of the two",
        '{"strategy": "cluster", "name": "near"}',
    ),
    "placement-group-partitions": (
        "gpu-ci:clusters.usw2.pools.t4.placementGroup.partitions",
        "only the strategy partition has partitions; remove them",
        "2",
    ),
    "placement-group-over-zones": (
        "gpu-ci:clusters.usw2.pools.t4.placementGroup",
        "a cluster placement group (and an existing one may be such a group) is in one zone; write the pool's one zone in zones",
        '{"strategy": "cluster"}',
    ),
    "placement-group-spread-too-large": (
        "gpu-ci:clusters.usw2.pools.t4.nodes.max",
        "a spread placement group has up to 7 machines in a zone, here 7 in all; lower max",
        "8",
    ),
    "placement-group-new-for-reservation": (
        "gpu-ci:clusters.usw2.pools.t4.placementGroup",
        (
            "a reservation is not in a placement group that is created after it, so machines may not start; write the name "
            "of the group in which you made the reservation"
        ),
        '{"strategy": "cluster"}',
    ),
    "max-lifetime-too-short": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.maxLifetime",
        "a maximum lifetime is from 10m to 144h, because GitHub ends every job after 120h; "
        "write more than the longest timeout-minutes of the class's jobs, such as 7h",
        '"5m"',
    ),
    "placeholder-namespace": (
        "gpu-ci:clusters.usw2.workloads.smi.namespace",
        "gpu-placeholders is only for placeholder pods; use another, such as ai",
        '"gpu-placeholders"',
    ),
    "placeholder-numa": (
        "gpu-ci:clusters.usw2.pools.t4.placeholders",
        "a placeholder takes all GPUs of a node and is rejected by topologyManagerPolicy single-numa-node of g4dn.metal "
        "(TopologyAffinityError): its NUMA nodes have 4+4 GPUs and 47+48 free CPUs, 8 GPUs need 2 nodes, and the policy allows "
        "one; set topologyManagerPolicy restricted, or remove placeholders",
        "1",
    ),
    "placeholders-beyond-the-pool": (
        "gpu-ci:clusters.usw2.pools.t4.placeholders",
        "the pool has 2 nodes at most; lower it, or raise nodes.max",
        "3",
    ),
    "placeholders-of-a-fixed-pool": (
        "gpu-ci:clusters.usw2.pools.t4.placeholders",
        "all nodes of the pool always run, so placeholders would add none; remove it",
        "1",
    ),
    "placeholders-of-shares": (
        "gpu-ci:clusters.usw2.pools.t4.placeholders",
        "a placeholder takes all GPUs of a node, and the pool shares them; use nodes.min instead",
        "1",
    ),
    "placeholders-without-runners": (
        "gpu-ci:clusters.usw2.pools.l4.placeholders",
        "no runner set uses the pool, and only runners end placeholders; remove it",
        "1",
    ),
    "schedule-above-the-pool": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.windows.work.nodes",
        "nodes.max is 4; lower it, or raise nodes.max",
        "5",
    ),
    "schedule-below-the-pool": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.windows.work.nodes",
        "nodes.min is 1, so the window adds nothing; raise it, or remove it",
        "1",
    ),
    "schedule-day-twice": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.windows.work.days",
        "a day is given twice; remove one",
        '["mon", "tue", "wed", "thu", "fri", "mon"]',
    ),
    "schedule-holiday-twice": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.holidays",
        "a holiday is given twice; remove one",
        '["2026-12-25", "2026-12-25"]',
    ),
    "schedule-of-a-reservation": (
        "gpu-ci:clusters.usw2.pools.t4.schedules",
        "a reservation is paid at all hours; remove schedules, and raise nodes.min",
        '{"timeZone": "America/Los_Angeles", "holidays": ["2026-12-2…',
    ),
    "schedule-on-oke": (
        "gpu-ci:clusters.sjc.pools.a10.schedules",
        "unsupported: OKE has no scheduled size of a node pool, and OCI's autoscaling schedules are for instance pools alone; "
        "give a runner class schedules instead",
        '{"timeZone": "America/Los_Angeles", "windows": {"work": {"d…',
    ),
    "schedule-time-zone": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.timeZone",
        "not an IANA time zone; write area and city, such as America/Los_Angeles, or Etc/UTC",
        '"US/Pacific"',
    ),
    "schedule-time": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.windows.work.start",
        'not a time; write quoted hours and minutes from "00:00" to "23:59"',
        '"9:00"',
    ),
    "schedule-windows-overlap": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.windows.night",
        "it overlaps work, or less than 2 minutes are between them; move one",
        '{"days": ["thu"], "start": "18:01", "end": "02:00", "nodes"…',
    ),
    "schedule-without-hours": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.windows.work.end",
        "start and end are equal; write two times, or raise the minimum for all hours",
        '"09:00"',
    ),
    "schedule-without-windows": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.windows",
        "schedules have 1 to 3 windows; add one, or join some",
        "{}",
    ),
    "warm-beyond-the-pool": (
        "gpu-ci:clusters.usw2.pools.t4.warm.maxPrepared",
        "machines beyond nodes.max 2 never join the cluster; lower maxPrepared, or raise nodes.max",
        "3",
    ),
    "warm-hibernated": (
        "gpu-ci:clusters.usw2.pools.t4.warm.state",
        "EC2 hibernates no GPU type; write stopped or running",
        '"hibernated"',
    ),
    "warm-min-above-prepared": (
        "gpu-ci:clusters.usw2.pools.t4.warm.min",
        "min is above maxPrepared 1; lower min, or raise maxPrepared",
        "2",
    ),
    "warm-of-a-reservation": (
        "gpu-ci:clusters.usw2.pools.t4.warm",
        "a reservation is paid whether its machines run or not, so nodes.min costs nothing more; raise it, and remove warm",
        '{"maxPrepared": 1}',
    ),
    "warm-of-an-ami": (
        "gpu-ci:clusters.usw2.pools.t4.warm",
        "EKS has no warm pools of an AMI of your own; remove ami, or remove warm",
        '{"maxPrepared": 2}',
    ),
    "warm-on-spot": (
        "gpu-ci:clusters.usw2.pools.t4.warm",
        "EC2 has no warm pools of spot machines; use capacity on-demand, or remove warm",
        '{"maxPrepared": 1}',
    ),
    "warm-reuse-of-bottlerocket": (
        "gpu-ci:clusters.usw2.pools.t4.warm.reuseOnScaleIn",
        "EKS does not return Bottlerocket nodes to a warm pool; remove it",
        "true",
    ),
    "node-config-of-bottlerocket": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig",
        "only al2023-nvidia has nodeadm; remove nodeConfig, or use that image",
        '{"featureGates": {"FastImagePull": true}}',
    ),
    "node-config-unknown-key": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.cluster",
        "unknown key; known keys: kubelet, containerd, instance, featureGates",
        '{"name": "mine"}',
    ),
    "node-config-unknown-gate": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.featureGates.InstanceIdNodeName",
        "unknown key; known keys: FastImagePull",
        "true",
    ),
    "node-config-kubelet-flags": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.flags",
        "flags would replace labels and taints that EKS gives to kubelet as flags, and kubelet's config has all else; remove it",
        '["--node-labels=team=a"]',
    ),
    "node-config-max-pods-expression": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.maxPodsExpression",
        "maxPodsExpression changes what a node offers to pods, which the plan proves with the node image's defaults; remove it",
        '"max_pods * 2"',
    ),
    "node-config-max-pods": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.config.maxPods",
        "maxPods changes what a node offers to pods, which the plan proves with the node image's defaults; remove it",
        "200",
    ),
    "node-config-topology-options": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.config.topologyManagerPolicyOptions",
        "topologyManagerPolicyOptions changes what the policy does, and the plan proves the policies without options; remove it",
        '{"prefer-closest-numa-nodes": "true"}',
    ),
    "node-config-topology-policy": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.config.topologyManagerPolicy",
        "must be 'none', 'best-effort', 'restricted' or 'single-numa-node'; correct it",
        '"strict"',
    ),
    "node-config-taints": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.config.registerWithTaints",
        "registerWithTaints is set by EKS for the nodes of a managed node group; remove it",
        "[]",
    ),
    "node-config-serial-pulls": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.config.maxParallelImagePulls",
        "kubelet pulls one image at a time with serializeImagePulls; remove one of the two",
        "4",
    ),
    "node-config-image-gc": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.config",
        "imageGCLowThresholdPercent (default 80) is not below imageGCHighThresholdPercent (default 85); lower it",
        '{"imageGCHighThresholdPercent": 70}',
    ),
    "node-config-shutdown": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.kubelet.config",
        "shutdownGracePeriodCriticalPods (default 30s) is a part of shutdownGracePeriod (default 150s); lower it",
        '{"shutdownGracePeriod": "20s"}',
    ),
    "node-config-rlimit": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.baseRuntimeSpec.process.rlimits.0.type",
        "it must be one of RLIMIT_AS, RLIMIT_CORE, RLIMIT_CPU, RLIMIT_DATA, RLIMIT_FSIZE, RLIMIT_LOCKS, RLIMIT_MEMLOCK, "
        "RLIMIT_MSGQUEUE, RLIMIT_NICE, RLIMIT_NOFILE, RLIMIT_NPROC, RLIMIT_RSS and 4 more; did you mean RLIMIT_MEMLOCK?",
        '"MEMLOCK"',
    ),
    "node-config-rlimit-soft": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.baseRuntimeSpec.process.rlimits.0.soft",
        "soft is above hard 1; lower soft or raise hard",
        "2",
    ),
    "node-config-containerd-toml": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.config",
        "not TOML (Invalid value (at end of document)); correct it",
        "",
    ),
    "node-config-containerd-credential": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.config",
        "anyone who can read the launch template can read its user data; use imagePullSecrets, and remove the credential",
        "",
    ),
    "node-config-containerd-key": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.config",
        "a pool may set version, plugins, proxy_plugins, timeouts, debug, metrics, oom_score of containerd, not root; remove it",
        "",
    ),
    "node-config-containerd-runtime": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.config",
        "the node image sets NVIDIA's runtime in default_runtime_name; remove it",
        "",
    ),
    "ami-name-length": (
        "gpu-ci:clusters.production-us-east-1.amis.gpu-cuda-12-builder",
        "an IAM role is named after cluster and image and would have 68 characters; IAM takes 64, so the two names have at most "
        "35 together; shorten one",
        '"gpu-cuda-12-builder"',
    ),
    "tag-of-its-own": (
        "gpu-ci:tags.GPU-CI/stack",
        "gpu-ci sets tags of this name itself, and would drop yours; rename it",
        '"GPU-CI/stack"',
    ),
    "tag-of-other-software": (
        "gpu-ci:tags.k8s.io/cluster-autoscaler/enabled",
        "other software reads tags such as k8s.io/cluster-autoscaler/enabled, and it would take yours for its own; rename it",
        '"k8s.io/cluster-autoscaler/enabled"',
    ),
    "tag-twice-without-case": (
        "gpu-ci:tags.owner",
        "IAM takes Owner and owner for one key, and refuses both; remove one",
        '"owner"',
    ),
    "build-cache-owner": (
        "gpu-ci:clusters.usw2.buildCaches.buckets.example-ccache.repositories.1",
        "its jobs could write the cache, and its owner is not example; add evil to owners, or remove it",
        '"evil/app"',
    ),
    "build-cache-owners": (
        "gpu-ci:clusters.usw2.buildCaches.owners.0",
        "not an owner on GitHub; write an organization or user",
        '"evil/app"',
    ),
    "build-cache-reserved-bucket": (
        "gpu-ci:clusters.usw2.buildCaches.buckets.foo-s3alias",
        "S3 refuses it: a bucket's name has 3 to 63 lower-case letters, digits, hyphens and periods, begins with none of xn--, "
        "sthree-, amzn-s3-demo-, and ends with none of -s3alias, --ol-s3, .mrap, --x-s3, --table-s3; rename it",
        '"foo-s3alias"',
    ),
    "network-subnet-twice": (
        "gpu-ci:clusters.usw2.network.privateSubnets",
        _ONE_SUBNET,
        '{"us-west-2a": "subnet-0123456789abcdef0", "us-west-2b": "s…',
    ),
    "network-multicast": (
        "gpu-ci:clusters.usw2.network.cidr",
        "addresses of 224.0.0.0/4 are reserved, and the cloud refuses them; write a network outside of it",
        '"224.0.0.0/16"',
    ),
    "existing-subnet-twice": (
        "gpu-ci:clusters.usw2.existing.subnets",
        _ONE_SUBNET,
        '{"us-west-2a": "subnet-0123456789abcdef0", "us-west-2b": "s…',
    ),
    "existing-node-role-account": (
        "gpu-ci:clusters.usw2.existing.nodeRoleArn",
        "the cluster is in account 111122223333, and a node's role is of its own account; correct one",
        '"arn:aws:iam::123456789012:role/platform-nodes"',
    ),
    "node-config-containerd-version": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.config",
        "version: containerd of the node image starts with no other: a whole number of 2 to 3; correct it",
        "",
    ),
    "node-config-containerd-levels": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.config",
        "TOML with too many levels; correct it",
        "",
    ),
    "node-config-rlimit-twice": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.containerd.baseRuntimeSpec.process.rlimits",
        "it has RLIMIT_CPU twice; remove one",
        '[{"type": "RLIMIT_CPU", "soft": 1, "hard": 1}, {"type": "RL…',
    ),
    "workload-node-port-open": (
        "gpu-ci:clusters.usw2.workloads.one.nodePort.cidrs.0",
        "the port would be open to the world; list the networks of its users, such as 192.168.1.0/24",
        '"0.0.0.0/0"',
    ),
    "memory-too-large": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.memory.limit",
        "a quantity has at most 1048576Gi; correct it",
        '"1048577Gi"',
    ),
    "duration-too-long": (
        "gpu-ci:clusters.usw2.pools.t4.idleDelay",
        "a duration has at most 87600h, ten years; correct it",
        '"999999999h"',
    ),
    "runner-cpu-floor": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.cpu.limit",
        "no job gets through with so little CPU: the runner's own program needs it too; write 100m or more, such as 4",
        '"1m"',
    ),
    "schedule-short-window": (
        "gpu-ci:clusters.usw2.pools.t4.schedules.windows.work.end",
        "a window has at least 5 minutes, because EC2 may act two minutes late; move start or end",
        '"09:01"',
    ),
    "label-of-github": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.labels.0",
        "GitHub's own runners have this label, and jobs that mean them would use your GPUs; rename it",
        '"Ubuntu-latest"',
    ),
    "node-config-mount-path": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.instance.localStorage.mountPath",
        "the disks hide what else is in that folder; write a folder below /mnt, without .., such as /mnt/k8s-disks",
        '"disks"',
    ),
    "node-config-disabled-mounts": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.instance.localStorage.disabledMounts",
        "only RAID0 mounts directories on the local disks; remove it",
        '["SOCI"]',
    ),
    "node-config-no-local-disk": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.instance.localStorage",
        "p3.2xlarge has no local disk; remove localStorage, or use another type",
        '{"strategy": "RAID0"}',
    ),
    "node-config-local-disk-too-small": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.instance.localStorage",
        (
            "RAID0 puts the files of pods on the local disks, g4dn.8xlarge has 838Gi of them, and disk is 1000Gi; write disk: "
            "838Gi or less"
        ),
        '{"strategy": "RAID0"}',
    ),
    "node-config-too-large": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig",
        "user data of 12526 bytes; it has 8192 at most, shorten it",
        "",
    ),
    "disk-performance-throughput": (
        "gpu-ci:clusters.usw2.pools.t4.diskPerformance.throughput",
        "gp3 needs 4 IOPS per MiB/s, and the disk has 3000; raise iops to 4000, or lower throughput",
        "1000",
    ),
    "disk-performance-iops": (
        "gpu-ci:clusters.usw2.pools.t4.diskPerformance.iops",
        "a root disk of 30 GiB has at most 15000 IOPS, 500 per GiB; lower iops or raise disk",
        "16000",
    ),
    "disk-performance-over-gp3": (
        "gpu-ci:clusters.usw2.pools.t4.diskPerformance.throughput",
        "must be at most 2000; lower it",
        "2001",
    ),
    "disk-performance-below-gp3": (
        "gpu-ci:clusters.usw2.pools.t4.diskPerformance.iops",
        "must be at least 3000; raise it",
        "2999",
    ),
    "disk-performance-over-the-machine": (
        "gpu-ci:clusters.usw2.pools.t4.diskPerformance.throughput",
        (
            "the EBS limit of g4dn.2xlarge and g4dn.xlarge is 417 MiB/s at most, and more is paid for nothing; lower "
            "throughput to 417"
        ),
        "500",
    ),
    "disk-performance-beside-an-array": (
        "gpu-ci:clusters.usw2.pools.t4.diskPerformance",
        "with RAID0 images are on the local disks, and a faster root disk is paid for nothing; remove diskPerformance",
        '{"throughput": 500}',
    ),
    "fast-image-pull-on-gp3": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.featureGates.FastImagePull",
        (
            "parallel unpacking needs a disk of 600 MiB/s, and images of g4dn.2xlarge "
            "are on a root disk of 417 (EBS limit 417); "
            "put images on local disks (localStorage RAID0 without Containerd and SOCI in disabledMounts), or "
            "remove FastImagePull"
        ),
        "true",
    ),
    "fast-image-pull-on-slow-gp3": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.featureGates.FastImagePull",
        (
            "parallel unpacking needs a disk of 600 MiB/s, and images of g4dn.8xlarge "
            "are on a root disk of 125 (EBS limit 1132); "
            "put images on local disks (localStorage RAID0 without Containerd and SOCI in disabledMounts), or "
            "raise diskPerformance.throughput to 600, or remove FastImagePull"
        ),
        "true",
    ),
    "fast-image-pull-without-local-disk": (
        "gpu-ci:clusters.usw2.pools.t4.nodeConfig.featureGates.FastImagePull",
        (
            "parallel unpacking needs a disk of 600 MiB/s, and images of p3.2xlarge "
            "are on a root disk of unknown (EBS limit unknown); "
            "remove FastImagePull"
        ),
        "true",
    ),
    "ephemeral-on-the-install-disk": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts.gpu-0.ephemeralDisk",
        "containers and images are on the install disk by default; remove it",
        '"/dev/nvme0n1"',
    ),
    "ephemeral-and-room-on-the-install-disk": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts.gpu-0.volume.ephemeral",
        (
            "ephemeralDisk puts containers and images on another disk, so they need no room on the install disk; remove "
            "volume.ephemeral or ephemeralDisk"
        ),
        '"500Gi"',
    ),
    "ephemeral-and-volume-on-one-disk": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts.gpu-0.volume.disk",
        "ephemeralDisk uses all of this disk; name another disk",
        '"/dev/nvme1n1"',
    ),
    "talos-kubelet-reserved": (
        "gpu-ci:clusters.home.pools.gpu.kubelet.systemReserved",
        "systemReserved changes what a node offers to pods, which the plan proves with the node image's defaults; remove it",
        '{"cpu": 1}',
    ),
    "talos-kubelet-shutdown": (
        "gpu-ci:clusters.home.pools.gpu.kubelet",
        "shutdownGracePeriodCriticalPods (default 10s) is a part of shutdownGracePeriod (default 30s); lower it",
        '{"shutdownGracePeriodCriticalPods": "60s"}',
    ),
    "oke-kubelet-without-flag": (
        "gpu-ci:clusters.sjc.pools.a10.kubelet.maxParallelImagePulls",
        (
            "maxParallelImagePulls is not a flag of kubelet, and an OKE pool passes only flags; an unknown flag would stop "
            "kubelet; remove it"
        ),
        "4",
    ),
    "oke-kubelet-reserved": (
        "gpu-ci:clusters.sjc.pools.a10.kubelet.evictionHard",
        "evictionHard changes what a node offers to pods, which the plan proves with the node image's defaults; remove it",
        '{"memory.available": "1Gi"}',
    ),
    "oke-local-storage-without-disk": (
        "gpu-ci:clusters.sjc.pools.a10.localStorage",
        "VM.GPU.A10.1 has no local disk; remove localStorage, or use another type",
        '{"strategy": "RAID0"}',
    ),
    "oke-local-storage-mount": (
        "gpu-ci:clusters.sjc.pools.a10.localStorage.strategy",
        "must be 'RAID0'; correct it",
        '"Mount"',
    ),
    "capacity-block-on-oke": (
        "gpu-ci:clusters.sjc.pools.a10.capacity",
        "must be 'on-demand', 'spot' or 'reserved'; correct it",
        '"capacity-block"',
    ),
    "oke-idle-delay-of-a-pool": (
        "gpu-ci:clusters.sjc.pools.a10.idleDelay",
        "the autoscaler of provider oke has one delay for all pools; remove idleDelay here and set the cluster's",
        '"5m"',
    ),
    "oke-label-reserved": (
        "gpu-ci:clusters.sjc.pools.a10.labels.oke.oraclecloud.com/team",
        "OKE or kubelet refuses labels of this domain; use one of your own, such as example.com/team",
        '"ml"',
    ),
    "oke-image-kind": (
        "gpu-ci:clusters.sjc.pools.a10.image",
        "OKE nodes have an image of kind oke-gpu or ubuntu; write one",
        '"oke-gpus"',
    ),
    "oke-image-without-id": (
        "gpu-ci:clusters.sjc.nodeImages",
        (
            "nodeImages has no image of kind oke-gpu; add oke-gpu: {id: ocid1.image.oc1.…}, one that `oci "
            "ce node-pool-options get --node-pool-option-id all` lists"
        ),
        '["system"]',
    ),
    "oke-image-driver-unused": (
        "gpu-ci:clusters.sjc.nodeImages.ubuntu.driver",
        "an image of kind ubuntu contains no driver; remove driver",
        '"580.159.03"',
    ),
    "system-nodes-as-scale": (
        "gpu-ci:clusters.sjc.system.nodes",
        "the autoscaler does not scale OKE's system pool, so it has one size; write a number, such as 2",
        '{"min": 2, "max": 4}',
    ),
    "system-memory": (
        "gpu-ci:clusters.sjc.system.memory",
        "VM.Standard.E5.Flex with ocpus 4 has 4Gi to 256Gi, whole Gi; write one between",
        '"2Gi"',
    ),
    "system-too-many-cores": (
        "gpu-ci:clusters.sjc.system.ocpus",
        "must be at most 94; lower it",
        "96",
    ),
    "vcn-without-subnets": (
        "gpu-ci:clusters.sjc.network.endpointSubnet",
        "an existing network needs vcn, endpointSubnet and nodeSubnet; give all or none",
        "",
    ),
    "vcn-with-cidr": (
        "gpu-ci:clusters.sjc.network.cidr",
        "cidr belongs to a new VCN; remove it, or remove vcn",
        '"10.0.0.0/16"',
    ),
    "vcn-too-small": (
        "gpu-ci:clusters.sjc.network.cidr",
        "a new VCN is an IPv4 network from /16 to /20, because a node and its pods need over a hundred addresses; write for "
        "example 10.0.0.0/16",
        '"10.0.0.0/28"',
    ),
    "vcn-addresses": (
        "gpu-ci:clusters.sjc.network.cidr",
        (
            "permanent nodes and standing machines take 2137 addresses of the node subnet, 10.0.0.0/21 has 2045; set a "
            "larger cidr, or lower "
            "nodes.min"
        ),
        '"10.0.0.0/20"',
    ),
    "missing-compartment": (
        "gpu-ci:clusters.sjc.compartment",
        "required key is missing; add it",
        "",
    ),
    "kind-vm-on-eks": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.kind",
        (
            "provider eks supports only pods, and runners of kind vm are machines on OCI; move the set to a cluster of provider "
            "oke, or remove kind"
        ),
        '"vm"',
    ),
    "kind-unknown": (
        "gpu-ci:clusters.sjc.runners.standing.kind",
        "a runner is of kind pod, vm or vm-per-job; name one (a pod needs no kind)",
        '"bare-metal"',
    ),
    "kind-forgotten": (
        "gpu-ci:clusters.sjc.runners.standing.kind",
        "a runner is of kind pod, vm or vm-per-job; name one (a pod needs no kind)",
        "",
    ),
    "pool-beside-shapes": (
        "gpu-ci:clusters.sjc.runners.standing.kind",
        "a pod has pool and a machine has shapes; remove one of them, and set kind of a machine to vm or vm-per-job",
        "",
    ),
    "runner-empty": (
        "gpu-ci:clusters.sjc.runners.oci-a10",
        "not a mapping; write {cpu: {…}, memory: {…}, scale: {…}}",
        "null",
    ),
    "unknown-key-vm": (
        "gpu-ci:clusters.sjc.runners.standing.scale",
        "unknown key; it belongs to kind pod or vm-per-job, remove it or change kind",
        '{"max": 1}',
    ),
    "unknown-key-vm-per-job": (
        "gpu-ci:clusters.sjc.runners.per-job.counts",
        (
            "unknown key; known keys: kind, labels, group, github, was, cuda, shapes, capacity, role, image, disk, toolkit, "
            "nvkind, launcherImage, scale, places, launcher, lifetime"
        ),
        "2",
    ),
    "key-of-another-kind": (
        "gpu-ci:clusters.sjc.runners.standing.places",
        "unknown key; it belongs to kind vm-per-job, remove it or change kind",
        "[]",
    ),
    "key-of-the-other-machine-kind": (
        "gpu-ci:clusters.sjc.runners.per-job.availabilityDomains",
        "unknown key; it belongs to kind vm, remove it or change kind",
        '["abcd:US-SANJOSE-1-AD-1"]',
    ),
    "key-of-another-provider": (
        "gpu-ci:clusters.usw2.homeRegion",
        "unknown key; it belongs to provider oke, remove it",
        '"us-east-1"',
    ),
    "unknown-key-place": (
        "gpu-ci:clusters.sjc.runners.per-job.places.0.subnetId",
        "unknown key; did you mean subnet?",
        '"ocid1.subnet.oc1..example"',
    ),
    "unknown-key-machine-image": (
        "gpu-ci:clusters.sjc.runners.standing.image.os",
        "unknown key; known keys: id, driver",
        '"ubuntu"',
    ),
    "unknown-key-node-image": (
        "gpu-ci:clusters.sjc.nodeImages.oke-gpu.drivers",
        "unknown key; did you mean driver?",
        '"580.159.03"',
    ),
    "unknown-key-operator": (
        "gpu-ci:clusters.sjc.operator.driver.licence",
        "unknown key; did you mean licenseSecret?",
        "",
    ),
    "machine-count-too-large": (
        "gpu-ci:clusters.sjc.runners.standing.count",
        "must be at most 50; lower it",
        "51",
    ),
    "machine-label-of-another-set": (
        "gpu-ci:clusters.sjc.runners.standing.labels",
        "label 'A10' already selects set sjc/oci-a10, so a runs-on would be ambiguous; remove it or rename it",
        '["A10"]',
    ),
    "machine-label-generic": (
        "gpu-ci:clusters.sjc.runners.standing.labels",
        (
            f"sets sjc/oci-a10 (gpu) and sjc/standing (gpu) both have generic labels; {_DEFAULT_SET}; "
            "keep them on sjc/oci-a10, whose runners are pods"
        ),
        '["gpu"]',
    ),
    "generic-label-on-machines-first": (
        "gpu-ci:clusters.sjc.runners.standing.labels",
        (
            f"sets sjc/zzz-a10 (gpu) and sjc/standing (gpu) both have generic labels; {_DEFAULT_SET}; "
            "keep them on sjc/zzz-a10, whose runners are pods"
        ),
        '["GPU"]',
    ),
    "generic-label-on-two-sets-of-machines": (
        "gpu-ci:clusters.sjc.runners.per-job.labels",
        f"sets sjc/standing (gpu) and sjc/per-job (cuda, x64) both have generic labels; {_DEFAULT_SET}; keep them on one",
        '["cuda", "x64", "a10"]',
    ),
    "machine-without-image": (
        "gpu-ci:clusters.sjc.runners.per-job.image",
        "the launcher needs an image of yours; set image with id and driver",
        "",
    ),
    "toolkit-version": (
        "gpu-ci:clusters.sjc.runners.standing.toolkit",
        "not a package version; write for example 1.17.8-1",
        '"1.17.8"',
    ),
    "toolkit-too-new-for-nvkind": (
        "gpu-ci:clusters.sjc.runners.standing.toolkit",
        "the pinned nvkind works with toolkit 1.17 and 1.19; use one, or set nvkind: false",
        '"1.20.0-1"',
    ),
    "lifetime-too-short": (
        "gpu-ci:clusters.sjc.runners.per-job.lifetime",
        "a lifetime is from 10m to 120h, because GitHub ends every job after 120h; write one between, such as 24h",
        '"5m"',
    ),
    "driver-version": (
        "gpu-ci:clusters.sjc.runners.standing.image.driver",
        "not a driver's version; write it as nvidia-smi shows it, for example 580.159.03",
        '"R580"',
    ),
    "driver-number": (
        "gpu-ci:clusters.sjc.runners.standing.image.driver",
        "not a string; fill it in, in quotes if it looks like a number",
        "580.95",
    ),
    "cncf-with-image": (
        "gpu-ci:clusters.sjc.runners.per-job.image",
        "CNCF's launcher finds its image by the name of its operating system; remove image",
        '"ocid1.image.oc1..examplevm"',
    ),
    "cncf-with-toolkit": (
        "gpu-ci:clusters.sjc.runners.per-job.toolkit",
        "CNCF's launcher has no setting for toolkit; remove it",
        '"1.17.8-1"',
    ),
    "cncf-with-security-group": (
        "gpu-ci:clusters.sjc.runners.per-job.places.0.securityGroup",
        "CNCF's launcher has no setting for securityGroup; remove it",
        '"ocid1.networksecuritygroup.oc1..example"',
    ),
    "cncf-without-subnet": (
        "gpu-ci:clusters.sjc.runners.per-job.places.0.subnet",
        "CNCF's launcher needs a subnet in each place; add it",
        "",
    ),
    "unknown-launcher": (
        "gpu-ci:clusters.sjc.runners.per-job.launcher",
        "must be 'gpu-ci' or 'cncf'; correct it",
        '"oracle"',
    ),
    "launcher-image-latest": (
        "gpu-ci:clusters.sjc.runners.per-job.launcherImage",
        "an image must name a version or digest, not latest; write registry/name:version, registry/name@sha256:… or both",
        '"ghcr.io/oracle/oci-cli:latest"',
    ),
    "v100-driver-of-node-image": (
        "gpu-ci:clusters.sjc.nodeImages.oke-gpu.driver",
        "V100 (VM.GPU3.1) works with driver branch R580 or older; use a driver of that branch",
        '"595.58.03"',
    ),
    "v100-driver-unknown": (
        "gpu-ci:clusters.sjc.nodeImages.oke-gpu.driver",
        (
            "V100 (VM.GPU3.1) works with driver branch R580 or older, and the driver of image oke-gpu is not known; "
            "set nodeImages.oke-gpu.driver"
        ),
        "",
    ),
    "b300-driver-unknown": (
        "gpu-ci:clusters.sjc.nodeImages.oke-gpu.driver",
        (
            "B300 (BM.GPU.B300.8) needs driver branch R580 or newer, and the driver of image oke-gpu is not known; "
            "set nodeImages.oke-gpu.driver"
        ),
        "",
    ),
    "p100-driver-of-operator": (
        "gpu-ci:clusters.sjc.operator.driver.version",
        "P100 (VM.GPU2.1) works with driver branch R580 or older; use a driver of that branch",
        '"595.91.07"',
    ),
    "v100-default-driver-of-operator": (
        "gpu-ci:clusters.sjc.pools.a10.image",
        "V100 (VM.GPU3.1) works with driver branch R580 or older; this is the default of operator.driver.version; set another",
        '"595.91.07"',
    ),
    "p100-driver-of-machine": (
        "gpu-ci:clusters.sjc.runners.standing.image.driver",
        "P100 (VM.GPU2.1) works with driver branch R580 or older; use a driver of that branch",
        '"595.58.03"',
    ),
    "b300-driver-too-old": (
        "gpu-ci:clusters.sjc.nodeImages.oke-gpu.driver",
        "B300 (BM.GPU.B300.8) needs driver branch R580 or newer; use a newer driver",
        '"570.195.03"',
    ),
    "image-with-device-plugin": (
        "gpu-ci:clusters.usw2.pools.t4.image",
        (
            "the device plugin's chart and the node image bottlerocket-nvidia would both advertise this pool's GPUs; use "
            "an image without its own device plugin"
        ),
        '"bottlerocket-nvidia"',
    ),
    "addon-beside-device-plugin": (
        "gpu-ci:clusters.sjc.gpuPluginAddon",
        (
            "OKE's add-on and enablement device-plugin would both advertise the GPUs; remove gpuPluginAddon, which "
            "follows from enablement, or set another enablement"
        ),
        "true",
    ),
    "addon-off-without-another": (
        "gpu-ci:clusters.sjc.gpuPluginAddon",
        "nothing would advertise the GPUs; remove gpuPluginAddon, which follows from enablement, or set another enablement",
        "false",
    ),
    "addon-with-cdi": (
        "gpu-ci:clusters.sjc.pools.a10.cdi",
        "OKE's add-on does not use CDI; remove cdi, or use enablement: device-plugin",
        "true",
    ),
    "image-without-driver": (
        "gpu-ci:clusters.sjc.pools.a10.image",
        (
            "image ubuntu contains no driver and enablement gpu-plugin-addon installs none; use an image with one, or "
            "enablement: gpu-operator"
        ),
        '"ubuntu"',
    ),
    "operator-without-enablement": (
        "gpu-ci:clusters.sjc.operator",
        "operator belongs to enablement gpu-operator; remove it, or set enablement: gpu-operator",
        '{"serviceMonitor": true}',
    ),
    "operator-driver-unused": (
        "gpu-ci:clusters.sjc.operator.driver",
        "every pool's image contains its own driver, so the operator installs none; remove driver",
        '{"version": "580.159.03"}',
    ),
    "operator-containerd-unused": (
        "gpu-ci:clusters.sjc.operator.containerd",
        "every pool's image contains its own toolkit, so the operator installs none; remove containerd",
        '{"defaultRuntime": false}',
    ),
    "operator-images-mixed": (
        "gpu-ci:clusters.sjc.pools.a10-ubuntu.image",
        (
            "the operator installs driver and toolkit on all nodes or none, and pool a10 has image oke-gpu; use images "
            "of one kind in a cluster"
        ),
        '"ubuntu"',
    ),
    "operator-cdi-mixed": (
        "gpu-ci:clusters.sjc.pools.a10-cdi.cdi",
        "the operator has one CDI setting per cluster, and pool a10 has the other; set the same, or use enablement: "
        "device-plugin",
        "true",
    ),
    "sharing-strategy": (
        "gpu-ci:clusters.usw2.pools.shared.sharing",
        "GPUs are shared by time-slicing, mps or mig; name one in strategy",
        '{"strategy": "slices", "replicas": 4}',
    ),
    "sharing-replicas": (
        "gpu-ci:clusters.usw2.pools.shared.sharing.replicas",
        "must be at least 2; raise it",
        "1",
    ),
    "sharing-key-of-another": (
        "gpu-ci:clusters.usw2.pools.shared.sharing.profile",
        "unknown key; it belongs to strategy mig, remove it or change strategy",
        '"1g.5gb"',
    ),
    "sharing-mps-clients": (
        "gpu-ci:clusters.usw2.pools.shared.sharing.replicas",
        "MPS has at most 16 clients on V100 (p3.2xlarge); lower replicas",
        "20",
    ),
    "sharing-mig-gpu": (
        "gpu-ci:clusters.usw2.pools.shared.sharing.strategy",
        "A10G (g5.2xlarge) has no MIG; use time-slicing or mps, or another type",
        '"mig"',
    ),
    "sharing-mig-profile": (
        "gpu-ci:clusters.usw2.pools.shared.sharing.profile",
        (
            "A100 of 80 GiB (p4de.24xlarge) does not have this profile; use one of: 1g.10gb, 1g.10gb.me, 1g.20gb, 2g.20gb, "
            "3g.40gb, 4g.40gb, 7g.80gb"
        ),
        '"1g.5gb"',
    ),
    "sharing-mig-naming": (
        "gpu-ci:clusters.usw2.pools.other.sharing.naming",
        "the operator names all MIG partitions in one way, and pool shared has mixed; write the same",
        '"single"',
    ),
    "sharing-mps-beside-mig": (
        "gpu-ci:clusters.usw2.pools.other.sharing.strategy",
        (
            "the operator sets MIG naming mixed for the device plugin of all nodes, because of pool shared, and with it "
            "the plugin refuses MPS; use time-slicing, or move one of the pools to another cluster"
        ),
        '"mps"',
    ),
    "sharing-mig-without-operator": (
        "gpu-ci:clusters.usw2.pools.shared.sharing.strategy",
        "sharing by mig works only with enablement gpu-operator; use that, or remove sharing",
        '"mig"',
    ),
    "sharing-addon": (
        "gpu-ci:clusters.sjc.pools.a10.sharing.strategy",
        "sharing by time-slicing works only with enablement device-plugin or gpu-operator; use that, or remove sharing",
        '"time-slicing"',
    ),
    "sharing-from-zero": (
        "gpu-ci:clusters.sjc.pools.a10.nodes.min",
        (
            "the autoscaler of provider oke assumes whole GPUs for a pool without nodes, so it would start no node for shares; "
            "raise min to 1"
        ),
        "0",
    ),
    "sharing-several": (
        "gpu-ci:clusters.usw2.runners.gpu.gpus",
        (
            "pool shared shares its GPUs, and several shares do not add up to a larger one; write 1, or set allowSeveral "
            "in the pool's "
            "sharing"
        ),
        "2",
    ),
    "sharing-mps-shm": (
        "gpu-ci:clusters.usw2.runners.gpu.shm",
        "pool shared shares its GPUs by MPS, whose device plugin mounts /dev/shm itself; remove shm",
        '"4Gi"',
    ),
    "queue-borrow-preemption-alone": (
        "gpu-ci:clusters.usw2.queues.teams.research.preemption.borrowWithinCohort",
        "Kueue allows this only together with reclaimWithinCohort; set reclaimWithinCohort, or remove it",
        '"LowerPriority"',
    ),
    "queue-borrow-preemption-fair": (
        "gpu-ci:clusters.usw2.queues.teams.research.preemption.borrowWithinCohort",
        "Kueue does not support this with fair sharing; remove it, or fairSharing",
        '"LowerPriority"',
    ),
    "queue-borrow-without-cohort": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.0.borrow",
        "teams borrow and lend within a cohort; set cohort, or remove borrow",
        "1",
    ),
    "queue-empty": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas",
        ("the team has no quota and cannot borrow, so its Jobs would wait forever; raise nominal, or set cohort"),
        '[{"pool": "t4", "nominal": 0}]',
    ),
    "queue-fair-sharing-without-cohort": (
        "gpu-ci:clusters.usw2.queues.fairSharing",
        "fair sharing applies to what the teams of a cohort borrow; set cohort, or remove fairSharing",
        "true",
    ),
    "queue-lend-beyond-nominal": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.0.lend",
        "a team can lend at most its own quota, which is 1 here; lower lend or raise nominal",
        "2",
    ),
    "queue-lend-without-cohort": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.0.lend",
        "teams borrow and lend within a cohort; set cohort, or remove lend",
        "0",
    ),
    "queue-namespace-of-runners": (
        "gpu-ci:clusters.usw2.queues.teams.research.namespaces.1",
        "this namespace belongs to the system, a chart or a runner set; use another for teams",
        '"runners-gpu-t4"',
    ),
    "queue-namespace-of-the-system": (
        "gpu-ci:clusters.usw2.queues.teams.research.namespaces.0",
        "this namespace belongs to the system, a chart or a runner set; use another for teams",
        '"kube-system"',
    ),
    "queue-namespace-twice": (
        "gpu-ci:clusters.usw2.queues.teams.vision.namespaces.1",
        "team research has this namespace already; remove one",
        '"research"',
    ),
    "queue-nominal-beyond-pool": (
        "gpu-ci:clusters.usw2.queues.teams.vision.quotas.0.nominal",
        "teams have 3 of pool t4 together, which has 2 nvidia.com/gpu at most; lower nominal, or raise nodes.max of the pool",
        "2",
    ),
    "queue-quota-of-nothing": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.1.pool",
        "a quota names either a pool or a flavor; write one of the two",
        "",
    ),
    "queue-flavor-unknown": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.1.flavor",
        "no flavor has that name; name one of: t4",
        '"a10g"',
    ),
    "queue-pool-of-a-flavor": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.1.pool",
        "the pool belongs to flavor t4, whose quotas count its units; write flavor: t4",
        '"t4-more"',
    ),
    "queue-nominal-beyond-flavor": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.0.nominal",
        "teams have 5 of flavor t4 together, which has 4 nvidia.com/gpu at most; lower nominal, or raise nodes.max of its pools",
        "5",
    ),
    "flavor-name-of-a-pool": (
        "gpu-ci:clusters.usw2.queues.flavors.a10g",
        "a pool has that name, and Kueue names its flavor after it; rename the flavor",
        '"a10g"',
    ),
    "flavor-unused": (
        "gpu-ci:clusters.usw2.queues.flavors.t4",
        "no team has a quota of it; add one with this flavor, or remove the flavor",
        '{"pools": ["t4-spot", "t4-more"]}',
    ),
    "flavor-pool-unknown": (
        "gpu-ci:clusters.usw2.queues.flavors.t4.pools.1",
        "no pool of that name in this cluster; name one of: t4-spot, t4-more, a10g",
        '"t4-ondemand"',
    ),
    "flavor-of-one-pool": (
        "gpu-ci:clusters.usw2.queues.flavors.t4.pools",
        "a flavor has two pools or more; add one, or write quotas of the pool",
        '["t4-spot"]',
    ),
    "flavor-pool-repeated": (
        "gpu-ci:clusters.usw2.queues.flavors.t4.pools",
        "a pool is given twice; remove one",
        '["t4-spot", "t4-spot"]',
    ),
    "flavor-pool-twice": (
        "gpu-ci:clusters.usw2.queues.flavors.more.pools.0",
        "flavor t4 has the pool already; remove one",
        '"t4-more"',
    ),
    "flavor-mixed": (
        "gpu-ci:clusters.usw2.queues.flavors.t4.pools.1",
        "its GPUs, or how it shares them, differ from those of pool t4-spot, and a quota counts one kind of "
        "units; give each kind its own flavor",
        '"a10g"',
    ),
    "flavor-without-labels": (
        "gpu-ci:clusters.lab.queues.flavors.t4.pools.0",
        "the program does not label the nodes of this pool, so Kueue cannot assign them to a flavor; use quotas of pools",
        '"old"',
    ),
    "queue-pool-twice": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.1.pool",
        "the team has a quota of this pool already; remove one",
        '"t4"',
    ),
    "queue-pool-unknown": (
        "gpu-ci:clusters.usw2.queues.teams.research.quotas.0.pool",
        "no pool of that name in this cluster; name one of: t4",
        '"t5"',
    ),
    "queue-reclaim-without-cohort": (
        "gpu-ci:clusters.usw2.queues.teams.research.preemption.reclaimWithinCohort",
        "a team can reclaim quota only within a cohort; set cohort, or remove reclaimWithinCohort",
        '"Any"',
    ),
    "queue-strategy": (
        "gpu-ci:clusters.usw2.queues.teams.research.strategy",
        "must be 'BestEffortFIFO' or 'StrictFIFO'; correct it",
        '"FIFO"',
    ),
    "queue-weight-negative": (
        "gpu-ci:clusters.usw2.queues.teams.research.weight",
        "must be at least 0; raise it",
        "-1",
    ),
    "queue-weight-without-fair-sharing": (
        "gpu-ci:clusters.usw2.queues.teams.research.weight",
        "weight has an effect only with fair sharing; set fairSharing: true, or remove weight",
        "2",
    ),
    "queue-without-namespace": (
        "gpu-ci:clusters.usw2.queues.teams.research.namespaces",
        "at least 1 entry is needed; add one",
        "[]",
    ),
    "operator-host-path": (
        "gpu-ci:clusters.sjc.operator.containerd.config",
        "not an absolute path on the node; write for example /etc/containerd/config.toml",
        '"config.toml"',
    ),
    "operator-repository": (
        "gpu-ci:clusters.sjc.operator.driver.repository",
        "not a registry path without tag; write for example nvcr.io/nvidia",
        '"registry.example.com/driver:580"',
    ),
    "operator-vgpu-public": (
        "gpu-ci:clusters.sjc.operator.driver.repository",
        "no public registry has a licensed vGPU driver; name your own in repository",
        '"nvcr.io/nvidia"',
    ),
    "budget-email": (
        "gpu-ci:clusters.usw2.budget.emails.0",
        "not an email address; write for example ci-alerts@example.com",
        '"ci-alerts"',
    ),
    "budget-without-emails": (
        "gpu-ci:clusters.usw2.budget.emails",
        "at least 1 entry is needed; add one",
        "[]",
    ),
    "budget-zero": (
        "gpu-ci:clusters.usw2.budget.monthlyUsd",
        "must be at least 1; raise it",
        "0",
    ),
    "monitoring-repository": (
        "gpu-ci:clusters.usw2.monitoring.repositories.0",
        "not a repository; write owner/name, such as example/app",
        '"app"',
    ),
    "budget-cents": (
        "gpu-ci:clusters.usw2.budget.monthlyUsd",
        "not a whole number; write digits without quotes",
        "99.5",
    ),
    "budget-of-a-compartment-on-eks": (
        "gpu-ci:clusters.usw2.budget.compartment",
        "unknown key; it belongs to provider oke, remove it",
        '"ocid1.compartment.oc1..example"',
    ),
    "budget-twice": (
        "gpu-ci:clusters.east.budget",
        "cluster usw2's budget already covers the stack's EKS clusters; keep one of them",
        '{"monthlyUsd": 500, "emails": ["ci@example.com"]}',
    ),
    "build-cache-account": (
        "gpu-ci:clusters.usw2.buildCaches.account",
        'an AWS account is 12 quoted digits, for example "111122223333"',
        '"1111-2222-3333"',
    ),
    "build-cache-bucket-twice": (
        "gpu-ci:clusters.east.buildCaches.buckets.example-ccache",
        "cluster usw2 also has bucket example-ccache; give each its own",
        '{"repositories": ["example/app"], "writeWorkflows": [".gith…',
    ),
    "build-cache-bucket": (
        "gpu-ci:clusters.usw2.buildCaches.buckets.Example_ccache",
        "a bucket's name has 3 to 58 lower-case letters, digits and hyphens, a letter or digit at both ends; rename it",
        '"Example_ccache"',
    ),
    "build-cache-on-enterprise-server": (
        "gpu-ci:github.url",
        "build caches trust the tokens of github.com, and this server has others; remove buildCaches",
        '"https://github.example.com/example"',
    ),
    "build-cache-provider-twice": (
        "gpu-ci:clusters.east.buildCaches.oidcProvider",
        "cluster usw2 already creates GitHub's OIDC provider in account 111122223333; write existing",
        '"create"',
    ),
    "build-cache-ref-of-a-pull-request": (
        "gpu-ci:clusters.usw2.buildCaches.buckets.example-ccache.writeRefs.0",
        "not a branch or tag in full; write refs/heads/main (no pattern, and no ref of a pull request)",
        '"refs/pull/1/merge"',
    ),
    "build-cache-ref-pattern": (
        "gpu-ci:clusters.usw2.buildCaches.buckets.example-ccache.writeRefs.0",
        "not a branch or tag in full; write refs/heads/main (no pattern, and no ref of a pull request)",
        '"refs/heads/*"',
    ),
    "build-cache-repository-half-an-id": (
        "gpu-ci:clusters.usw2.buildCaches.buckets.example-ccache.repositories.0",
        "not a repository as its OIDC subject names it; write owner/name, or owner@123/name@456 if the repository has immutable "
        "subjects",
        '"example@1234/app"',
    ),
    "build-cache-repository": (
        "gpu-ci:clusters.usw2.buildCaches.buckets.example-ccache.repositories.0",
        "not a repository as its OIDC subject names it; write owner/name, or owner@123/name@456 if the repository has immutable "
        "subjects",
        '"example/*"',
    ),
    "build-cache-workflow": (
        "gpu-ci:clusters.usw2.buildCaches.buckets.example-ccache.writeWorkflows.0",
        "not a workflow file; write its path in the repository, such as .github/workflows/build.yml",
        '"build.yml"',
    ),
    "budget-without-tenancy": (
        "gpu-ci:clusters.sjc.tenancy",
        "budgets and quotas are created in the tenancy's root compartment; add tenancy with its OCID",
        "",
    ),
    "tenancy-of-another-kind": (
        "gpu-ci:clusters.sjc.tenancy",
        "not an OCID of kind tenancy; write ocid1.tenancy.oc1.… as the console shows it",
        '"ocid1.compartment.oc1..example"',
    ),
    "quotas-twice": (
        "gpu-ci:clusters.east.declareQuotas",
        "cluster usw2 already declares the quotas of us-west-2 for the whole fleet; remove it",
        "true",
    ),
    "quotas-without-path": (
        "gpu-ci:clusters.sjc.compartmentPath",
        "quotas name a compartment by its path from the root down; add compartmentPath, such as ci or ci:machines",
        "",
    ),
    "quotas-without-machines-path": (
        "gpu-ci:clusters.sjc.machineCompartmentPath",
        "quotas name a compartment by its path from the root down; add machineCompartmentPath, such as ci or ci:machines",
        "",
    ),
    "compartment-path": (
        "gpu-ci:clusters.sjc.compartmentPath",
        "not a compartment's path; write the names of compartments from the root down, such as ci or ci:machines",
        '"ci/gpu"',
    ),
    "quota-unknown": (
        "gpu-ci:clusters.usw2.declareQuotas",
        "no source gives the quota of p6-b200.48xlarge as spot; add it to fleet/facts/data/quotas.csv, or remove declareQuotas",
        "true",
    ),
    "quota-unknown-shape": (
        "gpu-ci:clusters.sjc.declareQuotas",
        "no source gives the quota of BM.GPU.L40S.4 as on-demand; add it to fleet/facts/data/quotas.csv, or remove declareQuotas",
        "true",
    ),
    "account-quota-code": (
        "gpu-ci:clusters.usw2.accountQuotas.L-85EED4F7",
        (
            "not an EC2 quota that a pool counts against; use one of: L-1216C47A, L-34B43A08, L-3819A6DF, L-417A185B, "
            "L-7212CCBC, L-C4BD4855, L-DB2E81BA"
        ),
        '"L-85EED4F7"',
    ),
    "addon-version": (
        "gpu-ci:clusters.sjc.addonVersions.ClusterAutoscaler",
        "not an add-on's version; write one that `oci ce addon-option list` shows, for example v1.34.3",
        '"latest"',
    ),
    "addon-unknown": (
        "gpu-ci:clusters.sjc.addonVersions.CoreDNS",
        "must be 'ClusterAutoscaler' or 'NvidiaGpuPlugin'; correct it",
        '"CoreDNS"',
    ),
    "addon-minor": (
        "gpu-ci:clusters.sjc.addonVersions.ClusterAutoscaler",
        "Kubernetes 1.34 needs ClusterAutoscaler 1.34; write v1.34.3",
        '"v1.33.3"',
    ),
    "addon-absent": (
        "gpu-ci:clusters.sjc.addonVersions.NvidiaGpuPlugin",
        "this cluster does not install NvidiaGpuPlugin; remove its version",
        '"v0.17.1"',
    ),
    "workload-coral-command": (
        "gpu-ci:clusters.usw2.workloads.coral.image",
        (
            "image and command belong together: the check needs the pinned image, and another image needs its own command; "
            "give both or neither"
        ),
        '"registry.example.com/coral:1"',
    ),
    "workload-key-of-another": (
        "gpu-ci:clusters.usw2.workloads.comfyui.gpus",
        "unknown key; it belongs to kind tf-notebook or ollama, remove it or change kind",
        "2",
    ),
    "builder-gpus": (
        "gpu-ci:clusters.usw2.workloads.builder.pool",
        "the pool has GPUs, and BuildKit takes none; name a pool of types without GPU such as m6i.2xlarge",
        '"t4"',
    ),
    "builder-namespace": (
        "gpu-ci:clusters.usw2.workloads.one.namespace",
        "workload two is in that namespace, and BuildKit has its own; write another, such as builds-2",
        '"builds"',
    ),
    "builder-pool": (
        "gpu-ci:clusters.usw2.workloads.one.pool",
        "workload two uses that pool too, and BuildKit has its nodes alone; give it a pool of its own",
        '"cpu"',
    ),
    "builder-runners": (
        "gpu-ci:clusters.usw2.workloads.builder.runners.0",
        "no runner set of pods of that name in this cluster; name one of: gpu-t4",
        '"gpu-t5"',
    ),
    "workload-kind": (
        "gpu-ci:clusters.usw2.workloads.ollama",
        (
            "a workload is of kind nvidia-smi, pytorch, device-query, tf-mnist, tf-notebook, ollama, comfyui, coral or buildkit; "
            "name one in kind"
        ),
        '{"kind": "llama", "pool": "t4"}',
    ),
    "workload-level": (
        "gpu-ci:clusters.usw2.workloads.coral.namespace",
        (
            "another user of that namespace requires the Pod Security Standard restricted, coral needs privileged; "
            "give it its own namespace"
        ),
        '"ai"',
    ),
    "workload-mps-shm": (
        "gpu-ci:clusters.usw2.workloads.ollama.shm",
        "pool t4 shares its GPUs by MPS, whose device plugin mounts /dev/shm itself; remove shm",
        '"2Gi"',
    ),
    "workload-name": (
        "gpu-ci:clusters.usw2.workloads.olllllllllllllllllllllllllllllllllllllllllllll",
        "a workload's name has at most 45 characters, this one has 46; shorten it",
        '"olllllllllllllllllllllllllllllllllllllllllllll"',
    ),
    "workload-without-class": (
        "gpu-ci:clusters.usw2.workloads.ollama.storage",
        (
            "the cluster has no default storage class, so its volume would wait forever; add a cache, and name its class: "
            "cache-<name>"
        ),
        "",
    ),
    "workload-class-of-no-cache": (
        "gpu-ci:clusters.usw2.workloads.ollama.storage.storageClass",
        "no cache of the cluster has that class; name one of: cache-models",
        '"cache-weights"',
    ),
    "workload-claim-of-a-cache": (
        "gpu-ci:clusters.usw2.workloads.ollama",
        "cache ollama-models has a claim of that name in namespace ai; rename one",
        '"ollama"',
    ),
    "workload-in-a-queue": (
        "gpu-ci:clusters.usw2.workloads.check.namespace",
        "Jobs of that namespace wait in the queue of team research, and pytorch is of none; give it its own namespace",
        '"research"',
    ),
    "workload-namespace": (
        "gpu-ci:clusters.usw2.workloads.ollama.namespace",
        "gpu-smoke is only for smoke tests; use another, such as ai",
        '"gpu-smoke"',
    ),
    "workload-node-port": (
        "gpu-ci:clusters.usw2.workloads.two.nodePort.port",
        "workload one already uses that port of all nodes; use another",
        "30001",
    ),
    "workload-pool": (
        "gpu-ci:clusters.usw2.workloads.ollama.pool",
        "no pool of that name in this cluster; name one of: t4",
        '"a10"',
    ),
    "workload-shares": (
        "gpu-ci:clusters.usw2.workloads.ollama.gpus",
        "pool t4 shares its GPUs, and several shares do not add up to a larger one; write 1, or set allowSeveral in the "
        "pool's sharing",
        "2",
    ),
    "workload-shm": (
        "gpu-ci:clusters.usw2.workloads.ollama.shm",
        "shm counts against the memory limit and would fill it; lower shm or raise memory.limit",
        '"32Gi"',
    ),
    "workload-storage": (
        "gpu-ci:clusters.usw2.workloads.ollama.storage.size",
        "a volume is a whole number of Gi; write for example 100Gi",
        '"100500Mi"',
    ),
    "workload-unknown-key": (
        "gpu-ci:clusters.usw2.workloads.ollama.model",
        "unknown key; known keys: kind, namespace, cpu, memory, scratch, image, pool, shm, gpus, storage",
        '"llama"',
    ),
    "workload-without-pools": (
        "gpu-ci:clusters.usw2.workloads.ollama.pool",
        "the cluster has no pool; add one",
        '"t4"',
    ),
    "pool-zone-of-another-cluster": (
        "gpu-ci:clusters.usw2.pools.t4.zones.1",
        "the zone is not one of the cluster's; use one of zones",
        '"us-west-2d"',
    ),
    "pool-zone-twice": (
        "gpu-ci:clusters.usw2.pools.t4.zones",
        "a zone is given twice; remove one",
        '["us-west-2a", "us-west-2a"]',
    ),
    "cache-storage": (
        "gpu-ci:clusters.usw2.caches.models.storage",
        "must be 'ebs' or 'efs'; correct it",
        '"nfs"',
    ),
    "cache-of-another-cloud": (
        "gpu-ci:clusters.sjc.caches.models.storage",
        "must be 'block' or 'fss'; correct it",
        '"efs"',
    ),
    "cache-size": (
        "gpu-ci:clusters.usw2.caches.models.size",
        "a volume is a whole number of Gi; write for example 500Gi",
        '"500Mi"',
    ),
    "cache-size-of-gp3": (
        "gpu-ci:clusters.usw2.caches.models.size",
        "a gp3 volume has 1 to 65536 GiB; write a size between",
        '"70000Gi"',
    ),
    "cache-size-of-block": (
        "gpu-ci:clusters.sjc.caches.models.size",
        "an OCI block volume has 50 to 32768 GiB; write a size between",
        '"20Gi"',
    ),
    "cache-namespace-of-the-system": (
        "gpu-ci:clusters.usw2.caches.models.namespaces.0",
        "this namespace belongs to the system, a chart or a runner set; use another for teams",
        '"kube-system"',
    ),
    "cache-namespace-of-runners": (
        "gpu-ci:clusters.usw2.caches.models.namespaces.1",
        "this namespace belongs to the system, a chart or a runner set; use another for teams",
        '"runners-gpu-t4"',
    ),
    "cache-namespace-twice": (
        "gpu-ci:clusters.usw2.caches.models.namespaces.1",
        "the cache has this namespace already; remove one",
        '"research"',
    ),
    "cache-without-namespace": (
        "gpu-ci:clusters.usw2.caches.models.namespaces",
        "at least 1 entry is needed; add one",
        "[]",
    ),
    "cache-performance-of-efs": (
        "gpu-ci:clusters.usw2.caches.models.throughput",
        "iops and throughput apply only to ebs, and EFS scales its throughput with use; remove them",
        "500",
    ),
    "cache-iops": (
        "gpu-ci:clusters.usw2.caches.models.iops",
        "a gp3 volume of 10 GiB has at most 5000 IOPS, 500 per GiB; lower iops or raise size",
        "6000",
    ),
    "cache-throughput": (
        "gpu-ci:clusters.usw2.caches.models.throughput",
        "gp3 needs 4 IOPS per MiB/s, and the volume has 3000; raise iops or lower throughput",
        "1000",
    ),
    "cache-vpus-of-fss": (
        "gpu-ci:clusters.sjc.caches.models.vpus",
        "vpus apply only to block volumes, not to File Storage; remove vpus",
        "20",
    ),
    "cache-transit-of-block": (
        "gpu-ci:clusters.sjc.caches.models.encryptInTransit",
        "encryptInTransit applies only to fss, and a block volume's traffic is encrypted with its node's; remove it",
        "true",
    ),
    "cache-attachment": (
        "gpu-ci:clusters.sjc.caches.models.storage",
        "bare metal and virtual machines attach block volumes differently, and the cluster has both; use fss",
        '"block"',
    ),
    "job-named-as-a-workload": (
        "gpu-ci:clusters.usw2.jobs.train",
        "a workload has that name in namespace research; rename one",
        '"train"',
    ),
    "job-without-place": (
        "gpu-ci:clusters.usw2.jobs.train",
        "a job needs pool, pools or gpuType; set one of them",
        "",
    ),
    "job-pools-mixed": (
        "gpu-ci:clusters.usw2.jobs.train.pools.1",
        "its GPUs, or how it shares them, differ from those of pool t4, and a job requests one kind; name pools of one kind, or "
        "write a job for each",
        '"l4"',
    ),
    "job-pools-repeated": (
        "gpu-ci:clusters.usw2.jobs.train.pools",
        "a pool is given twice; remove one",
        '["t4", "t4"]',
    ),
    "job-in-two-places": (
        "gpu-ci:clusters.usw2.jobs.train",
        "a job needs pool, pools or gpuType; set one of them",
        "",
    ),
    "job-spot-of-a-pool": (
        "gpu-ci:clusters.usw2.jobs.train.spot",
        "spot selects among pools, but this job names its pool; remove it",
        "true",
    ),
    "job-pool-unknown": (
        "gpu-ci:clusters.usw2.jobs.train.pool",
        "no pool of that name in this cluster; name one of: t4",
        '"a100"',
    ),
    "job-without-pools": (
        "gpu-ci:clusters.usw2.jobs.train.pool",
        "the cluster has no pool; add one",
        '"a100"',
    ),
    "job-secret-without-key": (
        "gpu-ci:clusters.usw2.jobs.train.secretEnv.HF_TOKEN",
        "an entry is missing at the end of the list; add it",
        "",
    ),
    "job-cache-unknown": (
        "gpu-ci:clusters.usw2.jobs.train.cache",
        "namespace research has no cache; add the namespace to a cache of that name, or name another",
        '"weights"',
    ),
    "job-cache-elsewhere": (
        "gpu-ci:clusters.usw2.jobs.train.cache",
        "namespace research has data; add the namespace to a cache of that name, or name another",
        '"models"',
    ),
    "job-queue-without-team": (
        "gpu-ci:clusters.usw2.jobs.train.queue",
        "namespace research belongs to no team with a queue; use the queue of the namespace's team, or remove queue",
        '"research"',
    ),
    "job-queue-of-another-team": (
        "gpu-ci:clusters.usw2.jobs.train.queue",
        "namespace research belongs to team ml, whose queue has its name; use the queue of the namespace's team, or remove queue",
        '"speech"',
    ),
    "job-priority": (
        "gpu-ci:clusters.usw2.jobs.train.priority",
        "must be one of: high-priority, medium-priority; name one of them",
        '"urgent"',
    ),
    "job-image-latest": (
        "gpu-ci:clusters.usw2.jobs.train.image",
        "an image needs a version or a digest, and latest is neither; write name:1.2, name@sha256:… or both",
        '"example:latest"',
    ),
    "job-gpu-count": (
        "gpu-ci:clusters.usw2.jobs.train.gpus",
        "a job takes 1, 2, 4, 8 GPUs, because other counts leave GPUs of a machine idle; name one",
        "3",
    ),
    "job-gpu-type": (
        "gpu-ci:clusters.usw2.jobs.train.gpuType",
        "no NVIDIA GPU of fleet/facts/data/gpus.csv; write for example t4, l4 or rtx-4090 (docs/jobs.md#sizes)",
        '"k80"',
    ),
    "job-secret-in-env": (
        "gpu-ci:clusters.usw2.jobs.train.env.HF_TOKEN",
        "looks like a secret, and everyone who can read the Job could read it; write secretEnv: {NAME: [secret, key]}",
        "",
    ),
    "job-secret-in-args": (
        "gpu-ci:clusters.usw2.jobs.train.args.1",
        "looks like a secret, and everyone who can read the Job could read it; "
        "write secretEnv: {NAME: [secret, key]}, and have the program read that variable",
        "",
    ),
    "job-cache-path-without-cache": (
        "gpu-ci:clusters.usw2.jobs.train.cachePath",
        "the job does not have this volume; name its claim in cache, or leave it out",
        '"/cache"',
    ),
    "job-shm-of-its-memory": (
        "gpu-ci:clusters.usw2.jobs.train.shm",
        "files in /dev/shm count against the memory limit of 8Gi; lower shm, or raise memory",
        '"8Gi"',
    ),
    "unenforced-network": (
        "gpu-ci:clusters.sjc.runners.oci-a10.acceptUnenforcedNetwork",
        "OKE enforces no NetworkPolicy, so jobs in pods reach the VCN and the nodes; use machines "
        "(kind: vm-per-job), or add acceptUnenforcedNetwork with the reason why you accept that",
        "",
    ),
    "unenforced-network-reason": (
        "gpu-ci:clusters.sjc.runners.oci-a10.acceptUnenforcedNetwork",
        "the plan prints this reason; write it in one line of 20 to 200 characters",
        '"because"',
    ),
    "unenforced-network-on-eks": (
        "gpu-ci:clusters.usw2.runners.gpu-t4.acceptUnenforcedNetwork",
        "unknown key; it belongs to provider oke, remove it",
        '"only our own code runs in these jobs"',
    ),
    "unenforced-network-of-machines": (
        "gpu-ci:clusters.sjc.runners.standing.acceptUnenforcedNetwork",
        "unknown key; it belongs to kind pod, remove it or change kind",
        '"only our own code runs in these jobs"',
    ),
    "volume-of-two-places": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts.gpu-0.volume",
        "a user volume is on another disk, or beside Talos on the install disk; set disk or ephemeral, not both",
        '{"disk": "/dev/sda", "ephemeral": "300Gi"}',
    ),
    "volume-on-the-install-disk": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts.gpu-0.volume.disk",
        "Talos is installed on this disk and uses all of it; name another disk, or set ephemeral instead of disk",
        '"/dev/nvme0n1"',
    ),
    "volume-name": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts.gpu-0.volume.name",
        "not a user volume's name: letters, digits and hyphens, 34 at most; write for example models",
        '"my volume"',
    ),
    "volume-room": (
        "gpu-ci:clusters.home.pools.gpu.disk",
        "host gpu-0 keeps 300Gi for containers and images; lower the pool's disk, or raise ephemeral",
        '"400Gi"',
    ),
    "delivery-without-gitops": (
        "gpu-ci:clusters.usw2.delivery",
        "delivery argocd and gitops (repository, path) belong together; give both or neither",
        '"argocd"',
    ),
    "gitops-without-delivery": (
        "gpu-ci:clusters.usw2.gitops",
        "delivery argocd and gitops (repository, path) belong together; give both or neither",
        '{"repository": "https://github.com/example/homelab", "path"…',
    ),
    "missing-gitops": (
        "gpu-ci:clusters.home.gitops",
        "required key is missing; write {repository: …, path: …}",
        "",
    ),
    "talos-by-helm": (
        "gpu-ci:clusters.home.delivery",
        "must be 'argocd'; correct it",
        '"helm"',
    ),
    "git-repository-with-password": (
        "gpu-ci:clusters.home.gitops.repository",
        "not the URL of a Git repository without user and password; write for example https://github.com/example/homelab",
        "",
    ),
    "git-repository-without-scheme": (
        "gpu-ci:clusters.home.gitops.repository",
        "not the URL of a Git repository without user and password; write for example https://github.com/example/homelab",
        "",
    ),
    "git-revision": (
        "gpu-ci:clusters.home.gitops.revision",
        "not a branch, tag or commit; write for example main",
        '"feature branch"',
    ),
    "git-path": (
        "gpu-ci:clusters.home.gitops.path",
        "not a folder below the repository's root; write for example clusters/home",
        '"../home"',
    ),
    "git-secrets-unknown": (
        "gpu-ci:clusters.home.gitops.secrets",
        "the GitHub App's key comes by external-secrets, sealed-secrets, sops or program; name one in by",
        "",
    ),
    "git-secrets-key-of-another": (
        "gpu-ci:clusters.home.gitops.secrets.file",
        "unknown key; it belongs to by sops, remove it or change by",
        "",
    ),
    "git-secrets-private-key-of-another": (
        "gpu-ci:clusters.home.gitops.secrets.privateKey",
        "unknown key; it belongs to by sealed-secrets, remove it or change by",
        "",
    ),
    "sealed-key-in-clear": (
        "gpu-ci:clusters.home.gitops.secrets.privateKey",
        "not what kubeseal prints; seal the key with: kubeseal --raw --scope cluster-wide --from-file key.pem",
        "",
    ),
    "sops-file": (
        "gpu-ci:clusters.home.gitops.secrets.file",
        "not a file in the stack file's folder or below; write for example secrets/github-app.enc.yaml",
        "",
    ),
    "secret-key-in-clear": (
        "gpu-ci:clusters.home.gitops.secrets.key",
        "not the name of a key in a secret store; write letters, digits and ._/-, such as gpu-ci/github-app",
        "",
    ),
    "talos-secrets-by-program": (
        "gpu-ci:clusters.home.gitops.secrets.by",
        "pulumi up is not available for this cluster; use external-secrets, sealed-secrets or sops",
        "",
    ),
    "sops-by-program": (
        "gpu-ci:clusters.usw2.gitops.secrets.by",
        "the ArgoCD that the program installs has no plugin that decrypts them; use program, external-secrets or sealed-secrets",
        "",
    ),
    "talos-beside-eks": (
        "gpu-ci:clusters.home.provider",
        "pulumi up creates no clusters of provider talos, but it creates others of this stack; move it to a separate stack",
        '"talos"',
    ),
    "host-address": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts.gpu-0.address",
        "not the IP address of a host; write the one at which other machines reach it, such as 192.0.2.20",
        '"gpu-0.example.com"',
    ),
    "install-disk": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts.gpu-0.installDisk",
        "not a disk; write its device, such as /dev/nvme0n1 or /dev/disk/by-id/…",
        '"nvme0n1"',
    ),
    "host-count": (
        "gpu-ci:clusters.home.pools.gpu.nodes.max",
        "hosts already determines the number of your own machines; remove max",
        "2",
    ),
    "nodes-without-hosts": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts",
        "required key is missing; write {<name>: {address: …}}",
        "",
    ),
    "hosts-none": (
        "gpu-ci:clusters.home.pools.gpu.nodes.hosts",
        "at least 1 entry is needed; add one",
        "{}",
    ),
    "talos-machine-of-a-cloud": (
        "gpu-ci:clusters.home.pools.gpu.instanceTypes",
        "Talos nodes are machines of your own; name one that is below machines of the cluster",
        '"g5.12xlarge"',
    ),
    "talos-machines-mixed": (
        "gpu-ci:clusters.home.pools.gpu.instanceTypes",
        (
            "types of one pool must have the same GPU model, memory and count, and these are rig 2x RTX 3090 24Gi, "
            "single 1x RTX 3090 24Gi; split the pool"
        ),
        '["rig", "single"]',
    ),
    "machine-gpu-model": (
        "gpu-ci:clusters.home.machines.rig.gpu",
        "no NVIDIA GPU of fleet/facts/data/gpus.csv; did you mean RTX 3090?",
        '"RTX3090"',
    ),
    "machine-gpu-memory": (
        "gpu-ci:clusters.home.machines.rig.gpuMemory",
        "A100 is sold with several sizes of memory; add gpuMemory, such as 40Gi",
        "",
    ),
    # A pool's disk has 200Gi by default, and a disk counts in whole GB.
    "machine-disk": (
        "gpu-ci:clusters.home.pools.gpu.disk",
        "the disk of rig has 119Gi for containers; write 119Gi or less",
        '"200Gi"',
    ),
    "machine-unknown": (
        "gpu-ci:clusters.home.pools.gpu.instanceTypes.0",
        "no machine of this name; name one of: rig",
        '"tower"',
    ),
    "talos-proprietary-modules": (
        "gpu-ci:clusters.home.pools.gpu.driver.kernelModules",
        "only NVIDIA's open kernel modules support RTX 5090 (Blackwell); write open",
        '"proprietary"',
    ),
    "talos-spot": (
        "gpu-ci:clusters.home.pools.gpu.capacity",
        "must be 'on-demand'; correct it",
        '"spot"',
    ),
    "talos-idle-delay": (
        "gpu-ci:clusters.home.pools.gpu.idleDelay",
        "your own machines always stay on; remove idleDelay",
        '"5m"',
    ),
    "talos-label-reserved": (
        "gpu-ci:clusters.home.pools.gpu.labels.node-role.kubernetes.io/gpu",
        "kubelet may not set labels of this domain; use one of your own, such as example.com/team",
        '"rtx"',
    ),
    "etcd-of-two": (
        "gpu-ci:clusters.home.controlPlane.hosts",
        "etcd of 2 members tolerates no more failures than of 1; use an odd number",
        '["control-0", "control-1"]',
    ),
    "talos-endpoint": (
        "gpu-ci:clusters.home.endpoint",
        "not the control plane's URL; write for example https://192.0.2.10:6443",
        '"192.0.2.10"',
    ),
    "talos-version-unknown": (
        "gpu-ci:clusters.home.talosVersion",
        "no release of this minor is pinned; use one of: 1.12, 1.13, 1.14",
        '"1.9"',
    ),
    "talos-version-unquoted": (
        "gpu-ci:clusters.home.talosVersion",
        "must be text, and YAML reads a number here (1.30 as 1.3); put quotes around what you wrote",
        "1.13",
    ),
    "talos-kubernetes-unpinned": (
        "gpu-ci:clusters.home.kubernetesVersion",
        "no pinned release of this minor works with Talos 1.13; use one of: 1.34, 1.35, 1.36",
        '"1.33"',
    ),
    "talos-kubernetes-too-new": (
        "gpu-ci:clusters.home.kubernetesVersion",
        "no pinned release of this minor works with Talos 1.12; use one of: 1.34, 1.35",
        '"1.36"',
    ),
    "talos-operator-on-1.12": (
        "gpu-ci:clusters.home.enablement",
        "NVIDIA supports its operator from Talos 1.13 on, not on 1.12; raise talosVersion, or use enablement: device-plugin",
        '"gpu-operator"',
    ),
    "talos-operator-driver": (
        "gpu-ci:clusters.home.operator.driver",
        "every pool's image contains its own driver, so the operator installs none; remove driver",
        '{"version": "580.159.03"}',
    ),
    "host-twice": (
        "gpu-ci:clusters.home.system.hosts.gpu-0",
        "another host has that name; give each machine one",
        '"gpu-0"',
    ),
    "git-namespace": (
        "gpu-ci:clusters.one.gitops.namespace",
        "this namespace belongs to the system, a chart, a runner set or a team; give ArgoCD its own, such as argocd",
        '"kube-system"',
    ),
    "git-namespace-of-a-chart": (
        "gpu-ci:clusters.one.gitops.namespace",
        "this namespace belongs to the system, a chart, a runner set or a team; give ArgoCD its own, such as argocd",
        '"gpu-operator"',
    ),
    "monitoring-labels": (
        "gpu-ci:clusters.usw2.monitoring.labels",
        "an installed Prometheus selects every monitor; remove labels",
        '{"release": "prometheus"}',
    ),
    "monitoring-cloudwatch": (
        "gpu-ci:clusters.usw2.monitoring.cloudwatch",
        "the program installs CloudWatch's add-on only on EKS clusters that it creates; remove cloudwatch",
        "true",
    ),
    "monitoring-remote-write-url": (
        "gpu-ci:clusters.usw2.monitoring.remoteWriteUrl",
        "not the URL of Prometheus' remote write without user and password; write for example "
        "http://prometheus.metrics.svc:9090/api/v1/write",
        "",
    ),
    "monitoring-remote-write": (
        "gpu-ci:clusters.usw2.monitoring.remoteWriteUrl",
        "the program knows the URL of a Prometheus that it installs; remove remoteWriteUrl",
        '"http://prometheus.metrics.svc:9090/api/v1/write"',
    ),
    "monitoring-operator-twice": (
        "gpu-ci:clusters.usw2.monitoring.operatorInstalled",
        "the program installs the operator with prometheus: install; remove operatorInstalled",
        "true",
    ),
    "monitoring-existing-storage": (
        "gpu-ci:clusters.usw2.monitoring.storageClass",
        "storageClass is a setting of a Prometheus that the program installs; remove it, or write prometheus: install",
        '"gp3"',
    ),
    "monitoring-storage": (
        "gpu-ci:clusters.usw2.monitoring.storage",
        "a whole number of Gi, 50Gi at least; write for example 100Gi",
        '"20Gi"',
    ),
    "monitoring-namespace": (
        "gpu-ci:clusters.usw2.monitoring.namespace",
        "this namespace belongs to the system, a chart, a runner set or a team; give Prometheus its own, such as monitoring",
        '"kube-system"',
    ),
    "monitoring-namespace-of-a-chart": (
        "gpu-ci:clusters.usw2.monitoring.namespace",
        "this namespace belongs to the system, a chart, a runner set or a team; give Prometheus its own, such as monitoring",
        '"arc-systems"',
    ),
    "monitoring-class": (
        "gpu-ci:clusters.usw2.monitoring",
        "the cluster has no default storage class, so Prometheus would wait forever for its volume; name one of the cluster's "
        "classes in storageClass",
        '{"prometheus": "install"}',
    ),
    "queue-namespace-of-a-chart": (
        "gpu-ci:clusters.usw2.queues.teams.research.namespaces.1",
        "this namespace belongs to the system, a chart or a runner set; use another for teams",
        '"kueue-system"',
    ),
    "git-store": (
        "gpu-ci:clusters.one.gitops.secrets.store",
        "not the name of a Kubernetes object; write lower-case letters, digits, '-' and '.'",
        "",
    ),
    "git-folder-twice": (
        "gpu-ci:clusters.two.gitops.path",
        "cluster one also has folder clusters/one of https://github.com/example/gpu-ci; give each its own",
        '"clusters/one"',
    ),
    "address-twice": (
        "gpu-ci:clusters.home.system.hosts.system-0.address",
        "another host has that address; correct it",
        '"192.0.2.20"',
    ),
    "talos-budget": (
        "gpu-ci:clusters.home.budget",
        "budget applies only to clusters in a cloud; remove it",
        '{"monthlyUsd": 50, "emails": ["ci-alerts@example.com"]}',
    ),
    "talos-quotas": (
        "gpu-ci:clusters.home.declareQuotas",
        "declareQuotas applies only to clusters in a cloud; remove it",
        "true",
    ),
    "talos-protect": (
        "gpu-ci:clusters.home.protect",
        "protect applies only to clusters in a cloud; remove it",
        "true",
    ),
    "talos-cache": (
        "gpu-ci:clusters.home.caches.models",
        "a cache is a cloud volume, which Talos clusters do not have; remove it, and name a storage class of your cluster "
        "in the workload's storage",
        '"models"',
    ),
    "talos-zones": (
        "gpu-ci:clusters.home.zones",
        "unknown key; it belongs to provider eks or oke, remove it",
        '["us-west-2a"]',
    ),
    "kind-vm-on-talos": (
        "gpu-ci:clusters.home.runners.gpu-3090.kind",
        (
            "provider talos supports only pods, and runners of kind vm are machines on OCI; move the set to a "
            "cluster of provider "
            "oke, or remove kind"
        ),
        '"vm"',
    ),
    "talos-workload-without-class": (
        "gpu-ci:clusters.home.workloads.ollama.storage",
        ("the cluster has no default storage class, so its volume would wait forever; name one of your own, such as local-path"),
        "",
    ),
    "talos-workload-class-of-a-cache": (
        "gpu-ci:clusters.home.workloads.ollama.storage.storageClass",
        "no cache of the cluster has that class; name one of your own, such as local-path",
        '"cache-models"',
    ),
    "existing-cache": (
        "gpu-ci:clusters.usw2.caches.models",
        (
            "a cache needs a storage driver that the program installs only in its own clusters; remove it, and name a storage "
            "class of your cluster in the workload's storage"
        ),
        '"models"',
    ),
    "existing-cdi": (
        "gpu-ci:clusters.usw2.pools.t4.cdi",
        "the program does not install device-plugin here, so it cannot configure it; remove cdi, or device-plugin from installed",
        "true",
    ),
    "existing-controller-idle": (
        "gpu-ci:clusters.usw2.existing.controller",
        "arc-controller in installed and controller (namespace, serviceAccount) belong together; give both or none",
        '{"namespace": "arc-systems", "serviceAccount": "arc"}',
    ),
    "existing-controller-missing": (
        "gpu-ci:clusters.usw2.existing.installed",
        "arc-controller in installed and controller (namespace, serviceAccount) belong together; give both or none",
        '["arc-controller"]',
    ),
    "existing-eks-name": (
        "gpu-ci:clusters.usw2.existing.name",
        "not the name of an EKS cluster; write it as aws eks list-clusters shows it",
        '"arn:aws:eks:us-west-2:123456789012:cluster/platform"',
    ),
    "existing-enablement": (
        "gpu-ci:clusters.usw2.enablement",
        "the cluster has gpu-operator, which would advertise the GPUs too; write enablement: gpu-operator",
        '"device-plugin"',
    ),
    "existing-key-of-created": (
        "gpu-ci:clusters.usw2.endpoint",
        "unknown key; it belongs to a cluster that the program creates; remove it",
        '{"publicCidrs": ["203.0.113.0/24"]}',
    ),
    "existing-pool-zone": (
        "gpu-ci:clusters.usw2.pools.t4.zones.0",
        "the zone is not one of the cluster's; use one of existing.subnets",
        '"us-west-2b"',
    ),
    "existing-protect": (
        "gpu-ci:clusters.usw2.protect",
        "the program does not own this control plane; remove protect",
        "true",
    ),
    "existing-role": (
        "gpu-ci:clusters.usw2.existing.nodeRoleArn",
        "not the ARN of an IAM role; write arn:aws:iam::<account>:role/<name>",
        '"platform-nodes"',
    ),
    "existing-service-account": (
        "gpu-ci:clusters.usw2.existing.controller.serviceAccount",
        "not the name of a service account; write it as kubectl get serviceaccounts shows it",
        '"ARC_SA"',
    ),
    "existing-sharing": (
        "gpu-ci:clusters.usw2.pools.t4.sharing",
        (
            "the program does not install device-plugin here, so it cannot configure it; remove sharing, or device-plugin from "
            "installed"
        ),
        '{"strategy": "time-slicing", "replicas": 4}',
    ),
    "existing-subnet-zone": (
        "gpu-ci:clusters.usw2.existing.subnets",
        "not a zone of us-west-2; write for example us-west-2a",
        '"us-east-1a"',
    ),
    "existing-subnet": (
        "gpu-ci:clusters.usw2.existing.subnets.us-west-2a",
        "not a subnet id; write subnet-…",
        '"private-a"',
    ),
    "existing-without-installed": (
        "gpu-ci:clusters.usw2.existing.installed",
        "required key is missing; write a list of some of arc-controller, cluster-autoscaler, dcgm-exporter, device-plugin, "
        "eks-node-monitoring-agent, gpu-operator, metrics-server",
        "",
    ),
    "context-budget": (
        "gpu-ci:clusters.lab.budget",
        "budget is a setting of clouds, and the program buys nothing here; remove it",
        '{"monthlyUsd": 100, "emails": ["ci@example.com"]}',
    ),
    "context-name": (
        "gpu-ci:clusters.lab.existing.context",
        "not a kubeconfig context; write it as kubectl config get-contexts shows it",
        '"admin of lab"',
    ),
    "context-selectors-overlap": (
        "gpu-ci:clusters.lab.pools.more.selector",
        "pool t4 selects nodes of this pool too, so they would count twice; add a label that only one pool has",
        '{"nvidia.com/gpu.product": "Tesla-T4", "disk": "ssd"}',
    ),
    "context-pool-labels": (
        "gpu-ci:clusters.lab.pools.t4.labels",
        "labels is a setting of nodes that the program creates; remove it",
        '{"example.com/team": "ml"}',
    ),
    "context-pool-selector": (
        "gpu-ci:clusters.lab.pools.t4.selector",
        "required key is missing; write {<name>: …}",
        "",
    ),
    "context-queues": (
        "gpu-ci:clusters.lab.queues",
        "queues select nodes by labels that the program sets, and it sets none here; remove queues",
        '{"teams": {"ml": {"namespaces": ["ml"], "quotas": [{"pool":…',
    ),
    "existing-oke-endpoint": (
        "gpu-ci:clusters.sjc.endpoint",
        "unknown key; it belongs to a cluster that the program creates; remove it",
        '{"publicCidrs": ["203.0.113.0/24"]}',
    ),
    "existing-oke-id": (
        "gpu-ci:clusters.sjc.existing.id",
        "not an OCID of kind cluster; write ocid1.cluster.oc1.… as the console shows it",
        '"platform"',
    ),
    "existing-oke-quotas": (
        "gpu-ci:clusters.sjc.declareQuotas",
        "an OCI quota also bounds what others have in the cluster's compartment; remove declareQuotas",
        "true",
    ),
    "existing-oke-region": (
        "gpu-ci:clusters.sjc.existing.nodeSubnet",
        "this OCID belongs to region us-ashburn-1; use one of us-sanjose-1",
        '"ocid1.subnet.oc1.iad.example"',
    ),
    "objective-of-an-unknown-set": (
        "gpu-ci:clusters.usw2.monitoring.alerts.objectives.gpu-t5",
        "no runner set of that name in this cluster; name one of: gpu-t4",
        '"5m"',
    ),
    "objective-too-long": (
        "gpu-ci:clusters.usw2.monitoring.alerts.queueObjective",
        "ARC measures queue times up to 1h; write an objective from 1m to 59m, such as 10m",
        '"1h"',
    ),
    "alert-time-too-short": (
        "gpu-ci:clusters.usw2.monitoring.alerts.idleFor",
        "rules run once a minute; write a time of at least 1m, such as 10m",
        '"30s"',
    ),
    "health-repair-wait": (
        "gpu-ci:clusters.usw2.health.repairWait",
        "EKS counts whole minutes; write a wait from 1m to 60m, such as 5m",
        '"90s"',
    ),
    "health-startup-gate": (
        "gpu-ci:clusters.home.health.startupGate",
        "only the node groups of EKS give new nodes a taint that may be removed later; remove startupGate",
        "true",
    ),
    "ami-name": (
        "gpu-ci:clusters.usw2.amis.GPU",
        "the name of an AMI has lower-case letters, digits and hyphens, at most 27, and does not start with ami-; rename it",
        '"GPU"',
    ),
    "ami-built-id": (
        "gpu-ci:clusters.usw2.amis.gpu.built.id",
        "not the id of an AMI; write ami-… as AWS shows it",
        '"img-1"',
    ),
    "ami-of-a-pool": (
        "gpu-ci:clusters.usw2.pools.t4.ami",
        "neither an entry of amis nor the id of an AMI; write one of them",
        '"AMI-0123"',
    ),
    "ami-release": (
        "gpu-ci:clusters.usw2.amis.gpu.release",
        "not a release of an EKS image; write it as AWS does, for example 1.36.3-20260911",
        '"v20260714"',
    ),
    "ami-toolkit": (
        "gpu-ci:clusters.usw2.amis.gpu.toolkit",
        "not a package version; write for example 1.19.1-1",
        '"1.19"',
    ),
    "ami-image-without-digest": (
        "gpu-ci:clusters.usw2.amis.gpu.prePull.0",
        "an image of an AMI has its registry and its digest; write registry.example.com/name@sha256:…",
        '"docker.io/nvidia/cuda:12.8.1"',
    ),
    "ami-image-twice": (
        "gpu-ci:clusters.usw2.amis.gpu.prePull",
        "an image is given twice; remove one",
        '["registry.example.com/ci@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaa…',
    ),
    "ami-schedule": (
        "gpu-ci:clusters.usw2.amis.gpu.schedule",
        "not a schedule of EC2 Image Builder; write for example cron(0 4 1 * ? *)",
        '"every month"',
    ),
    "ami-kernel-panics": (
        "gpu-ci:clusters.usw2.amis.gpu.release",
        "its kernel panics (awslabs/amazon-eks-ami#2845); use another release",
        '"1.34.11-20260930"',
    ),
    "ami-built-kernel-panics": (
        "gpu-ci:clusters.usw2.amis.gpu.built.release",
        "its kernel panics (awslabs/amazon-eks-ami#2845); use another release",
        '"1.34.11-20260930"',
    ),
    "ami-driver-of-release": (
        "gpu-ci:clusters.usw2.amis.gpu.driverBranch",
        "release 1.34.9-20260714 has driver 580.159.03; remove driverBranch, or use a release of that branch",
        "595",
    ),
    "ami-driver-without-release": (
        "gpu-ci:clusters.usw2.amis.gpu.driverBranch",
        "no release for Kubernetes 1.34 is known to have driver branch R595; write release, too",
        "595",
    ),
    "ami-of-another-minor": (
        "gpu-ci:clusters.usw2.amis.gpu.release",
        "a node has the Kubernetes minor of its image, and the cluster has 1.34; use a release of that minor",
        '"1.36.3-20260911"',
    ),
    "ami-built-for-another-minor": (
        "gpu-ci:clusters.usw2.amis.gpu.built.release",
        "a node has the Kubernetes minor of its image, and the cluster has 1.34; use a release of that minor",
        '"1.36.3-20260911"',
    ),
    "ami-built-on-another-cloud": (
        "gpu-ci:clusters.usw2.amis.gpu.buildType",
        "not an EC2 type of x86_64, which can run the image; write one such as g4dn.xlarge",
        '"VM.GPU.A10.1"',
    ),
    "ami-region": (
        "gpu-ci:clusters.usw2.amis.gpu.regions.0",
        "not another commercial AWS region (the cluster's own has the image anyway); write one such as us-east-2",
        '"us-west-2"',
    ),
    "ami-region-twice": (
        "gpu-ci:clusters.usw2.amis.gpu.regions",
        "a region is given twice; remove one",
        '["us-east-1", "us-east-1"]',
    ),
    "ami-unknown": (
        "gpu-ci:clusters.usw2.pools.t4.ami",
        "no entry of amis has this name (known: gpu); add it there, or write the id of an AMI",
        '"cuda"',
    ),
    "ami-larger-than-its-nodes": (
        "gpu-ci:clusters.usw2.pools.t4.disk",
        "its image has a root volume of 300Gi, and EC2 refuses a smaller disk; raise disk",
        '"200Gi"',
    ),
    "ami-of-bottlerocket": (
        "gpu-ci:clusters.usw2.pools.t4.ami",
        "an image of your own is made from al2023-nvidia; remove ami, or use that image",
        '"gpu"',
    ),
    "ami-driver-drops-volta": (
        "gpu-ci:clusters.usw2.amis.gpu",
        (
            "V100 (p3.2xlarge) works with driver branch R580 or older; "
            "pool t4 uses this image; write another driverBranch or release"
        ),
        '"595"',
    ),
    "ami-driver-on-its-builder": (
        "gpu-ci:clusters.usw2.amis.gpu.buildType",
        (
            "V100 (p3.2xlarge) works with driver branch R580 or older; "
            "the build tests the image on this type; use another type or driver"
        ),
        '"595"',
    ),
    "two-accounts": (
        "gpu-ci:clusters.usw2.registry.account",
        "the cluster is in one AWS account, and buildCaches names 111122223333; correct one of them",
        '"444455556666"',
    ),
    "registry-account": (
        "gpu-ci:clusters.usw2.registry.account",
        'an AWS account is 12 quoted digits, for example "111122223333"',
        '"123-456"',
    ),
    "registry-beside-machines": (
        "gpu-ci:clusters.sjc.registry",
        "the dynamic group has every machine of the compartment, and machines of jobs must have no rights; add "
        "machineCompartment",
        '{"namespace": "axexample"}',
    ),
    "registry-beside-machines-of-another-cluster": (
        "gpu-ci:clusters.sjc.registry",
        "the dynamic group has every machine of the compartment, and machines of jobs of cluster sjc2 are there; give sjc2 "
        "another machineCompartment",
        '{"namespace": "axexample"}',
    ),
    "registry-copy-of-cached": (
        "gpu-ci:clusters.usw2.registry.copies.0",
        "pullThrough caches quay.io already; remove the copy",
        '"quay.io/org/image:v1"',
    ),
    "registry-copy-twice": (
        "gpu-ci:clusters.usw2.registry.copies",
        "an image is listed twice; remove one",
        '["nvcr.io/nvidia/cuda:12.8.1", "nvcr.io/nvidia/cuda:12.8.1"]',
    ),
    "registry-copy-without-tag": (
        "gpu-ci:clusters.usw2.registry.copies.0",
        "the registry deletes images without a tag after some days; write name:tag, or name:tag@sha256:…",
        f'"nvcr.io/nvidia/cuda@sha256:{"a" * 31}…',
    ),
    "registry-credential-itself": (
        "gpu-ci:clusters.usw2.registry.pullThrough.docker.io.secret",
        "not the ARN of a secret ecr-pullthroughcache/…, the only ones that ECR reads; write "
        "arn:aws:secretsmanager:<region>:<account>:secret:ecr-pullthroughcache/<name>, never the credential itself",
        "",
    ),
    "registry-digest": (
        "gpu-ci:clusters.usw2.registry.runnerImage.version",
        "not a version by digest; write sha256: and 64 hexadecimal digits, or tag@sha256:…",
        '"latest"',
    ),
    "registry-namespace": (
        "gpu-ci:clusters.sjc.registry.namespace",
        "not the Object Storage namespace of a tenancy; write what `oci os ns get` prints",
        '"Ax Example"',
    ),
    "registry-needless-credential": (
        "gpu-ci:clusters.usw2.registry.pullThrough.quay.io.secret",
        "ECR uses no credential for it; remove secret",
        '"arn:aws:secretsmanager:us-west-2:123456789012:secret:ecr-p…',
    ),
    "registry-no-copies": (
        "gpu-ci:clusters.usw2.registry.useCopies",
        "there are no copies to use; list images in copies, or remove it",
        "true",
    ),
    "registry-nvcr-cached": (
        "gpu-ci:clusters.usw2.registry.pullThrough.nvcr.io",
        "ECR has no pull-through cache for it, only for docker.io, ghcr.io, public.ecr.aws, quay.io, "
        "registry.gitlab.com, registry.k8s.io; list its images in copies",
        '"nvcr.io"',
    ),
    "registry-prefix-twice": (
        "gpu-ci:clusters.usw2b.registry.prefix",
        "cluster usw2 also has prefix gpu-ci of account 123456789012 in us-west-2; give each its own",
        "",
    ),
    "registry-prefix": (
        "gpu-ci:clusters.usw2.registry.prefix",
        "a prefix has 2 to 10 lower-case letters, digits and single hyphens, because ECR allows 30 characters "
        "with the name of the cached registry; shorten it",
        '"ci-registry"',
    ),
    "registry-push-role": (
        "gpu-ci:clusters.usw2.registry.pushRole",
        "not the ARN of an IAM role; write arn:aws:iam::<account>:role/<name>",
        '"images"',
    ),
    "registry-secret-elsewhere": (
        "gpu-ci:clusters.usw2.registry.pullThrough.docker.io.secret",
        "ECR reads secrets of its own account and region; use a secret in us-west-2 of 123456789012",
        '"arn:aws:secretsmanager:us-east-1:123456789012:secret:ecr-p…',
    ),
    "registry-without-credential": (
        "gpu-ci:clusters.usw2.registry.pullThrough.ghcr.io",
        "ECR needs a credential for it; add secret with the ARN of a secret ecr-pullthroughcache/…",
        "{}",
    ),
    "registry-without-tenancy": (
        "gpu-ci:clusters.sjc.registry",
        "a dynamic group lets the nodes pull, and it belongs to the tenancy; add tenancy with its OCID",
        '{"namespace": "axexample"}',
    ),
    "policy-arn": (
        "gpu-ci:permissionsBoundary",
        "not the ARN of an IAM policy; write arn:aws:iam::, the account, :policy/ and the policy's name",
        '"gpu-ci-acme-boundary"',
    ),
    "boundary-account": (
        "gpu-ci:permissionsBoundary",
        "a cluster is in account 123456789012, and a role's boundary is a policy of its own account; correct it",
        '"arn:aws:iam::111122223333:policy/gpu-ci-acme-boundary"',
    ),
    "boundary-unused": (
        "gpu-ci:permissionsBoundary",
        "no cluster of the stack is in AWS, so no role would get it; remove it",
        '"arn:aws:iam::111122223333:policy/gpu-ci-acme-boundary"',
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
    "misspelt-compartment": [
        "gpu-ci:clusters.sjc.compartment: required key is missing; add it",
        'gpu-ci:clusters.sjc.compartmentId: unknown key; did you mean compartment? (got "ocid1.compartment.oc1..example")',
    ],
}


@cache
def _problems(name: str) -> tuple[Problem, ...]:
    with pytest.raises(FleetError) as caught:
        load(stack(name))
    return caught.value.problems


def test_a_broken_file_is_told_by_path_rule_and_value() -> None:
    told = {name: [(problem.where, problem.message, problem.value) for problem in _problems(name)] for name in BROKEN}
    assert {name: problems for name, problems in told.items() if problems != [BROKEN[name]]} == {}
    for name, (where, message, value) in BROKEN.items():
        line = f"{where}: {message} (got {value})" if value else f"{where}: {message}"
        assert list(map(str, _problems(name))) == [line], "the line holds all three"


@pytest.mark.parametrize("name", TWICE)
def test_a_slip_that_breaks_two_rules_is_told_in_two_lines(name: str) -> None:
    assert list(map(str, _problems(name))) == TWICE[name]


@pytest.mark.parametrize("key", ["t4", "gpu-t4"])
def test_two_pools_or_two_sets_of_one_name_are_the_loaders_error(tmp_path: Path, key: str) -> None:
    """A parser that keeps the last of equal keys would drop a pool without a word."""
    text = texts()["valid"]
    first = text[: text.index(f"        {key}:")].count("\n") + 1
    path = tmp_path / "Pulumi.twice.yaml"
    path.write_text(re.sub(rf"^( +{key}:)", r"\1 {}\n\1", text, count=1, flags=re.MULTILINE), encoding="utf-8")
    with pytest.raises(InputError, match=f"a key may appear once, and line {first} has it too; got '{key}'"):
        stackfile.load("twice", ROOT, stack_file=path)


@cases("name", VALID)
def test_the_files_that_all_broken_ones_vary_are_valid(name: str) -> None:
    fleet = load(stack(name))
    assert {name: runner.kind for _, name, runner in fleet.runner_sets()} == VALID[name]


def test_every_broken_file_is_in_the_tables() -> None:
    assert set(broken_stacks.bases()) == set(VALID)
    assert texts().keys() - set(VALID) == {*BROKEN, *TWICE}


def test_no_two_files_show_the_same() -> None:
    assert len(set(texts().values())) == len(texts()), "two files show the same"


@cases(
    ("place", "told"),
    [
        (["+c: 3"], "occur 0 times"),
        ([" c: 3", "+d: 4"], "occur 0 times"),
        ([" a: 1", "-c: 3"], "occur 0 times"),
        ([" x: 0", "+c: 3"], "occur 2 times"),
        (["a: 1"], "begins with"),
    ],
)
def test_a_difference_that_does_not_fit_its_base_once_is_an_error(place: list[str], told: str) -> None:
    with pytest.raises(ValueError, match=f"new: .*{told}"):
        changed("x: 0\na: 1\nx: 0\n", place, "new")


def test_places_of_a_difference_are_changed_each() -> None:
    base = "a: 1\nb: 2\nc: 3\n"
    assert changed(base, ["-c: 3", "@@", " a: 1", "+d: 4"], "new") == "a: 1\nd: 4\nb: 2\n"


# Every message ends in what to do; these are the words by which a reader finds it.
_MEND = re.compile(
    r"(; |, |: )(add|name|write|use|move|rename|remove|raise|lower|correct|give|split|shorten|fill|put|list|set|keep|take|seal)"
    r"|; did you mean|; known keys|: 16Gi$|: 10m$|\(500m\)$|for example|give either|private endpoint needs"
)


def test_every_message_says_how_to_mend_it() -> None:
    assert [message for _, message, _ in BROKEN.values() if not _MEND.search(message)] == []


# -- completeness ------------------------------------------------------------------------------------------------------


def _raised() -> set[tuple[str, str]]:
    """(rule, message) of every violation in the files. Pydantic's own rules keep their names."""
    return {(problem.rule, problem.message) for name in (*BROKEN, *TWICE) for problem in _problems(name)}


def _calls() -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """(place, rule, pattern of the message) of every `problem(…)` and `refuse(…)` in fleet/, but those that no stack file can
    break.

    Some functions raise a problem whose rule is their own first parameter. Each call of one is a rule of its own.
    """
    # Jobs are asked for from Python too: their rules are in tests/fleet/jobs.
    paths = sorted(set(SOURCE.rglob("*.py")) - {SOURCE / "loading" / "deployments.py", *SOURCE.glob("jobs/*.py")})
    shared = {name: message for path in _with_call(paths, "problem") for name, message in _shared(parsed(path))}
    assert len(shared) + len(_by_row()) > 12, "the shared checks were found"
    for path in _with_call(paths, "refuse", "Violation", *_by_row(), *shared):
        tree = parsed(path)
        for line, key, _ in _rows(tree):
            yield f"{path.name}:{line}", key.partition("__")[0], re.compile(_row(key), re.DOTALL)
        inside = {
            id(node)
            for each in ast.walk(tree)
            if isinstance(each, ast.FunctionDef) and each.name in (*shared, "violation")
            for node in ast.walk(each)
        }
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or id(node) in inside:
                continue
            if _function(node) in ("problem", "Violation", *shared) and len(node.args) > 1:
                rule = node.args[0]
                message = shared.get(_function(node)) or _said(tree, node.args[1])
                assert isinstance(rule, ast.Constant), f"{path.name}:{node.lineno}: write the rule's name as a literal"
                yield f"{path.name}:{node.lineno}", str(rule.value), re.compile(_pattern(message), re.DOTALL)


def _function(call: ast.Call) -> str:
    """The name of the function, without its module."""
    return ast.unparse(call.func).rpartition(".")[2]


@cache
def _by_row() -> dict[str, set[str]]:
    """Functions whose first parameter is a key of refusals.toml, with the fields that each fills in itself."""
    said: dict[str, set[str]] = {"words": set()}
    # The first two have the rule alone, the others a condition after it.
    ways = {"problem": 1, "words": 1, "refuse_if": 2, "accepted": 2}
    for path in _with_call(sorted(SOURCE.rglob("*.py")), *ways):
        for function in (entry for entry in parsed(path).body if isinstance(entry, ast.FunctionDef)):
            first = [word.arg for word in (*function.args.posonlyargs, *function.args.args)][:1]
            for node in ast.walk(function):
                if not isinstance(node, ast.Call) or ways.get(_function(node)) != len(node.args):
                    continue
                if [ast.unparse(node.args[0])] == first:
                    said.setdefault(function.name, set()).update(word.arg for word in node.keywords if word.arg is not None)
    return said


def _rows(tree: ast.Module) -> Iterator[tuple[int, str, set[str]]]:
    """(line, key, fields) of each row of refusals.toml that a module raises, by `refuse(key=…)` or by a call of `_by_row`."""
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name, names = _function(node), {keyword.arg for keyword in node.keywords if keyword.arg is not None}
        message = name == "problem" and len(node.args) > 1
        if name in _by_row() and node.args and isinstance(node.args[0], ast.Constant) and not message:
            yield node.lineno, str(node.args[0].value), names | _by_row()[name]
        if name == "refuse":
            yield from ((node.lineno, key, set()) for key in names)


def _row(key: str) -> str:
    """The pattern of a row: any text stands for a field."""
    return "".join(re.escape(text) + (".*" if field is not None else "") for text, field, *_ in Formatter().parse(REFUSALS[key]))


def _with_call(paths: Sequence[Path], *names: str) -> list[Path]:
    """The files with a call of one of these functions: to walk a tree takes longer than to search a text."""
    called = re.compile(rf"\b(?:{'|'.join(names)})\(")
    return [path for path in paths if called.search(path.read_text(encoding="utf-8"))]


def _shared(tree: ast.Module) -> Iterator[tuple[str, ast.expr | None]]:
    """(name, message) of each function that raises a rule that its caller names; None if its caller gives the message, too."""
    for each in tree.body:
        if isinstance(each, ast.FunctionDef):
            given = [parameter.arg for parameter in each.args.args]
            for node in ast.walk(each):
                called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "problem"
                if not (called and isinstance(node, ast.Call) and len(node.args) > 1 and isinstance(node.args[0], ast.Name)):
                    continue
                if [node.args[0].id] == given[:1]:
                    own = not (isinstance(node.args[1], ast.Name) and node.args[1].id in given)
                    yield each.name, _said(each, node.args[1]) if own else None


def _said(scope: ast.AST, message: ast.expr) -> ast.expr:
    """The message itself, where a name stands for it: the last text before it that has this name."""
    if isinstance(message, ast.Constant | ast.JoinedStr):
        return message
    kind, spelled = type(message), ast.unparse(message)
    texts = [
        node.value
        for node in ast.walk(scope)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], kind) and node.lineno < message.lineno
        if ast.unparse(node.targets[0]) == spelled
    ]
    return max(texts, key=lambda text: text.lineno, default=message)


def _pattern(message: ast.expr) -> str:
    if isinstance(message, ast.Constant):
        return re.escape(str(message.value))
    if isinstance(message, ast.JoinedStr):
        return "".join(_pattern(part) if isinstance(part, ast.Constant) else ".*" for part in message.values)
    if isinstance(message, ast.BinOp):
        return _pattern(message.left) + _pattern(message.right)
    if isinstance(message, ast.IfExp):
        return f"(?:{_pattern(message.body)}|{_pattern(message.orelse)})"
    return ".*"


BEYOND_FILES = {"from_zero", "vgpu_license", "one_machine", "open_modules", "owned_vendor", "runtime_handler"}
"""No stack file breaks it. test_settings, test_enablement, test_talos and, for arguments of components,
tests/components/test_arguments give it something that does."""
OF_ARGUMENTS = {
    ("launcher_set.py", "provider_tag"),
    ("runner_sets.py", "app_for_jobs"),
    ("runner_sets.py", "two_selectors"),
    ("runner_sets.py", "usd_per_hour"),
}
"""(module, rule) of what only an argument of a component breaks; there test_arguments, test_cluster_arguments and
test_oci_gpu_runner_arguments of tests/components do. Other modules still need a file for a rule of the same name."""


def test_every_rule_of_the_settings_has_a_broken_file() -> None:
    calls, raised = list(_calls()), dict[str, list[str]]()
    for rule, message in _raised():
        raised.setdefault(rule, []).append(message)
    # The rule of a field in an object of Kubernetes is shown with the field before it.
    fields = [message.partition(": ")[2] for message in raised["kubernetes_value"]]
    assert len(calls) > 40, "the calls were found"
    assert {(place.partition(":")[0], rule) for place, rule, _ in calls} >= OF_ARGUMENTS, "remove what is gone"
    unshown = [
        f"{place} {rule}"
        for place, rule, pattern in calls
        if rule not in BEYOND_FILES
        and (place.partition(":")[0], rule) not in OF_ARGUMENTS
        and not any(map(pattern.fullmatch, (*raised.get(rule, ()), *fields)))
    ]
    assert unshown == [], "add a file to broken/ for each"


def test_every_row_of_the_refusals_is_raised_with_its_fields() -> None:
    """A row without one of its fields would be an error of Python in place of the error of the settings."""
    paths = [path for folder in (SOURCE, ROOT / "bootstrap", ROOT / "components") for path in folder.rglob("*.py")]
    raised = [row for path in _with_call(paths, "refuse", *_by_row()) for row in _rows(parsed(path))]
    assert {key for _, key, _ in raised} == set(REFUSALS)
    for _, key, context in raised:
        fields = {field for _, field, *_ in Formatter().parse(REFUSALS[key]) if field is not None}
        assert fields <= context, key


def test_every_rule_of_pydantic_that_has_words_of_ours_has_a_broken_file() -> None:
    told = {rule.removeprefix("gpu_ci_") for rule in (*reading._FIXES, "extra_forbidden")}
    assert told - {rule for rule, _ in _raised()} == set(), "a rule that nothing raises needs no words; else add a file"


def test_no_broken_file_falls_back_to_pydantics_words() -> None:
    assert [name for name, (_, message, _) in BROKEN.items() if message.endswith("; correct the value")] == []
