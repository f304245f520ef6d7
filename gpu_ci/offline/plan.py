"""A plan: the fleet of one stack, proved without Pulumi's engine and without a cloud."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from fleet.facts.day import day_of, parsed as day_of_text
from fleet.facts.errors import InputError
from fleet.facts.lifecycle import Life, Use
from fleet.facts.pricing import Line, Money, average, total
from fleet.facts.remark import CANNOT_WORK, Remark, below, todo
from fleet.jobs import stack as stack_jobs
from fleet.loading import deployments, example_values, stackfile
from fleet.loading.config import read_stack
from fleet.loading.home import program_of
from fleet.loading.stackfile import StackConfig
from fleet.prove import bill as billing, image_fit, placement as placing, remarks, room, spot, trust, works
from fleet.prove.ends import End, ends, in_order
from fleet.prove.placement import Placement
from fleet.providers.fleet import NAMESPACE, Fleet
from gpu_ci.offline.judge import ENDED, Configured, Remediation, Remedies, Verdict, by_time, judge
from gpu_ci.offline.manifests.urns import means_manifests
from gpu_ci.offline.naming import named, require_accepted
from gpu_ci.offline.policyconfig import configured_for, policy_settings, policy_values, require_current, with_owners
from gpu_ci.offline.progress import Stages, quiet
from gpu_ci.offline.recording import Answer, Cloud, Recording, Resource, joined
from policies.rules import RULES
from policies.rules.exceptions import PROPERTY as EXCEPTIONS
from policies.rules.no_silent_eviction import RULE as EVICTION
from policies.rules.pods import has_pods
from policies.rules.rule import Level

CLOUD: Mapping[str, Answer] = {
    "oci:ContainerEngine/getClusterKubeConfig:getClusterKubeConfig": lambda _: {"content": "{}"},
    "oci:Core/getServices:getServices": lambda _: {"services": [{"id": "services", "name": "All", "cidrBlock": "all-services"}]},
    "oci:ObjectStorage/getNamespace:getNamespace": lambda _: {},
}
"""What OCI answers to the program of an update without a cloud: the address of no service is real."""


class Outcome(NamedTuple):
    """The result of one policy: how many resources it judged, and how many verdicts of each kind it gave."""

    rule: str
    title: str
    severity: str
    level: str
    judged: int
    broken: int
    undeterminable: int
    excepted: int
    remediated: int
    ended: int = 0

    @property
    def state(self) -> str:
        """holds, broken, ended (broken because of the day), undeterminable or disabled."""
        counts = {"broken": self.broken, ENDED: self.ended, "undeterminable": self.undeterminable}
        worst = next((state for state, count in counts.items() if count), "holds")
        return "disabled" if self.level == "disabled" else worst


@dataclass(frozen=True)
class Plan:
    """All results for a stack before anything is bought. `recording` is None if the placement failed."""

    config: StackConfig
    fleet: Fleet
    placements: tuple[Placement, ...]
    overbooked: tuple[str, ...]
    bill: tuple[Line, ...]
    policies: tuple[Configured, ...]
    """Each policy with its level and its config, in the pack's order."""
    policy_config: str
    """Which files that config comes from, for people."""
    as_of: date
    """The day whose prices, exceptions and support dates are used."""
    recording: Recording | None = None
    """The resources that `pulumi up` registers and those in Git, together."""
    verdicts: tuple[Verdict, ...] = ()
    remediations: tuple[Remediation, ...] = ()
    """The changes that policies made before the resources were judged, in order."""
    reach: tuple[str, ...] = ()
    """Remarks on how deployments reach the stack's endpoints."""
    refused: tuple[room.Refusal, ...] = ()
    """Runner sets and workloads that do not fit on the nodes of their pool, and jobs that fit in no pool."""
    written: tuple[Remark, ...] = ()
    """Remarks on parts that cannot work and that the change writes: they fail the plan. See `offline.base`."""
    refusals: tuple[Remark, ...] = ()
    """Remarks on changes from the base that `pulumi up` refuses. See `offline.base`."""
    judged: bool = True
    """Whether the extra `pulumi` is installed. Without it no resource is recorded, and no policy judges one."""
    git: Recording | None = None
    """The part of the recording that ArgoCD reads in Git; None if ArgoCD installs nothing in any cluster."""

    @property
    def levels(self) -> Mapping[str, str]:
        """Level of each policy, by its id."""
        return {configured.policy.id: configured.level.value for configured in self.policies}

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that would be registered, without the stack itself."""
        return self.recording.resources[1:] if self.recording else ()

    @cached_property
    def types(self) -> Mapping[str, bool]:
        """Each type of these resources, without components: whether a policy judges more of it than that it is known."""
        rules = [configured.policy for configured in self.policies if configured.level is not Level.DISABLED]
        tokens = sorted({resource.type for resource in self.resources if resource.custom and not resource.read})
        return {token: any(rule.judges(token) and not rule.partly for rule in rules) for token in tokens}

    @property
    def weeks(self) -> tuple[billing.Week, ...]:
        """What each window of a schedule costs in the week that starts on the plan's day."""
        return tuple(billing.weeks(self.fleet, self.as_of))

    @property
    def cost(self) -> tuple[Money, Money]:
        """(idle, worst) USD an hour."""
        return total(self.bill)

    @property
    def average(self) -> Money:
        """USD an hour without jobs, on the average of a week with all schedules."""
        return average(self.bill)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What the reader should know of clusters, runner sets and pools, although no setting is wrong."""
        # The pools of a runner set often get the same remark about the same machine type.
        return tuple(text if isinstance(text, Remark) else Remark(text) for text in dict.fromkeys(self._remarks()))

    @cached_property
    def impossible(self) -> tuple[Remark, ...]:
        """Remarks on parts that cannot work on the plan's day: `pulumi up` is refused."""
        return tuple(remark for remark in self.remarks if remark.kind == CANNOT_WORK)

    def _remarks(self) -> Iterator[str]:
        yield from (*example_values.remarks(self.config), *self.refusals, *works.remarks(self.fleet, self.as_of), *self.reach)
        yield from billing.remarks(self.fleet, self.as_of)
        yield from _each(self.fleet, remarks.quotas, remarks.capacity, spot.remarks)
        groups = "is in several runner groups: a runs-on must also name the group"
        yield from (f"runner set {name} {groups}" for name in self.fleet.shared_names)
        for placement in self.placements:
            yield from (below(f"{placement.cluster}/{placement.pods}", remark) for remark in placement.remarks)
        yield from image_fit.remarks(self.fleet, self.as_of)
        of_sets = (remarks.labels, remarks.scopes, trust.remarks, remarks.renames, remarks.reruns, remarks.fallback)
        yield from _each(self.fleet, *of_sets)
        yield from self.overbooked
        yield from _each(self.fleet, remarks.full_pools, remarks.own_pods, remarks.kept_jobs)
        yield from remarks.fragmented(self.placements)
        yield from _each(self.fleet, room.remarks, remarks.monitoring, stack_jobs.remarks)
        yield from (*self._idle_exceptions(), *self._spot_only())
        if self.recording is not None:
            messages = (line for line in self.recording.messages if not line.text.startswith(works.REFUSED))
            yield from (f"{message.severity}: {message.text}" for message in messages)

    def _idle_exceptions(self) -> Iterator[str]:
        """Exceptions that hide nothing, so they can be removed."""
        if self.recording is None:
            return
        unsure = {verdict.rule for verdict in self.verdicts if verdict.kind == "undeterminable"}
        for configured in self.policies:
            name = configured.policy.id
            if name == EVICTION.id and name in unsure:  # only a plan with a base knows what its exceptions hide
                continue
            messages = " ".join(verdict.message for verdict in self.verdicts if verdict.rule == name)
            for index, entry in enumerate(configured.config[EXCEPTIONS]):
                idle = f"{EXCEPTIONS}[{index}]" not in messages and not means_manifests(entry["urn"])
                if idle and configured.level is not Level.DISABLED:
                    yield todo(f"policy {name}: {EXCEPTIONS}[{index}] ({entry['urn']}) hides nothing; remove it")

    def _spot_only(self) -> Iterator[str]:
        """The spot pools that a person lets run without a fallback."""
        pools = {name for _, cluster in self.fleet.clusters_by_name() for name in cluster.pools}
        for configured in self.policies:
            for item in configured.config.get("spotOnly", ()):
                where = f"policy {configured.policy.id}: spotOnly: pool {item['pool']}"
                if item["pool"] in pools:
                    yield f"{where} has no fallback, so its jobs may wait while spot has no capacity: {item['why']}"
                else:
                    yield todo(f"{where} is not a pool of this stack; remove it")

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """Everything that the stack has pinned, and the exceptions of its policies, the first end first."""
        renewal = "fix what it excuses, or give it a new day and reason in policies/stacks.toml"
        effects = {"mandatory": "then `pulumi up` is refused", "advisory": "then `pulumi up` warns"}
        found = list(ends(self.fleet, self.as_of))
        for configured in (each for each in self.policies if each.level is not Level.DISABLED):
            for entry in configured.config[EXCEPTIONS]:
                if (day := day_of_text(entry["expires"])) is not None:
                    what = f"exception {entry['urn']} of policy {configured.policy.id}"
                    found.append(End(Use(Life(what, day, effects[configured.reported]), renewal), ("policies",)))
        return in_order(found)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Config keys whose values are not read offline, because the stack file has them encrypted or not at all."""
        return tuple(sorted(self.config.secret_keys | {f"{NAMESPACE}:{key}" for key in self.fleet.secrets.values()}))

    def outcomes(self) -> tuple[Outcome, ...]:
        """The result of each policy, in the pack's order."""
        return tuple(outcomes_of(self.policies, self.resources, self.verdicts, self.remediations))

    def blocked(self, strict: bool = False) -> tuple[Verdict, ...]:
        """The verdicts that fail the plan: see `blocked_of`."""
        return blocked_of(self.verdicts, strict)

    def late(self) -> tuple[Verdict, ...]:
        """The verdicts for which `pulumi up` is refused because a day has passed."""
        return tuple(verdict for verdict in self.verdicts if verdict.kind == ENDED and verdict.level == "mandatory")

    def passes(self, strict: bool = False) -> bool:
        """Whether everything can be placed and no verdict fails the plan."""
        return not (self.refused or self.written or self.blocked(strict))


