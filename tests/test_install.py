"""`.ci/install.py` with fakes of pip and uv, which record their arguments. No network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import ROOT

# `-m pip install -r .venv/uv.txt` also leaves a uv, as the real one does.
PYTHON = r"""#!/bin/sh
PATH=/usr/bin:/bin
if [ "$3" = config ]; then cat pip-settings; exit; fi
for lock; do :; done
echo "pip $*" >> log
if [ "$lock" = .venv/uv.txt ]; then cp uv .venv/bin/uv; fi
[ ! -e pip-fails ]
"""
UV = r"""#!/bin/sh
PATH=/usr/bin:/bin
echo "uv $*" >> log
env | grep -E '^(UV_|SSL_CERT_FILE)' | sort > uv-environment
[ ! -e uv-fails ]
"""
PIP_INSTALLS = "pip -m pip install --quiet --disable-pip-version-check --require-hashes"
UV_INSTALLS = "uv pip install --quiet --python .venv/bin/python --require-hashes"
BEST_MATCH = "UV_INDEX_STRATEGY=unsafe-best-match"


class Checkout:
    """A folder with our installer, our lock files and the fakes. `uv_on_path` says whether a uv is on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".venv" / "bin").mkdir(parents=True)
        (folder / "path").mkdir()
        for name in ("requirements.txt", ".ci/requirements/dev.txt"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text((ROOT / name).read_text())
        self.program(".venv/bin/python", PYTHON)
        self.program("uv", UV)
        (folder / "pip-settings").touch()

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def uv_on_path(self) -> None:
        self.program("path/uv", UV)

    def install(self, **environment: str) -> int:
        """Runs the installer and gives its status. Nothing may reach stdout."""
        clean = {"PATH": str(self.folder / "path"), **environment}
        # Without packages: there are none before it has run.
        command = [sys.executable, "-S", str(ROOT / ".ci" / "install.py"), "requirements.txt"]
        done = subprocess.run(command, cwd=self.folder, env=clean, capture_output=True, text=True, check=False)
        assert done.stdout == "", "stdout is the plan's"
        self.said = done.stderr
        return done.returncode

    def calls(self) -> list[str]:
        """What was called since this was last asked."""
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.write_text("")
        return lines

    @property
    def for_uv(self) -> list[str]:
        return (self.folder / "uv-environment").read_text().splitlines()


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_uv_on_path_installs_and_pip_is_not_asked(checkout):
    checkout.uv_on_path()
    assert checkout.install() == 0
    assert checkout.calls() == [f"{UV_INSTALLS} -r requirements.txt"]


def test_the_set_up_writes_the_command_of_this_folder(checkout):
    checkout.uv_on_path()
    (checkout.folder / "gpu_ci").mkdir()
    (checkout.folder / "uv-fails").touch()
    (checkout.folder / "pip-fails").touch()
    command = checkout.folder / ".venv" / "bin" / "gpu-ci"
    assert checkout.install() == 1
    assert not command.exists(), "a set-up that fails leaves no command"
    (checkout.folder / "uv-fails").unlink()
    checkout.program("python-that-tells", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    assert checkout.install() == 0
    shutil.copy(checkout.folder / "python-that-tells", checkout.folder / ".venv" / "bin" / "python")
    done = subprocess.run([command, "plan", "a b"], cwd="/", capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [str(checkout.folder / "gpu_ci"), "plan", "a b"]


def test_without_uv_pip_installs_the_locked_one_first(checkout):
    assert checkout.install() == 0
    assert checkout.calls() == [f"{PIP_INSTALLS} --only-binary :all: -r .venv/uv.txt", f"{UV_INSTALLS} -r requirements.txt"]
    assert checkout.install() == 0
    assert checkout.calls() == [f"{UV_INSTALLS} -r requirements.txt"], "a uv that is there is not installed again"


def test_the_locked_uv_is_one_version_with_all_its_hashes(checkout):
    checkout.install()
    lines = (checkout.folder / ".venv" / "uv.txt").read_text().splitlines()
    assert re.fullmatch(r"uv==[\d.]+ \\", lines[0])
    assert all(re.fullmatch(r"    --hash=sha256:[0-9a-f]{64}( \\)?", line) for line in lines[1:])
    assert len(lines) > 10, "a wheel for each platform has a hash"
    assert not lines[-1].endswith("\\")


def test_pip_installs_where_uv_cannot(checkout):
    checkout.uv_on_path()
    (checkout.folder / "uv-fails").touch()
    assert checkout.install() == 0
    assert checkout.calls() == [f"{UV_INSTALLS} -r requirements.txt", f"{PIP_INSTALLS} -r requirements.txt"]
    assert "uv could not install the packages; trying pip" in checkout.said


def test_a_failure_of_both_is_a_failure(checkout):
    (checkout.folder / "pip-fails").touch()
    assert checkout.install() == 1
    assert [line.split()[0] for line in checkout.calls()] == ["pip", "pip"], "no uv to be had, then pip itself"


def test_an_interrupted_installation_is_done_again_from_the_start(checkout):
    checkout.uv_on_path()
    for name in ("uv-fails", "pip-fails"):
        (checkout.folder / name).touch()
    assert checkout.install() == 1
    checkout.calls()
    assert checkout.install() == 1
    assert checkout.calls() == [
        f"{UV_INSTALLS} --reinstall -r requirements.txt",
        f"{PIP_INSTALLS} --ignore-installed -r requirements.txt",
    ]
    (checkout.folder / "uv-fails").unlink()
    assert checkout.install() == 0
    assert checkout.calls() == [f"{UV_INSTALLS} --reinstall -r requirements.txt"]
    assert checkout.install() == 0
    assert checkout.calls() == [f"{UV_INSTALLS} -r requirements.txt"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", []),
        ("global.timeout='60'", []),
        ("global.index-url='https://pypi.example.com/simple'", ["UV_DEFAULT_INDEX=https://pypi.example.com/simple"]),
        ("global.index-url='https://a'\ninstall.index-url='https://b'", ["UV_DEFAULT_INDEX=https://b"]),
        (
            ":env:.index-url='https://c'\nglobal.index-url='https://a'\ninstall.index-url='https://b'",
            ["UV_DEFAULT_INDEX=https://c"],
        ),
        (r"global.extra-index-url='\nhttps://a\nhttps://b'", ["UV_INDEX=https://a https://b"]),
        (":env:.find-links='/wheels https://a'", ["UV_FIND_LINKS=/wheels,https://a"]),
        ("global.cert='/etc/ca.pem'", ["SSL_CERT_FILE=/etc/ca.pem"]),
    ],
)
def test_the_settings_of_pip_reach_uv(checkout, settings, expected):
    checkout.uv_on_path()
    (checkout.folder / "pip-settings").write_text(settings)
    assert checkout.install() == 0
    assert checkout.for_uv == sorted([BEST_MATCH, *expected])


def test_what_somebody_sets_for_uv_stays(checkout):
    checkout.uv_on_path()
    (checkout.folder / "pip-settings").write_text("global.index-url='https://a'")
    assert checkout.install(UV_DEFAULT_INDEX="https://b", UV_INDEX_STRATEGY="first-index") == 0
    assert checkout.for_uv == ["UV_DEFAULT_INDEX=https://b", "UV_INDEX_STRATEGY=first-index"]


def test_an_index_with_a_password_is_in_no_line(checkout):
    checkout.uv_on_path()
    (checkout.folder / "uv-fails").touch()
    (checkout.folder / "pip-settings").write_text("global.index-url='https://me:hidden@pypi.example.com/simple'")
    assert checkout.install() == 0
    assert "hidden" not in checkout.said + "".join(checkout.calls()), "arguments of a process can be seen by others"


def test_where_pip_may_ask_no_index_uv_is_not_used(checkout):
    checkout.uv_on_path()
    (checkout.folder / "pip-settings").write_text(":env:.find-links='/wheels'\n:env:.no-index='1'")
    assert checkout.install() == 0
    assert checkout.calls() == [f"{PIP_INSTALLS} -r requirements.txt"]


def test_the_settings_are_read_as_the_real_pip_prints_them(checkout, tmp_path):
    """The output of the fake above has this form."""
    conf = tmp_path / "pip.conf"
    conf.write_text("[global]\nindex-url = https://a\nextra-index-url =\n    https://b\n    https://c\n")
    environment = os.environ | {"PIP_CONFIG_FILE": str(conf), "PIP_FIND_LINKS": "/wheels"}
    command = [sys.executable, "-m", "pip", "config", "list"]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert {
        "global.index-url='https://a'",
        r"global.extra-index-url='\nhttps://b\nhttps://c'",
        ":env:.find-links='/wheels'",
    } <= set(shown.splitlines())
