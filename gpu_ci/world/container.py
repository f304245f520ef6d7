"""What a kubelet gives a container: its environment, its words, the files of its volumes and a root of its own."""

import base64
import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

from fleet.facts.errors import InputError
from fleet.facts.yaml_text import kubernetes_documents
from fleet.render.sweeps.api import Api, Object
from gpu_ci.world.plane import Plane, path_of
from gpu_ci.world.processes import free_port

_VARIABLE = re.compile(r"\$\$|\$\(([-._a-zA-Z][-._a-zA-Z0-9]*)\)")
_ADDRESS = re.compile(r'(--(?:address|metrics-addr|health-probe-bind-address|pprof-addr)=|"metrics_addr":")[\d.]*:(\d+)')
"""Where programs listen: flags of ARC's controller and of cluster-autoscaler, and a key of a listener's configuration."""
_OF_KUEUE = "apiVersion: config.kueue.x-k8s.io/"
"""The beginning of Kueue's configuration. Its default ports are in apis/config/v1beta2/defaults.go."""
_OF_HOST = ("/dev", "/proc", "/usr", "/lib", "/lib64", "/bin", sys.base_prefix)
"""What a root has of this machine: enough for Python and its libraries."""
_ENTER = Path(__file__).with_name("enter.sh").read_text(encoding="utf-8")
"""Mounts pairs of a source and a place, and replaces itself by the program: signals reach it, and its exit code is seen."""


@dataclass
class Pod:
    """A pod with the folder of its volumes, which only the owner reads. `ports` are local ports by those of its containers."""

    plane: Plane
    api: Api
    entry: Object
    folder: Path
    ports: dict[int, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.entry["metadata"]["namespace"], self.entry["metadata"]["name"]

    @property
    def path(self) -> str:
        """Where the API has it."""
        return path_of(self.entry)

    def environment(self, container: Object) -> tuple[dict[str, str], dict[str, str]]:
        """The environment, and the part of it that words may have: no value of a Secret, since other users see words.

        Raises urllib.error.HTTPError, KeyError or ValueError if something is missing.
        """
        env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.plane.port)}
        shown = dict(env)
        for source in container.get("envFrom", ()):
            kind = next(key for key in source if key != "prefix")
            values = {source.get("prefix", "") + key: value.decode() for key, value in self._data(kind, source[kind]).items()}
            env |= values
            shown |= {} if kind == "secretRef" else values
        for variable in container.get("env", ()):
            for values in (env, shown):
                value = self._value(variable, values)
                if value is not None and not (values is shown and "secretKeyRef" in variable.get("valueFrom", ())):
                    values[variable["name"]] = value
        return env, shown

    def local(self, text: str) -> str:
        """The text with each address at which a program listens on a free port of the loopback interface."""

        if text.startswith(_OF_KUEUE):
            return json.dumps(self._of_kueue(kubernetes_documents("config", text)[0].value))
        return _ADDRESS.sub(lambda match: f"{match[1]}127.0.0.1:{self._port(int(match[2]))}", text)

    def _port(self, port: int) -> int:
        return self.ports.setdefault(port, free_port())

    def _of_kueue(self, config: Any) -> Object:
        """Kueue's configuration with addresses. It names none, and Kueue would listen on the same ports in each world."""
        host = "127.0.0.1"
        return {
            **config,
            "health": {"healthProbeBindAddress": f"{host}:{self._port(8081)}"},
            "metrics": {**config.get("metrics", {}), "bindAddress": f"{host}:{self._port(8443)}"},
            "webhook": {"host": host, "port": self._port(9443)},
            "visibilityServer": {"bindAddress": host, "bindPort": self._port(8082)},
        }

    def mounts(self, container: Object) -> Iterator[tuple[Path, str]]:
        """Folders and files of the container's volumes, written anew, and where it has them. Raises as `environment` does."""
        volumes = {volume["name"]: volume for volume in self.entry["spec"].get("volumes", ())}
        for mount in sorted(container.get("volumeMounts", ()), key=lambda mount: str(mount["mountPath"])):
            place = self.folder / mount["name"]
            place.mkdir(exist_ok=True)
            for path, content in self._files(volumes[mount["name"]]).items():
                (place / path).parent.mkdir(parents=True, exist_ok=True)
                (place / path).write_bytes(self.local(content.decode("latin-1")).encode("latin-1"))
            yield place / mount.get("subPath", ""), mount["mountPath"]

    def _value(self, variable: Object, env: Mapping[str, str]) -> str | None:
        if "valueFrom" not in variable:
            return expanded(variable.get("value", ""), env)
        ((kind, source),) = variable["valueFrom"].items()
        if kind == "fieldRef":
            return _field(self.entry, source["fieldPath"])
        if kind not in ("secretKeyRef", "configMapKeyRef"):
            raise ValueError(f"env {variable['name']}: {kind} is not simulated")
        data = self._data(kind, source)
        return None if source.get("optional") and source["key"] not in data else data[source["key"]].decode()

    def _files(self, volume: Object) -> dict[str, bytes]:
        """The files of a volume, or of a source of a projected one, by path. Other kinds, such as emptyDir, have none."""
        if "projected" in volume:
            return {path: text for source in volume["projected"]["sources"] for path, text in self._files(source).items()}
        if "serviceAccountToken" in volume:
            token = self.plane.account(self.key[0], self.entry["spec"]["serviceAccountName"])
            return {volume["serviceAccountToken"]["path"]: token.encode()}
        if "downwardAPI" in volume:
            items = volume["downwardAPI"]["items"]
            return {item["path"]: _field(self.entry, item["fieldRef"]["fieldPath"]).encode() for item in items}
        for kind in volume.keys() & {"secret", "configMap"}:
            data, items = self._data(kind, volume[kind]), volume[kind].get("items")
            return data if items is None else {item["path"]: data[item["key"]] for item in items}
        return {}

    def _data(self, kind: str, source: Object) -> dict[str, bytes]:
        """The data of a Secret or ConfigMap, none of an optional one that is missing."""
        secret = kind.startswith("secret")
        name = source.get("secretName") or source["name"]
        place = f"/api/v1/namespaces/{self.key[0]}/{'secrets' if secret else 'configmaps'}/{name}"
        try:
            entry = self.api.call("GET", place)
        except HTTPError as error:
            if error.code == http.client.NOT_FOUND and source.get("optional"):
                return {}
            raise
        data = entry.get("data", {})
        plain = {} if secret else {key: text.encode() for key, text in data.items()}
        coded = data if secret else entry.get("binaryData", {})
        return plain | {key: base64.b64decode(text) for key, text in coded.items()}