def _each(fleet: Fleet, *kinds: Callable[[Fleet], Iterable[str]]) -> Iterator[str]:
    """The remarks of these kinds, in their order."""
    return chain.from_iterable(kind(fleet) for kind in kinds)


def outcomes_of(
    policies: Iterable[Configured], resources: Iterable[Resource], verdicts: Sequence[Verdict], done: Iterable[Remediation] = ()
) -> Iterator[Outcome]:
    """The result of each of the policies for the judged resources, in their order."""
    types = Counter((resource.type, has_pods(resource.type, resource.inputs)) for resource in resources if not resource.read)
    kinds = Counter((verdict.rule, verdict.kind) for verdict in verdicts)
    changed = Counter(remediation.rule for remediation in done)
    for configured in policies:
        rule, level = configured.policy, configured.level
        judged = 0 if level is Level.DISABLED else sum(number for kind, number in types.items() if rule.counts(*kind))
        broken, unsure, excepted, ended = (kinds[rule.id, kind] for kind in ("violation", "undeterminable", "excepted", ENDED))
        about = (rule.id, rule.title, rule.severity, level.value)
        yield Outcome(*about, judged, broken, unsure, excepted, changed[rule.id], ended)


def blocked_of(verdicts: Iterable[Verdict], strict: bool = False) -> tuple[Verdict, ...]:
    """The failing verdicts: violations of mandatory policies, with `strict` also undeterminable verdicts of critical ones."""
    mandatory = (verdict for verdict in verdicts if verdict.level == "mandatory")
    unsure = {("undeterminable", rule.id) for rule in RULES if rule.critical and strict}
    return tuple(each for each in mandatory if each.kind == "violation" or (each.kind, each.rule) in unsure)


