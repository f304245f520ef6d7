"""The bootstrap: whatever fails, no runner registers, one line names the step, and the machine powers off once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from fleet.providers.oke.gateway import VALUES
from fleet.providers.oke.machine import launcher
from tests.fleet.machine.stub_machine import (
    COMMANDS,
    EXPORTER,
    FINGERPRINT,
    IMAGE,
    IMAGES_OWN,
    JIT,
    METRICS_URL,
    SCRIPT,
    StubMachine,
)
from tests.stubs import Call

STEPS = [
    "start",
    "driver",
    "persistence",
    "packages",
    "toolkit",
    "runtime",
    "tools",
    "runner",
    "container",
    "metrics",
    "registration",
    "metadata",
    "job",
]
IMDS = "http://169.254.169.254/opc/v2/instance/"
IMDS6 = "http://[fd00:c1::a9fe:a9fe]/opc/v2/instance/"


@pytest.fixture
def machine(tmp_path: Path) -> StubMachine:
    """A machine that has not booted."""
    return StubMachine(tmp_path)


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> StubMachine:
    """A machine after a good boot, for all tests that only check it."""
    machine = StubMachine(tmp_path_factory.mktemp("booted"), programs=True)
    assert machine.run() == 0
    return machine


def ended(machine: StubMachine) -> str:
    """The machine's one status line, compared with the facts of every end."""
    assert [call.arguments for call in machine.calls if call.name == "systemctl"].count("poweroff") == 1
    assert (machine.calls[-1].name, machine.calls[-1].arguments) == ("systemctl", "poweroff"), "nothing after it"
    assert len(machine.console) == 1, "one status line"
    assert machine.status in ("", machine.console[0]), "none where its folder cannot be made"
    assert launcher.STATUS.fullmatch(machine.console[0]), "the launcher reads it"
    assert JIT not in machine.output, "neither an argument nor any output has the registration"
    assert machine.files_with_registration() == []
    assert machine.saw_registration() <= {"setpriv", "run.sh"}
    return machine.console[0]


def refused(machine: StubMachine) -> str:
    """The status of a machine that must not have registered."""
    assert machine.called("run.sh") == []
    return ended(machine)


# -- success -------------------------------------------------------------------------------------------------------------


def test_success_is_one_registration_one_job_one_end(booted):
    assert ended(booted) == "gpu-ci status=done step=done code=0"
    assert booted.status == "gpu-ci status=done step=done code=0"
    assert booted.called("run.sh") == [""], "once, and without arguments"
    assert booted.called("setpriv") == ["--reuid=runner --regid=runner --init-groups ./run.sh"]
    assert booted.saw_registration() == {"setpriv", "run.sh"}


@pytest.mark.parametrize("fail", ["", "mv", "gpg"])
def test_commands_that_are_programs_end_a_boot_as_functions_do(tmp_path, booted, fail):
    functions = StubMachine(tmp_path / "functions")
    programs = StubMachine(tmp_path / "programs", programs=True) if fail else booted
    assert functions.run(fail=fail) == (programs.run(fail=fail) if fail else 0)
    outputs = [re.sub(r" sh \d+ ", " ", end.output.replace(str(end.folder), "")) for end in (programs, functions)]
    assert outputs[0] == outputs[1], "but for the script's own id"
    assert programs.shown == functions.shown
    assert ended(programs) == ended(functions)
    assert programs.saw_registration() == functions.saw_registration()


def test_every_stub_is_used_and_every_step_has_its_turn(booted):
    assert {call.name for call in booted.calls} == {*COMMANDS, *IMAGES_OWN}
    assert list(dict.fromkeys(call.step for call in booted.calls)) == STEPS


def test_the_metadata_endpoint_is_closed_and_held_closed_before_the_job(booted):
    steps = [call for call in booted.calls if call.step in ("metadata", "job")]
    rules = [call.arguments for call in steps[:4]]
    v4 = "-d 169.254.169.254 -p tcp --dport 80 -j REJECT --reject-with tcp-reset"
    v6 = "-d fd00:c1::a9fe:a9fe -p tcp --dport 80 -j REJECT --reject-with tcp-reset"
    assert [call.name for call in steps[:4]] == ["iptables", "iptables", "ip6tables", "ip6tables"]
    assert rules == [
        f"--wait -I OUTPUT 1 {v4}",
        f"--wait -I DOCKER-USER 1 {v4}",
        f"--wait -I OUTPUT 1 {v6}",
        f"--wait -I FORWARD 1 {v6}",
    ]
    assert [call.name for call in steps[4:]] == [
        *("curl", "curl", "docker", "systemctl", "setpriv", "run.sh"),
        *("timeout", "docker", "systemctl"),
    ]
    assert [call.arguments.rpartition(" ")[2] for call in steps[4:7]] == [IMDS, IMDS6, IMDS]


