"""The page on spot and fallback: its settings are those of the example, its numbers those of the program."""

from __future__ import annotations

from typing import Any

from fleet.charts import cluster_autoscaler as chart
from fleet.loading.config import load
from fleet.providers.eks.provider import eks_moves, eks_priorities
from fleet.providers.oke import fallback as oke
from tests.builders import read_stack
from tests.docs.markdown import ROOT, fences
from tests.yaml12 import read

PAGE = ROOT / "docs" / "fallback.md"
EXAMPLE = ROOT / "examples" / "Pulumi.two-regions.yaml"


def blocks(language: str) -> list[str]:
    return [fence.text for fence in fences() if fence.page == PAGE and fence.language == language]


def test_the_settings_of_the_page_are_those_of_the_example() -> None:
    clusters: dict[str, Any] = read(EXAMPLE.read_text())["config"]["gpu-ci:clusters"]
    ordered, same, _workflow = map(read, blocks("yaml"))
    assert ordered == {key: clusters["usw2"][key] for key in ("pools", "runners")}
    assert same == clusters["use1"]["runners"]


def test_the_numbers_of_the_page_are_those_of_the_example() -> None:
    (shown,) = blocks("text")
    assert shown == eks_priorities("usw2", load(read_stack(EXAMPLE)).clusters["usw2"])


def test_the_times_of_the_page_are_those_of_the_program() -> None:
    text = " ".join(PAGE.read_text().split())
    waits = (chart.BACKOFF_MINUTES, chart.BACKOFF_MINUTES * 2, chart.BACKOFF_MINUTES * 4)
    again = f"starts with {waits[0]} again after {chart.FORGOTTEN_HOURS} hours without a failure"
    assert f"after {', '.join(map(str, waits))} and then every {chart.MOST_BACKOFF_MINUTES} minutes, and {again}" in text
    assert f"gives it up after {chart.PROVISION_MINUTES} minutes (OKE: {oke.PROVISION_MINUTES})" in text
    usw2 = load(read_stack(EXAMPLE)).clusters["usw2"]
    told = eks_moves("usw2", usw2, usw2.runners["gpu-t4-west"].ordered)
    assert "3 to 6 min after that request |" in text
    quoted = "while EC2 refuses machines, the autoscaler reaches the last pool in 3 to 6 minutes"
    assert quoted in text
    assert quoted in told