def expanded(text: str, env: Mapping[str, str]) -> str:
    """The text with the values of its $(VARIABLES). Unknown ones stay, and $$ is a dollar (Kubernetes API, Container.args)."""
    return _VARIABLE.sub(lambda match: env.get(match[1], match[0]) if match[1] else "$", text)


def _field(entry: Object, path: str) -> str:
    """The field of a pod that a fieldRef names."""
    value: Any = entry
    for key in re.findall(r"\['([^']+)'\]|([^.\[]+)", path):
        value = value.get(key[0] or key[1], "")
    return "\n".join(f'{key}="{text}"' for key, text in sorted(value.items())) if isinstance(value, dict) else str(value)


def namespaces(folder: Path) -> list[str]:
    """The words before a program that has mounts and a host name of its own. Raises InputError if this machine refuses them."""
    ways = (["unshare", "--mount", "--uts"], ["unshare", "--user", "--map-root-user", "--mount", "--uts"])
    for way in ways:
        try:
            subprocess.run([*way, "mount", "--rbind", str(folder), str(folder)], check=True, capture_output=True)  # noqa: S603
        except (OSError, subprocess.CalledProcessError):
            continue
        return way
    why = f"this machine refuses `{' '.join(ways[-1])}` of util-linux, which gives each program the files of its pod"
    how = "sysctl user.max_user_namespaces, on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0"
    raise InputError(f"namespaces: {why}; run as root, or allow user namespaces: {how}")


def entering(way: list[str], root: Path, host: str, place: str, mounts: list[tuple[Path, str]]) -> list[str]:
    """The words before a program's own that give it the folder `root` with these mounts, and start it at `place`."""
    # A place below a folder of this machine would be created there.
    places = [place for _, place in mounts]
    free = [path for path in _OF_HOST if Path(path).exists() and not any(place.startswith(f"{path}/") for place in places)]
    pairs = [str(part) for pair in (*((path, path) for path in free), *mounts) for part in pair]
    root.mkdir(exist_ok=True)
    return [*way, "sh", "-euc", _ENTER, "sh", str(root), host, place, *pairs, "--"]
