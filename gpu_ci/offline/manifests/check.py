"""Judges Kubernetes manifests by the policies of a stack, as a plan judges resources.

It also names its limits: kinds that no policy reads, and changes that ArgoCD makes to files in Git.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from fleet.facts.day import day_of
from fleet.facts.errors import InputError, instead
from fleet.facts.record import Record
from fleet.facts.scheduling import is_gpu_resource
from fleet.loading import stackfile
from fleet.loading.config import read_fleet
from gpu_ci.offline.judge import Configured, Verdict, judge
from gpu_ci.offline.manifests.tree import Manifest, Tree, read_tree
from gpu_ci.offline.manifests.urns import PROJECT
from gpu_ci.offline.plan import Outcome, blocked_of, outcomes_of
from gpu_ci.offline.policyconfig import configured_for, kind_of, policy_settings, policy_values, require_current, with_owners
from gpu_ci.offline.progress import Stages, quiet
from gpu_ci.offline.recording import Recording
from policies.rules import RULES, AnyRule
from policies.rules.kinds import APPLICATION, APPLICATION_SET
from policies.rules.pods import has_pods
from policies.rules.read import walk

_RULES = tuple(rule.of_manifests for rule in RULES)
_PATH = re.compile(r'[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+|\[(?:[0-9]+|"[^"]*"|[^\]"]*)\])*')


class Finding(NamedTuple):
    """A verdict with its manifest and the line in the manifest's file; None for a verdict on all manifests together."""

    verdict: Verdict
    manifest: Manifest | None
    line: int

    @property
    def file(self) -> str:
        """The manifest's file; "" for a verdict on all manifests together."""
        return self.manifest.file if self.manifest is not None else ""

    @property
    def place(self) -> str:
        """File and line; "" for a verdict on all manifests together."""
        return f"{self.file}:{self.line}" if self.manifest is not None else ""

    @property
    def label(self) -> str:
        """The object that the verdict is about, for people."""
        return self.manifest.label if self.manifest is not None else "all objects together"


@dataclass(frozen=True)
class Check:
    """The result of a check: what the policies report for the manifests of a folder."""

    stack: str
    target: str
    tree: Tree
    policies: tuple[Configured, ...]
    policy_config: str
    """Which files the policies' config comes from, for people."""
    verdicts: tuple[Verdict, ...]
    in_prod: bool = False

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """Every verdict that applies, sorted by file and line."""
        by_urn = {manifest.resource.urn: manifest for manifest in self.tree.manifests}
        order = {urn: index for index, urn in enumerate(by_urn)}
        pairs = ((verdict, by_urn.get(verdict.urn)) for verdict in self.verdicts if verdict.kind != "not-applicable")
        findings = (Finding(verdict, of, line_of(of, verdict.message) if of else 0) for verdict, of in pairs)
        return tuple(sorted(findings, key=lambda finding: (order.get(finding.verdict.urn, len(order)), finding.line)))

    @cached_property
    def unjudged(self) -> "tuple[Unjudged, ...]":
        """The objects that no policy reads."""
        return unjudged(self.tree.manifests, _RULES)

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Notes that are not violations."""
        return (*self.tree.twice, *laid_over(self.tree.manifests))

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The result of each policy, in the pack's order."""
        return tuple(outcomes_of(self.policies, (one.resource for one in self.tree.manifests), self.verdicts))

    def blocked(self, strict: bool = False) -> tuple[Verdict, ...]:
        """The verdicts that fail the check: see `offline.plan.blocked_of`."""
        return blocked_of(self.verdicts, strict)

    def unread(self, strict: bool = False) -> str:
        """What fails the check because no policy judged it: everything or, if `strict` or in prod, what works; "" if nothing."""
        if not any(outcome.judged for outcome in self.outcomes):
            return "no policy judged anything here"
        kinds = [kind.label for kind in self.unjudged if kind.works and (strict or self.in_prod)]
        return f"no policy reads {', '.join(kinds)}, and it has containers or GPUs" if kinds else ""

    def passes(self, strict: bool = False) -> bool:
        """Whether no verdict fails the check, and nothing that no policy judged does."""
        return not (self.blocked(strict) or self.unread(strict))


def make_check(target: str, stack: str, root: Path, progress: Stages = quiet, as_of: date | None = None) -> Check:
    """Judge the manifests below a folder with the levels and the config of a stack of the project in `root`.

    Nothing is remediated, because `kubectl apply` remediates nothing. What a plan would remediate is a violation here. Raises
    InputError for an unknown stack, and for everything that is wrong in the files.
    """
    names = sorted({*stackfile.stacks(root), *(path.stem for path in (root / "policies/config").glob("*.json"))})
    if stack not in names:
        fix = instead(stack, names, f"give one of: {', '.join(names)}")
        raise InputError(f"stack: there must be a stack or a policy config of that name; got {stack!r}; {fix}")
    require_current(stack, root)
    policies = configured_for(_RULES, _settings(stack, root), stack, root, as_of or day_of())
    progress("reading manifests")
    tree = read_tree(stack, target)
    progress("judging policies")
    recording = Recording(PROJECT, stack, False, tuple(manifest.resource for manifest in tree.manifests), {})
    verdicts, in_prod = judge(recording, policies), kind_of(stack, root) == "prod"
    return Check(stack, target, tree, policies, policy_values(stack, root), verdicts, in_prod)


