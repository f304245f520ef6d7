"""Resource tokens that the rules judge, and where a pod spec lies in each.

Components (`eks:index:*`, `helm.sh/v4:Chart`, `yaml/v2:ConfigGroup`, `gpu-ci:index:*`) are in no set: they and their
children both reach a policy, and the children are the resources that the cloud gets, so only these are judged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .read import Later, items, text, walk

_WORKLOADS = {
    "core/v1": ("Pod", "PodTemplate", "ReplicationController"),
    "apps/v1": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "batch/v1": ("Job", "CronJob"),
    # Older API versions have tokens of their own in the provider, which aliases them to the ones above.
    "apps/v1beta1": ("Deployment", "StatefulSet"),
    "apps/v1beta2": ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"),
    "extensions/v1beta1": ("Deployment", "DaemonSet", "ReplicaSet"),
    "batch/v1beta1": ("CronJob",),
    "batch/v2alpha1": ("CronJob",),
}
_TEMPLATE = ("spec", "template", "spec")
_SPEC = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", *_TEMPLATE),
}


def _tokens(suffix: str) -> dict[str, tuple[str, ...]]:
    return {
        f"kubernetes:{version}:{kind}{suffix}": _SPEC.get(kind, _TEMPLATE)
        for version, kinds in _WORKLOADS.items()
        for kind in kinds
    }


_RUNNER_SET = "kubernetes:actions.github.com/v1alpha1:AutoscalingRunnerSet"
_ONE = _tokens("") | _tokens("Patch") | {_RUNNER_SET: _TEMPLATE, f"{_RUNNER_SET}Patch": _TEMPLATE}
_MANY = _tokens("List")

POD = frozenset(_tokens("")) | frozenset(_tokens("Patch")) | frozenset(_MANY)
"""Kubernetes' own kinds with a pod spec, their Patch twins and their lists."""

RUNNER_SET = frozenset((_RUNNER_SET, f"{_RUNNER_SET}Patch"))
"""ARC's runner set."""

RELEASE = "kubernetes:helm.sh/v3:Release"
HELM = frozenset((RELEASE,))
"""Charts that stay opaque: the values are all that a policy sees."""

EKS_NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
OKE_NODE_POOL = "oci:ContainerEngine/nodePool:NodePool"
KARPENTER_NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
POOLS = frozenset((EKS_NODE_GROUP, OKE_NODE_POOL, KARPENTER_NODE_POOL))
"""Node pools whose nodes join a cluster."""

LAUNCH_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
EC2_INSTANCE = "aws:ec2/instance:Instance"
EC2_NODE_CLASS = "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"
OCI_INSTANCE = "oci:Core/instance:Instance"
OCI_INSTANCE_CONFIGURATION = "oci:Core/instanceConfiguration:InstanceConfiguration"

# The chart by name, by OCI reference or by path, with or without a version; not the controller's chart.
_SCALE_SET_CHART = re.compile(r"(?:.*/)?gha-runner-scale-set(?:-[0-9][^/]*\.tgz)?(?:[:@][^/]*)?/?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod spec (the SDK's proxy, or junk where the resource holds junk) and where it lies in the resource's properties."""

    path: str
    spec: Any


def is_scale_set(props: Any) -> bool:
    """Whether a Helm release installs the gha-runner-scale-set chart. Raises UnknownValueError."""
    return _SCALE_SET_CHART.fullmatch(text(walk(props, "chart"))) is not None


def pod_specs(token: str, props: Any, later: Later) -> Iterator[PodSpec]:
    """The pod specs that a resource holds; none for a type or a chart without one. Unknown parts are put off.

    A Patch is judged by what it holds, since what it changes is not in the program.
    """
    if token in _ONE:
        yield from _at("", props, _ONE[token], later)
    elif token in _MANY:
        with later:
            for index, item in items(walk(props, "items"), later):
                yield from _at(f"items[{index}].", item, _MANY[token], later)
    elif token in HELM:
        with later:
            if is_scale_set(props):
                yield from _at("", props, ("values", "template", "spec"), later)


def _at(prefix: str, value: Any, keys: tuple[str, ...], later: Later) -> Iterator[PodSpec]:
    with later:
        spec = walk(value, *keys)
        if spec is not None:
            yield PodSpec(prefix + ".".join(keys), spec)
