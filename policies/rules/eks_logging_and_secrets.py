"""eks-logging-and-secrets: the EKS control plane writes its logs and, if required, encrypts secrets with your own key.

Judged: EKS clusters, and the log groups of their control planes (`/aws/eks/<cluster>/cluster`), which by default never expire.
EKS encrypts all API data of Kubernetes 1.28 and newer with a key of AWS (EKS user guide, envelope encryption), so your own key is
optional: `requireKms`.
"""

import re

from .kinds import EKS_CLUSTER, EKS_COMPONENT, LOG_GROUP, fields
from .read import Data, Faults, Later, entries, shown, strings, text, true, walk, whole
from .rule import Args, Rule, facts

_KEY = fields("encryption_key")


def _check(args: Args, later: Later) -> Faults:
    if args.type == LOG_GROUP:
        yield from _kept(args.props)
        return
    config = args.config
    unread = Later()
    written = [text(name) for _, name in entries(args.props, "enabledClusterLogTypes", unread)]
    missing = [name for name in strings(config, "logTypes") if name and name not in written]
    # An unknown type may be the one that is missing.
    if missing and later.clear(unread):
        yield f"enabledClusterLogTypes lacks {', '.join(missing)}: no other log shows who did what in the cluster; add them"
    if true(config.get("requireKms")):
        path = _KEY[args.type]
        if not text(walk(args.props, *path)):
            yield f"{'.'.join(path)} is not set: this stack requires its own key; set the ARN of a KMS key"


def _kept(props: Data) -> Faults:
    # The log group of a control plane (EKS user guide, control-plane-logs).
    days = walk(props, "retentionInDays") if re.fullmatch(r"/aws/eks/[^/]+/cluster", text(walk(props, "name"))) else 1
    if (whole(days) or 0) < 1:
        yield f"retentionInDays is {shown(days)}: the control plane's logs never expire, and every GB is paid for; set it to 90"


RULE = Rule(**facts(__name__), types=frozenset((EKS_CLUSTER, EKS_COMPONENT, LOG_GROUP)), check=_check)
