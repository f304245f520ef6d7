"""The programs of a world end with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_ci.world.processes import HEALED, Processes, WorldError, private

SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
OWNER = """
import sys, time
from pathlib import Path
from gpu_ci.world.processes import Processes
with Processes(Path(sys.argv[1])) as processes:
    print(processes.start("one", [sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
    time.sleep(600)
"""


def runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    return state != "Z"


def gone(pid: int) -> bool:
    for _ in range(200):
        if not runs(pid):
            return True
        time.sleep(0.05)
    return False


def test_all_end_with_the_block(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        pids = [processes.start(name, SLEEPS).pid for name in ("one", "two")]
        assert processes.alive("one")
        assert (tmp_path / "pids").read_text(encoding="ascii").split() == [*map(str, pids)]
        processes.stop("one")
        assert not processes.alive("one")
        processes.stop("one")
    assert all(map(gone, pids))


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_all_end_with_a_process_that_is_killed(tmp_path: Path, by: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert runs(pid)
        owner.send_signal(by)
        owner.wait()
    assert gone(pid)


def test_a_needed_program_that_ends_is_named_with_its_last_line(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        processes.start("etcd", [sys.executable, "-c", "print('no room'); raise SystemExit(1)"], needed=True).wait()
        with pytest.raises(WorldError, match=r"etcd ended; .*no room"):
            processes.require_alive()


def test_a_program_that_ends_to_begin_anew_is_started_again(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        first = processes.start(HEALED[0], SLEEPS, needed=True)
        first.kill()
        first.wait()
        processes.require_alive()
        assert processes.alive(HEALED[0])


def test_no_program_gets_the_callers_clusters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/of/the/caller")
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", "of-the-caller")
    with Processes(tmp_path) as processes:
        processes.start("env", [sys.executable, "-c", "import os; print(sorted(os.environ))"]).wait()
        text = processes.log("env").read_text(encoding="utf-8")
    assert "KUBECONFIG" not in text
    assert "PULUMI" not in text


def test_a_private_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = private(tmp_path / "a" / "key", "text")
    assert (path.stat().st_mode & 0o777, path.read_text(encoding="utf-8")) == (0o600, "text")
    assert private(path, "new").read_text(encoding="utf-8") == "new"
