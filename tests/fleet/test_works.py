"""Parts that cannot work on a day: the entries that each remark is about, and that an update is refused."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from fleet.facts.remark import CANNOT_WORK
from fleet.loading.config import load
from fleet.prove.placement import PlacementError
from fleet.prove.works import REFUSED, remarks, require
from fleet.providers.fleet import Fleet
from tests.builders import cluster, config, existing_eks, pool, runner
from tests.cases import cases
from tests.fleet.workloads.world import workload

BLOCK = {"id": "cr-01234567", "zone": "us-west-2a", "count": 2, "startDate": "2027-03-06", "endDate": "2027-03-20"}
BEFORE, DURING, AFTER = date(2027, 3, 5), date(2027, 3, 6), date(2027, 3, 21)
MONITORED = {"monitoring": {"prometheus": "existing"}}


def block(least: int = 0, **more: Any) -> Fleet:
    """A fleet whose class uses a capacity block, and other pools if there are more of them."""
    held = pool(instanceTypes=["p5en.48xlarge"], capacity="capacity-block", reservation=BLOCK, nodes={"min": least, "max": 2})
    used = runner(pools=["block", *more])
    return load(config(clusters={"usw2": cluster(pools={"block": held, **more}, runners={"gpu-h200": used})}))


def own(**settings: Any) -> Fleet:
    return load(config(clusters={"usw2": cluster(**settings)}))


SPARE: dict[str, Any] = {"spare": pool(instanceTypes=["p5en.48xlarge"])}
CASES: dict[str, tuple[Fleet, date, list[tuple[str, ...]]]] = {
    "before the start": (block(), BEFORE, [("usw2/gpu-h200", "usw2/block")]),
    "nodes.min before the start": (block(1), BEFORE, [("usw2/block",), ("usw2/gpu-h200", "usw2/block")]),
    "during": (block(1), DURING, []),
    "over": (block(), AFTER, [("usw2/block",), ("usw2/gpu-h200", "usw2/block")]),
    "over beside a pool with capacity": (block(**SPARE), AFTER, [("usw2/block",)]),
    "not begun beside a pool with capacity": (block(**SPARE), BEFORE, []),
    "no operator at the first update": (own(**MONITORED), DURING, [("usw2",)]),
    "an operator is installed": (own(monitoring=MONITORED["monitoring"] | {"operatorInstalled": True}), DURING, []),
    "the stack installs the operator": (own(monitoring={"prometheus": "install"}), DURING, []),
    "the cluster exists": (load(config(clusters={"usw2": existing_eks(**MONITORED)})), DURING, []),
    "a ServiceMonitor of the GPU operator": (
        own(enablement="gpu-operator", operator={"serviceMonitor": True}),
        DURING,
        [("usw2",)],
    ),
    "a workload takes the whole pool": (
        own(pools={"t4": pool(nodes={"max": 1})}, workloads={"llm": workload("ollama")}),
        DURING,
        [("usw2/gpu-t4", "usw2/t4")],
    ),
}


@cases(("fleet", "day", "parts"), CASES.values())
def test_what_cannot_work_names_its_parts_and_refuses_an_update(fleet: Fleet, day: date, parts: list[tuple[str, ...]]) -> None:
    found = [remark for remark in remarks(fleet, day) if remark.kind == CANNOT_WORK]
    assert [remark.parts for remark in found] == parts
    if not parts:
        require(fleet, day)
        return
    with pytest.raises(PlacementError) as refused:
        require(fleet, day)
    *lines, hint = str(refused.value).splitlines()
    assert lines == [f"{REFUSED}: {remark}" for remark in found]
    assert hint.startswith("GPU_CI_AS_OF=")
