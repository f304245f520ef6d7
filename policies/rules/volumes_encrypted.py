"""volumes-encrypted: the disks of nodes and machines, and what claims become, are encrypted, at rest and on their way.

Judged: EBS in launch templates, EC2 instances, spot requests and volumes, and Karpenter's EC2NodeClass; storage classes of
the EBS driver; EFS file systems; OCI instances, instance configurations and OKE node pools. Launch templates and storage
classes spell the flag as text. Without a mapping of a volume a node
gets the image's own as the image has it; an account's default for encryption is not known here. Karpenter's own mapping is
encrypted (karpenter.sh, spec.blockDeviceMappings). OCI encrypts all volumes at rest; what may be added is encryption in
transit of volumes that are attached paravirtualized (`isPvEncryptionInTransitEnabled`; OCI API reference,
LaunchInstanceDetails). Bare metal attaches none so, and nothing is demanded of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import kinds, schema
from .draft import Draft
from .pods import steps
from .read import Later, entries, keys, shown, text, true, walk
from .rule import Args, Rule, Section, Severity

EBS_VOLUME = "aws:ebs/volume:Volume"
FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"

_EBS_DRIVERS = ("ebs.csi.aws.com", "kubernetes.io/aws-ebs")
_AS_TEXT = (kinds.LAUNCH_TEMPLATE, kinds.STORAGE_CLASS)

_TRANSIT = "isPvEncryptionInTransitEnabled"
_BARE_METAL = "BM."


def _check(args: Args, later: Later) -> Iterator[str]:
    kms = true(args.get_config().get("requireKms"))
    for path, fault in _FAULTS[args.resource_type](args.props, kms, later):
        yield f"{path} {fault}"


def _mend(args: Args, draft: Draft) -> None:
    """Sets the flags; a mapping or a key that is not there is not ours to make."""
    wanted: Any = "true" if args.resource_type in _AS_TEXT else True
    for path, fault in _FAULTS[args.resource_type](args.props, False, Later()):
        if fault is not _NO_MAPPING:
            draft.put(wanted, *steps(path))


_NO_MAPPING = "has no volume: nodes get the image's own, encrypted or not; write a mapping with ebs.encrypted true"


def _disk(path: str, disk: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    with later:
        encrypted = walk(disk, "encrypted")
        if not true(encrypted):
            yield (
                f"{path}.encrypted",
                f"is {shown(encrypted)}: what a job leaves on the disk is readable from its snapshot; write true",
            )
    if kms:
        with later:
            if not text(walk(disk, "kmsKeyId")):
                yield f"{path}.kmsKeyId", "is not set: this stack requires its own key; set the ARN of a KMS key"


def _launch_template(props: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    unread = Later()
    disks = list(_mapped("blockDeviceMappings", props, unread))
    later.join(unread)
    # A mapping of the instance's own storage, or of nothing, is none of a volume.
    if not (disks or unread):
        yield "blockDeviceMappings", _NO_MAPPING
    for path, disk in disks:
        yield from _disk(path, disk, kms, later)


def _node_class(props: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    for path, disk in _mapped("spec.blockDeviceMappings", props, later):
        yield from _disk(path, disk, kms, later)


def _mapped(field: str, props: Any, later: Later) -> Iterator[tuple[str, Any]]:
    """Path and body of each volume of EBS that is mapped. Unknown ones are put off."""
    for path, mapping in entries(props, field, later):
        with later:
            if (disk := walk(mapping, "ebs")) is not None:
                yield f"{path}.ebs", disk


def _instance(props: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    with later:
        root = walk(props, "rootBlockDevice")
        # The ids in a launch template reference are unknown before it exists; that it is there is enough.
        if root is not None or not keys(walk(props, "launchTemplate")):
            yield from _disk("rootBlockDevice", root, kms, later)
    for path, disk in entries(props, "ebsBlockDevices", later):
        yield from _disk(path, disk, kms, later)


def _volume(props: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    for path, fault in _disk("", props, kms, later):
        yield path.removeprefix("."), fault


def _storage_class(props: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    if text(walk(props, "provisioner")) in _EBS_DRIVERS:
        yield from _disk("parameters", walk(props, "parameters"), kms, later)


def _transit(path: str, details: Any, later: Later, *shape: str) -> Iterator[tuple[str, str]]:
    with later:
        if true(walk(details, _TRANSIT)) or true(walk(details, "launchOptions", _TRANSIT)):
            return
        if not text(walk(details, *shape)).startswith(_BARE_METAL):
            value = walk(details, _TRANSIT)
            yield (
                f"{path}{_TRANSIT}",
                f"is {shown(value)}: what the machine reads and writes crosses the network in clear; write true",
            )


def _oci_configuration(props: Any, _: bool, later: Later) -> Iterator[tuple[str, str]]:
    for path, launch in kinds.launches(props, later):
        yield from _transit(f"{path}.", launch, later, "shape")


def _oke_pool(props: Any, _: bool, later: Later) -> Iterator[tuple[str, str]]:
    if text(walk(props, "nodeShape")).startswith(_BARE_METAL):
        return
    yield from _transit("nodeConfigDetails.", walk(props, "nodeConfigDetails"), later)


_FAULTS: dict[str, Callable[[Any, bool, Later], Iterator[tuple[str, str]]]] = {
    kinds.LAUNCH_TEMPLATE: _launch_template,
    kinds.EC2_INSTANCE: _instance,
    kinds.SPOT_REQUEST: _instance,
    kinds.EC2_NODE_CLASS: _node_class,
    EBS_VOLUME: _volume,
    FILE_SYSTEM: _volume,
    kinds.STORAGE_CLASS: _storage_class,
    kinds.OCI_INSTANCE: lambda props, _, later: _transit("", props, later, "shape"),
    kinds.OCI_INSTANCE_CONFIGURATION: _oci_configuration,
    kinds.OKE_NODE_POOL: _oke_pool,
}

RULE = Rule(
    id="volumes-encrypted",
    order=(Section.HARDENING, 20),
    title="Disks of nodes and machines, and volumes of claims, are encrypted",
    severity=Severity.HIGH,
    types=frozenset(_FAULTS),
    levels={"dev": "remediate", "staging": "mandatory", "prod": "mandatory", "homelab": "disabled"},
    config={"requireKms": schema.flag("Whether EBS volumes and EFS file systems must have a KMS key of the account's own.")},
    rationale="Source code, models and tokens of every job pass over these disks, and a snapshot outlives the node.",
    source="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html",
    fix=f'EC2: ebs.encrypted true in every mapping ("true" in launch templates and storage classes). OCI VMs: {_TRANSIT} true.',
    check=_check,
    remedy=_mend,
)
