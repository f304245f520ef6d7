"""`docs/jobs.md` shows the real output of its code, and its tables have every argument and every profile."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from typing import Any

import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from fleet.facts.quantities import cpu_text, memory_text
from fleet.jobs import JobOptions
from fleet.jobs.arguments import JobArguments
from fleet.jobs.profiles import PROFILES
from tests.docs.markdown import ROOT, Fence, fences
from tests.fleet.jobs.test_sizes import SMALLEST
from tests.fleet.test_isolation import MINORS

PAGE = ROOT / "docs" / "jobs.md"
FENCES = [fence for fence in fences() if fence.page == PAGE]
SHOWN = [pytest.param(code, printed, id=code.place) for code, printed in itertools.pairwise(FENCES) if code.language == "python"]
TEXT = PAGE.read_text()


@pytest.mark.parametrize(("code", "printed"), SHOWN)
def test_what_the_page_prints_is_what_its_code_prints(code: Fence, printed: Fence) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code.text, code.place, "exec"), {})  # noqa: S102 - the page's own code
    assert out.getvalue().rstrip("\n") == printed.text.rstrip("\n"), f"{printed.place}: print it anew"


def test_the_page_shows_two_jobs_and_one_that_is_refused() -> None:
    jobs = [YAML(typ="safe", pure=True).load(fence.text) for fence in FENCES if fence.language == "yaml"]
    gpus = [_container(job)["resources"]["limits"]["nvidia.com/gpu"] for job in jobs]
    assert gpus == ["1", "4"]
    assert any(fence.text.startswith("no pool can hold") for fence in FENCES if fence.language == "text")
    for job in jobs:
        for minor in MINORS:
            kubernetes_validate.validate(job, minor, strict=True)


def _container(job: dict[str, Any]) -> Any:
    return job["spec"]["template"]["spec"]["containers"][0]


def test_the_table_has_every_argument() -> None:
    _, _, table = TEXT.partition("## Arguments")
    cells = re.findall(r"^\| (`[^|]+) \|", table.partition("\n## ")[0], re.MULTILINE)
    told = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(told) == sorted({*JobArguments.model_fields, "fleet", "cluster", "pool"})


def test_the_typed_options_are_the_arguments_that_are_no_parameters() -> None:
    first = {"task_id", "image", "gpu_count", "gpu_type", "memory", "cpu", "command", "env"}
    assert JobOptions.__required_keys__ == frozenset()
    assert JobOptions.__optional_keys__ == set(JobArguments.model_fields) - first


def test_the_table_has_the_profiles() -> None:
    other = "| any other NVIDIA model of `fleet/facts/data/gpus.csv` | such as `rtx-4090` | "
    for name, profile in PROFILES.items():
        cpu, memory = profile.cpu, profile.memory
        head, last = (f"| {profile.gpu} | `{name}` | ", f"`{SMALLEST[name]}`") if name in SMALLEST else (other, "[your own]")
        amounts = f"{cpu_text(cpu.request)}, {cpu_text(cpu.limit)} | {memory_text(memory.request)}, {memory_text(memory.limit)}"
        assert f"{head}{amounts} | {last}" in TEXT
