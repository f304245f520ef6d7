"""A machine whose every command is a stub: the bootstrap runs on it in a folder, and each call is written down.

PATH holds the stubs alone, so a command that has none is not found. A stub writes its call to the log, fails or hangs if the test
says so, and then does what BODIES has for it. Where one hangs, the machine's time is up at once: the command of
systemd-run is run then. `REAL` commands do their work on the folder.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

from fleet.providers.oke.machine import launch as cloudinit

SCRIPT = Path(cloudinit.__file__).parent / "bootstrap.sh"
JIT = "ZXlKaGJHY2lPaUpTVXpJMU5pSXNJblI1Y0NJNklrcFhWQ0o5" * 60
FINGERPRINT = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
IMAGE = "registry.example/runner:1@sha256:" + "0" * 64
EXPORTER, AGENT = (f"registry.example/{name}:1@sha256:" + "0" * 64 for name in ("exporter", "agent"))
CLOSED = 7
"""curl's status for a connection that was refused."""

METRICS_URL = "http://10.0.255.226:30000/api/v1/write"
REAL = ("chmod", "env", "install", "mv", "rm", "sha256sum", "tar", "timeout")

STUB = """#!/bin/bash
name="${0##*/}"
{ read -r calls <"$STUB/count/$name"; } 2>/dev/null || calls=0
calls=$((calls + 1))
printf '%s\\n' "$calls" >"$STUB/count/$name"
declare -x >"$STUB/environment/$name.$calls"
printf 'CALL\\t%s\\t%s\\t%s\\n' "$name" "$calls" "${*//$'\\n'/ }" >>"$STUB/log"
if [[ $name == "${STUB_FAIL-}" && $calls -ge ${STUB_FROM-1} && $calls -le ${STUB_TO-999} ]]; then exit "${STUB_CODE-1}"; fi
if [[ $name == "${STUB_HANG-}" && $calls -ge ${STUB_FROM-1} ]]; then
  mapfile -d "" -t timer <"$STUB/timers/gpu-ci-boot-deadline"
  # Without a parent, as systemd has it.
  (PATH="$STUB_PATH" "${timer[@]}" </dev/null >/dev/null 2>&1 &)
  PATH="$STUB_PATH"
  command sleep 90
fi
if [[ -e $STUB/bodies/$name ]]; then . "$STUB/bodies/$name"; fi
"""

