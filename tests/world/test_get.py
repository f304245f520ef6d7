"""`gpu-ci world --get` against a server on loopback."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import platform
import re
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import typer

from fleet.facts.errors import InputError
from fleet.facts.tables import toml
from fleet.facts.versions import CHARTS, KUBERNETES, PROMETHEUS_IMAGE, TALOS_KUBERNETES, ChartVersion
from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.web import Answer, Web
from gpu_ci.offline.layout import MaskingConsole
from gpu_ci.offline.progress import Progress
from gpu_ci.world import get as module
from gpu_ci.world.get import PROGRAMS, Program, get, get_charts, listing
from gpu_ci.world.parts import NEEDED, OPTIONAL, find
from tests.builders import ROOT
from tests.cases import cases
from tests.doctor.loopback import Answers, serve, serve_raw

HOST = "https://releases.example.com"
IMAGE = "registry.example.com/arc/controller:0.14.2"
KWOK, LISTENER, MANAGER = b"#!/bin/sh\necho kwok\n", b"#!/bin/sh\necho listener\n", b"#!/bin/sh\necho manager\n"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def packed(files: Mapping[str, bytes], links: Mapping[str, str] = {}) -> bytes:
    """A compressed archive of files by path, and of symbolic links to other paths."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return out.getvalue()


def etcd(archive: bytes, arm64: bytes = b"") -> Program:
    """A program in an archive."""
    url = f"{HOST}/etcd-{{version}}-{{arch}}.tar.gz"
    return Program("etcd", "", "3.6", url, "etcd-{version}-{arch}/etcd", sha256(archive), sha256(arm64), mib=1)


def kwok(content: bytes = KWOK) -> Program:
    """A program that is a file."""
    return Program("kwok", "", "0.8", f"{HOST}/kwok-{{arch}}", amd64=sha256(content), arm64=sha256(content), mib=1)


