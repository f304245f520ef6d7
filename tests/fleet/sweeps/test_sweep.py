"""The objects of a sweep: a confined pod with its own rights and no others, and a loop that survives failures."""

from __future__ import annotations

import io
import json
import ssl
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from fleet.charts.sweeps import NAMESPACE, sweep_pods
from fleet.facts.errors import FleetError
from fleet.facts.scheduling import POD_SECURITY_LABEL, SYSTEM_SELECTOR
from fleet.facts.versions import IMAGES
from fleet.loading.config import load
from fleet.prove.launchers import system_room
from fleet.providers.fleet import Fleet
from fleet.render.sweeps import api
from fleet.render.sweeps.catalogue import sweeps
from fleet.render.sweeps.sweep import home, sweep_objects
from tests.builders import cluster, config, runner, staging
from tests.fleet.test_pod_security import violations


def objects() -> list[dict[str, Any]]:
    return [*home(), *(each for sweep in of_staging() for each in sweep_objects(sweep, SYSTEM_SELECTOR))]


def of_staging() -> tuple[Any, ...]:
    return sweeps(staging().clusters["usw2"])


def kind(name: str) -> list[dict[str, Any]]:
    return [each for each in objects() if each["kind"] == name]


def test_kubernetes_takes_every_object() -> None:
    for each in objects():
        kubernetes_validate.validate(each, "1.34", strict=True)


def test_a_cluster_has_the_sweeps_whose_pods_it_counts() -> None:
    for settings in staging().clusters.values():
        assert [sweep.pod for sweep in sweeps(settings)] == list(sweep_pods(settings))
    assert of_staging()


def test_every_pod_is_confined_and_on_the_system_pool() -> None:
    for each in kind("Deployment"):
        spec = each["spec"]["template"]["spec"]
        assert violations(spec) == []
        (container,) = spec["containers"]
        assert spec["nodeSelector"] == SYSTEM_SELECTOR
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["image"] == IMAGES["python"].reference
        assert "@sha256:" in container["image"]
        assert container["resources"]["limits"].keys() >= {"memory"}
    (space,) = kind("Namespace")
    assert space["metadata"] == {"name": NAMESPACE, "labels": {POD_SECURITY_LABEL: "restricted"}}


def test_a_sweep_may_do_nothing_outside_of_the_namespaces_of_runners() -> None:
    bound = {each["metadata"]["namespace"] for each in kind("RoleBinding")}
    sets = staging().clusters["usw2"].runners
    assert bound == {f"runners-{name}" for name in sets}
    across = {each["metadata"]["name"]: each["rules"] for each in kind("ClusterRole")}
    assert across["runner-reaper"] == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    assert across.keys() == {"runner-reaper", "gpu-quarantine"}
    for binding in (*kind("RoleBinding"), *kind("ClusterRoleBinding")):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": binding["metadata"]["name"], "namespace": NAMESPACE}]


def test_the_only_network_is_the_api_server() -> None:
    (wall,) = kind("NetworkPolicy")
    assert wall["spec"]["ingress"] == []
    assert wall["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert wall["spec"]["egress"] == [{"ports": [{"protocol": "TCP", "port": port} for port in (443, 6443)]}]


def test_other_settings_start_the_pod_again() -> None:
    def marked(fleet: Fleet) -> str:
        (sweep,) = sweeps(fleet.clusters["usw2"])
        made = sweep_objects(sweep, SYSTEM_SELECTOR)[-1]
        return str(made["spec"]["template"]["metadata"]["annotations"]["gpu-ci/config"])

    one, two = (load(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(maxLifetime=each)})})) for each in ("7h", "8h"))
    assert marked(one) != marked(two)


def test_the_system_pool_has_room_for_the_sweeps() -> None:
    def free(fleet: Fleet) -> int:
        return sum(memory for _, memory, _ in system_room("usw2", fleet.clusters["usw2"], fleet.github) or [])

    with_runners, fleet = load(config()), load(config())
    listener = 128
    without = fleet.clusters["usw2"].model_copy(update={"runners": {}})
    fleet = fleet.model_copy(update={"clusters": {"usw2": without}})
    assert free(fleet) - free(with_runners) == listener + sum(pod.memory for pod in sweep_pods(with_runners.clusters["usw2"]))


def test_the_namespace_of_sweeps_is_no_namespace_of_a_team() -> None:
    smi = {"kind": "nvidia-smi", "pool": "t4", "namespace": NAMESPACE}
    with pytest.raises(FleetError, match="belongs to the system"):
        load(config(clusters={"usw2": cluster(workloads={"smi": smi})}))


# -- the loop ----------------------------------------------------------------------------------------------------------


def test_a_failed_pass_is_tried_again_and_many_in_a_row_end_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = iter([OSError("the API server is away")] * 19 + [None] + [ValueError("no JSON")] * 20)
    slept: list[float] = []

    def once() -> None:
        if (error := next(outcomes)) is not None:
            raise error

    with pytest.raises(SystemExit) as ended:
        api.loop(once, 5, slept.append)
    assert ended.value.code == 1
    assert slept == [5] * 40, "19 failures, one success, 20 failures"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[18] == {"error": "OSError: the API server is away", "failures": 19}
    assert lines[19] == {"error": "ValueError: no JSON", "failures": 1}


def test_the_token_is_read_for_each_request_because_kubelet_renews_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    def urlopen(request: Any, **_: Any) -> io.BytesIO:
        sent.append(request.get_header("Authorization"))
        return io.BytesIO(b"{}")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    token = tmp_path / "token"
    caller = api.Api("http://127.0.0.1", token)
    for each in ("first", "second"):
        token.write_text(f"{each}\n")
        caller.call("GET", "/version")
    assert sent == ["Bearer first", "Bearer second"]


def test_the_authority_of_an_eks_cluster_is_trusted_and_the_address_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(cafile: Path) -> ssl.SSLContext:
        """What Python makes from 3.13 on."""
        assert cafile == Path("ca.crt")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    def urlopen(_request: object, context: ssl.SSLContext, **_: object) -> io.BytesIO:
        made.append(context)
        return io.BytesIO(b"{}")

    made: list[ssl.SSLContext] = []
    monkeypatch.setattr("ssl.create_default_context", strict)
    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    api.Api("https://10.100.0.1:443", authority=Path("ca.crt")).call("GET", "/version")
    (context,) = made
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT, "its certificate has no key identifier"
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize(("host", "url"), [("10.100.0.1", "https://10.100.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_the_api_server_is_found_by_its_address(host: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(api, "Api", lambda where, *_: made.append(where))
    api.in_cluster({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"})
    assert made == [url]
