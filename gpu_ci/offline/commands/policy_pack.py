"""`gpu-ci policy-pack`: the policy pack as a folder that can be published."""

from __future__ import annotations

import shlex
import sys

from gpu_ci.app import WRITE, Folder, app, exit_status
from gpu_ci.offline.pack import write_pack


@app.command(name="policy-pack", rich_help_panel=WRITE)
def policy_pack(out: Folder) -> None:
    """Write the policy pack as a folder that `pulumi policy publish` accepts."""
    with exit_status():
        files = write_pack(out)
    sys.stdout.writelines(f"{path}\n" for path in files)
    sys.stdout.write(f"publish it: pulumi -C {shlex.quote(str(out.resolve()))} policy publish YOUR-ORGANIZATION\n")
