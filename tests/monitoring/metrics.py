"""Metrics of the exporters that a cluster may have, with source and date: the rows of `fleet/facts/data/metrics.csv`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.facts.tables import entry, rows

_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric of an exporter.

    `labels` are those that the exporter sets, separated by spaces. `default` says whether the exporter has the metric without
    settings: `yes`, `no`, or `image` if only the image's own list has it.
    """

    exporter: str
    metric: str
    type: str
    labels: str
    default: str
    note: str

    @property
    def series(self) -> Iterator[str]:
        """The names of its series: a histogram has one with each of three suffixes."""
        for suffix in _SUFFIXES.get(self.type, ("",)):
            yield self.metric + suffix


METRICS = {row["metric"]: entry(Metric, row) for row in rows("metrics.csv")}
"""Every metric by name."""

SERIES = {name: metric for metric in METRICS.values() for name in metric.series}
"""Every metric by the names that queries use."""
