"""Tag rules of each cloud, in addition to the common rules."""

import re

from fleet.facts.record import Record
from fleet.facts.scheduling import CLUSTER_LABEL, POOL_LABEL

STACK_TAG = "gpu-ci/stack"
"""Tag with the stack's name. AWS budgets count the resources that have it."""


def fixed_tags(stack: str, cluster: str, pool: str = "") -> dict[str, str]:
    """Tags that no edit of the stack file's tags changes: stack, cluster and, if given, pool.

    They are for places where another tag would replace something: launch templates, whose nodes EKS then replaces, and the
    parameters of storage classes, which are immutable.
    """
    return {STACK_TAG: stack, CLUSTER_LABEL: cluster} | ({POOL_LABEL: pool} if pool else {})


class TagRules(Record):
    """A fleet may have `most` tags. The whole of each key matches `key`, which `words` explains.

    `kept` says what keeps its old tags after a change of the stack file; empty if nothing does.
    """

    most: int
    key: re.Pattern[str]
    words: str
    kept: str = ""


AWS_TAGS = TagRules(
    40,
    re.compile(r".{1,128}"),
    "1 to 128 characters",
    "running EC2 instances keep their old tags, and no node is replaced; new instances get the new tags from their Auto Scaling "
    "group (docs/operate.md, Tags)",
)
"""AWS allows 50 tags per resource. A node group has at most 7 more: the stack's, five resources and the reserved nodes. Its Auto
Scaling group has at most 6 more: five of EKS and the idle delay."""

OCI_TAGS = TagRules(6, re.compile(r"[!-\-/-~]{1,100}"), "1 to 100 ASCII characters without space or full stop")
"""docs.oracle.com, limits on tags: ten free-form tags. The program and the launcher use four."""

NO_TAGS = TagRules(40, re.compile(r".{1,128}"), "any characters")
"""For own machines, which have no tags. So these rules accept every tag of other clusters."""
