"""Posts the plan of a pull request as one comment there, and updates it afterwards. Standard library only.

It runs when the check of a pull request has ended (workflow_run), with a token that may write comments. It runs no code of the
pull request. The check's artifact is untrusted, because a fork can write its own. So the script accepts only two files with fixed
names and limited size, compares the number and the commit with GitHub's data about the run, and removes mentions and links from
the text. Only the hash of a commit becomes a link. Whether the check passed comes from GitHub's data, too.

Reads the runner's GITHUB_API_URL, GITHUB_EVENT_PATH, GITHUB_REPOSITORY and GITHUB_SERVER_URL, GITHUB_TOKEN, and TWO_KEYS: the
file with what the rules of the base say (two_keys.py). Exit status: 0
if the comment is posted or none is needed, 1 if this script or GitHub refuses something. Facts: docs.github.com, REST API
(artifacts, pulls, issue comments); a body has at most 65,536 characters.
"""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import sys
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARTIFACT = "plan-comment"
TEXT, ABOUT = "comment.md", "pull-request.json"
MARKER = "<!-- gpu-ci plan -->"
"""The start of the comment. The script updates only the bot's own comment, because anybody can write these words."""
BOT = "github-actions[bot]"

MOST_BYTES = 1_000_000
"""Limit for the artifact, and for each file in it."""
MOST_CHARACTERS = 60_000
_MOST_ANSWER = 20_000_000
_PAGE = 100
_MOST_PAGES = 50

_GAP = "\u200b"
_LIVE = re.compile(
    rf"@(?!{_GAP})|#(?=\d)|\bGH-(?=\d)|\bwww(?=\.)|:(?=//)|&(?=[#\w])|!(?=\[)|\](?=[(\[:])|<(?!/?(?:details|summary)>|br>)",
    re.IGNORECASE,
)
"""Text that GitHub turns into a mention, a link, an image, an entity or HTML. The three tags are those that fold a plan."""

_OPENS = re.compile(r"<details>|^ *(?:```|~~~)", re.MULTILINE)
"""What must be closed again."""


class RefusedError(Exception):
    """The input is refused. Nothing was written."""


class NothingError(Exception):
    """No comment is needed. This is not an error."""


@dataclass(frozen=True, slots=True)
class Run:
    """The run that created the plan, from GitHub's own data. Nothing in it comes from the artifact."""

    id: int
    head_sha: str
    head_repository: str
    url: str
    conclusion: str


