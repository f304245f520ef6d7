"""github-app-auth: runner sets register as a GitHub App, never with a person's token.

Judged: the values of chart gha-runner-scale-set, and Secrets of Kubernetes that hold a key of ARC's (`stringData`, or `data` in
base64). A set that names a Secret which the stack does not make is believed: nobody here sees what it holds. No message has a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .kinds import HELM, SECRET
from .read import Later, keys, label, shown, text, walk
from .releases import releases
from .rule import Args, Rule, Section, Severity
from .userdata import decoded

TOKEN = "github_token"  # noqa: S105 - the name of a key, not a token
APP_KEYS = ("github_app_id", "github_app_installation_id", "github_app_private_key")
"""Keys that ARC reads (actions-runner-controller 0.14.2, apis/actions.github.com/v1alpha1/appconfig)."""

_PERSONAL = "the token of a person, who has more rights than runners need, and leaves; give the keys of a GitHub App"
_APP = f"{', '.join(APP_KEYS[:-1])} and {APP_KEYS[-1]}"

Held = Mapping[str, tuple[str, Callable[[], str]]]
"""Key to where it stands and to what reads its value, which may be unknown."""


def _check(args: Args, later: Later) -> Iterator[str]:
    with later:
        if args.resource_type == SECRET:
            yield from _secret_faults(args.props, later)
    for release in releases(args.resource_type, args.props, later):
        with later:
            if release.is_scale_set:
                values = release.values
                yield from _values_faults(f"{release.values_path}.githubConfigSecret", values, later)


def _values_faults(path: str, values: Any, later: Later) -> Iterator[str]:
    with later:
        given = walk(values, "githubConfigSecret")
        if keys(given):
            yield from _faults({key: (path, _reader(given, key)) for key in keys(given)}, path, later)
        elif not text(given):
            yield f"{path} is {shown(given)}: runners register with a GitHub App; write the name of a Secret with {_APP}"


def _secret_faults(props: Any, later: Later) -> Iterator[str]:
    held: dict[str, tuple[str, Callable[[], str]]] = {}
    unsure = Later()
    # What stringData says goes over data; its name is the greater one, too.
    for field in ("data", "stringData"):
        with unsure:
            holder = walk(props, field)
            held |= {key: (field, _reader(holder, key, encoded=field == "data")) for key in keys(holder)}
    later.join(unsure)
    fields = {held[key][0] for key in (TOKEN, *APP_KEYS) if key in held}
    if fields and not unsure:
        yield from _faults(held, max(fields), later)


def _faults(held: Held, path: str, later: Later) -> Iterator[str]:
    with later:
        if TOKEN in held and held[TOKEN][1]():
            yield f"{held[TOKEN][0]}.{TOKEN} is set: {_PERSONAL}"
            return
        missing = []
        for key in APP_KEYS:
            with later:
                if key not in held or not held[key][1]():
                    missing.append(key)
        if missing:
            yield f"{path} has no {', '.join(missing)}: a GitHub App needs {_APP}; write all three"


def _reader(holder: Any, key: str, *, encoded: bool = False) -> Callable[[], str]:
    def read() -> str:
        value = walk(holder, key)
        return decoded(text(value)) if encoded else label(value)

    return read


RULE = Rule(
    id="github-app-auth",
    order=(Section.SUPPLY_CHAIN, 60),
    title="Runner sets register as a GitHub App",
    severity=Severity.HIGH,
    types=HELM | {SECRET},
    levels={"dev": "mandatory", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    rationale="A personal token registers runners, and does all else that its person may, for whoever reads it.",
    source="https://docs.github.com/en/actions/how-tos/manage-runners/use-actions-runner-controller/authenticate-to-the-api",
    fix=f"Make a Secret with {_APP}, and write its name into githubConfigSecret.",
    check=_check,
)
