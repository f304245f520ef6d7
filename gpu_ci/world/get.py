"""Downloads the programs and charts of a world by pinned hash: files of releases, programs in layers of images, charts by Helm.

The programs are in fleet/facts/data/world.toml. A program appears in the folder whole or not at all.
"""

import hashlib
import platform
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from rich.console import Console

from fleet.facts.errors import InputError, instead
from fleet.facts.tables import entries, toml
from fleet.facts.versions import CHARTS
from fleet.providers.finding import SourceError
from gpu_ci.doctor.sources.registry import Blob, layers
from gpu_ci.doctor.sources.web import Web
from gpu_ci.offline.helm import chart_digest
from gpu_ci.offline.layout import show_table
from gpu_ci.offline.progress import Stages, quiet
from gpu_ci.world.parts import find

_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""The names that releases have for what `uname -m` prints."""
_MOST, _SECONDS = 500_000_000, 3600
"""The largest download in bytes, and the most time for it."""


class Program(NamedTuple):
    """A row of world.toml, whose head explains the fields."""

    name: str
    page: str
    version: str = ""
    url: str = ""
    member: str = ""
    amd64: str = ""
    arm64: str = ""
    image: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    how: str = ""
    without: str = ""
    mib: int = 0
    memory: str = "unknown"

    @property
    def reference(self) -> str:
        """The image that has the program, as registry/repository:tag@digest; empty if it comes from no image."""
        return ":".join(_pinned(row) for row in (self.repository, self.image) if row)

    @property
    def release(self) -> str:
        """The version, without a leading v."""
        return self.version or self.reference.partition("@")[0].rpartition(":")[2].removeprefix("v")

    def by_hand(self, architecture: str) -> str:
        """How to get the program without this command: an address, or commands that write it into the current folder."""
        return self.filled(self.url or self.how, architecture)

    def pin(self, architecture: str) -> str:
        """The SHA-256 of the release's file or of the image's index; empty if neither is known."""
        return getattr(self, architecture) or self.reference.rpartition("@sha256:")[2]

    def filled(self, text: str, architecture: str) -> str:
        """A text of the row with the version and the architecture."""
        return text.replace("{version}", self.release).replace("{arch}", architecture)


def _pinned(path: Sequence[str]) -> str:
    """A text of versions.toml, or the reference of a row there."""
    row: Any = toml("versions.toml")
    for key in path:
        row = row[key]
    return str(row if isinstance(row, str) else row["reference"])


PROGRAMS = entries(Program, toml("world.toml")["programs"], "name")


def get(folder: Path, names: Sequence[str] = (), say: Stages = quiet, web: Web | None = None) -> list[str]:
    """Download the programs that this machine lacks, or those with these names. Returns the names of what was downloaded.

    Nothing is downloaded twice. A program without a known hash is left out. `say` gets each stage. Raises InputError if this is
    not Linux on amd64 or arm64, a name is unknown or has no known hash, a source cannot be reached, a hash differs, or the folder
    cannot be written.
    """
    architecture = _architecture()
    for name in names:
        if name not in PROGRAMS:
            raise InputError(f"program: no world has a program {name}; {instead(name, PROGRAMS, 'see its list')}")
        if not PROGRAMS[name].pin(architecture):
            raise InputError(f"program: no hash of {name} is known; build it: {PROGRAMS[name].by_hand(architecture)}")
    chosen = [PROGRAMS[name] for name in names or PROGRAMS if names or not shutil.which(name)]
    lacking = [program for program in chosen if program.pin(architecture) not in ("", _record(program, folder))]
    for program in lacking:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _install(program, architecture, folder, web or Web(), say)
        except (SourceError, tarfile.TarError) as error:
            by_hand = program.by_hand(architecture)
            text = f"{program.name}: {error}; nothing was kept. Try again, or put it into {folder} by hand: {by_hand}"
            raise InputError(text) from None
        except OSError as error:
            raise InputError(f"{folder}: {error.strerror}; make room there, or set XDG_CACHE_HOME to another folder") from None
    return [program.name for program in lacking]


def get_charts(folder: Path, helm: str, say: Stages = quiet) -> list[str]:
    """Download the charts that fleets install and the folder lacks, to `<folder>/<name>/<version>`. Returns their names.

    `helm` is the path of Helm. Raises InputError if it cannot download a chart, or if a chart has another digest than recorded.
    """
    lacking = [chart for chart in CHARTS.values() if chart.sha256 and not (folder / chart.name / chart.version).exists()]
    for chart in lacking:
        say(f"chart {chart.name} {chart.version}")
        if (digest := chart_digest(helm, chart, folder)) != chart.sha256:
            why = f"chart {chart.name}: {chart.version} has the SHA-256 {digest}, recorded is {chart.sha256}"
            raise InputError(f"{why}; report it")
    return [chart.name for chart in lacking]


def listing(console: Console, folder: Path) -> None:
    """Print every program of a world: what is here, and how to get the others. MiB are those of the download and of a run."""
    architecture, paths = _ARCHITECTURES.get(platform.machine(), "amd64"), find(folder)
    rows = []
    for name, program in PROGRAMS.items():
        how = "gpu-ci world --get" if program.pin(architecture) else program.by_hand(architecture)
        rows.append((name, program.release, paths.get(name, "missing"), str(program.mib or "unknown"), program.memory, how))
    show_table(console, ("=program", "version", "here", ">MiB to download", ">MiB of memory", "how to get it"), rows)


def _architecture() -> str:
    system, machine = platform.system(), platform.machine()
    if system != "Linux" or machine not in _ARCHITECTURES:
        raise InputError(f"machine: programs are for Linux on x86_64 and aarch64, got {system} on {machine}; use a Linux VM")
    return _ARCHITECTURES[machine]


def _record(program: Program, folder: Path) -> str:
    """The hash of the download that the program in the folder is from; empty if it is not there."""
    record = folder / f"{program.name}.sha256"
    return record.read_text() if record.exists() and (folder / program.name).exists() else ""


def _install(program: Program, architecture: str, folder: Path, web: Web, say: Stages) -> None:
    member = program.filled(program.member, architecture)
    with TemporaryDirectory(prefix=".", dir=folder) as scratch:
        # What may contain it: the release's file, or each layer of the image, the topmost first.
        file = Blob(program.by_hand(architecture), program.pin(architecture), program.mib << 20)
        for blob in layers(web, program.reference, architecture) if program.image else [file]:
            say(f"{program.name} {program.release}: {-(-blob.size >> 20)} MiB from {urlsplit(blob.url).hostname}")
            downloaded = Path(scratch) / "download"
            _download(web, blob, downloaded)
            if (found := _unpacked(downloaded, member)) is not None:
                found.chmod(0o755)
                found.replace(folder / program.name)
                (folder / f"{program.name}.sha256").write_text(program.pin(architecture))
                return
    raise SourceError(f"what was downloaded has no file {member}")


def _download(web: Web, blob: Blob, to: Path) -> None:
    digest = hashlib.sha256()
    with to.open("wb") as file:
        for chunk in web.chunks(blob.url, _MOST, _SECONDS, blob.token):
            digest.update(chunk)
            file.write(chunk)
    if digest.hexdigest() != blob.sha256:
        raise SourceError(f"{blob.url} has the SHA-256 {digest.hexdigest()}, recorded is {blob.sha256}")


def _unpacked(downloaded: Path, member: str) -> Path | None:
    """The program in what was downloaded; None if it is not there. Nothing is written to a path that an archive names."""
    if not member:
        return downloaded
    with tarfile.open(downloaded, "r:gz") as archive:
        for info in archive:
            if info.isfile() and info.name.removeprefix("./") == member and (packed := archive.extractfile(info)):
                program = downloaded.with_name("program")
                with program.open("wb") as file:
                    shutil.copyfileobj(packed, file)
                return program
    return None
