"""A node of OKE, a pod and OCI's link-local services as real network namespaces.

Runs as a program below `unshare --map-root-user --net --mount`: it reads {"cni", "close"} as JSON from standard input, and prints
which services the pod and the node reach at each stage. `close` is the command of the node's unit.

Both plugins are as public documentation describes them. Flannel has the bridge cni0. VCN-native pod networking has a veth pair
and a gateway by proxy ARP for each pod, whose address belongs to a second network card with a routing table of its own
(cilium/cilium, Documentation/installation/cni-chaining-oracle-oke.rst). The kernel is real; node image, plugins and OCI are not.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_NEW_NETWORK = 0x40000000
_WAIT = 0.5
"""Seconds after which a service that does not answer counts as closed. An open one is in this kernel."""

METADATA, METADATA6, DISK = "169.254.169.254", "fd00:c1::a9fe:a9fe", "169.254.2.2"
SERVICE = "10.96.0.10"
"""A Service whose endpoint somebody made the metadata service."""
SERVICES = {
    "metadata": (METADATA, 80),
    "metadata by IPv6": (METADATA6, 80),
    "disk by iSCSI": (DISK, 3260),
    "names": (METADATA, 53),
    "names by IPv6": (METADATA6, 53),
}
PLUGINS = ("flannel", "vcn-native")

_COMMON = """
link: ip link set lo up
link: ip address add 169.254.169.254/32 dev lo
link: ip address add 169.254.2.2/32 dev lo
link: ip address add fd00:c1::a9fe:a9fe/128 dev lo
node: ip link set lo up
node: ip link add ens3 type veth peer name p0 netns link
node: ip address add 10.0.0.5/24 dev ens3
node: ip -6 address add fd00:1::5/64 dev ens3 nodad
node: ip link set ens3 up
link: ip address add 10.0.0.1/24 dev p0
link: ip -6 address add fd00:1::1/64 dev p0 nodad
link: ip link set p0 up
node: ip route add default via 10.0.0.1
node: ip -6 route add default via fd00:1::1
link: ip -6 route add fd00:20::/64 via fd00:1::5
pod: ip link set lo up
"""
_FLANNEL = """
node: ip link add cni0 type bridge
node: ip address add 10.244.1.1/24 dev cni0
node: ip -6 address add fd00:20::1/64 dev cni0 nodad
node: ip link set cni0 up
node: ip link add veth1 type veth peer name eth0 netns pod
node: ip link set veth1 master cni0 up
pod: ip address add 10.244.1.20/24 dev eth0
pod: ip -6 address add fd00:20::20/64 dev eth0 nodad
pod: ip link set eth0 up
pod: ip route add default via 10.244.1.1
pod: ip -6 route add default via fd00:20::1
node: iptables -t nat -A POSTROUTING -s 10.244.0.0/16 ! -d 10.244.0.0/16 -j MASQUERADE
"""
_VCN_NATIVE = """
node: ip link add ens5 type veth peer name p1 netns link
node: ip address add 10.0.10.5/24 dev ens5
node: ip link set ens5 up
link: ip address add 10.0.10.1/24 dev p1
link: ip link set p1 up
link: ip route add 10.0.10.20/32 via 10.0.10.5
node: ip link add oci1 type veth peer name eth0 netns pod
node: ip -6 address add fd00:20::1/64 dev oci1 nodad
node: ip link set oci1 up
node: sysctl net.ipv4.conf.oci1.proxy_arp=1
node: sysctl net.ipv4.neigh.oci1.proxy_delay=0
node: ip route add 10.0.10.20/32 dev oci1
node: ip rule add from 10.0.10.20 table 100
node: ip route add default via 10.0.10.1 dev ens5 table 100
pod: ip address add 10.0.10.20/32 dev eth0
pod: ip -6 address add fd00:20::20/64 dev eth0 nodad
pod: ip link set eth0 up
pod: ip route add 169.254.1.1 dev eth0 scope link
pod: ip route add default via 169.254.1.1 dev eth0
pod: ip -6 route add default via fd00:20::1
"""
_OTHERS = """
*filter
:FORWARD ACCEPT
:KUBE-FORWARD -
:FLANNEL-FWD -
:cali-FORWARD -
-F FORWARD
-A FORWARD -j cali-FORWARD
-A FORWARD -j KUBE-FORWARD
-A FORWARD -j FLANNEL-FWD
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FLANNEL-FWD -j ACCEPT
-A cali-FORWARD -j ACCEPT
COMMIT
*mangle
:KUBE-KUBELET-CANARY -
:cali-PREROUTING -
-A PREROUTING -j cali-PREROUTING
-A cali-PREROUTING -j ACCEPT
COMMIT
"""
"""What kube-proxy, flannel and Calico write: chains of their own, before all rules of FORWARD, and ACCEPT in them."""
_SERVICE_OF_METADATA = f"""
*nat
:KUBE-SERVICES -
-A PREROUTING -j KUBE-SERVICES
-A KUBE-SERVICES -d {SERVICE}/32 -p tcp --dport 80 -j DNAT --to-destination {METADATA}:80
COMMIT
"""


class World:
    """The three namespaces: the node, a pod, and the link with OCI's services."""

    def __init__(self, cni: str) -> None:
        """Connect them as the plugin does."""
        self._at = {}
        for name in ("link", "node", "pod"):
            subprocess.run(["ip", "netns", "add", name], check=True)  # noqa: S607
            self._at[name] = os.open(f"/run/netns/{name}", os.O_RDONLY)
        for line in (_COMMON + (_FLANNEL if cni == "flannel" else _VCN_NATIVE)).splitlines():
            where, _, command = line.partition(": ")
            if command:
                self.run(where, command.split())
        self._enter("node")
        for setting in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            Path(f"/proc/sys/net/{setting}").write_text("1", encoding="ascii")
        for folder in Path("/proc/sys/net/ipv4/conf").iterdir():
            (folder / "rp_filter").write_text("0", encoding="ascii")
        self._enter("link")
        self._listening = [_listen(*service) for service in SERVICES.values()]
        # The kernel joins IPv6's groups of neighbors a moment after an interface is up.
        names = {"names": SERVICES["names by IPv6"]}
        if not any(self.reached("pod", names) for _ in range(10)):
            raise TimeoutError("the pod does not reach the link by IPv6")

    def run(self, where: str, command: list[str], text: str | None = None) -> None:
        """Run a command in a namespace. Raises subprocess.CalledProcessError."""
        self._enter(where)
        if command[0] == "sysctl":
            key, _, value = command[1].partition("=")
            Path("/proc/sys", *key.split(".")).write_text(value, encoding="ascii")
        else:
            subprocess.run(command, input=text, text=True, check=True, stdout=sys.stderr)

    def reached(self, where: str, services: Mapping[str, tuple[str, int]] = SERVICES) -> list[str]:
        """The services to which a program there can connect."""
        self._enter(where)
        return _connects(services)

    def _enter(self, where: str) -> None:
        if _LIBC.setns(self._at[where], _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"setns {where}")


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _listen(address: str, port: int) -> socket.socket:
    listener = socket.socket(_family(address))
    listener.bind((address, port))
    listener.listen()
    return listener