def _settings(stack: str, root: Path) -> Mapping[str, object]:
    """The stack's policy config, with the owners of the stack file."""
    settings = policy_settings(stack, root)
    return with_owners(settings, read_fleet(stack, root=root)) if stack in stackfile.stacks(root) else settings


def line_of(manifest: Manifest, message: str) -> int:
    """The line of the path at the start of a message, or of the longest part of it that the file has, or of the object."""
    line = manifest.line
    keys = manifest.keys
    # A message of a runner set policy about an object in the namespace of the sets starts with the namespace.
    for step in _steps(re.sub(r'namespace "[^"]*": ', "", message, count=1)):
        if (keys := (*keys, step)) not in manifest.lines:
            break
        line = manifest.lines[keys]
    return line


def _steps(message: str) -> Iterator[str | int]:
    path = _PATH.match(message)
    for step in re.finditer(r'([A-Za-z0-9_-]+)|\[(?:([0-9]+)|"([^"]*)"|([^\]]*))\]', path[0] if path else ""):
        name, index, quoted, bare = step.groups()
        yield int(index) if index is not None else name if name is not None else quoted if quoted is not None else bare


_OF_HELM = ("valuesObject", "values", "valueFiles", "parameters", "fileParameters")
_SOURCE = (*(("helm", key) for key in _OF_HELM), ("kustomize",), ("plugin",))
"""Keys of an Application's source that change the manifests at its path (argo-cd, pkg/apis/application/v1alpha1)."""


class Unjudged(Record):
    """Objects of one type that no policy reads: the first, their number, and whether any has containers or GPUs."""

    first: Manifest
    count: int
    works: bool

    @property
    def label(self) -> str:
        """Kind and API group for people."""
        return f"{self.first.kind}.{self.first.group}" if self.first.group else self.first.kind


def unjudged(manifests: Sequence[Manifest], rules: Iterable[AnyRule]) -> tuple[Unjudged, ...]:
    """The objects that no rule reads, by type, in the order of the files."""
    reading = [rule for rule in rules if not rule.partly]
    pairs = ((manifest, has_pods(manifest.resource.type, manifest.resource.inputs)) for manifest in manifests)
    unread = [manifest for manifest, pods in pairs if not any(rule.counts(manifest.resource.type, pods) for rule in reading)]
    # The schema of a definition may have containers, but it runs nothing.
    able = (manifest for manifest in unread if manifest.kind != "CustomResourceDefinition")
    working = {manifest.resource.type for manifest in able if _runs(manifest.resource.inputs)}
    firsts = {manifest.resource.type: manifest for manifest in reversed(unread)}
    counts = Counter(manifest.resource.type for manifest in unread)
    return tuple(Unjudged(firsts[kind], number, kind in working) for kind, number in counts.items())


def laid_over(manifests: Iterable[Manifest]) -> Iterator[str]:
    """A line for each part of an Application that changes manifests at a path in Git: the check judges them without it."""
    for manifest in manifests:
        props = manifest.resource.inputs
        where = list(_over(props, "")) if manifest.resource.type in (APPLICATION, APPLICATION_SET) else []
        if manifest.resource.type == APPLICATION_SET and walk(props, "spec", "templatePatch"):
            where.append("spec.templatePatch")
        ignored = "changes the manifests in Git, and this check ignores those changes"
        yield from (f"{manifest.place}: {manifest.label}: {path} {ignored}" for path in where)


def _over(value: object, at: str) -> Iterator[str]:
    """The keys of sources with a path in Git that change the manifests there, at any depth: generators have templates, too."""
    if isinstance(value, Mapping):
        if isinstance(value.get("path"), str) and not value.get("chart"):
            yield from (f"{at}{'.'.join(keys)}" for keys in _SOURCE if walk(value, *keys))
        for key, inner in value.items():
            yield from _over(inner, f"{at}{key}." if isinstance(inner, Mapping) else f"{at}{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _over(inner, f"{at}[{index}].")


def _runs(value: object) -> bool:
    """Whether the value has a container or asks for a GPU."""
    if isinstance(value, Mapping):
        return any(_is_work(key, entry) or _runs(entry) for key, entry in value.items())
    return isinstance(value, list | tuple) and any(map(_runs, value))


def _is_work(key: str, entry: object) -> bool:
    entries = (entry,) if key in ("container", "script") else ()
    if key in ("containers", "initContainers", "steps") and isinstance(entry, list | tuple):
        entries = tuple(entry)
    return is_gpu_resource(key) or any(isinstance(container, Mapping) and "image" in container for container in entries)
