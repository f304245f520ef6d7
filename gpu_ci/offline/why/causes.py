"""Why a job waits, in one sentence, and whom to ask. A cause counts only if GitHub or the stack file shows it."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import NamedTuple

from fleet.facts.errors import instead
from fleet.facts.lifecycle import RUNNER_REPOSITORY, of_image
from fleet.facts.tables import beside
from fleet.facts.versions import RUNNER_IMAGE
from fleet.prove.placement import Placement, place
from fleet.prove.remarks import PAGE
from fleet.prove.runs_on import RunsOn
from fleet.providers.fleet import Fleet
from fleet.settings.namespaces import runner_namespace
from fleet.settings.runner import PodRunner, Runner, RunnerPod
from gpu_ci.doctor.sources.actions import QUEUED, RUNNING, Job, Repository
from gpu_ci.offline.why.seen import Seen

NO_LABEL, REFUSED = "no such label", "runner refused"
FULL, BEHIND, NO_CAPACITY = "set at its maximum", "behind other jobs", "no capacity"
NO_RUNNER, UNDETERMINABLE = "not a matter of runners", "undeterminable"
STUCK = (NO_LABEL, REFUSED)
"""Causes that do not end without a change."""
_GITHUB = "GitHub (githubstatus.com)"
_STATES: Mapping[str, tuple[str, str]] = beside(__file__, "states.toml")


class Reason(NamedTuple):
    """Why a job waits. `commands` show what is undeterminable here."""

    job: Job
    cause: str
    text: str
    ask: str
    commands: tuple[str, ...] = ()


Sets = Mapping[tuple[str, str], Runner]
"""Runner sets by cluster and name."""


@dataclass(frozen=True)
class Stack:
    """A stack on a day, which decides whether its runners' version has ended."""

    name: str
    fleet: Fleet
    day: date

    @property
    def ask(self) -> str:
        """Whom to ask about its runners."""
        owner = self.fleet.tags.get("owner")
        urls = " and ".join(scope.url for scope in self.fleet.scopes.values())
        return f"{owner} (tag owner of stack {self.name})" if owner else f"the administrators of {urls}"

    def grouped(self, sets: Sets) -> bool:
        """Whether the runners of sets are in groups: those of an organization are, those of a repository are not."""
        return any(not self.fleet.scope_of(cluster, runner).repository for (cluster, _), runner in sets.items())

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """Where its runners run."""
        return place(self.fleet)

    def sets(self, labels: tuple[str, ...]) -> Sets:
        """The sets that have all these labels. GitHub does not show the group that the job asks for."""
        members = ((cluster, name, runner) for cluster, name, runner in self.fleet.runner_sets() if labels)
        asked = RunsOn(labels)
        return {(cluster, name): runner for cluster, name, runner in members if asked.matches((name, *runner.labels), "")}

    def image(self, cluster: str, runner: Runner) -> str:
        """The image of a set's runner."""
        own = self.fleet.clusters[cluster].with_image(runner).image if isinstance(runner, PodRunner) else None
        return own or RUNNER_IMAGE

    def serving(self, sets: Sets, repository: Repository) -> Sets:
        """Those of the sets whose runners belong to this repository or its organization."""
        place_of = f"{repository.host}/{repository.path}"
        return {key: runner for key, runner in sets.items() if self.fleet.scope_of(key[0], runner).serves(place_of)}


def reasons(seen: Seen, stack: Stack | None) -> Iterator[Reason]:
    """The reason of each job of a run that waits, in GitHub's order."""
    for job in seen.waiting:
        if job.status in _STATES:
            yield Reason(job, NO_RUNNER, *_STATES[job.status])
        else:
            yield _of_labels(job, seen, stack)


def _of_labels(job: Job, seen: Seen, stack: Stack | None) -> Reason:
    ask = stack.ask if stack else f"the administrators of the runners of {seen.repository.owner}"
    sets = stack.sets(job.labels) if stack else {}
    if not job.labels:
        text = "its runs-on names a runner group alone, which GitHub's API does not show"
        return Reason(job, UNDETERMINABLE, text, ask, ("gpu-ci audit .",))
    if not sets and len(job.labels) == 1 and RunsOn(job.labels).hosted:
        text = f"only GitHub's own runners have the label {job.labels[0]}"
        return Reason(job, NO_RUNNER, text, _GITHUB)
    if stack is None:
        ahead, running = _counts(job, seen, {job.key})
        bound, gone = _limits(seen)
        counts = f"{bound}{running} run and {bound}{ahead} are ahead{gone}"
        text = f"of this repository's jobs with these labels {counts}; only a stack file has the maximum"
        url = f"https://{seen.repository.host}/{seen.repository.path}/actions/runs/{seen.run.id}"
        return Reason(job, UNDETERMINABLE, text, ask, (f"gpu-ci why {url} --stack STACK",))
    if not sets:
        members = [*stack.fleet.runner_sets()]
        words = {word for _, name, runner in members for word in (name, *runner.labels)}
        fix = instead(" ".join(job.labels), words, f"its sets are {', '.join(dict.fromkeys(name for _, name, _ in members))}")
        text = f"no runner set of stack {stack.name} has {' and '.join(job.labels)}, so no runner of it takes the job; {fix}"
        return Reason(job, NO_LABEL, text, ask)
    return _of_sets(job, seen, stack, stack.serving(sets, seen.repository) or sets)


