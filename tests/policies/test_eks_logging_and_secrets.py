"""eks-logging-and-secrets: all three logs for a limited time, and a key where a stack asks for one."""

from __future__ import annotations

from policies.rules.eks_logging_and_secrets import RULE
from policies.rules.kinds import EKS_CLUSTER, EKS_COMPONENT, LOG_GROUP
from tests.policies.cases import Case
from tests.policies.harness import CLEAN, judge
from tests.policies.suite import Suite

ALL = ["api", "audit", "authenticator"]
NO_KEY = "is not set: this stack requires its own key; set the ARN of a KMS key"
KMS = {"requireKms": True}
GROUP = "/aws/eks/gpu-ci-prod-use1/cluster"


def lacks(names: str) -> tuple[str, ...]:
    return (f"enabledClusterLogTypes lacks {names}: no other log shows who did what in the cluster; add them",)


def forever(days: str) -> tuple[str, ...]:
    return (f"retentionInDays is {days}: the control plane's logs never expire, and every GB is paid for; set it to 90",)


SUITE = Suite(
    RULE,
    passing=(
        Case(EKS_COMPONENT, {"enabledClusterLogTypes": [*ALL, "scheduler"]}),
        Case(EKS_CLUSTER, {"enabledClusterLogTypes": ALL}),
        Case(EKS_COMPONENT, {}),
        Case(EKS_CLUSTER, {"enabledClusterLogTypes": ["audit"]}, config={"logTypes": ["audit"]}),
        Case(EKS_COMPONENT, {"enabledClusterLogTypes": ALL, "encryptionConfigKeyArn": "arn:aws:kms:1"}, config=KMS),
        Case(
            EKS_CLUSTER,
            {"enabledClusterLogTypes": ALL, "encryptionConfig": {"provider": {"keyArn": "arn:aws:kms:1"}}},
            config=KMS,
        ),
        Case(LOG_GROUP, {"name": GROUP, "retentionInDays": 1}),
        Case(LOG_GROUP, {"name": "/aws/lambda/other"}),
    ),
    violating=(
        Case(LOG_GROUP, {"name": GROUP}, forever("not set")),
        Case(LOG_GROUP, {"name": GROUP, "retentionInDays": 0}, forever("0")),
        Case(EKS_COMPONENT, {"name": "gpu-ci"}, lacks("api, audit, authenticator")),
        Case(EKS_CLUSTER, {"enabledClusterLogTypes": ["api", "audit"]}, lacks("authenticator")),
        Case(EKS_COMPONENT, {"enabledClusterLogTypes": ALL}, (f"encryptionConfigKeyArn {NO_KEY}",), config=KMS),
        Case(EKS_CLUSTER, {"enabledClusterLogTypes": ALL}, (f"encryptionConfig.provider.keyArn {NO_KEY}",), config=KMS),
    ),
)


def test_an_unknown_log_type_may_be_the_missing_one() -> None:
    props = {"enabledClusterLogTypes": ["api", "audit", "x"]}
    assert judge(RULE, EKS_CLUSTER, props, unknown=("enabledClusterLogTypes", 2)).unknown
    assert judge(RULE, EKS_CLUSTER, {"enabledClusterLogTypes": [*ALL, "x"]}, unknown=("enabledClusterLogTypes", 3)) == CLEAN
