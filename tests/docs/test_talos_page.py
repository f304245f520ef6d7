"""`docs/talos.md` names the files that are written, the releases that are pinned, and hosts that the homelab stack has."""

from __future__ import annotations

import re

import pytest

from fleet.facts import versions
from tests.docs.homelab import FILES, HOME, shell, talos_calls, talos_faults
from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "talos.md"
TEXT = PAGE.read_text(encoding="utf-8")
SHELL = shell("talos.md")


def rows(head: str) -> dict[str, list[str]]:
    """The rows of the table with a head, by first cell."""
    found = re.search(rf"^{re.escape(head)}\n\|[-|]*\|\n((?:\|.*\|\n)+)", TEXT, re.MULTILINE)
    assert found is not None, head
    cells = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].splitlines())
    return {first.strip("| "): [cell.strip("| ") for cell in rest] for first, *rest in cells}


def test_every_kind_of_file_is_on_the_page() -> None:
    named = [re.sub(r"<\w+>", "[^/]+", path.strip("`")) for path in rows("| file | is |")]
    assert len(named) == 7, "the table was read"
    assert [path for path in FILES if not any(re.fullmatch(each, path) for each in named)] == []


def test_the_releases_are_those_that_are_pinned() -> None:
    table = rows(f"| | {' | '.join(versions.TALOS)} |")
    pinned = versions.TALOS.values()
    assert [cell.partition(",")[0] for cell in table["pinned release"]] == [each.release for each in pinned]
    for tier in ("production", "lts"):
        assert table[f"driver: {tier}"] == [each.drivers[tier] for each in pinned]
    assert table["container toolkit"] == [each.toolkit for each in pinned]
    assert table["Kubernetes"] == [" to ".join(each.kubernetes) for each in pinned]


def test_commands_name_files_hosts_and_releases_of_the_homelab() -> None:
    called = talos_calls(SHELL)
    assert len(called) > 15, "the page's commands were read"
    assert list(talos_faults(SHELL)) == []
    assert HOME.release.release in SHELL
    assert HOME.kubernetes.removeprefix("v") in SHELL
    assert HOME.endpoint in [word for call in called for word in call]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("talosctl --nodes 192.0.2.99 reboot", "host 192.0.2.99"),
        ("talhelper genconfig --config-file $T/talos.yaml", "file talos.yaml"),
        ("talosctl gen config home x --config-patch @$T/patches/gpu.yaml", "file patches/gpu.yaml"),
        (
            "talosctl apply-config --nodes 192.0.2.11 --file build/talos/home-talos-cluster-gpu-worker-00.yaml",
            "config of talos-cluster-gpu-worker-00 for 192.0.2.11",
        ),
        ("talosctl upgrade --nodes 192.0.2.20 --image factory.talos.dev/metal-installer/$ID:v1.0.0", "release v1.0.0"),
        ("talosctl gen config home x --kubernetes-version 1.2.3", "release v1.2.3"),
    ],
)
def test_what_the_homelab_does_not_have_is_found(line: str, fault: str) -> None:
    assert list(talos_faults(line)) == [fault]
