"""etcd, kube-apiserver and kwok on free ports of the loopback interface, from PATH."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.error
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from fleet.render.sweeps.api import Api, Object
from fleet.render.sweeps.quarantine import NODES
from tests.kwok.kubelet import PENDING, STAGE, status_of

PROGRAMS = ("etcd", "kube-apiserver", "kwok", "openssl")
_TOKEN = "simulation"  # noqa: S105 - of a server that only this test reaches
_PATIENCE = 60


def missing(*more: str) -> list[str]:
    """The programs that PATH does not have, of those that the server needs and `more`."""
    return [name for name in (*PROGRAMS, *more) if shutil.which(name) is None]


class ServerApi(Api):
    """The API server. It gives nodes the time at which they were made in the simulation, and kwok is their kubelet."""

    @property
    def port(self) -> int:
        """The port of the server."""
        return int(self._url.port or 0)

    def list(self, path: str) -> Iterator[Object]:
        """The objects of a collection, nodes with their virtual age."""
        for found in super().list(path):
            made = found["metadata"].get("annotations", {}).get("sim/made")
            if made:
                found["metadata"]["creationTimestamp"] = made
            yield found

    def settle(self) -> None:
        """Wait until kwok has written the status of each pending node. Raises TimeoutError."""
        end = time.monotonic() + _PATIENCE
        while waiting := [each for each in self.list(NODES) if each["metadata"]["labels"].get(PENDING) == "yes"]:
            if time.monotonic() > end:
                raise TimeoutError(f"kwok did not write the status of {waiting[0]['metadata']['name']}: {waiting[0]['status']}")
            late = [each for each in waiting if not _written(each)]
            for node in (each for each in waiting if each not in late):
                patch = {"metadata": {"labels": {PENDING: "no"}}}
                self.call("PATCH", f"{NODES}/{node['metadata']['name']}", patch, "application/merge-patch+json")
            if late:
                time.sleep(0.05)


def _written(node: Object) -> bool:
    wanted, has = status_of(node), node.get("status", {})
    conditions = {each["type"]: (each["status"], each.get("reason")) for each in has.get("conditions", [])}
    return (
        has.get("allocatable", {}).get("nvidia.com/gpu") == wanted["allocatable"]["nvidia.com/gpu"]
        and all(conditions.get(each["type"]) == (each["status"], each["reason"]) for each in wanted["conditions"])
        and has.get("nodeInfo", {}).get("bootID") == wanted["nodeInfo"]["bootID"]
    )


@contextmanager
def api_server(
    folder: Path,
    without: Sequence[str] = ("ServiceAccount", "TaintNodesByCondition"),
    kwok: Sequence[str] = (),
    tools: Path | None = None,
    definitions: Sequence[Object] = (),
) -> Iterator[ServerApi]:
    """An empty API server with kwok. All three programs end with the block. Their logs are in `folder`.

    `without` are admission plugins that it does not have: no controller makes service accounts or removes the taint of new nodes.
    `kwok` are more arguments of kwok, `tools` is the first folder of its PATH, and `definitions` are the custom resources that it
    reads.
    """
    client, peer, port = free_port(), free_port(), free_port()
    key, tokens, token = folder / "key.pem", folder / "tokens.csv", folder / "token"
    subprocess.run([str(shutil.which("openssl")), "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    tokens.write_text(f"{_TOKEN},admin,1,system:masters\n", encoding="ascii")
    token.write_text(_TOKEN, encoding="ascii")
    stage, kubeconfig = folder / "stage.json", folder / "kubeconfig"
    stage.write_text(json.dumps(STAGE), encoding="ascii")
    etcd = f"http://127.0.0.1:{client}"
    with ExitStack() as stack:
        own = ["--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--data-dir", str(folder / "etcd")]
        others = f"http://127.0.0.1:{peer}"
        own += ["--listen-peer-urls", others, "--initial-advertise-peer-urls", others, "--initial-cluster", f"default={others}"]
        stack.enter_context(running(folder, "etcd", *own))
        server = [
            f"--etcd-servers={etcd}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={port}",
            f"--cert-dir={folder}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://simulation.example.com",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--disable-admission-plugins={','.join(without)}",
        ]
        apiserver = stack.enter_context(running(folder, "kube-apiserver", *server))
        certificate = folder / "apiserver.crt"
        wait(folder, apiserver, lambda: certificate.exists() and "END CERTIFICATE" in certificate.read_text(encoding="ascii"))
        api = ServerApi(f"https://127.0.0.1:{port}", token, certificate)
        wait(folder, apiserver, lambda: answers(api))
        for one in definitions:
            api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", one)
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(certificate)}
        known = {
            "clusters": [{"name": "own", "cluster": cluster}],
            "users": [{"name": "own", "user": {"token": _TOKEN}}],
            "contexts": [{"name": "own", "context": {"cluster": "own", "user": "own"}}],
        }
        kubeconfig.write_text(
            json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "own"} | known), encoding="ascii"
        )
        own = [f"--kubeconfig={kubeconfig}", f"--config={stage}", "--manage-all-nodes=true"]
        stack.enter_context(running(folder, "kwok", *own, *kwok, tools=tools))
        yield api


@contextmanager
def running(folder: Path, name: str, *arguments: str, tools: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with the block. `tools` is a folder before those of PATH."""
    log: IO[bytes]
    with (folder / f"{name}.log").open("wb") as log:
        # Settings of the caller's own cluster must not reach it.
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("ETCD_", "KUBE", "KWOK"))}
        environment |= {"HOME": str(folder)} | ({"PATH": f"{tools}:{environment['PATH']}"} if tools else {})
        program = subprocess.Popen([name, *arguments], stdout=log, stderr=log, env=environment)
        try:
            yield program
        finally:
            program.terminate()
            try:
                program.wait(10)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()


def wait(folder: Path, program: subprocess.Popen[bytes], ready: object) -> None:
    """Wait until `ready` returns true. Raises RuntimeError with the log's end if the program ends before or takes too long."""
    end = time.monotonic() + _PATIENCE
    while not (callable(ready) and ready()):
        if program.poll() is not None or time.monotonic() > end:
            name = str(program.args[0] if isinstance(program.args, list) else program.args)
            raise RuntimeError(f"{name} is not ready: {(folder / f'{name}.log').read_text(encoding='utf-8')[-600:]}")
        time.sleep(0.1)


def answers(api: Api) -> bool:
    """Whether the API server answers."""
    try:
        list(api.list(NODES))
    except (OSError, urllib.error.HTTPError):
        return False
    return True


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def apply(api: Api, objects: Iterable[Mapping[str, Any]]) -> None:
    """Make the objects, in their order."""
    for one in objects:
        group = f"/apis/{one['apiVersion']}" if "/" in one["apiVersion"] else f"/api/{one['apiVersion']}"
        place = f"/namespaces/{one['metadata']['namespace']}" if "namespace" in one["metadata"] else ""
        kind = re.sub("y$", "ie", one["kind"].lower()).replace("class", "classe") + "s"
        try:
            api.call("POST", f"{group}{place}/{kind}", dict(one))
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{one['kind']} {one['metadata']['name']}: {error}") from error
