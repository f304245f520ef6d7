"""Grafana's JSON of a dashboard, made by Grafana's own SDK.

The SDK takes most of a second to import, so only a stack with monitoring may import this module.
"""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from fleet.render.monitoring.dashboards.panels import EVERY, Board, Panel, Variable

_SOURCE = options.DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT = 24, 8
"""Columns of Grafana's grid, and rows of each panel."""
_Builder = timeseries.Panel | stat.Panel | table.Panel


def dashboard_json(board: Board, cluster_name: str) -> dict[str, Any]:
    """A dashboard as plain data, in the classic format that Grafana of every version reads (schema version 42)."""
    made = dashboard.Dashboard(f"GPU CI, {board.title}: {cluster_name}").uid(board.uid).tags(["gpu-ci", cluster_name])
    made.refresh("1m").time("now-6h", "now")
    made.with_variable(dashboard.DatasourceVariable("datasource").label("data source").type("prometheus"))
    for variable in board.variables:
        made.with_variable(_variable(variable))
    x = y = 0
    # A fleet without pools or runner classes leaves some panels without a query.
    for number, panel in enumerate((each for each in board.panels if each.queries), 1):
        if x + panel.span > _WIDTH:
            x, y = 0, y + _HEIGHT
        made.with_panel(_panel(panel).id(number).grid_pos(models.GridPos(h=_HEIGHT, w=panel.span, x=x, y=y)))
        x += panel.span
    data: dict[str, Any] = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    return data


def _variable(variable: Variable) -> dashboard.QueryVariable | dashboard.CustomVariable:
    made: dashboard.QueryVariable | dashboard.CustomVariable
    if variable.values is None:
        made = dashboard.QueryVariable(variable.name).datasource(_SOURCE).query(variable.query)
        made.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    else:
        # Grafana separates values by commas, and text from value by a colon.
        values = ",".join(f"{text} : {value}".replace(",", "\\,") for text, value in variable.values.items())
        made = dashboard.CustomVariable(variable.name).values(values)
        if not variable.several:
            text, value = next(iter(variable.values.items()))
            return made.current(models.VariableOption(selected=True, text=text, value=value))
    made.multi(True).include_all(True).all_value(EVERY)
    return made.current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))


def _panel(panel: Panel) -> _Builder:
    made: _Builder
    match panel.kind:
        case "number":
            made = stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        case "table":
            made = _columns(table.Panel(), panel)
        case _:
            made = _chart(timeseries.Panel(), panel)
    made.title(panel.title).description(panel.text).unit(panel.unit).datasource(_SOURCE)
    limit = [models.Threshold(value=panel.limit, color="red")] if panel.limit is not None else []
    steps = [models.Threshold(color="green"), *limit]
    made.thresholds(dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    for number, (legend, expression) in enumerate(panel.queries.items(), 1):
        target = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(f"Q{number}").datasource(_SOURCE)
        if panel.kind == "table":
            target.format(PromQueryFormat.TABLE)
        made.with_target(target.instant() if panel.kind in ("number", "table") else target.range())
    return made


def _chart(made: timeseries.Panel, panel: Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(options.LegendDisplayMode.TABLE).placement(options.LegendPlacement.BOTTOM)
    made.legend(legend.show_legend(True).calcs(["mean", "max", "lastNotNull"]))
    made.tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING))
    if panel.kind == "stack":
        made.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL)).fill_opacity(30)
    if panel.limit is not None:
        made.thresholds_style(common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.LINE))
    return made


def _columns(made: table.Panel, panel: Panel) -> table.Panel:
    """One row for each set of labels, with the value of each query as a column."""
    several = len(panel.queries) > 1
    names = {f"Value #Q{number}" if several else "Value": legend for number, legend in enumerate(panel.queries, 1)}
    hidden = ["Time", *(name for name, legend in names.items() if not legend)]
    organize = {"excludeByName": dict.fromkeys(hidden, True), "renameByName": names}
    made.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    return made.with_transformation(models.DataTransformerConfig(id_val="organize", options=organize))
