"""The page's commands lay out the pack where no ignore file empties its archive, and publish it with the project's Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders import ROOT
from tests.docs.markdown import fences

STAND_INS = {
    "make": f'[ "$1" = policy-pack ] && exec "{sys.executable}" -m gpu_ci policy-pack --out "${{2#OUT=}}"',
    "pulumi": '[ "$1" = -C ] && cd "$2" && shift 2 && printf "%s\\n" "$PWD" "$*" "$PATH" > "$SAID" && exit 0',
}
"""Make without setting up its virtual environment; the CLI, which says where it is, what it is asked and where programs are."""


def commands() -> str:
    """The block that publishes, as far as that."""
    (fence,) = [fence for fence in fences() if fence.page.name == "deployments.md" and "policy publish" in fence.text]
    return fence.text[: fence.text.index("pulumi policy validate-config")]


def test_the_page_publishes_the_whole_pack(tmp_path):
    if any((above / ".gitignore").exists() for above in tmp_path.parents):
        pytest.skip("the folder of temporary files is below a .gitignore")
    for name, script in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\nexit 9\n")
        (tmp_path / name).chmod(0o755)
    # The page puts the project's environment first on PATH; before that come the stand-ins.
    text = commands().replace('PATH="$PWD/.venv/bin:', f'PATH="{tmp_path}:$PWD/.venv/bin:')
    said = tmp_path / "said"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path), "SAID": str(said)}
    done = subprocess.run(
        ["/usr/bin/env", "bash", "-eu", "-c", text], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    folder, words, path = said.read_text().splitlines()
    assert words == "policy publish example"
    assert path.split(":")[1] == f"{ROOT}/.venv/bin", "the pack names no environment: it runs with the Python on PATH"
    assert (Path(folder) / "PulumiPolicy.yaml").is_file()
    assert (Path(folder) / "rules" / "gpu_node_taint.py").is_file()
    assert not any((above / ".gitignore").exists() for above in Path(folder).parents), "the archive would leave out what it names"
