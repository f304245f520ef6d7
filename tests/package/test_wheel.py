"""What the wheel gives to Python programs: components that run and check in their process, beside folders of any name."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from gpu_ci.components import eks, kubernetes, oci
from package.provider import packaged
from tests import warm
from tests.builders import ROOT
from tests.package.wheel import unpacked
from tests.workflows.load import script

PROGRAM = ROOT / "examples" / "components" / "gpu_node_group"
COPY = "gpu_ci._library"
LOADS = """
import json, sys
import gpu_ci.components.kubernetes
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
PYTEST = """
import sys, pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "test_program.py"]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    return unpacked(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A program with folders of its own that are called as ours are."""
    folder = tmp_path / "program"
    shutil.copytree(PROGRAM, folder)
    for name in ("components", "fleet", "policies"):
        (folder / f"{name}.py").write_text("raise AssertionError('a file of the program')\n")
    return folder


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    return script(ROOT / ".ci" / "wheel.py", "ci_wheel")


def said_by_pytest(site: Path, folder: Path) -> str:
    """What pytest says of the test of a program."""
    _, stdout, stderr = warm.run(PYTEST, folder=folder, path=site)
    return stdout + stderr


def test_the_unit_test_of_a_program_runs_against_the_wheel(site, project):
    said = said_by_pytest(site, project)
    assert "3 passed" in said, said


def test_a_wrong_argument_in_the_program_fails_its_unit_test(site, project):
    program = project / "__main__.py"
    program.write_text(program.read_text().replace('"g6.2xlarge"', '"g6.2xlarg"'))
    said = said_by_pytest(site, project)
    assert "unknown machine 'g6.2xlarg'; did you mean g6.2xlarge" in said
    assert "1 failed, 2 passed" in said


def test_components_for_any_cluster_load_no_sdk_of_a_cloud_and_no_folder_of_the_program(site, project):
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-c", LOADS]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(json.loads(done.stdout))
    assert {"pulumi", "pulumi_kubernetes", "gpu_ci"} <= loaded
    assert loaded & {"pulumi_aws", "pulumi_eks", "pulumi_oci", "components", "fleet", "policies", "rich", "typer"} == set()


def test_every_packaged_component_is_in_the_module_of_its_cloud():
    exported = {name for module in (kubernetes, eks, oci) for name in module.__all__}
    names = {kind.__name__ for kind in packaged()}
    assert exported == names | {f"{name}Args" for name in names}


def test_no_module_of_the_copy_imports_a_folder_by_a_name_that_a_program_may_have(site):
    copies = [*(site / "gpu_ci" / "_library").rglob("*.py"), *(site / "gpu_ci" / "components").glob("*.py")]
    assert len(copies) > 200
    for copy in copies:
        for node in ast.walk(ast.parse(copy.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert [name for name in names if str(name).partition(".")[0] in ("components", "fleet", "policies")] == [], copy
    assert (site / "gpu_ci" / "py.typed").is_file(), "type checkers read the types"


def test_only_imports_are_changed(hook):
    text = 'from fleet.facts import day\n\n\ndef f():\n    from components import git\n\n    return "from fleet.x", fleets\n'
    assert hook.moved(text, Path("x.py")) == text.replace("from fleet.facts", f"from {COPY}.fleet.facts").replace(
        "from components", f"from {COPY}.components"
    )
    assert hook.moved("from .fleet import x\nimport fleets\n", Path("x.py")) == "from .fleet import x\nimport fleets\n"
    with pytest.raises(ValueError, match=r"x\.py:2: write `from"):
        hook.moved("import os\nimport fleet.facts as facts\n", Path("x.py"))