BODIES = {
    "nvidia-smi": """
        case "$*" in
          *driver_version*) printf '%s\\n' "$STUB_DRIVERS" ;;
          *persistence_mode*) printf '%s\\n' "$STUB_PERSISTENCE" ;;
        esac""",
    "curl": """
        url="${!#}"
        for ((at = 1; at <= $#; at++)); do
          if [[ ${!at} == --output ]]; then next=$((at + 1)) output="${!next}"; fi
        done
        case "$url" in
          */gpu-ci-jit)
            tries=0
            { read -r tries <"$STUB/count/imds"; } 2>/dev/null
            tries=$((tries + 1))
            printf '%s\\n' "$tries" >"$STUB/count/imds"
            if [[ $tries -le ${STUB_WAITS-2} ]]; then
              if ((tries % ${STUB_REST-1000} == 0)); then miss=404; else miss="${STUB_MISS-404}"; fi
              printf 'no such key\\n%s' "$miss"
            else printf '%s\\n200' "$(<"$STUB/reply")"; fi ;;
          */gpu-ci-metrics) if [[ $STUB_METRICS ]]; then printf '%s' "$STUB_METRICS"; else exit 22; fi ;;
          http*/opc/v2/instance/) if [[ ${STUB_OPEN-} == *"$url"* ]]; then exit 0; else exit 7; fi ;;
          *helm*) printf '%s' "$(<"$STUB/helm")" | base64 -d >"$output" ;;
          *) printf 'content of %s\\n' "$url" >"$output" ;;
        esac""",
    "gpg": """
        if [[ $* == *--show-keys* ]]; then
          printf 'pub:-:4096:1:DDCAE044F796ECB0:1:::-:::scSC:\\nfpr:::::::::%s:\\n' "$STUB_KEY"
          printf 'uid:-::::1::x::x:\\nsub:-:4096:1:1:1::::::e:\\nfpr:::::::::0000:\\n'
        else
          while [[ $1 != --output ]]; do shift; done
          printf 'key\\n' >"$2"
        fi""",
    "apt-get": """if [[ $* == *update && $calls -le ${STUB_BUSY-0} ]]; then exit 100; fi""",
    "apt-mark": "if [[ $1 == showhold ]]; then printf '%s\\n' $STUB_HELD; fi",
    "dpkg-query": "printf '%s' \"$STUB_INSTALLED\"",
    "nvidia-ctk": """
        for word; do if [[ $word == --config=* ]]; then printf '{"runtimes": {}}' >"${word#*=}"; fi; done""",
    "jq": """exec "$STUB_PYTHON" "$STUB/jq.py" "$@\"""",
    "docker": """
        case "$1 $*" in
          info*) printf '%s\\n' "$STUB_RUNTIME" ;;
          create*) printf 'container1\\n' ;;
          cp*) mkdir -p "$3/bin" && cp "$STUB/stub" "$3/run.sh" && cp "$STUB/stub" "$3/bin/installdependencies.sh" ;;
          run*nvidia-smi*) printf '%s\\n' "$STUB_SEEN" ;;
          run*curl*) if [[ ${STUB_OPEN-} == *container* ]]; then exit 0; else exit 7; fi ;;
        esac""",
    "go": """: >"$GOBIN/nvkind" """,
    "useradd": """mkdir -p "$GPU_CI_ROOT/home/runner" """,
    "systemd-run": """
        while [[ $1 == --* ]]; do
          if [[ $1 == --unit=* ]]; then unit="${1#*=}"; fi
          shift
        done
        printf '%s\\0' "$@" >"$STUB/timers/$unit" """,
    "systemctl": """
        if [[ $1 == stop && " ${STUB_ABSENT-} " == *" $2 "* ]]; then exit "${STUB_ABSENCE-5}"; fi""",
    "setpriv": """while [[ $1 == --* ]]; do shift; done
        exec "$@" """,
    "run.sh": """printf '%s' "$STUB_SAYS"
        exit "${STUB_JOB-0}" """,
}
JQ = """
import json, sys
assert sys.argv[1] == '.features = (.features // {}) + {"cdi": false}', sys.argv[1]
held = json.load(open(sys.argv[2]))
print(json.dumps({**held, "features": {**held.get("features", {}), "cdi": False}}))
"""
"""What jq does with the bootstrap's one filter."""

PLAIN = (
    "chown",
    "ip6tables",
    "iptables",
    "sleep",
)
"""Stubs that do nothing but write down that they were called."""

COMMANDS = tuple(sorted({*REAL, *PLAIN, *BODIES} - {"run.sh"}))
IMAGES_OWN = ("run.sh", "installdependencies.sh")
"""What comes out of the runner's image; stubs as well."""

FOLDERS = (
    "dev",
    "etc/apt/sources.list.d",
    "etc/docker",
    "etc/gpu-ci",
    "etc/nvidia-container-runtime",
    "etc/sudoers.d",
    "usr/local/bin",
    "usr/share/keyrings",
)


@dataclass(frozen=True)
class Call:
    """One call of a command: the step it was in, its name, its count among the calls of that name, its arguments."""

    step: str
    name: str
    count: int
    arguments: str


