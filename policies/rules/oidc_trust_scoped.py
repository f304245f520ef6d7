"""oidc-trust-scoped: a role that GitHub's tokens open is open to named repositories and branches or environments.

Judged: AWS roles whose trust names GitHub's token service. The subject of such a token is `repo:OWNER/NAME:` and where the job
runs: a branch or tag, an environment, a pull request (docs.github.com, OpenID Connect reference); a number may follow either
name, as in OWNER@1234. Any repository of the world gets such tokens, so a trust without a subject, or with a wildcard for owner
or name, trusts them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from . import schema
from .documents import listed, statements
from .kinds import IAM_ROLE
from .places import setting
from .read import Later, keys, shown, strings, walk
from .rule import Args, Rule, Section, Severity

_ISSUER = "token.actions.githubusercontent.com"
_SUBJECT, _AUDIENCE = "sub", "aud"
# These operators hold a claim to a text; IfExists and ForAllValues let a token without the claim in.
_OPERATORS = tuple(
    f"{some}{operator}" for some in ("", "ForAnyValue:") for operator in ("StringEquals", "StringEqualsIgnoreCase", "StringLike")
)
# What stands before a wildcard names a branch, tag, environment …, or a part of its name: "ref:refs/*" is any branch and tag.
_PLACE = r"ref:refs/(?:heads|tags)/[^*?].*|pull_request|(?!ref:)[^*?:]+:[^*?].*"
_MEND_AUDIENCE = "write StringEquals sts.amazonaws.com"
_SCOPED = re.compile(rf"repo:(?P<owner>[^*?:/]+)/[^*?:/]+:(?:{_PLACE})", re.DOTALL)


def _check(args: Args, later: Later) -> Iterator[str]:
    orgs = strings(args.get_config(), "orgs")
    for where, statement in statements(walk(args.props, "assumeRolePolicy"), later):
        if any(_ISSUER in name for name in listed(walk(statement, "Principal", "Federated"), later)):
            for fault in _faults(statement, orgs):
                yield f"assumeRolePolicy: {where} {fault}"


def _faults(statement: Any, orgs: Sequence[str]) -> Iterator[str]:
    audiences = _claims(statement, _AUDIENCE)
    if not audiences:
        yield f"has no condition on {_ISSUER}:aud: a token for another service opens the role too; {_MEND_AUDIENCE}"
    for audience in audiences:
        if "*" in audience or "?" in audience:
            yield f"takes a token for {shown(audience)}: one for another service opens the role too; {_MEND_AUDIENCE}"
    subjects = _claims(statement, _SUBJECT)
    if not subjects:
        yield (
            f"has no condition on {_ISSUER}:sub: every repository on GitHub opens the role; "
            "write repo:OWNER/NAME:ref:refs/heads/main"
        )
    for subject in subjects:
        found = _SCOPED.fullmatch(subject)
        if found is None:
            yield (
                f"takes {shown(subject)}: owner, repository and branch or environment are to be named; "
                "write repo:OWNER/NAME:environment:NAME or repo:OWNER/NAME:ref:refs/heads/BRANCH"
            )
        elif orgs and found["owner"].partition("@")[0] not in orgs:
            known = ", ".join(orgs[:5])
            yield f"takes {shown(subject)}: the owner is none of {known}; correct it, or add the owner to {setting('orgs')}"


def _is_github(issuer: str) -> bool:
    """Whether this is the token service: an enterprise may have an issuer of its own below it."""
    return issuer == _ISSUER or issuer.startswith(f"{_ISSUER}/")


def _claims(statement: Any, claim: str) -> list[str]:
    """Values that a claim is held to. Documents are plain data here, so nothing is unknown."""
    plain = Later()
    conditions = walk(statement, "Condition")
    return [
        value
        for operator in keys(conditions)
        if operator in _OPERATORS
        for key in keys(walk(conditions, operator))
        if (issuer := key.lower().removesuffix(f":{claim}")) != key.lower() and _is_github(issuer)
        for value in listed(walk(conditions, operator, key), plain)
    ]


RULE = Rule(
    id="oidc-trust-scoped",
    order=(Section.SUPPLY_CHAIN, 70),
    title="GitHub's tokens open a role for named repositories alone",
    severity=Severity.CRITICAL,
    types=frozenset((IAM_ROLE,)),
    levels={"dev": "mandatory", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    config={"orgs": schema.strings((), "Owners on GitHub whose repositories may be trusted; empty allows any that is named.")},
    rationale="GitHub signs a token for whoever runs a workflow anywhere: the trust policy alone tells your jobs from theirs.",
    source="https://docs.github.com/en/actions/reference/security/oidc",
    fix="Hold aud to sts.amazonaws.com, and sub to repo:OWNER/NAME with a branch, a tag or an environment.",
    check=_check,
)
