"""The record of a run, for docs/acceptance/: what ran, on what, for how long. No account, no name of the stack, no secret."""

import importlib.metadata
import platform
import re
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from fleet.facts.credentials import HIDDEN, mask
from fleet.providers.fleet import Fleet
from fleet.providers.registry import PROVIDERS
from gpu_ci.acceptance.runner import Result, Run, Shell, StepError

FOLDER = Path("docs/acceptance")
_IDENTIFIERS = re.compile(r"\b[0-9]{12}\b|\bocid1\.[\w.-]+")
"""Ids of AWS accounts, which are also in ARNs, and OCIDs."""


def path_of(day: date, fleet: Fleet, accepted: bool) -> Path:
    """The usual file: the day, the fleet's providers, and whether the run failed."""
    return FOLDER / f"{'-'.join((day.isoformat(), *_providers(fleet)))}{'' if accepted else '-failed'}.json"


def document(run: Run, fleet: Fleet, day: date, environment: Mapping[str, str]) -> dict[str, Any]:
    """The record. `cloud` is false if the environment attaches simulated providers to the engine."""
    providers = _providers(fleet)
    packages = ("pulumi", "pulumi-kubernetes", *(package for name in providers for package in PROVIDERS[name].packages))
    own = {"python": platform.python_version(), "pulumi CLI": _said(run.shell, "pulumi", "version").removeprefix("v")}
    bounds = {"longest hours": run.script.hours(run.most), "bound USD": run.script.bound(run.worst, run.most)}
    return {
        "date": day.isoformat(),
        "commit": _said(run.shell, "git", "rev-parse", "HEAD"),
        "changed": bool(_said(run.shell, "git", "status", "--porcelain", "--untracked-files=no")),
        "cloud": "PULUMI_DEBUG_PROVIDERS" not in environment,
        "ok": run.ok,
        "providers": providers,
        "regions": sorted({getattr(cluster, "region", "") for _, cluster in fleet.clusters_by_name()}),
        "versions": own | {package: importlib.metadata.version(package) for package in packages},
        "cost": {
            "worst hour USD": round(run.worst, 3),
            **{key: round(value, 2) for key, value in bounds.items()},
            "budget USD": run.budget,
            "kept": run.keep,
        },
        "steps": [_step(result) for result in run.all_results],
    }


def _step(result: Result) -> dict[str, Any]:
    name, proves, *_ = result.step
    step = {"name": name, "proves": proves, "status": result.status, "seconds": round(result.seconds, 1)}
    return step | ({"why": _IDENTIFIERS.sub(HIDDEN, mask(result.why))} if result.why else {})


def _providers(fleet: Fleet) -> list[str]:
    return sorted({cluster.provider for _, cluster in fleet.clusters_by_name()})


def _said(shell: Shell, *words: str) -> str:
    """What a command says, empty if it cannot say it."""
    shell.until = shell.now() + 30
    try:
        return shell.read(*words).strip()
    except StepError:
        return ""