def make_plan(
    stack: str,
    root: Path,
    stack_file: Path | None = None,
    progress: Stages = quiet,
    as_of: date | None = None,
    policies_of: Path | None = None,
) -> Plan:
    """Load, prove, record and judge one stack of the project in `root`.

    `as_of` is the day whose prices, exceptions and support dates are used; None means that of `fleet.facts.day`. `policies_of` is
    the checkout whose policy config is used instead of that in `root`. Raises InputError for everything that is wrong in the
    stack's files. Any other exception is an error in this program.
    """
    progress("reading settings")
    day = as_of or day_of()
    config, fleet = read_stack(stack, stack_file, root)
    reach = deployments.reach(config, fleet, root)
    if (judging := policies_of or root) == root:
        require_current(stack, root)
    policies = configured_for(RULES, with_owners(policy_settings(stack, judging), fleet), stack, judging, day)
    placements = placing.place(fleet)
    overbooked = (*placing.overbooked(placements), *placing.unfilled(fleet, placements))
    bill, settings = billing.bill(fleet, day), policy_values(stack, judging)
    refused = tuple(stack_jobs.refusals(fleet, placements))
    proved = (config, fleet, placements, overbooked, bill, policies, settings)
    plan = Plan(*proved, day, reach=reach, refused=refused, judged=has_sdk())
    if plan.refused or not plan.judged:
        return plan
    progress("building resources")
    config = stackfile.with_stand_ins(config, [f"{NAMESPACE}:{key}" for key in fleet.secrets.values()])
    remedies = Remedies(policies)
    program, git = declared(root, config, fleet, remedies)
    recording = joined(program, git)
    progress("judging policies")
    verdicts = judged(config, recording, policies)
    require_accepted(config, recording, verdicts)
    return replace(plan, config=config, recording=recording, git=git, verdicts=verdicts, remediations=tuple(remedies.done))


