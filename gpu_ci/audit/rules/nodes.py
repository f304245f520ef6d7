"""What nodes need besides room: tags for the autoscaler, images that last, a driver, repair, EFA, and their DaemonSets."""

import re
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

from fleet.facts.day import parsed as day_of
from fleet.facts.groups import grouped
from fleet.facts.hardware import find
from fleet.facts.lifecycle import NOTICE
from fleet.facts.nested import at, items, parts, text_at
from fleet.facts.places import leaves
from fleet.facts.quantities import quantity
from fleet.facts.scheduling import GPU_RESOURCE, INSTANCE_TYPE_LABEL, TEMPLATE, Toleration
from fleet.prove.pod import Pod as Spec
from gpu_ci.audit.finding import Edit, Finding, said
from gpu_ci.audit.homes import pools_near
from gpu_ci.audit.model import Keys, Pool, Seen
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
        # Our program gives its autoscaler the rights and the tags.
        ours = any(one.by == "gpu-ci" and one.cluster == pool.group for one in seen.classes)
        if ours or not (managed or pool.scaler == "group") or machine is None or machine.cloud != "aws":
            continue
        known: Mapping[str, str] = {} if managed and shown else pool.tags
        if managed:
            # An answer of the command line about the Auto Scaling group of a managed group is a pool of its own.
            others = (one.tags for one in seen.pools if one is not pool)
            known = next((tags for tags in others if tags.get("eks:nodegroup-name") == pool.name), known)
        own = [key for key in pool.labels if "kubernetes.io/" not in key and not key.startswith(_OWN_LABELS)]
        hidden = [f"{TEMPLATE}label/{key}" for key in own] + [f"{TEMPLATE}taint/{taint.key}" for taint in pool.taints]
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


_FOR_DEVICES = re.compile(r"(?:nvidia|gpu|efa).*(?:driver|plugin|installer)|dcgm-exporter", re.IGNORECASE)
"""Names and images of DaemonSets without which a node offers no GPU or no EFA."""
_GIVEN = (
    "kubernetes.io/",
    "k8s.io/",
    "k8s.aws/",
    "karpenter.",
    "amazonaws.com/",
    "oraclecloud.com/",
    "feature.node",
    "nvidia.com/gpu.",
)
"""Parts of keys of labels that kubelet, a cloud or feature discovery sets."""
_POD = ("spec", "template", "spec")
_TERMS = (*_POD, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def daemons(seen: Seen, _: date) -> Iterator[Finding]:
    """Each DaemonSet against the pools with GPUs."""
    for keys, spec in workloads(seen, "DaemonSet"):
        pools = [pool for pool in pools_near(keys.file.path, seen.pools, seen) if has_gpus(pool)]
        if any(_FOR_DEVICES.search(str(name)) for name in (spec.name, *(one.get("image") for one in spec.containers))):
            yield from _taints(keys, spec, pools)
            yield from _labels(keys, spec, pools)
        yield from _types(keys, spec, pools)
        yield from _limit(keys, spec, [pool for pool in pools if not refused(spec, pool)])


def _taints(keys: Keys, spec: Spec, pools: list[Pool]) -> Iterator[Finding]:
    for pool in pools:
        if {one.filter for one in refused(spec, pool)} == {"TaintToleration"}:
            open_ = [taint for taint in pool.taints if not any(one.covers(taint) for one in spec.tolerations)]
            place = (*_POD, "tolerations", len(spec.each("tolerations")))
            edit = Edit(keys, place, Toleration(open_[0].key, effect=open_[0].effect).manifest())
            taints = ", ".join(map(str, open_))
            yield said("daemonset.untolerated", keys.get("metadata", "name"), spec.name, (edit,), pool=pool.name, taints=taints)


def _labels(keys: Keys, spec: Spec, pools: list[Pool]) -> Iterator[Finding]:
    """Labels that it asks of its nodes and that no pool has."""
    asked = set(spec.selector)
    if len(spec.terms) == 1:
        wanted = parts(spec.terms[0], "matchExpressions")
        asked |= {text_at(one, "key") for one in wanted if one.get("operator") in ("In", "Exists")}
    unset = [key for key in sorted(asked) if not any(part in key for part in _GIVEN)]
    missing = [key for key in unset if not any(key in pool.labels or key in pool.choices for pool in pools)]
    if pools and missing:
        yield said("daemonset.unlabelled", keys.get("metadata", "name"), spec.name, labels=", ".join(missing))


def _types(keys: Keys, spec: Spec, pools: list[Pool]) -> Iterator[Finding]:
    """A list of machine types that lacks one of the pools."""
    for index, one in enumerate(parts(spec.terms[0], "matchExpressions") if len(spec.terms) == 1 else ()):
        if (one.get("key"), one.get("operator")) != (INSTANCE_TYPE_LABEL, "In"):
            continue
        listed, efa = [*map(str, items(one, "values"))], "efa" in spec.name
        machines = [machine for pool in pools for machine in map(find, pool.types) if machine]
        lacking = sorted({one.name for one in machines if one.efa_interfaces or (one.gpus and not efa)} - {*listed})
        # A plugin of one kind of machines is not for the others.
        if lacking and any(machine.name in listed for machine in machines):
            place = (*_TERMS, 0, "matchExpressions", index, "values")
            edits = [Edit(keys, (*place, len(listed) + more), name) for more, name in enumerate(lacking)]
            yield said("daemonset.unlisted", keys.get("metadata", "name"), spec.name, edits, types=", ".join(lacking))


def _limit(keys: Keys, spec: Spec, pools: list[Pool]) -> Iterator[Finding]:
    """A memory limit of what all jobs of a node depend on: a mount that it serves, or a startup taint that it takes away."""
    sizes = [most_gpus(pool) for pool in pools]
    awaited = [taint.key for pool in pools for taint in pool.startup_taints if spec.name in taint.key]
    for one in spec.containers:
        limit, request = (at(one, "resources", kind, "memory") for kind in ("limits", "requests"))
        serves = any(mount.get("mountPropagation") == "Bidirectional" for mount in parts(one, "volumeMounts"))
        if limit is None or "csi" in f"{spec.name} {one.get('name')}" or not sizes:
            continue
        place, facts = keys.get("metadata", "name"), {"limit": limit, "most": max(sizes), "least": min(sizes)}
        if serves and min(sizes) < max(sizes):
            yield said("daemonset.limit", place, spec.name, **facts)
        elif awaited and (quantity(request) or 0) >= (quantity(limit) or 0):
            yield said("daemonset.headroom", place, spec.name, taint=awaited[0], **facts)


RULES = (tags, images, boot, repair, daemons, efa)
