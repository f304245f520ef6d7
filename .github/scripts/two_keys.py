"""The second key of a pull request: the rules and the values of the base judge the fleet of the pull request, too.

`two_keys.py record FOLDER`, in a checkout of the pull request, writes a file for each stack: its resources, and what the rules
and values there say of them. `two_keys.py judge FOLDER`, in a checkout of the base, judges the same resources by the rules, the
values and the exceptions of the base, and prints as Markdown each verdict that the pull request does not give. Exit status of
judge: 0 if there is none, else 1. It runs no code of the pull request. Its files are data that a stranger may have written, so a
file that is missing or wrong counts as a difference. What only the rules of the pull request say is in its plan.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from google.protobuf import json_format, struct_pb2

from fleet.facts.day import day_of
from fleet.loading.config import read_fleet
from fleet.loading.home import ROOT
from fleet.loading.stackfile import stacks
from gpu_ci.errors import input_errors
from gpu_ci.offline import gfm, judge, plan as plans, policyconfig, recording, wire
from gpu_ci.offline.compare import identity
from policies.rules import RULES

_FIELDS = (
    *("urn", "type", "name", "parent", "custom", "remote", "read", "id", "provider"),
    *("dependencies", "property_dependencies", "ignore_changes", "protect"),
)
"""What a rule reads of a resource, besides its inputs."""


def record(folder: Path, root: Path = ROOT) -> None:
    """Write `<stack>.json` for each stack that has resources. A plan of the same stack says why one has none."""
    folder.mkdir(parents=True, exist_ok=True)
    for stack in stacks(root):
        try:
            plan = plans.make_plan(stack, root)
        except input_errors():
            continue
        if plan.recording is not None:
            resources = [{name: getattr(each, name) for name in _FIELDS} for each in plan.recording.resources]
            inputs = [wire.raw(each.wire) for each in plan.recording.resources]
            said = [(each.level, *identity(each)) for each in plans.verdicts_of(plan.recording, plan.policies)]
            held = {"resources": resources, "inputs": inputs, "said": said}
            (folder / f"{stack}.json").write_text(json.dumps(held), encoding="utf-8")


def missing(stack: str, path: Path, root: Path) -> list[judge.Verdict]:
    """The verdicts of the base that the file does not have. Raises an error of any class for a file that is not a recording."""
    held, made = json.loads(path.read_bytes()), dict[str, recording.Resource]()
    for row, inputs in zip(held["resources"], held["inputs"], strict=True):
        struct, provider = json_format.ParseDict(inputs, struct_pb2.Struct()), made.get(row["provider"].rpartition("::")[0])
        made[row["urn"]] = recording.Resource(**row, wire=struct, provider_resource=provider)
    settings = policyconfig.policy_settings(stack, root)
    if stack in stacks(root):
        settings = policyconfig.with_owners(settings, read_fleet(stack, root=root))
    policies = policyconfig.configured_for(RULES, settings, stack, root, day_of())
    said = {tuple(each) for each in held["said"]}
    # Its first resource is the stack itself: a file without resources is not a recording.
    program = held["resources"][0]["name"]
    judged = plans.verdicts_of(recording.Recording(program, stack, True, tuple(made.values()), {}), policies)
    return [verdict for verdict in judged if (verdict.level, *identity(verdict)) not in said]


def differences(folder: Path, root: Path = ROOT) -> Iterator[tuple[str, ...]]:
    """A row for each difference, for each stack of the base and of the pull request: stack, policy, verdict, where, why."""
    for stack in sorted({*stacks(root), *(path.stem for path in folder.glob("*.json"))}):
        try:
            for found in missing(stack, folder / f"{stack}.json", root):
                yield stack, found.rule, f"{found.level} {found.kind}", found.urn.rpartition("::")[2], found.message
        except Exception as error:  # noqa: BLE001 - see above, the file may be anything
            yield stack, "", "not judged", "", f"{type(error).__name__}: {error}"


def markdown(rows: list[tuple[str, ...]]) -> str:
    """The differences as a section of a comment."""
    if not rows:
        return "## ✅ The rules and values of the base say the same of this fleet\n"
    cells = ([gfm.text(cell) for cell in row] for row in rows)
    head = f"## ⚠️ An owner must approve: verdicts of the base that this change does not have: {len(rows)}"
    return f"{head}\n\n{gfm.table(('stack', 'policy', 'the base says', 'where', 'why'), cells)}\n"


if __name__ == "__main__":
    if sys.argv[1] == "record":
        record(Path(sys.argv[2]))
    else:
        found = [*differences(Path(sys.argv[2]))]
        sys.stdout.write(markdown(found))
        sys.exit(bool(found))
