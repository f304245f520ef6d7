"""What a container gets: environment, words, volumes, and a root that leaves the machine as it is."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from fleet.facts.errors import InputError
from fleet.render.sweeps.api import Object
from gpu_ci.world import hands as module
from gpu_ci.world.hands import Pod, entering, expanded, namespaces
from gpu_ci.world.processes import Processes
from tests.world.kubelet import Server, need_namespaces, plane

SECRET = "value-of-a-secret"  # noqa: S105 - of no service


@pytest.fixture
def server() -> Server:
    server = Server()
    server.secret("login", key=SECRET)
    server.put("configmaps", "settings", data={"a": "1", "b": "2"}, binaryData={"raw": "/wA="})
    return server


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with Processes(tmp_path) as processes:
        yield processes


def pod(server: Server, processes: Processes, **spec: object) -> Pod:
    entry = server.pod("one", **spec)
    entry["metadata"]["labels"] = {"app/name": "x", "tier": "y"}
    folder = processes.folder / "pod"
    folder.mkdir()
    return Pod(plane(server, processes), server.api, entry, folder)


@given(st.text(), st.dictionaries(st.text("ABC", min_size=1), st.text()))
def test_a_text_whose_dollars_are_doubled_stays_as_it_was(text: str, env: dict[str, str]) -> None:
    assert expanded(text.replace("$", "$$"), env) == text


def test_variables_get_their_values_and_unknown_ones_stay() -> None:
    assert expanded("$(A)/$(B)/$$(A)/$A", {"A": "1"}) == "1/$(B)/$(A)/$A"


def test_the_environment_has_every_source_and_words_get_no_secret(server: Server, processes: Processes) -> None:
    variables: list[Object] = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app/name']"}}},
        {"name": "LOGIN", "valueFrom": {"secretKeyRef": {"name": "login", "key": "key"}}},
        {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "b"}}},
        {"name": "URL", "value": "$(POD):$(LOGIN)"},
        {"name": "NONE", "valueFrom": {"secretKeyRef": {"name": "missing", "key": "key", "optional": True}}},
    ]
    sources = [{"secretRef": {"name": "login"}, "prefix": "MY_"}, {"configMapRef": {"name": "missing", "optional": True}}]
    env, shown = pod(server, processes).environment({"env": variables, "envFrom": sources})
    api = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "6443"}
    own = {"POD": "one", "LABEL": "x", "B": "2"}
    assert env == {**api, **own, "LOGIN": SECRET, "URL": f"one:{SECRET}", "MY_key": SECRET}
    assert shown == {**api, **own, "URL": "one:$(LOGIN)"}, "a word with a secret would show in the list of processes"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ({"secretKeyRef": {"name": "missing", "key": "key"}}, OSError),
        ({"secretKeyRef": {"name": "login", "key": "other"}}, KeyError),
        ({"resourceFieldRef": {"resource": "limits.memory"}}, ValueError),
    ],
)
def test_a_value_that_is_missing_or_not_simulated_is_an_error(
    server: Server, processes: Processes, source: Object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        pod(server, processes).environment({"env": [{"name": "A", "valueFrom": source}]})


def test_volumes_have_the_files_that_a_kubelet_writes(server: Server, processes: Processes) -> None:
    sources: list[Object] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "settings", "items": [{"key": "a", "path": "deep/a"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    volumes: list[Object] = [
        {"name": "access", "projected": {"sources": sources}},
        {"name": "login", "secret": {"secretName": "login"}},
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "scratch", "emptyDir": {}},
    ]
    paths = {volume["name"]: f"/mnt/{volume['name']}" for volume in volumes} | {"settings": "/a"}
    mounts = [{"name": name, "mountPath": path} for name, path in paths.items()]
    own = pod(server, processes, volumes=volumes)
    made = {place: folder for folder, place in own.mounts({"volumeMounts": mounts})}
    files = {
        f"{place}/{path.relative_to(folder)}": path.read_bytes()
        for place, folder in made.items()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert files == {
        "/mnt/access/token": b"token of runner",
        "/mnt/access/deep/a": b"1",
        "/mnt/access/namespace": b"ci",
        "/mnt/access/labels": b'app/name="x"\ntier="y"',
        "/mnt/login/key": SECRET.encode(),
        "/a/a": b"1",
        "/a/b": b"2",
        "/a/raw": b"\xff\x00",
    }
    assert made["/mnt/scratch"].is_dir()
    assert [*made] == sorted(made), "a place inside another is mounted after it"


def test_programs_listen_on_free_ports_of_the_loopback_interface(server: Server, processes: Processes) -> None:
    own = pod(server, processes)
    words = ["--metrics-addr=:8080", "--listener-metrics-addr=:8080", "--address=0.0.0.0:8085", '{"metrics_addr":":8080"}']
    moved = [own.local(word) for word in words]
    assert {*own.ports} == {8080, 8085}
    metrics = f"127.0.0.1:{own.ports[8080]}"
    expected = [
        f"--metrics-addr={metrics}",
        words[1],
        f"--address=127.0.0.1:{own.ports[8085]}",
        f'{{"metrics_addr":"{metrics}"}}',
    ]
    assert moved == expected, "ARC's controller hands the address of listeners on to them, and each has its own"
    assert own.local("--metrics-addr=0") == "--metrics-addr=0", "0 turns metrics off"


def test_a_process_has_its_pods_files_and_host_name_and_the_machine_stays_as_it_is(tmp_path: Path) -> None:
    way = need_namespaces(tmp_path)
    volume, root, file = tmp_path / "volume", tmp_path / "root", tmp_path / "file"
    volume.mkdir()
    (volume / "key").write_text("of the pod")
    file.write_text("a file")
    before = sorted(Path("/").iterdir()), socket.gethostname()
    read = "open('/etc/gha-listener/key').read(), open('/extra/file').read()"
    text = f"import os, socket; print({read}, socket.gethostname(), os.getcwd())"
    places = [(volume, "/etc/gha-listener"), (file, "/extra/file"), (volume, "/work")]
    words = [*entering(way, root, "pod-1", "/work", places), str(Path(sys.executable).resolve()), "-c", text]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "of the pod a file pod-1 /work"
    assert (sorted(Path("/").iterdir()), socket.gethostname()) == before
    assert not any(path.is_file() and path.stat().st_size for path in root.rglob("*")), "mounts are the process's own"


def test_a_volume_below_a_folder_of_the_machine_is_not_made_there(tmp_path: Path) -> None:
    (host := tmp_path / "host").mkdir()
    (volume := tmp_path / "volume").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_OF_HOST", (str(host), "/usr"))
        words = entering([], tmp_path / "root", "pod", "/", [(volume, f"{host}/new")])
    assert str(host) not in words
    assert "/usr" in words


def test_a_machine_without_namespaces_gets_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"^namespaces: this machine refuses `unshare --user .* run as root, or allow") as error:
        namespaces(tmp_path)
    assert "\n" not in str(error.value)
