"""Runs, jobs and runner groups of a repository, as GitHub shows them now.

Sources: docs.github.com, REST API (workflow runs, workflow jobs, self-hosted runner groups). Runs and jobs of a public repository
need no token, others "Actions" (read). Runner groups need "Self-hosted runners" (read) of the organization, or the scope
admin:org, which the token of a workflow never has. The API does not show the group that a job asks for, only that of its runner.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from typing import Annotated, Generic, TypeVar
from urllib.parse import urlencode

from pydantic import AliasChoices, AwareDatetime, BaseModel, Field, TypeAdapter

from fleet.facts.errors import InputError, quoted
from fleet.facts.record import Record
from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.github import api_of, ask

QUEUED, RUNNING, ENDED = "queued", "in_progress", "completed"
MOST = 1000
"""The most runs that GitHub lists for one search (docs.github.com, "List workflow runs for a repository")."""
_OWNER, _NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}", r"(?!\.{1,2}(?:/|$))[A-Za-z0-9_.-]{1,100}"
_PLACE = rf"(?P<owner>{_OWNER})/(?P<name>{_NAME})"
_HOST = r"https://(?P<host>[A-Za-z0-9.-]{1,253}(?::[0-9]{1,5})?)"
_RUN = re.compile(rf"{_HOST}/{_PLACE}/actions/runs/(?P<run>[0-9]{{1,19}})(?:/(?:job/[0-9]+|attempts/[0-9]+))?/?(?:[?#].*)?")
_REPOSITORY = re.compile(rf"(?:{_HOST}/)?{_PLACE}/?")
_SERVER = "GITHUB_SERVER_URL"


class Job(BaseModel):
    """A job as GitHub shows it. A job that waits has a `started_at` too, so only `runner_name` says that it started."""

    id: int
    name: str
    status: str
    created_at: AwareDatetime
    started_at: AwareDatetime | None = None
    completed_at: AwareDatetime | None = None
    labels: tuple[str, ...]
    runner_name: str | None = None
    runner_group_name: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """Its labels as GitHub compares them: without case and order."""
        return tuple(sorted({label.lower() for label in self.labels}))


class Run(BaseModel):
    """A run as GitHub shows it. `conclusion` is null until it has ended."""

    id: int
    status: str
    conclusion: str | None = None


class Group(BaseModel):
    """A runner group."""

    id: int
    name: str


P = TypeVar("P", Run, Job, Group)


class _Page(BaseModel, Generic[P]):
    total_count: int
    entries: Annotated[tuple[P, ...], Field(validation_alias=AliasChoices("workflow_runs", "jobs", "runner_groups"))]


class Repository(Record):
    """A repository of one GitHub. The token goes to the API of this host alone. All methods raise SourceError."""

    host: str
    owner: str
    name: str
    token: str = field(repr=False)

    @property
    def path(self) -> str:
        """Owner and name."""
        return f"{self.owner}/{self.name}"

    def run(self, number: int) -> Run:
        """One run, its latest attempt."""
        return ask(self._api, f"/repos/{self.path}/actions/runs/{number}", self.token, TypeAdapter(Run))

    def runs(self, most: int, **search: str) -> tuple[tuple[Run, ...], int]:
        """The newest runs of a search, at most `most`, and how many GitHub has."""
        return self._list(f"/repos/{self.path}/actions/runs?{urlencode(search)}", TypeAdapter(_Page[Run]), most)

    def jobs(self, run: int) -> tuple[Job, ...]:
        """The jobs of the latest attempt of a run."""
        return self._list(f"/repos/{self.path}/actions/runs/{run}/jobs?filter=latest", TypeAdapter(_Page[Job]), MOST)[0]

    def jobs_of(self, runs: Iterable[int]) -> tuple[list[Job], int]:
        """The jobs of runs, and how many of the runs GitHub no longer has: anyone with the right may delete one meanwhile."""
        jobs: list[Job] = []
        gone = 0
        for run in runs:
            try:
                jobs += self.jobs(run)
            except SourceError as error:
                if error.status != 404:
                    raise
                gone += 1
        return jobs, gone

    def groups(self) -> tuple[Group, ...]:
        """The runner groups of the organization that this repository may use."""
        path = f"/orgs/{self.owner}/actions/runner-groups?visible_to_repository={self.name}"
        return self._list(path, TypeAdapter(_Page[Group]), MOST)[0]

    @property
    def _api(self) -> str:
        return api_of(f"https://{self.host}")

    def _list(self, path: str, form: TypeAdapter[_Page[P]], most: int) -> tuple[tuple[P, ...], int]:
        """The first `most` entries, and how many GitHub has.

        A server may give smaller pages than it was asked for, so their number ends the list.
        """
        entries: dict[int, P] = {}
        total = 0
        # 100 is GitHub's largest page.
        for number in range(1, 1 + MOST // 10):
            page = ask(self._api, f"{path}&per_page=100&page={number}", self.token, form)
            # A list that grows meanwhile moves entries to the next page.
            entries |= {entry.id: entry for entry in page.entries}
            total = page.total_count
            if not page.entries or len(entries) >= min(total, most):
                break
        return tuple(entries.values())[:most], total


def run_of(url: str, environment: Mapping[str, str]) -> tuple[Repository, int]:
    """The repository and the number of a run by its URL, or that of one of its jobs. Raises InputError."""
    if (match := _RUN.fullmatch(url)) is None:
        fix = "write https://github.com/OWNER/REPOSITORY/actions/runs/NUMBER, as the address of the run's page has it"
        raise InputError(f"TARGET: not the URL of a run; {fix}; got {quoted(url)}")
    return _repository(match, environment), int(match["run"])


def repository_of(text: str, environment: Mapping[str, str]) -> Repository:
    """The repository by OWNER/REPOSITORY on the workflow's own server, else on github.com, or by its URL. Raises InputError."""
    if (match := _REPOSITORY.fullmatch(text)) is None:
        raise InputError(f"TARGET: not a repository; write OWNER/REPOSITORY, or its URL; got {quoted(text)}")
    return _repository(match, environment)


