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

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import kinds, schema
from .draft import Draft
from .read import Later, entries, keys, shown, text, true, walk
from .record import steps
from .rule import Args, Rule, Section, Severity

EBS_VOLUME = "aws:ebs/volume:Volume"
FILE_SYSTEM = "aws:efs/fileSystem:FileSystem"

_EBS_DRIVERS = ("ebs.csi.aws.com", "kubernetes.io/aws-ebs")
_AS_TEXT = (kinds.LAUNCH_TEMPLATE, kinds.STORAGE_CLASS)

_TRANSIT = "isPvEncryptionInTransitEnabled"
_BARE_METAL = "BM."


def _check(args: Args, later: Later) -> Iterator[str]:
    kms = true(args.config.get("requireKms"))
    for path, fault in _FAULTS[args.type](args.props, kms, later):
        yield f"{path} {fault}"


def _remediate(args: Args, draft: Draft) -> None:
    """Sets the flags. A remediation cannot create a missing mapping or key."""
    wanted: Any = "true" if args.type in _AS_TEXT else True
    for path, fault in _FAULTS[args.type](args.props, False, Later()):
        if fault is not _NO_MAPPING:
            draft.put(wanted, *steps(path))


_NO_MAPPING = (
    "has no volume: nodes then get the image's own volume, which may not be encrypted; write a mapping with ebs.encrypted true"
)


def _disk(path: str, disk: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    with later:
        encrypted = walk(disk, "encrypted")
        if not true(encrypted):
            yield (
                f"{path}.encrypted",
                f"is {shown(encrypted)}: data that a job leaves on the disk can be read from a snapshot; write true",
            )
    if kms:
        with later:
            if not text(walk(disk, "kmsKeyId")):
                yield f"{path}.kmsKeyId", "is not set: this stack requires its own key; set the ARN of a KMS key"


def _launch_template(props: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    unread = Later()
    disks = list(_mapped("blockDeviceMappings", props, unread))
    later.join(unread)
    # A mapping of instance storage, or an empty mapping, is not a volume.
    if not (disks or unread):
        yield "blockDeviceMappings", _NO_MAPPING
    for path, disk in disks:
        yield from _disk(path, disk, kms, later)


def _node_class(props: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    for path, disk in _mapped("spec.blockDeviceMappings", props, later):
        yield from _disk(path, disk, kms, later)


def _mapped(field: str, props: Any, later: Later) -> Iterator[tuple[str, Any]]:
    """Path and body of each mapped EBS volume. `later` collects unknown ones."""
    for path, mapping in entries(props, field, later):
        with later:
            if (disk := walk(mapping, "ebs")) is not None:
                yield f"{path}.ebs", disk


def _instance(props: Any, kms: bool, later: Later) -> Iterator[tuple[str, str]]:
    with later:
        root = walk(props, "rootBlockDevice")
        # The ids in a launch template reference are unknown before the template exists, so only the reference counts.
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
                f"is {shown(value)}: the machine's disk data crosses the network unencrypted; write true",
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
    config={"requireKms": schema.flag("Whether EBS volumes and EFS file systems must have a KMS key of your account.")},
    rationale="These disks contain source code, models and tokens of every job, and a snapshot outlives the node.",
    source="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption.html",
    fix=f'EC2: ebs.encrypted true in every mapping ("true" in launch templates and storage classes). OCI VMs: {_TRANSIT} true.',
    check=_check,
    remedy=_remediate,
)
