"""The text of a new stack file, from the templates beside this module."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from string import Template

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import scalar
from fleet.providers.provider import Wanted
from fleet.settings.runner import GENERIC_LABELS
from gpu_ci.offline.init.answers import Answers, joined, regions
from gpu_ci.offline.init.parts import Found, Group, Jobs, Part, runner_sets, slug, small
from gpu_ci.offline.probe import in_braces

_PROTECT = ("# `pulumi destroy` refuses to delete the control plane: docs/operate.md.", "protect: true")
_ASKED = (
    "# REPLACE: what the cluster has already, and the labels of the nodes for controllers: docs/existing-clusters.md.",
    "installed: []",
    "systemSelector: {}",
)


def text(answers: Answers, found: Found | None, most: int, monthly: int, sets: Sequence[Jobs] = ()) -> str:
    """The stack file. `most` bounds the nodes for tests, and 0 is the least fleet of all. `monthly` is the alarm's budget in USD.

    `found` is what a cluster that exists already shows of itself, `sets` are those of a foreign fleet. Raises InputError for jobs
    that no machine can run.
    """
    here = answers.starter
    in_cloud = bool(regions(answers.provider))
    title = " ".join(filter(None, (answers.gpu, "GPU runners", here.where, f"in {answers.region}" * in_cloud)))
    # A short name: usw2 for us-west-2, sjc for us-sanjose-1, home for own machines, or the context's.
    name = scalar(found.name if here.reads and found is not None else here.cluster_name(answers.region))
    last = "`make render` writes what ArgoCD reads" if here.owns else f"`pulumi up -s {answers.stack}` builds it"
    tags = _filled("tags", stack=answers.stack) if in_cloud else ()
    stack, url, cluster = answers.stack, answers.organization, cluster_lines(answers, found, most, monthly, sets)
    lines = _filled("stack", title=title, stack=stack, last=last, organization=url, tags=tags, name=name, cluster=cluster)
    return "".join(f"{line}\n" for line in lines)


def cluster_lines(answers: Answers, found: Found | None, most: int, monthly: int, sets: Sequence[Jobs] = ()) -> Iterator[str]:
    """The lines of a cluster, below its name. The arguments are those of `text`."""
    return _filled(answers.provider, answers.starter.templates, **_values(answers, found, most, monthly, sets))


def _filled(template: str, folder: Path = Path(__file__).parent / "templates", **values: str | Iterable[str]) -> Iterator[str]:
    """The lines of a template. A value alone on its line is a block: all its lines get the indentation, and none may be left."""
    for line in (folder / f"{template}.yaml").read_text(encoding="utf-8").splitlines():
        if block := re.fullmatch(r"( *)\$([a-z_]+)", line):
            value = values[block[2]]
            yield from (block[1] + each for each in ([value] if isinstance(value, str) and value else value))
        else:
            yield Template(line).substitute(values)


def _values(
    answers: Answers, found: Found | None, most: int, monthly: int, sets: Sequence[Jobs]
) -> dict[str, str | Iterable[str]]:
    """What the templates of clusters name, as far as the provider has it."""
    here = answers.starter
    if found is not None and here.reads:
        # Its GPU nodes are there.
        return {
            "context": scalar(found.context),
            "installed": _installed(found),
            "enablement": found.enablement,
            "pools": _below("pools", found.groups),
            "runners": _sets(answers, [Part(group.name, (group.machine,), "", "", group.count) for group in found.groups]),
        }
    if here.owns:
        return _owned(answers)
    containers, sets = "containers" in answers.jobs, list(sets or runner_sets(answers, most))
    zones = joined(f'"{zone}"' if here.zone_prefix else zone for zone in answers.zones)[1:-1]
    runners = [line for jobs in sets for line in jobs.lines()]
    runners += _machines(answers, zones, most) if containers else []
    version, its_zones = (found.version, found.zones) if found else ("", ())
    return {
        "region": answers.region,
        "zones": zones,
        "monthly": str(monthly),
        "system": () if most else ("system: {nodes: {min: 2, max: 2}}",),
        "protect": _PROTECT if answers.kind == "prod" else (),
        "pools": _below("pools", dict.fromkeys(part for jobs in sets for part in jobs.pools)),
        "runners": runners,
        "context": scalar(found.context) if found else "platform",
        "cluster_name": scalar(found.cluster) if found and found.cluster else "platform",
        "installed": _installed(found) if found else _ASKED,
        "enablement": found.enablement if found else "device-plugin",
        **here.values(Wanted(answers.region, version, its_zones, answers.zones[:2], containers, bool(sets))),
    }


def _below(key: str, parts: Iterable[Part | Group]) -> list[str]:
    """The parts below a key; nothing at all if there is none."""
    lines = [f"  {line}" for part in parts for line in part.lines()]
    return [f"{key}:", *lines] if lines else []


def _machines(answers: Answers, zones: str, most: int) -> Iterator[str]:
    if (shape := small(answers)[0]).bare_metal:
        raise InputError(f"--jobs: containers needs a VM shape, and the cloud has none with {answers.gpu}; choose another --gpu")
    values = {"name": f"vm-{slug(answers.gpu)}", "shape": shape.name, "region": answers.region, "zones": zones}
    values |= {"driver": answers.starter.driver, "most": str(max(min(most, 4), 1))}
    return _filled("vm", answers.starter.templates, **values)


def _owned(answers: Answers) -> dict[str, str | Iterable[str]]:
    """A pool for each machine of the owner, and its runner sets."""
    is_repository = answers.organization.count("/") > 3
    machines = {name: machine.as_machine(name) for name, machine in answers.machines.items()}
    written = {name: machine.model_dump(by_alias=True, exclude_unset=True) for name, machine in answers.machines.items()}
    return {
        "stack": answers.stack,
        "repository": answers.organization if is_repository else f"{answers.organization}/gpu-ci",
        "machines": (f"{name}: {in_braces(entry)}" for name, entry in written.items()),
        "runners": _sets(answers, [Part(name, (machine,), "", "", 1) for name, machine in machines.items()]),
        **answers.starter.values(Wanted(answers.region, machines=machines)),
    }


def _sets(answers: Answers, parts: Iterable[Part]) -> list[str]:
    """A runner set for each pool of machines that are there, and for its nodes with several GPUs."""
    runners: list[str] = []
    for part in parts:
        labels, gpus = () if runners else GENERIC_LABELS, part.machines[0].gpus
        if "tests" in answers.jobs:
            about = "The default set: any subset of its labels selects it." if labels else "Has no labels: jobs name it."
            runners += Jobs(f"gpu-{part.name}", (part,), 1, about, labels).lines()
        if "training" in answers.jobs and gpus > 1:
            runners += Jobs(f"gpu-{part.name}-training", (part,), gpus, f"Each job gets the {gpus} GPUs of one node.").lines()
    if not runners:
        raise InputError("--jobs: training needs a node with several GPUs, and the cluster has none; write --jobs tests")
    return runners


def _installed(found: Found) -> Iterator[str]:
    yield "# What the cluster has already. The program installs the rest."
    yield f"installed: {joined(found.installed)}"
    if found.controller is not None:
        yield "# Its version must be that of the runner sets: docs/existing-clusters.md."
        namespace, account = map(scalar, found.controller)
        yield f"controller: {{namespace: {namespace}, serviceAccount: {account}}}"
