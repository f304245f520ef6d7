"""Grafana's JSON of a dashboard, made by Grafana's own SDK.

The SDK takes most of a second to import, so only a stack with monitoring may import this module.
"""

import json
from typing import Any

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as options, dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from fleet.render.monitoring.dashboards.boards import EVERY, Board, Panel, Variable

_SOURCE = options.DataSourceRef(type_val="prometheus", uid="${datasource}")
_WIDTH, _HEIGHT = 24, 8
"""Columns of Grafana's grid, and rows of each panel."""
_Builder = timeseries.Panel | stat.Panel | table.Panel


def dashboard_json(board: Board, cluster_name: str) -> dict[str, Any]:
    """A dashboard as plain data, in the classic format that Grafana of every version reads (schema version 42)."""
    builder = dashboard.Dashboard(f"GPU CI, {board.title}: {cluster_name}").uid(board.uid).tags(["gpu-ci", cluster_name])
    builder.refresh("1m").time("now-6h", "now")
    builder.with_variable(dashboard.DatasourceVariable("datasource").label("data source").type("prometheus"))
    for variable in board.variables:
        builder.with_variable(_variable(variable))
    x = y = 0
    # A fleet without pools or runner classes leaves some panels without a query.
    for number, panel in enumerate((shown_panel for shown_panel in board.panels if shown_panel.queries), 1):
        if x + panel.span > _WIDTH:
            x, y = 0, y + _HEIGHT
        builder.with_panel(_panel(panel).id(number).grid_pos(models.GridPos(h=_HEIGHT, w=panel.span, x=x, y=y)))
        x += panel.span
    data: dict[str, Any] = json.loads(json.dumps(builder.build(), cls=JSONEncoder))
    return data


def _variable(variable: Variable) -> dashboard.QueryVariable | dashboard.CustomVariable:
    builder: dashboard.QueryVariable | dashboard.CustomVariable
    if variable.values is None:
        builder = dashboard.QueryVariable(variable.name).datasource(_SOURCE).query(variable.query)
        builder.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    else:
        # Grafana separates values by commas, and text from value by a colon.
        values = ",".join(f"{text} : {value}".replace(",", "\\,") for text, value in variable.values.items())
        builder = dashboard.CustomVariable(variable.name).values(values)
        if not variable.several:
            text, value = next(iter(variable.values.items()))
            return builder.current(models.VariableOption(selected=True, text=text, value=value))
    builder.multi(True).include_all(True).all_value(EVERY)
    return builder.current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))


def _panel(panel: Panel) -> _Builder:
    builder: _Builder
    match panel.kind:
        case "number":
            builder = stat.Panel().reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        case "table":
            builder = _columns(table.Panel(), panel)
        case _:
            builder = _chart(timeseries.Panel(), panel)
    builder.title(panel.title).description(panel.text).unit(panel.unit).datasource(_SOURCE)
    limit = [models.Threshold(value=panel.limit, color="red")] if panel.limit is not None else []
    steps = [models.Threshold(color="green"), *limit]
    builder.thresholds(dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    for number, (legend, expression) in enumerate(panel.queries.items(), 1):
        target = prometheus.Dataquery().expr(expression).legend_format(legend).ref_id(f"Q{number}").datasource(_SOURCE)
        if panel.kind == "table":
            target.format(PromQueryFormat.TABLE)
        builder.with_target(target.instant() if panel.kind in ("number", "table") else target.range())
    return builder


def _chart(builder: timeseries.Panel, panel: Panel) -> timeseries.Panel:
    legend = common.VizLegendOptions().display_mode(options.LegendDisplayMode.TABLE).placement(options.LegendPlacement.BOTTOM)
    builder.legend(legend.show_legend(True).calcs(["mean", "max", "lastNotNull"]))
    builder.tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING))
    if panel.kind == "stack":
        builder.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL)).fill_opacity(30)
    if panel.limit is not None:
        builder.thresholds_style(common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.LINE))
    return builder


def _columns(builder: table.Panel, panel: Panel) -> table.Panel:
    """One row for each set of labels, with the value of each query as a column."""
    several = len(panel.queries) > 1
    names = {f"Value #Q{number}" if several else "Value": legend for number, legend in enumerate(panel.queries, 1)}
    hidden = ["Time", *(name for name, legend in names.items() if not legend)]
    organize = {"excludeByName": dict.fromkeys(hidden, True), "renameByName": names}
    builder.with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
    return builder.with_transformation(models.DataTransformerConfig(id_val="organize", options=organize))
