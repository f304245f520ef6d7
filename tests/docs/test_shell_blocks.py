"""Every shell block runs with bash in a checkout. Commands of this repository really run; all other programs are answered here.

Of those each command, option and name is checked: kubectl against the objects of our stacks, pulumi against their outputs and
config, aws and oci against the models of the SDKs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import SUMMARY
from tests.docs.answers import PROGRAMS, Answers
from tests.docs.kubectl import HEREDOC, commands
from tests.docs.markdown import Fence, fences
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
    wrong = [line for line in errors.splitlines() if "bash: " in line or "make: ***" in line]
    assert not wrong, "bash knows every program, variable and file, and make every target"


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


def test_few_blocks_are_exempt_and_only_because_they_need_a_machine_or_an_account(
    record_property: Callable[[str, object], None],
) -> None:
    found = {block.place: exempt(block) for block in BLOCKS if exempt(block)}
    assert 0 < len(found) <= MAX_EXEMPT, found
    whole = [
        block for block in BLOCKS if not any([*commands(block.text, name)] for name in (*TOOLS, "aws", "oci") if name != "git")
    ]
    counts = f"{len(BLOCKS)} shell blocks: {len(whole)} run, {len(BLOCKS) - len(whole) - len(found)} checked, {len(found)} exempt"
    record_property(SUMMARY, f"{counts}: {', '.join(found)}")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("kubectl -n runners-gpu-t4 get pods --lable app", "option --lable of get"),
        ("kubectl -n runners-gpu-t4 list pods", "command list pods"),
        ("kubectl get rabbits", "kind rabbits"),
        ("kubectl get nodes -o custom-columns=A:.status.node.osImage", "field node in"),
        ("kubectl get pods -A -o custom-columns='A:.spec.containers.name'", "field containers in"),
        ("NS=absent; kubectl -n $NS get pods", "namespace absent"),
        ("kubectl get nodes -l", "-l without its value"),
        ("pulumi stack output cluster -s staging --json", "output cluster"),
        ("pulumi stack output clusters -s staging | jq -r .usw3", "key usw3"),
        ("pulumi -C deployments stack output pools -s main", "output pools"),
        ("pulumi up -s nobody", "stack nobody"),
        ("aws eks list-nodegroups", "clusterName"),
        ("oci compute image list", "without --compartment-id"),
        ("helm upgrade --install a b --values homelab/none.yaml", "no file homelab/none.yaml"),
        ("make plan STACK=nobody", "nobody"),
        ("make smoke STACK=staging POOL=t9", "t9"),
        ("gpu-ci plan staging --agre", "--agre"),
        ("gpu-ci doctor staging --nothing", "doctor"),
        ("gpu-ci image push staging --cuda 1", "exit status"),
        ("cosign verify a --certificate-identity x/.github/workflows/a.yml@refs/heads/main", "no file .github/workflows/a.yml"),
    ],
)
def test_a_call_that_does_not_work_is_found(text: str, fault: str, tmp_path: Path) -> None:
    answers = Answers(checkout(tmp_path, PROGRAMS))
    run(text, tmp_path / "checkout", {}, answers)
    assert len(answers.faults) == 1
    assert fault in answers.faults[0]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("kubeclt get pods", "command not found"),
        ('echo "$NODE"', "unbound variable"),
        ("cat < key.pem", "No such file"),
        ("if x", "syntax"),
        ("make nothing", "No rule to make target"),
    ],
)
def test_what_bash_does_not_know_is_found(text: str, error: str, tmp_path: Path) -> None:
    folder = checkout(tmp_path, PROGRAMS)
    assert re.search(rf"(bash|Makefile:\d+): .*{error}", run(text, folder, {}, Answers(folder)))
