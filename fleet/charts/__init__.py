"""Helm charts as plain data. Each module makes one chart by pure functions of the settings; `sweeps` has pods without chart.

A module may define two names, which this package finds by itself. `NAMESPACE` is a namespace that holds only what it makes.
`plain_chart` returns the chart for a cluster, if every cluster gets the chart and it needs only the cluster's settings.
"""

import importlib
import pkgutil
from collections.abc import Callable

from fleet.charts.chart import Chart
from fleet.settings.cluster import Cluster

_MODULES = tuple(importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__))
NAMESPACES = frozenset(module.NAMESPACE for module in _MODULES if hasattr(module, "NAMESPACE"))
"""Namespaces that no team may use."""
PLAIN: tuple[Callable[[Cluster], Chart], ...] = tuple(module.plain_chart for module in _MODULES if hasattr(module, "plain_chart"))
"""Charts for every cluster, unless its provider has an add-on in their place (`Cluster.provided`)."""
