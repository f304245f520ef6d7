"""Prints the folder of a Helm for the tests that render charts: `PYTHONPATH=. .venv/bin/python .ci/helm.py`.

If Helm is on PATH, the script prints nothing. Otherwise Go builds the pinned version into the user's cache, once. Without Go, or
if the build fails, the script prints nothing: pytest then skips those tests and prints the reason.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from fleet.facts import versions

BUILD_S = 300
"""The build takes two to four minutes on two cores."""


def cache() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-ci"


def main() -> None:
    go, version = shutil.which("go"), versions.DOWNLOADS["helm"].version
    if shutil.which("helm") or go is None:
        return
    folder = cache() / f"helm-{version}"
    if not (folder / "helm").is_file():
        sys.stderr.write(f"Building Helm {version} for the tests, once …\n")
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Build in another folder first, so that a later run never finds an incomplete Helm.
        with tempfile.TemporaryDirectory(dir=folder.parent) as folder_of_build:
            command = [go, "install", f"helm.sh/helm/v3/cmd/helm@v{version}"]
            subprocess.run(command, env=os.environ | {"GOBIN": folder_of_build}, stdout=sys.stderr, timeout=BUILD_S, check=True)  # noqa: S603
            folder.mkdir(exist_ok=True)
            (Path(folder_of_build) / "helm").replace(folder / "helm")
    sys.stdout.write(f"{folder}\n")


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"Helm cannot be built, so the tests that render charts are skipped: {error}\n")
