"""Tag rules of each cloud, in addition to the common rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

STACK_TAG = "gpu-ci/stack"
"""Tag with the stack's name. AWS budgets count the resources that have it."""


@dataclass(frozen=True, slots=True)
class TagRules:
    """A fleet may have `most` tags. The whole of each key matches `key`, which `words` explains."""

    most: int
    key: re.Pattern[str]
    words: str


AWS_TAGS = TagRules(40, re.compile(r".{1,128}"), "1 to 128 characters")
"""EC2 allows 50. The program and the provider need the rest."""

OCI_TAGS = TagRules(6, re.compile(r"[!-\-/-~]{1,100}"), "1 to 100 ASCII characters without space or full stop")
"""docs.oracle.com, limits on tags: ten free-form tags. The program and the launcher use four."""

NO_TAGS = TagRules(40, re.compile(r".{1,128}"), "any characters")
"""For own machines, which have no tags. So these rules accept every tag of other clusters."""
