"""The page's commands lay out a pack that starts by itself, where no ignore file empties its archive."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import ROOT
from tests.docs.markdown import fences

IN_GIT = shutil.which("git") is not None and (ROOT / ".git").exists()
STARTS = "import sys; sys.path.insert(0, '.'); from rules import RULES; print(len(RULES), sys.modules['fleet.hardware'].__file__)"


def commands() -> str:
    """The block that publishes, as far as the CLI's publishing, which the stand-in below takes."""
    (fence,) = [fence for fence in fences() if fence.page.name == "deployments.md" and "policy publish" in fence.text]
    return fence.text[: fence.text.index("pulumi policy validate-config")]


@pytest.mark.skipif(not IN_GIT, reason="git archive needs git and a checkout")
def test_the_laid_out_pack_starts_by_itself(tmp_path):
    stand_in = tmp_path / "pulumi"
    stand_in.write_text(
        f'#!/bin/sh\n[ "$1" = -C ] && cd "$2" && shift 2 || exit 9\nprintf "%s\\n" "$PWD" "$*"\ncat PulumiPolicy.yaml\n'
        f'exec "{sys.executable}" -I -c "{STARTS}"\n'
    )
    stand_in.chmod(0o755)
    # The page puts the project's environment first on PATH, and no CLI is in it.
    text = commands().replace('"$PWD/.venv/bin:$PATH"', f'"{tmp_path}:$PATH"')
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-eu", "-c", text], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    folder, words, *project, last = done.stdout.splitlines()
    assert words == "policy publish example"
    assert Path(folder).name == "pack"
    assert not any((above / ".gitignore").exists() for above in Path(folder).parents), "the archive would leave out what it names"
    assert "virtualenv" not in "\n".join(project), "the CLI that loads the pack makes one"
    assert re.search(r"^version: ", "\n".join(project), re.MULTILINE), "it is what the settings pin"
    count, _, carried = last.partition(" ")
    assert int(count) >= 4
    assert Path(carried).is_relative_to(folder), "the copy inside the pack, not the repository's"
