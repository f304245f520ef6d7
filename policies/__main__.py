"""Starts the policy pack. PolicyPack serves until it is killed, and stdout belongs to the port it prints: write nothing."""

import sys
from pathlib import Path

from pulumi_policy import PolicyPack

# `fleet` lies beside `policies/` in the repository, inside the pack where it is published; last, so that a copy inside wins.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from rules import RULES

PolicyPack("gpu-ci", [rule.policy() for rule in RULES])
