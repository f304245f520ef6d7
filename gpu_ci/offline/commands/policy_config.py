"""`gpu-ci policy-config`: the policy config of each stack, from policies/stacks.toml."""

from __future__ import annotations

import sys

from fleet.loading.home import ROOT
from gpu_ci.app import WRITE, app, exit_status
from gpu_ci.offline.policyconfig import write_policy_configs


@app.command(name="policy-config", rich_help_panel=WRITE)
def policy_config() -> None:
    """Write policies/config/STACK.json for each stack in policies/stacks.toml."""
    with exit_status():
        files = write_policy_configs(ROOT)
    sys.stdout.writelines(f"{path}\n" for path in files)
