"""Writes the Grafana dashboard of cdc-relay, files/dashboard.json of the chart.

    pip install "grafana-foundation-sdk==1769699379!11.6.0"
    python3 dashboard.py > ../helm/cdc-relay/files/dashboard.json
"""

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    LegendDisplayMode,
    LegendPlacement,
    TooltipDisplayMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DataSourceRef,
    Threshold,
    ThresholdsMode,
    VariableRefresh,
)

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
# What every query is joined with, so that it has the label database.
JOIN = '* on (job, instance) group_left (database) cdc_relay_info{database=~"$database"}'


def each(metric):
    """A gauge of each relay, with its database."""
    return f"{metric} {JOIN}"


def leaders(metric):
    """A gauge of the leaders only."""
    return f"({metric} and on (job, instance) (cdc_relay_leader == 1)) {JOIN}"


def rate(metric, *labels):
    """The rate of a counter, summed by database and labels."""
    by = ", ".join(("database",) + labels)
    return f"sum by ({by}) (rate({metric}[$__rate_interval]) {JOIN})"


def quantile(q, metric):
    """A quantile of a histogram by database."""
    return f"histogram_quantile({q}, sum by (database, le) (rate({metric}_bucket[$__rate_interval]) {JOIN}))"


def query(expr, legend):
    return prometheus.Dataquery().expr(expr).legend_format(legend)


def thresholds(*steps):
    return (
        dashboard.ThresholdsConfig()
        .mode(ThresholdsMode.ABSOLUTE)
        .steps([Threshold(value=value, color=color) for value, color in steps])
    )


def number(title, text, unit, expr, *steps):
    """A number for each database, with colors."""
    return (
        stat.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .unit(unit)
        .color_mode(BigValueColorMode.BACKGROUND)
        .thresholds(thresholds(*steps))
        .with_target(query(expr, "{{database}}").instant())
        .height(4)
        .span(6)
    )


def graph(title, text, unit, *queries):
    panel = (
        timeseries.Panel()
        .title(title)
        .description(text)
        .datasource(SOURCE)
        .unit(unit)
        .min(0)
        .show_points(VisibilityMode.NEVER)
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
        .legend(
            common.VizLegendOptions()
            .display_mode(LegendDisplayMode.LIST)
            .placement(LegendPlacement.BOTTOM)
            .show_legend(True)
        )
        .height(8)
        .span(12)
    )
    for expr, legend in queries:
        panel = panel.with_target(query(expr, legend))
    return panel


GREEN, ORANGE, RED = "green", "orange", "red"

ROWS = {
    "Now": [
        number("Leader", "1 while a relay of the database leads", "none",
               f"max by (database) ({each('cdc_relay_leader')})", (None, RED), (1, GREEN)),
        number("Lag", "Age of the oldest event that is not in Kafka", "s",
               f"max by (database) ({leaders('cdc_relay_source_lag_seconds')})", (None, GREEN), (10, ORANGE), (60, RED)),
        number("Dead letters", "Events that cannot be published, and those that wait behind them", "none",
               f"max by (database) ({each('cdc_relay_dead_letters')})", (None, GREEN), (1, ORANGE)),
        number("Position saved", "Time since the last save", "s",
               f"min by (database) (time() - ({leaders('cdc_relay_last_checkpoint_timestamp_seconds > 0')}))",
               (None, GREEN), (60, ORANGE), (120, RED)),
    ],
    "Flow": [
        graph("Events", "Rows received from the WAL or binlog, and records that Kafka has acknowledged", "ops",
              (rate("cdc_relay_events_received_total"), "{{database}} received"),
              (rate("cdc_relay_events_published_total"), "{{database}} published")),
        graph("Lag", "Age of the oldest event that is not in Kafka", "s",
              (leaders("cdc_relay_source_lag_seconds"), "{{database}}")),
        graph("Commit to acknowledgement", "From the commit of the oldest event of a batch to Kafka's acknowledgement", "s",
              (quantile(0.5, "cdc_relay_commit_to_ack_seconds"), "{{database}} p50"),
              (quantile(0.99, "cdc_relay_commit_to_ack_seconds"), "{{database}} p99")),
        graph("Produce", "From the sending of a batch to Kafka's acknowledgement", "s",
              (quantile(0.5, "cdc_relay_produce_seconds"), "{{database}} p50"),
              (quantile(0.99, "cdc_relay_produce_seconds"), "{{database}} p99")),
        graph("Topics", "Records that Kafka has acknowledged, by topic", "ops",
              (rate("cdc_relay_events_published_total", "topic"), "{{database}} {{topic}}")),
        graph("In flight", "Events that were read and whose position is not saved", "none",
              (each("cdc_relay_inflight_events"), "{{database}} {{instance}}")),
    ],
    "Faults": [
        graph("Errors", "Rejected or failed sends by reason, failed saves, attempts that were repeated", "ops",
              (rate("cdc_relay_publish_errors_total", "reason"), "{{database}} send: {{reason}}"),
              (rate("cdc_relay_checkpoint_errors_total"), "{{database}} save"),
              (rate("cdc_relay_reconnects_total", "component"), "{{database}} again: {{component}}")),
        graph("Dead letters", "Events that are not resolved, and the age of the oldest", "none",
              (each("cdc_relay_dead_letters"), "{{database}}"),
              (each("cdc_relay_oldest_dead_letter_age_seconds"), "{{database}} age in s")),
    ],
    "Database": [
        graph("WAL for the slot", "PostgreSQL: what is kept, and what may still be written before the slot is lost (-1: no limit)", "bytes",
              (each("cdc_relay_slot_retained_bytes"), "{{database}} kept"),
              (each("cdc_relay_slot_safe_bytes"), "{{database}} left")),
        graph("WAL not received", "PostgreSQL: written by the server and not received yet", "bytes",
              (each("cdc_relay_source_lag_bytes"), "{{database}}")),
        graph("Binlog", "MySQL and MariaDB: how long the server keeps its binlogs, and how far behind the relay is", "s",
              (each("cdc_relay_binlog_expire_seconds"), "{{database}} kept"),
              (leaders("cdc_relay_source_lag_seconds"), "{{database}} behind")),
        graph("Partitions", "Days ahead that have a partition, and rows in the default partition", "none",
              (each("cdc_relay_partitions_ahead_days"), "{{database}} {{table}} days ahead"),
              (each("cdc_relay_default_partition_rows"), "{{database}} {{table}} default partition")),
    ],
    "Process": [
        graph("CPU", "Of each relay, in cores", "none",
              (f"rate(process_cpu_seconds_total[$__rate_interval]) {JOIN}", "{{database}} {{instance}}")),
        graph("Memory", "Resident memory of each relay", "bytes",
              (each("process_resident_memory_bytes"), "{{database}} {{instance}}")),
    ],
}


def build():
    board = (
        dashboard.Dashboard("cdc-relay")
        .uid("cdc-relay")
        .tags(["cdc-relay", "outbox"])
        .refresh("10s")
        .time("now-1h", "now")
        .readonly()
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(
            dashboard.QueryVariable("database")
            .label("Database")
            .datasource(SOURCE)
            .query("label_values(cdc_relay_info, database)")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .multi(True)
            .include_all(True)
        )
    )
    for title, panels in ROWS.items():
        board = board.with_row(dashboard.Row(title))
        for panel in panels:
            board = board.with_panel(panel)
    return board.build()


if __name__ == "__main__":
    print(JSONEncoder(sort_keys=True, indent=2).encode(build()))
