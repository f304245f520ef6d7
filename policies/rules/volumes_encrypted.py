"""volumes-encrypted: the disks of nodes and machines, and the volumes of claims, are encrypted at rest and in transit.

Judged: EBS in launch templates, EC2 instances, spot requests and volumes, and Karpenter's EC2NodeClass; storage classes of the
EBS driver; EFS file systems; OCI instances, instance configurations and OKE node pools. Launch templates and storage classes
spell the flag as text.

Without a volume mapping a node gets the image's own volume, which may not be encrypted. The rule does not know an account's
encryption default. Karpenter's default mapping is encrypted (karpenter.sh, spec.blockDeviceMappings). OCI encrypts all volumes
at rest. The rule also requires encryption in transit of volumes with paravirtualized attachment
(`isPvEncryptionInTransitEnabled`; OCI API reference, LaunchInstanceDetails). Bare metal has no such attachment, so the rule
does not judge it.
"""

from . import kinds
from .read import Data, Found, Later, entries, keys, text, true, walk
from .record import steps
from .rule import Args, Mendings, Rule, facts, mending, said

EBS_VOLUME = "aws:ebs/volume:Volume"
FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"

_TRANSIT = "isPvEncryptionInTransitEnabled"
_MAPPINGS = {kinds.LAUNCH_TEMPLATE: "blockDeviceMappings", kinds.EC2_NODE_CLASS: "spec.blockDeviceMappings"}
_OF_AWS = frozenset((*_MAPPINGS, kinds.EC2_INSTANCE, kinds.SPOT_REQUEST, EBS_VOLUME, FILE_SYSTEM, kinds.STORAGE_CLASS))
_OF_OCI = frozenset((kinds.OCI_INSTANCE, kinds.OCI_INSTANCE_CONFIGURATION, kinds.OKE_NODE_POOL))


def _faults(args: Args, later: Later) -> Mendings:
    """A remedy sets the flags. It cannot create a missing mapping or key."""
    if args.type in _OF_OCI:
        yield from _transit(args.type, args.props, later)
        return
    unread, kms = Later(), true(args.config.get("requireKms"))
    on: object = "true" if args.type in (kinds.LAUNCH_TEMPLATE, kinds.STORAGE_CLASS) else True
    disks = list(_disks(args.type, args.props, unread))
    later.join(unread)
    # A mapping of instance storage, or an empty mapping, is not a volume.
    if args.type == kinds.LAUNCH_TEMPLATE and not (disks or unread):
        yield f"{_MAPPINGS[args.type]} {said('no_mapping')}", {}
    for prefix, disk in disks:
        with later:
            if not true(encrypted := walk(disk, "encrypted")):
                fault = said("open_disk", path=f"{prefix}encrypted", encrypted=encrypted)
                yield fault, {steps(f"{prefix}encrypted"): on}
        with later:
            if kms and not text(walk(disk, "kmsKeyId")):
                yield f"{prefix}kmsKeyId is not set: this stack requires its own key; set the ARN of a KMS key", {}


def _disks(token: str, props: Data, later: Later) -> Found:
    """Prefix of paths and body of each disk of AWS. `later` collects unknown ones."""
    if token in _MAPPINGS:
        for path, mapping in entries(props, _MAPPINGS[token], later):
            if (disk := later.walk(mapping, "ebs")) is not None:
                yield f"{path}.ebs.", disk
    elif token in (kinds.EC2_INSTANCE, kinds.SPOT_REQUEST):
        with later:
            root = walk(props, "rootBlockDevice")
            # The ids in a launch template reference are unknown before the template exists, so only the reference counts.
            if root is not None or not keys(walk(props, "launchTemplate")):
                yield "rootBlockDevice.", root
        yield from ((f"{path}.", disk) for path, disk in entries(props, "ebsBlockDevices", later))
    elif token != kinds.STORAGE_CLASS:
        yield "", props
    elif text(walk(props, "provisioner")) in ("ebs.csi.aws.com", "kubernetes.io/aws-ebs"):
        yield "parameters.", walk(props, "parameters")


def _transit(token: str, props: Data, later: Later) -> Mendings:
    for at, body in kinds.bodies(token, props, later):
        with later:
            of_pool = token == kinds.OKE_NODE_POOL
            prefix, details = ("nodeConfigDetails.", walk(body, "nodeConfigDetails")) if of_pool else (at, body)
            if true(walk(details, _TRANSIT)) or true(walk(details, "launchOptions", _TRANSIT)):
                continue
            if not text(walk(body, "nodeShape" if of_pool else "shape")).startswith("BM."):
                path = f"{prefix}{_TRANSIT}"
                yield said("open_transit", path=path, value=walk(details, _TRANSIT)), {steps(path): True}


RULE = Rule(**facts(__name__), types=_OF_AWS | _OF_OCI, **mending(_faults))
