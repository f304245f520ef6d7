"""Starts the policy pack. PolicyPack serves until it is killed, and stdout belongs to the port it prints: write nothing."""

import os
import sys
from datetime import date
from pathlib import Path

from pulumi_policy import PolicyPack

# `fleet` lies beside `policies/` in the repository, inside the pack where it is published; last, so that a copy inside wins.
sys.path.append(str(Path(__file__).resolve().parent.parent))

from rules import RULES

# The day on which exceptions stand or have run out; an update that is run again may name the day of the first one.
AS_OF = date.fromisoformat(os.environ.get("GPU_CI_AS_OF") or date.today().isoformat())

PolicyPack("gpu-ci", [rule.policy(AS_OF) for rule in RULES])
