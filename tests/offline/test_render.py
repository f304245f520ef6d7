"""Rendered files: one an object, valid, without secrets, and never over somebody else's work."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

import gpu_ci.offline.plan
from fleet.facts.errors import InputError
from fleet.loading.home import ROOT
from fleet.providers.oke.vm_runner import MachineRunner
from gpu_ci.cli import app
from gpu_ci.offline import outfolder, render as rendering
from gpu_ci.offline.plan import Plan, make_plan
from gpu_ci.offline.recording import Resource
from gpu_ci.offline.wire import UNKNOWN, Secret
from policies.rules.kinds import RELEASE
from tests.offline.rendered import plan_of, rendered_once


def render(out: Path):
    return CliRunner().invoke(app, ["render", "staging", "--out", str(out)])


@pytest.fixture(scope="module", autouse=True)
def once() -> Iterator[None]:
    with rendered_once():
        yield


@pytest.fixture(scope="module")
def plan():
    return plan_of("staging")


def refused(plan, out: Path) -> str:
    """The one line that says why `out` is not written."""
    with pytest.raises(InputError) as caught:
        rendering.render(plan, out)
    message = str(caught.value)
    assert message.startswith("OUT: "), message
    assert "\n" not in message
    return message


def tree(out: Path) -> dict[str, bytes]:
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    out = tmp_path_factory.mktemp("render") / "deep" / "out"
    result = render(out)
    assert result.exit_code == 0, result.output
    return out, result


def test_one_file_an_object(rendered):
    out, result = rendered
    files = [path for path in tree(out) if path.endswith(".yaml")]
    charts = [path for path in files if Path(path).parent.name == "values"]
    assert len(files) - len(charts) == 32, (
        "five namespaces, a priority class, the order of pools, two sets with a secret and three walls each, two sweeps with "
        "a network policy and a role beside the controller"
    )
    assert len(charts) == sum(resource.type == RELEASE for resource in make_plan("staging", ROOT).resources)
    assert sorted(result.stdout.split()) == sorted(str(out / path) for path in files)


def test_manifests_are_valid_kubernetes_objects(rendered):
    out, _ = rendered
    manifests = list(out.glob("*/manifests/*.yaml"))
    assert len(manifests) == 32
    for path in manifests:
        kubernetes_validate.validate(yaml.safe_load(path.read_text()), "1.34", strict=True)


def test_no_secret_value_is_written(rendered):
    out, _ = rendered
    secrets = list(out.glob("*/manifests/*-secret-*.yaml"))
    assert len(secrets) == 2
    for path in secrets:
        text = path.read_text()
        assert "stringData:" not in text
        assert text.splitlines()[0] == (
            "# left out, `pulumi up` sets it (secret or set beside a secret): stringData.github_app_id, "
            "stringData.github_app_installation_id, stringData.github_app_private_key"
        ), "a reader learns what is missing"
        assert "[secret]" not in text


def test_values_say_whose_they_are(rendered):
    out, _ = rendered
    text = next(out.glob("*/values/runners-gpu-t4-gpu-t4.yaml")).read_text()
    assert text.startswith("# values of chart oci://ghcr.io/actions/actions-runner-controller-charts/gha-runner-scale-set 0.14.2")
    assert yaml.safe_load(text)["maxRunners"] == 10


def test_the_same_settings_give_the_same_bytes(rendered, tmp_path):
    out, _ = rendered
    rendering.render(make_plan("staging", ROOT), tmp_path / "again")
    assert tree(tmp_path / "again") == tree(out)


def test_a_rendered_folder_is_replaced_whole(rendered, tmp_path):
    out, _ = rendered
    again = tmp_path / "out"
    assert render(again).exit_code == 0
    (again / "gpu-ci-staging-usw2" / "stale.yaml").write_text("old")
    assert render(again).exit_code == 0
    assert tree(again) == tree(out), "what an older plan left is gone"


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    result = render(tmp_path)
    assert result.exit_code == 2
    assert "not rendered by gpu-ci" in result.stderr
    assert tree(tmp_path) == {"thesis.txt": b"years of work"}
    assert [path.name for path in tmp_path.parent.glob(".gpu-ci-*")] == []


# -- machines ------------------------------------------------------------------------------------------------------------

MACHINES = {"prod": None, "oci-machines": ROOT / "examples" / "Pulumi.oci-machines.yaml"}


def unjudged(stack: str) -> Plan:
    """A plan whose resources no policy judges."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_ci.offline.plan, "policy_settings", lambda *_: {"all": "disabled"})
        return make_plan(stack, ROOT, MACHINES[stack])


@pytest.fixture(scope="module", params=MACHINES)
def with_machines(request, tmp_path_factory):
    """The plan of a stack with machines that run jobs, and the folder that was rendered of it."""
    of_stack = unjudged(request.param)
    out = tmp_path_factory.mktemp("machines") / "out"
    return of_stack, out, rendering.render(of_stack, out)


