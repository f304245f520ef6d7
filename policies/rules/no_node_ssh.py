"""no-node-ssh: nodes have no SSH or remote desktop access from the internet.

Judged: SSH (22) and remote desktop (3389) in security groups and rules of AWS and OCI, and the remote access of an EKS node
group. Without a source group, remote access opens port 22 to the world (EKS API reference, RemoteAccessConfig). Keys of machines
for SSH, and user data that adds one, lets the kubelet answer everybody, or lets it start pods that no API server admitted
(kubernetes.io, KubeletConfiguration v1beta1). User data that gives a shell, or cloud-init, what a server sends it.
"""

import re

from . import kinds
from .networks import FIREWALLS, exposed
from .read import Faults, Later, count, keys, shown, walk
from .rule import Args, Rule, facts, said
from .userdata import MACHINES, script, user_data

PORTS = (22, 3389)
KEYS = kinds.fields("ssh_keys")
"""Where machines have a key for SSH."""
_OPENS = re.compile(
    r"anonymous[\"']?\s*:\s*\{?\s*[\"']?enabled[\"']?\s*:\s*[\"']?true|--anonymous-auth(?!=false)|AlwaysAllow|authorized_keys"
    r"|read-?only-?port[\"']?\s*[:=\s]\s*[\"']?[1-9]|static-?pod-?(?:path|url)|pod-manifest-path|--manifest-url",
    re.IGNORECASE,
)
"""What lets others in beside the API server. The text has no line that is a comment."""
_RUNS = re.compile(
    r"(?m)\b(?:curl|wget)\b(?:[^\n|;&]|\\\n){1,500}\|\s*(?:sudo\s[^\n|;]{0,80}?)?(?:/[\w/]{1,40}/)?(?:(?:ba|da|k|z|a)?sh|python\d?|perl|ruby)\b"
    r"|(?:\b(?:ba|da|k|z|a)?sh|\beval|\bsource|(?:^|[;&\s])\.)\s(?:[^\n|;]{0,80}[\s\"'])?(?:[<$]\(|`|\"\$\()\s*(?:curl|wget)\b|x-include-url"
)
"""What runs a script from another server, whose text the stack does not show."""


def _check(args: Args, later: Later) -> Faults:
    access = walk(args.props, "remoteAccess") if args.type == kinds.EKS_NODE_GROUP else None
    if keys(access) and not count(walk(access, "sourceSecurityGroupIds")):
        yield said("open_ssh")
    for path, cidr, ports in exposed(args.type, args.props, PORTS, later):
        numbers = " and ".join(map(str, ports))
        yield f"{path} is {shown(cidr)}: port {numbers} would be open to the world; name the networks that may connect"

    for prefix, body in kinds.bodies(args.type, args.props, later) if args.type in KEYS else ():
        with later:
            if walk(body, *KEYS[args.type]):
                yield f"{prefix}{'.'.join(KEYS[args.type])} is set: this key makes its owner root on the machine; remove it"
    for path, content in user_data(args.type, args.props, later) if args.type in MACHINES else ():
        if match := _OPENS.search(script(content)):
            yield f"{path} has {shown(match[0])}: it lets others than the API server command the machine; remove it"
        if match := _RUNS.search(script(content)):
            yield said("remote_script", path=path, found=match[0])


RULE = Rule(**facts(__name__), types=frozenset((*KEYS, *FIREWALLS, kinds.EKS_NODE_GROUP)), check=_check)
