"""Runners that are machines: terraform-aws-github-runner, RunsOn, and CNCF's launcher pods.

`machines.toml` has the keys that an audit does not judge, with the sources.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet.facts.hardware import ON_DEMAND, SPOT, find, machine
from fleet.facts.nested import items
from fleet.facts.quantities import quantity
from fleet.facts.tables import beside
from gpu_ci.audit.formats.types import by_prefix, cheapest
from gpu_ci.audit.model import Keys, RunnerClass, Seen, container
from gpu_ci.workflows.job import Job

_TABLE = beside(__file__, "machines.toml")
MULTI = "multi_runner_config"
_RUNS_ON = re.compile(r"runs-on(?:=[^/,]*)?(?:[/,].*)?")
"""A label of a job for RunsOn: its parts are behind slashes or commas, or are labels of their own."""
_HCL = re.compile(rf"(?m)^\s*{MULTI}\s*=")


def read(keys: Keys, seen: Seen) -> bool:
    """Read a configuration of runners."""
    if "runner_config" in keys and "matcherConfig" in keys:
        seen.classes.append(_multi(keys, keys.file.path.stem))
        return True
    if keys.get(MULTI).entries():
        many(keys.get(MULTI), seen)
        return True
    if keys.file.path.name in ("runs-on.yml", "runs-on.yaml") and keys.entries().keys() & {
        "runners",
        "pools",
        "images",
        "_extends",
    }:
        _runs_on_file(keys, seen)
        return True
    return False


def many(keys: Keys, seen: Seen) -> None:
    """The classes of a `multi_runner_config`."""
    seen.classes += [_multi(one, name) for name, one in keys.entries().items() if "runner_config" in one]


def hcl(path: object, text: str) -> str:
    """Why a file of Terraform is not read; empty if it configures no runners."""
    if (found := _HCL.search(text)) is None:
        return ""
    place = f"{path}:{text.count(chr(10), 0, found.end()) + 1}"
    return f"{place}: {MULTI} in HCL is not read; give it as YAML or JSON, or the output of `terraform show -json`"


def finish(seen: Seen) -> None:
    """Give launchers their shapes, and RunsOn's classes the labels by which jobs ask for them."""
    seen.classes[:] = [_launcher(one) for one in seen.classes]
    defined = {one.name: number for number, one in enumerate(seen.classes) if one.by == "runs-on"}
    for job in seen.jobs:
        if asked := _asked(job):
            _serve(seen, defined, job, asked)


# terraform-aws-github-runner


def _multi(keys: Keys, name: str) -> RunnerClass:
    runner, match = keys.get("runner_config"), keys.get("matcherConfig")
    keys.skip(*_TABLE["terraform"]["around"])
    runner.pass_over(*_TABLE["terraform"]["skip"])
    strict = True in (match.flag("exactMatch"), match.flag("bidirectionalLabelMatch"))
    sets = tuple(frozenset(one.texts()) for one in match.items("labelMatchers"))
    spot = (runner.text("instance_target_capacity_type") or SPOT) == SPOT
    failover = runner.texts("enable_on_demand_failover_for_errors")
    types = runner.texts("instance_types")
    if "prioritized" not in runner.text("instance_allocation_strategy"):
        types = cheapest(types, capacity=SPOT if spot else ON_DEMAND)
    idle = [one.count("idleCount") or 0 for one in runner.items("idle_config")]
    warm = [one.count("size") or 0 for one in runner.items("pool_config")]
    sizes = [one.count("volume_size") for one in runner.items("block_device_mappings")]
    most = runner.count("runners_maximum_count")
    priority = match.count("priority")
    zone = runner.text("placement", "availability_zone")
    return RunnerClass(
        at=runner,
        name=name,
        values=runner,
        by="terraform-aws-github-runner",
        labels=frozenset(label for one in sets for label in one),
        label_sets=sets,
        any_label=not strict,
        ignores="ghr-" if match.flag("enableDynamicLabels") else "",
        priority=(999 if priority is None else priority) - (1000 if strict else 0),
        group=runner.text("runner_group_name") or "Default",
        runs_containers=True,
        minimum=max([*idle, *warm], default=0),
        maximum=most if most is not None and most >= 0 else None,
        machines=types,
        capacities=(ON_DEMAND,) if not spot else (SPOT, ON_DEMAND) if failover else (SPOT,),
        ephemeral=runner.flag("enable_ephemeral_runners") is True,
        disk=next((size for size in sizes if size), _TABLE["terraform"]["disk"]),
        region=re.sub(r"(?<=\d)[a-z]$", "", zone),
    )


# RunsOn


