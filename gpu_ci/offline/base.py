"""The base of a pull request: the stack file of another branch, planned by the current code.

What a pull request writes that has ended already or cannot work fails its plan, as any other violation.
"""

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from fleet.facts.day import day_of
from fleet.facts.errors import InputError
from fleet.facts.limits import read_bytes
from fleet.facts.places import leaves
from fleet.facts.remark import CANNOT_WORK, Remark
from fleet.facts.tables import toml
from fleet.loading.files import from_here
from fleet.render.arc import SETS
from gpu_ci.errors import input_errors
from gpu_ci.offline.changes import DATA, Change
from gpu_ci.offline.compare import Comparison, identity
from gpu_ci.offline.judge import ENDED, Verdict, configure, judge
from gpu_ci.offline.naming import named
from gpu_ci.offline.plan import Plan, judged, make_plan
from gpu_ci.offline.policyconfig import policy_settings
from gpu_ci.offline.progress import Stages, quiet
from policies.rules import RULES
from policies.rules.groups import MACHINES
from policies.rules.no_silent_eviction import RULE as EVICTION, of_changes

_PINS = ("reference", "version", "release", "ami-release", "base", "runtime", "devel")
"""Fields of a row of versions.toml that pin something."""


class Base(NamedTuple):
    """The text of the base's stack file and its plan; if there is no plan, `reason` says why on one line.

    `judged` says why the plan was not judged by the base's own policy config, "" if it was. `arc` is the version of Actions
    Runner Controller that the base pins, "" if it is not known.
    """

    text: str
    plan: Plan | None
    reason: str = ""
    judged: str = ""
    arc: str = ""

    def compared(self, plan: Plan) -> Comparison | None:
        """What changes from the base to a plan; None if the base has no plan."""
        return None if self.plan is None else Comparison(self.plan, plan, self.arc)


def read_base(
    stack: str, root: Path, folder: Path, stack_file: Path | None, progress: Stages = quiet, as_of: date | None = None
) -> Base:
    """Plan the stack with stack file and policy config of the checkout in `folder`, and the rest of the project in `root`.

    If `root` reads `stack_file` instead of the stack's own file, the base reads the same path in `folder`, or else the stack's
    own file there. Raises InputError if `folder` is not a checkout of a project. A stack file that is missing there, or that the
    current code cannot plan, is not an error: `Base.reason` says so.
    """
    if not any(folder.glob("Pulumi*.yaml")):
        has = "which has no Pulumi.yaml" if folder.is_dir() else "which is not a folder"
        rule = f"--base: must be a folder with a checkout of the base branch; got {str(folder)!r}, {has}"
        raise InputError(f"{rule}; correct the path")
    if not (path := _stack_file(stack, root, folder, stack_file)).is_file():
        return Base("", None, f"the base has no {path.name}")
    try:
        text = read_bytes(path).decode(errors="replace")
    except OSError as error:
        return Base("", None, f"the base's {path.name} cannot be read ({error.strerror})")
    policies_of, judged = _policies(stack, root, folder, as_of or day_of())
    try:
        plan = make_plan(stack, root, path, lambda stage: progress(f"base: {stage}"), as_of, policies_of)
        return Base(text, plan, judged=judged, arc=_arc(folder))
    except input_errors() as error:
        # The name of the stack file in place of the folder of the base, which differs in each run.
        reason = _first_line(error).replace(f"{from_here(path)}:", f"{path.name}:", 1)
        return Base(text, None, f"the base's {path.name} does not load under this code: {reason}")
    except Exception as error:  # noqa: BLE001 - the change may fix exactly this
        return Base(text, None, f"this code fails on the base's {path.name}: {type(error).__name__}: {_first_line(error)}")


def _pinned(folder: Path) -> Mapping[str, Any]:
    """Our versions in a checkout; none if it has no file of them. Raises OSError and TOMLDecodeError."""
    path = folder / "fleet/facts/data/versions.toml"
    return tomllib.loads(read_bytes(path).decode()) if path.is_file() else {}