def test_the_boot_script_of_each_machine_set_is_written_as_text_beside_its_clusters_objects(with_machines):
    of_stack, out, files = with_machines
    sets = [
        (cluster, name, runner) for cluster, name, runner in of_stack.fleet.runner_sets() if isinstance(runner, MachineRunner)
    ]
    booted = [(cluster, name) for cluster, name, runner in sets if getattr(runner, "launcher", "gpu-ci") == "gpu-ci"]
    assert (len(booted) < len(sets)) is (of_stack.config.stack == "oci-machines"), "CNCF's launcher boots images of its owner's"
    found = sorted(out.glob("*/machines/*/user-data.yaml"))
    stack = of_stack.config.stack
    assert found == sorted(out / f"gpu-ci-{stack}-{cluster}" / "machines" / name / "user-data.yaml" for cluster, name in booted)
    assert found, "else choose other stacks for this test"
    assert set(found) <= set(files), "they are among the files that the command names"
    for path in found:
        text = path.read_text(encoding="ascii")
        assert text.startswith("#cloud-config\n")
        assert {file["path"] for file in yaml.safe_load(text)["write_files"]} >= {"/usr/local/sbin/gpu-ci-bootstrap"}
        assert (path.parents[2] / "values" / f"runners-{path.parent.name}-{path.parent.name}.yaml").exists(), "the same cluster's"


def test_it_is_what_the_program_gives_standing_machines(with_machines):
    of_stack, out, _ = with_machines
    given = {
        resource.name.removesuffix("-machine"): resource.inputs["instanceDetails"]["launchDetails"]["metadata"]["user_data"]
        for resource in of_stack.resources
        if resource.type == "oci:Core/instanceConfiguration:InstanceConfiguration"
    }
    assert bool(given) is (of_stack.config.stack == "oci-machines")
    for name, user_data in given.items():
        ((cluster, found),) = [(each, one) for each, one, _ in of_stack.fleet.runner_sets() if f"{each}-{one}" == name]
        path = out / f"gpu-ci-{of_stack.config.stack}-{cluster}" / "machines" / found / "user-data.yaml"
        assert path.read_bytes() == base64.b64decode(user_data)


def test_boot_scripts_have_the_same_bytes_again(with_machines):
    of_stack, out, _ = with_machines
    again = {path: text.encode() for path, text in rendering._machines(unjudged(of_stack.config.stack))}
    assert again == {path: content for path, content in tree(out).items() if "/machines/" in path} != {}


def test_a_stack_without_machines_has_no_folder_for_them(rendered):
    out, _ = rendered
    assert list(out.glob("*/machines")) == []


# -- where to ------------------------------------------------------------------------------------------------------------


