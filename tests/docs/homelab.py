"""The homelab as its pages name it: hosts, files that machines boot, releases."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from fleet.providers.talos.boot.patch import talos_files
from fleet.providers.talos.cluster import TalosCluster
from tests.docs.inside import stack
from tests.docs.kubectl import commands
from tests.docs.markdown import ROOT, fences

NAME, HOME = next((name, found) for name, found in stack("homelab").clusters_by_name() if isinstance(found, TalosCluster))
FILES = talos_files(NAME, HOME)
HOSTS = {host.address: name for _, name, host in HOME.hosts()}
TALOSCTL = ("talosctl", "talhelper")


def shell(page: str) -> str:
    """The shell blocks of a page of docs/."""
    return "\n".join(fence.text for fence in fences() if fence.page == ROOT / "docs" / page)


def talos_calls(text: str) -> list[tuple[str, ...]]:
    """Calls of Talos' clients in a shell text."""
    return [call for program in TALOSCTL for call in commands(text, program)]


def talos_faults(text: str) -> Iterator[str]:
    """What calls of Talos' clients name and the homelab does not have: files, hosts, releases."""
    for call in talos_calls(text):
        given = dict(itertools.pairwise(call))
        host = given.get("--nodes")
        if host is not None and host not in HOSTS:
            yield f"host {host}"
        for path in (word.removeprefix("@").removeprefix("$T/") for word in call if word.startswith(("$T/", "@$T/"))):
            if path not in FILES:
                yield f"file {path}"
        config = re.search(rf"{NAME}-(talos[\w-]+)\.yaml", given.get("--file", ""))
        if config is not None and config[1] != HOSTS.get(host or ""):
            yield f"config of {config[1]} for {host}"
    releases = set(re.findall(r"(?:installer/\$ID:|--talos-version )(v[\w.-]+)", text))
    kubernetes = {f"v{each}" for each in re.findall(r"--kubernetes-version ([\d.]+)", text)}
    yield from (f"release {each}" for each in sorted((releases - {HOME.release.release}) | (kubernetes - {HOME.kubernetes})))
