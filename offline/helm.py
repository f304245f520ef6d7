"""Downloads charts with Helm, to compare their digests with the recorded ones."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from fleet.facts.errors import InputError
from fleet.facts.versions import ChartVersion

_SECONDS = 300
"""The most time for one download."""


def find_helm() -> str:
    """The path of helm. Raises InputError if it is not on PATH."""
    if (found := shutil.which("helm")) is None:
        raise InputError("PATH: helm is missing, and it downloads the charts; install it: https://helm.sh/docs/intro/install/")
    return found


def chart_digest(helm: str, chart: ChartVersion) -> str:
    """The hex SHA-256 of the chart that its repository has now: of its archive, for an OCI chart of its manifest.

    Raises InputError if helm cannot download the chart.
    """
    oci = chart.repository.startswith("oci://")
    source = [f"{chart.repository}/{chart.name}"] if oci else [chart.name, "--repo", chart.repository]
    with TemporaryDirectory() as folder:
        printed = _pull(helm, [*source, "--version", chart.version], folder)
        if not oci:
            (archive,) = Path(folder).glob("*.tgz")
            return hashlib.sha256(archive.read_bytes()).hexdigest()
    digest = re.search(r"^Digest: sha256:([0-9a-f]{64})$", printed, re.MULTILINE)
    if digest is None:
        raise InputError(f"helm: `helm pull {' '.join(source)}` prints no digest; use Helm 3.8 or later")
    return digest[1]


def _pull(helm: str, words: list[str], folder: str) -> str:
    """What `helm pull` prints on stdout and stderr. It writes the archive into the folder."""
    command, env = [helm, "pull", *words, "--destination", folder], os.environ | {"HELM_CACHE_HOME": f"{folder}/cache"}
    try:
        # An empty cache: Helm 4 does not download a chart that it has there. The words are rows of versions.toml.
        done = subprocess.run(  # noqa: S603
            command, env=env, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SECONDS
        )
    except subprocess.CalledProcessError as error:
        last = error.output.strip().rpartition("\n")[2]
        raise InputError(f"helm: `helm pull {' '.join(words)}` fails: {last}; check the network and the chart's row") from error
    except subprocess.TimeoutExpired as error:
        raise InputError(f"helm: `helm pull {' '.join(words)}` takes more than {_SECONDS} s; check the network") from error
    return done.stdout