def main() -> int:
    """Post the comment, and print one line about it."""
    repository, token = os.environ["GITHUB_REPOSITORY"], os.environ["GITHUB_TOKEN"]
    event = json.loads(Path(os.environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    server = os.environ.get("GITHUB_SERVER_URL", "https://github.com")
    try:
        keys = Path(os.environ.get("TWO_KEYS", os.devnull))
        text = keys.read_text(encoding="utf-8") if keys.exists() else ""
        line = comment(Api(os.environ["GITHUB_API_URL"], token), repository, run_of(event, f"{server}/{repository}"), text)
    except NothingError as reason:
        line = f"::notice::{_line(reason)}"
    except RefusedError as reason:
        sys.stdout.write(f"::error::{_line(reason)}\n")
        return 1
    sys.stdout.write(f"{line}\n")
    return 0


def run_of(event: Mapping[str, Any], home: str) -> Run:
    """The run of a workflow_run event. `home` is the repository's address."""
    run = event["workflow_run"]
    if run["event"] != "pull_request":
        raise NothingError(f"the run was made for {run['event']}, not for a pull request")
    if not run["head_repository"]:
        raise NothingError("the repository of the pull request is gone")
    url = f"{home}/actions/runs/{run['id']}"
    return Run(run["id"], run["head_sha"], run["head_repository"]["full_name"], url, str(run["conclusion"]))


def comment(api: Api, repository: str, run: Run, keys: str = "") -> str:
    """Create or update the comment of a run's pull request; return a line that says which. `keys` is what the base says."""
    files = unpacked(download(api, repository, run))
    number = pull_request(api, repository, run, about(files[ABOUT], run))
    return posted(api, repository, number, written(decoded(files[TEXT], TEXT), run, repository, keys), MARKER)


def posted(api: Api, repository: str, number: int, body: str, marker: str) -> str:
    """Create or update the bot's comment that starts with `marker`, as `body` does; return a line that says which."""
    there = f"/repos/{repository}/issues"
    for old in comments(api, f"{there}/{number}/comments"):
        if is_ours(old, marker):
            api.ask("PATCH", f"{there}/comments/{int(old['id'])}", {"body": body})
            return f"updated the comment at #{number}"
    api.ask("POST", f"{there}/{number}/comments", {"body": body})
    return f"created a comment at #{number}"


# -- the artifact ------------------------------------------------------------------------------------------------------


def download(api: Api, repository: str, run: Run) -> bytes:
    """The newest artifact of the run with the name `ARTIFACT`, as a zip."""
    listed = api.ask("GET", f"/repos/{repository}/actions/runs/{run.id}/artifacts?name={ARTIFACT}&per_page={_PAGE}")
    usable = [artifact for artifact in listed["artifacts"] if artifact["name"] == ARTIFACT and not artifact["expired"]]
    if not usable:
        raise NothingError("the run has no plan: it was cancelled, or it failed before the plan")
    newest = max(usable, key=lambda artifact: int(artifact["id"]))
    if newest["size_in_bytes"] > MOST_BYTES:
        raise RefusedError(f"the artifact has {newest['size_in_bytes']} bytes, at most {MOST_BYTES} are read")
    return api.download(f"/repos/{repository}/actions/artifacts/{int(newest['id'])}/zip", MOST_BYTES)


def unpacked(archive: bytes) -> dict[str, bytes]:
    """The two files of the artifact, by name; nothing is written to disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as packed:
            entries = packed.infolist()
            if (names := sorted(entry.filename for entry in entries)) != sorted((TEXT, ABOUT)):
                raise RefusedError(f"the artifact must contain only {TEXT} and {ABOUT}; got {len(names)} files: {names[:5]}")
            return {entry.filename: _content(packed, entry) for entry in entries}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise RefusedError(f"the artifact is not a readable zip: {error}") from None


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    # Python unpacks these methods piece by piece. It would unpack others at once, whatever the size of the result.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise RefusedError(f"{entry.filename} is packed in a way that GitHub does not use: {entry.compress_type}")
    # The size that an entry claims is untrusted too, so limit the unpacked bytes as well.
    if entry.file_size > MOST_BYTES:
        raise RefusedError(f"{entry.filename} has {entry.file_size} bytes, at most {MOST_BYTES} are read")
    with archive.open(entry) as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise RefusedError(f"{entry.filename} has more than {MOST_BYTES} bytes")
    return content


def decoded(content: bytes, name: str) -> str:
    """A file's text."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise RefusedError(f"{name} is not UTF-8 text") from None


def about(content: bytes, run: Run) -> int:
    """The number that the artifact claims; its commit must be the run's."""
    try:
        about = json.loads(decoded(content, ABOUT))
    except (ValueError, RecursionError):
        raise RefusedError(f"{ABOUT} is not JSON") from None
    number, sha = (about.get(key) for key in ("number", "headSha")) if isinstance(about, dict) else (None, None)
    if type(number) is not int or not 0 < number < 2**31:
        raise RefusedError(f"{ABOUT} must name a pull request by a positive number")
    if sha != run.head_sha:
        raise RefusedError(f"{ABOUT} names another commit than the run, {run.head_sha}")
    return number


# -- the pull request --------------------------------------------------------------------------------------------------


def pull_request(api: Api, repository: str, run: Run, number: int) -> int:
    """The number, after GitHub confirms that this pull request belongs to the run."""
    pull = api.ask("GET", f"/repos/{repository}/pulls/{number}")
    head = (pull["head"]["repo"] or {}).get("full_name")
    if head != run.head_repository or pull["base"]["repo"]["full_name"] != repository:
        raise RefusedError(f"#{number} does not come from {run.head_repository}, which the run was for")
    if pull["state"] != "open":
        raise NothingError(f"#{number} is {pull['state']}")
    if pull["head"]["sha"] != run.head_sha:
        raise NothingError(f"#{number} is not at {run.head_sha}: a newer commit has its own run")
    return number


def comments(api: Api, path: str) -> Iterator[Mapping[str, Any]]:
    """All comments of a pull request."""
    for page in range(1, _MOST_PAGES + 1):
        entries = api.ask("GET", f"{path}?per_page={_PAGE}&page={page}")
        yield from entries
        if len(entries) < _PAGE:
            return
    raise RefusedError(f"there are more than {_PAGE * _MOST_PAGES} comments, and the bot's comment was not found in them")


def is_ours(entry: Mapping[str, Any], marker: str = MARKER) -> bool:
    """Whether this script created a comment. A user's name cannot contain brackets, so no user can have the bot's name."""
    author = entry.get("user") or {}
    return author.get("login") == BOT and author.get("type") == "Bot" and str(entry.get("body") or "").startswith(marker)


# -- the text ----------------------------------------------------------------------------------------------------------


def written(text: str, run: Run, repository: str, keys: str = "") -> str:
    """The comment: how the run ended, what the base says, a line that names the run and a fork, and the text of the run.

    All but the last comes from GitHub and from the base. No text has mentions and links.
    """
    ended = "✅ **The check passed.**" if run.conclusion == "success" else f"❌ **The check ended: {neutral(run.conclusion)}.**"
    base = f"{cut(neutral(keys), MOST_CHARACTERS // 2)}\n\n" if keys else ""
    tame = neutral(text)
    body = cut(tame, MOST_CHARACTERS - len(base))
    more = "" if body == tame else " It is cut here; the run's summary shows all of it."
    fork = f" **Code of the fork `{run.head_repository}` wrote all text below.**" if run.head_repository != repository else ""
    return f"{MARKER}\n{ended}\n\n{base}Plan of {run.head_sha[:12]}, made by [this run]({run.url}).{fork}{more}\n\n{body}"


def neutral(text: str) -> str:
    """A text that looks the same, without mentions, links, images, foreign HTML and invisible characters."""
    lines = "\n".join(text.splitlines())
    printable = "".join(sign if sign.isprintable() or sign in ("\n", _GAP) else "\ufffd" for sign in lines)
    return _LIVE.sub(rf"\g<0>{_GAP}", printable)


def cut(text: str, most: int = MOST_CHARACTERS) -> str:
    """The text cut to a limit, in whole lines. A cut text ends before its first fold and its first code."""
    if len(text) <= most:
        return text
    head = text[:most]
    head = head[: head.rfind("\n") + 1] or head
    return _OPENS.split(head, maxsplit=1)[0]


# -- GitHub ------------------------------------------------------------------------------------------------------------


_HEADERS = {"Accept": "application/vnd.github+json", "Content-Type": "application/json", "X-GitHub-Api-Version": "2022-11-28"}


class Api:
    """GitHub's REST API. Errors never contain the token."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/")
        self._token = token

    def ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Any:
        """The JSON answer."""
        try:
            return json.loads(self._send(method, path, None if body is None else json.dumps(body).encode(), _MOST_ANSWER))
        except ValueError:
            raise RefusedError(f"{method} {path}: the response is not JSON") from None

    def download(self, path: str, most: int) -> bytes:
        """The bytes at a path."""
        return self._send("GET", path, None, most)

    def _send(self, method: str, path: str, body: bytes | None, most: int) -> bytes:
        request = urllib.request.Request(self._url + path, body, _HEADERS, method=method)  # noqa: S310 - the runner's own API
        # GitHub redirects to another host for an artifact. That host must not get the token.
        request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
                content: bytes = answer.read(most + 1)
        except urllib.error.HTTPError as error:
            raise RefusedError(f"{method} {path}: {error.code} {error.reason}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise RefusedError(f"{method} {path}: {type(error).__name__}") from None
        if len(content) > most:
            raise RefusedError(f"{method} {path}: more than {most} bytes")
        return content


def _line(reason: Exception) -> str:
    """A message as one line of a log that the runner does not read as a workflow command."""
    return "".join(sign if sign.isprintable() else " " for sign in str(reason)).replace("%", "%25")[:500]


if __name__ == "__main__":
    sys.exit(main())
