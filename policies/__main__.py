"""Starts the policy pack. PolicyPack serves until it is killed, and stdout belongs to the port it prints: write nothing."""

import sys
from pathlib import Path
from types import ModuleType

from pulumi_policy import PolicyPack

# This folder is the package `policies`, whatever its name where it is published. `fleet` lies beside it in the repository, inside
# it where it is published; last, so that a copy inside wins.
_FOLDER = Path(__file__).resolve().parent
sys.path.append(str(_FOLDER.parent))
sys.modules["policies"] = package = ModuleType("policies")
package.__path__ = [str(_FOLDER)]

from fleet.facts.day import day_of  # noqa: E402
from fleet.facts.errors import InputError  # noqa: E402
from policies.pack import policy, types_judged  # noqa: E402
from policies.rules import RULES  # noqa: E402

# An update that is run again may name the day of the first one: its prices, ends of support and exceptions count.
try:
    AS_OF = day_of()
except InputError as error:
    sys.exit(f"error: {error}")

PolicyPack("gpu-ci", [*(policy(rule, AS_OF) for rule in RULES), types_judged()])
