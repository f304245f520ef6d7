"""The objects of a sweep: a confined pod with its own rights and no others, and how it reaches the API server."""

from __future__ import annotations

import io
import ssl
from pathlib import Path
from types import SimpleNamespace
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
from fleet.render.sweeps import api, sweep as catalogue
from fleet.render.sweeps.sweep import home, sweep_objects, sweeps
from tests.builders import ROOT, cluster, config, existing_eks, runner, staging
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


def test_a_sweep_has_rights_in_the_namespaces_of_runners_and_of_their_controller() -> None:
    bound = {each["metadata"]["namespace"] for each in kind("RoleBinding")}
    sets = staging().clusters["usw2"].runners
    assert bound == {f"runners-{name}" for name in sets} | {"arc-systems"}
    for binding in (*kind("RoleBinding"), *kind("ClusterRoleBinding")):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": binding["metadata"]["name"], "namespace": NAMESPACE}]


def test_the_controller_of_an_existing_cluster_may_have_another_namespace() -> None:
    own = existing_eks(installed=["arc-controller"], controller={"namespace": "platform-arc", "serviceAccount": "arc"})
    (sweep,) = sweeps(load(config(clusters={"usw2": own})).clusters["usw2"])
    assert sweep.settings["controller"] == "platform-arc"
    assert sweep.rules.keys() == {"runners-gpu-t4", "platform-arc"}


def test_a_selector_covers_all_pools_and_the_labels_of_existing_nodes() -> None:
    """Pools of an existing cluster are selected by its own labels, which may differ."""

    def nodes(*selectors: dict[str, str]) -> str:
        pools = {f"p{number}": SimpleNamespace(node_selector=lambda _, s=each: s) for number, each in enumerate(selectors)}
        return catalogue.of_pools(SimpleNamespace(pools=pools))  # type: ignore[arg-type]

    assert nodes({"gpu-ci/pool": "b"}, {"gpu-ci/pool": "a"}) == "gpu-ci/pool in (a,b)"
    assert nodes({"gpu": "t4", "zone": "a"}, {"gpu": "l4"}) == "gpu in (l4,t4)"
    assert nodes({"gpu": "t4"}, {"accelerator": "l4"}) == "", "all nodes"
    assert nodes({"gpu": ""}, {"gpu": "l4"}) == ""
    assert nodes() == ""


def test_a_sweep_reaches_the_ports_of_api_servers_of_any_address_and_the_pages_say_so() -> None:
    (wall,) = kind("NetworkPolicy")
    assert wall["spec"]["ingress"] == []
    assert wall["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert wall["spec"]["egress"] == [{"ports": [{"protocol": "TCP", "port": port} for port in (443, 6443)]}]
    for page in ("runner-lifetimes", "node-health", "schedules"):
        text = " ".join((ROOT / f"docs/{page}.md").read_text(encoding="utf-8").split())
        assert "ports 443 and 6443 of any address, also of the internet" in text, page


def test_other_settings_start_the_pod_again() -> None:
    def marked(fleet: Fleet) -> str:
        (sweep,) = sweeps(fleet.clusters["usw2"])
        made = sweep_objects(sweep, SYSTEM_SELECTOR)[-1]
        return str(made["spec"]["template"]["metadata"]["annotations"]["gpu-ci/config"])

    one, two = (load(config(clusters={"usw2": cluster(runners={"gpu-t4": runner(maxLifetime=each)})})) for each in ("7h", "8h"))
    assert marked(one) != marked(two)


def test_the_system_pool_has_room_for_the_sweeps() -> None:
    def free(fleet: Fleet) -> int:
        return sum(node.memory for node in system_room("usw2", fleet.clusters["usw2"], fleet.github) or [])

    with_runners, fleet = load(config()), load(config())
    listener = 128
    without = fleet.clusters["usw2"].model_copy(update={"runners": {}})
    fleet = fleet.model_copy(update={"clusters": {"usw2": without}})
    assert free(fleet) - free(with_runners) == listener + sum(pod.memory for pod in sweep_pods(with_runners.clusters["usw2"]))


def test_the_namespace_of_sweeps_is_no_namespace_of_a_team() -> None:
    smi = {"kind": "nvidia-smi", "pool": "t4", "namespace": NAMESPACE}
    with pytest.raises(FleetError, match="belongs to the system"):
        load(config(clusters={"usw2": cluster(workloads={"smi": smi})}))


# -- the connection ----------------------------------------------------------------------------------------------------


class Connections:
    """Connections that note what they are made with and asked for, and answer nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[str, int | None, Any]] = []
        self.sent: list[Any] = []

        def connect(host: str, port: int | None, *, timeout: float, context: Any = None) -> Any:
            self.made.append((host, port, context))
            return SimpleNamespace(
                sock=SimpleNamespace(settimeout=int, close=lambda: None),
                request=lambda *request: self.sent.append(request),
                getresponse=_Answer,
            )

        monkeypatch.setattr("http.client.HTTPConnection", connect)
        monkeypatch.setattr("http.client.HTTPSConnection", connect)


class _Answer(io.BytesIO):
    """An empty object."""

    status = 200

    def __init__(self) -> None:
        super().__init__(b"{}")


def test_the_token_is_read_for_each_request_because_kubelet_renews_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    connections = Connections(monkeypatch)
    token = tmp_path / "token"
    caller = api.Api("http://127.0.0.1:8001", token)
    for each in ("first", "second"):
        token.write_text(f"{each}\n")
        caller.call("GET", "/version")
    assert [headers["Authorization"] for *_, headers in connections.sent] == ["Bearer first", "Bearer second"]


def test_the_authority_of_an_eks_cluster_is_trusted_and_the_address_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(cafile: Path) -> ssl.SSLContext:
        """What Python makes from 3.13 on."""
        assert cafile == Path("ca.crt")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr("ssl.create_default_context", strict)
    connections = Connections(monkeypatch)
    api.Api("https://10.100.0.1:443", authority=Path("ca.crt")).call("GET", "/version")
    ((host, port, context),) = connections.made
    assert (host, port) == ("10.100.0.1", 443)
    assert not context.verify_flags & ssl.VERIFY_X509_STRICT, "its certificate has no key identifier"
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


@pytest.mark.parametrize(("host", "url"), [("10.100.0.1", "https://10.100.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_the_api_server_is_found_by_its_address(host: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr(api, "Api", lambda where, *_: made.append(where))
    api.in_cluster({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"})
    assert made == [url]
