"""Small input stays small: aliases are counted, not expanded. A file or folder beyond a limit gives one error line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fleet.facts.errors import FleetError, InputError
from fleet.facts.limits import MOST_BYTES, read_bytes
from fleet.facts.places import Below
from fleet.facts.yaml_text import read_yaml
from fleet.loading.config import check_keys, load as load_fleet, read_fleet
from fleet.loading.documents import documents
from fleet.loading.project import Project
from fleet.loading.stackfile import load
from fleet.settings.runner import MAX_LABELS
from gpu_ci import cli
from gpu_ci.offline.folders import walk
from gpu_ci.offline.gitops import encrypted_secret
from gpu_ci.offline.manifests.tree import read_tree
from gpu_ci.offline.policyconfig import policy_configs, policy_settings
from gpu_ci.submit.errors import SubmitError
from gpu_ci.submit.sending import read_job
from tests.builders import cluster, config, runner

OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
LARGE = "# " + "x" * MOST_BYTES + "\n"


def written(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def containers(below: Below, known: set[int]) -> int:
    """How many mappings and lists of places there are in memory, each counted once."""
    if id(below) in known:
        return 0
    known.add(id(below))
    inner = below.values() if isinstance(below, dict) else below
    return 1 + sum(containers(place[1], known) for place in inner if not isinstance(place, int))


# -- YAML --------------------------------------------------------------------------------------------------------------


def test_nested_anchors_copy_nothing(tmp_path: Path) -> None:
    """89 kB took 1.8 GB: each anchor copied the positions of all that it names."""
    depth, items = 92, 40_000
    text = "config:\n" + "".join(f"{'  ' * (level + 1)}k: &a{level}\n" for level in range(depth))
    text += "  " * (depth + 1) + "v: [" + "1," * items + "1]\n"
    assert 85_000 < len(text) < 95_000
    lines = read_yaml(written(tmp_path / "a.yaml", text)).lines
    assert containers(lines.below(), set()) == depth + 3, "one for each mapping and list of the file"
    assert lines[("config", *("k",) * depth, "v", items)] == depth + 2
    assert len(lines) == depth + items + 4


def test_an_alias_shares_what_it_names(tmp_path: Path) -> None:
    many = ", ".join(map(str, range(1000)))
    document = read_yaml(written(tmp_path / "a.yaml", f"a: &x\n  b: [{many}]\n" + "".join(f"c{n}: *x\n" for n in range(90))))
    assert isinstance(document.value, dict)
    assert {id(value) for value in document.value.values()} == {id(document.value["a"])}
    assert {id(document.lines.below(key)) for key in document.value} == {id(document.lines.below("a"))}
    assert document.lines["c7", "b", 999] == 2
    assert document.lines["c7",] == 10


def test_a_merge_that_is_overridden_takes_time_by_its_keys(tmp_path: Path) -> None:
    """Each key once searched all positions: 20,000 keys would take longer than the suite's timeout."""
    count = 20_000
    text = "base: &b\n" + "".join(f"  k{n}: {{x: 1}}\n" for n in range(count))
    text += "own:\n  <<: *b\n" + "".join(f"  k{n}: {{y: 2}}\n" for n in range(1, count))
    document = read_yaml(written(tmp_path / "a.yaml", text))
    assert isinstance(document.value, dict)
    assert document.value["own"] == {"k0": {"x": 1}} | {f"k{n}": {"y": 2} for n in range(1, count)}
    assert document.lines["own", "k0", "x"] == 2
    assert document.lines["own", f"k{count - 1}", "y"] == 2 * count + 2
    assert ("own", "k1", "x") not in document.lines


LAUGHS = "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
MERGES = f"a: &a {{{', '.join(f'k{n}: 1' for n in range(1000))}}}\nmany:\n" + "".join(
    f"  n{n}: {{<<: *a}}\n" for n in range(1000)
)
BOMBS = {
    "aliases of aliases": (LAUGHS, ":5: aliases add at most 100,000 values; got *a3; write out what the aliases stand for"),
    "many merges": (MERGES, ":102: aliases add at most 100,000 values; got *a; write out what the aliases stand for"),
    "an alias in its own anchor": ("a: &a [*a]\n", ":1: an alias must not be inside its own anchor; got *a; write it out"),
    "nesting": (f"a: {'[' * 5000}{']' * 5000}\n", ":1: values nest at most 100 levels deep; got level 101; flatten them"),
    "nesting by aliases": (
        "a0: &a0 x\n" + "".join(f"a{n}: &a{n} {'[' * 50}*a{n - 1}{']' * 50}\n" for n in range(1, 9)),
        ":3: values nest at most 100 levels deep; got level 101; flatten them",
    ),
}


