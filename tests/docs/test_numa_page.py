"""docs/numa.md says what the model and the table of machines say."""

from __future__ import annotations

import re

from fleet.facts import hardware
from fleet.facts.tables import rows
from fleet.prove.topology import Aligned, empty, layout
from tests.builders import ROOT

PAGE = (ROOT / "docs" / "numa.md").read_text(encoding="utf-8")


def test_the_table_of_p4d_is_what_the_model_says() -> None:
    nodes = empty(hardware.machine("p4d.24xlarge"), 8)
    assert nodes is not None
    found = re.findall(r"^\| (\d+), (\d+) \| (yes|no) \| (yes|no) \| (yes|no) \|$", PAGE, re.MULTILINE)
    assert len(found) == 6
    for gpus, cpus, *says in found:
        pod = Aligned(int(gpus), int(cpus))
        answers = (nodes.admits(pod, policy) for policy in ("best-effort", "restricted", "single-numa-node"))
        assert says == ["yes" if each else "no" for each in answers], (gpus, cpus)


def test_the_page_names_every_machine_with_known_numa_nodes() -> None:
    (line,) = re.findall(r"has them with their sources: (.*)\.$", PAGE, re.MULTILINE)
    known = [row["machine"] for row in rows("numa.csv") if layout(hardware.machine(row["machine"]))]
    assert sorted(line.split(", ")) == sorted(known)
