"""Evasions are objects that an API server takes, and other forms of them, too: what it refuses would prove nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from fleet.facts.quantities import quantity
from tests.builders import reference
from tests.policies.evasions import cloud, manifests, pod_kinds
from tests.policies.evasions.mutators import MUTATORS, OF_PROGRAMS, OTHER_VERSIONS, deep, mutated, mutated_program
from tests.policies.evasions.objects import Object

MINOR = "1.36"
GONE = {version for (_, now), others in OTHER_VERSIONS.items() if "." not in now for version in others}
"""API versions that no API server of this minor serves any more. A check reads them all the same."""
CASES = (*pod_kinds.CASES, *manifests.CASES)


def forms() -> Iterator[tuple[str, Object]]:
    """Each object of the cases and of their other forms, with the id of the case. Of many equal objects it has the first."""
    for case in CASES:
        for form in (case, *filter(None, (mutated(case, name) for name in MUTATORS))):
            objects = [yaml.safe_load(form.objects)] if isinstance(form.objects, str) else form.objects[:3]
            yield from ((form.id, single) for one in objects for single in singles(one))


def singles(one: Object) -> Iterator[Object]:
    """The items of a list, in it or deeper; else the object itself."""
    if "items" not in one:
        yield one
    for item in one.get("items", ()):
        typed = {} if one["kind"] == "List" else {"apiVersion": one["apiVersion"], "kind": one["kind"].removesuffix("List")}
        yield from singles(typed | item)


def is_of_kubernetes(version: str) -> bool:
    group = version.rpartition("/")[0]
    return "." not in group or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))


def test_each_mutator_changes_some_case() -> None:
    unused = [name for name in MUTATORS if not any(mutated(case, name) for case in CASES)]
    unused += [name for name in OF_PROGRAMS if not any(mutated_program(case, name) for case in cloud.CASES)]
    assert not unused


def test_a_requoted_quantity_is_the_same_number() -> None:
    pairs = [(case, mutated(case, "requoted")) for case in CASES]
    numbers = [(numbers_of(case.objects), numbers_of(form.objects)) for case, form in pairs if form]
    assert numbers
    assert all(before == after for before, after in numbers)


def numbers_of(value: Any) -> list[Any]:
    """Each scalar, a quantity as its number."""
    scalars: list[Any] = []
    deep(list(value), lambda one: scalars.append(quantity(one) or one))
    return scalars


def test_objects_of_kubernetes_have_the_fields_of_its_api() -> None:
    judged = 0
    for name, one in forms():
        if is_of_kubernetes(one["apiVersion"]) and one["apiVersion"] not in GONE:
            try:
                kubernetes_validate.validate(one, MINOR, strict=True)
            except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
                pytest.fail(f"{name}: {error}")
            judged += 1
    assert judged > len(CASES)


@pytest.mark.reference
def test_objects_of_other_projects_have_the_fields_of_their_crds() -> None:
    judged = set()
    for name, one in forms():
        group, _, version = one["apiVersion"].rpartition("/")
        path = reference(f"schemas/{group}/{one['kind'].lower()}_{version}.json")
        # The project has the CRDs of some of these kinds only.
        if path.exists():
            try:
                jsonschema.Draft202012Validator(json.loads(path.read_text("utf-8"))).validate(one)
            except jsonschema.ValidationError as error:
                pytest.fail(f"{name}: {error.message}")
            judged.add(one["kind"])
    assert judged >= {
        "EphemeralRunner",
        "EphemeralRunnerSet",
        "ScaledJob",
        "RunnerDeployment",
        "Application",
        "ClusterQueue",
        "NodePool",
    }
