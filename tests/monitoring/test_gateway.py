"""The gateway of machines: what its agents let through, what they write, and that a real Prometheus agrees."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from fleet.charts.dcgm_exporter import counters
from fleet.facts.versions import PROMETHEUS_IMAGE
from fleet.providers.oke.gateway import METRICS, VALUES, Gateway, agent_config, gateway, gateway_annotations, gateway_objects
from fleet.render.monitoring.dashboards.boards import boards
from tests.fleet.machine.stub_machine import METRICS_URL, StubMachine
from tests.monitoring.fleet import MACHINES, machines
from tests.monitoring.local_prometheus import MISSING, Server, free_port, waiting


def of(**changes: Any) -> Gateway:
    """The gateway of the fleet of machines."""
    found = gateway(machines(**changes).clusters[MACHINES])
    assert found is not None
    return found


OBJECTS = gateway_objects(of(), "gpu-ci-test-sjc")
POD = OBJECTS["agents"]["spec"]["template"]["spec"]
CONTAINERS = {each["name"]: each for each in POD["containers"]}


# -- rendered ----------------------------------------------------------------------------------------------------------


def test_each_set_has_an_agent_a_port_and_a_configuration_of_its_own():
    ports = {"oci-vm": 30000, "oci-job": 30001, "oci-away": 30002}
    assert of().ports == ports
    assert {name: each["ports"] for name, each in CONTAINERS.items()} == {
        name: [{"containerPort": port}] for name, port in ports.items()
    }
    for name, port in ports.items():
        assert f"--config.file=/etc/gateway/{name}.json" in CONTAINERS[name]["args"]
        assert f"--web.listen-address=:{port}" in CONTAINERS[name]["args"]
        assert json.loads(OBJECTS["config"]["data"][f"{name}.json"]) == agent_config(name, "gpu-ci-test-sjc", of().target)
    listed = OBJECTS["service"]["spec"]["ports"]
    assert [(each["port"], each["targetPort"], each["nodePort"]) for each in listed] == [(port,) * 3 for port in ports.values()]
    (rule,) = OBJECTS["network"]["spec"]["ingress"]
    assert [each["port"] for each in rule["ports"]] == list(ports.values())


def test_node_ports_are_of_the_range_that_kubernetes_does_not_choose_from():
    assert all(30000 <= port <= 30085 for port in of().ports.values())


def test_an_agent_stores_nothing_runs_confined_and_is_bounded():
    assert POD["automountServiceAccountToken"] is False
    assert POD["securityContext"]["runAsNonRoot"] is True
    for each in CONTAINERS.values():
        assert each["image"] == PROMETHEUS_IMAGE
        assert {"--agent", "--web.enable-remote-write-receiver"} <= set(each["args"]), "an agent answers no query"
        assert not any(arg.startswith(("--web.enable-lifecycle", "--web.enable-admin")) for arg in each["args"])
        assert each["resources"]["limits"].keys() == {"cpu", "memory"}
        assert each["securityContext"]["readOnlyRootFilesystem"] is True
    (volume,) = [each for each in POD["volumes"] if "emptyDir" in each]
    assert volume["emptyDir"] == {"sizeLimit": "1Gi"}
    assert of().pod.cpu == sum(int(each["resources"]["requests"]["cpu"].removesuffix("m")) for each in CONTAINERS.values())
    assert of().pod.memory == sum(int(each["resources"]["requests"]["memory"].removesuffix("Mi")) for each in CONTAINERS.values())


def test_another_configuration_starts_the_agents_anew():
    other = gateway_objects(of(), "gpu-ci-other-sjc")
    annotations = [each["agents"]["spec"]["template"]["metadata"]["annotations"] for each in (OBJECTS, other)]
    assert annotations[0] != annotations[1]


def test_the_load_balancer_is_private_and_has_the_address_that_machines_know():
    annotations = gateway_annotations(of(), "ocid1.subnet.x", "ocid1.networksecuritygroup.x")
    own = "oci-network-load-balancer.oraclecloud.com"
    assert annotations == {
        "oci.oraclecloud.com/load-balancer-type": "nlb",
        f"{own}/internal": "true",
        f"{own}/subnet": "ocid1.subnet.x",
        f"{own}/oci-network-security-groups": "ocid1.networksecuritygroup.x",
        f"{own}/assigned-private-ipv4": of().address,
        f"{own}/security-list-management-mode": "None",
        f"{own}/node-label-selector": "gpu-ci/pool=system",
    }
    assert of().url("oci-job") == f"http://{of().address}:30001/api/v1/write"


def test_a_machine_may_push_what_its_exporter_collects_and_nothing_else():
    assert set(METRICS) == {name for name, kind in counters() if kind != "label"}
    assert not {"kubernetes_node", "runner_class", "cluster", "exported_pod", "exported_namespace"} & VALUES.keys()
    unbounded = [
        name for name, values in VALUES.items() if name not in ("__name__", "instance") and not re.search(r"\d\}$", values)
    ]
    assert unbounded == []


def test_the_dashboard_of_nodes_lists_machines_where_some_push():
    alerts = machines().clusters[MACHINES].monitoring.alerts
    asked = [
        board.variables[0].query
        for changes in ({}, {"monitoring": {"prometheus": "existing"}})
        for board in boards(machines(**changes).clusters[MACHINES], alerts)
        if board.uid == "gpu-ci-nodes"
    ]
    both = '{__name__=~"gpu_ci:node_pool|DCGM_FI_DEV_GPU_TEMP"}'
    assert asked == [f"label_values({every}, kubernetes_node)" for every in (both, "gpu_ci:node_pool")]


# -- with a Prometheus -------------------------------------------------------------------------------------------------

EXPORTED = """
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-1",cluster="forged",runner_class="forged",kubernetes_node="n1",exported_pod="x"} 91
# TYPE DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION counter
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu="0"} %d
DCGM_FI_DEV_GPU_UTIL{gpu="not a number"} 1
gpu_ci:job_usd{gpu="0"} 99
DCGM_FI_DEV_GPU_TEMPERATURE{gpu="0"} 1
"""


class Exporter(BaseHTTPRequestHandler):
    """An exporter whose counter counts the scrapes."""

    scrapes = 0

    def do_GET(self) -> None:
        type(self).scrapes += 1
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write((EXPORTED % self.scrapes).encode())

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def exporter() -> Iterator[int]:
    """A port of loopback with the exporter."""
    with HTTPServer(("127.0.0.1", 0), Exporter) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


@contextmanager
def prometheus(folder: Path, config: Any, port: int, *options: str) -> Iterator[tuple[Server, subprocess.Popen[bytes]]]:
    """A Prometheus on a port of loopback, ready. `folder` is for its configuration and its data."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    own = [
        "timeout",
        "120",
        "prometheus",
        f"--config.file={folder}/config.json",
        f"--web.listen-address=127.0.0.1:{port}",
        *options,
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(own, stdout=log, stderr=log) as process:
        try:
            server = Server(port, int(time.time()))
            waiting(server, process, folder / "log")
            yield server, process
        finally:
            process.terminate()
            process.wait()


