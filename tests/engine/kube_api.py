"""The API server of a simulated cluster, on loopback: what exists in it, and Helm's records of its releases."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.engine.live import Cloud

RELEASE = "kubernetes:helm.sh/v3:Release"
_WHOLE_CLUSTER = ("Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass")


@dataclass
class Cluster:
    """A cluster of a cloud. `status` has the status of releases that are not deployed, by id."""

    cloud: Cloud
    name: str
    status: dict[str, str] = field(default_factory=dict)

    def answer(self, path: str) -> Any:
        """What the API server has at a path; None for 404."""
        words = [unquote(word) for word in urlsplit(path).path.strip("/").split("/")]
        version, rest = ("core/v1", words[2:]) if words[0] == "api" else ("/".join(words[1:3]), words[3:])
        kinds = {f"{kind.lower()}s": kind for kind in self._kinds(version)}
        if not rest:
            served = [{"name": plural, "kind": kind, "namespaced": kind not in _WHOLE_CLUSTER} for plural, kind in kinds.items()]
            return {"resources": served} if served else None
        if rest == ["secrets"]:
            return {"items": [self._record(each.id) for each in self.cloud.live(RELEASE, lambda each: each.scope == self.name)]}
        namespace, (plural, name) = ("", rest) if len(rest) == 2 else (rest[1], rest[2:])
        identity = "/".join(filter(None, (namespace, name)))
        return {} if self.cloud.find(f"kubernetes:{version}:{kinds.get(plural)}", identity, self.name) else None

    def _kinds(self, version: str) -> set[str]:
        start = f"kubernetes:{version}:"
        return {each.type.removeprefix(start) for each in self.cloud.live() if each.type.startswith(start)}

    def _record(self, identity: str) -> dict[str, Any]:
        namespace, name = identity.split("/")
        labels = {"owner": "helm", "name": name, "status": self.status.get(identity, "deployed"), "version": "1"}
        return {"metadata": {"namespace": namespace, "labels": labels}}


@contextmanager
def serve(cluster: Cluster, folder: Path) -> Iterator[Path]:
    """The kubeconfig with which a client reaches the cluster."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = cluster.answer(self.path)
            body = json.dumps({"message": "not found"} if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Writes nothing to stderr."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    path = folder / "kubeconfig"
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": cluster.name, "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(config))
    try:
        yield path
    finally:
        server.shutdown()
        server.server_close()
