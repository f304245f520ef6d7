"""`gpu-ci policies`, `policy-config`, `policy-pack`: the page of the policies, each stack's config and the pack to publish."""

import shlex
import sys

from fleet.loading.home import ROOT
from gpu_ci.app import DOCUMENT, WRITE, Folder, app
from gpu_ci.offline.pack import write_pack
from gpu_ci.offline.policyconfig import write_policy_configs
from gpu_ci.offline.policydocs import document


@app.command(rich_help_panel=DOCUMENT)
def policies() -> None:
    """Print docs/policies.md: every policy with its levels, reasons and fixes."""
    sys.stdout.write(document())


@app.command(name="policy-config", rich_help_panel=WRITE)
def policy_config() -> None:
    """Write policies/config/STACK.json for each stack in policies/stacks.toml."""
    files = write_policy_configs(ROOT)
    sys.stdout.writelines(f"{path}\n" for path in files)


@app.command(name="policy-pack", rich_help_panel=WRITE)
def policy_pack(out: Folder) -> None:
    """Write the policy pack as a folder that `pulumi policy publish` accepts."""
    files = write_pack(out)
    sys.stdout.writelines(f"{path}\n" for path in files)
    sys.stdout.write(f"publish it: pulumi -C {shlex.quote(str(out.resolve()))} policy publish YOUR-ORGANIZATION\n")