def _runs_on_file(keys: Keys, seen: Seen) -> None:
    for name, runner in keys.entries("runners").items():
        runner.skip(*_TABLE["runs-on"]["skip"])
        parts_ = {key: runner.texts(key) for key in _TABLE["runs-on"]["shape"] if key in runner}
        seen.classes.append(_shaped(name, parts_, runner, runner))
    named = {one.name: one for one in seen.classes if one.by == "runs-on"}
    for name, pool in keys.entries("pools").items():
        pool.pass_over(*_TABLE["runs-on"]["pool-skip"])
        hot = [one.count("hot") or 0 for one in pool.items("schedule")]
        made = named.get(pool.text("runner")) or _shaped(pool.text("runner") or name, {}, pool, pool)
        held = (frozenset((f"pool={name}",)),)
        seen.classes.append(
            replace(made, at=pool, values=pool, name=f"pool={name}", label_sets=held, minimum=max(hot, default=0))
        )
    for image in keys.entries("images").values():
        seen.add("RunsOn image", image)
        image.whole()
    keys.skip("admins")
    seen.add("RunsOn", keys)


def _shaped(name: str, asked: Mapping[str, Iterable[str]], at: Keys, values: Keys) -> RunnerClass:
    """A class from the parts of a label, or the keys of a runner, such as {"cpu": ["4"], "family": ["g4dn"]}."""
    shape = {key: [text for one in texts for text in re.split(r"[+]", one)] for key, texts in asked.items()}
    spot = (shape.get("spot") or ["true"])[0].lower() != "false"
    volume = next((match[1] for text in shape.get("volume", []) if (match := re.search(r"(\d+)\s*gb", text.lower()))), "0")
    return RunnerClass(
        at=at,
        name=name,
        values=values,
        by="runs-on",
        # A name is not a label: `finish` adds what jobs write.
        label_sets=(frozenset((f"runner={name}",)),),
        runs_containers=True,
        machines=_types(shape) or (name,),
        capacities=(SPOT, ON_DEMAND) if spot else (ON_DEMAND,),
        disk=int(volume),
    )


def _types(shape: Mapping[str, list[str]]) -> tuple[str, ...]:
    """The types of a shape. A family without a type in the table stays as it is written."""
    found: list[str] = []
    for family in shape.get("family", []):
        exact = "." in family and "*" not in family
        types = ((family,) if exact else by_prefix([family.replace("*", "")])) or (family,)
        found += [name for name in types if find(name) is None or _within(name, shape)]
    return cheapest(found, capacity=SPOT)


def _within(name: str, shape: Mapping[str, list[str]]) -> bool:
    has = {"cpu": machine(name).vcpus, "ram": machine(name).memory_mib / 1024}
    asked = {key: [int(number) for text in shape.get(key, []) if (number := quantity(text))] for key in has}
    return all(not numbers or min(numbers) <= has[key] <= max(numbers) for key, numbers in asked.items())


def _asked(job: Job) -> dict[str, list[str]]:
    """The parts of a job's labels for RunsOn: {"runner": ["gpu"]}. Empty for other jobs."""
    if not any(_RUNS_ON.fullmatch(label) for label in job.runs_on.labels):
        return {}
    pairs = [part.partition("=") for label in job.runs_on.labels for part in re.split("[/,]", label) if "=" in part]
    return {key: [value] for key, _, value in pairs}


def _serve(seen: Seen, defined: dict[str, int], job: Job, asked: Mapping[str, list[str]]) -> None:
    """Let a class have the labels of a job that RunsOn serves; one that says its own machine is a class of its own."""
    labels = frozenset(job.runs_on.labels)
    named = next((f"{prefix}{asked[key][0]}" for key, prefix in (("pool", "pool="), ("runner", "")) if key in asked), "")
    shape = {key: asked[key] for key in _TABLE["runs-on"]["shape"] if key in asked}
    written = "/".join(f"{key}={value}" for key, (value,) in asked.items() if key != "runs-on")
    if named not in defined or shape:
        known = re.match(_TABLE["runs-on"]["built-in"], named) or "fleet" in asked or not named
        if named not in defined and not known and not any(one.get("_extends") for one in seen.of_kind("RunsOn")):
            return
        if written not in defined:
            at = Keys(job.file, job.file.document.value).get("jobs", job.key) if job.file else seen.classes[0].at
            base = seen.classes[defined[named]] if named in defined else None
            made = _shaped(written, shape, at, at)
            of_base = base is not None and "family" not in shape
            defined[written] = len(seen.classes)
            seen.classes.append(replace(made, label_sets=(), machines=base.machines if base and of_base else made.machines))
        named = written
    one = seen.classes[defined[named]]
    seen.classes[defined[named]] = replace(one, label_sets=tuple(dict.fromkeys((*one.label_sets, labels))))


# CNCF


def _launcher(one: RunnerClass) -> RunnerClass:
    """The class of a pod that boots a machine: its type is an argument of the container."""
    words = [str(word) for word in items(container(one.pod), "args")]
    given = dict(word.partition("=")[::2] for word in words)
    if not (shape := given.get(_TABLE["launcher"]["shape"], "")) or one.machines:
        return one
    regions = tuple(dict.fromkeys(given[key] for key in ("--region", "--fallback-region") if key in given))
    spot = given.get("--preemptible") == "true"
    disk = quantity(given.get("--boot-volume-size-gb"))
    return replace(
        one,
        by="launcher",
        machines=tuple(shape.split(",")),
        regions=regions,
        region=next(iter(regions), ""),
        capacities=(SPOT if spot else ON_DEMAND,),
        runs_containers=True,
        disk=int(disk or 0),
    )