def all_series(server: Server) -> dict[str, tuple[dict[str, str], float]]:
    """Every series of the last minutes by name."""
    server.at = int(time.time()) + 1
    return {labels.pop("__name__"): (labels, value) for labels, value in server.query('{__name__=~".+"}')}


@pytest.mark.prometheus
@pytest.mark.skipif(bool(MISSING), reason=f"not on PATH: {', '.join(MISSING)}")
def test_a_machines_series_arrive_with_the_gateways_labels_and_foreign_ones_do_not(tmp_path):
    """The configuration of the machine is what its bootstrap wrote; only the ports are the test's."""
    machine = StubMachine(tmp_path / "machine")
    machine.run()
    written = (machine.root / "var/lib/gpu-ci/agent.json").read_text()
    receiver, agents, agent = (free_port() for _ in range(3))
    into = agent_config("oci-vm", "gpu-ci-test-sjc", f"http://127.0.0.1:{receiver}/api/v1/write")
    Exporter.scrapes = 0
    with exporter() as target:
        text = written.replace("127.0.0.1:9400", f"127.0.0.1:{target}").replace('"15s"', '"1s"')
        config = json.loads(text.replace(METRICS_URL, f"http://127.0.0.1:{agents}/api/v1/write"))
        agent_mode, takes = "--agent", "--web.enable-remote-write-receiver"
        (instance,) = {each["labels"]["instance"] for each in config["scrape_configs"][0]["static_configs"]}
        with (
            prometheus(tmp_path / "p", {}, receiver, f"--storage.tsdb.path={tmp_path}/p/data", takes) as (server, _),
            prometheus(tmp_path / "g", into, agents, agent_mode, f"--storage.agent.path={tmp_path}/g/data", takes) as (gate, _),
            prometheus(tmp_path / "m", config, agent, agent_mode, f"--storage.agent.path={tmp_path}/m/data") as (_, process),
        ):
            until(lambda: "DCGM_FI_DEV_GPU_TEMP" in all_series(server))
            process.terminate()
            process.wait()
            last = Exporter.scrapes
            until(lambda: all_series(server)["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"][1] == last)
            with pytest.raises(AssertionError, match="unavailable with Prometheus Agent"):
                gate.query("up")
            assert all_series(server).keys() == {"DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"}
            assert all_series(server)["DCGM_FI_DEV_GPU_TEMP"] == (
                {
                    "gpu": "0",
                    "instance": instance,
                    "kubernetes_node": f"oci-vm/{instance}",
                    "runner_class": "oci-vm",
                    "cluster": "gpu-ci-test-sjc",
                    "job": "metrics-gateway",
                },
                91,
            )


def until(holds: Any) -> None:
    """Wait until it holds, a minute at most."""
    for _ in range(300):
        if holds():
            return
        time.sleep(0.2)
    raise AssertionError("not within a minute")