def test_a_link_to_a_folder_means_the_folder(plan, rendered, tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    for _ in range(2):
        files = rendering.render(plan, link)
        assert link.is_symlink(), "the link stays a link"
        assert tree(tmp_path / "real") == tree(rendered[0])
    assert files[0].is_relative_to(link), "files are named as OUT was"


def test_a_link_to_a_folder_of_somebody_else_is_left_alone(plan, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "thesis.txt").write_text("years of work")
    (tmp_path / "link").symlink_to("real")
    assert "not rendered by gpu-ci" in refused(plan, tmp_path / "link")
    assert tree(tmp_path / "real") == {"thesis.txt": b"years of work"}


def test_a_link_to_a_folder_that_is_not_there_yet_makes_it(plan, rendered, tmp_path):
    (tmp_path / "link").symlink_to("later")
    rendering.render(plan, tmp_path / "link")
    assert tree(tmp_path / "later") == tree(rendered[0])


def test_links_in_a_circle_lead_to_no_folder(plan, tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    refused(plan, tmp_path / "one")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


@pytest.mark.parametrize("out", [".", "", "..", "../here", "/"])
def test_the_current_folder_and_what_contains_it_are_refused(plan, tmp_path, monkeypatch, out):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    said = "is the current folder" if out in (".", "", "../here") else "contains the current folder"
    assert said in refused(plan, Path(out))
    assert list(here.iterdir()) == []


def test_the_current_folder_is_refused_though_it_was_rendered(plan, tmp_path, monkeypatch):
    rendering.render(plan, tmp_path / "out")
    before = tree(tmp_path / "out")
    monkeypatch.chdir(tmp_path / "out")
    assert "is the current folder" in refused(plan, Path())
    assert tree(tmp_path / "out") == before


@pytest.mark.parametrize(("out", "said"), [("gpu-ci", "is the project"), (".", "contains the project")])
def test_the_project_and_what_contains_it_are_refused(plan, tmp_path, monkeypatch, out, said):
    (tmp_path / "work" / "gpu-ci").mkdir(parents=True)
    monkeypatch.setattr(outfolder, "_ROOT", tmp_path / "work" / "gpu-ci")
    assert said in refused(plan, tmp_path / "work" / out)
    assert tree(tmp_path) == {}


def test_a_file_is_no_folder(plan, tmp_path):
    (tmp_path / "file").write_text("mine")
    assert "must be a folder" in refused(plan, tmp_path / "file")
    assert "Not a directory" in refused(plan, tmp_path / "file" / "deep" / "out")
    assert tree(tmp_path) == {"file": b"mine"}


def test_where_no_folder_can_be_made_is_one_line_and_status_2():
    result = render(Path("/proc/gpu-ci-render"))
    assert result.exit_code == 2, result.output
    assert "error: OUT: /proc/gpu-ci-render cannot be written (" in result.stderr
    assert "Traceback" not in result.output


# -- failures on the way -------------------------------------------------------------------------------------------------


def full(*_, **__):
    raise OSError(28, "No space left on device")


def failing_renames(monkeypatch, *numbers: int) -> None:
    """Let the renames of these numbers fail, counted from one."""
    made, rename = [], Path.rename

    def counted(self: Path, target: Path) -> Path:
        made.append(self)
        return full() if len(made) in numbers else rename(self, target)

    monkeypatch.setattr(Path, "rename", counted)


@pytest.fixture
def older(tmp_path):
    """A folder that an older plan rendered."""
    out = tmp_path / "out"
    out.mkdir()
    (out / rendering.MARK).write_text("stack staging\n")
    (out / "old.yaml").write_text("old")
    return out


def test_a_full_disk_leaves_the_folder_as_it_was(plan, older, monkeypatch):
    before = tree(older)
    monkeypatch.setattr(Path, "write_bytes", full)
    assert "(No space left on device)" in refused(plan, older)
    assert tree(older.parent) == {f"out/{path}": held for path, held in before.items()}, "nothing is left beside it either"


def test_parents_that_a_failure_made_are_gone_again(plan, tmp_path, monkeypatch):
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(Path, "write_bytes", full)
    refused(plan, tmp_path / "there" / "a" / "b" / "out")
    assert list((tmp_path / "there").iterdir()) == []


@pytest.mark.parametrize("number", [1, 2])
def test_the_old_folder_is_put_back_when_a_move_fails(plan, older, monkeypatch, number):
    before = tree(older)
    failing_renames(monkeypatch, number)
    refused(plan, older)
    assert tree(older) == before
    assert list(older.parent.iterdir()) == [older]


def test_the_old_folder_is_not_lost_when_it_cannot_be_put_back(plan, older, monkeypatch):
    before = tree(older)
    failing_renames(monkeypatch, 2, 3)
    _, _, place = refused(plan, older).partition("its old content is in ")
    assert tree(Path(place)) == before


# -- what is left out ----------------------------------------------------------------------------------------------------


def manifest(monkeypatch, **inputs: object) -> str:
    monkeypatch.setattr(Resource, "inputs", inputs)
    return rendering._manifest(object.__new__(Resource))


def test_what_hides_in_a_list_is_named_and_left_out(monkeypatch):
    entries = [{"name": "A", "value": Secret("hush")}, {"name": "B", "value": "b"}, Secret("hush"), UNKNOWN]
    text = manifest(monkeypatch, kind="ConfigMap", env=entries, at=UNKNOWN)
    secret, unknown, *rest = text.splitlines()
    assert secret.endswith(": env[0].value, env[2]")
    assert unknown.endswith("(known only then): at, env[3]")
    assert yaml.safe_load("\n".join(rest)) == {"kind": "ConfigMap", "env": [{"name": "A"}, {"name": "B", "value": "b"}]}


def test_only_keys_of_a_secrets_maps_are_named_and_values_never(monkeypatch):
    hidden = Secret({"token": "hush", "inner": {"deep": "hush"}})
    text = manifest(monkeypatch, kind="Secret", stringData=hidden, data=Secret("hush"), metadata=hidden)
    assert text.splitlines()[0].endswith(": data, metadata, stringData.inner, stringData.token")
    assert "hush" not in text
    assert "deep" not in text
    text = manifest(monkeypatch, kind="ConfigMap", data=hidden)
    assert text.splitlines()[0].endswith(": data"), "keys of another kind's map may be secret"


def test_secret_chart_values_are_named_and_left_out(monkeypatch):
    release = {"chart": "c", "version": "1", "name": "r"}
    monkeypatch.setattr(Resource, "inputs", {**release, "values": {"a": {"key": Secret("hush")}, "b": 1}}, raising=False)
    text = rendering._values(object.__new__(Resource))
    assert text.splitlines()[1].endswith(": values.a.key")
    assert yaml.safe_load(text) == {"a": {}, "b": 1}
    monkeypatch.setattr(Resource, "inputs", {**release, "values": Secret({"a": "hush"})})
    text = rendering._values(object.__new__(Resource))
    assert text.splitlines()[1].endswith(": values")
    assert yaml.safe_load(text) == {}
