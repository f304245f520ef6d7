"""The cloud-config of a machine: what it holds, that it holds no secret, and that it fits."""

from __future__ import annotations

import base64
import shlex
from typing import Any

import pytest
from ruamel.yaml import YAML

from fleet.charts.dcgm_exporter import counters
from fleet.facts import hardware, versions
from fleet.facts.tables import rows
from fleet.providers.oke.machine import launch as cloudinit
from fleet.providers.oke.machine.launch import BOOTSTRAP, COUNTERS, SETTINGS, STARTED, encoded, user_data
from tests.fleet.machine.runners import per_job, standing
from tests.fleet.machine.stub_machine import METRICS_URL, SCRIPT

RUNNERS = [standing(), standing(nvkind=False), per_job(), per_job(shapes=["VM.GPU.A10.2"])]
each_runner = pytest.mark.parametrize("runner", RUNNERS, ids=["standing", "no-nvkind", "per-job", "two-gpus"])


def config(runner: Any, **options: bool) -> dict[str, Any]:
    """The cloud-config as cloud-init reads it."""
    text = user_data(runner, **options)
    assert text.startswith("#cloud-config\n")
    return dict(YAML(typ="safe", pure=True).load(text))


def env(runner: Any, **options: bool) -> dict[str, str]:
    """The bootstrap's settings as a shell reads them."""
    [content] = [file["content"] for file in config(runner, **options)["write_files"] if file["path"] == SETTINGS]
    words = [shlex.split(line) for line in content.splitlines()]
    assert all(len(word) == 1 for word in words)
    return dict(word[0].split("=", 1) for word in words)


@each_runner
def test_the_bootstrap_is_written_as_it_is_and_run_once(runner):
    found = config(runner)
    assert [(file["path"], file["permissions"]) for file in found["write_files"]] == [(SETTINGS, "0644"), (BOOTSTRAP, "0755")]
    assert found["write_files"][1]["content"] == SCRIPT.read_text(encoding="ascii")
    assert found["runcmd"] == [[BOOTSTRAP]]


@each_runner
def test_a_machine_that_boots_again_runs_the_bootstrap_which_ends_it(runner):
    assert config(runner)["bootcmd"] == [["/bin/sh", "-c", f"test ! -e {STARTED} || exec {BOOTSTRAP}"]]
    assert SCRIPT.read_text().count('"$STATE/started"') == 1
    assert 'STATE="$ROOT/var/lib/gpu-ci"\n' in SCRIPT.read_text()
    assert f'"${{GPU_CI_SETTINGS:-$ROOT{SETTINGS}}}"' in SCRIPT.read_text()


@each_runner
def test_nobody_logs_in_and_nothing_is_upgraded(runner):
    found = config(runner)
    assert set(found) == {"disable_root", "ssh_pwauth", "bootcmd", "write_files", "runcmd"}
    assert (found["disable_root"], found["ssh_pwauth"]) == (True, False)
    assert "ssh-" not in user_data(runner)


@pytest.mark.usefixtures("numbers")
def test_settings_are_the_runners_and_the_pinned_versions():
    assert env(standing(toolkit="1.19.1-1")) == {
        "DRIVER": "570.195.03",
        "GPUS": "1",
        "TOOLKIT": "1.19.1-1",
        "RUNNER_IMAGE": versions.RUNNER_IMAGE,
        "USD_PER_HOUR": "2",
        "NVKIND": versions.NVKIND.version,
        "STANDING": "yes",
        "EXPORTER_IMAGE": "",
        "GO": versions.NVKIND.go,
        "KUBECTL_URL": versions.DOWNLOADS["kubectl"].url,
        "KUBECTL_SHA256": versions.DOWNLOADS["kubectl"].sha256,
        "HELM_URL": versions.DOWNLOADS["helm"].url,
        "HELM_SHA256": versions.DOWNLOADS["helm"].sha256,
        "KIND_URL": versions.DOWNLOADS["kind"].url,
        "KIND_SHA256": versions.DOWNLOADS["kind"].sha256,
    }
    assert env(standing())["TOOLKIT"] == versions.VM_TOOLKIT
    assert env(per_job(shapes=["VM.GPU.A10.2"]))["GPUS"] == "2"