def _refusal(seen: Seen, stack: Stack, sets: Sets, running: int) -> str:
    """Why no set of these may run a job of the repository; empty if one may, or if GitHub does not show it.

    A set that runs a job has a version that GitHub accepts, and a group that this repository may use.
    """
    if not stack.serving(sets, seen.repository):
        urls = dict.fromkeys(stack.fleet.scope_of(cluster, runner).url for (cluster, _), runner in sets.items())
        return f"the runners of stack {stack.name} belong to {' and '.join(urls)}, and the run to {seen.repository.path}"
    if running:
        return ""
    images = [stack.image(cluster, runner) for (cluster, _), runner in sets.items()]
    lives = [of_image(image, stack.day) for image in images if image.startswith(f"{RUNNER_REPOSITORY}:")]
    if len(lives) == len(sets) and all(life is not None and life.over(stack.day) for life in lives):
        return next(life.words(stack.day) for life in lives if life is not None)
    names = dict.fromkeys(stack.fleet.group_of(cluster, runner) for (cluster, _), runner in sets.items())
    if stack.grouped(sets) and seen.groups is not None and not seen.groups & {name.lower() for name in names}:
        return f"{seen.repository.path} may not use runner group {' or '.join(names)}, or there is no such group"
    return ""


def _of_sets(job: Job, seen: Seen, stack: Stack, sets: Sets) -> Reason:
    same = {key for key in {other.key for other in seen.active} if stack.sets(key).keys() & sets.keys()}
    ahead, running = _counts(job, seen, same)
    if refusal := _refusal(seen, stack, sets, running):
        return Reason(job, REFUSED, refusal, stack.ask)
    most = sum(runner.span.max for runner in sets.values())
    # The largest machines count: with fewer runners the pools may be full, and no source here shows that.
    own = [one for one in stack.placements if (one.cluster, one.runner_set) in sets and not one.of_runners]
    room = sum(max(fit.count for fit in placement.fits) * placement.host.count for placement in own)
    name = f"set{'s' * (len(sets) > 1)} {' and '.join(map('/'.join, sets))}"
    bound, gone = _limits(seen)
    text = f"this repository uses {bound}{running} of the {most} runners of {name}"
    text += f", with {bound}{ahead} of its jobs ahead of this one{gone}"
    if kept := [runner.keep_failed.time for runner in sets.values() if isinstance(runner, RunnerPod) and runner.keep_failed]:
        text += f" (a job that failed may hold its runner for {max(kept) / 60:g} more minutes: keepFailed)"
    if running >= most:
        return Reason(job, FULL, text, stack.ask)
    if running >= room:
        return Reason(job, NO_CAPACITY, f"{text}, and the pools hold only {room} runners", stack.ask)
    if running + ahead >= min(most, room):
        return Reason(job, BEHIND, text, stack.ask)
    text += "; only the cluster shows whether a node starts or has no capacity"
    if len(job.labels) > 1:
        text += f"; a job that names the set alone always reaches it ({PAGE})"
    return Reason(job, UNDETERMINABLE, text, stack.ask, tuple(_commands(seen, stack, sets)))


def _commands(seen: Seen, stack: Stack, sets: Sets) -> Iterator[str]:
    """What shows the pods of the sets, quotas and, if GitHub does not show them to this token, the runner groups."""
    for cluster, name in sets:
        yield f"kubectl describe pods --namespace {runner_namespace(name)} # cluster {cluster}"
    yield f"gpu-ci doctor {stack.name}"
    if stack.grouped(sets) and seen.groups is None:
        path = f"orgs/{seen.repository.owner}/actions/runner-groups?visible_to_repository={seen.repository.name}"
        yield f"gh api '{path}' --jq '.runner_groups[].name'"


def _limits(seen: Seen) -> tuple[str, str]:
    """What to write before a count of jobs, and after the counts, if not all runs were read."""
    gone = f" (not read: {seen.gone} run{'s' * (seen.gone > 1)} that GitHub no longer has)" if seen.gone else ""
    return "" if seen.whole else "at least ", gone


def _counts(job: Job, seen: Seen, same: Set[tuple[str, ...]]) -> tuple[int, int]:
    """Jobs of the repository with one of these keys: how many wait for longer, and how many run."""
    others = [other for other in seen.active if other.key in same]
    ahead = [other for other in others if other.status == QUEUED and (other.created_at, other.id) < (job.created_at, job.id)]
    return len(ahead), sum(other.status == RUNNING for other in others)