def test_names_time_and_disks_stay_reachable(booted):
    rules = [call.arguments for call in booted.calls if call.name in ("iptables", "ip6tables")]
    assert all("-p tcp --dport 80 " in rule for rule in rules)
    assert not any("/16" in rule or "53" in rule or "3260" in rule for rule in rules)


def test_the_registration_is_read_only_when_the_machine_is_ready(booted):
    reads = [call for call in booted.calls if "gpu-ci-jit" in call.arguments]
    assert {call.step for call in reads} == {"registration"}
    assert len(reads) == 3, "two answers that there is none yet"
    assert all("Authorization: Bearer Oracle" in call.arguments for call in reads)
    assert len(booted.called("sleep")) == 2


def test_a_machine_waits_for_its_job_for_days(machine):
    assert machine.run(waits="61") == 0
    assert len(machine.called("sleep")) == 61, "more often than an endpoint may miss an answer"


def test_the_four_toolkit_packages_have_one_version_and_are_held(booted):
    four = ["nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"]
    installs = [call.arguments for call in booted.calls if call.name == "apt-get" and "--allow-downgrades" in call.arguments]
    assert [words.split()[-4:] for words in installs] == [[f"{name}=1.17.8-1" for name in four]]
    assert booted.called("apt-mark")[0] == f"hold {' '.join(four)}"
    listed = (booted.root / "etc/apt/sources.list.d/nvidia-container-toolkit.list").read_text()
    assert listed == (
        "deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg] "
        "https://nvidia.github.io/libnvidia-container/stable/deb/$(ARCH) /\n"
    )


def test_docker_has_nvidias_runtime_and_no_cdi(booted):
    configured, runtime = booted.called("nvidia-ctk")
    assert configured.endswith("--set accept-nvidia-visible-devices-as-volume-mounts=true --in-place")
    assert runtime.startswith("runtime configure --runtime=docker --set-as-default ")
    assert '"features": {"cdi": false}' in (booted.root / "etc/docker/daemon.json").read_text()
    order = [call.arguments for call in booted.calls if call.step == "runtime" and call.name in ("systemctl", "docker")]
    assert order == ["restart docker", "info --format {{.DefaultRuntime}}"]


def test_tools_are_there_by_their_checksums_and_nvkind_by_its_commit(booted):
    for name in ("kubectl", "helm", "kind"):
        assert os.access(booted.root / "usr/local/bin" / name, os.X_OK)
    assert booted.called("go") == ["install github.com/NVIDIA/nvkind/cmd/nvkind@0123456789abcdef"]
    env = booted.called("env")[0].split()
    assert {"GOTOOLCHAIN=go1.24.0", "GOSUMDB=sum.golang.org", "GONOSUMDB=", "GOPRIVATE="} <= set(env)
    assert (booted.root / "usr/local/bin/nvkind").exists()


def test_a_machine_without_nvkind_gets_no_tools(tmp_path):
    machine = StubMachine(tmp_path, settings={"NVKIND": ""})
    assert machine.run() == 0
    assert ended(machine) == "gpu-ci status=done step=done code=0"
    assert "tools" not in [call.step for call in machine.calls]
    assert machine.called("go") == []


def test_the_runner_comes_from_its_image_and_may_use_sudo_and_docker(booted):
    home = booted.root / "home/runner"
    assert booted.called("docker")[1:5] == [
        f"pull --quiet {IMAGE}",
        f"create {IMAGE} true",
        f"cp container1:/home/runner/. {home}",
        "rm container1",
    ]
    assert booted.called("useradd") == [f"--create-home --home-dir {home} --shell /bin/bash --groups docker runner"]
    sudo = booted.root / "etc/sudoers.d/runner"
    assert (sudo.read_text(), sudo.stat().st_mode & 0o777) == ("runner ALL=(ALL) NOPASSWD:ALL\n", 0o440)


