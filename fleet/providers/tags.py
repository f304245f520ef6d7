"""What each cloud takes as tags of its resources, beside the rules that hold for all."""

from __future__ import annotations

import re
from dataclasses import dataclass

STACK_TAG = "gpu-ci/stack"
"""Its value is the stack's name; budgets on AWS count what has it."""


@dataclass(frozen=True, slots=True)
class TagRules:
    """`most` tags of the fleet's own; a key is all of `key`, which `words` tell a reader."""

    most: int
    key: re.Pattern[str]
    words: str


AWS_TAGS = TagRules(40, re.compile(r".{1,128}"), "1 to 128 characters")
"""EC2 takes 50; the program's own and the provider's need the rest."""

OCI_TAGS = TagRules(6, re.compile(r"[!-\-/-~]{1,100}"), "1 to 100 ASCII characters without space or full stop")
"""docs.oracle.com, limits on tags: ten free-form tags, of which the program's own and the launcher's take four."""

NO_TAGS = TagRules(40, re.compile(r".{1,128}"), "any characters")
"""Of what no cloud sells: nothing there is tagged, so whatever the fleet's other clusters take is no fault."""