def _arc(folder: Path) -> str:
    """The version of ARC that a checkout pins, or an empty text if it cannot be read there."""
    try:
        version = _pinned(folder)["charts"][SETS]["version"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return version if isinstance(version, str) else ""


def _policies(stack: str, root: Path, folder: Path, day: date) -> tuple[Path, str]:
    """The checkout whose policy config judges the base, and the reason if it is not the base's own."""
    if not (folder / "policies").is_dir():
        return root, "the base has no policies"
    try:
        configure(RULES, policy_settings(stack, folder), day)
    except InputError as error:
        return root, f"the base's policy config does not fit this code: {_first_line(error)}"
    return folder, ""


def _stack_file(stack: str, root: Path, folder: Path, stack_file: Path | None) -> Path:
    own = folder / f"Pulumi.{stack}.yaml"
    if stack_file is None or not stack_file.resolve().is_relative_to(root):
        return own
    return path if (path := folder / stack_file.resolve().relative_to(root)).is_file() else own


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def touched(plan: Plan, before: Plan | None, base: Path) -> Plan:
    """The plan, which fails for what the change writes and `pulumi up` would refuse.

    That is an ended version, in the stack's files or in our versions; a part that cannot work, if its remark is new or its
    settings change; and what Pulumi refuses because of `protect`, or the cloud. `before` is the plan of the base, whose checkout
    is in the folder `base`; None if the base has no plan: then the change writes every part, and versions are not compared.
    The policy `no-silent-eviction` checks what the change does. Policies that add up groups count those that leave, too.
    Raises OSError and TOMLDecodeError as the base's versions.toml does.
    """
    if before is None:
        return replace(plan, written=plan.impossible)
    comparison = Comparison(before, plan)
    if comparison.both is not None:
        adding = [configured for configured in plan.policies if configured.policy.types >= MACHINES]
        rules = {configured.policy.id for configured in adding}
        others = (verdict for verdict in plan.verdicts if verdict.rule not in rules)
        plan = replace(plan, verdicts=(*others, *judged(plan.config, comparison.both, adding)))
    refused = (change for change in comparison.changes if change.is_refused)
    refusals = tuple(Remark(change.what, CANNOT_WORK, parts=(change.edit.name,)) for change in refused)
    changed = {setting.name for setting in comparison.settings} if plan.impossible else set()
    written_parts = tuple(one for one in plan.impossible if one not in before.impossible or not changed.isdisjoint(one.parts))
    old = set(map(identity, before.verdicts))
    theirs = set(_values(_pinned(base)))
    written = [value for value in _values(toml("versions.toml")) if theirs and value not in theirs]
    evictions = _evictions(plan, comparison.changes) if comparison.judged else ()
    verdicts = (
        replace(verdict, kind="violation")
        if verdict.kind == ENDED and (identity(verdict) not in old or any(value in verdict.message for value in written))
        else verdict
        for verdict in plan.verdicts
        if not (comparison.judged and verdict.rule == EVICTION.id)
    )
    return replace(plan, verdicts=(*verdicts, *evictions), written=(*refusals, *written_parts), refusals=refusals)


def _evictions(plan: Plan, changes: Iterable[Change]) -> tuple[Verdict, ...]:
    """What `no-silent-eviction` says of the changes."""
    ours = (configured for configured in plan.policies if configured.policy.id == EVICTION.id)
    harm = [(change.what, urn) for change in changes if change.ends_jobs or change.effect == DATA for urn in change.urns]
    rules = [configured._replace(policy=of_changes(harm)) for configured in ours]
    return named(plan.config, judge(plan.recording, rules)) if plan.recording is not None else ()


def _values(row: Any) -> Iterator[str]:
    """The pinned values of a row and of the rows below it. A message has no room for a digest, so references have none."""
    return (value.partition("@")[0] for path, value in leaves(row) if path[-1] in _PINS)
