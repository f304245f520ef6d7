"""Changes of an evasion that keep its meaning: what is refused must be refused in these forms, too.

A mutator takes the objects of a case, or the parts of a change of a program, and a source of chance with a fixed seed. It gives
them in another form, or None if they have nothing for it.
"""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import yaml

from fleet.facts.quantities import quantity
from tests.policies.evasions.cloud import Add, Cloud, Edit, added
from tests.policies.evasions.objects import Manifest, Object, container, thing
from tests.policies.evasions.pod_kinds import KINDS, moved

Objects = tuple[Object, ...]
Mutator = Callable[[Objects, Random], Objects | None]
WHOLE = sorted(KINDS.keys() - {"workflow", "cron-workflow", "train-job", "task-run", "runner-deployment"})
"""The kinds of other projects that take any spec of a pod as it is."""
OWN = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "ReplicationController": "v1",
}
"""Kinds of Kubernetes with a template of pods, and their API version."""
OTHER_VERSIONS = {
    ("Deployment", "apps/v1"): ("apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"),
    ("CronJob", "batch/v1"): ("batch/v1beta1", "batch/v2alpha1"),
    ("NodePool", "karpenter.sh/v1"): ("karpenter.sh/v1beta1",),
    ("ClusterQueue", "kueue.x-k8s.io/v1beta2"): ("kueue.x-k8s.io/v1beta1",),
    ("NetworkPolicy", "networking.k8s.io/v1"): ("extensions/v1beta1",),
    ("HorizontalPodAutoscaler", "autoscaling/v2"): ("autoscaling/v2beta2", "autoscaling/v1"),
}
"""By kind and version: others that had or have the same fields here."""
SERVING = ("exporter", "kube-proxy", "nvidia-device-plugin-ctr", "aws-node")
"""Names of containers that serve a node."""
FREE = ("train", "node", "settings", "fast", "metadata", "research", "team-a")
"""Names that the cases choose themselves: with other ones they mean the same."""
ANNOTATIONS = "annotations"


def _spec(one: Object) -> Object | None:
    """The spec of the pods of an object of Kubernetes."""
    body = one.get("spec") or {}
    if one["kind"] == "Pod":
        return dict(body)
    if one["kind"] in ("Deployment", "Job") and body.get("template"):
        return dict(body["template"]["spec"])
    return None


def _each_spec(objects: Objects, change: Callable[[Object], Object | None]) -> Objects | None:
    """The objects with another spec of pods; None if no spec changes."""
    copied = copy.deepcopy(objects)
    done = False
    for one in copied:
        body = _spec(one)
        after = None if body is None else change(body)
        if after is not None:
            holder = one if one["kind"] == "Pod" else one["spec"]["template"]
            holder["spec"], done = after, True
    return copied if done else None


def own_kind(objects: Objects, chance: Random) -> Objects | None:
    """The pods by another kind of Kubernetes."""
    return _moved(objects, lambda body: _as_own(body, chance.choice(sorted(OWN))))


