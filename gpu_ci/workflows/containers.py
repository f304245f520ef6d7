"""What a job says of its containers: `container` and `services` (docs.github.com, "Workflow syntax for GitHub Actions")."""

import re
import shlex
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from gpu_ci.workflows.expressions import Contexts, filled, is_open, may_be_empty

_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,3})?) ?([bkmg]?)b?", re.IGNORECASE)
_BYTES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
"""Units of a size in Docker's options; without one it is in bytes (docs.docker.com, "docker container run", --shm-size)."""


_PORT = re.compile(r"(?:.*:)?([0-9]{1,5})(?:-([0-9]{1,5}))?(/[a-z]+)?")
"""A port of a container, or several: "6379:6379", "127.0.0.1:53:53/udp", "8000-8010"."""


class Container(NamedTuple):
    """A container that a job asks for. `key` is where: "container", or "services.redis". `credentials`: it names some."""

    key: str
    image: str
    options: str = ""
    volumes: tuple[str, ...] = ()
    ports: tuple[str, ...] = ()
    credentials: bool = False

    @property
    def open(self) -> bool:
        """Whether only GitHub knows if it has an image. GitHub starts no container for an empty one."""
        return may_be_empty(self.image)

    @property
    def registry(self) -> str:
        """The registry of the image; empty for Docker Hub (actions/runner, DockerUtil.ParseRegistryHostnameFromImageName)."""
        first, slash, _ = self.image.partition("/")
        return first if slash and (re.search(r"[.:]", first) or first == "localhost") else ""

    @property
    def listens(self) -> frozenset[str]:
        """Its ports, each alone, with a protocol other than TCP."""
        ports: set[str] = set()
        for first, last, protocol in (match.groups("") for port in self.ports if (match := _PORT.fullmatch(port))):
            ports |= {f"{number}{protocol.removesuffix('/tcp')}" for number in range(int(first), int(last or first) + 1)}
        return frozenset(ports)

    @property
    def flags(self) -> Iterator[tuple[str, str]]:
        """Docker's options with their values: ("--shm-size", "8g"), and ("--init", "") for one without."""
        try:
            words = shlex.split(self.options)
        except ValueError:
            words = self.options.split()
        for word, following in pairwise([*words, "-"]):
            if word.startswith("-") and word[1:2] != "-" and len(word) > 2:
                yield word[:2], word[2:]
            elif word.startswith("-"):
                name, equals, value = word.partition("=")
                yield name, value if equals or following.startswith("-") else following


def containers_of(job: Mapping[str, Any], contexts: Contexts) -> tuple[Container, ...]:
    """The containers of a job that have an image, or may have one. An expression that is left stands for a container."""
    written = (job.get("container"), job.get("services"))
    container, services = (filled(value, contexts) if is_open(value) else value for value in written)
    entries = [("container", container)]
    if isinstance(services, Mapping):
        entries += [(f"services.{name}", entry) for name, entry in services.items()]
    elif is_open(services):
        entries.append(("services", services))
    return tuple(found for key, entry in entries if (found := _container(key, entry, contexts)).image)


def _container(key: str, entry: object, contexts: Contexts) -> Container:
    if not isinstance(entry, Mapping):
        return Container(key, str(filled(entry, contexts) or ""))
    # The expressions of its other keys are most often secrets.
    image, options = (str(filled(entry.get(name), contexts) or "") for name in ("image", "options"))
    volumes, ports = (tuple(map(str, rows)) if isinstance(rows := entry.get(name), list) else () for name in ("volumes", "ports"))
    return Container(key, image, options, volumes, ports, entry.get("credentials") is not None)


def mebibytes(size: str) -> float:
    """A size of Docker's options in MiB; 0 for anything else."""
    return float(match[1]) * _BYTES[match[2].lower()] / 2**20 if (match := _SIZE.fullmatch(size)) else 0
