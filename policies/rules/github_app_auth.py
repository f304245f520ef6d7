"""github-app-auth: runner sets register as a GitHub App, never with a personal access token.

Judged: the values of chart gha-runner-scale-set, and Kubernetes Secrets with one of ARC's keys (`stringData`, or `data` in
base64). If a set names a Secret that is not in the stack, the rule trusts it, because it cannot read that Secret. No message
shows a value.
"""

from collections.abc import Callable, Mapping

from .kinds import HELM, SECRET
from .read import Data, Faults, Later, keys, label, shown, text, walk
from .releases import releases
from .rule import Args, Rule, facts
from .userdata import decoded

TOKEN = "github_token"  # noqa: S105 - the name of a key, not a token
APP_KEYS = ("github_app_id", "github_app_installation_id", "github_app_private_key")
"""Keys that ARC reads (actions-runner-controller 0.14.2, apis/actions.github.com/v1alpha1/appconfig)."""

_PERSONAL = (
    "a personal access token has more permissions than runners need and ends with its owner's account; use a GitHub App's keys"
)
_APP = f"{', '.join(APP_KEYS[:-1])} and {APP_KEYS[-1]}"

Fields = Mapping[str, tuple[str, Callable[[], str]]]
"""Key to its field and to a function that reads its value, which may be unknown."""


def _check(args: Args, later: Later) -> Faults:
    with later:
        if args.type == SECRET:
            yield from _secret_faults(args.props, later)
    for release in releases(args.type, args.props, later):
        with later:
            if release.is_scale_set:
                values = release.values
                yield from _values_faults(f"{release.values_path}.githubConfigSecret", values, later)


def _values_faults(path: str, values: Data, later: Later) -> Faults:
    with later:
        secret = walk(values, "githubConfigSecret")
        if keys(secret):
            yield from _faults({key: (path, _reader(secret, key)) for key in keys(secret)}, path, later)
        elif not text(secret):
            yield f"{path} is {shown(secret)}: runners register with a GitHub App; write the name of a Secret with {_APP}"


def _secret_faults(props: Data, later: Later) -> Faults:
    given_keys: dict[str, tuple[str, Callable[[], str]]] = {}
    unsure = Later()
    # `stringData` overrides `data`, and comes later in the order of names.
    for field in ("data", "stringData"):
        with unsure:
            holder = walk(props, field)
            given_keys |= {key: (field, _reader(holder, key, encoded=field == "data")) for key in keys(holder)}
    later.join(unsure)
    fields = {given_keys[key][0] for key in (TOKEN, *APP_KEYS) if key in given_keys}
    if fields and not unsure:
        yield from _faults(given_keys, max(fields), later)


def _faults(given_keys: Fields, path: str, later: Later) -> Faults:
    with later:
        if TOKEN in given_keys and given_keys[TOKEN][1]():
            yield f"{given_keys[TOKEN][0]}.{TOKEN} is set: {_PERSONAL}"
            return
        missing = []
        for key in APP_KEYS:
            with later:
                if key not in given_keys or not given_keys[key][1]():
                    missing.append(key)
        if missing:
            yield f"{path} has no {', '.join(missing)}: a GitHub App needs {_APP}; write all three"


def _reader(holder: Data, key: str, *, encoded: bool = False) -> Callable[[], str]:
    def read() -> str:
        value = walk(holder, key)
        return decoded(text(value)) if encoded else label(value)

    return read


RULE = Rule(**facts(__name__), types=HELM | {SECRET}, check=_check)
