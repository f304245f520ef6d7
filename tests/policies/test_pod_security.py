"""What levels `baseline` and `restricted` of Pod Security refuse. `tests/kwok` compares them with the API server itself."""

from __future__ import annotations

from typing import Any

import pytest

from policies.rules.pod_security import BASELINE, RESTRICTED
from policies.rules.pods import PodSpec
from policies.rules.read import Later
from tests.policies.harness import changed
from tests.policies.pods_of_levels import SPEC, of_level

CONTAINER, CONTEXT = ("containers", 0), ("containers", 0, "securityContext")
PROBE = {"httpGet": {"host": "10.0.0.1"}}


def refused(spec: dict[str, Any], annotations: dict[str, str] | None = None) -> tuple[set[str], set[str]]:
    """The controls that refuse a pod at each level."""
    pod = PodSpec("spec", spec, annotations=annotations)
    baseline, restricted = ({control for control, _ in of_level(pod, level, Later())} for level in (BASELINE, RESTRICTED))
    return baseline, restricted


def test_a_confined_pod_passes_every_level() -> None:
    assert refused(SPEC) == (set(), set())


@pytest.mark.parametrize(
    ("path", "value", "control"),
    [
        *(((flag,), True, "hostNamespaces") for flag in ("hostNetwork", "hostPID", "hostIPC")),
        (("volumes",), [{"name": "a", "hostPath": {"path": "/"}}], "hostPathVolumes"),
        (("securityContext", "sysctls"), [{"name": "kernel.msgmax"}], "sysctls"),
        *(((*at, "seccompProfile"), {"type": "Unconfined"}, "seccompProfile") for at in (("securityContext",), CONTEXT)),
        *(((*at, "appArmorProfile"), {"type": "Unconfined"}, "appArmorProfile") for at in (("securityContext",), CONTEXT)),
        *(((*CONTEXT, "seLinuxOptions"), {key: "spc_t"}, "seLinuxOptions") for key in ("type", "user", "role")),
        ((*CONTEXT, "procMount"), "Unmasked", "procMount"),
        ((*CONTEXT, "windowsOptions"), {"hostProcess": True}, "windowsHostProcess"),
        ((*CONTEXT, "privileged"), True, "privileged"),
        ((*CONTEXT, "capabilities"), {"drop": ["ALL"], "add": ["SYS_ADMIN"]}, "capabilities"),
        ((*CONTAINER, "ports"), [{"containerPort": 80, "hostPort": 80}], "hostPorts"),
        ((*CONTAINER, "livenessProbe"), PROBE, "hostProbesAndHostLifecycle"),
        ((*CONTAINER, "lifecycle"), {"preStop": PROBE}, "hostProbesAndHostLifecycle"),
    ],
)
def test_level_baseline_refuses_what_reaches_the_node(path: tuple[str | int, ...], value: Any, control: str) -> None:
    baseline, restricted = refused(changed(SPEC, *path, value))
    assert (baseline, control in restricted) == ({control}, True)


@pytest.mark.parametrize(
    ("path", "value", "control"),
    [
        ((*CONTEXT, "allowPrivilegeEscalation"), None, "allowPrivilegeEscalation"),
        ((*CONTEXT, "capabilities"), {"drop": ["KILL"]}, "capabilities"),
        ((*CONTEXT, "capabilities"), {"drop": ["ALL"], "add": ["CHOWN"]}, "capabilities"),
        ((*CONTEXT, "runAsNonRoot"), None, "runAsNonRoot"),
        (("securityContext", "runAsNonRoot"), False, "runAsNonRoot"),
        ((*CONTEXT, "runAsUser"), 0, "runAsUser"),
        ((*CONTEXT, "seccompProfile"), None, "seccompProfile"),
        (("volumes",), [{"name": "a", "nfs": {"server": "10.0.0.1"}}], "restrictedVolumes"),
    ],
)
def test_level_restricted_refuses_more(path: tuple[str | int, ...], value: Any, control: str) -> None:
    assert refused(changed(SPEC, *path, value)) == (set(), {control})


def test_a_user_namespace_relaxes_what_it_confines() -> None:
    spec = changed(changed(SPEC | {"hostUsers": False}, *CONTEXT, "runAsUser", 0), *CONTEXT, "procMount", "Unmasked")
    assert refused(spec) == (set(), {"procMount"})


def test_the_annotation_of_older_versions_counts() -> None:
    name = "container.apparmor.security.beta.kubernetes.io/a"
    assert refused(SPEC, {name: "unconfined"}) == ({"appArmorProfile"}, {"appArmorProfile"})
    assert refused(SPEC, {name: "localhost/a"}) == (set(), set())


def test_a_container_of_a_debugger_is_one_of_the_pod() -> None:
    debugger = {"name": "debug", "image": "a:1", "securityContext": {"privileged": True}}
    assert refused(SPEC | {"ephemeralContainers": [debugger]})[0] == {"privileged"}
