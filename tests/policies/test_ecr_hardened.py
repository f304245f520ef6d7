"""ecr-hardened: tags, scans, keys."""

from __future__ import annotations

from typing import Any

from policies.rules.ecr_hardened import ECR_REPOSITORY, RULE
from tests.policies.cases import Case
from tests.policies.suite import Suite

GOOD: dict[str, Any] = {"imageTagMutability": "IMMUTABLE", "imageScanningConfiguration": {"scanOnPush": True}}
KMS = {"requireKms": True}
MUTABLE = "imageTagMutability is {}: somebody can then move a tag to another image; write IMMUTABLE"
UNSEEN = "imageScanningConfiguration.scanOnPush is {}: ECR does not scan images for known vulnerabilities; write true"

SUITE = Suite(
    RULE,
    passing=(
        Case(ECR_REPOSITORY, GOOD),
        Case(ECR_REPOSITORY, GOOD | {"encryptionConfigurations": [{"encryptionType": "KMS"}]}, config=KMS),
    ),
    violating=(
        Case(ECR_REPOSITORY, {"name": "runner"}, (MUTABLE.format("not set"), UNSEEN.format("not set"))),
        Case(ECR_REPOSITORY, GOOD | {"imageTagMutability": "MUTABLE"}, (MUTABLE.format('"MUTABLE"'),)),
        Case(ECR_REPOSITORY, GOOD | {"imageScanningConfiguration": {"scanOnPush": False}}, (UNSEEN.format("false"),)),
        Case(
            ECR_REPOSITORY,
            GOOD | {"encryptionConfigurations": [{"encryptionType": "AES256"}]},
            ("encryptionConfigurations has no entry of type KMS: this stack requires its own key; add {encryptionType: KMS}",),
            config=KMS,
            unremedied=True,
        ),
    ),
)
