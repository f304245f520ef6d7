"""The files of an audited folder. A file that cannot be read is a line of the report: many folders have Helm templates."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import Document
from fleet.loading.documents import documents
from gpu_ci.audit.findings import Finding, findings
from gpu_ci.audit.runner_sets import Controller, RunnerSet, parts_of
from gpu_ci.audit.workflows import Job, jobs_of
from gpu_ci.offline.folders import files

_SUFFIXES = (".yaml", ".yml", ".json")
_WORKFLOWS = (".github", "workflows")
_FIX = "name a folder with workflows or Helm values, or one file"


@dataclass(slots=True)
class Audit:
    """What a folder has, and a line for each file that could not be read."""

    sets: list[RunnerSet] = field(default_factory=list)
    controllers: list[Controller] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    not_read: list[str] = field(default_factory=list)

    def findings(self, day: date) -> list[Finding]:
        return findings(self.sets, self.controllers, self.jobs, day)


def audit(root: Path) -> Audit:
    """Read a folder or one file. Raises InputError if it does not exist or has nothing that an audit knows."""
    seen = Audit()
    for path in files("PATH", root, _SUFFIXES, _FIX):
        # A link may lead to another file of the machine.
        if path != root and path.is_symlink():
            continue
        try:
            for document in documents(path):
                _read(seen, path, document)
        except InputError as error:
            seen.not_read += str(error).splitlines()
        except OSError as error:
            seen.not_read.append(f"{path}: cannot be read ({error.strerror})")
    if not (seen.sets or seen.controllers or seen.jobs):
        raise InputError(f"PATH: {root} has no workflow and nothing of ARC; {_FIX}")
    return seen


def _read(seen: Audit, path: Path, document: Document) -> None:
    if path.parent.parts[-2:] == _WORKFLOWS:
        seen.jobs += jobs_of(str(path), document)
        return
    for part in parts_of(str(path), document):
        if isinstance(part, RunnerSet):
            seen.sets.append(part)
        else:
            seen.controllers.append(part)
