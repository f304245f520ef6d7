"""known-types: a stack has only the resource types that the components register, and those that a person lists.

The other policies judge types that they know. What they do not know they do not see: another cloud, another provider of the same
cloud, a dynamic provider, a command, a template of CloudFormation, a machine in a service that no price covers. So this policy
reads the type of every resource, components and providers included. `policies/rules/kinds.toml` has the list. `types` of the
config has more types, each whole and with a reason; no wildcard is read.
"""

from .kinds import KNOWN
from .read import Faults, Later, entries, line, text, walk
from .rule import NOTHING, Args, Rule, entry, facts, said

_LONGEST = 160
"""Characters of a type in a message. A cut one could not be copied into the config."""


def _every(_: str) -> bool:
    """Every type of resource, those of components and providers included."""
    return True


def _check(args: Args, later: Later) -> Faults:
    own = [text(walk(item, "type")) for _, item in entries(args.config, "types", later)]
    if args.type not in KNOWN and args.type not in own:
        token = line(args.type, _LONGEST)
        yield said("unknown_type", token=token, entry=entry("types", token))


RULE = Rule(**facts(__name__), types=frozenset(), others=_every, check=_check, partly=True, in_manifests=NOTHING)
