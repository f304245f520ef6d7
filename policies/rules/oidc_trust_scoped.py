"""oidc-trust-scoped: a role that GitHub's tokens open is open to named repositories and branches or environments.

Judged: AWS roles whose trust names GitHub's token service. The subject of such a token is `repo:OWNER/NAME:` and where the job runs: a
branch or tag, an environment, a pull request (docs.github.com, OpenID Connect reference). Any repository of the world gets such tokens, so
a trust without a subject, or with a wildcard for owner or name, trusts them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pulumi_policy import ReportViolation, ResourceValidationArgs, Severity

from .documents import listed, statements
from .kinds import IAM_ROLE
from .read import Later, items, keys, shown, text, walk
from .rule import Rule

_ISSUER = "token.actions.githubusercontent.com"
_SUBJECT, _AUDIENCE = f"{_ISSUER}:sub", f"{_ISSUER}:aud"
# Of the operators of a condition these two hold a value to a text; IfExists lets a token without the claim in.
_OPERATORS = ("StringEquals", "StringLike", "ForAnyValue:StringEquals", "ForAnyValue:StringLike")
_SCOPED = re.compile(r"repo:(?P<owner>[^*?:/]+)/[^*?:/]+:(?!\*)[^:]+(:[^*].*)?", re.DOTALL)


def _check(args: ResourceValidationArgs, report: ReportViolation) -> None:
    later = Later()
    orgs = [text(name) for _, name in items(args.get_config().get("orgs", ()), later)]
    with later:
        for where, statement in statements(walk(args.props, "assumeRolePolicy"), later):
            if any(_ISSUER in name for name in listed(walk(statement, "Principal", "Federated"), later)):
                for fault in _faults(statement, orgs):
                    report(f"assumeRolePolicy: {where} {fault}", None)
    later.settle()


def _faults(statement: Any, orgs: list[str]) -> Iterator[str]:
    if not _claims(statement, _AUDIENCE):
        yield f"has no condition on {_AUDIENCE}: a token for another service opens the role too; write StringEquals sts.amazonaws.com"
    subjects = _claims(statement, _SUBJECT)
    if not subjects:
        yield f"has no condition on {_SUBJECT}: every repository on GitHub opens the role; write repo:OWNER/NAME:ref:refs/heads/main"
    for subject in subjects:
        found = _SCOPED.fullmatch(subject)
        if found is None:
            yield (
                f"takes {shown(subject)}: owner, repository and branch or environment are to be named; "
                "write repo:OWNER/NAME:environment:NAME or repo:OWNER/NAME:ref:refs/heads/BRANCH"
            )
        elif orgs and found["owner"] not in orgs:
            yield f"takes {shown(subject)}: the owner is none of {', '.join(orgs[:5])}; correct it, or add the owner to orgs"


def _claims(statement: Any, claim: str) -> list[str]:
    """Values that a claim is held to. Documents are plain data here, so nothing is unknown."""
    plain = Later()
    conditions = walk(statement, "Condition")
    return [
        value
        for operator in keys(conditions)
        if operator in _OPERATORS
        for key in keys(walk(conditions, operator))
        if key.lower() == claim
        for value in listed(walk(conditions, operator, key), plain)
    ]


RULE = Rule(
    id="oidc-trust-scoped",
    title="GitHub's tokens open a role for named repositories alone",
    severity=Severity.CRITICAL,
    types=frozenset((IAM_ROLE,)),
    levels={"dev": "mandatory", "staging": "mandatory", "prod": "mandatory", "homelab": "mandatory"},
    config={
        "orgs": {
            "type": "array",
            "items": {"type": "string"},
            "default": [],
            "description": "Owners on GitHub whose repositories may be trusted; empty allows any that is named.",
        },
    },
    rationale="GitHub signs a token for whoever runs a workflow anywhere: the trust policy alone tells your jobs from theirs.",
    source="https://docs.github.com/en/actions/reference/security/oidc",
    fix="Hold aud to sts.amazonaws.com, and sub to repo:OWNER/NAME with a branch, a tag or an environment.",
    check=_check,
)
