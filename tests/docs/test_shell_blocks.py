"""Every shell block runs with bash in a checkout. Commands of this repository really run; all other programs are answered here.

Of those each command, option and name is checked: kubectl against the objects of our stacks, pulumi against their outputs and
config, aws and oci against the models of the SDKs.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.answers import PROGRAMS, Answers
from tests.docs.kubectl import HEREDOC, commands
from tests.docs.markdown import ROOT, Fence, fences
from tests.docs.shell import checkout, run
from tests.docs.tools import TOOLS

BLOCKS = [fence for fence in fences() if fence.language in ("bash", "sh")]
MAX_EXEMPT = 15
OURS = frozenset(("CUDA_VERSION", "NVIDIA_REQUIRE_CUDA", "NVIDIA_VISIBLE_DEVICES", "PATH", "PWD"))
"""Variables that the shell or a container sets."""
BROUGHT = ("app.private-key.pem", "client_configuration_token.tok", "gridd.conf", "oci_api_key.pem", "secret.json")
"""Files that a reader has, by the names that pages give them."""


def page_without_blocks(page: Path) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def variables(text: str) -> set[str]:
    """Variables that a block reads and does not set before."""
    return {
        found[1]
        for found in re.finditer(r"\$\{?([A-Z_]+)", text)
        if found[1] not in OURS and not re.search(rf"\b{found[1]}=|for {found[1]} in", text[: found.start()])
    }


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    """Files that a reader has: credentials, a pod and a Job of their own."""
    (pod,) = [found[2] for fence in BLOCKS for found in HEREDOC.finditer(fence.text) if "kind: Pod" in found[2]]
    (job,) = [fence.text for fence in fences() if fence.place.startswith("docs/jobs.md") and "name: finetune-llama" in fence.text]
    return dict.fromkeys(BROUGHT, "") | {"pod.yaml": pod, "job.yaml": job}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_a_shell_block_runs(block: Fence, tmp_path: Path, files: dict[str, str]) -> None:
    folder = checkout(tmp_path, PROGRAMS)
    for name, text in files.items():
        (folder / name).write_text(text)
    answers = Answers(folder)
    read = {name: f"readers-{name.lower().replace('_', '-')}-0123456789" for name in variables(block.text)}
    errors = run(block.text, folder, read | {"NVIDIA_VISIBLE_DEVICES": "void"}, answers)
    assert answers.faults == []
    assert "command not found" not in errors
    assert "unbound variable" not in errors
    assert answers.called or exempt(block), "the block calls something that this test knows"


@pytest.mark.parametrize("block", [block for block in BLOCKS if variables(block.text)], ids=lambda block: block.place)
def test_the_page_says_what_each_variable_of_a_block_is(block: Fence) -> None:
    """In code in its text, or set in an earlier block."""
    before = "\n".join(other.text for other in BLOCKS if other.page == block.page and other.line < block.line)
    text = page_without_blocks(block.page)
    known = {name for name in variables(block.text) if re.search(rf"`\$?{name}\b", text) or f"{name}=" in before}
    assert variables(block.text) - known == set(), f"{block.place}: say in the text what they are"


def exempt(block: Fence) -> list[str]:
    """Why the test can only parse some calls of a block, or nothing."""
    return sorted({tool.only_parsed for name, tool in TOOLS.items() if tool.only_parsed and [*commands(block.text, name)]})


def test_few_blocks_are_exempt_and_only_because_they_need_a_machine_or_an_account() -> None:
    found = {block.place: exempt(block) for block in BLOCKS if exempt(block)}
    assert 0 < len(found) <= MAX_EXEMPT, found
    assert {place.partition(":")[0] for place in found} <= {
        page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").glob("*.md")
    }