def _repository(match: re.Match[str], environment: Mapping[str, str]) -> Repository:
    host = (match["host"] or _server(environment) or "github.com").lower()
    return Repository(host, match["owner"], match["name"], token_for(host, environment))


def _server(environment: Mapping[str, str]) -> str:
    """The host of the workflow's own server, empty outside of a workflow. Raises InputError."""
    url = environment.get(_SERVER, "")
    match = re.fullmatch(rf"{_HOST}/?", url)
    if url and match is None:
        raise InputError(f"{_SERVER}: not the URL of a server; write https://HOST; got {quoted(url)}")
    return match["host"].lower() if match else ""


def token_for(host: str, environment: Mapping[str, str]) -> str:
    """The token for a host, empty if there is none. Raises InputError.

    A URL must not lead a token to another server. So GH_TOKEN goes to github.com and ghe.com alone, and the token of a
    GitHub Enterprise Server to the host that GH_HOST or, in a workflow, GITHUB_SERVER_URL names. GITHUB_TOKEN is that of a
    workflow, so in one it goes to its own server alone. The names of the variables are those of the program gh (cli.github.com,
    gh environment).
    """
    own = _server(environment)
    names: tuple[str, ...] = ()
    if _of_github(host):
        names = ("GH_TOKEN",)
    elif host in (own, environment.get("GH_HOST", "").lower()):
        names = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
    if host == own or (not own and _of_github(host)):
        names = (*names, "GITHUB_TOKEN")
    return next((environment[name] for name in names if environment.get(name)), "")


def _of_github(host: str) -> bool:
    return host == "github.com" or host.endswith(".ghe.com")


@contextmanager
def refusals(repository: Repository) -> Iterator[None]:
    """Raise a SourceError of the block as an InputError with what to do."""
    variable = "GH_TOKEN" if _of_github(repository.host) else "GH_HOST and GH_ENTERPRISE_TOKEN"
    rights = f"set {variable}: a token that may read Actions of the repository"
    missing = f"it does not exist, or is private: correct it, or {rights}"
    fixes = {401: f"{variable} has no valid token; set it again", 403: rights, 404: missing}
    try:
        yield
    except SourceError as error:
        fix = "run the command again then" if error.limit else fixes.get(error.status, "try again later")
        raise InputError(f"TARGET: {error}; {fix}") from None