def _connects(services: Mapping[str, tuple[str, int]]) -> list[str]:
    """The names of those services that answer; all are asked at once."""
    with ExitStack() as stack:
        asked = {stack.enter_context(socket.socket(_family(address))): name for name, (address, _) in services.items()}
        for client, name in asked.items():
            client.setblocking(False)
            client.connect_ex(services[name])
        end, open_ = time.monotonic() + _WAIT, set[str]()
        waiting = set(asked)
        while waiting and (left := end - time.monotonic()) > 0:
            for client in select.select([], waiting, [], left)[1]:
                waiting.discard(client)
                if client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    open_.add(asked[client])
    return [name for name in services if name in open_]


def main() -> None:
    """Print what is reached before the command, after it, and after other programs wrote their rules."""
    asked = json.load(sys.stdin)
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)  # noqa: S607
    world = World(asked["cni"])
    said = {"pod before": world.reached("pod")}
    world.run("node", ["iptables-restore", "--noflush"], _SERVICE_OF_METADATA)
    hidden = {"metadata behind a Service": (SERVICE, 80)}
    said["pod before"] += world.reached("pod", hidden)
    world.run("node", asked["close"])
    said["pod"] = world.reached("pod", SERVICES | hidden)
    said["node"] = world.reached("node")
    for family in ("", "6"):
        world.run("node", [f"ip{family}tables-restore", "--noflush"], _OTHERS)
    said["pod after others wrote"] = world.reached("pod", SERVICES | hidden)
    json.dump(said, sys.stdout)


if __name__ == "__main__":
    main()
