"""GitHub: the App's key, its installation and permissions, and the runner groups.

The App signs in with a JSON Web Token, which reads and creates nothing. An installation token would be able to read the groups,
but to get one is a write. So the groups are read by the token of the person who runs the check.
Sources: GitHub's REST reference (apps; self-hosted runner groups), and "Authenticating ARC to the GitHub API" (permissions).
"""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from fleet.providers.finding import Finding, SourceError, guarded, ok, skipped, wrong
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.github import GitHubScope
from gpu_ci.doctor import backend
from gpu_ci.doctor.sources.github import api_of, ask

AREA = "github"


def findings(stack: str, fleet: Fleet, key_of: Callable[[str], tuple[str, str]], token: str, api: str = "") -> Iterator[Finding]:
    """The findings for each GitHub scope of the fleet.

    `key_of` a secret's config key is the App's private key in PEM form, or an empty text and the reason. `token` is a person's
    token for the runner groups, empty if there is none. `api` replaces the address of the API.
    """
    for name, scope in fleet.scopes.items():
        address, secret = api or api_of(scope.url), fleet.github.secret_of(name)
        key, no_key = key_of(secret)
        at = ".".join((*fleet.github.at(name), "installationId"))
        whose = f" of scope {name}" if len(fleet.scopes) > 1 else ""
        unknown = iter((skipped(AREA, f"the App{whose}, its permissions and its installation: {no_key}"),))
        app = _app(scope, key, address, backend.set_secret(stack, f"{NAMESPACE}:{secret}"), at) if key else unknown
        yield from guarded(app, AREA, f"the App{whose}", (SourceError,))
        sets = (entry for entry in fleet.runner_sets() if fleet.scope_of(entry[0], entry[2]) is scope)
        groups = dict.fromkeys(fleet.group_of(cluster, runner) for cluster, _, runner in sets)
        yield from guarded(_groups(scope, groups, token, address), AREA, f"runner groups{whose}", (SourceError,))


def _parts(scope: GitHubScope) -> tuple[str, str]:
    """(organization, repository) of the runners; the repository is empty for an organization."""
    owner, _, repository = urlsplit(scope.url).path.strip("/").partition("/")
    return owner, repository


def _app(github: GitHubScope, key: str, api: str, set_key: str, at: str) -> Iterator[Finding]:
    owner, repository = _parts(github)
    try:
        import jwt  # noqa: PLC0415 - of the optional extra
    except ImportError:
        yield skipped(AREA, "the App: PyJWT is not installed; make doctor installs it")
        return
    now = int(time.time())
    try:
        token = jwt.encode({"iat": now - 60, "exp": now + 540, "iss": github.app_id}, key, algorithm="RS256")
    except (ValueError, TypeError, jwt.PyJWTError) as error:
        yield wrong(AREA, f"the App's key is not a private key in PEM form ({type(error).__name__})", set_key)
        return
    try:
        app = _get(api, "/app", token)
    except SourceError as error:
        if error.status not in (401, 404):
            raise
        fact = f"GitHub refuses the key for App {github.app_id} ({error.status})"
        yield wrong(AREA, fact, f"set appId to the number on the App's page, or create a key there and run: {set_key}")
        return
    yield ok(AREA, f"the key belongs to App {github.app_id} ({app['name']})")
    try:
        installed = _get(api, f"/app/installations/{github.installation_id}", token)
    except SourceError as error:
        if error.status != 404:
            raise
        installed = {}
    # The account of an enterprise has a slug and no login, and the account may be null.
    account = installed.get("account") or {}
    login = account.get("login") or account.get("slug") or "no account"
    if not installed or login.lower() != owner.lower():
        state = f"belongs to {login}" if installed else "does not exist"
        yield wrong(AREA, f"installation {github.installation_id} of the App {state}", _fix(api, github, token, app, at))
        return
    yield ok(AREA, f"installation {github.installation_id} belongs to {owner}")
    yield _permissions(installed, "administration" if repository else "organization_self_hosted_runners")


def _fix(api: str, github: GitHubScope, token: str, app: dict[str, Any], at: str) -> str:
    """What to write as installationId, or where to install the App."""
    owner, repository = _parts(github)
    try:
        place = f"repos/{owner}/{repository}" if repository else f"orgs/{owner}"
        installation = _get(api, f"/{place}/installation", token)
    except SourceError as error:
        if not error.status:
            raise
        return f"install the App for {owner}: {app['html_url']}"
    return f'set {at} to "{installation["id"]}"'


def _permissions(installed: dict[str, Any], wanted: str) -> Finding:
    """Those of the installation count: an owner accepts what the App asks for later."""
    granted = installed["permissions"].get(wanted, "none")
    if installed.get("suspended_at"):
        return wrong(AREA, f"the installation has been suspended since {installed['suspended_at']}", installed["html_url"])
    if granted != "write":
        fix = f"give the App {wanted}: Read and write, then accept it: {installed['html_url']}"
        return wrong(AREA, f"the installation has {wanted}: {granted}, and runners need write", fix)
    return ok(AREA, f"the installation has {wanted}: write")


def _groups(scope: GitHubScope, groups: Iterable[str], token: str, api: str) -> Iterator[Finding]:
    owner, repository = _parts(scope)
    if repository:
        yield skipped(AREA, "runner groups: a repository has none")
        return
    if not token:
        yield skipped(AREA, 'runner groups: set GH_TOKEN to a token with admin:org: export GH_TOKEN="$(gh auth token)"')
        return
    # An organization rarely has more; GitHub's largest page is 100.
    listed = _get(api, f"/orgs/{owner}/actions/runner-groups?per_page=100", token)["runner_groups"]
    names = {each["name"].lower() for each in listed}
    for group in groups:
        if group.lower() in names:
            yield ok(AREA, f"{owner} has the runner group {group}")
        else:
            fix = f"gh api --method POST orgs/{owner}/actions/runner-groups -f name='{group}' -f visibility=selected"
            yield wrong(AREA, f"{owner} has no runner group {group}", fix)


def _get(api: str, path: str, token: str) -> dict[str, Any]:
    return ask(api, path, token, TypeAdapter(dict[str, Any]))
