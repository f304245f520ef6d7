"""The answers that `init` needs, the values that each may have, and how a text becomes one."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from fleet.facts import hardware
from fleet.facts.errors import FleetError, InputError, instead, quoted, reachable
from fleet.facts.hardware import ON_DEMAND, Machine
from fleet.facts.record import Record
from fleet.facts.tables import beside, rows
from fleet.facts.yaml_text import read_yaml
from fleet.facts.zones import zones_of
from fleet.providers.provider import Starter
from fleet.providers.registry import PROVIDERS as REGISTRY
from fleet.settings.budget import MONTH
from fleet.settings.github import ScopeUrl
from fleet.settings.machines import OwnMachine, WithMachines
from fleet.settings.reading import read

STARTERS = {answer: row.starter for row in REGISTRY.values() if row.starter is not None for answer in row.starter.answers}
"""What the provider of an answer adds to all answers."""
_CLOUDS = {answer: row.cloud for row in REGISTRY.values() if row.starter is not None for answer in row.starter.answers}
PROVIDERS = tuple(sorted(STARTERS, key=lambda answer: answer.startswith("existing")))
"""The answers for the provider: those for new clusters first."""
JOBS: Mapping[str, str] = beside(__file__, "jobs.toml")
"""What each kind of job means for its machines."""


class Answers(Record):
    """What a stack is made of. `budget` is the most that its worst hour may cost in USD; None if there is no such limit.

    `machines` are those of the owner by name, only for Talos.
    """

    stack: str
    provider: str
    region: str
    gpu: str
    organization: str
    jobs: tuple[str, ...]
    kind: str
    budget: float | None = None
    machines: Mapping[str, OwnMachine] = field(default_factory=dict)

    @property
    def starter(self) -> Starter:
        """What the provider adds to the answers."""
        return STARTERS[self.provider]

    @property
    def zones(self) -> tuple[str, ...]:
        """Zones of the nodes. On OCI with an example of a tenancy's prefix."""
        return tuple(self.starter.zone_prefix + zone for zone in zones_of(self.region))


def one_of(flag: str, value: str, known: Collection[str]) -> str:
    """The known value that a text names; upper case, spaces and hyphens do not matter. Raises InputError."""
    if _folded(value) not in (folded := {_folded(choice): choice for choice in known}):
        hint = f"{instead(value, known, '')} ".lstrip()
        raise InputError(f"{flag}: not known; got {quoted(value)}; {hint}give one of: {', '.join(known)}")
    return folded[_folded(value)]


def _folded(text: str) -> str:
    return re.sub(r"[\s-]", "", text).lower()


def stack_name(text: str) -> str:
    """The name of a new stack. Raises InputError. Pulumi allows more, but cluster names of the clouds contain this name."""
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,28}[a-z0-9])?", text):
        why = "STACK: a new stack's name has 1 to 30 lower-case letters, digits and hyphens, a letter first"
        raise InputError(f"{why}; got {quoted(text)}")
    return text


def organization(text: str) -> str:
    """The URL of an organization or repository; a name alone is one of github.com. Raises InputError."""
    url = text.strip().rstrip("/")
    url = url if "://" in url else f"https://github.com/{url}"
    try:
        return str(TypeAdapter(ScopeUrl).validate_python(url))
    except ValidationError as error:
        raise InputError(f"--organization: {error.errors()[0]['msg']}; got {quoted(text)}") from None


def budget(text: str) -> float:
    """USD per hour from 5/hour or 3000/month. A month has 730 hours. Raises InputError."""
    match = re.fullmatch(r"([0-9]{1,7}(?:\.[0-9]{1,2})?)/(hour|month)", text.replace(" ", ""))
    usd = float(match[1]) / (MONTH if match[2] == "month" else 1) if match else 0
    if not usd:
        raise InputError(f"--budget: a budget is USD an hour or a month, such as 5/hour or 3000/month; got {quoted(text)}")
    return usd


def jobs(text: str, provider: str) -> tuple[str, ...]:
    """The kinds of jobs from a list with commas. Raises InputError for an unknown kind, and for one that the provider lacks."""
    kinds = jobs_of(provider)
    if not (words := [word for word in text.split(",") if word.strip()]):
        raise InputError(f"--jobs: name at least one of: {', '.join(kinds)}")
    return tuple(dict.fromkeys(one_of(f"--jobs of provider {provider}", word, kinds) for word in words))


def jobs_of(provider: str) -> tuple[str, ...]:
    """The kinds of jobs that a provider can run. VMs of single jobs are in new clusters alone."""
    here = STARTERS[provider]
    return tuple(job for job in here.jobs if job != "containers" or provider == here.answers[0])


def machines(files: Iterable[str]) -> dict[str, OwnMachine]:
    """The machines that files as `probe` prints them describe. Raises InputError."""
    machines_by_name: dict[str, OwnMachine] = {}
    for name in files:
        try:
            with reachable(f"--machines: {name} cannot be read", "name a file of probe"):
                text = read_yaml(Path(name)).value
            described = read(WithMachines, name, text if isinstance(text, Mapping) else {}).machines
        except FleetError as error:
            raise InputError(f"--machines: {error.problems[0]}") from None
        if not described or described.keys() & machines_by_name.keys():
            wrong = "has no machine" if not described else f"has {', '.join(described.keys() & machines_by_name.keys())} again"
            raise InputError(f"--machines: {name} {wrong}; write there what gpu-ci probe --name … prints")
        machines_by_name |= described
    return machines_by_name


def regions(provider: str) -> tuple[str, ...]:
    """The regions whose zones and prices this project knows, the default first."""
    return tuple(row["region"] for row in rows("zones.csv") if row["cloud"] == _CLOUDS[provider])


def gpus(provider: str, region: str) -> tuple[str, ...]:
    """NVIDIA GPUs whose machines have a price in the region: the cheapest first, those without support in new drivers last."""
    models = [machine.gpu for machine in offered(provider, region) if machine.gpu is not None]
    return tuple(dict.fromkeys(each.name for each in sorted(models, key=lambda each: each.max_driver_branch is not None)))


def offered(provider: str, region: str, gpu: str = "") -> tuple[Machine, ...]:
    """Machines of the provider with NVIDIA GPUs and a price on demand in the region, the cheapest first."""
    machines = (each for each in hardware.machines(_CLOUDS[provider]) if each.arch == "x86_64")
    fitting = [each for each in machines if each.gpu and each.gpu.vendor == "nvidia" and gpu in ("", each.gpu.name)]
    prices = ((hardware.price(each.name, region, ON_DEMAND), each) for each in fitting)
    priced = [(price.usd_per_hour, machine) for price, machine in prices if price is not None]
    return tuple(machine for _, machine in sorted(priced, key=lambda row: row[0]))


def joined(words: Iterable[str]) -> str:
    """Words as a YAML list in one line."""
    return f"[{', '.join(words)}]"
