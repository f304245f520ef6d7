"""Releases of charts as ArgoCD's Applications and ApplicationSets: the same chart, and what a rule then says of it.

Every suite gets these twins of its Helm releases (`suite.suite_of`), so that each test of the suites is one of equivalence, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from policies.rules.kinds import APPLICATION, APPLICATION_SET, RELEASE
from tests.policies.cases import Case, Member, StackCase

OCI = "oci://"
TEMPLATE = "spec.template."
_SOURCE = "spec.source."
OBJECT, TEXT = f"{_SOURCE}helm.valuesObject", f"{_SOURCE}helm.values"
_VALUES = re.compile(r"(?<![\w.])values\.(?=\w)")


def application(props: Mapping[str, Any], *, as_text: bool = False) -> dict[str, Any]:
    """A release's properties as those of an Application; `as_text` writes the values as YAML in a text."""
    source: dict[str, Any] = {}
    if (chart := props.get("chart")) is not None:
        of_oci = isinstance(chart, str) and chart.startswith(OCI)
        repository, _, name = chart.removeprefix(OCI).rpartition("/") if of_oci else ("", "", chart)
        source = {"repoURL": repository, "chart": name} if of_oci else {"chart": name}
    if "repo" in (props.get("repositoryOpts") or {}):
        source["repoURL"] = props["repositoryOpts"]["repo"]
    helm: dict[str, Any] = {}
    for ours, theirs in (("name", "releaseName"), ("valueYamlFiles", "valueFiles"), ("values", "valuesObject")):
        if ours in props:
            helm[theirs] = props[ours]
    if as_text and isinstance(helm.get("valuesObject"), Mapping):
        # Any JSON is YAML.
        helm["values"] = json.dumps(helm.pop("valuesObject"), indent=1)
    destination = {"namespace": props["namespace"]} if "namespace" in props else {}
    source |= ({"targetRevision": props["version"]} if "version" in props else {}) | ({"helm": helm} if helm else {})
    return {"metadata": {"name": "application", "namespace": "argocd"}, "spec": {"source": source, "destination": destination}}


def application_set(props: Mapping[str, Any]) -> dict[str, Any]:
    """The same as the template of an ApplicationSet."""
    return {
        "metadata": {"name": "set", "namespace": "argocd"},
        "spec": {"generators": [{"list": {"elements": [{"cluster": "here"}]}}], "template": application(props)},
    }


def said_of(message: str, props: Mapping[str, Any], *, values: str = OBJECT) -> str:
    """The rule's message for an Application, made from its message for the release: other paths, and another fix."""
    chart = str(props.get("chart", ""))
    for ours, theirs in (
        ("valueYamlFiles: ", f"{_SOURCE}helm.valueFiles: "),
        ("move them to values", "move them to valuesObject"),
        ("version is ", f"{_SOURCE}targetRevision is "),
        (f'chart is "{chart[:60]}{"…" * (len(chart) > 60)}"', f'{_SOURCE}chart is "{chart.rpartition("/")[2]}"'),
        ("chart comes from ", f"{_SOURCE}chart comes from "),
        ("repositoryOpts.repo is ", f"{_SOURCE}repoURL is "),
        ("write oci://…, or set repositoryOpts.repo to https://…", "set repoURL to https://…, or to a registry without oci://"),
    ):
        message = message.replace(ours, theirs)
    return _VALUES.sub(f"{values}.", message)


def twins(case: Case | StackCase) -> list[Case | StackCase]:
    """The case with Applications, and with ApplicationSets, in the place of its releases; none for a case without any."""
    if isinstance(case, StackCase):
        if not any(member.token == RELEASE for member in case.members):
            return []
        return [_stack_twin(case, token) for token in (APPLICATION, APPLICATION_SET)]
    return [_twin(case, token) for token in (APPLICATION, APPLICATION_SET)] if case.token == RELEASE else []


def _twin(case: Case, token: str) -> Case:
    # Remedies do not change ArgoCD's kinds.
    messages = tuple(_as(token, said_of(message, case.props)) for message in case.messages)
    return replace(case, token=token, props=_props(token, case.props), messages=messages, unremedied=True)


def _stack_twin(case: StackCase, token: str) -> StackCase:
    by_name = {member.name: member for member in case.members}

    def member_of(member: Member) -> Member:
        return replace(member, token=token, props=_props(token, member.props)) if member.token == RELEASE else member

    def message_of(message: str, of: str) -> str:
        member = by_name.get(of)
        return _as(token, said_of(message, member.props)) if member is not None and member.token == RELEASE else message

    return replace(
        case,
        members=tuple(member_of(member) for member in case.members),
        messages={message_of(message, of): of for message, of in case.messages.items()},
    )


def _props(token: str, props: Mapping[str, Any]) -> dict[str, Any]:
    return application(props) if token == APPLICATION else application_set(props)


def _as(token: str, message: str) -> str:
    return message if token == APPLICATION else message.replace(_SOURCE, f"{TEMPLATE}{_SOURCE}")
