"""gpu-cpu-memory-limits: each amount taken away, made too small, or outgrown by a memory volume."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.gpu_cpu_memory_limits import RULE
from tests.policies.cases import Case
from tests.policies.fixtures import CPU_POD, GPU, POD, pod
from tests.policies.harness import CLEAN, REMOVE, Verdict, changed, config_of, judge, said, spelled
from tests.policies.suite import Suite, in_pods

SIZED: dict[str, Any] = {
    "containers": [
        {"name": "proxy", "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]},
        {
            "name": "runner",
            "resources": {
                "requests": {"cpu": 4, "memory": "16Gi", "ephemeral-storage": "10Gi", GPU: 1},
                "limits": {"cpu": 8, "memory": "32Gi", GPU: "1"},
            },
            "volumeMounts": [{"name": "work", "mountPath": "/work"}, {"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108
        },
    ],
    "volumes": [
        {"name": "work", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
        {"name": "cache", "emptyDir": {"medium": "Memory"}},
    ],
}
RESOURCES = ("containers", 1, "resources")
SHM = ("volumes", 1, "emptyDir")


def unbounded(shown: str, path: str = "spec") -> str:
    return f"{path}.containers[1].resources.limits.memory is {shown}: a GPU container needs a memory limit; write one above 0"


def unasked(name: str, shown: str = "not set") -> str:
    return (
        f"spec.containers[1].resources.requests.{name} is {shown}: a GPU container must request CPU, memory and disk, "
        "or the node can run out of them; write a quantity above 0"
    )


def small(shown: str, gib: str, least: str, path: str = "spec") -> str:
    return (
        f"{path}.containers[1].resources.requests.memory is {shown}: at least {gib} GiB per GPU "
        f"({config_of(RULE.id, 'minMemGiPerGpu')}); write {least}Gi or more"
    )


def outgrown(shown: str) -> str:
    return (
        f"spec.volumes[1].emptyDir.sizeLimit is {shown}: a memory volume counts against the memory limit of containers[1], "
        '"32Gi"; write a quantity of at most that'
    )


def judged(spec: dict[str, Any], unknown: tuple[str | int, ...] = (), **config: Any) -> Verdict:
    return judge(RULE, POD, pod(spec), config, ("spec", *unknown) if unknown else ())


def test_a_container_that_says_all_passes() -> None:
    assert judged(SIZED) == CLEAN
    assert judged(CPU_POD) == CLEAN


@pytest.mark.parametrize(("amount", "shown"), [(REMOVE, "not set"), (0, "0"), ("much", '"much"'), (-1, "-1"), ([], "a list")])
def test_memory_has_a_limit(amount: Any, shown: str) -> None:
    assert judged(changed(SIZED, *RESOURCES, "limits", "memory", amount)) == said(unbounded(shown))


@pytest.mark.parametrize("name", ["cpu", "memory", "ephemeral-storage"])
@pytest.mark.parametrize(("amount", "shown"), [("0", '"0"'), ("some", '"some"'), (True, "true")])
def test_cpu_memory_and_disk_are_asked_for(name: str, amount: Any, shown: str) -> None:
    assert judged(changed(SIZED, *RESOURCES, "requests", name, amount)) == said(unasked(name, shown))


def test_a_request_that_is_absent_is_its_limit() -> None:
    for name in ("cpu", "memory"):
        assert judged(changed(SIZED, *RESOURCES, "requests", name, REMOVE)) == CLEAN
    bare = changed(SIZED, *RESOURCES, "requests", "ephemeral-storage", REMOVE)
    assert judged(bare) == said(unasked("ephemeral-storage"))
    assert judged(changed(bare, *RESOURCES, "limits", "ephemeral-storage", "20Gi")) == CLEAN


def test_all_that_is_missing_is_told() -> None:
    bare = changed(SIZED, *RESOURCES, {"limits": {GPU: 1}})
    assert judged(bare) == said(unbounded("not set"), unasked("cpu"), unasked("memory"), unasked("ephemeral-storage"))


@pytest.mark.parametrize(("amount", "gib", "least"), [("3Gi", "4", "4"), ("4G", "4", "4"), (2**32 - 1, "4", "4")])
def test_memory_is_at_least_four_gib_a_gpu(amount: Any, gib: str, least: str) -> None:
    found = judged(changed(SIZED, *RESOURCES, "requests", "memory", amount))
    shown = f'"{amount}"' if isinstance(amount, str) else str(amount)
    assert found == said(small(shown, gib, least))
    assert judged(changed(SIZED, *RESOURCES, "requests", "memory", "4Gi")) == CLEAN


def test_more_gpus_take_more_memory() -> None:
    four = changed(changed(SIZED, *RESOURCES, "limits", GPU, 4), *RESOURCES, "requests", GPU, 4)
    assert judged(four) == CLEAN
    assert judged(four, minMemGiPerGpu=4.5) == said(small('"16Gi"', "4.5", "18"))
    unknown = ("spec", *RESOURCES, "limits", GPU)
    assert judge(RULE, POD, pod(four), unknown=unknown) == said(unknown=spelled(unknown)), "there may be more"


@pytest.mark.parametrize(("size", "shown"), [(REMOVE, "not set"), ("33Gi", '"33Gi"'), (0, "0"), ("big", '"big"')])
def test_a_memory_volume_fits_the_memory_limit(size: Any, shown: str) -> None:
    assert judged(changed(SIZED, *SHM, "sizeLimit", size)) == said(outgrown(shown))


def test_a_memory_volume_of_another_container_or_on_disk_is_not_judged() -> None:
    assert judged(changed(SIZED, "volumes", 1, "name", "other")) == CLEAN
    assert judged(changed(SIZED, *SHM, {"sizeLimit": "99Gi"})) == CLEAN
    assert judged(changed(SIZED, *SHM, "medium", "HugePages")) == CLEAN


def test_a_volume_is_measured_against_a_limit_that_there_is() -> None:
    spec = changed(changed(SIZED, *SHM, "sizeLimit", "99Gi"), *RESOURCES, "limits", "memory", REMOVE)
    assert judged(spec) == said(unbounded("not set"))


def test_unknown_amounts_are_not_taken_for_absent_ones() -> None:
    for needed in ((*RESOURCES, "limits", "memory"), (*RESOURCES, "requests", "cpu"), (*SHM, "sizeLimit"), (*SHM, "medium")):
        assert judged(SIZED, needed) == said(unknown=spelled(("spec", *needed)))
    late = changed(SIZED, *SHM, "sizeLimit", "99Gi")
    path = ("containers", 1, "volumeMounts", 0, "name")
    assert judged(late, path).messages == (outgrown('"99Gi"'),), "another mount is the one"
    path = ("containers", 1, "volumeMounts", 1, "name")
    assert judged(late, path) == said(unknown=spelled(("spec", *path)))
    assert judged(SIZED, ("containers", 1, "volumeMounts")) == said(unknown="spec.containers[1].volumeMounts"), (
        "the cache, perhaps"
    )
    small_ones = changed(SIZED, "volumes", 2, REMOVE)
    assert judged(small_ones, ("containers", 1, "volumeMounts")) == CLEAN, "whatever it mounts is small enough"


def test_what_a_container_without_gpu_takes_does_not_matter() -> None:
    assert judged(SIZED, ("containers", 0, "volumeMounts")) == CLEAN
    assert judged(changed(SIZED, "containers", 0, "resources", {"requests": {"memory": 1}})) == CLEAN


def test_a_share_or_a_slice_is_a_gpu_too() -> None:
    resources = {"limits": {"nvidia.com/mig-1g.5gb": 1, "memory": "8Gi", "cpu": 1, "ephemeral-storage": 1}}
    assert judged(changed(SIZED, *RESOURCES, resources)) == CLEAN
    assert judged(changed(SIZED, *RESOURCES, changed(resources, "limits", "cpu", 0))) == said(unasked("cpu", "0"))


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(SIZED),
        Case(POD, pod(changed(SIZED, *RESOURCES, "requests", "memory", "1Gi")), config={"minMemGiPerGpu": 1}),
    ),
    violating=(
        *in_pods(changed(SIZED, *RESOURCES, "limits", "memory", REMOVE), unbounded("not set", "{pod}")),
        *in_pods(changed(SIZED, *RESOURCES, "requests", "memory", "2Gi"), small('"2Gi"', "4", "4", "{pod}"), tokens=[POD]),
        Case(POD, pod(SIZED), (small('"16Gi"', "32", "32"),), {"minMemGiPerGpu": 32}),
        Case(POD, pod(changed(SIZED, *SHM, "sizeLimit", REMOVE)), (outgrown("not set"),)),
    ),
)
