"""Downloads charts with Helm, to compare their digests with the recorded ones."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.facts.errors import InputError
from fleet.facts.versions import ChartVersion

_SECONDS = 300
"""The most time for one download."""


def find_helm() -> str:
    """The path of helm. Raises InputError if it is not on PATH."""
    if (path := shutil.which("helm")) is None:
        raise InputError("PATH: helm is missing, and it downloads the charts; install it: https://helm.sh/docs/intro/install/")
    return path


def chart_digest(helm: str, chart: ChartVersion, keep: Path | None = None) -> str:
    """The hex SHA-256 of the chart that its repository has now: of its archive, for an OCI chart of its manifest.

    If it is the recorded one, the chart is unpacked to `<keep>/<name>/<version>`. Raises InputError if helm cannot download it.
    """
    oci = chart.repository.startswith("oci://")
    source = [f"{chart.repository}/{chart.name}"] if oci else [chart.name, "--repo", chart.repository]
    with TemporaryDirectory() as folder:
        printed = _pull(helm, [*source, "--version", chart.version], folder)
        archives = list(Path(folder).glob("*.tgz"))
        if oci:
            if (printed_digest := re.search(r"^Digest: sha256:([0-9a-f]{64})$", printed, re.MULTILINE)) is None:
                raise InputError(f"helm: `helm pull {' '.join(source)}` prints no digest; use Helm 3.8 or later")
            digest = printed_digest[1]
        else:
            digest = hashlib.sha256(archives[0].read_bytes()).hexdigest()
        if keep is not None and digest == chart.sha256:
            _unpack(archives[0], chart.name, keep / chart.name / chart.version)
    return digest


def _unpack(archive: Path, name: str, target: Path) -> None:
    """Write the folder `name` of a chart's archive to `target`, in place of files there."""
    if not hasattr(tarfile, "data_filter"):
        raise InputError(f"Python: {sys.version.split()[0]} unpacks no archive safely; use 3.11.4 or later")
    scratch = archive.parent / "unpacked"
    with tarfile.open(archive) as packed:
        packed.extractall(scratch, filter="data")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(scratch / name, target)


def _pull(helm: str, words: list[str], folder: str) -> str:
    """What `helm pull` prints on stdout and stderr. It writes the archive into the folder."""
    command, env = [helm, "pull", *words, "--destination", folder], os.environ | {"HELM_CACHE_HOME": f"{folder}/cache"}
    try:
        # An empty cache: Helm 4 does not download a chart that it has there. The words are rows of versions.toml.
        process = subprocess.run(  # noqa: S603
            command, env=env, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SECONDS
        )
    except subprocess.CalledProcessError as error:
        last = error.output.strip().rpartition("\n")[2]
        raise InputError(f"helm: `helm pull {' '.join(words)}` fails: {last}; check the network and the chart's row") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"helm: `helm pull {' '.join(words)}` takes more than {_SECONDS} s; check the network") from error
    return process.stdout
