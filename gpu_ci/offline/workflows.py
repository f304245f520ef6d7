"""`gpu-ci check` of workflows: reads them, asks the fleet of the stack, and prints a line for each job."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args

from fleet.facts.errors import Fault, InputError, quoted
from fleet.facts.yaml_text import text_of
from fleet.loading.config import read_fleet
from fleet.loading.documents import documents
from fleet.loading.files import listed
from gpu_ci.offline.annotations import shown_from
from gpu_ci.offline.folders import files
from gpu_ci.offline.jsontext import fields_of
from gpu_ci.offline.layout import log_line
from gpu_ci.offline.manifests.tree import FIX
from gpu_ci.offline.notes import Annotation
from gpu_ci.workflows.job import Workflows, is_workflow
from gpu_ci.workflows.judge import Answer, State, judge
from gpu_ci.workflows.served import served

_NAMES = frozenset({"apiVersion", "kind"})
"""Keys that a manifest has at its top."""


class WorkflowCheck(NamedTuple):
    """What a stack does with each job of the workflows at `target`."""

    stack: str
    target: str
    answers: tuple[Answer, ...]

    def passes(self, strict: bool = False) -> bool:
        """Whether every job has a runner; with `strict` also whether each is decided."""
        return not any(_fails(answer, strict) for answer in self.answers)


def _fails(answer: Answer, strict: bool) -> bool:
    return answer.state == "no runner" or (strict and answer.state == "undeterminable")


def check_workflows(target: str, stack: str, root: Path, repository: str = "") -> WorkflowCheck | None:
    """Judge the workflows of a folder or a file. None for what a check of manifests is to judge, or to refuse.

    That is everything with a manifest, without a workflow, or with a file that cannot be read. `repository`, as owner/name, is
    that of the workflows. Raises InputError with a line for each wrong workflow, for each problem of the stack file, and without
    `repository` for a stack that serves several organizations.
    """
    seen, wrong = Workflows(), list[str]()
    for path in files("DIR", Path(target), (".yaml", ".yml", ".json"), FIX) if target else ():
        # A link may lead to another file of the machine.
        if path.is_symlink() and path != Path(target):
            continue
        try:
            text = text_of(path)
        except (InputError, OSError):
            return None
        try:
            is_other = not _add(seen, path, text)
        except InputError as error:
            is_other = "apiVersion" in text
            wrong += str(error).splitlines()
        if is_other:
            return None
    if wrong:
        raise InputError("\n".join(wrong))
    if not seen.jobs:
        return None
    fleet = read_fleet(stack, root=root)
    urls = [scope.url for scope in fleet.scopes.values()]
    if not repository and len(urls) > 1:
        raise InputError(f"--workflows-of: the stack serves {listed(urls)}; name that of the workflows, OWNER/REPOSITORY")
    if not (sets := served(fleet, repository)) and repository:
        raise InputError(f"--workflows-of: no runner set takes jobs of {quoted(repository)}; the stack serves {listed(urls)}")
    return WorkflowCheck(stack, target, tuple(judge(job, sets) for job in seen.jobs))


def _add(seen: Workflows, path: Path, text: str) -> bool:
    """Read the workflows of a file; false for a file with manifests. Most files have neither word, and are not parsed."""
    values = documents(path) if "jobs" in text or "apiVersion" in text else ()
    found = [entry for entry in values if is_workflow(entry.value)]
    for entry in found:
        seen.add(path, entry)
    # A step of an action may write a manifest, so the word alone says nothing.
    return bool(found) or not any(isinstance(entry.value, Mapping) and not _NAMES.isdisjoint(entry.value) for entry in values)


def to_json(check: WorkflowCheck, strict: bool = False) -> dict[str, Any]:
    """The check as plain data."""
    names = ("place=job.place", "name=job.name", "runsOn=job.wants", "state", "message", "edit", "sets", "remarks")
    jobs = [fields_of(answer, *names) for answer in check.answers]
    return {**fields_of(check, "stack", "folder=target"), "passes": check.passes(strict), "jobs": jobs}


def to_text(check: WorkflowCheck, strict: bool = False, quiet: bool = False) -> Iterator[str]:
    """A line for each job, its remarks below it, and the result."""
    rows = [row for answer in check.answers if not quiet or _fails(answer, strict) for row in _rows(answer)]
    counts = Counter(answer.state for answer in check.answers)
    words = " · ".join(f"{counts[state]} {state}" for state in get_args(State))
    rows.append(f"{'OK' if check.passes(strict) else 'FAILED'}: {len(check.answers)} jobs on stack {check.stack} · {words}")
    # A label, or the name of a file, may have a line break or a command for the runner.
    return map(log_line, rows)


def _rows(answer: Answer) -> Iterator[str]:
    state = "" if answer.state == "runs" else f"{answer.state}: "
    yield f"{answer.job.place}: job {answer.job.name}: {state}{_whole(answer)}"
    yield from (f"! {remark}" for remark in answer.remarks)


def _whole(answer: Answer) -> str:
    return f"{answer.message}; {answer.edit}" if answer.edit else answer.message


def annotated(check: WorkflowCheck, strict: bool = False) -> Iterator[Annotation]:
    """GitHub's annotations: an error for each job that fails the check, a warning for each remark."""
    for answer in check.answers:
        place = Fault.of(f"{answer.job.place}: .")
        file = shown_from(Path.cwd(), Path(place.file))
        if _fails(answer, strict):
            yield Annotation("error", f"job {answer.job.name}: {answer.state}", _whole(answer), file, place.line)
        yield from (Annotation("warning", f"job {answer.job.name}", remark, file, place.line) for remark in answer.remarks)
