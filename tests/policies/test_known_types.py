"""known-types: what the components register and nothing else, but for what a stack lists with a reason."""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Iterator
from operator import attrgetter
from pkgutil import walk_packages

import pulumi
import pytest
from pydantic import TypeAdapter

import components
from components.component import Component
from fleet.facts.errors import InputError
from fleet.render.gitops.secrets import github_app
from fleet.settings.github import GitHubApp
from fleet.settings.gitops import ExternalSecrets, GitOps, SealedSecrets
from gpu_ci.offline.judge import configure
from policies.rules.kinds import KNOWN
from policies.rules.known_types import RULE
from tests.builders import SEALED, gitops
from tests.cases import naming
from tests.components.recorded import ROOT, STACKS, recorded
from tests.day import AS_OF
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, judge
from tests.policies.suite import Suite

BATCH = "aws:batch/computeEnvironment:ComputeEnvironment"
DYNAMIC = "pulumi-python:dynamic:Resource"
LISTED = {"types": [{"type": BATCH, "why": "The render farm of another team, with a budget of its own"}]}


def told(token: str) -> tuple[str]:
    return (
        f"{token} is a type that no component of gpu-ci registers: policies and prices may not cover it; "
        f'remove the resource, or add "{token}" to policies/stacks.toml: staging.known-types.types with a reason',
    )


UNKNOWN = (
    BATCH,
    DYNAMIC,
    "pulumi-nodejs:dynamic:Resource",
    "command:local:Command",
    "aws-native:eks:Nodegroup",
    "gcp:container/nodePool:NodePool",
    "aws:cloudformation/stack:Stack",
    "aws:savingsplans/savingsPlan:SavingsPlan",
    "aws:ec2/dedicatedHost:DedicatedHost",
    "pulumi:providers:command",
    "pulumi:pulumi:StackReference",
    "kubernetes:core/v1:NamespacePatch",
    "kubernetes:kustomize/v2:Directory",
    "eks:index:ManagedNodeGroup",
    "gpu-ci:index:Other",
    "aws:ec2/vpc:vpc",
    "",
)

SUITE = Suite(
    RULE,
    passing=(
        *(Case(token, {"instanceType": "p5.48xlarge"}) for token in sorted(KNOWN)[::9]),
        Case("pulumi:pulumi:Stack", {}),
        Case("pulumi:providers:aws", {"region": "us-west-2"}),
        Case("gpu-ci:index:EksGpuCluster", {}),
        Case(BATCH, {}, config=LISTED),
    ),
    violating=(
        Case(BATCH, {"type": "MANAGED"}, told(BATCH)),
        *(Case(token, {}, told(token)) for token in UNKNOWN[1:-1]),
        Case(DYNAMIC, {}, told(DYNAMIC), config=LISTED),
    ),
)


# -- the list is that of the components --------------------------------------------------------------------------------

OF_EKS = {
    "eks:index:ServiceRole",
    "aws:eks/cluster:Cluster",
    "aws:iam/role:Role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
}
"""What the component `eks.Cluster` registers with our arguments (pulumi/pulumi-eks, nodejs/eks/cluster/cluster.ts)."""
OF_PACKAGE = {"pulumi:providers:gpu-ci"}
"""The provider of the components in programs of other languages."""
OF_ENGINE = {"pulumi:providers:pulumi"}
"""The engine's own provider, which it registers for a program that asks for the stack's state (tests/engine previews it)."""


def constructed() -> Iterator[str]:
    """The token of each class of a provider that the components name."""
    for path in sorted((ROOT / "components").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            text = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
            if path_of := re.fullmatch(r"(aws|eks|kubernetes|oci)\.([\w.]+)", text):
                named = attrgetter(path_of[2])(importlib.import_module(f"pulumi_{path_of[1]}"))
                if isinstance(named, type) and issubclass(named, pulumi.Resource):
                    yield str(vars(named)["pulumi_type"])


def ours() -> Iterator[str]:
    """The token of each component."""
    for module in walk_packages(components.__path__, "components."):
        importlib.import_module(module.name)
    pending = [Component]
    while pending:
        classes = pending.pop().__subclasses__()
        pending += classes
        yield from (f"gpu-ci:index:{one._kind or one.__name__}" for one in classes if not one.__subclasses__())
    for path in (ROOT / "components").rglob("*.py"):
        yield from re.findall(r'"(gpu-ci:index:\w+)"', path.read_text())


def of_secrets() -> Iterator[str]:
    """The token of each object that makes the Secret of the GitHub App in Git."""
    settings = TypeAdapter(GitOps).validate_json(json.dumps(gitops()))
    app = GitHubApp.model_construct(app_id="1", installation_id="2")
    for way in (
        SealedSecrets.model_construct(by="sealed-secrets", private_key=SEALED),
        ExternalSecrets.model_construct(by="external-secrets", store="s", key="k", property=""),
    ):
        for manifest in github_app("runners", app, settings, way):
            yield f"kubernetes:{manifest['apiVersion']}:{manifest['kind']}"


def test_the_list_is_what_the_components_register() -> None:
    declared = {resource.type for stack in STACKS for resource in recorded(stack).resources}
    assert declared >= {"gpu-ci:index:EksGpuCluster", "pulumi:providers:aws"}
    assert {*declared, *constructed(), *ours(), *of_secrets(), *OF_EKS, *OF_PACKAGE, *OF_ENGINE} == KNOWN


# -- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", ["aws:batch/*", "aws:batch/*:*", "aws:*:*", "*:*:*", "*", "aws:batch/computeEnvironment"])
def test_a_stack_lists_whole_types_alone(token: str) -> None:
    entry = {"types": [{"type": token, "why": "A wildcard that would be convenient"}]}
    with pytest.raises(InputError, match=r"known-types\.types\[0\]\.type"):
        configure([RULE], {RULE.id: entry}, AS_OF)
    assert judge(RULE, BATCH, {}, entry).messages, "and the rule reads none"


def test_a_type_needs_a_reason() -> None:
    with pytest.raises(InputError, match="why: is required"):
        configure([RULE], {RULE.id: {"types": [{"type": BATCH}]}}, AS_OF)


@pytest.mark.parametrize("token", UNKNOWN)
def test_whatever_a_resource_says_its_type_decides(token: str) -> None:
    for props in ({}, {"tags": {"stack": "prod"}}, {"type": "aws:ec2/vpc:Vpc"}):
        assert judge(RULE, token, props).messages
    with naming("one of our types"):
        assert judge(RULE, "aws:ec2/vpc:Vpc", {"type": BATCH}) == CLEAN
