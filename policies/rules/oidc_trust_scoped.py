"""oidc-trust-scoped: a role that trusts GitHub's tokens trusts only named repositories with a branch, tag or environment.

Judged: AWS roles whose trust policy names GitHub's token service. A token's subject is `repo:OWNER/NAME:` and the place where the
job runs: a branch or tag, an environment, a pull request (docs.github.com, OpenID Connect reference). A number may follow either
name, as in OWNER@1234. Every repository on GitHub can get tokens, so a trust policy without a subject, or with a wildcard for
owner or name, trusts all repositories.
"""

import re

from .kinds import IAM_ROLE
from .read import Data, Faults, Later, keys, listed, shown, statements, strings, walk
from .rule import Args, Rule, facts, said, setting

_ISSUER = "token.actions.githubusercontent.com"
# These operators require a claim. IfExists and ForAllValues also accept a token without the claim.
_OPERATORS = tuple(
    f"{some}{operator}" for some in ("", "ForAnyValue:") for operator in ("StringEquals", "StringEqualsIgnoreCase", "StringLike")
)
# A wildcard needs a part of a branch, tag or environment name before it: "ref:refs/*" would match every branch and tag.
_PLACE = r"ref:refs/(?:heads|tags)/[^*?].*|pull_request|(?!ref:)[^*?:]+:[^*?].*"
_SCOPED = re.compile(rf"repo:(?P<owner>[^*?:/]+)/[^*?:/]+:(?:{_PLACE})", re.DOTALL)


def _check(args: Args, later: Later) -> Faults:
    orgs = strings(args.config, "orgs")
    for where, statement in statements(walk(args.props, "assumeRolePolicy"), later):
        if any(_ISSUER in name for name in listed(walk(statement, "Principal", "Federated"), later)):
            yield from (f"assumeRolePolicy: {where} {fault}" for fault in _faults(statement, orgs))


def _faults(statement: Data, orgs: tuple[str, ...]) -> Faults:
    audiences = _claims(statement, "aud")
    wild = [f"accepts a token for {shown(audience)}" for audience in audiences if "*" in audience or "?" in audience]
    for fault in wild if audiences else [f"has no condition on {_ISSUER}:aud"]:
        yield f"{fault}: a token for another service can assume the role too; write StringEquals sts.amazonaws.com"
    if not (subjects := _claims(statement, "sub")):
        yield said("any_repository", issuer=_ISSUER)
    for subject in subjects:
        if (scope := _SCOPED.fullmatch(subject)) is None:
            yield said("wide_subject", subject=subject)
        elif orgs and scope["owner"].partition("@")[0] not in orgs:
            owners = ", ".join(orgs[:5])
            yield f"accepts {shown(subject)}: the owner is not in {owners}; correct it, or list it in {setting('orgs')}"


def _claims(statement: Data, claim: str) -> list[str]:
    """Values that a statement requires of a claim. Documents are plain data here, so nothing is unknown.

    An enterprise may have its own issuer below GitHub's token service.
    """
    conditions = walk(statement, "Condition")
    return [
        value
        for operator in keys(conditions)
        if operator in _OPERATORS
        for key in keys(walk(conditions, operator))
        if (issuer := key.lower().removesuffix(f":{claim}")) != key.lower() and f"{issuer}/".startswith(f"{_ISSUER}/")
        for value in listed(walk(conditions, operator, key), Later())
    ]


RULE = Rule(**facts(__name__), types=frozenset((IAM_ROLE,)), check=_check)