def _as_own(body: Object, kind: str) -> Object:
    template = {"metadata": {"labels": {"app": "train"}}, "spec": body}
    ends: Object = {"activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 3600, "backoffLimit": 0, "template": template}
    if kind == "Job":
        return thing(OWN[kind], kind, ends)
    if kind == "CronJob":
        return thing(OWN[kind], kind, {"schedule": "0 6 * * *", "concurrencyPolicy": "Forbid", "jobTemplate": {"spec": ends}})
    labels: Object = {"app": "train"} if kind == "ReplicationController" else {"matchLabels": {"app": "train"}}
    return thing(OWN[kind], kind, {"selector": labels, "template": template | {"spec": body | {"restartPolicy": "Always"}}})


def other_kind(objects: Objects, chance: Random) -> Objects | None:
    """The pods by a kind of another project."""
    return _moved(objects, lambda body: moved(chance.choice(WHOLE), body))


def _moved(objects: Objects, make: Callable[[Object], Object]) -> Objects | None:
    bodies = [_spec(one) for one in objects]
    # What scales an object names its kind. A refused number of pods, or end of a Job, would have to move too.
    if not any(bodies) or any("scaleTargetRef" in (one.get("spec") or {}) or _bounds_more(one) for one in objects):
        return None
    others = tuple(_at_place(make(body), one) if body else one for one, body in zip(objects, bodies, strict=True))
    return None if None in others else tuple(filter(None, others))


def _at_place(made: Object, before: Object) -> Object | None:
    """The object with name, namespace and annotations of another one; None if its pods can have no annotations."""
    metadata = before["metadata"]
    of_pods = metadata.get(ANNOTATIONS)
    templates = [holder for holder in _tables(made["spec"]) if {"metadata", "spec"} <= holder.keys()]
    for holder in templates:
        holder["metadata"] |= {ANNOTATIONS: of_pods} if of_pods else {}
    made["metadata"] = {key: value for key, value in metadata.items() if key != ANNOTATIONS}
    return made if templates or not of_pods else None


def _tables(value: Any) -> Iterator[Object]:
    """Every table in a value, itself first."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ():
        yield from _tables(inner)


def _bounds_more(one: Object) -> bool:
    return _spec(one) is not None and (_many(one) or one["spec"].get("activeDeadlineSeconds", 0) > 3600)


def _many(one: Object) -> bool:
    return max(int(one["spec"].get(key, 1)) for key in ("replicas", "parallelism")) > 1


def renamed(objects: Objects, chance: Random) -> Objects | None:
    """Other names of objects, containers and namespaces, wherever a case has chosen them."""
    words = {name: "".join(chance.choices("abcdefghij", k=8)) for name in FREE}
    return tuple(deep(one, lambda value: words.get(value, value) if isinstance(value, str) else value) for one in objects)


def deep(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with each scalar in it changed."""
    if isinstance(value, dict):
        return {key: deep(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [deep(inner, change) for inner in value]
    return change(value)


def serving_name(objects: Objects, chance: Random) -> Objects | None:
    """A container by a name of those that serve a node."""
    name = chance.choice(SERVING)
    return _each_spec(objects, lambda body: body | {"containers": [one | {"name": name} for one in body["containers"]]})


def sidecar(objects: Objects, _: Random) -> Objects | None:
    """A harmless container before the others."""
    return _each_spec(objects, lambda body: body | {"containers": [container(name="first"), *body["containers"]]})


def init_container(objects: Objects, _: Random) -> Objects | None:
    """The containers as init containers that go on running, beside a harmless one."""

    def change(body: Object) -> Object:
        side = [one | {"restartPolicy": "Always"} for one in body["containers"]]
        return body | {"initContainers": [*body.get("initContainers", []), *side], "containers": [container(name="main")]}

    return _each_spec(objects, change)


def split_tolerations(objects: Objects, _: Random) -> Objects | None:
    """A toleration of all effects as one of each."""

    def change(body: Object) -> Object | None:
        wide = [one for one in body.get("tolerations", []) if "effect" not in one]
        parts = [one | {"effect": effect} for one in wide for effect in ("NoSchedule", "PreferNoSchedule", "NoExecute")]
        return body | {"tolerations": parts} if parts else None

    return _each_spec(objects, change)


def split_replicas(objects: Objects, _: Random) -> Objects | None:
    """Objects of one pod in place of one with many."""
    parts: list[Object] = []
    for one in objects:
        key = next((key for key in ("replicas", "parallelism") if key in (one.get("spec") or {})), "")
        if not key or not _many(one) or _spec(one) is None:
            return None
        single = one["spec"] | {key: 1} | ({"completions": 1} if "completions" in one["spec"] else {})
        for number in range(int(one["spec"][key])):
            parts.append(one | {"spec": single, "metadata": one["metadata"] | {"name": f"train-{number}"}})
    return tuple(parts)


def as_list(objects: Objects, _: Random) -> Objects | None:
    """The objects as items of a list of their kind."""
    kinds = {(one["apiVersion"], one["kind"]) for one in objects}
    if len(kinds) != 1 or "items" in objects[0]:
        return None
    ((version, kind),) = kinds
    bare = [{key: value for key, value in one.items() if key not in ("apiVersion", "kind")} for one in objects]
    return ({"apiVersion": version, "kind": f"{kind}List", "items": bare},)


def other_version(objects: Objects, chance: Random) -> Objects | None:
    """The same kind in another API version."""
    others = [OTHER_VERSIONS.get((one["kind"], one["apiVersion"])) for one in objects]
    if not any(others):
        return None
    return tuple(one | {"apiVersion": chance.choice(other)} if other else one for one, other in zip(objects, others, strict=True))


def data_of_secret(objects: Objects, _: Random) -> Objects | None:
    """The texts of a Secret in base64, as the API server stores them."""
    if not any("stringData" in one for one in objects):
        return None
    return tuple(_encoded(one) if "stringData" in one else one for one in objects)


def _encoded(one: Object) -> Object:
    texts = {key: base64.b64encode(text.encode()).decode() for key, text in one["stringData"].items()}
    return {key: value for key, value in one.items() if key != "stringData"} | {"data": texts}


def pod_level(objects: Objects, _: Random) -> Objects | None:
    """What the security context of a container says, for the whole pod."""

    def change(body: Object) -> Object | None:
        (first, *more) = body["containers"]
        security = first.get("securityContext", {})
        shared = {key: value for key, value in security.items() if key in _OF_PODS}
        own = {key: value for key, value in security.items() if key not in _OF_PODS}
        whole = body.get("securityContext", {}) | shared
        return body | {"containers": [first | {"securityContext": own}, *more], "securityContext": whole} if shared else None

    return _each_spec(objects, change)


_OF_PODS = ("seccompProfile", "appArmorProfile", "seLinuxOptions", "windowsOptions", "runAsUser")
"""Fields that a security context of a container and of a pod have."""


def values_as_text(objects: Objects, _: Random) -> Objects | None:
    """The values of an Application's chart as a text of YAML."""
    return _each_source(objects, lambda source: source | {"helm": _as_text(source["helm"])} if "helm" in source else None)


def _as_text(helm: Object) -> Object:
    rest = {key: value for key, value in helm.items() if key != "valuesObject"}
    return rest | {"values": yaml.safe_dump(helm.get("valuesObject", {}))}


def _each_source(objects: Objects, change: Callable[[Object], Object | None]) -> Objects | None:
    sources = [change(one["spec"]["source"]) if one["kind"] == "Application" else None for one in objects]
    if not any(sources):
        return None
    pairs = zip(objects, sources, strict=True)
    return tuple(one | {"spec": one["spec"] | {"source": source}} if source else one for one, source in pairs)


def several_sources(objects: Objects, _: Random) -> Objects | None:
    """The source of an Application as the second of several."""
    first = {"repoURL": "https://github.com/example/manifests", "path": "values", "targetRevision": "main"}
    return _each_application(
        objects, lambda one: one | {"spec": _without(one["spec"]) | {"sources": [first, one["spec"]["source"]]}}
    )


def application_set(objects: Objects, _: Random) -> Objects | None:
    """An Application as the template of an ApplicationSet."""

    def change(one: Object) -> Object:
        template = {"metadata": {"name": "train"}, "spec": one["spec"]}
        generators = [{"list": {"elements": [{"cluster": "home"}]}}]
        return one | {"kind": "ApplicationSet", "spec": {"generators": generators, "template": template}}

    return _each_application(objects, change)


def _without(body: Object) -> Object:
    return {key: value for key, value in body.items() if key != "source"}


def _each_application(objects: Objects, change: Callable[[Object], Object]) -> Objects | None:
    if not any(one["kind"] == "Application" for one in objects):
        return None
    return tuple(change(one) if one["kind"] == "Application" else one for one in objects)


def requoted(objects: Objects, chance: Random) -> Objects | None:
    """Each quantity in another of the forms that Kubernetes reads as the same number."""
    copied = copy.deepcopy(objects)
    changed = False
    for holder in _tables(copied):
        amounts = [inner for key, inner in holder.items() if key in ("limits", "requests", "hard") and isinstance(inner, dict)]
        for table, keys in ((holder, holder.keys() & {"nominalQuota"}), *((amount, amount.keys()) for amount in amounts)):
            for key in sorted(keys):
                number = quantity(table[key])
                if number:
                    table[key], changed = chance.choice(_forms(number)), True
    return copied if changed else None


def _forms(number: Fraction | float) -> list[Any]:
    """Texts of a quantity (apimachinery, pkg/api/resource/quantity.go: a sign, digits, then a suffix or an exponent)."""
    exact = Fraction(number)
    if exact.denominator != 1:
        return [f"{exact * 1000}m"] if (exact * 1000).denominator == 1 else [str(number)]
    whole = exact.numerator
    return [str(whole), f"{whole}e0", f"{whole}000m", f"{whole}.0", f"+{whole}", f"{whole}0E-1"]


MUTATORS: dict[str, Mutator] = {
    "own-kind": own_kind,
    "other-kind": other_kind,
    "renamed": renamed,
    "serving-name": serving_name,
    "sidecar": sidecar,
    "init-container": init_container,
    "split-tolerations": split_tolerations,
    "split-replicas": split_replicas,
    "as-list": as_list,
    "pod-level": pod_level,
    "values-as-text": values_as_text,
    "several-sources": several_sources,
    "application-set": application_set,
    "other-version": other_version,
    "data-of-secret": data_of_secret,
    "requoted": requoted,
}
"""Those of manifests."""


def mutated(case: Manifest, name: str) -> Manifest | None:
    """The case in another form; None if it has nothing for this mutator."""
    if isinstance(case.objects, str):
        return None
    chance = Random(f"{case.id} {name}")  # noqa: S311 - no secret
    objects = MUTATORS[name](case.objects, chance)
    return None if objects is None or objects == case.objects else replace(case, id=f"{case.id}~{name}", objects=objects)


# -- programs ----------------------------------------------------------------------------------------------------------


def _values(case: Cloud, change: Callable[[Any], Any]) -> Cloud | None:
    """The case with other values; None if none changes."""
    parts = tuple(
        replace(part, props=change(part.props)) if isinstance(part, Add) else replace(part, value=change(part.value))
        for part in case.parts
    )
    return None if parts == case.parts else replace(case, parts=parts)


def other_name(case: Cloud) -> Cloud | None:
    """Another logical name of an added resource."""
    parts = tuple(replace(part, name=f"usw2-gpu-{part.name}") if isinstance(part, Add) else part for part in case.parts)
    return None if parts == case.parts else replace(case, parts=parts)


def as_text(case: Cloud) -> Cloud | None:
    """Numbers and flags as texts: providers read both."""
    words = {True: "true", False: "false"}

    def change(value: Any) -> Any:
        return words[value] if isinstance(value, bool) else str(value) if isinstance(value, int | float) else value

    return _values(case, lambda value: deep(value, change))


def documents_in_other_form(case: Cloud) -> Cloud | None:
    """Policies of IAM with one statement as an object, single actions as a list, and spaces."""

    def change(value: Any) -> Any:
        if not (isinstance(value, str) and value.startswith('{"Version"')):
            return value
        document = json.loads(value)
        (statement, *more) = document["Statement"]
        listed = {
            key: [inner] if key in ("Action", "Resource") and isinstance(inner, str) else inner
            for key, inner in statement.items()
        }
        return json.dumps(document | {"Statement": [listed, *more] if more else listed}, indent=2)

    return _values(case, lambda value: deep(value, change))


def halves(case: Cloud) -> Cloud | None:
    """The whole internet as two halves."""

    def change(value: Any) -> Any:
        if isinstance(value, list) and "0.0.0.0/0" in value:
            return [*(one for one in value if one != "0.0.0.0/0"), "0.0.0.0/1", "128.0.0.0/1"]
        return value

    parts: list[Add | Edit] = []
    for part in case.parts:
        if isinstance(part, Add) and "0.0.0.0/0" in part.props.values():
            for number, half in enumerate(("0.0.0.0/1", "128.0.0.0/1")):
                props = {key: half if value == "0.0.0.0/0" else value for key, value in part.props.items()}
                parts.append(replace(part, props=props, name=f"{part.name}-{number}"))
        else:
            parts.append(replace(part, value=change(part.value)) if isinstance(part, Edit) else part)
    return None if tuple(parts) == case.parts else replace(case, parts=tuple(parts))


def below_component(case: Cloud) -> Cloud | None:
    """An added resource as the child of one of our components."""
    parts = tuple(replace(part, below="us.*-autoscaler$") if isinstance(part, Add) else part for part in case.parts)
    return None if parts == case.parts else replace(case, parts=parts)


def as_patch(case: Cloud) -> Cloud | None:
    """An object of Kubernetes by the Patch of its kind."""
    parts = tuple(
        replace(part, token=f"{part.token}Patch")
        if isinstance(part, Add) and part.token.startswith("kubernetes:") and not part.token.endswith("Patch")
        else part
        for part in case.parts
    )
    return None if parts == case.parts else replace(case, parts=parts)


OF_PROGRAMS: dict[str, Callable[[Cloud], Cloud | None]] = {
    "other-name": other_name,
    "as-text": as_text,
    "documents-in-other-form": documents_in_other_form,
    "halves": halves,
    "as-patch": as_patch,
    "below-component": below_component,
}
"""Mutators of changes of a program. They leave nothing to chance. Objects of Kubernetes also have those of manifests."""


def _of_objects(case: Cloud, name: str) -> Cloud | None:
    """The objects of Kubernetes that a change adds, by a mutator of manifests."""
    objects = tuple(part.props for part in case.parts if isinstance(part, Add) and {"apiVersion", "kind"} <= part.props.keys())
    if len(objects) < len(case.parts):
        return None
    others = MUTATORS[name](objects, Random(f"{case.id} {name}"))  # noqa: S311 - no secret
    if others is None or others == objects:
        return None
    return replace(case, parts=tuple(replace(added(one), name=f"evasion-{number}") for number, one in enumerate(others)))


def mutated_program(case: Cloud, name: str) -> Cloud | None:
    """The case in another form; None if it has nothing for this mutator."""
    other = OF_PROGRAMS[name](case) if name in OF_PROGRAMS else _of_objects(case, name)
    return None if other is None else replace(other, id=f"{case.id}~{name}")
