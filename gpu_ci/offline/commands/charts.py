"""`gpu-ci charts`: whether the repositories of charts still have what `versions.toml` records."""

from pathlib import Path
from typing import Annotated

import typer

from fleet.facts.versions import CHARTS
from fleet.loading.config import read_fleet
from fleet.loading.stackfile import name_of_file
from fleet.providers.installed import installed
from gpu_ci.app import PROVE, File, app, reply
from gpu_ci.offline.helm import chart_digest, find_helm

_STACK_HELP = "Only the charts of this stack; default: every chart."


@app.command(rich_help_panel=PROVE)
def charts(
    stack: Annotated[str | None, typer.Argument(callback=name_of_file, help=_STACK_HELP)] = None,
    file: File = None,
    keep: Path | None = None,
) -> None:
    """Download charts with Helm, and compare their digests with the recorded ones.

    Exit status: 0 success, 1 a digest differs, 2 the input is wrong, or helm is missing or cannot download a chart.
    """
    names = CHARTS if stack is None else _of(stack, file)
    helm = find_helm()
    same = [_compare(helm, name, keep) for name in names]
    raise typer.Exit(0 if all(same) else 1)


def _of(stack: str, file: Path | None) -> list[str]:
    """The charts of a stack, each once."""
    fleet = read_fleet(stack, file)
    return sorted({chart.chart for name, cluster in fleet.clusters.items() for chart in installed(cluster, name, fleet.github)})


def _compare(helm: str, name: str, keep: Path | None) -> bool:
    """Print the line of a chart. Returns whether its repository has the recorded digest, or no digest is recorded."""
    chart = CHARTS[name]
    if (now := chart_digest(helm, chart, keep)) == chart.sha256:
        state = f"ok: {name} {chart.version} sha256:{now}"
    elif chart.sha256:
        state = f"differs: {name} {chart.version} is sha256:{now}, recorded is sha256:{chart.sha256}"
    else:
        state = f"no digest is recorded: {name} {chart.version} sha256:{now}; add it to fleet/facts/data/versions.toml"
    reply((state,))
    return chart.sha256 in ("", now)
