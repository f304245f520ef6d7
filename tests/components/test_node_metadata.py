"""Pods of an OKE node reach no instance metadata: the node's own unit, in real network namespaces."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from components.oci.managed_nodes import node_script
from tests.components import node_network
from tests.components.node_network import SERVICES

ISOLATED = ("unshare", "--map-root-user", "--net", "--mount")
NAMES = ["names", "names by IPv6"]
HIDDEN = "metadata behind a Service"


@cache
def lacks() -> str:
    """Why this machine cannot run the tests, or nothing."""
    missing = [name for name in ("ip", "iptables", "iptables-restore", "ip6tables", "unshare") if shutil.which(name) is None]
    if missing:
        return f"not on PATH: {', '.join(missing)}"
    needed = ("ip link add veth1 type veth peer name veth2", "iptables -t mangle -S", "ip6tables -t mangle -S")
    tried = "; ".join((*needed, "mount -t tmpfs none /run"))
    done = subprocess.run([*ISOLATED, "sh", "-ec", tried], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"this machine permits no network namespaces: {done.stderr.strip()}"


SKIPPED = pytest.mark.skipif(bool(lacks()), reason=lacks() or "-")
CNI = pytest.mark.parametrize("cni", node_network.PLUGINS)


def unit() -> str:
    """The unit that the script of a node writes."""
    found = re.search(r"gpu-ci-metadata\.service <<'UNIT'\n(.*?)^UNIT$", node_script(), re.DOTALL | re.MULTILINE)
    assert found
    return found[1].replace("\\\n", "")


def command() -> list[str]:
    """What the unit runs."""
    (line,) = re.findall(r"^ExecStart=(.*)$", unit(), re.MULTILINE)
    return shlex.split(line)


@cache
def reached(cni: str, *close: str) -> dict[str, list[str]]:
    """The services that the pod and the node reach at each stage."""
    asked = json.dumps({"cni": cni, "close": close or command()})
    program = [*ISOLATED, sys.executable, str(Path(node_network.__file__))]
    done = subprocess.run(program, input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said: dict[str, list[str]] = json.loads(done.stdout)
    return said


@pytest.mark.netns
@SKIPPED
@CNI
def test_without_the_rules_a_pod_reaches_metadata_and_disks(cni):
    assert reached(cni)["pod before"] == [*SERVICES, HIDDEN], "otherwise the other tests could not fail"


@pytest.mark.netns
@SKIPPED
@CNI
def test_with_the_rules_a_pod_reaches_names_alone(cni):
    assert reached(cni)["pod"] == NAMES


@pytest.mark.netns
@SKIPPED
@CNI
def test_kubelet_agents_and_pods_with_the_nodes_network_reach_all(cni):
    assert reached(cni)["node"] == list(SERVICES)


@pytest.mark.netns
@SKIPPED
@CNI
def test_no_chain_of_kube_proxy_flannel_or_calico_opens_it_again(cni):
    assert reached(cni)["pod after others wrote"] == NAMES


@pytest.mark.netns
@SKIPPED
def test_rules_in_the_table_filter_would_not_survive_those_chains():
    done = reached("vcn-native", *(part.replace("-t mangle", "-t filter") for part in command()))
    assert done["pod"] == NAMES
    assert "metadata" in done["pod after others wrote"]


def test_the_unit_closes_it_at_each_boot_before_any_pod_starts():
    said = unit().splitlines()
    assert "Before=crio.service kubelet.service" in said
    assert "RequiredBy=kubelet.service" in said, "a kubelet without the rules starts no pod"
    assert "RemainAfterExit=yes" in said, "or the requirement would end with the command"
    assert command()[:2] == ["/bin/sh", "-ec"], "the first command that fails ends it"


def test_the_rules_match_what_is_forwarded_and_no_port_of_names():
    rules = re.findall(r"ip6?tables .*?DROP", command()[2])
    assert [rule.split()[0] for rule in rules] == ["iptables", "ip6tables"]
    for rule in rules:
        assert "-t mangle -I FORWARD 1 " in rule
        assert "-p tcp ! --dport 53 " in rule


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="not on PATH: systemd-analyze")
def test_systemd_reads_the_unit(tmp_path):
    path = tmp_path / "gpu-ci-metadata.service"
    path.write_text(unit(), encoding="ascii")
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, check=False)  # noqa: S607
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_and_its_settings_fit_into_the_metadata_of_an_instance():
    flags = tuple(f"--a-long-flag-of-kubelet={number:060}" for number in range(11))
    assert len(node_script(flags, array=True)) * 4 / 3 < 16_000, "OCI takes 32,000 bytes, and OKE adds its own"
