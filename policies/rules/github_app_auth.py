"""github-app-auth: runner sets register as a GitHub App, never with a personal access token.

Judged: the values of chart gha-runner-scale-set, and Kubernetes Secrets with one of ARC's keys (`stringData`, or `data` in
base64). If a set names a Secret that is not in the stack, the rule trusts it, because it cannot read that Secret. No message
shows a value.
"""

from collections.abc import Mapping
from functools import partial

from .kinds import HELM, SECRET
from .read import Data, Faults, Later, keys, label, shown, text, walk
from .releases import releases
from .rule import Args, Rule, facts, said
from .userdata import decoded

TOKEN = "github_token"  # noqa: S105 - the name of a key, not a token
APP_KEYS = ("github_app_id", "github_app_installation_id", "github_app_private_key")
"""Keys that ARC reads (actions-runner-controller 0.14.2, apis/actions.github.com/v1alpha1/appconfig)."""

_APP = f"{', '.join(APP_KEYS[:-1])} and {APP_KEYS[-1]}"

Fields = Mapping[str, tuple[str, Data]]
"""Key to its field and to the object that has its value, which may be unknown."""


def _check(args: Args, later: Later) -> Faults:
    if args.type == SECRET:
        yield from _secret_faults(args.props, later)
    for release in releases(args.type, args.props, later):
        with later:
            if release.is_scale_set:
                yield from _values_faults(f"{release.values_path}.githubConfigSecret", release.values, later)


def _values_faults(path: str, values: Data, later: Later) -> Faults:
    if keys(secret := walk(values, "githubConfigSecret")):
        yield from _faults(dict.fromkeys(keys(secret), (path, secret)), path, later)
    elif not text(secret):
        yield f"{path} is {shown(secret)}: runners register with a GitHub App; write the name of a Secret with {_APP}"


def _secret_faults(props: Data, later: Later) -> Faults:
    fields_by_key: dict[str, tuple[str, Data]] = {}
    unsure = Later()
    # `stringData` overrides `data`, and comes later in the order of names.
    for field in ("data", "stringData"):
        with unsure:
            holder = walk(props, field)
            fields_by_key |= dict.fromkeys(keys(holder), (field, holder))
    later.join(unsure)
    if (fields := {fields_by_key[key][0] for key in (TOKEN, *APP_KEYS) if key in fields_by_key}) and not unsure:
        yield from _faults(fields_by_key, max(fields), later)


def _faults(fields: Fields, path: str, later: Later) -> Faults:
    if _is_set(fields, TOKEN):
        yield said("personal_token", path=f"{fields[TOKEN][0]}.{TOKEN}")
        return
    if missing := [key for key in APP_KEYS if not later.get(partial(_is_set, fields, key), True)]:
        yield f"{path} has no {', '.join(missing)}: a GitHub App needs {_APP}; write all three"


def _is_set(fields: Fields, key: str) -> bool:
    field, holder = fields.get(key, ("", None))
    value = walk(holder, key)
    return bool(decoded(text(value)) if field == "data" else label(value))


RULE = Rule(**facts(__name__), types=HELM | {SECRET}, check=_check)