@dataclass
class StubMachine:
    """A machine in a folder. `run` boots it once; the rest shows what happened."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    output: str = ""

    def __post_init__(self) -> None:
        """Make the folder."""
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True)
        for name in ("bin", "count", "environment", "bodies", "timers"):
            (self.stub / name).mkdir(parents=True)
        for name, body in BODIES.items():
            (self.stub / "bodies" / name).write_text(body)
        for name in REAL:
            (self.stub / "bodies" / name).write_text(f'exec {shutil.which(name)} "$@"')
        own = f"PATH={os.environ['PATH']}\n"
        for name in ("curl", "docker", "tar", "useradd"):
            path = self.stub / "bodies" / name
            path.write_text(own + path.read_text())
        for path in [self.stub / "stub", *(self.stub / "bin" / name for name in COMMANDS)]:
            path.write_text(STUB)
            path.chmod(0o755)
        (self.stub / "jq.py").write_text(JQ)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:gz") as tar:
            entry = tarfile.TarInfo("linux-amd64/helm")
            entry.size = 4
            tar.addfile(entry, io.BytesIO(b"helm"))
        (self.stub / "helm").write_bytes(base64.b64encode(archive.getvalue()))
        kubectl, kind = "https://dl.example/kubectl", "https://kind.example/kind"
        self.settings = {
            "DRIVER": "570.195.03",
            "GPUS": "2",
            "TOOLKIT": "1.17.8-1",
            "RUNNER_IMAGE": IMAGE,
            "NVKIND": "0123456789abcdef",
            "STANDING": "",
            "EXPORTER_IMAGE": EXPORTER,
            "AGENT_IMAGE": AGENT,
            "USD_PER_HOUR": "4",
            "GO": "1.24.0",
            "KUBECTL_URL": kubectl,
            "KUBECTL_SHA256": hashlib.sha256(f"content of {kubectl}\n".encode()).hexdigest(),
            "HELM_URL": "https://get.example/helm.tar.gz",
            "HELM_SHA256": hashlib.sha256(archive.getvalue()).hexdigest(),
            "KIND_URL": kind,
            "KIND_SHA256": hashlib.sha256(f"content of {kind}\n".encode()).hexdigest(),
        } | self.settings

    @property
    def root(self) -> Path:
        """What the machine takes for /."""
        return self.folder / "root"

    @property
    def stub(self) -> Path:
        """Where the stubs are."""
        return self.folder / "stub"

    def run(self, reply: str = JIT, **behaviour: str) -> int:
        """Boot. `reply` is what the metadata endpoint has in the end, `behaviour` the stubs' variables: fail="curl", from_="2".

        Gives the bootstrap's exit status.
        """
        (self.stub / "reply").write_text(reply)
        text = "".join(f"{name}='{value}'\n" for name, value in self.settings.items())
        (self.root / "etc/gpu-ci/bootstrap.env").write_text(text)
        default = {
            "drivers": "570.195.03\n570.195.03",
            "persistence": "Enabled\nEnabled",
            "key": FINGERPRINT,
            "held": "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1",
            "installed": "1.17.8-1",
            "runtime": "nvidia",
            "seen": "GPU 0: NVIDIA A10 (UUID: x)\nGPU 1: NVIDIA A10 (UUID: y)",
            "says": "Listening for Jobs\n2026-11-21 12:00:00Z: Running job: build\n",
            "metrics": METRICS_URL,
            "python": sys.executable,
            "path": os.environ["PATH"],
        }
        variables = {f"STUB_{name.rstrip('_').upper()}": value for name, value in (default | behaviour).items()}
        with (self.stub / "log").open("ab") as log:
            done = subprocess.run(
                ["/bin/bash", str(SCRIPT)],
                env={"PATH": str(self.stub / "bin"), "GPU_CI_ROOT": str(self.root), "STUB": str(self.stub), **variables},
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                check=False,
            )
        self.output = (self.stub / "log").read_text()
        return done.returncode

    @property
    def calls(self) -> list[Call]:
        """Every call, in order."""
        step, found = "start", []
        for line in self.output.splitlines():
            if begun := re.fullmatch(r"gpu-ci step=([a-z]+)", line):
                step = begun[1]
            elif line.startswith("CALL\t"):
                _, name, count, arguments = line.split("\t", 3)
                found.append(Call(step, name, int(count), arguments))
        return found

    def called(self, name: str) -> list[str]:
        """Arguments of each call of a command."""
        return [call.arguments for call in self.calls if call.name == name]

    @property
    def shown(self) -> list[str]:
        """Lines on the serial console."""
        path = self.root / "dev/console"
        return [line for line in path.read_text().splitlines() if line] if path.exists() else []

    @property
    def console(self) -> list[str]:
        """Status lines on the serial console."""
        return [line for line in self.shown if "status=" in line]

    @property
    def status(self) -> str:
        """The status file, empty where there is none."""
        path = self.root / "var/lib/gpu-ci/status"
        return path.read_text().rstrip("\n") if path.exists() else ""

    def saw_registration(self) -> set[str]:
        """Commands that had the registration in their environment."""
        found = (self.stub / "environment").iterdir()
        return {path.name.rpartition(".")[0] for path in found if JIT in path.read_text()}

    def files_with_registration(self) -> list[str]:
        """Files of the machine that hold the registration."""
        return [str(path) for path in self.root.rglob("*") if path.is_file() and JIT.encode() in path.read_bytes()]
