"""A machine whose every command is a stub: the bootstrap runs on it in a folder, and each call is written down.

Where a stub hangs, the machine's time is up at once: the command of systemd-run is run then.

Stubs that are programs make folders, copy files and check sums as the real commands do. Functions start no process for that:
the folders are made at once, and `STUB_SUMS` has the sums that are right.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tarfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar

from fleet.providers.oke.machine import launch as cloudinit
from tests.stubs import TIMEOUT, StubbedScript, bodies

SCRIPT = Path(cloudinit.__file__).parent / "bootstrap.sh"
JIT = "ZXlKaGJHY2lPaUpTVXpJMU5pSXNJblI1Y0NJNklrcFhWQ0o5" * 60
FINGERPRINT = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
IMAGE = "registry.example/runner:1@sha256:" + "0" * 64
EXPORTER, AGENT = (f"registry.example/{name}:1@sha256:" + "0" * 64 for name in ("exporter", "agent"))
CLOSED = 7
"""curl's status for a connection that was refused."""

METRICS_URL = "http://10.0.255.226:30000/api/v1/write"
REAL = ("chmod", "install", "mv", "rm", "sha256sum")

AT_CALL = """
copy_helm() { PATH="$STUB_PATH" command cp "$@"; }
copy_home() { PATH="$STUB_PATH" command cp -R "$@"; }
at_call() {
  { printf 'CALL %s\\n' "$name"; declare -x; } >>"$STUB/environments"
  if [[ $name == "${STUB_HANG-}" ]]; then
    count "$name"
    if [[ $calls -ge ${STUB_FROM-1} ]]; then hang; fi
  fi
}
hang() {
  local timer
  mapfile -d "" -t timer <"$STUB/timers/gpu-ci-boot-deadline"
  # Without a parent, as systemd has it.
  (PATH="$STUB_PATH" "${timer[@]}" </dev/null >/dev/null 2>&1 &)
  PATH="$STUB_PATH" command sleep 90
}
"""
# The name of a function may be a path, or `exec`.
WITHOUT_PROCESSES = f"""
copy() {{
  local text
  IFS= read -r -d "" text <"$1" || :
  printf '%s' "$text" >"$2"
}}
body_chmod() {{ :; }}
body_install() {{
  if [[ $1 != -d ]]; then copy "${{@: -2}}"
  elif [[ ! -d $4 ]]; then {shutil.which("install")} -d "$4/work/linux-amd64"; fi
}}
body_mv() {{ copy "$@"; }}
body_rm() {{ :; }}
body_sha256sum() {{
  local sum file
  read -r sum file
  [[ -e $file && " $STUB_SUMS " == *" $sum "* ]]
}}
body_tar() {{ printf 'helm' >"$4/$5"; }}
body_useradd() {{ :; }}
copy_helm() {{ copy "$@"; }}
if [[ ${{STUB_HANG-}} != *.sh ]]; then
  exec() {{ "$@"; exit; }}
  copy_home() {{ :; }}
  for program in "$GPU_CI_ROOT/home/runner/bin/installdependencies.sh" ./run.sh; do
    eval "$program() {{ stub ${{program##*/}} \\"\\$@\\" || return; }}"
  done
fi
"""

