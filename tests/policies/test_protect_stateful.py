"""protect-stateful: the option, on every kind that cannot be made again."""

from __future__ import annotations

from policies.rules.kinds import EKS_CLUSTER, EKS_COMPONENT
from policies.rules.protect_stateful import RULE, STATEFUL
from tests.policies.cases import Case
from tests.policies.suite import Suite

MESSAGE = "opts.protect is not set: one wrong name in a stack file could delete it with all its data; protect it"

SUITE = Suite(
    RULE,
    passing=(
        *(Case(token, {"name": "one"}, protect=True) for token in sorted(STATEFUL)),
        Case(EKS_CLUSTER, {"name": "one"}, parent=EKS_COMPONENT, protect=True),
        Case(EKS_COMPONENT, {}),
        Case(EKS_CLUSTER, {"deletionProtection": True}),
        Case(EKS_COMPONENT, {"deletionProtection": True}),
    ),
    violating=(
        *(Case(token, {"name": "one"}, (MESSAGE,)) for token in sorted(STATEFUL)),
        Case(EKS_CLUSTER, {"deletionProtection": False}, (MESSAGE,)),
        Case(EKS_CLUSTER, {"name": "one"}, (MESSAGE,), parent=EKS_COMPONENT),
        Case("aws:kms/key:Key", {"deletionProtection": True}, (MESSAGE,)),
    ),
)
