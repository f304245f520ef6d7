"""What nodes need besides room: tags for the autoscaler, images that last, a driver, repair, interfaces for EFA."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from fleet.facts.groups import grouped
from fleet.facts.hardware import find
from fleet.facts.lifecycle import NOTICE, day_of
from fleet.facts.nested import at, parts, text_at
from fleet.facts.places import leaves
from fleet.facts.scheduling import GPU_RESOURCE, TEMPLATE
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.model import Seen
from gpu_ci.audit.rules.pools import has_gpus, installed, most_gpus, refused, workloads
from gpu_ci.workflows.job import File

_ACCELERATOR, _GPU_TAG = "k8s.amazonaws.com/accelerator", f"{TEMPLATE}resources/{GPU_RESOURCE}"
_RIGHT = "eks:DescribeNodegroup"
_GIVES_RIGHT = (_RIGHT, "eks:Describe*", "eks:*")
_RIGHT_TO_SCALE = "autoscaling:SetDesiredCapacity"
"""A policy with this right is that of the autoscaler, so that its other rights are in the files, too."""
_OWN_LABELS = ("alpha.eksctl.io/", "eks.amazonaws.com/")
_OF_EKSCTL = (("nodeGroups",), ("managedNodeGroups",))
_EFA = "vpc.amazonaws.com/efa"
_BUILDS = re.compile(r"linux-headers|kernel-devel|kernel-headers|\bdkms\b|NVIDIA-Linux-\S*\.run|nvidia-driver-\d|cuda-drivers")
"""What a script installs to build a driver on the node that boots."""
_REPAIR = ("settings", "featureGates", "nodeRepair")
"""The value of Karpenter's chart that turns its node repair on; off by default (karpenter.sh, feature gates)."""


def tags(seen: Seen, _: date) -> Iterator[Finding]:
    """What Cluster Autoscaler cannot know of a group without nodes, and of one whose node boots."""
    texts = {leaf for file in _files(seen) for _, leaf in leaves(file.document.value) if isinstance(leaf, str)}
    given, shown = not texts.isdisjoint(_GIVES_RIGHT), _RIGHT_TO_SCALE in texts
    for pool in seen.pools:
        machine = next(filter(None, map(find, pool.types)), None)
        managed = pool.scaler == "managed group"
        if not (managed or pool.scaler == "group") or machine is None or machine.cloud != "aws":
            continue
        known: Mapping[str, str] = {} if managed and shown else pool.tags
        if managed:
            # An answer of the command line about the Auto Scaling group of a managed group is a pool of its own.
            known = next(
                (one.tags for one in seen.pools if one.tags.get("eks:nodegroup-name") == pool.name and one is not pool), known
            )
        hidden = [
            f"{TEMPLATE}label/{key}" for key in pool.labels if "kubernetes.io/" not in key and not key.startswith(_OWN_LABELS)
        ]
        hidden += [f"{TEMPLATE}taint/{taint.key}" for taint in pool.taints]
        missing = ", ".join(tag for tag in hidden if tag not in known)
        if pool.from_zero and missing and not (managed and given):
            yield said(f"from-zero.{'managed' if managed else 'hidden'}", pool.at, pool.name, tags=missing, right=_RIGHT)
        if pool.from_zero and machine.gpus and not managed and _GPU_TAG not in known:
            edits = [Edit(pool.at, ("tags", _GPU_TAG), str(machine.gpus))] if pool.at.path[:1] == ("nodeGroups",) else []
            yield said("from-zero.gpus", pool.at, pool.name, edits, tag=_GPU_TAG, count=machine.gpus)
        labelled = _ACCELERATOR in pool.labels or f"{TEMPLATE}label/{_ACCELERATOR}" in pool.tags
        if machine.gpus and pool.minimum != pool.maximum and not labelled:
            gpu = machine.gpu.name if machine.gpu else ""
            edits = [Edit(pool.at, ("labels", _ACCELERATOR), gpu)] if pool.at.path[:1] in _OF_EKSCTL else []
            yield said("accelerator.missing", pool.at, pool.name, edits, label=_ACCELERATOR)


def _files(seen: Seen) -> Iterator[File]:
    """The files with pools or objects, each once."""
    yield from {one.file: None for one in (*(pool.at for pool in seen.pools), *seen.of_kind(*seen.objects))}


def images(seen: Seen, day: date) -> Iterator[Finding]:
    """Image ids: their owner withdraws them on a day that only describe-images says."""
    answers = {keys.text("ImageId"): keys for keys in seen.of_kind("Image")}
    for image, pools in grouped((pool.image, pool) for pool in seen.pools if pool.image.startswith("ami-")).items():
        end = day_of(answers[image].text("DeprecationTime")[:10]) if image in answers else None
        facts: dict[str, Any] = {"image": image, "pools": ", ".join(pool.name for pool in pools)}
        if image not in answers:
            yield said(f"image.{'gone' if answers else 'fixed'}", pools[0].at, pools[0].name, **facts)
        elif end is not None and (end - day).days <= NOTICE:
            yield said(f"image.{'ended' if end < day else 'ends'}", pools[0].at, pools[0].name, end=end, **facts)


def boot(seen: Seen, _: date) -> Iterator[Finding]:
    """A driver that each node builds when it boots, from packages of that day."""
    for file in {keys.file: None for keys in (*(pool.at for pool in seen.pools), *seen.of_kind("EC2NodeClass"))}:
        for path, leaf in leaves(file.document.value):
            found = _BUILDS.search(leaf) if isinstance(leaf, str) and "install" in leaf else None
            if found and not re.search(rf"{re.escape(found[0])}[^\s=]*=\S", leaf):
                yield said("boot.builds", file.place(*path), package=found[0], key=".".join(map(str, path)))


def repair(seen: Seen, _: date) -> Iterator[Finding]:
    """A node with a lost GPU stays Ready; only a repair takes it away."""
    edits = [
        Edit(values, _REPAIR, True)
        for _, chart, _, _, values in installed(seen)
        if chart == "karpenter" and not values.flag(*_REPAIR)
    ]
    for pool in seen.pools:
        off = pool.repairs is False or (pool.scaler == "karpenter" and bool(edits))
        if off and has_gpus(pool):
            count = most_gpus(pool)
            why = f"a lost one of its {count} GPUs breaks them all" if count > 1 else "its GPU may never appear"
            yield said("repair.none", pool.at, pool.name, edits if pool.scaler == "karpenter" else (), why=why)


def efa(seen: Seen, _: date) -> Iterator[Finding]:
    """Pods that ask for EFA, against the pools that may run them."""
    asking = [spec for _, spec in workloads(seen) if _EFA in spec.requests()]
    classes = {keys.text("metadata", "name"): keys for keys in seen.of_kind("EC2NodeClass")}
    for pool in seen.pools:
        machine = next(filter(None, map(find, pool.types)), None)
        if machine is None or not machine.efa_interfaces or all(refused(spec, pool) for spec in asking):
            continue
        missing = [] if len(pool.zones) == 1 else ["it has not exactly one zone, and EFA works inside one"]
        name = text_at(at(pool.at.file.document.value, "spec", "template", "spec", "nodeClassRef"), "name")
        faces = parts(classes[name].mapping("spec"), "networkInterfaces") if name in classes else []
        if name in classes and not any(text_at(face, "interfaceType").startswith("efa") for face in faces):
            missing.append("its node class makes no interface of type efa, which is possible only at launch")
        if missing:
            yield said("efa.conditions", pool.at, pool.name, missing="; ".join(missing))