def test_a_registration_in_quotes_is_read_without_them(machine):
    assert machine.run(reply=f'"{JIT}"') == 0
    environment = dict(machine.environments)["run.sh"]
    assert f'ACTIONS_RUNNER_INPUT_JITCONFIG="{JIT}"' in environment
    assert 'GPU_CI_USD_PER_HOUR="4"' in environment
    assert ended(machine) == "gpu-ci status=done step=done code=0"


def test_nothing_is_fetched_but_over_https_and_from_the_machine_itself(booted):
    for arguments in booted.called("curl"):
        url = arguments.rpartition(" ")[2]
        assert url.startswith(("https://", "http://169.254.169.254/", "http://[fd00:c1::a9fe:a9fe]/"))
        assert url.startswith("http://") or "--proto =https" in arguments


# -- every command failing in turn ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A call that failed, from that call on each of the command's, and the status that came of it.

    Of calls for metrics only that one failed.
    """

    call: Call
    status: str


NO_METRICS = "gpu-ci metrics=none code=1"


def of_metrics(call: Call) -> bool:
    """Whether only the machine's metrics need the call."""
    return call.step == "metrics" or "stop -t 30 gpu-ci-agent" in call.arguments


def failures(good: StubMachine, folder: Path) -> list[Row]:
    """Every call of a good boot, made to fail in turn. Checks at each end the facts of all."""
    rows = []
    for number, call in enumerate(good.calls):
        machine = StubMachine(folder / str(number))
        once = {"to": str(call.count)} if call.step == "metrics" else {}
        machine.run(fail=call.name, from_=str(call.count), **once)
        if call.name == "run.sh" or call.arguments == "poweroff" or of_metrics(call):
            rows.append(Row(call, ended(machine)))
            assert (NO_METRICS in machine.shown) == (call.step == "metrics")
        else:
            rows.append(Row(call, refused(machine)))
    return rows


def table(rows: list[Row]) -> str:
    """The rows as a page shows them."""
    lines = [f"{row.call.step:13} {row.call.name:23} {row.call.count:2}  {row.status}" for row in rows]
    return "\n".join(["step          command                 nth status", *lines])


def test_every_command_that_fails_leaves_no_registration_and_one_status_of_its_step(booted, tmp_path):
    rows = failures(booted, tmp_path)
    assert {row.call.name for row in rows} == {*COMMANDS, *IMAGES_OWN}, "each has failed"
    assert {row.status for row in rows if of_metrics(row.call)} == {"gpu-ci status=done step=done code=0"}, table(rows)
    wrong = [
        row
        for row in rows
        if not of_metrics(row.call) and not row.status.startswith(f"gpu-ci status=failed step={row.call.step} code=")
    ]
    # The line is written before the machine is asked to power off.
    assert [(row.call.name, row.call.arguments, row.status) for row in wrong] == [
        ("systemctl", "poweroff", "gpu-ci status=done step=done code=0")
    ], table(rows)


# -- a boot that hangs ---------------------------------------------------------------------------------------------------

TIMERS = "stop gpu-ci-boot-deadline.timer gpu-ci-boot-end.timer"


def test_a_boot_has_its_time_from_the_first_step_on(booted):
    armed = [(call.step, call.arguments) for call in booted.calls if call.name == "systemd-run"]
    assert [step for step, _ in armed] == ["start", "start"]
    assert booted.calls.index(next(call for call in booted.calls if call.name == "nvidia-smi")) > 2
    first, second = (arguments for _, arguments in armed)
    assert first.startswith("--quiet --on-active=40m --unit=gpu-ci-boot-deadline /bin/sh -c ")
    assert second == "--quiet --on-active=45m --unit=gpu-ci-boot-end systemctl poweroff --force --force"
    assert launcher.BOOT_DEADLINE > 45 * 60 + 600, "the launcher leaves bare metal its time"


