"""gpu-dra-claims-bounded: a claim for GPUs by dynamic resource allocation (DRA) asks for a small, fixed number.

Judged: ResourceClaims and ResourceClaimTemplates of every API version, their Patch variants and lists, and the number of claims
of a pod. A pod spec has the names of its claims, but not what they ask for. A template creates one claim for each name, so the
rule counts names.

A request asks for a device class: directly (v1alpha3, v1beta1), under `exactly` (v1beta2, v1), or as alternatives under
`firstAvailable`, of which the largest counts. The default count is 1. Claims of v1alpha1 and v1alpha2 have a class and no count.
A DeviceClass may select GPUs under any name, so only the listed names may be declared.
"""

from .exceptions import matches
from .kinds import PODS, api_tokens, each, kind_of, may_have_pods
from .pods import PodSpec, pod_specs
from .read import Data, Faults, Found, Later, bound, count, entries, strings, text, walk, whole
from .rule import Args, Rule, facts, said

_VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1")
_SPEC = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}
CLAIMS, CLASSES = (api_tokens("resource.k8s.io", _VERSIONS, kinds, ("", "Patch", "List")) for kinds in (_SPEC, ("DeviceClass",)))


def _check(args: Args, later: Later) -> Faults:
    classes, most = strings(args.config, "deviceClasses"), bound(args.config, "maxCount")
    if args.type.startswith("kubernetes:resource.k8s.io/") and kind_of(args.type) == "DeviceClass":
        for prefix, made in each(args.type, args.props, later):
            if not _of_gpus(name := text(later.walk(made, "metadata", "name")), classes):
                yield said("other_class", prefix=prefix, name=name)
        return
    if args.type not in CLAIMS:
        for pod in pod_specs(args.type, args.props, later):
            yield from _pod_faults(pod, bound(args.config, "maxClaims"), later)
        return
    path = _SPEC[kind_of(args.type)]
    for prefix, claim in each(args.type, args.props, later):
        with later:
            yield from _claim_faults(prefix + ".".join(path), walk(claim, *path), classes, most, later)


def _pod_faults(pod: PodSpec, most: int, later: Later) -> Faults:
    if (claims := count(later.walk(pod.spec, "resourceClaims"))) > most:
        yield said("many_claims", pod=pod, claims=claims, most=most)


def _of_gpus(name: str, classes: tuple[str, ...]) -> bool:
    """Whether devices of this class are GPUs."""
    return name != "" and any(matches(pattern, name) for pattern in classes)


def _claim_faults(path: str, spec: Data, classes: tuple[str, ...], most: int, later: Later) -> Faults:
    if _of_gpus(name := text(later.walk(spec, "resourceClassName")), classes):
        yield said("uncounted_claim", path=path, name=name)
    total, faults = 0, list[str]()
    for inner, request in entries(spec, "devices.requests", later):
        forms = _alternatives(f"{path}.{inner}", request, later)
        total += max((_asked(place, body, classes, most, faults, later) for place, body in forms), default=0)
    yield from faults
    if total > most and not faults:
        yield said("large_claim", path=path, total=total, most=most)


def _alternatives(path: str, request: Data, later: Later) -> Found:
    """Path and body of each form that a request may have."""
    yield path, request
    yield f"{path}.exactly", later.walk(request, "exactly")
    yield from ((f"{path}.{inner}", body) for inner, body in entries(request, "firstAvailable", later))


def _asked(path: str, body: Data, classes: tuple[str, ...], most: int, faults: list[str], later: Later) -> int:
    """The least number of GPUs that one form of a request asks for. Its faults are added to `faults`."""
    if not _of_gpus(text(later.walk(body, "deviceClassName")), classes):
        return 0
    if text(later.walk(body, "allocationMode")) == "All":
        faults.append(f'{path}.allocationMode is "All": a claim must ask for a number of GPUs; write ExactCount')
        return 1
    amount = later.walk(body, "count")
    if (number := max(whole(amount) or 1, 1)) > most:
        faults.append(said("large_request", path=path, amount=amount, most=most))
    return number


RULE = Rule(**facts(__name__), types=CLAIMS | PODS, others=may_have_pods, check=_check)
