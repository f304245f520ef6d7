"""All charts of this package, found by two names that a module may define.

`NAMESPACE` is a namespace that holds only what the module makes. `plain_chart` returns the chart for a cluster, if every cluster
gets the chart and it needs only the cluster's settings.
"""

import importlib
import pkgutil
from collections.abc import Callable

from fleet import charts
from fleet.charts.chart import Chart
from fleet.settings.cluster import Cluster

_NAMES = (f"{charts.__name__}.{found.name}" for found in pkgutil.iter_modules(charts.__path__))
_MODULES = tuple(importlib.import_module(name) for name in _NAMES if name != __name__)
NAMESPACES = frozenset(module.NAMESPACE for module in _MODULES if hasattr(module, "NAMESPACE"))
"""Namespaces that no team may use."""
PLAIN: tuple[Callable[[Cluster], Chart], ...] = tuple(module.plain_chart for module in _MODULES if hasattr(module, "plain_chart"))
"""Charts for every cluster, unless its provider has an add-on in their place (`Cluster.provided`)."""