@pytest.mark.parametrize(("standing", "step"), [("", "job"), ("yes", "registration")])
def test_the_boots_time_ends_where_a_machine_may_wait(tmp_path, standing, step):
    machine = StubMachine(tmp_path, settings={"STANDING": standing})
    assert machine.run() == 0
    assert ended(machine) == "gpu-ci status=done step=done code=0"
    stopped = [call for call in machine.calls if call.arguments == TIMERS]
    assert [(call.name, call.step) for call in stopped] == [("systemctl", step)]
    after = machine.calls[machine.calls.index(stopped[0]) + 1]
    assert after.name == {"job": "setpriv", "registration": "curl"}[step]


@pytest.mark.parametrize(
    ("hang", "from_", "step"),
    [
        ("nvidia-smi", "1", "driver"),
        ("apt-get", "1", "packages"),
        ("gpg", "1", "toolkit"),
        ("go", "1", "tools"),
        ("docker", "2", "runner"),
        ("installdependencies.sh", "1", "runner"),
        ("sleep", "1", "registration"),
        ("curl", "9", "metadata"),
    ],
)
def test_a_boot_that_hangs_ends_when_its_time_is_up_and_says_where(machine, hang, from_, step):
    assert machine.run(hang=hang, from_=from_) != 0
    status = refused(machine)
    assert status.startswith(f"gpu-ci status=failed step={step} code=")
    assert status.endswith(" reason=deadline")
    assert f"gpu-ci step={step}" in machine.shown


def test_every_step_stands_on_the_serial_console(booted):
    steps = [line.removeprefix("gpu-ci step=") for line in booted.shown if line.startswith("gpu-ci step=")]
    assert steps == STEPS[1:]
    assert launcher.Console("\n".join(booted.shown)).steps == STEPS[1:], "the launcher reads them"


def test_a_machine_whose_console_cannot_be_written_does_its_job(machine):
    (machine.root / "dev").rmdir()
    assert machine.run() == 0
    assert machine.status == "gpu-ci status=done step=done code=0"


# -- metrics -------------------------------------------------------------------------------------------------------------


def test_a_machine_reads_its_gpus_on_loopback_and_pushes_to_where_its_metadata_says(booted):
    config = json.loads((booted.root / "var/lib/gpu-ci/agent.json").read_text())
    (scrape,) = config["scrape_configs"]
    (target,) = scrape["static_configs"]
    assert (config["global"]["scrape_interval"], target["targets"]) == ("15s", ["127.0.0.1:9400"])
    assert re.fullmatch(VALUES["instance"], target["labels"]["instance"]), "the gateway accepts it"
    assert config["remote_write"] == [{"url": METRICS_URL}]
    pulled, _, exporter, agent = (call.arguments for call in booted.calls if call.name == "docker" and call.step == "metrics")
    assert pulled == f"pull --quiet {EXPORTER}"
    assert f"--volume {booted.root}/etc/gpu-ci/counters.csv:/counters.csv:ro " in exporter
    assert "--env DCGM_EXPORTER_LISTEN=127.0.0.1:9400 --env DCGM_EXPORTER_COLLECTORS=/counters.csv" in exporter
    assert "--env DCGM_EXPORTER_INTERVAL=15000 " in exporter, "as often as it is scraped"
    assert " --web.listen-address=127.0.0.1:9401 " in agent
    assert booted.root.name + "/var/lib/gpu-ci/agent.json:/agent.json:ro" in agent


def test_the_agent_gets_time_to_send_its_last_samples_after_the_status_and_before_power_off(booted):
    last = [(call.name, call.arguments) for call in booted.calls[-3:]]
    stop = "docker stop -t 30 gpu-ci-agent"
    assert last == [("timeout", f"40 {stop}"), ("docker", stop.removeprefix("docker ")), ("systemctl", "poweroff")]
    agent = next(call.arguments for call in booted.calls if "--agent " in call.arguments)
    assert "--storage.remote.flush-deadline=20s" in agent, "shorter than docker waits"


@pytest.mark.parametrize(("metrics", "code"), [("", 22), ("http://elsewhere.example/api/v1/write", 1), ("<html>", 1)])
def test_a_machine_that_is_not_told_where_to_push_says_so_and_does_its_job(machine, metrics, code):
    assert machine.run(metrics=metrics) == 0
    assert ended(machine) == "gpu-ci status=done step=done code=0"
    assert f"gpu-ci metrics=none code={code}" in machine.shown
    assert [call.arguments for call in machine.calls if call.step == "metrics" and call.name == "docker"] == []
    assert not any("stop -t" in call.arguments for call in machine.calls)


