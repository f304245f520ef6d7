"""`docs/storage.md` has every key of caches and jobs, settings that are a fleet, and prints what its code prints."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
from typing import Any, get_args

import pytest
from ruamel.yaml import YAML

from fleet.facts.errors import FleetError
from fleet.facts.quantities import memory_text
from fleet.loading.config import load
from fleet.providers.eks.caches import EksCache
from fleet.providers.oke.caches import OkeCache
from fleet.settings.jobs import StackJob
from tests.builders import cluster, config, oke_cluster, pool
from tests.docs.markdown import ROOT, fences

PAGE = ROOT / "docs" / "storage.md"
FENCES = [fence for fence in fences() if fence.page == PAGE]
TEXT = PAGE.read_text()


def yaml(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def table(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    rows = re.search(rf"^## {heading}\n.*?^\|(?P<rows>.*?)\n\n", TEXT, re.MULTILINE | re.DOTALL)
    assert rows is not None, heading
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows["rows"].splitlines()[2:]]


def named(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def keys(*models: type[Any]) -> set[str]:
    return {field.alias for model in models for field in model.model_fields.values() if field.alias}


def test_a_disk_and_a_pool_in_one_zone_get_no_remark() -> None:
    held = yaml([fence.text for fence in FENCES if fence.language == "yaml"][1])
    caches = {"work": {"storage": "ebs", "size": "100Gi", "namespaces": ["research"]}}
    pools = {name: pool(**settings) for name, settings in held["pools"].items()}
    found = load(config(clusters={"usw2": cluster(runners={}, caches=caches, pools=pools)})).clusters["usw2"]
    assert not [remark for remark in found.remarks if remark.startswith("pool a10g: empty")]


def test_the_table_has_every_key_of_a_cache() -> None:
    assert set().union(*(named(row[0]) for row in table("Keys"))) == keys(EksCache, OkeCache)


def test_the_table_has_every_storage() -> None:
    head = re.search(r"^## Storages\n\n\|(.*)\|\n", TEXT, re.MULTILINE)
    assert head is not None
    storages = {each for model in (EksCache, OkeCache) for each in get_args(model.model_fields["storage"].annotation)}
    assert named(head[1]) == storages


def test_a_job_s_keys_are_all_told() -> None:
    (told,) = re.findall(r"^`jobs` takes .*?\n\n", TEXT, re.MULTILINE | re.DOTALL)
    assert named(told) - {"create_gpu_job", "jobs"} == keys(StackJob)


@pytest.mark.parametrize(("column", "storage"), [(1, "ebs"), (3, "block")])
def test_the_sizes_that_a_disk_may_have_are_told(column: int, storage: str) -> None:
    (sizes,) = [row for row in table("Storages") if row[0] == "`size`"]
    least, most = (int(each) for each in re.findall(r"(\d+)Gi", sizes[column]))
    make = {"ebs": cluster, "block": oke_cluster}[storage]

    def fits(gib: int) -> bool:
        with contextlib.suppress(FleetError):
            cache = {"storage": storage, "size": memory_text(gib * 1024), "namespaces": ["ml"]}
            load(config(clusters={"one": make(caches={"work": cache})}))
            return True
        return False

    assert [fits(gib) for gib in (least, most, most + 1)] == [True, True, False]
    assert least == 1 or not fits(least - 1)


def test_what_the_page_prints_is_what_its_code_prints() -> None:
    ((code, printed),) = [pair for pair in itertools.pairwise(FENCES) if pair[0].language == "python"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code.text, code.place, "exec"), {})  # noqa: S102 - the page's own code
    assert out.getvalue().rstrip("\n") == printed.text.rstrip("\n"), f"{printed.place}: print it anew"
