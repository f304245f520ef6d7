"""The real control plane of a world: etcd, API server, controllers and scheduler, and kwok for the kubelets."""

import hashlib
import http.client
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from string import Template
from threading import Event, Thread
from types import MappingProxyType
from typing import Any
from urllib.error import HTTPError

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from fleet.facts.tables import beside
from fleet.render.sweeps.api import Api, Collection, Object
from gpu_ci.world.parts import Parts
from gpu_ci.world.processes import Processes, WorldError, free_port, private
from gpu_ci.world.services import SOCKET

HANDS_LABEL = "gpu-ci.world/hands"
"""Label of pods that a process stands for. kwok does not remove them; the part that ended the process does."""
FAKE_NODE = "kwok.x-k8s.io/node"
"""Annotation of nodes that kwok keeps ready. Without it a kubelet is silent."""
_PATIENCE = 90
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:basic-user"
_FLAGS: dict[str, dict[str, str]] = beside(__file__, "flags.toml")
_USERS = {"admin": "system:masters", "system:kube-controller-manager": "", "system:kube-scheduler": ""}
"""Users with a token, and the group of each."""


@dataclass
class Plane:
    """A control plane that runs. `api` is its administrator's client, `authority` the file with its certificate."""

    processes: Processes
    parts: Parts
    folder: Path
    port: int
    etcd: str
    tokens: Mapping[str, str]
    _kinds: dict[str, dict[str, Object]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address of the API server."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate that clients trust."""
        return self.folder / "apiserver.crt"

    @property
    def api(self) -> Api:
        """The client of the administrator."""
        return self.client(self.tokens["admin"])

    def client(self, token: str) -> Api:
        """The client of a bearer token."""
        path = self.folder / "tokens" / _digest(token)
        return Api(self.url, path if path.exists() else private(path, token), self.authority)

    def account(self, namespace: str, name: str, seconds: int = 86400) -> str:
        """A token of a ServiceAccount. Raises urllib.error.HTTPError if there is none."""
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        answer = self.api.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", asked)
        token: str = answer["status"]["token"]
        return token

    def kubeconfig(self, token: str = "") -> Path:
        """A kubeconfig of a bearer token, the administrator's without one."""
        token = token or self.tokens["admin"]
        text = filled("kubeconfig.yaml", url=self.url, authority=self.authority, token=token)
        return private(self.folder / f"kubeconfig-{_digest(token)}", text)

    def collection(self, version: str, kind: str, namespace: str = "") -> str:
        """The path of all objects of a kind. Raises KeyError if the API server does not serve it."""
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if kind not in self._kinds.get(version, {}):
            try:
                resources = self.api.call("GET", root)["resources"]
            except HTTPError as error:
                raise KeyError(f"{version} {kind}: {error}") from error
            self._kinds[version] = {each["kind"]: each for each in resources if "/" not in each["name"]}
        of_kind = self._kinds[version][kind]
        place = f"/namespaces/{namespace or 'default'}" if of_kind["namespaced"] else ""
        return f"{root}{place}/{of_kind['name']}"

    def path(self, manifest: Object) -> str:
        """The path of an object."""
        metadata = manifest["metadata"]
        collection = self.collection(manifest["apiVersion"], manifest["kind"], metadata.get("namespace", ""))
        return f"{collection}/{metadata['name']}"

    def apply(self, manifest: Object, manager: str = "gpu-ci") -> Object:
        """Apply an object on the server's side. Raises urllib.error.HTTPError as the API server does."""
        path = f"{self.path(manifest)}?fieldManager={manager}&force=true"
        return self.api.call("PATCH", path, manifest, "application/apply-patch+yaml")

    def wait(self, ready: Callable[[], bool], what: str, seconds: float = _PATIENCE) -> None:
        """Wait until `ready` is true; a request that fails is false. Raises WorldError if it takes longer or a program ends."""
        end = time.monotonic() + seconds
        while True:
            with suppress(*FAILS):
                if ready():
                    return
            self.processes.require_alive()
            if time.monotonic() > end:
                raise WorldError(f"{what} took more than {seconds:.0f} seconds; the logs are in {self.folder / 'logs'}")
            time.sleep(0.1)

    def serve(self) -> None:
        """Start the API server, on the same port each time."""
        self.run("kube-apiserver", {"secure-port": self.port})
        self.wait(lambda: self.authority.exists() and "system:basic-user" in str(self.api.call("GET", _ROLES)), "the API server")

    def run(self, name: str, more: Mapping[str, object] = MappingProxyType({})) -> None:
        """Start a program with its flags of flags.toml and with more. `wait` fails if it ends."""
        values = {"folder": self.folder, "etcd": self.etcd, "free": free_port()}
        fixed = {key: Template(text).substitute(values) for key, text in _FLAGS.get(name, {}).items()}
        flags = (f"--{key}={value}" for key, value in {**fixed, **more}.items())
        self.processes.start(name, [self.parts[name], *flags], needed=True)


def control_plane(processes: Processes, parts: Parts) -> Plane:
    """Start all programs, and wait until they work. Raises WorldError."""
    folder = processes.folder
    key = _new_key()
    private(folder / "accounts.pem", _pem(key))
    private(folder / "proxy.pem", _certificate(key))
    tokens = {user: secrets.token_urlsafe(24) for user in _USERS}
    private(folder / "tokens.csv", "\n".join(f"{tokens[user]},{user},{user},{group}" for user, group in _USERS.items()))
    private(folder / "egress.yaml", filled("egress.yaml", socket=folder / SOCKET))
    plane = Plane(processes, parts, folder, free_port(), f"http://127.0.0.1:{free_port()}", tokens)
    plane.run("etcd")
    plane.serve()
    for name in ("kube-controller-manager", "kube-scheduler"):
        plane.run(name, {"kubeconfig": plane.kubeconfig(tokens[f"system:{name}"])})
    plane.run("kwok", {"kubeconfig": plane.kubeconfig(), "config": Path(__file__).with_name("stages.yaml")})
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    plane.wait(lambda: plane.api.call("GET", account)["kind"] == "ServiceAccount", "the controller manager")
    return plane


def rsa_key() -> str:
    """A new RSA key as PEM, of a run alone."""
    return _pem(_new_key())


def _new_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _pem(key: rsa.RSAPrivateKey) -> str:
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _certificate(key: rsa.RSAPrivateKey) -> str:
    """A certificate of the key as PEM, by which the servers of other APIs know the API server."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proxy")])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, datetime(2000, 1, 1), datetime(2100, 1, 1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def filled(name: str, **values: object) -> str:
    """The text of a file beside this one, with these values in the place of its $names."""
    return Template(Path(__file__).with_name(name).read_text(encoding="utf-8")).substitute(values)


def _digest(token: str) -> str:
    """A token's name in the names of files."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


# -- collections of the API server that a thread keeps up to date, and passes over them ------------------------------------

LOG = logging.getLogger("gpu_ci.world")
FAILS = (OSError, http.client.HTTPException, ValueError, KeyError, HTTPError)
"""What a request to an API server that starts again, or goes away, raises."""


class Followed(Collection):
    """The objects at a path, whole, followed until `stop` is set. `wakes` are set after each change."""

    def __init__(self, api: Api, path: str, stop: Event, *wakes: Event) -> None:
        super().__init__(api, path, lambda entry: entry)
        self.lasts = 600
        self._stop, self.wakes = stop, [*wakes]
        Thread(target=self._run, daemon=True, name=f"follow {path}").start()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.follow(self._changed)
            except FAILS as error:
                LOG.debug("%s: %s", self.path, error)
                self._stop.wait(0.3)

    def _changed(self) -> None:
        for wake in self.wakes:
            wake.set()


def passes(once: Callable[[], Any], wake: Event, stop: Event, every: float = 1.0) -> Thread:
    """Call `once` after each change and every `every` seconds, in a thread, until `stop` is set. A failure ends one pass."""

    def run() -> None:
        while not stop.is_set():
            wake.wait(every)
            wake.clear()
            try:
                once()
            except FAILS as error:
                LOG.debug("%s: %s", once, error)
                stop.wait(0.3)

    thread = Thread(target=run, daemon=True, name=f"passes {once}")
    thread.start()
    return thread


def now() -> str:
    """The time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_status(api: Api, pod: Object, status: Object) -> None:
    """Write a part of a pod's status, as its kubelet would. The API server merges lists by name and type."""
    api.call("PATCH", f"{path_of(pod)}/status", {"status": status}, "application/strategic-merge-patch+json")


def path_of(pod: Object) -> str:
    """The path of a pod."""
    return "/api/v1/namespaces/{namespace}/pods/{name}".format_map(pod["metadata"])


def merge(api: Api, path: str, part: Object) -> None:
    """Change a part of an object. Raises as `Api.call` does."""
    api.call("PATCH", path, part, "application/merge-patch+json")


def found(api: Api, path: str) -> Object | None:
    """The object; None if there is none. Raises as `Api.call` does."""
    try:
        return api.call("GET", path)
    except HTTPError as error:
        if error.code != http.client.NOT_FOUND:
            raise
    return None


def gone(api: Api, path: str) -> bool:
    """Whether there is no such object. Raises as `Api.call` does."""
    return found(api, path) is None


def delete(api: Api, path: str, **options: Any) -> None:
    """Delete an object, which may be gone already."""
    with suppress(HTTPError):
        api.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})


def owner_of(entry: Object) -> tuple[str, str]:
    """Kind and name of the object that controls this one; empty texts without one."""
    owners: Sequence[Object] = entry["metadata"].get("ownerReferences", ())
    return next(((owner["kind"], owner["name"]) for owner in owners if owner.get("controller")), ("", ""))
