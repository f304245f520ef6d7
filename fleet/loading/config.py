"""Reads a stack's parsed config into a fleet: first the settings models, then the rules over the whole fleet."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from fleet.facts.errors import FleetError, Problem
from fleet.jobs import stack as stack_jobs
from fleet.prove import namespaces, rules
from fleet.providers.fleet import NAMESPACE, SECRETS, Fleet
from fleet.settings.reading import read

CONFIG_KEYS = tuple(field.alias or name for name, field in Fleet.model_fields.items())
"""The keys of the config namespace that make the model; `SECRETS` are the others."""


def check_keys(keys: Iterable[str], secret: Collection[str]) -> None:
    """Hold the config's keys (without namespace) to those that exist; `secret` are the encrypted ones.

    Raises FleetError for an unknown key, a secret in clear, and a secret inside the model: that would make a whole key secret
    and put its plain value in tags and chart values.
    """
    known = ", ".join(sorted({*CONFIG_KEYS, *SECRETS}))
    problems = []
    for key in keys:
        if key not in (*CONFIG_KEYS, *SECRETS):
            message = f"unknown key; known keys: {known}"
        elif key in CONFIG_KEYS and key in secret:
            message = (
                f"holds a secret, which would end in clear in tags and values; take it out ({SECRETS[0]} is the key for one)"
            )
        elif key in SECRETS and key not in secret:
            message = f"a secret in clear text; set it with: pulumi config set --secret {NAMESPACE}:{key}"
        else:
            continue
        problems.append(Problem((f"{NAMESPACE}:{key}",), message, ""))
    if problems:
        raise FleetError(tuple(problems))


def load(config: Mapping[str, object]) -> Fleet:
    """The fleet from a stack's parsed config. Keys have no namespace: "github", "clusters", "tags".

    Raises FleetError with every problem found. The second phase runs only if the models accept the config.
    """
    fleet = read(Fleet, NAMESPACE, config)
    if found := (*rules.problems(fleet, config), *namespaces.problems(fleet), *stack_jobs.problems(fleet)):
        raise FleetError(found)
    return fleet
