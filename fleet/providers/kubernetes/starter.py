"""How `init` writes a cluster that it reads by its kubeconfig context."""

from __future__ import annotations

from pathlib import Path

from fleet.providers.starter import Starter


class ContextStarter(Starter):
    """A cluster whose GPU nodes are there. They are never bought."""

    templates = Path(__file__).parent / "templates"
    answers = ("existing-context",)
    where = "on a cluster that exists already"
    jobs = ("tests", "training")
    reads = True
