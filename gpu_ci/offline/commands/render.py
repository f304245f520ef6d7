"""`gpu-ci render`: the manifests, chart values and boot files of a stack as files."""

import typer

from fleet.facts.day import day_of
from fleet.loading.home import ROOT
from gpu_ci.app import WRITE, AsOf, CheckOnly, File, Folder, Stack, Strict, app, reply
from gpu_ci.offline.layout import MaskingConsole
from gpu_ci.offline.plan import make_plan, require_sdk
from gpu_ci.offline.progress import Progress
from gpu_ci.offline.render import differences, render as write_files
from gpu_ci.offline.report import report


@app.command(rich_help_panel=WRITE)
def render(
    stack: Stack, out: Folder, file: File = None, as_of: AsOf = None, strict: Strict = False, check_only: CheckOnly = False
) -> None:
    """Write the stack's Kubernetes manifests, chart values and boot files, one file per object.

    With ArgoCD delivery, ArgoCD reads this folder.
    """
    require_sdk("render")
    with Progress() as progress:
        proved = make_plan(stack, ROOT, file, progress, day_of(as_of))
    if not proved.passes(strict):
        report(proved, MaskingConsole(stderr=True), strict)
        raise typer.Exit(1)
    astray = differences(proved, out) if check_only else ()
    files = () if check_only else write_files(proved, out)
    if astray:
        why = f"error: {len(astray)} files differ from the settings; render again, and commit the changes"
        reply((*astray, why), err=True)
        raise typer.Exit(1)
    reply(map(str, files or (f"{out}: up to date with the settings",)))