def judged(config: StackConfig, recording: Recording, policies: Sequence[Configured]) -> tuple[Verdict, ...]:
    """What policies say of the resources of a stack, with the names of its file. What only a day breaks has its own kind."""
    return named(config, verdicts_of(recording, policies))


def verdicts_of(recording: Recording, policies: Sequence[Configured]) -> tuple[Verdict, ...]:
    """What policies say of resources, without the stack file."""

    def timeless(rules: Collection[str]) -> Iterable[Verdict]:
        early = (configured._replace(as_of=date.min) for configured in policies if configured.policy.id in rules)
        return judge(recording, early)

    return by_time(judge(recording, policies), timeless)


def has_sdk() -> bool:
    """Whether Pulumi's SDK is installed."""
    return find_spec("pulumi") is not None


def require_sdk(command: str) -> None:
    """Raise InputError if Pulumi's SDK is not installed."""
    if not has_sdk():
        raise InputError(f"{command}: needs the resources of a stack, and Pulumi's SDK records them; install gpu-ci[pulumi]")


def declared(
    root: Path, config: StackConfig, fleet: Fleet, remedy: Remedies | None = None, *, preview: bool = True, answers: Cloud = None
) -> tuple[Recording | None, Recording | None]:
    """(what `pulumi up` registers, what is in Git) of a stack. None if Pulumi does not deploy it, and if Git has nothing.

    `remedy`, `preview` and `answers` are those of `record`.
    """
    from gpu_ci.offline.record import record  # noqa: PLC0415 - it loads Pulumi's SDK, which may not be installed

    by_git = any(cluster.by_git for _, cluster in fleet.clusters_by_name())
    run = partial(record, config=config, remedy=remedy, preview=preview, answers=answers)
    deployed = run(program_of(root) / "__main__.py") if fleet.deployable else None
    in_git = run(program_of(root) / "components" / "git.py") if by_git else None
    return deployed, in_git