BODIES = {
    "nvidia-smi": """
        case "$*" in
          *driver_version*) printf '%s\\n' "$STUB_DRIVERS" ;;
          *persistence_mode*) printf '%s\\n' "$STUB_PERSISTENCE" ;;
        esac""",
    "curl": """
        local url="${!#}" output="" at next calls miss
        for ((at = 1; at <= $#; at++)); do
          if [[ ${!at} == --output ]]; then next=$((at + 1)); output="${!next}"; fi
        done
        case "$url" in
          */gpu-ci-jit)
            count imds
            if [[ $calls -le ${STUB_WAITS-2} ]]; then
              if ((calls % ${STUB_REST-1000} == 0)); then miss=404; else miss="${STUB_MISS-404}"; fi
              printf 'no such key\\n%s' "$miss"
            else printf '%s\\n200' "$(<"$STUB/reply")"; fi ;;
          */gpu-ci-metrics) if [[ $STUB_METRICS ]]; then printf '%s' "$STUB_METRICS"; else return 22; fi ;;
          http*/opc/v2/instance/) if [[ ${STUB_OPEN-} == *"$url"* ]]; then return 0; else return 7; fi ;;
          *helm*) copy_helm "$STUBS/helm" "$output" ;;
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
    "apt-get": """
        if [[ $* == *update ]]; then
          local calls
          count updates
          if [[ $calls -le ${STUB_BUSY-0} ]]; then return 100; fi
        fi""",
    "apt-mark": "if [[ $1 == showhold ]]; then printf '%s\\n' $STUB_HELD; fi",
    "dpkg-query": "printf '%s' \"$STUB_INSTALLED\"",
    "nvidia-ctk": """
        local word
        for word; do if [[ $word == --config=* ]]; then printf '{"runtimes": {}}' >"${word#*=}"; fi; done""",
    # What jq does with the bootstrap's one filter.
    "jq": """
        local before
        if [[ $1 != '.features = (.features // {}) + {"cdi": false}' ]]; then return 3; fi
        before="$(<"$2")"
        printf '%s, "features": {"cdi": false}}\\n' "${before%\\}}" """,
    "docker": """
        case "$1 $*" in
          info*) printf '%s\\n' "$STUB_RUNTIME" ;;
          create*) printf 'container1\\n' ;;
          cp*) copy_home "$STUBS/home/." "$3" ;;
          run*nvidia-smi*) printf '%s\\n' "$STUB_SEEN" ;;
          run*curl*) if [[ ${STUB_OPEN-} == *container* ]]; then return 0; else return 7; fi ;;
        esac""",
    "go": """: >"$GOBIN/nvkind" """,
    "useradd": """PATH="$STUB_PATH" command mkdir -p "$GPU_CI_ROOT/home/runner" """,
    "systemd-run": """
        local unit
        while [[ $1 == --* ]]; do
          if [[ $1 == --unit=* ]]; then unit="${1#*=}"; fi
          shift
        done
        printf '%s\\0' "$@" >"$STUB/timers/$unit" """,
    "systemctl": """
        if [[ $1 == stop && " ${STUB_ABSENT-} " == *" $2 "* ]]; then return "${STUB_ABSENCE-5}"; fi""",
    "env": """
        while [[ $1 == *=* ]]; do
          local -x "$1"
          shift
        done
        "$@" """,
    "timeout": TIMEOUT,
    "tar": """PATH="$STUB_PATH" command tar "$@" """,
    "setpriv": """while [[ $1 == --* ]]; do shift; done
        exec "$@" """,
    "run.sh": """printf '%s' "$STUB_SAYS"
        return "${STUB_JOB-0}" """,
}
PLAIN = ("chown", "ip6tables", "iptables", "sleep")
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


@cache
def helm_archive() -> bytes:
    """Helm as its project publishes it."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        entry = tarfile.TarInfo("linux-amd64/helm")
        entry.size = 4
        tar.addfile(entry, io.BytesIO(b"helm"))
    return archive.getvalue()


@dataclass
class StubMachine(StubbedScript):
    """A machine in a folder. `run` boots it once; the rest shows what happened."""

    settings: dict[str, str] = field(default_factory=dict)
    announces: ClassVar[str] = "gpu-ci step="
    commands: ClassVar[tuple[str, ...]] = COMMANDS
    bodies: ClassVar[dict[str, str]] = bodies(BODIES, REAL, (*PLAIN, "installdependencies.sh"))
    more: ClassVar[str] = AT_CALL
    functions: ClassVar[str] = WITHOUT_PROCESSES

    @staticmethod
    def add_files(folder: Path) -> None:
        """Helm's archive, and what comes out of the runner's image."""
        (folder / "helm").write_bytes(helm_archive())
        (folder / "home/bin").mkdir(parents=True)
        for name in ("run.sh", "bin/installdependencies.sh"):
            (folder / "home" / name).symlink_to(folder / "program")

    def __post_init__(self) -> None:
        """Make the folder."""
        for name in FOLDERS:
            (self.root / name).mkdir(parents=True)
        (self.stub / "timers").mkdir(parents=True)
        if not self.programs:
            (self.root / "home/runner").mkdir(parents=True)
        kubectl, kind = "https://dl.example/kubectl", "https://kind.example/kind"
        self.sums = {
            name: hashlib.sha256(content).hexdigest()
            for name, content in {
                "KUBECTL_SHA256": f"content of {kubectl}\n".encode(),
                "HELM_SHA256": helm_archive(),
                "KIND_SHA256": f"content of {kind}\n".encode(),
            }.items()
        }
        self.settings = (
            {
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
                "HELM_URL": "https://get.example/helm.tar.gz",
                "KIND_URL": kind,
            }
            | self.sums
            | self.settings
        )

    @property
    def root(self) -> Path:
        """What the machine takes for /."""
        return self.folder / "root"

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
            "sums": " ".join(self.sums.values()),
        }
        return self.start(SCRIPT, {"GPU_CI_ROOT": str(self.root)}, default | behaviour)

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

    @property
    def environments(self) -> list[tuple[str, str]]:
        """The name and the exported variables of each call, in order."""
        path = self.stub / "environments"
        parts = re.split(r"^CALL (\S+)\n", path.read_text() if path.exists() else "", flags=re.MULTILINE)[1:]
        return list(zip(parts[::2], parts[1::2], strict=True))

    def saw_registration(self) -> set[str]:
        """Commands that had the registration in their environment."""
        return {name for name, variables in self.environments if JIT in variables}

    def files_with_registration(self) -> list[str]:
        """Files of the machine that hold the registration."""
        return [str(path) for path in self.root.rglob("*") if path.is_file() and JIT.encode() in path.read_bytes()]
