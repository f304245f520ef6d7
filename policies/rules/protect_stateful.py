"""protect-stateful: resources that cannot be recreated are protected from deletion.

Judged: control planes, file systems, keys and compartments. They need `opts.protect`; an EKS cluster may instead have
`deletionProtection`, which also stops deletions outside Pulumi. Children of `eks.Cluster` inherit the option. If the component
has no inputs, the rule judges only the children.
"""

from .kinds import EKS_CLUSTER, EKS_COMPONENT, listed
from .read import Faults, Later, true, walk
from .rule import Args, Rule, facts

STATEFUL = listed("stateful") | {EKS_COMPONENT}


def _check(args: Args, _: Later) -> Faults:
    of_eks = args.type in (EKS_CLUSTER, EKS_COMPONENT)
    if not (args.opts.protect or (of_eks and true(walk(args.props, "deletionProtection")))):
        yield "opts.protect is not set: one wrong name in a stack file could delete it with all its data; protect it"


RULE = Rule(**facts(__name__), types=STATEFUL, check=_check)
