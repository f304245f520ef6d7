"""runner-no-app-key: no runner and no job can read the key of the GitHub App.

The namespace of a runner set has the key: the Secret that `githubConfigSecret` names. Judged: the ServiceAccounts whose token is
mounted by the pods of runner sets, or by the pods of jobs in containers. None may get, list or watch Secrets in such a namespace,
or create pods there, because a pod can mount every Secret of its namespace.

- Rights come from a Role or ClusterRole of the stack, by a RoleBinding or ClusterRoleBinding that names the account, its user, or
  a group of accounts. Kubernetes' own roles `cluster-admin`, `admin` and `edit` read Secrets. Of any other role that is not in
  the stack nothing shows the rights, so the rule is undeterminable.
- The chart's modes `kubernetes` and `kubernetes-novolume` create a Role that reads Secrets, unless the runner pod has a
  `serviceAccountName` (gha-runner-scale-set 0.14.2, templates/kube_mode_role.yaml).
- The rule does not read the `aggregationRule` of a ClusterRole.
"""

from collections.abc import Iterator, Mapping

from fleet.facts.record import Record

from . import charts
from .admission import held
from .kinds import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, CONFIG_MAP, ROLE, ROLE_BINDING
from .pods import PodSpec
from .read import Data, Later, UndeterminableError, entries, listed, shown, text, walk
from .record import Resource
from .rule import Stack, StackRule, Violations, facts, said
from .runner_sets import RUNNER_SETS, Place, RunnerSet, cluster_of, place_of, runner_sets

_RIGHTS = (("secrets", ("get", "list", "watch")), ("pods", ("create",)))
_BUILT_IN = {"cluster-admin": True, "admin": True, "edit": True, "view": False}
"""Kubernetes' own ClusterRoles for people, and whether they read Secrets (kubernetes.io, RBAC, user-facing roles)."""
_ANYONE = ("system:authenticated", "system:serviceaccounts")
_Keys = Mapping[Place, list[str]]
"""Each namespace with a key to the names of the Secrets; "" for one that the chart creates."""


class _Account(Record):
    """A ServiceAccount whose token is in the pods of `who`."""

    place: Place
    name: str
    who: str

    def is_subject(self, subject: Data, namespace: str) -> bool:
        """Whether a subject of a binding in a namespace is the account. Raises UnknownError."""
        kind, name = text(walk(subject, "kind")), text(walk(subject, "name"))
        if kind == "ServiceAccount":
            return (text(walk(subject, "namespace")) or namespace, name) == (self.place.name, self.name)
        if kind == "Group":
            return name in (*_ANYONE, f"system:serviceaccounts:{self.place.name}")
        return name == f"system:serviceaccount:{self.place.name}:{self.name}"


def _check(stack: Stack, later: Later) -> Violations:
    sets = tuple(runner_sets(stack.resources, later))
    key_names: dict[Place, list[str]] = {}
    for runner_set in sets:
        with later:
            values = runner_set.values if runner_set.release is not None else walk(runner_set.resource.props, "spec")
            if secret := walk(values, "githubConfigSecret"):
                key_names.setdefault(runner_set.place, []).append(text(secret))
    accounts: dict[_Account, None] = {}
    for runner_set in sets:
        yield from _of_chart(runner_set, key_names, later)
        accounts |= dict.fromkeys(_accounts(runner_set, later))
    for binding in stack.of(ROLE_BINDING, CLUSTER_ROLE_BINDING):
        with later:
            yield from _of_binding(binding, stack, tuple(accounts), key_names, later)


def _accounts(runner_set: RunnerSet, later: Later) -> Iterator[_Account]:
    """The accounts whose token the pods of a set and of its jobs mount. `later` collects unknown ones."""
    if (runner := runner_set.pod(later)) is not None:
        # Without a name the chart creates an account, in most modes without any right (`_of_chart`).
        otherwise = "default" if runner_set.release is None else ""
        yield from _account(runner, runner_set.place, otherwise, f"runners of {runner_set.name}", later)
    for pod in runner_set.job_pods(later):
        yield from _account(pod, runner_set.job_place(later), "default", f"jobs of {runner_set.name}", later)


