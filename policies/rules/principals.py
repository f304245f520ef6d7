"""Whom documents of AWS give something: their principals, the accounts of the stack, and conditions that keep others out.

Sources: AWS IAM user guide, "Principal" and "Condition operators"; Amazon S3 user guide, "The meaning of public".
"""

import re
from fnmatch import fnmatchcase

from fleet.facts.record import Record

from .kinds import IAM_ROLE
from .networks import network, world
from .read import Data, Later, Named, items, keys, known, listed, parsed, statements, strings, text, walk
from .record import Unknown
from .rule import Resource, Stack

_ACCOUNT = re.compile(r"(?:arn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:)?([0-9]{12})(?::.*)?")
_ISSUER = re.compile(r"(?:arn:aws[a-z-]*:iam::[0-9]{12}:(?:oidc-provider/)?|https://)?(.*?)/?")
_REQUIRES = re.compile(r"(?:ForAnyValue:)?(?:String(?:Equals|Like|EqualsIgnoreCase)|Arn(?:Equals|Like)|IpAddress)")
"""Operators that a request without the key does not pass."""
_ACCOUNTS = re.compile(r"aws:(?:principal|source)(?:account|arn|owner)|kms:calleraccount|s3:dataaccesspoint(?:account|arn)")
"""Keys, in lower case, whose values name an account, alone or in an ARN."""
_PLACES = re.compile(r"aws:(?:sourcevpce?|sourceorgid|principalorgid|(?:vpc)?sourceip)")
"""Keys whose values name one organization or one network."""


class Accounts(Record):
    """The accounts of a stack. `hidden` has an unknown value that may name one more."""

    own: frozenset[str]
    hidden: Later

    def has(self, name: str) -> bool:
        """Whether an account, or the account of an ARN, is the stack's."""
        match = _ACCOUNT.fullmatch(name)
        return match is not None and match[1] in self.own


def accounts_of(stack: Stack) -> Accounts:
    """The accounts that the config lists, to which a provider is limited, or that have the stack's roles and their boundaries."""
    hidden, own = Later(), set(strings(stack.config, "accounts"))
    for resource in stack.resources:
        with hidden:
            allowed = walk(resource.provider.props, "allowedAccountIds")
            own |= {text(item) for _, item in items(parsed(text(allowed)), hidden)}
            # A new role has no ARN yet. AWS accepts only a boundary of the role's own account.
            role = resource.props if resource.type == IAM_ROLE else {}
            arns = (Later().walk(role, "arn"), walk(role, "permissionsBoundary"))
            own |= {match[1] for arn in arns if (match := _ACCOUNT.fullmatch(text(arn)))}
    return Accounts(frozenset(own), hidden)


def strangers(document: Data, accounts: Accounts, issuers: tuple[str, ...], later: Later, *, services: bool = False) -> Named:
    """Path of each statement that gives something to a principal outside of the stack's accounts, and the principal.

    `issuers` are patterns of identity providers that may log in. With `services` a service of AWS needs a condition, because it
    acts for every account.
    """
    for where, statement in statements(document, later):
        principal = walk(statement, "Principal")
        # All but the named ones is everybody.
        everybody = "NotPrincipal" in keys(statement) or isinstance(principal, str)
        named = [(kind, name) for kind in keys(principal) for name in listed(walk(principal, kind), later)]
        for kind, name in [("AWS", "*")] if everybody else named:
            if kind == "Federated":
                fits = trusted(name, issuers)
            elif kind == "Service" or name == "*":
                fits = (kind == "Service" and not services) or _narrowed(statement, accounts)
            else:
                fits = kind == "AWS" and accounts.has(name)
            if not fits and (kind == "Federated" or name == "*" or later.clear(accounts.hidden)):
                yield where, "everybody" if name == "*" else name


def trusted(issuer: str, issuers: tuple[str, ...]) -> bool:
    """Whether an identity provider, a URL or an ARN, is one of these. A path below a listed one is too: an enterprise's own."""
    name = _ISSUER.sub(r"\1", issuer, count=1)
    return any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}/*") for pattern in issuers)


def _narrowed(statement: Data, accounts: Accounts) -> bool:
    """Whether a condition keeps everybody out but an account of the stack, an organization or a network that it names."""
    conditions = walk(statement, "Condition")
    return any(
        _narrows(key.lower(), listed(walk(conditions, operator, key), Later()), accounts)
        for operator in filter(_REQUIRES.fullmatch, keys(conditions))
        for key in keys(walk(conditions, operator))
    )


def _narrows(key: str, values: tuple[str, ...], accounts: Accounts) -> bool:
    if _ACCOUNTS.fullmatch(key):
        return bool(values) and all(map(accounts.has, values))
    one = (not world(value) if network(value) else value and not {"*", "?"} & {*value} for value in values)
    return bool(_PLACES.fullmatch(key) and values) and all(one)


def comes_from(value: Data, resource: Resource, field: str, token: str) -> bool:
    """Whether a value in this field is the name or ARN of a resource of this type in the stack.

    The value may be unknown. Raises UnknownError if nothing shows where it comes from.
    """
    above = [target for target in resource.property_dependencies.get(field, ()) if target.type == token]
    if isinstance(value, Unknown) and above:
        return True
    return bool(known(value)) and any(value in (target.props.get(key) for key in ("arn", "name", "id")) for target in above)


def component_waits(resource: Resource, field: str) -> bool:
    """Whether a component of this project writes a text that names a resource which does not exist yet.

    The text is in the project's own code, and the rule judges it once the resource exists.
    """
    below = resource.urn.split("::")[2].rpartition("$")[0].rpartition("$")[2].startswith("gpu-ci:index:")
    return below and isinstance(resource.props.get(field), Unknown)
