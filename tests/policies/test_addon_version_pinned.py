"""addon-version-pinned: add-ons of both clouds, and the component that is judged in its child's place."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.addon_version_pinned import RULE
from policies.rules.kinds import EKS_ADDON, EKS_ADDON_COMPONENT, EKS_COMPONENT, OKE_ADDON
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, REMOVE, changed, judge, said
from tests.policies.suite import Suite

EKS = {"clusterName": "usw2", "addonName": "vpc-cni", "addonVersion": "v1.22.4-eksbuild.3"}
OKE = {"addonName": "ClusterAutoscaler", "version": "v1.34.2"}


def eks_fault(shown: str = "not set") -> str:
    return f"addonVersion is {shown}: EKS then installs its current default version; write a version such as v1.2.3-eksbuild.1"


def oke_fault(shown: str = "not set") -> str:
    return f"version is {shown}: OKE then updates the add-on by itself; write a version such as v1.2.3"


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        (REMOVE, "not set"),
        (None, "not set"),
        ("", '""'),
        ("latest", '"latest"'),
        ("v1.22", '"v1.22"'),
        ("latest2", '"latest2"'),
        (1, "1"),
        ([], "a list"),
    ],
)
def test_an_addon_has_a_version(version: Any, shown: str) -> None:
    assert judge(RULE, EKS_ADDON, changed(EKS, "addonVersion", version)) == said(eks_fault(shown))
    assert judge(RULE, OKE_ADDON, changed(OKE, "version", version)) == said(oke_fault(shown))


def test_the_component_of_an_addon_is_judged_by_its_inputs_or_where_it_has_none_by_what_it_makes() -> None:
    bare = changed(EKS, "addonVersion", REMOVE)
    assert judge(RULE, EKS_ADDON_COMPONENT, bare) == said(eks_fault())
    assert judge(RULE, EKS_ADDON_COMPONENT, {}) == CLEAN
    assert judge(RULE, EKS_ADDON, bare, parent=EKS_ADDON_COMPONENT) == said(eks_fault())
    assert judge(RULE, EKS_ADDON, bare, parent=EKS_COMPONENT) == said(eks_fault()), (
        "a cluster's component makes add-ons by itself"
    )


def test_only_the_version_must_be_known() -> None:
    assert judge(RULE, EKS_ADDON, EKS, unknown=("addonVersion",)) == said(unknown="addonVersion")
    assert judge(RULE, EKS_ADDON, EKS, unknown=("clusterName",)) == CLEAN


SUITE = Suite(
    RULE,
    passing=(Case(EKS_ADDON, EKS), Case(EKS_ADDON_COMPONENT, EKS), Case(OKE_ADDON, OKE)),
    violating=(
        Case(EKS_ADDON, changed(EKS, "addonVersion", REMOVE), (eks_fault(),)),
        Case(EKS_ADDON_COMPONENT, changed(EKS, "addonVersion", ""), (eks_fault('""'),)),
        Case(OKE_ADDON, changed(OKE, "version", REMOVE), (oke_fault(),)),
    ),
)
