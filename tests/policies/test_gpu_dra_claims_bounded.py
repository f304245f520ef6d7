"""gpu-dra-claims-bounded: every way to write a claim, in every API version, and pods with several claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulumi_kubernetes
import pytest

from policies.rules.gpu_dra_claims_bounded import CLAIMS, RULE
from tests.policies.cases import Case
from tests.policies.fixtures import GPU_POD, POD, pod
from tests.policies.harness import CLEAN, Verdict, changed, config_of, judge, said, spelled
from tests.policies.suite import Suite, in_pods

CLASS = "gpu.nvidia.com"
CLAIM = "kubernetes:resource.k8s.io/v1:ResourceClaim"
TEMPLATE = "kubernetes:resource.k8s.io/v1:ResourceClaimTemplate"
OLD = ("v1alpha1", "v1alpha2")
FLAT = ("v1alpha3", "v1beta1")


def asking(**fields: Any) -> dict[str, Any]:
    return {"deviceClassName": CLASS, **fields}


def devices(*requests: dict[str, Any]) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": f"r{number}", **request} for number, request in enumerate(requests)]}}


def exactly(**fields: Any) -> dict[str, Any]:
    return {"exactly": asking(**fields)}


def held(token: str, spec: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The claim as the kind of `token` holds it, and where its spec is."""
    template = "Template" in token
    props = {"spec": {"spec": spec} if template else spec}
    path = "spec.spec" if template else "spec"
    return ({"items": [props]}, f"items[0].{path}") if token.endswith("List") else (props, path)


def written(token: str, number: int, name: str = CLASS) -> tuple[dict[str, Any], str]:
    """A claim for so many devices in the words of the API version of `token`, and where it asks for them."""
    body = {"deviceClassName": name, "count": number}
    request = body if version(token) in FLAT else {"exactly": body}
    props, path = held(token, devices(request))
    return props, f"{path}.devices.requests[0]{'' if request is body else '.exactly'}.count"


def version(token: str) -> str:
    return token.split(":")[1].rpartition("/")[2]


def old(token: str) -> bool:
    return version(token) in OLD


def too_many(path: str, shown: Any, most: int = 1) -> str:
    return f"{path} is {shown}: at most {most} GPUs per claim ({config_of(RULE.id, 'maxCount')}); ask for fewer"


def in_all(number: int, path: str = "spec", most: int = 1) -> str:
    bound = config_of(RULE.id, "maxCount")
    return f"{path}.devices.requests ask for {number} GPUs in all: a claim has at most {most} ({bound}); ask for fewer"


def all_of_them(path: str) -> str:
    return f'{path}.allocationMode is "All": a claim must ask for a number of GPUs; write ExactCount'


def uncounted(path: str, name: str = CLASS) -> str:
    return (
        f'{path}.resourceClassName is "{name}": claims of this API version have no count; '
        "use resource.k8s.io/v1 and its exactly.count"
    )


def claims(number: int, path: str = "spec", most: int = 1) -> str:
    return (
        f"{path}.resourceClaims has {number} entries: each is a separate claim, and a pod may have {most} "
        f"({config_of(RULE.id, 'maxClaims')}); claim fewer"
    )


def claiming(number: int) -> dict[str, Any]:
    entries = [{"name": f"c{index}", "resourceClaimTemplateName": "gpu"} for index in range(number)]
    return {"containers": [{"name": "a", "resources": {"claims": [{"name": "c0"}]}}], "resourceClaims": entries}


def judged(spec: dict[str, Any], unknown: tuple[str | int, ...] = (), **config: Any) -> Verdict:
    return judge(RULE, CLAIM, {"spec": spec}, config, unknown)


def test_the_tokens_are_all_that_the_sdk_has() -> None:
    folder = Path(str(pulumi_kubernetes.__file__)).parent / "resource"
    names = ("ResourceClaim", "ResourceClaimTemplate")
    suffixes = ("", "Patch", "List")
    wanted = {f"{name}{suffix}.py" for name in names for suffix in suffixes}
    there = {
        f"kubernetes:resource.k8s.io/{file.parent.name}:{file.stem}" for file in folder.glob("*/*.py") if file.name in wanted
    }
    assert there == CLAIMS


def test_only_a_listed_class_may_be_declared() -> None:
    made = "kubernetes:resource.k8s.io/v1:DeviceClass"
    told = (
        f'metadata.name is "fast": nothing counts claims by a class that {config_of(RULE.id, "deviceClasses")} does not list; '
        "use a class of the driver, or list it"
    )
    assert judge(RULE, made, {"metadata": {"name": "fast"}}) == said(told)
    assert judge(RULE, made, {"metadata": {"name": "gpu.nvidia.com"}}) == CLEAN
    assert judge(RULE, made, {"metadata": {"name": "fast"}}, {"deviceClasses": ["fast"]}) == CLEAN


@pytest.mark.parametrize("request_", [exactly(), exactly(count=1), exactly(allocationMode="ExactCount", count=1.0), asking()])
def test_one_gpu_passes_however_it_is_asked_for(request_: dict[str, Any]) -> None:
    assert judged(devices(request_)) == CLEAN


def test_more_than_one_is_told_where_it_stands() -> None:
    assert judged(devices(exactly(count=2))) == said(too_many("spec.devices.requests[0].exactly.count", 2))
    assert judged(devices(asking(count=2))) == said(too_many("spec.devices.requests[0].count", 2))
    alternatives = {"firstAvailable": [asking(), asking(count=3)]}
    assert judged(devices(alternatives)) == said(too_many("spec.devices.requests[0].firstAvailable[1].count", 3))