def test_a_machine_of_a_cluster_without_monitoring_has_no_step_of_metrics(tmp_path):
    machine = StubMachine(tmp_path, settings={"EXPORTER_IMAGE": ""})
    assert machine.run() == 0
    assert "metrics" not in [call.step for call in machine.calls]


# -- apt -----------------------------------------------------------------------------------------------------------------


def test_updates_in_the_background_are_stopped_before_apt_is_used(booted):
    packages = [(call.name, call.arguments) for call in booted.calls if call.step == "packages"]
    assert packages[:4] == [
        ("systemctl", "mask --now apt-daily.timer apt-daily-upgrade.timer"),
        ("systemctl", "stop apt-daily.service"),
        ("systemctl", "stop apt-daily-upgrade.service"),
        ("systemctl", "stop unattended-upgrades.service"),
    ]
    assert packages[4][0] == "apt-get"


def test_an_image_without_background_updates_is_no_failure(machine):
    assert machine.run(absent="apt-daily.service unattended-upgrades.service") == 0
    assert ended(machine) == "gpu-ci status=done step=done code=0"


def test_background_updates_that_do_not_stop_are_one(machine):
    assert machine.run(absent="apt-daily-upgrade.service", absence="1") == 1
    assert refused(machine).endswith("step=packages code=1 reason=apt-daily-upgrade.service_does_not_stop:_1")


@pytest.mark.parametrize(("busy", "code"), [("1", 0), ("2", 0), ("3", 1)])
def test_lists_that_somebody_holds_are_asked_for_three_times(machine, busy, code):
    assert machine.run(busy=busy) == code
    updates = [call for call in machine.calls if call.step == "packages" and call.arguments.endswith(" update")]
    assert len(updates) == min(int(busy) + 1, 3)
    assert len([call for call in machine.calls if call.step == "packages" and call.name == "sleep"]) == len(updates) - 1
    if code:
        assert refused(machine) == "gpu-ci status=failed step=packages code=1 reason=apt-get_update_failed_three_times"


# -- wrong states --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "step", "reason"),
    [
        ({"drivers": "570.195.03\n535.183.01"}, "driver", "driver_version_is_535.183.01"),
        ({"drivers": "570.195.03"}, "driver", "1_GPUs"),
        ({"drivers": "570.195.03\n570.195.03\n570.195.03"}, "driver", "3_GPUs"),
        ({"drivers": ""}, "driver", "driver_version_is_"),
        ({"persistence": "Enabled\nDisabled"}, "persistence", "persistence_mode_is_Disabled"),
        ({"persistence": "Enabled"}, "persistence", "1_GPUs"),
        ({"key": FINGERPRINT[::-1]}, "toolkit", "another_key_signs"),
        ({"key": f"{FINGERPRINT}:\npub:::::::::::\nfpr:::::::::{FINGERPRINT}"}, "toolkit", "another_key_signs"),
        ({"installed": "1.19.1-1"}, "toolkit", "nvidia-container-toolkit_is_1.19.1-1"),
        (
            {"held": "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools"},
            "toolkit",
            "libnvidia-container1_is_not_held",
        ),
        ({"runtime": "runc"}, "runtime", "runc"),
        ({"seen": "GPU 0: NVIDIA A10"}, "container", "1_GPUs"),
        ({"seen": ""}, "container", "0_GPUs"),
        ({"reply": "<html>not a registration</html>"}, "registration", "no_registration"),
        ({"waits": "999", "miss": "500"}, "registration", "does_not_answer"),
        ({"open": IMDS}, "metadata", "answers"),
        ({"open": IMDS6}, "metadata", "answers"),
        ({"open": "container"}, "metadata", "answers"),
    ],
)
def test_a_machine_that_is_not_as_expected_does_not_register(machine, behaviour, step, reason):
    assert machine.run(**behaviour) == 1
    status = refused(machine)
    assert status.startswith(f"gpu-ci status=failed step={step} code=1 reason=")
    assert reason in status


