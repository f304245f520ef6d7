"""`gpu-ci check`: Kubernetes manifests of any origin, checked by the policies, and workflows, checked by the runner sets."""

from pathlib import Path

import typer

from fleet.facts.day import day_of
from fleet.loading.home import ROOT
from gpu_ci.app import PROVE, Annotations, AsOf, Json, Quiet, Stack, Strict, Verbose, app, console, exit_status, reply
from gpu_ci.offline import workflows
from gpu_ci.offline.annotations import of_input, print_annotations
from gpu_ci.offline.manifests.check import make_check
from gpu_ci.offline.manifests.report import annotated, report, to_json
from gpu_ci.offline.progress import Progress


@app.command(rich_help_panel=PROVE)
def check(
    stack: Stack,
    folder: str,
    repository: str = "",
    as_json: Json = False,
    with_annotations: Annotations = False,
    as_of: AsOf = None,
    strict: Strict = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Check Kubernetes manifests of any origin by the policies, with the levels and the config of a stack.

    A folder of GitHub's workflows, without a manifest: check which runner set of the stack each job runs on.
    """

    def annotate_error(error: Exception) -> None:
        if with_annotations:
            print_annotations(of_input(error, Path.cwd()))

    with exit_status(annotate_error, as_json):
        if (jobs := workflows.check_workflows(folder, stack, ROOT, repository)) is not None:
            reply(workflows.to_json(jobs, strict) if as_json else workflows.to_text(jobs, strict, quiet))
            if with_annotations:
                print_annotations(workflows.annotated(jobs, strict))
            raise typer.Exit(0 if jobs.passes(strict) else 1)
        with Progress() as progress:
            judged = make_check(folder, stack, ROOT, progress, day_of(as_of))
        if as_json:
            reply(to_json(judged, strict))
        else:
            report(judged, console(), strict, verbose, quiet=quiet)
        if with_annotations:
            print_annotations(annotated(judged, strict))
        raise typer.Exit(0 if judged.passes(strict) else 1)