def test_all_devices_are_no_number() -> None:
    path = "spec.devices.requests[0]"
    assert judged(devices(exactly(allocationMode="All"))) == said(all_of_them(f"{path}.exactly"))
    assert judged(devices({"firstAvailable": [asking(allocationMode="All")]})) == said(all_of_them(f"{path}.firstAvailable[0]"))
    assert judged(devices(exactly(allocationMode="All", adminAccess=True))) == said(all_of_them(f"{path}.exactly"))


def test_requests_of_one_claim_count_together_and_alternatives_by_the_largest() -> None:
    assert judged(devices(exactly(), exactly())) == said(in_all(2))
    alternatives = {"firstAvailable": [asking(), asking(count=2)]}
    assert judged(devices(alternatives), maxCount=2) == CLEAN
    assert judged(devices(alternatives, exactly()), maxCount=2) == said(in_all(3, most=2))


@pytest.mark.parametrize("name", ["mig.nvidia.com", "gpu.amd.com", "gpu.intel.com"])
def test_every_class_of_gpus_counts(name: str) -> None:
    assert len(judged(devices({"exactly": {"deviceClassName": name, "count": 2}})).messages) == 1


@pytest.mark.parametrize("name", ["nics.example.com", "nvidia.com.example.org", "", None])
def test_other_devices_do_not(name: str | None) -> None:
    body = {"deviceClassName": name, "count": 9, "allocationMode": "All"}
    assert judged(devices({"exactly": body})) == CLEAN
    assert judged(devices({"exactly": body}), deviceClasses=["*"]) == (
        CLEAN if not name else said(all_of_them("spec.devices.requests[0].exactly"))
    )


def test_classes_are_configurable() -> None:
    body = {"exactly": {"deviceClassName": "a100.example.com", "count": 2}}
    path = "spec.devices.requests[0].exactly.count"
    assert judged(devices(body), deviceClasses=["*.example.com"]) == said(too_many(path, 2))


@pytest.mark.parametrize("version", OLD)
@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_claims_without_a_count_are_told_to_move(version: str, kind: str) -> None:
    token = f"kubernetes:resource.k8s.io/{version}:{kind}"
    props, path = held(token, {"resourceClassName": CLASS, "allocationMode": "WaitForFirstConsumer"})
    assert judge(RULE, token, props) == said(uncounted(path))


def test_a_pod_makes_one_claim() -> None:
    assert judge(RULE, POD, pod(claiming(1))) == CLEAN
    assert judge(RULE, POD, pod(claiming(2))) == said(claims(2))
    assert judge(RULE, POD, pod(claiming(2)), {"maxClaims": 2}) == CLEAN
    assert judge(RULE, POD, pod(claiming(2)), unknown=("spec", "resourceClaims", 0)).messages == (claims(2),)
    assert judge(RULE, POD, pod(claiming(1)), unknown=("spec", "resourceClaims")) == said(unknown="spec.resourceClaims")


def test_an_unknown_class_or_count_leaves_it_open_unless_the_rest_tells() -> None:
    spec = devices(exactly(count=1))
    for field in ("deviceClassName", "count"):
        path = ("spec", "devices", "requests", 0, "exactly", field)
        assert judged(spec, path) == said(unknown=spelled(path))
    path = ("spec", "devices", "requests", 0, "exactly", "count")
    found = judged(devices(exactly(count=1), exactly(count=1)), path)
    assert found.messages == (in_all(2),), "each asks for one at least"
    path = ("spec", "devices", "requests", 0, "exactly", "allocationMode")
    assert judged(devices(exactly(count=4)), path).messages == (too_many("spec.devices.requests[0].exactly.count", 4),)


def test_a_bound_that_is_none_leaves_the_default() -> None:
    assert len(judged(devices(exactly(count=2)), maxCount="many", maxClaims=[]).messages) == 1


SUITE = Suite(
    RULE,
    passing=(
        *in_pods(claiming(1)),
        Case(POD, pod(GPU_POD)),
        *(Case(token, written(token, 1)[0]) for token in sorted(CLAIMS) if not old(token)),
        *(Case(token, held(token, {"resourceClassName": "nics.example.com"})[0]) for token in sorted(CLAIMS) if old(token)),
        Case(CLAIM, written(CLAIM, 4)[0], config={"maxCount": 4}),
        Case(POD, pod(claiming(2)), config={"maxClaims": 2}),
        Case(CLAIM, written(CLAIM, 4)[0], config={"deviceClasses": ["a100.example.com"]}),
    ),
    violating=(
        *in_pods(claiming(2), claims(2, "{pod}")),
        *(Case(token, written(token, 2)[0], (too_many(written(token, 2)[1], 2),)) for token in sorted(CLAIMS) if not old(token)),
        *(
            Case(token, held(token, {"resourceClassName": CLASS})[0], (uncounted(held(token, {})[1]),))
            for token in sorted(CLAIMS)
            if old(token)
        ),
        Case(TEMPLATE, changed(held(TEMPLATE, devices(exactly(), exactly()))[0], "metadata", {}), (in_all(2, "spec.spec"),)),
        Case(
            CLAIM,
            {"spec": devices({"firstAvailable": [asking(), asking(allocationMode="All")]})},
            (all_of_them("spec.devices.requests[0].firstAvailable[1]"),),
        ),
    ),
)
