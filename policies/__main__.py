"""Starts the policy pack. PolicyPack serves until it is killed, and stdout belongs to the port it prints: write nothing."""

import sys
from pathlib import Path

from pulumi_policy import PolicyPack

# `fleet` lies beside `policies/` in the repository, inside the pack where it is published; last, so that a copy inside wins.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from rules import RULES

from fleet.facts.day import today

# An update that is run again may name the day of the first one: its prices, ends of support and exceptions count.
try:
    AS_OF = today()
except ValueError as error:
    sys.exit(f"error: {error}")

PolicyPack("gpu-ci", [rule.policy(AS_OF) for rule in RULES])