def _account(pod: PodSpec, place: Place, otherwise: str, who: str, later: Later) -> Iterator[_Account]:
    with later:
        name = text(walk(pod.spec, "serviceAccountName")) or otherwise
        if name and walk(pod.spec, "automountServiceAccountToken") is not False:
            yield _Account(place, name, who)


def _of_chart(runner_set: RunnerSet, key_names: _Keys, later: Later) -> Violations:
    with later:
        values, release = runner_set.values, runner_set.release
        if release is None or runner_set.place not in key_names or not charts.mode(values).startswith(charts.IN_CLUSTER):
            return
        if not text(walk(values, "template", "spec", "serviceAccountName")):
            fault = said("chart_reads_secrets", release=release, key=charts.MODE, mode=charts.mode(values), runner_set=runner_set)
            yield fault, runner_set.resource.urn


def _of_binding(binding: Resource, stack: Stack, accounts: tuple[_Account, ...], key_names: _Keys, later: Later) -> Violations:
    cluster, place = cluster_of(binding), place_of(binding) if binding.type == ROLE_BINDING else None
    targets = [target for target in key_names if target.cluster == cluster and place in (None, target)]
    subjects = [subject for _, subject in entries(binding.props, "subjects", later)] if targets else []
    for account in accounts:
        namespace = "" if place is None else place.name
        with later:
            if account.place.cluster != cluster or not any(account.is_subject(subject, namespace) for subject in subjects):
                continue
            kind, name = (text(walk(binding.props, "roleRef", field)) for field in ("kind", "name"))
            for target in targets:
                if right := _right(stack, place if kind == "Role" else None, cluster, name, key_names[target], later):
                    fault = said("account_reads_secrets", account=account, right=right, target=target, kind=kind, name=name)
                    yield fault, binding.urn


def _right(stack: Stack, place: Place | None, cluster: str, name: str, secrets: list[str], later: Later) -> str:
    """The right of a role by which it reads one of the Secrets, or an empty string. `place` is None for a ClusterRole."""
    hidden, any_role = Later(), False
    for role in stack.of(ROLE if place is not None else CLUSTER_ROLE):
        with hidden:
            where = place_of(role) if place is not None else None
            if where == place and cluster_of(role) == cluster and text(walk(role.props, "metadata", "name")) == name:
                any_role = True
                for _, rule in entries(role.props, "rules", later):
                    if right := _of_rule(rule, secrets, later):
                        return right
    if not any_role and place is None and name in _BUILT_IN:
        return "read Secrets" if _BUILT_IN[name] else ""
    if not (any_role or hidden):
        hidden.note(UndeterminableError(f"role {shown(name)} is not in the stack, so nothing shows whether it reads Secrets"))
    later.join(hidden)
    return ""


def _of_rule(rule: Data, secrets: list[str], later: Later) -> str:
    fields = ("apiGroups", "resources", "verbs", "resourceNames")
    groups, resources, verbs, names = (listed(walk(rule, field), later) for field in fields)
    if {"", "*"}.isdisjoint(groups):
        return ""
    for resource, reading in _RIGHTS:
        verb = next((verb for verb in reading if not {verb, "*"}.isdisjoint(verbs)), "")
        # The name of a Secret that the chart creates is not in its values.
        of_key = not names or resource != "secrets" or any(not secret or secret in names for secret in secrets)
        if verb and of_key and not {resource, "*"}.isdisjoint(resources):
            return f"{verb} {resource}"
    return ""


_TYPES = RUNNER_SETS | {CONFIG_MAP, ROLE, ROLE_BINDING, CLUSTER_ROLE, CLUSTER_ROLE_BINDING}
RULE = held(StackRule(**facts(__name__), types=_TYPES, check=_check))
