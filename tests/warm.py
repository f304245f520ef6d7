"""A process with Pulumi's SDKs and none of our modules, which runs each program in a fork: loading them takes seconds."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

FORKED = """
import json, os, sys, tempfile
def forked(act, count=2):
    files = [tempfile.TemporaryFile("w+") for _ in range(count)]
    pid = os.fork()
    if not pid:
        for number, file in zip((1, 2), files):
            os.dup2(file.fileno(), number)
        act(*files[2:])
        sys.exit()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    for file in files:
        file.seek(0)
    return [status, *(file.read() for file in files)]
"""
"""A function for programs: it runs another one in a fork and gives the status, stdout, stderr and the text of more files."""
_PARENT = f"""
{FORKED}
import pulumi, pulumi_aws, pulumi_eks, pulumi_kubernetes
import pulumi_kubernetes.core.v1, pulumi_kubernetes.helm.v3
aws = pulumi_aws
# A module of this SDK loads when it is used.
aws.ec2.Vpc, aws.eks.Cluster, aws.iam.Role, aws.autoscaling.Group
for line in sys.stdin:
    program, words, folder, path = json.loads(line)
    def act():
        os.chdir(folder)
        sys.path[0:1], sys.argv = [path], ["-c", *words]
        exec(compile(program, "<program>", "exec"), {{"__name__": "__main__"}})
    print(json.dumps(forked(act)), flush=True)
"""


@cache
def _parent() -> subprocess.Popen[str]:
    # It starts outside of the repository, so that a program finds nothing there.
    pipe = subprocess.PIPE
    # Its hashes have another seed than ours: a test compares what programs give.
    environment = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    command = [sys.executable, "-c", _PARENT]
    process = subprocess.Popen(command, cwd=os.sep, env=environment, text=True, stdin=pipe, stdout=pipe)
    atexit.register(process.communicate)
    return process


def run(program: str, *words: str, folder: Path, path: Path) -> tuple[int, str, str]:
    """Status, stdout and stderr of a program in a folder, with another one first on the path of modules."""
    process = _parent()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps([program, words, str(folder), str(path)]) + "\n")
    process.stdin.flush()
    status, stdout, stderr = json.loads(process.stdout.readline())
    return status, stdout, stderr


def lend_compiled(copies: Path, sources: Path) -> None:
    """Give copies of modules the compiled files of their sources, if they have the same text: compiling takes seconds."""
    for copy in copies.rglob("*.py"):
        source = sources / copy.relative_to(copies)
        compiled = Path(importlib.util.cache_from_source(str(source)))
        if compiled.exists() and source.read_bytes() == copy.read_bytes():
            # A compiled file is valid for the time of its source.
            shutil.copystat(source, copy)
            target = Path(importlib.util.cache_from_source(str(copy)))
            target.parent.mkdir(exist_ok=True)
            shutil.copy(compiled, target)
