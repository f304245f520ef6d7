"""Writes the artifacts of a release: `.venv/bin/python .ci/release.py v0.2.0 FOLDER`.

The folder gets the wheel, the policy pack, the component package, an SBOM (CycloneDX 1.6), their SHA-256 digests, and the notes
of the release from CHANGELOG.md. The same commit gives the same bytes. A tag that does not fit the project ends with an error
line and exit status 2.
"""

import gzip
import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType as Kind
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))

from gpu_ci.offline.pack import write_pack  # noqa: E402 - after the path of the repository

PACKAGE = ("package", "components", "fleet", "LICENSE", "pyproject.toml")
"""What `pulumi package add` of the unpacked folder `package` reads."""
LOCKS = ("requirements.txt", "deployments/requirements.txt", "package/requirements.txt")
VERSIONS = "fleet/facts/data/versions.toml"
_LOCKED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[\w.!+]+)(?P<rest>(?:.*\\\n)*.*)", re.MULTILINE)
_IMAGE = re.compile(r"(?P<name>[\w.-]+\.[\w.-]+/[\w./-]+)(?::(?P<tag>[\w.-]+))?(?:@sha256:(?P<digest>[0-9a-f]{64}))?")


def notes(tag: str, root: Path = ROOT) -> str:
    """The section of CHANGELOG.md for a tag. Raises SystemExit unless tag, version and changelog fit together."""
    version = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        raise SystemExit(f"error: tag {tag}: pyproject.toml has version {version}; tag v{version}, or change the version")
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)\n(.*?)(?=^## |\Z)", changes, re.MULTILINE | re.DOTALL)
    if section is None or not section[1].strip():
        raise SystemExit(f'error: CHANGELOG.md: no section for {version}; rename "## Unreleased" to "## {version} (YYYY-MM-DD)"')
    return section[1].strip() + "\n"


def sbom(root: Path = ROOT) -> str:
    """CycloneDX JSON of the Python packages in the locks, the Helm charts and the container images of versions.toml."""
    bom = Bom(version=1)
    versions = tomllib.loads((root / VERSIONS).read_text(encoding="utf-8"))
    packages = {row["name"]: row for lock in LOCKS for row in _LOCKED.finditer((root / lock).read_text(encoding="utf-8"))}
    for name, row in packages.items():
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", row["rest"])
        # Only a package of one file has one hash. The others have one per platform.
        bom.components.add(_component("pypi", name, row["version"], hashes[0] if len(hashes) == 1 else None))
    for name, chart in versions["charts"].items():
        where = {"repository_url": chart["repository"]}
        bom.components.add(_component("helm", name, chart["version"], chart["sha256"], where))
    for image in sorted(set(_images(versions))):
        if (parts := _IMAGE.fullmatch(image)) is not None and (parts["tag"] or parts["digest"]):
            version = f"sha256:{parts['digest']}" if parts["digest"] else parts["tag"]
            where = {"repository_url": parts["name"]} | ({"tag": parts["tag"]} if parts["tag"] else {})
            name = parts["name"].rpartition("/")[2]
            bom.components.add(_component("oci", name, version, parts["digest"], where, Kind.CONTAINER))
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    # A random number and the time would give other bytes for the same commit.
    return re.sub(r'\s*"(?:serialNumber|timestamp)": "[^"]*",?', "", text)


def _component(
    kind: str, name: str, version: str, sha256: str | None, where: Mapping[str, str] | None = None, what: Kind = Kind.LIBRARY
) -> Component:
    url = PackageURL(kind, name=name, version=version, qualifiers=dict(where or {}))
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=sha256)] if sha256 else []
    return Component(name=name, version=version, type=what, purl=url, bom_ref=str(url), hashes=hashes)


def _images(value: Any) -> Iterator[str]:
    """Every image below a table, by the keys that hold one. The rows of the autoscaler have only tags."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in {"reference", "base", "runtime", "devel"} and isinstance(inner, str):
                yield inner
            elif key == "cluster-autoscaler" and isinstance(inner, str):
                yield f"registry.k8s.io/autoscaling/cluster-autoscaler:{inner}"
            else:
                yield from _images(inner)


def archive(files: Iterable[tuple[str, Path]]) -> bytes:
    """A .tar.gz of files by name, without times, owners and other facts of this machine."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, path in sorted(files):
            entry = tarfile.TarInfo(name)
            content = path.read_bytes()
            entry.size, entry.mode = len(content), 0o755 if path.stat().st_mode & 0o100 else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def artifacts(version: str, root: Path = ROOT) -> Iterator[tuple[str, bytes]]:
    """Name and content of each artifact."""
    with tempfile.TemporaryDirectory() as folder:
        # Without an index: the build backend is among the packages of the lock.
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
        subprocess.run(build, cwd=root, check=True, stdout=sys.stderr)  # noqa: S603 - no shell
        yield from ((path.name, path.read_bytes()) for path in Path(folder).glob("*.whl"))
        pack = Path(folder) / "pack"
        prefix = f"gpu-ci-policy-pack-{version}"
        written = write_pack(pack, root)
        yield f"{prefix}.tar.gz", archive((f"{prefix}/{path.relative_to(pack.resolve())}", path) for path in written)
    command = ["git", "ls-files", "-z", "--", *PACKAGE]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout  # noqa: S603 - no shell
    prefix = f"gpu-ci-components-{version}"
    yield f"{prefix}.tar.gz", archive((f"{prefix}/{name}", root / name) for name in listed.split("\0") if name)
    yield f"gpu-ci-{version}.cdx.json", sbom(root).encode()


def main(tag: str, folder: str) -> None:
    """Write the artifacts of a tag into a new folder."""
    text, out = notes(tag), Path(folder)
    out.mkdir(parents=True)
    digests = ""
    for name, content in artifacts(tag.removeprefix("v")):
        (out / name).write_bytes(content)
        digests += f"{hashlib.sha256(content).hexdigest()}  {name}\n"
    (out / "SHA256SUMS").write_text(digests, encoding="utf-8")
    (out / "notes.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        if len(sys.argv) != 3:
            raise SystemExit(
                "error: release.py: takes a tag and a new folder; write .venv/bin/python .ci/release.py v0.2.0 FOLDER"
            )
        main(*sys.argv[1:])
    except SystemExit as wrong:
        sys.stderr.write(f"{wrong}\n")
        sys.exit(2)
