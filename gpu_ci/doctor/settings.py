"""The example values that a stack file still has."""

from collections.abc import Iterator

from fleet.facts.groups import grouped
from fleet.facts.tables import beside
from fleet.loading.example_values import example_values
from fleet.loading.stackfile import StackConfig
from fleet.providers.finding import Finding, ok, wrong
from fleet.providers.fleet import NAMESPACE, Fleet
from gpu_ci.doctor import backend

AREA = "settings"
SHOWS: dict[str, str] = beside(__file__, "shows.toml")
"""The command that shows values of your own, by the meaning of the example."""


def findings(config: StackConfig, fleet: Fleet) -> Iterator[Finding]:
    """A finding for each kind of example value that is left, and one for the GitHub App's key."""
    kinds = grouped((example.meaning, example) for example in example_values(config))
    for kind, examples in kinds.items():
        keys = ", ".join(f"{example.key} (line {example.line})" for example in examples)
        write = f"write your own values into {config.path.name}"
        yield wrong(AREA, f"{kind}: {keys}", f"{SHOWS[kind]}, then {write}" if kind in SHOWS else write)
    if not kinds:
        yield ok(AREA, f"{config.path.name} has no example values")
    for key in (f"{NAMESPACE}:{secret}" for secret in dict.fromkeys(fleet.secrets.values())):
        if key in config.secret_keys:
            yield ok(AREA, f"{key} is set, as a secret")
        else:
            yield wrong(AREA, f"{key} is not set", backend.set_secret(config.stack, key))
