"""The repository's own settings: whom they deploy, when, and that they name what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from fleet.loading.deployments import NAMESPACE, PROJECT
from tests.builders import ROOT
from tests.deployments.builders import FOLDER, checked_in, declared, inputs, ours
from tests.test_arrows import below, imported, modules

PACK = ROOT / "policies"


def test_each_stack_has_its_file():
    assert set(ours().stacks) == {"staging", "prod"}
    assert [name for name in ours().stacks if not (ROOT / f"Pulumi.{name}.yaml").is_file()] == []


def test_the_program_declares_each_of_them():
    found = inputs(declared(checked_in()))
    assert {name for kind, name in found if kind == "DeploymentSettings"} == set(ours().stacks)
    assert found["DeploymentSettings", "staging"]["organization"] == ours().organization


def test_staging_deploys_on_push_and_prod_never():
    assert ours().stacks["staging"].deploy_on_push
    assert not ours().stacks["prod"].deploy_on_push
    assert ours().stacks["prod"].approval is not None


def test_the_projects_are_those_of_the_project_files():
    names = {folder: YAML(typ="safe").load((folder / "Pulumi.yaml").read_text())["name"] for folder in (ROOT, FOLDER)}
    assert names == {ROOT: PROJECT, FOLDER: NAMESPACE}


def test_the_pack_is_the_one_of_this_repository():
    pack = ours().policy_pack
    assert pack is not None
    assert f'PolicyPack("{pack.name}"' in (PACK / "__main__.py").read_text()
    version = YAML(typ="safe").load((PACK / "PulumiPolicy.yaml").read_text())["version"]
    assert pack.version == version, "publish the pack (docs/deployments.md), then write its version into the settings"


def test_the_program_asks_for_no_sdk_that_the_fleets_does_not_but_one():
    def names(path: Path) -> dict[str, str]:
        return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text(), re.MULTILINE))

    mine, fleets = names(FOLDER / "requirements.txt"), names(ROOT / "requirements.txt")
    assert set(mine) - set(fleets) == {"pulumi-pulumiservice"}
    assert {name: version for name, version in mine.items() if name in fleets} == {
        name: fleets[name] for name in mine if name in fleets
    }
    assert "pulumi-pulumiservice" not in fleets, "deploying the fleet needs it not"


def test_what_is_installed_beside_credentials_has_hashes_and_comes_from_no_index_of_its_own():
    locks = [ROOT / "requirements.txt", FOLDER / "requirements.txt", FOLDER / "oci-cli.txt", PACK / "requirements.txt"]
    for lock in (*locks, *(ROOT / ".ci" / "requirements").glob("*.txt")):
        pins = re.split(r"\n(?=\S)", re.sub(r"^ *#.*\n", "", lock.read_text(), flags=re.MULTILINE).strip())
        assert pins
        for pin in pins:
            assert re.match(r"[a-z0-9-]+==[\w.]+ (; [^\\]+ )?\\\n +--hash=sha256:[0-9a-f]{64}", pin), f"{lock}: {pin[:80]}"
        assert not re.search(r"^\s*-(i|f|-\w*(index|links))", lock.read_text(), re.MULTILINE)
    installs = [command for stack in ours().stacks.values() for command in stack.pre_run_commands if " install " in command]
    assert [command for command in installs if "--require-hashes -r deployments/oci-cli.txt" not in command] == []
    assert installs, "Oracle's CLI"


def test_the_packs_environment_is_that_of_the_program():
    mine, fleets = (set(re.findall(r"^\S+==\S+", (path / "requirements.txt").read_text(), re.MULTILINE)) for path in (PACK, ROOT))
    assert mine <= fleets, "make lock"
    assert {pin.partition("==")[0] for pin in mine} >= {"pulumi", "pulumi-policy", "grpcio", "protobuf"}


# -- path filters --------------------------------------------------------------------------------------------------------


def matches(pattern: str, path: str) -> bool:
    """Whether a glob matches a whole path: ** any depth, * within a folder (pulumi.com, path filtering)."""
    parts = re.split(r"(\*\*/?|\*)", pattern)
    form = "".join({"**": ".*", "**/": "(.*/)?", "*": "[^/]*"}.get(part, re.escape(part)) for part in parts)
    return re.fullmatch(form, path) is not None


def triggers(path: str) -> bool:
    """Whether a push that changes this file deploys staging; what is excluded stays so."""
    filters = ours().stacks["staging"].paths
    included = [pattern for pattern in filters if not pattern.startswith("!")]
    excluded = [pattern[1:] for pattern in filters if pattern.startswith("!")]
    return any(matches(pattern, path) for pattern in included) and not any(matches(pattern, path) for pattern in excluded)


def program_files() -> list[str]:
    """Every module that the fleet's program may load, and the data beside it."""
    found: set[str] = set()
    # Clouds are imported by name, at run time.
    waiting = ["__main__", *below("components")]
    while waiting:
        module = waiting.pop()
        if module in modules() and module not in found:
            found.add(module)
            waiting += [*imported(module), *([module.rpartition(".")[0]] if "." in module else [])]
    data = [path for path in (ROOT / "fleet").rglob("*") if path.suffix in (".csv", ".toml", ".sh", ".json", ".yaml")]
    return sorted(str(path.relative_to(ROOT)) for path in (*(modules()[name] for name in found), *data))


def test_whatever_the_program_is_made_of_deploys_staging():
    files = [*program_files(), "Pulumi.yaml", "Pulumi.staging.yaml", "requirements.txt"]
    assert len(files) > 60, "the program's modules were found"
    assert [path for path in files if not triggers(path)] == []


@pytest.mark.parametrize(
    "path",
    [
        "README.md",
        "docs/deployments.md",
        "tests/test_arrows.py",
        "Pulumi.prod.yaml",
        "policies/rules/pools.py",
        "deployments/Pulumi.main.yaml",
        ".ci/requirements/dev.txt",
        "fleet/facts/data/README.md",
        "gpu_ci/offline/plan.py",
    ],
)
def test_what_changes_no_resource_of_staging_deploys_nothing(path):
    assert not triggers(path)


def test_every_filter_matches_something():
    files = [
        str(path.relative_to(ROOT))
        for path in (*ROOT.glob("*.*"), *(ROOT / "fleet").rglob("*.*"), *(ROOT / "components").rglob("*.*"))
    ]
    for pattern in ours().stacks["staging"].paths:
        assert any(matches(pattern.removeprefix("!"), path) for path in files), pattern


@pytest.mark.parametrize(
    ("pattern", "path", "found"),
    [
        ("fleet/**", "fleet/a.py", True),
        ("fleet/**", "fleet/a/b/c.py", True),
        ("fleet/**", "fleets/a.py", False),
        ("*.yaml", "a/b.yaml", False),
        ("**/b.py", "b.py", True),
        ("a.py", "b/a.py", False),
    ],
)
def test_a_filter_matches_whole_paths(pattern, path, found):
    assert matches(pattern, path) is found
