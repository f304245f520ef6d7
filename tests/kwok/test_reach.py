"""A real kube-scheduler beside the proof of reachability: a thousand random fleets, then the fix of each that refuses its pod."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from fleet.facts.manifest import manifest
from fleet.prove.pod import Pod
from fleet.prove.reach import Node, Pool, applied, reach, refusals
from tests.conftest import SUMMARY
from tests.fleet.random_nodes import ASKS, SPACES, Object, fleet, named, node_object, pod_object, volume_objects
from tests.kwok.server import ServerApi, api_server, apply, missing, running

FLEETS = 1000
_THREADS, _PATIENCE = 4, 240
_NEEDS = ("kube-scheduler",)

pytestmark = [
    pytest.mark.kwok,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing(*_NEEDS)), reason=f"not on PATH: {', '.join(missing(*_NEEDS))}"),
]
Fleet = tuple[Pod, tuple[Node, ...]]


def send(api: ServerApi, folder: Path, objects: Iterable[tuple[str, Object]]) -> None:
    """Create the objects, (path, object), over a few connections that stay open."""
    rows, faults = list(objects), list[str]()

    def work(part: list[tuple[str, Object]]) -> None:
        trust = ssl.create_default_context(cafile=folder / "apiserver.crt")
        connection = http.client.HTTPSConnection("127.0.0.1", api.port, timeout=30, context=trust)
        headers = {
            "Authorization": f"Bearer {(folder / 'token').read_text(encoding='ascii')}",
            "Content-Type": "application/json",
        }
        for path, body in part:
            connection.request("POST", path, json.dumps(body).encode(), headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= http.client.BAD_REQUEST:
                faults.append(f"{body['metadata']['name']}: {json.loads(text)['message']}")
        connection.close()

    threads = [Thread(target=work, args=(rows[number::_THREADS],)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[:50]


def outcomes(api: ServerApi, names: set[str]) -> dict[str, str]:
    """What the scheduler says of each pod: empty if it has a node, or else its message."""
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        found: dict[str, str] = {}
        for space in SPACES:
            for pod in api.list(f"/api/v1/namespaces/{space}/pods?labelSelector={ASKS}"):
                states = {one["type"]: one for one in pod["status"].get("conditions", ())}
                if pod["spec"].get("nodeName"):
                    found[pod["metadata"]["name"]] = ""
                elif states.get("PodScheduled", {}).get("status") == "False":
                    found[pod["metadata"]["name"]] = states["PodScheduled"]["message"]
        if names <= found.keys():
            return found
        time.sleep(1)
    raise TimeoutError(f"the scheduler did not judge {sorted(names - found.keys())[:5]}")


@contextmanager
def scheduled(folder: Path, fleets: Iterable[Fleet]) -> Iterator[dict[str, str]]:
    """What the scheduler says of the pod of each fleet. It starts when every node and pod is there."""
    folder.mkdir()
    rows = list(fleets)
    with api_server(folder) as api:
        apply(api, [manifest("v1", "Namespace", space) | {"metadata": {"name": space}} for space in SPACES])
        apply(api, (volume for pod, _ in rows for volume in volume_objects(pod)))
        send(api, folder, (("/api/v1/nodes", node_object(node)) for _, nodes in rows for node in nodes))
        on_nodes = ((pod, node.name) for _, nodes in rows for node in nodes for pod in node.pods)
        pods = [*on_nodes, *((pod, "") for pod, _ in rows)]
        send(api, folder, ((f"/api/v1/namespaces/{pod.place}/pods", pod_object(pod, node)) for pod, node in pods))
        own = ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=1000", "--kube-api-burst=2000"]
        with running(folder, "kube-scheduler", f"--kubeconfig={folder}/kubeconfig", *own):
            yield outcomes(api, {pod.name for pod, _ in rows})


def test_a_real_scheduler_agrees_with_the_proof_and_takes_what_a_fix_repairs(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    fleets = [fleet(seed) for seed in range(FLEETS)]
    begun = time.monotonic()
    with scheduled(tmp_path / "asked", fleets) as real:
        took = time.monotonic() - begun
    wrong, refused, first = [], [], Counter[str]()
    for pod, nodes in fleets:
        reasons = {node.name: refusals(pod, node, nodes) for node in nodes}
        if all(reasons.values()):
            refused.append((pod, nodes))
            first.update({row[0].filter for row in reasons.values()})
        if bool(real[pod.name]) != all(reasons.values()):
            wrong.append(f"{pod.name}: scheduler: {real[pod.name] or 'placed'}; proof: {reasons}; {pod.spec}")
    agreed = (
        f"kube-scheduler: {len(fleets) - len(wrong)} of {len(fleets)} verdicts agree, {len(refused)} refused, in {took:.0f} s"
    )
    record_property(SUMMARY, f"{agreed}; first filters: {dict(first.most_common())}")
    for line in wrong:
        record_property(SUMMARY, f"differs: {line}")
    # The fleets are the same in each run, so a verdict that differs is a fault of the proof, or news of the scheduler.
    assert not wrong
    assert FLEETS / 4 < len(refused) < FLEETS * 3 / 4, "a scheduler that takes or refuses everything shows little"
    repaired, edits = [], Counter[int]()
    for pod, nodes in refused:
        found = reach(pod, [Pool(node.name, (node,), minimum=1) for node in nodes], nodes)
        if found.fix and found.nearest:
            edits[len(found.fix)] += 1
            asks, pool = applied(found.fix, pod, found.nearest.pool)
            others = (node for node in nodes if node.name != pool.nodes[0].name)
            repaired.append(named(asks, (*pool.nodes, *others), pod.name[:6], f"r{pod.name[1:6]}"))
    with scheduled(tmp_path / "repaired", repaired) as real:
        refused_again = {name: why for name, why in real.items() if why}
    told = f"fixes: {len(repaired)} of {len(refused)} fleets have one, by edits {dict(sorted(edits.items()))}"
    record_property(SUMMARY, f"{told}; the scheduler refuses {len(refused_again)} of them")
    assert not refused_again
    assert len(repaired) > len(refused) * 0.8