@pytest.mark.parametrize(("text", "told"), BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize(
    "read",
    [
        read_yaml,
        documents,
        read_job,
        lambda path: read_fleet("dev", path),
        Project.read,
        lambda path: load("dev", written(path.parent / "p" / "Pulumi.yaml", "name: a\n").parent, stack_file=path),
    ],
    ids=["YAML", "manifests", "a Job", "a stack for a Job", "a project", "a stack"],
)
def test_every_reader_refuses_yaml_that_stands_for_more(
    tmp_path: Path, text: str, told: str, read: Callable[[Path], object]
) -> None:
    with pytest.raises((InputError, SubmitError)) as error:
        read(written(tmp_path / "a.yaml", text))
    assert str(error.value).endswith(f"a.yaml{told}")


def test_the_levels_and_aliases_that_are_allowed_are_read(tmp_path: Path) -> None:
    text = f"a: {'[' * 99}{']' * 99}\nb: &b [{', '.join(['1'] * 9_998)}]\n" + "".join(f"c{n}: *b\n" for n in range(10))
    assert len(read_yaml(written(tmp_path / "a.yaml", text)).lines) > 100_000


@pytest.mark.parametrize(
    "text", ['{"apiVersion": "v1", "a": ' + "[" * 99 + "]" * 99 + "}", OBJECT + f"a: {'[' * 99}{']' * 99}\n"]
)
def test_a_deep_manifest_keeps_no_path_for_each_value(tmp_path: Path, text: str) -> None:
    (document,) = documents(written(tmp_path / ("a.json" if text.startswith("{") else "a.yaml"), text.replace("[]", "[1, 2]", 1)))
    assert document.lines[("a", *(0,) * 98, 1)] == text.count("\n") or 1
    assert containers(document.lines.below(), set()) <= 102


# -- files -------------------------------------------------------------------------------------------------------------

READERS: dict[str, Callable[[Path], object]] = {
    "a stack file": lambda folder: load("dev", written(folder / "Pulumi.yaml", "name: a\n").parent, stack_file=large(folder)),
    "a project file": lambda folder: Project.read(large(folder)),
    "a policy config": lambda folder: policy_settings("dev", large(folder, "policies/config/dev.json").parents[2]),
    "the policies of stacks": lambda folder: policy_configs(large(folder, "policies/stacks.toml").parents[1]),
    "a manifest": lambda folder: read_tree("dev", str(large(folder).parent)),
    "a manifest in JSON": lambda folder: read_tree("dev", str(large(folder, "a.json").parent)),
    "an encrypted Secret": lambda folder: encrypted_secret(large(folder), "a.yaml"),
    "a stack for a Job": lambda folder: read_fleet("dev", large(folder)),
    "a Job": lambda folder: read_job(large(folder)),
}


def large(folder: Path, name: str = "a.yaml") -> Path:
    return written(folder / name, LARGE)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_file_above_5_mb_is_one_error_line(tmp_path: Path, read: Callable[[Path], object]) -> None:
    with pytest.raises((InputError, SubmitError)) as error:
        read(tmp_path)
    assert len(str(error.value).splitlines()) == 1
    assert "cannot be read" in str(error.value)


def test_a_large_file_is_status_2(tmp_path: Path) -> None:
    for arguments in (["plan", "staging", "--file", str(large(tmp_path))], ["check", "staging", str(large(tmp_path))]):
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 2
        (line,) = (line for line in result.stderr.splitlines() if line.startswith("error: "))
        assert "it has more than 5,000,000 bytes" in line


def test_the_base_of_a_pull_request_may_be_too_large(tmp_path: Path) -> None:
    large(tmp_path, "Pulumi.staging.yaml")
    result = CliRunner().invoke(cli.app, ["plan", "staging", "--base", str(tmp_path), "--markdown"])
    assert result.exit_code == 0
    assert "Pulumi.staging.yaml cannot be read (it has more than 5,000,000 bytes)" in result.stdout


def test_a_file_of_the_limit_is_read(tmp_path: Path) -> None:
    assert read_bytes(written(tmp_path / "a", "1234"), 4) == b"1234"
    with pytest.raises(OSError, match="it has more than 4 bytes"):
        read_bytes(written(tmp_path / "a", "12345"), 4)


def test_no_read_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"):
        read_bytes(tmp_path / "pipe")


# -- folders -----------------------------------------------------------------------------------------------------------


def deep(folder: Path, levels: int) -> Path:
    for _ in range(levels):
        folder /= "d"
    return written(folder / "a.yaml", OBJECT)


def test_a_deep_folder_is_one_error_line_of_status_2(tmp_path: Path) -> None:
    deep(tmp_path, 150)
    result = CliRunner().invoke(cli.app, ["check", "staging", str(tmp_path)])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        f"error: {tmp_path} has folders more than 100 levels deep; name a folder further down, or remove the deep ones"
    )


def test_a_hundred_folders_are_read(tmp_path: Path) -> None:
    deep(tmp_path, 100)
    assert read_tree("dev", str(tmp_path)).files == 1


