"""From a stack's configuration to its fleet: first the settings models, then the rules over the whole fleet."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from fleet.facts.errors import MOST_PROBLEMS, FleetError, Problem, instead, shown
from fleet.jobs import stack as stack_jobs
from fleet.loading import stackfile
from fleet.loading.home import ROOT
from fleet.loading.renames import first_names, renamed
from fleet.loading.stackfile import StackConfig, wrong
from fleet.prove import rules
from fleet.providers.fleet import NAMESPACE, Fleet
from fleet.settings.github import PRIVATE_KEY
from fleet.settings.reading import KEY_IN_FILE, is_private_key, read

CONFIG_KEYS = tuple(field.alias or name for name, field in Fleet.model_fields.items())
"""The config keys of the fleet's model. The other keys are those of secrets."""


def check_keys(config: Mapping[str, object], secret: Collection[str]) -> None:
    """Check the config's keys (without namespace); `secret` are the encrypted keys.

    Raises FleetError for an unknown key, a secret in clear text, and a secret inside the model. Such a secret would make a whole
    key secret, and its plain text would be in tags and chart values.
    """
    secrets = _secrets(config.get("github"))
    all_keys = sorted({*CONFIG_KEYS, *secrets})
    problems = []
    for key in config:
        if key not in all_keys:
            private = is_private_key(key, "")
            message = f"unknown key; {KEY_IN_FILE if private else instead(key, all_keys, 'known keys: ' + ', '.join(all_keys))}"
            if key.startswith(f"{PRIVATE_KEY}-"):
                message += f" (to remove the key of a scope that is gone: pulumi config rm {NAMESPACE}:{key})"
        elif key in CONFIG_KEYS and key in secret:
            fix = f"move it out ({PRIVATE_KEY} is the key for secrets)"
            message = f"contains a secret, which would be in clear text in tags and values; {fix}"
        elif key in secrets and key not in secret:
            message = f"a secret in clear text; {KEY_IN_FILE}"
        else:
            continue
        problems.append(Problem((f"{NAMESPACE}:{key}",), message, ""))
    if problems:
        raise FleetError(tuple(problems))


def _secrets(github: object) -> tuple[str, ...]:
    """The config keys of private keys: of the App of `gpu-ci:github`, and of the Apps of its scopes. No model has read it yet."""
    scopes = github.get("scopes") if isinstance(github, Mapping) else None
    return (PRIVATE_KEY, *(f"{PRIVATE_KEY}-{name}" for name in (scopes if isinstance(scopes, Mapping) else ())))


def load(config: Mapping[str, object]) -> Fleet:
    """The fleet from a stack's parsed config. Keys have no namespace: "github", "clusters", "tags".

    Raises FleetError with every problem found. The second phase runs only if the models accept the config. A file that renames
    something is checked twice: with its own names, then with the first names, which the fleet has.
    """
    fleet = read(Fleet, NAMESPACE, config)
    if problems := (*rules.problems(fleet, config), *stack_jobs.problems(fleet)):
        raise FleetError(problems)
    clusters = config["clusters"]
    if not isinstance(clusters, Mapping) or not (names := dict(renamed(clusters))):
        return fleet
    deployed = load({**config, "clusters": first_names(clusters)})
    deployed.keep_names(names, fleet)
    return deployed


def load_fleet(config: Mapping[str, object], secret: Collection[str], project: str, stack: str) -> Fleet:
    """The fleet from the parsed config of our namespace. Keys have no namespace; `secret` are the encrypted keys.

    Raises FleetError with every problem, including unknown keys, and keys that must or must not be secret.
    """
    check_keys(dict(sorted(config.items())), secret)
    fleet = load({key: config[key] for key in CONFIG_KEYS if config.get(key) is not None})
    rules.require_names(fleet, project, stack)
    return fleet


_GUARD, _EVERY = "pulumi:disable-default-providers", ["*"]
_PULUMI = (_GUARD, "pulumi:autonaming", "pulumi:tags", "pulumi:template")
"""The keys of Pulumi itself (pulumi/pulumi, sdk/go/common: the namespace pulumi)."""


def _unguarded(config: StackConfig) -> Iterator[Problem]:
    """A problem if a package has a default provider, which could create a resource in another account or region."""
    guard = config.objects.get(_GUARD)
    slips = (key for key in config.objects if key.startswith("pulumi:") and key not in _PULUMI)
    slip = next((key for key in slips if instead(key, _PULUMI, "")), "")
    if guard != _EVERY or slip:
        fix = instead(slip, _PULUMI, "") if slip else f'write {_GUARD}: ["*"]'
        message = f"no package may have a default provider, or a resource lands in the wrong account or region; {fix}"
        at = slip or _GUARD
        yield Problem((at,), message, "" if at not in config.objects else shown(config.objects[at]))


def fleet_of(config: StackConfig) -> Fleet:
    """The fleet of a stack file. Raises InputError with a line for each problem and its place in the file."""
    guard = tuple(_unguarded(config))
    try:
        fleet = load_fleet(*config.of(NAMESPACE), config.project, config.stack)
    except FleetError as error:
        # The last line of a long error counts the others.
        long = len(error.problems) > MOST_PROBLEMS
        raise wrong(config, error if long else FleetError((*guard, *error.problems))) from error
    if guard:
        raise wrong(config, FleetError(guard))
    return fleet


def read_stack(stack: str, file: Path | None = None, root: Path = ROOT) -> tuple[StackConfig, Fleet]:
    """Configuration and fleet of a stack of the project in `root`, without Pulumi and without secrets; `file` is another file.

    Raises InputError with a line for each problem.
    """
    config = stackfile.load(stack, root, stack_file=file)
    return config, fleet_of(config)


def read_fleet(stack: str, file: Path | None = None, root: Path = ROOT) -> Fleet:
    """The fleet of a stack. The arguments and errors are those of `read_stack`."""
    return read_stack(stack, file, root)[1]