ARCHIVE = packed({"etcd-3.6-amd64/README.md": b"", "etcd-3.6-amd64/etcd": b"etcd"})
FILES: Answers = {"/etcd-3.6-amd64.tar.gz": (200, ARCHIVE), "/kwok-amd64": (200, KWOK)}


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine for amd64 with nothing on PATH, and a world of two programs."""
    of_machine(monkeypatch, "Linux", "x86_64")
    monkeypatch.setenv("PATH", "")
    of_world(monkeypatch, etcd(ARCHIVE), kwok())


def of_machine(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)


def of_world(monkeypatch: pytest.MonkeyPatch, *programs: Program) -> None:
    monkeypatch.setattr(module, "PROGRAMS", {program.name: program for program in programs})


def at(url: str) -> Web:
    return Web(instead={HOST: url, "https://registry.example.com": url})


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_file_and_a_member_of_an_archive_become_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    stages: list[str] = []
    with serve(FILES) as server:
        assert get(tmp_path / "new" / "cache", (), stages.append, at(server.url)) == ["etcd", "kwok"]
    folder = tmp_path / "new" / "cache"
    assert files(folder) == ["etcd", "etcd.sha256", "kwok", "kwok.sha256"]
    assert subprocess.run([folder / "kwok"], capture_output=True, check=True).stdout == b"kwok\n", "it can run"
    assert stat.S_IMODE((folder / "etcd").stat().st_mode) == 0o755
    assert {name for name in NEEDED if name in find(folder)} == {"etcd", "kwok"}, "a world finds them"
    assert stages == ["etcd 3.6: 1 MiB from releases.example.com", "kwok 0.8: 1 MiB from releases.example.com"]
    assert capsys.readouterr() == ("", ""), "the caller prints the stages, and nothing else is printed"


def test_a_second_call_downloads_nothing_and_a_new_version_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with serve(FILES) as server:
        get(tmp_path, (), web=at(server.url))
        asked = len(server.asked)
        assert get(tmp_path, (), web=at(server.url)) == []
        assert len(server.asked) == asked == 2
    newer = b"#!/bin/sh\necho newer\n"
    of_world(monkeypatch, etcd(ARCHIVE), kwok(newer))
    with serve({"/kwok-amd64": (200, newer)}) as server:
        assert get(tmp_path, (), web=at(server.url)) == ["kwok"]
    assert (tmp_path / "kwok").read_bytes() == newer


def test_names_choose_programs_and_path_is_enough_without_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = tmp_path / "bin" / "etcd"
    own.parent.mkdir()
    own.touch(0o755)
    monkeypatch.setenv("PATH", str(own.parent))
    with serve(FILES) as server:
        assert get(tmp_path / "a", ("etcd",), web=at(server.url)) == ["etcd"]
        assert get(tmp_path / "b", (), web=at(server.url)) == ["kwok"]


def test_arm64_gets_its_own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    of_machine(monkeypatch, "Linux", "aarch64")
    archive = packed({"etcd-3.6-arm64/etcd": b"of arm64"})
    of_world(monkeypatch, etcd(ARCHIVE, archive))
    with serve({**FILES, "/etcd-3.6-arm64.tar.gz": (200, archive)}) as server:
        get(tmp_path, (), web=at(server.url))
    assert (tmp_path / "etcd").read_bytes() == b"of arm64"


@cases(("system", "machine"), [("Darwin", "arm64"), ("Windows", "AMD64"), ("Linux", "riscv64")])
def test_another_machine_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, machine: str):
    of_machine(monkeypatch, system, machine)
    with pytest.raises(InputError, match=f"^machine: .* got {system} on {machine}; use a Linux VM$"):
        get(tmp_path / "cache")
    assert files(tmp_path) == []


CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n#!/bin/sh\n"
GONE = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"


@cases(
    ("answer", "why"),
    [(CUT, "does not answer as HTTP has it|ends early"), (GONE, "answers 404 to /kwok-amd64"), (b"", "does not answer|reached")],
)
def test_a_download_that_fails_leaves_nothing_and_the_next_call_begins_again(tmp_path: Path, answer: bytes, why: str):
    folder = tmp_path / str(len(answer))
    with serve_raw(answer) as url, pytest.raises(InputError, match=why) as raised:
        get(folder, ("kwok",), web=at(url))
    assert f"nothing was kept. Try again, or put it into {folder} by hand: {HOST}/kwok-amd64" in str(raised.value)
    assert files(folder) == []
    with serve(FILES) as server:
        assert get(folder, ("kwok",), web=at(server.url)) == ["kwok"]


def test_a_wrong_hash_is_one_line_and_leaves_the_program_of_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with serve(FILES) as server:
        get(tmp_path, ("kwok",), web=at(server.url))
    of_world(monkeypatch, kwok(b"newer"))
    with serve({"/kwok-amd64": (200, b"tampered")}) as server, pytest.raises(InputError) as raised:
        get(tmp_path, (), web=at(server.url))
    assert f"has the SHA-256 {sha256(b'tampered')}, recorded is {sha256(b'newer')}" in str(raised.value)
    assert "\n" not in str(raised.value)
    assert files(tmp_path) == ["kwok", "kwok.sha256"]
    assert (tmp_path / "kwok").read_bytes() == KWOK


def test_an_archive_writes_to_no_path_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wild = packed({"../../outside": b"x", "/tmp/outside": b"x", "./etcd-3.6-amd64/etcd": b"etcd"})  # noqa: S108 - a name in an archive
    linked = packed({"etcd-3.6-amd64/other": b"x"}, {"etcd-3.6-amd64/etcd": "/etc/passwd"})
    of_world(monkeypatch, etcd(wild))
    with serve({"/etcd": (200, wild)}) as server:
        get(tmp_path / "a", (), web=at(server.url))
    assert files(tmp_path) == ["a", "a/etcd", "a/etcd.sha256"]
    of_world(monkeypatch, etcd(linked))
    with (
        serve({"/etcd": (200, linked)}) as server,
        pytest.raises(InputError, match=r"has no file etcd-3[.]6-amd64/etcd; nothing was kept"),
    ):
        get(tmp_path / "b", (), web=at(server.url))
    assert files(tmp_path / "b") == []


def test_what_is_no_archive_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    of_world(monkeypatch, etcd(b"no archive"))
    with (
        serve({"/etcd": (200, b"no archive")}) as server,
        pytest.raises(InputError, match=r"^etcd: not a gzip file; nothing was kept"),
    ):
        get(tmp_path, (), web=at(server.url))
    assert files(tmp_path) == []


class Stopped(Web):
    """A way on which a download fails half-way, as `error` says."""

    error: BaseException

    def chunks(self, url: str, most: int, seconds: int, bearer: str = "") -> Iterator[bytes]:
        yield KWOK[:5]
        raise self.error


def stopped(error: BaseException) -> Web:
    web = Stopped()
    object.__setattr__(web, "error", error)
    return web


def test_a_full_disk_and_a_folder_that_cannot_be_are_errors_of_the_folder(tmp_path: Path):
    with pytest.raises(InputError, match=f"^{tmp_path}: No space left on device; make room there, or set XDG_CACHE_HOME"):
        get(tmp_path, ("kwok",), web=stopped(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    assert files(tmp_path) == []
    (tmp_path / "file").touch()
    with serve(FILES) as server, pytest.raises(InputError, match="file/cache: Not a directory; "):
        get(tmp_path / "file" / "cache", ("kwok",), web=at(server.url))


def test_ctrl_c_leaves_nothing_and_says_where_it_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(typer.Exit) as raised, Progress() as say:
        get(tmp_path, ("kwok",), say, stopped(KeyboardInterrupt()))
    assert raised.value.exit_code == 130
    assert "error: interrupted while kwok 0.8: 1 MiB from releases.example.com" in capsys.readouterr().err
    assert files(tmp_path) == []


def test_an_unknown_program_and_one_without_a_hash_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InputError, match=re.escape("program: no world has a program kwoc; did you mean kwok?")):
        get(tmp_path, ("kwoc",))
    of_world(monkeypatch, Program("kueue", "", "0.19", how="go install kueue@{version}"))
    with pytest.raises(InputError, match=re.escape("program: no hash of kueue is known; build it: go install kueue@0.19")):
        get(tmp_path, ("kueue",))
    assert get(tmp_path) == [], "without names it is left out"


PROXIED = """
import sys
from pathlib import Path
from gpu_ci.world import get as module
program = module.Program("kwok", "", "0.8", "http://localhost:9/kwok-{arch}", amd64=sys.argv[2], arm64=sys.argv[2])
module.PROGRAMS = {"kwok": program}
print(module.get(Path(sys.argv[1]), ("kwok",)))
"""


def test_the_proxy_of_the_environment_is_used(tmp_path: Path):
    with serve({"http://localhost:9/kwok-": (200, KWOK)}) as proxy:
        env = {"http_proxy": proxy.url, "PATH": ""}
        words = [sys.executable, "-c", PROXIED, str(tmp_path), sha256(KWOK)]
        printed = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    assert printed == "['kwok']\n"


def manifest(*layers: bytes) -> bytes:
    return json.dumps({"layers": [{"digest": f"sha256:{sha256(layer)}", "size": len(layer)} for layer in layers]}).encode()


BASE, LOWER, UPPER = packed({"etc/passwd": b""}), packed({"manager": MANAGER}), packed({"ghalistener": LISTENER})
OWN, FOREIGN = manifest(BASE, LOWER, UPPER), manifest(BASE)
INDEX = json.dumps(
    {
        "manifests": [
            {"digest": f"sha256:{sha256(FOREIGN)}", "platform": {"os": "windows", "architecture": "amd64"}},
            {"digest": f"sha256:{sha256(OWN)}", "platform": {"os": "linux", "architecture": "amd64"}},
            {"digest": f"sha256:{sha256(FOREIGN)}", "platform": None},
        ]
    }
).encode()


def registry(**instead: bytes) -> Answers:
    """The answers of a registry that has the image, with other bytes for the contents that `instead` names."""
    contents = {"index": INDEX, "own": OWN, "lower": LOWER, "upper": UPPER}
    kind = {"index": "manifests", "own": "manifests"}
    return {
        f"/v2/arc/controller/{kind.get(name, 'blobs')}/sha256:{sha256(content)}": (200, instead.get(name, content))
        for name, content in contents.items()
    }


def of_image(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """A world of programs in an image, which a row of versions.toml pins."""
    monkeypatch.setitem(toml("versions.toml"), "here", {"reference": f"{IMAGE}@sha256:{sha256(INDEX)}"})
    members = {"arc-manager": "manager", "ghalistener": "ghalistener", "other": "other"}
    of_world(monkeypatch, *(Program(name, "", image=("here",), member=members[name], how="build it") for name in names))


def test_programs_of_an_image_come_from_its_layers_and_only_as_many_as_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    of_image(monkeypatch, "ghalistener", "arc-manager")
    with serve(registry()) as server:
        assert get(tmp_path, (), web=at(server.url)) == ["ghalistener", "arc-manager"]
        assert get(tmp_path, (), web=at(server.url)) == []
        blobs = [path.rpartition(":")[2] for _, path in server.asked if "/blobs/" in path]
    assert blobs == [sha256(UPPER), sha256(UPPER), sha256(LOWER)], "the topmost layer first, and the base never"
    assert (tmp_path / "arc-manager").read_bytes() == MANAGER
    assert (tmp_path / "ghalistener").read_bytes() == LISTENER
    assert module.PROGRAMS["ghalistener"].release == "0.14.2"


class Locked(Web):
    """A way to a registry that shows nothing without the anonymous token."""

    def get(self, url: str, most: int = 0, headers: Mapping[str, str] | None = None, bearer: str = "") -> Answer:
        self._require(url, bearer)
        return super().get(url, most, headers, bearer)

    def chunks(self, url: str, most: int, seconds: int, bearer: str = "") -> Iterator[bytes]:
        self._require(url, bearer)
        return super().chunks(url, most, seconds, bearer)

    def _require(self, url: str, bearer: str) -> None:
        if "/v2/" in url and bearer != "everybodys":
            raise SourceError("locked", 401, 'Bearer realm="https://registry.example.com/login",service="example"')


def test_a_registry_that_wants_a_token_gets_the_anonymous_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    of_image(monkeypatch, "ghalistener")
    with serve({**registry(), "/login": (200, {"token": "everybodys"})}) as server:
        assert get(tmp_path, (), web=Locked(instead=at(server.url).instead)) == ["ghalistener"]


@cases(
    ("content", "why"),
    [("index", "sends another manifest than"), ("own", "sends another manifest than"), ("upper", "recorded is")],
)
def test_a_changed_content_of_an_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, why: str):
    of_image(monkeypatch, "ghalistener")
    with serve(registry(**{content: b"{}"})) as server, pytest.raises(InputError, match=f"^ghalistener: .*{why}.*build it"):
        get(tmp_path, (), web=at(server.url))
    assert files(tmp_path) == []


def test_an_image_without_the_architecture_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    of_machine(monkeypatch, "Linux", "aarch64")
    of_image(monkeypatch, "ghalistener")
    with serve(registry()) as server, pytest.raises(InputError, match="has nothing for Linux on arm64"):
        get(tmp_path, (), web=at(server.url))


def test_the_list_says_what_is_here_and_how_to_get_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    of_world(monkeypatch, kwok(), Program("kueue", "", "0.19", how="go install kueue@{version}", memory="below 140"))
    with serve(FILES) as server:
        get(tmp_path, (), web=at(server.url))
    capsys.readouterr()
    listing(MaskingConsole(width=250), tmp_path)
    rows = [re.split(r"\s{2,}", line.strip()) for line in capsys.readouterr().out.splitlines()]
    assert rows[2:] == [
        ["kwok", "0.8", str(tmp_path / "kwok"), "1", "unknown", "gpu-ci world --get"],
        ["kueue", "0.19", "missing", "unknown", "below 140", "go install kueue@0.19"],
    ]


def test_charts_come_by_helm_with_their_digest_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    chart = packed({"tool/Chart.yaml": b"name: tool"})
    pulled: list[str] = []

    def pull(words: Any, env: Any, **_: Any) -> Any:
        """What `helm pull` does: an archive in the folder that --destination names."""
        pulled.append(words[2])
        (Path(words[words.index("--destination") + 1]) / "tool-1.0.tgz").write_bytes(chart)
        return subprocess.CompletedProcess(words, 0, "")

    monkeypatch.setattr(subprocess, "run", pull)
    known = ChartVersion("tool", "https://charts.example.com", "1.0", sha256(chart))
    other = ChartVersion("other", "https://charts.example.com", "1.0", "0" * 64)
    monkeypatch.setattr(module, "CHARTS", {"tool": known, "unknown": ChartVersion("unknown", "", "1.0")})
    stages: list[str] = []
    assert get_charts(tmp_path, "helm", stages.append) == ["tool"]
    assert get_charts(tmp_path, "helm", stages.append) == []
    assert (pulled, stages) == (["tool"], ["chart tool 1.0"])
    assert files(tmp_path) == ["tool", "tool/1.0", "tool/1.0/Chart.yaml"]
    monkeypatch.setattr(module, "CHARTS", {"other": other})
    with pytest.raises(InputError, match=f"^chart other: 1.0 has the SHA-256 {sha256(chart)}, recorded is 0{{64}}; report it"):
        get_charts(tmp_path, "helm")
    assert files(tmp_path) == ["tool", "tool/1.0", "tool/1.0/Chart.yaml"]


@cases("name", list(PROGRAMS))
def test_a_row_says_how_to_get_its_program_on_both_architectures(name: str):
    program = PROGRAMS[name]
    assert program.page.startswith("https://github.com/")
    for architecture in ("amd64", "arm64"):
        filled = program.by_hand(architecture)
        assert filled
        assert "{" not in filled + program.filled(program.member, architecture)
        assert program.release in filled or program.image
        if name != "kueue":
            assert re.fullmatch(r"[0-9a-f]{64}", program.pin(architecture))
    if program.url:
        assert program.url.startswith("https://")
        assert program.amd64 != program.arm64
        assert program.by_hand("amd64") != program.by_hand("arm64")
        assert program.mib


def test_the_programs_are_those_of_a_world_and_have_the_versions_of_the_fleet():
    assert {"etcd", "kwok", "ghalistener"} < {*NEEDED}
    assert OPTIONAL.keys() == {"cluster-autoscaler", "prometheus", "kube-state-metrics", "kueue"}
    newest = [*KUBERNETES][-1]
    versions = {name: program.release for name, program in PROGRAMS.items()}
    kubernetes = {versions[name] for name in PROGRAMS if name.startswith("kube-") and name != "kube-state-metrics"}
    assert kubernetes == {TALOS_KUBERNETES[newest].removeprefix("v")}
    assert versions["cluster-autoscaler"].startswith(f"{newest}."), "its simulation has the scheduler of the same minor"
    assert f":v{versions['prometheus']}@" in PROMETHEUS_IMAGE
    assert versions["kueue"] == CHARTS["kueue"].version
    assert versions["arc-manager"] == versions["ghalistener"] == CHARTS["gha-runner-scale-set-controller"].version