@pytest.mark.usefixtures("numbers")
def test_a_machine_without_nvkind_has_no_settings_of_tools():
    assert env(standing(nvkind=False)) == {
        "DRIVER": "570.195.03",
        "GPUS": "1",
        "TOOLKIT": versions.VM_TOOLKIT,
        "RUNNER_IMAGE": versions.RUNNER_IMAGE,
        "USD_PER_HOUR": "2",
        "NVKIND": "",
        "STANDING": "yes",
        "EXPORTER_IMAGE": "",
    }
    assert env(per_job())["STANDING"] == ""


@pytest.mark.usefixtures("numbers")
def test_a_machine_knows_the_prices_of_the_shapes_that_it_may_be():
    assert env(per_job(shapes=["VM.GPU.A10.2"]))["USD_PER_HOUR"] == "4"
    assert (
        env(per_job(shapes=["VM.GPU3.1"], capacity="spot", image={"id": "ocid1.image.oc1..x", "driver": "570.195.03"}))[
            "USD_PER_HOUR"
        ]
        == "1.475"
    )


def test_oci_has_one_price_list_for_all_regions():
    shapes = {machine.name for machine in hardware.machines("oci")}
    assert {row["region"] for row in rows("prices.csv") if row["item"] in shapes} == {"*"}


def test_a_machine_that_pushes_has_pinned_images_and_the_counters_of_every_exporter():
    files = {file["path"]: file["content"] for file in config(standing(), pushes=True)["write_files"]}
    assert files.keys() == {SETTINGS, BOOTSTRAP, COUNTERS}
    fields = [line.split(",") for line in files[COUNTERS].splitlines()]
    assert [(name, kind) for name, kind, _ in fields] == counters()
    assert all(text for *_, text in fields), "the exporter wants three columns"
    found = env(standing(), pushes=True)
    assert found.keys() - env(standing()).keys() == {"AGENT_IMAGE"}
    assert all("@sha256:" in found[name] for name in ("EXPORTER_IMAGE", "AGENT_IMAGE"))
    exporter, prometheus = (versions.CHARTS[name] for name in ("dcgm-exporter", "kube-prometheus-stack"))
    assert f"-{exporter.version}-" in found["EXPORTER_IMAGE"], "the version of the chart on nodes"
    assert prometheus.version == "88.5.3", "runs Prometheus v3.14.0"
    assert "/prometheus:v3.14.0@" in found["AGENT_IMAGE"]


def test_every_setting_is_one_that_the_bootstrap_reads():
    text = SCRIPT.read_text()
    assert [name for name in env(standing(), pushes=True) if f"${name}" not in text and f"${{{name}" not in text] == []


def test_the_runners_image_is_pinned_by_digest():
    assert "@sha256:" in env(standing())["RUNNER_IMAGE"]


@each_runner
def test_user_data_is_the_same_each_time_and_plain_ascii(runner):
    assert user_data(runner) == user_data(runner)
    assert user_data(runner).isascii()
    assert base64.b64decode(encoded(runner)).decode("ascii") == user_data(runner)


@each_runner
def test_user_data_leaves_room_for_the_registration_and_the_address_of_the_gateway(runner):
    others = len("user_data") + len("gpu-ci-jit") + len("gpu-ci-metrics") + len(METRICS_URL) + 8192
    assert len(encoded(runner, pushes=True)) + others < 32_000


def test_user_data_that_leaves_no_room_is_an_error(monkeypatch):
    monkeypatch.setattr(cloudinit, "_SCRIPT", SCRIPT.read_text() + "# " + "x" * 9000)
    with pytest.raises(ValueError, match=r"shorten bootstrap\.sh"):
        encoded(standing())


def test_user_data_with_another_character_is_an_error(monkeypatch):
    monkeypatch.setattr(cloudinit, "_SCRIPT", "#!/bin/bash\n# caf\u00e9\n")
    with pytest.raises(ValueError, match="outside ASCII"):
        user_data(standing())


def test_cncfs_machines_have_no_user_data_of_ours():
    with pytest.raises(ValueError, match="set image with id and driver"):
        user_data(per_job().model_copy(update={"image": None}))
