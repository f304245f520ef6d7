"""Connecting by a kubeconfig, the errors of one that cannot be used, and that no error shows its secrets."""

from __future__ import annotations

import json
import sys
import traceback

import pytest

from gpu_ci.submit import InputError, connect, kubeconfig as module, run
from gpu_ci.submit.objects import JOBS
from tests.submit.conftest import OPTIONS
from tests.submit.life import work
from tests.submit.objects import job
from tests.submit.server import TOKEN


def test_the_namespace_is_the_contexts_unless_given(server, config):
    assert connect(config).namespace == "ml"
    assert connect(config, namespace="other").namespace == "other"
    held = json.loads(config.read_text())
    del held["contexts"][0]["context"]["namespace"]
    config.write_text(json.dumps(held))
    assert connect(config).namespace == "default"


def test_the_file_is_found_as_kubectl_finds_it(monkeypatch, server, config, tmp_path):
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'none'}:{config}")
    assert connect().namespace == "ml"
    monkeypatch.delenv("KUBECONFIG")
    home = tmp_path / "home" / ".kube"
    home.mkdir(parents=True)
    config.rename(home / "config")
    assert connect().namespace == "ml"


def test_files_are_put_together(monkeypatch, server, config, tmp_path):
    more = tmp_path / "more"
    held = json.loads(config.read_text())
    held["contexts"][0] = {"name": "there", "context": held["contexts"][0]["context"] | {"namespace": "other"}}
    del held["current-context"]
    more.write_text(json.dumps(held))
    monkeypatch.setenv("KUBECONFIG", f"{config}:{more}")
    assert connect(context="there").namespace == "other"


def test_the_options_that_lead_back_are_kept(config, tmp_path):
    assert connect(config, "here").options == f"--kubeconfig {config} --context here"
    spaced = tmp_path / "my config"
    spaced.write_text(config.read_text())
    assert connect(spaced).options == f"--kubeconfig '{spaced}'"


def test_the_users_file_is_never_written(server, cluster, config, told, meanwhile):
    before = config.read_text()
    meanwhile(lambda: work(server, "hello"))
    assert run(job(), cluster, OPTIONS, told).ok
    assert config.read_text() == before


def wrong(config, **changes):
    """Replace top-level keys of the kubeconfig; None removes a key."""
    held = json.loads(config.read_text()) | changes
    config.write_text(json.dumps({key: value for key, value in held.items() if value is not None}))


SECURE = {"name": "loop", "cluster": {"server": "https://127.0.0.1:1"}}


@pytest.mark.parametrize(
    ("changes", "context", "words"),
    [
        ({}, "nope", "the kubeconfig has no context 'nope'; give one of: here"),
        ({"current-context": None}, None, "the kubeconfig names no current context; choose with --context one of: here"),
        ({"current-context": "gone"}, None, "the kubeconfig names no current context; choose with --context one of: here"),
        ({"contexts": []}, None, "choose with --context one of: (there are none)"),
        ({"clusters": []}, None, "context here cannot be used: a part of it is missing or invalid"),
        ({"clusters": [{"name": "loop"}]}, None, "context here cannot be used: a part of it is missing"),
        (
            {"clusters": [{"name": "loop", "cluster": {"server": "https://x", "certificate-authority": "/no/ca.crt"}}]},
            None,
            "context here cannot be used: File does not exist: /no/ca.crt; check its cluster and user there",
        ),
        ({"users": [{"name": "me", "user": {"tokenFile": "/no/token"}}]}, None, "cannot be used: /no/token: No such file"),
        (
            {"users": [{"name": "me", "user": {"client-key-data": TOKEN}}], "clusters": [SECURE]},
            None,
            "context here cannot be used: a part of it is missing or invalid",
        ),
        ({"users": [{"name": "me", "user": {"exec": {"args": [TOKEN]}}}]}, None, "the credential plugin `` of user me failed"),
        ({"users": [{"name": "me", "user": {"token": TOKEN}}] * 2}, "here", None),
        ({"contexts": [{"name": "here", "token": TOKEN}]}, None, "context here cannot be used: "),
    ],
)
def test_a_kubeconfig_that_leads_nowhere_is_told_in_a_line(config, changes, context, words):
    wrong(config, **changes)
    if words is None:
        assert connect(config, context).namespace == "ml", "the first of two of a name counts, as with kubectl"
        return
    with pytest.raises(InputError) as caught:
        connect(config, context)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert TOKEN not in "".join(traceback.format_exception(caught.value)), "the client's errors hold entries of the file"


@pytest.mark.parametrize("text", ["", "just text", "[1, 2]", f"users:\n- token: {TOKEN}\n  {{", "a: b", "\x00"])
def test_what_is_no_kubeconfig_is_told_so(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        connect(path)
    assert len(str(caught.value).splitlines()) == 1
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"--kubeconfig: .*nope is not a file; name another"):
        connect(tmp_path / "nope")
    with pytest.raises(InputError, match=r"there is no kubeconfig: neither ~/\.kube/config nor a file in KUBECONFIG"):
        connect()


def plugin(config, program):
    """Let the user's token come from a program."""
    path = config.parent / "plugin.py"
    path.write_text(program)
    spec = {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(path)]}
    wrong(config, users=[{"name": "me", "user": {"exec": spec | {"interactiveMode": "Never"}}}])


def test_a_token_comes_from_a_credential_plugin(server, config, told, meanwhile):
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": "from-plugin"}}
    plugin(config, f"print({json.dumps(json.dumps(answer))})")
    connect(config).create(JOBS, job())
    assert server.requests[0].headers["authorization"] == "Bearer from-plugin"


def test_a_credential_plugin_that_fails_is_told(server, config, capfd):
    plugin(config, f"import sys; sys.stderr.write('{TOKEN} expired'); sys.exit(1)")
    with pytest.raises(InputError, match=r"the credential plugin `.*` of user me failed; run it by hand, or log in again"):
        connect(config)
    assert TOKEN not in "".join(capfd.readouterr()), "the client would go on without credentials, and log what it said"


# -- within a pod --------------------------------------------------------------------------------------------------------


def test_a_pod_uses_its_service_account(monkeypatch, tmp_path):
    account = tmp_path / "account"
    account.mkdir()
    for name, text in (("token", TOKEN), ("namespace", "team\n"), ("ca.crt", "certificate")):
        (account / name).write_text(text)
    monkeypatch.setattr(module, "ACCOUNT", account)
    incluster = sys.modules["kubernetes.config.incluster_config"]
    monkeypatch.setattr(incluster, "SERVICE_TOKEN_FILENAME", str(account / "token"))
    monkeypatch.setattr(incluster, "SERVICE_CERT_FILENAME", str(account / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = connect()
    assert found.namespace == "team"
    assert found.api.configuration.host == "https://10.0.0.1:443"
    (account / "token").unlink()
    with pytest.raises(InputError, match="there is no kubeconfig, and the pod's service account"):
        connect()


def test_a_kubeconfig_goes_before_the_pods_account(monkeypatch, config):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert connect(config).namespace == "ml"