@pytest.mark.parametrize("code", [6, 22, 52])
def test_only_a_refusal_or_silence_shows_a_closed_metadata_endpoint(machine, booted, code):
    """curl(1), EXIT CODES: no such host, an HTTP error, an empty reply. None says that the endpoint is closed."""
    first = next(call for call in booted.calls if call.name == "curl" and call.arguments.endswith(f" {IMDS}"))
    assert machine.run(fail="curl", from_=str(first.count), code=str(code)) == 1
    assert f"the_metadata_endpoint_ended_with_{code}" in refused(machine)


@pytest.mark.parametrize("name", ["KUBECTL_SHA256", "HELM_SHA256", "KIND_SHA256"])
def test_a_file_with_another_checksum_is_not_installed(tmp_path, name):
    machine = StubMachine(tmp_path, settings={name: "0" * 64})
    assert machine.run() != 0
    assert refused(machine).startswith("gpu-ci status=failed step=tools ")
    assert not (machine.root / "usr/local/bin" / name.partition("_")[0].lower()).exists()


@pytest.mark.parametrize("name", ["DRIVER", "GPUS", "TOOLKIT", "RUNNER_IMAGE"])
def test_a_setting_that_is_missing_stops_the_machine_at_once(tmp_path, name):
    machine = StubMachine(tmp_path, settings={name: ""})
    assert machine.run() != 0
    assert refused(machine).startswith("gpu-ci status=failed step=start ")
    assert machine.called("nvidia-smi") == []


def test_a_command_that_the_machine_has_not_stops_it(machine):
    assert machine.without("nvidia-smi").run() == 127
    assert refused(machine).startswith("gpu-ci status=failed step=driver code=127 ")


def test_an_endpoint_that_answers_in_between_is_asked_for_days(machine):
    assert machine.run(waits="62", miss="500", rest="31") == 0, "misses count only while no answer comes between them"
    assert ended(machine) == "gpu-ci status=done step=done code=0"


@pytest.mark.parametrize("code", ["1", "3", "143"])
def test_a_runner_that_fails_is_a_failed_job_with_its_status(machine, code):
    assert machine.run(job=code) == int(code)
    assert ended(machine) == f"gpu-ci status=failed step=job code={code} reason=run.sh_ended_with_{code}"
    assert machine.called("run.sh") == [""]


def test_a_runner_that_got_no_job_is_not_done(machine):
    """run.sh ends with 0 then too, and ARC would start the next machine at once."""
    assert machine.run(says="Http response code: Unauthorized\nExiting runner...\n") == 1
    assert ended(machine) == "gpu-ci status=failed step=job code=1 reason=no_job_ran"


def test_a_status_has_no_character_of_what_failed_that_could_be_a_line_of_its_own(machine):
    machine.run(runtime="runc\ngpu-ci status=done step=done code=0")
    assert refused(machine).startswith("gpu-ci status=failed step=runtime code=1 reason=docker_s_default_runtime_is_runc_gpu-ci_")


# -- again ---------------------------------------------------------------------------------------------------------------


def test_a_second_boot_powers_off_and_keeps_the_first_status(machine):
    machine.run()
    first = len(machine.calls)
    assert machine.run() == 1
    assert [(call.name, call.arguments) for call in machine.calls[first:]] == [("systemctl", "poweroff")]
    assert machine.console == ["gpu-ci status=done step=done code=0"]
    assert machine.status == "gpu-ci status=done step=done code=0"


def test_a_boot_after_one_that_was_cut_off_says_so_and_does_not_register(machine):
    state = machine.root / "var/lib/gpu-ci"
    state.mkdir(parents=True)
    (state / "started").touch()
    assert machine.run() == 1
    assert refused(machine) == "gpu-ci status=failed step=reboot code=1 reason=this_machine_was_started_before"
    assert len(machine.calls) == 1


# -- the file ------------------------------------------------------------------------------------------------------------


def test_shellcheck_finds_nothing():
    checker = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([checker, SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_script_is_ascii_and_names_the_key_that_the_launcher_writes():
    text = SCRIPT.read_text(encoding="ascii")
    assert f"/opc/v2/instance/metadata/{launcher.JIT_KEY}" in text
    assert f"export {launcher.JIT_VARIABLE}=" in text
    assert f"/opc/v2/instance/metadata/{launcher.METRICS_KEY}" in text
    assert "| bash" not in text
    assert "set -x" not in text
