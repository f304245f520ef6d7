"""Starts the policy pack. PolicyPack serves until it is killed, and stdout belongs to the port it prints: write nothing."""

import os
import sys
from datetime import date
from pathlib import Path

from pulumi_policy import PolicyPack

# `fleet` lies beside `policies/` in the repository, inside the pack where it is published; last, so that a copy inside wins.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from rules import RULES
from rules.day import VARIABLE, fault, parsed

# An update that is run again may name the day of the first one: its prices, ends of support and exceptions count.
GIVEN = os.environ.get(VARIABLE)
AS_OF = parsed(GIVEN) if GIVEN else date.today()
if AS_OF is None:
    sys.exit(f"error: {fault(VARIABLE, repr(GIVEN))}")

PolicyPack("gpu-ci", [rule.policy(AS_OF) for rule in RULES])
