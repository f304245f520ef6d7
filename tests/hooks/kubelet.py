"""What replaces nodes: no container runs. A container is a folder with its volumes, and a command sees that folder as its root.

It has the programs of this machine, whatever its image, and those of `PROGRAMS`. Once a pod has a node, its volumes are made, its
init containers run, and it is running. kwok serves `exec` and starts the commands through the programs of `tools`.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
import threading
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleet.render.sweeps.api import Api, Object

EXECS = "/apis/kwok.x-k8s.io/v1alpha1"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
PROGRAMS = {"postgres": ("pg_isready",), "redis": ("redis-cli",)}
"""What asks a service whether it is ready, by the image that has it. No service runs, so it always is."""
_KEPT = ("bin", "dev", "lib", "lib32", "lib64", "proc", "sbin", "sys", "usr")
_ETC = ("alternatives", "group", "ld.so.cache", "ld.so.conf", "nsswitch.conf", "os-release", "passwd", "ssl")
_APART = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
"""A process with mounts of its own. Who is not root needs a user namespace for that."""
_ARCHIVE = """
import sys
read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
while (head := read(512)).strip(b"\\0"):
    size = int(head[124:136].strip(b"\\0 ") or b"0", 8)
    write(head + read(-(-size // 512) * 512))
write(bytes(1024))
"""
"""Copies a tar archive and ends. kwok 0.8.0 never ends the standard input of a command (pkg/utils/exec/exec.go)."""
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "execs.kwok.x-k8s.io"},
    "spec": {
        "group": "kwok.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "Exec", "listKind": "ExecList", "plural": "execs", "singular": "exec"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                "subresources": {"status": {}},
            }
        ],
    },
}
"""kwok reads which command belongs to which pod from objects of this kind."""


def tools(folder: Path) -> Path:
    """The programs that kwok finds first: each starts the real one in the container that $CONTAINER names."""
    folder.mkdir()
    (folder / "archive.py").write_text(_ARCHIVE, encoding="ascii")
    for name in ("sh", "tar"):
        real = f'{" ".join(_APART)} /bin/sh "$CONTAINER" {name} "$@"'
        reads = f'case "$*" in *"tar xf - "*) {sys.executable} {folder}/archive.py | {real}; exit;; esac'
        (folder / name).write_text(f"#!/bin/sh\n{reads}\nexec {real}\n", encoding="ascii")
        (folder / name).chmod(0o755)
    return folder


class Nodes:
    """The nodes of an API server. `server` are its host, port and certificate, as pods get them. `pulled` are logins by image."""

    def __init__(self, api: Api, folder: Path, server: tuple[str, int, Path]) -> None:
        self.api, self.folder, self.server = api, folder, server
        self.pulled: dict[str, list[str]] = {}
        self.made: dict[str, Object] = {}
        self.broken: set[str] = set()
        self.error: BaseException | None = None

    @contextmanager
    def working(self) -> Iterator[Nodes]:
        """Make pods until the block ends. Raises what went wrong."""
        end = threading.Event()

        def work() -> None:
            while not end.wait(0.1):
                try:
                    self.step()
                except urllib.error.HTTPError as error:
                    if error.code not in (404, 409):  # the pod is gone meanwhile, or was just changed
                        self.error = error
                        return
                except Exception as error:  # noqa: BLE001 - the test shows it
                    self.error = error
                    return

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield self
        finally:
            end.set()
            thread.join()
        if self.error:
            raise self.error

    def step(self) -> None:
        """Make the pods that are new, and probe those that run."""
        for pod in self.api.list("/api/v1/pods"):
            meta, status = pod["metadata"], pod.get("status", {})
            if not pod["spec"].get("nodeName") or status.get("phase") in ("Failed", "Succeeded"):
                continue
            if meta["uid"] not in self.made:
                self._make(pod)
                self.made[meta["uid"]] = pod
            elif any(not one["ready"] for one in status.get("containerStatuses", ())):
                self._report(pod)

    def enter(self, pod: Object, container: str) -> list[str]:
        """The command before a command that runs in a container."""
        return [*_APART, "/bin/sh", str(self._script(pod, container))]

    def root(self, pod: Object, container: str) -> Path:
        """The folder that a container sees as its root, without its volumes."""
        return self.folder / str(pod["metadata"]["uid"]) / container

    def _script(self, pod: Object, container: str) -> Path:
        return self.folder / str(pod["metadata"]["uid"]) / f"{container}.sh"

    def _make(self, pod: Object) -> None:
        spec, home = pod["spec"], self.folder / pod["metadata"]["uid"]
        for secret in spec.get("imagePullSecrets", ()):
            found = self.api.call("GET", f"{_namespace(pod)}/secrets/{secret['name']}")
            for one in spec["containers"]:
                logins = json.loads(base64.b64decode(found["data"][".dockerconfigjson"]))["auths"]
                self.pulled.setdefault(one["image"], []).extend(f"{row['username']}@{name}" for name, row in logins.items())
        for volume in spec.get("volumes", ()):
            self._volume(pod, volume, home / "volumes" / volume["name"])
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            self._root(pod, container, home)
        for container in spec.get("initContainers", ()):
            if container.get("restartPolicy") != "Always":
                command = [*self.enter(pod, container["name"]), *container["command"], *container.get("args", ())]
                subprocess.run(command, check=True, capture_output=True, timeout=60)
        execs = [
            {
                "containers": [one["name"]],
                "local": {"envs": [{"name": "CONTAINER", "value": str(self._script(pod, one["name"]))}]},
            }
            for one in spec["containers"]
        ]
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        body = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Exec", "metadata": {"name": name}, "spec": {"execs": execs}}
        place = f"{EXECS}/namespaces/{namespace}/execs"
        try:
            self.api.call("POST", place, body)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
            self.api.call("PATCH", f"{place}/{name}", {"spec": body["spec"]}, "application/merge-patch+json")
        self._report(pod)

    def _report(self, pod: Object) -> None:
        statuses = []
        for container in pod["spec"]["containers"]:
            probe = container.get("readinessProbe", {}).get("exec")
            command = [*self.enter(pod, container["name"]), *(probe["command"] if probe else ["true"])]
            ready = subprocess.run(command, check=False, capture_output=True, timeout=60).returncode == 0
            own = {key: container[key] for key in ("name", "image")} | {"imageID": "", "restartCount": 0}
            statuses.append(own | {"ready": ready, "started": True, "state": {"running": {}}})
        self.status(pod, {"phase": "Running", "containerStatuses": statuses})

    def status(self, pod: Object, status: Mapping[str, Any]) -> None:
        """Write the status of a pod."""
        path = f"{_namespace(pod)}/pods/{pod['metadata']['name']}/status"
        self.api.call("PATCH", path, {"status": status}, "application/merge-patch+json")

    def _volume(self, pod: Object, volume: Object, path: Path) -> None:
        path.mkdir(parents=True)
        if (kind := volume.get("configMap")) is not None:
            data = self.api.call("GET", f"{_namespace(pod)}/configmaps/{kind['name']}")["data"]
            for name, text in data.items():
                (path / name).write_text(text, encoding="utf-8")
        elif (projected := volume.get("projected")) is not None and any(
            "serviceAccountToken" in one for one in projected["sources"]
        ):
            account = pod["spec"]["serviceAccountName"]
            bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
            own = {"expirationSeconds": 3600, "boundObjectRef": bound}
            request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": own}
            token = self.api.call("POST", f"{_namespace(pod)}/serviceaccounts/{account}/token", request)["status"]["token"]
            (path / "token").write_text(token, encoding="ascii")
            (path / "namespace").write_text(pod["metadata"]["namespace"], encoding="ascii")
            shutil.copy(self.server[2], path / "ca.crt")

    def _root(self, pod: Object, container: Object, home: Path) -> None:
        root = home / container["name"]
        for name in ("tmp", "root", "etc", "opt/image", "home/runner/externals/node20/bin", "var/tmp"):
            (root / name).mkdir(parents=True)
        node = root / "home/runner/externals/node20/bin/node"
        node.write_text(f'#!/bin/sh\nexec {Path(str(shutil.which("node"))).resolve()} "$@"\n', encoding="utf-8")
        node.chmod(0o755)
        for name in PROGRAMS.get(container["image"].split(":")[0], ()):
            (root / "opt/image" / name).write_text("#!/bin/sh\n", encoding="ascii")
            (root / "opt/image" / name).chmod(0o755)
        for source in (Path("/etc") / name for name in _ETC):
            if source.is_dir():
                shutil.copytree(source, root / "etc" / source.name, symlinks=True)
            elif source.exists():
                shutil.copy(source, root / "etc")
        hosts = [{"ip": "127.0.0.1", "hostnames": ["localhost"]}, *pod["spec"].get("hostAliases", ())]
        lines = [f"{row['ip']} {' '.join(row['hostnames'])}\n" for row in hosts]
        (root / "etc/hosts").write_text("".join(lines), encoding="ascii")
        mounts = []
        for name in _KEPT:
            source = Path("/") / name
            if source.is_symlink():
                (root / name).symlink_to(source.readlink())
            elif source.exists():
                mounts.append((source, f"/{name}"))
        folder = Path(str(shutil.which("node"))).resolve().parent
        if folder.parts[1] not in _KEPT:
            mounts.append((folder, str(folder)))
        rows = sorted(container.get("volumeMounts", ()), key=lambda row: len(row["mountPath"]))
        mounts += [(home / "volumes" / row["name"] / row.get("subPath", ""), row["mountPath"]) for row in rows]
        lines = ["set -e\n"]
        for source, target in mounts:
            lines.append(f"mkdir -p {shlex.quote(str(root) + target)} {shlex.quote(str(source))}\n")
            lines.append(f"mount --rbind {shlex.quote(str(source))} {shlex.quote(str(root) + target)}\n")
        env = [f"{name}={value}" for name, value in self._environment(pod, container).items()]
        path = container.get("workingDir", "/")
        lines.append(f"mkdir -p {shlex.quote(str(root) + path)}\n")
        lines.append(f'exec env -i {shlex.join(env)} chroot {shlex.quote(str(root))} env -C {shlex.quote(path)} "$@"\n')
        self._script(pod, container["name"]).write_text("".join(lines), encoding="utf-8")

    def _environment(self, pod: Object, container: Object) -> dict[str, str]:
        env = {"PATH": "/opt/image:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"}
        env |= {"KUBERNETES_SERVICE_HOST": self.server[0], "KUBERNETES_SERVICE_PORT": str(self.server[1])}
        for row in container.get("env", ()):
            field = row.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
            env[row["name"]] = pod["metadata"][field.rsplit(".", 1)[1]] if field else row.get("value", "")
        return env


def _namespace(pod: Object) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}"