def test_folders_are_walked_in_order_and_links_to_them_are_not_followed(tmp_path: Path) -> None:
    for name in ("b/two.yaml", "b/a/one.yaml", "a/three.yaml", "z.yaml"):
        written(tmp_path / name, OBJECT)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "a" / "loop.yaml").symlink_to("loop.yaml")
    walked = [(folder.relative_to(tmp_path).as_posix(), folders, files) for folder, folders, files in walk(tmp_path)]
    assert walked == [
        (".", ["a", "b", "link"], ["z.yaml"]),
        ("a", [], ["loop.yaml", "three.yaml"]),
        ("b", ["a"], ["two.yaml"]),
        ("b/a", [], ["one.yaml"]),
    ]


@pytest.mark.parametrize("target", ["/proc/kmsg", "/proc/self/environ", "/etc/passwd", "../outside.yaml"])
def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path, target: str) -> None:
    written(tmp_path / "outside.yaml", OBJECT)
    folder = written(tmp_path / "in" / "a.yaml", OBJECT).parent
    (folder / "b.yaml").symlink_to(target)
    result = CliRunner().invoke(cli.app, ["check", "staging", str(folder)])
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        f"error: {folder}/b.yaml: a link to {target}, which is outside of {folder}; links out of the folder are not followed; "
        "copy the file, or remove the link"
    )


def test_a_link_to_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = written(tmp_path / "in" / "a.yaml", OBJECT).parent
    (folder / "b.yaml").symlink_to("c")
    (folder / "c").symlink_to("/etc/passwd")
    with pytest.raises(InputError, match=r"b\.yaml: a link to c, which is outside of"):
        read_tree("dev", str(folder))


def test_a_link_within_the_folder_is_read_also_through_a_link_to_it(tmp_path: Path) -> None:
    folder = written(tmp_path / "in" / "a" / "a.yaml", OBJECT).parents[1]
    (folder / "b.yaml").symlink_to("a/a.yaml")
    (tmp_path / "way").symlink_to(folder, target_is_directory=True)
    assert read_tree("dev", str(folder)).files == 2
    assert read_tree("dev", str(tmp_path / "way")).files == 2


# -- settings ----------------------------------------------------------------------------------------------------------


def refused(**changes: Any) -> tuple[str, ...]:
    with pytest.raises(FleetError) as error:
        load_fleet(config(**changes))
    return tuple(map(str, error.value.problems))


def labelled(*labels: str) -> dict[str, Any]:
    return {"clusters": {"usw2": cluster(runners={"gpu-t4": runner(labels=list(labels))})}}


def test_labels_are_as_many_as_github_takes() -> None:
    """100,000 labels took longer than anybody waits: each was compared with every other."""
    (problem,) = refused(**labelled(*(f"l{n}" for n in range(100_000))))
    assert problem.startswith("gpu-ci:clusters.usw2.runners.gpu-t4.labels: at most 100 entries are possible; remove some")
    fleet = load_fleet(config(**labelled(*(f"l{n}" for n in range(MAX_LABELS)))))
    assert len(fleet.clusters["usw2"].runners["gpu-t4"].labels) == MAX_LABELS


def test_of_very_many_problems_the_first_are_told_and_the_rest_counted() -> None:
    problems = refused(**{f"key{n}": 1 for n in range(10_000)})
    assert len(problems) == 101
    assert problems[-1] == "gpu-ci: 9900 more problems; fix these first"
    with pytest.raises(FleetError) as error:
        check_keys({f"key{n}": None for n in range(10_000)}, ())
    assert [str(problem) for problem in error.value.problems[99:]] == [
        f"gpu-ci:key99: {error.value.problems[0].message}",
        "gpu-ci: 9900 more problems; fix these first",
    ]


def test_many_runners_of_a_kind_that_the_provider_has_not_are_read_in_one_pass() -> None:
    """Each problem was once compared with every runner of such a kind."""
    runners = {f"r{n}": {"kind": "vm", "shapes": [], "x": 1} for n in range(5_000)}
    problems = refused(clusters={"usw2": cluster(runners=runners)})
    assert len(problems) == 101
    assert all("runners of kind vm are machines on OCI" in problem for problem in problems[:100])


def test_many_keys_of_a_policy_config_are_read_in_one_pass(tmp_path: Path) -> None:
    """Each key once counted all lines above it."""
    held = {f"policy-{n}": "mandatory" for n in range(100_000)}
    path = written(tmp_path / "policies" / "config" / "dev.json", json.dumps(held, indent=2))
    assert policy_settings("dev", tmp_path) == held
    path.write_text(json.dumps(held, indent=2)[:-2] + ',\n  "policy-7": "advisory"\n}')
    with pytest.raises(InputError, match=r"dev\.json:1: .* got key 'policy-7' 2 times in one object, where it may appear once"):
        policy_settings("dev", tmp_path)
