"""Prints the Grafana dashboard of cdc-relay: files/dashboard.json of the chart, which `make dashboard` writes."""

import json

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
RUNBOOK = "https://github.com/cdc-relay/cdc-relay/blob/main/docs/alerts.md"
VARIABLES = {  # each is a label, chosen among what the ones before it leave
    "cluster": "",
    "namespace": 'cluster=~"$cluster"',
    "job": 'cluster=~"$cluster", namespace=~"$namespace"',
    "database": 'cluster=~"$cluster", namespace=~"$namespace", job=~"$job"',
}
CHOSEN = VARIABLES["database"] + ', database=~"$database"'
RELAY = "cluster, namespace, job, instance"  # the labels of one relay, as in the alert rules
GROUP = "cluster, namespace, job, database"
# What every query is joined with, so that it has the label database.
JOIN = f"* on ({RELAY}) group_left (database) cdc_relay_info{{{CHOSEN}}}"


def each(metric):
    """A gauge of each relay, with its database."""
    return f"{metric} {JOIN}"


def leaders(metric):
    """A gauge of the leaders only."""
    return f"({metric} and on ({RELAY}) (cdc_relay_leader == 1)) {JOIN}"


def total(metric, how="sum"):
    """A gauge of all relays of a database."""
    return f"{how} by ({GROUP}) ({each(metric)})"


def rate(metric, *labels):
    """The rate of a counter, summed by database and labels."""
    by = ", ".join((GROUP,) + labels)
    return f"sum by ({by}) (rate({metric}[$__rate_interval]) {JOIN})"


def quantile(q, metric):
    """A quantile of a histogram, of the native one or of classic buckets; only the leader of a database has observations."""
    native, classic = (f"histogram_quantile({q}, rate({name}[$__rate_interval]))" for name in (metric, metric + "_bucket"))
    return f"max by ({GROUP}) (({native} or on ({RELAY}) {classic}) {JOIN})"


def otherwise(metric, value):
    """A metric that is there at times, and a value for relays that lack it."""
    return f"({metric} or on ({RELAY}) {value} * cdc_relay_leader)"


def lasting(component=""):
    """Since how many seconds there is a problem; 0 without one."""
    return otherwise(f"(time() - cdc_relay_problem_since_timestamp_seconds{component})", 0)


def panel(kind, title, text, alerts, queries, defaults, options, width, height):
    """Queries have a legend, and their panel a link to what to do for each alert that uses them."""
    return {
        "type": kind, "title": title, "description": text, "datasource": SOURCE,
        "gridPos": {"w": width, "h": height},
        "links": [{"title": a, "type": "link", "targetBlank": True, "url": f"{RUNBOOK}#{a.lower()}"} for a in alerts],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": [{"refId": chr(65 + i), "expr": expr, "legendFormat": legend} for i, (expr, legend) in enumerate(queries)],
    }


def instant(made):
    for target in made["targets"]:
        target |= {"instant": True, "range": False}
    return made


def steps(colors):
    return {"mode": "absolute", "steps": [{"value": value, "color": color} for value, color in colors]}


def number(title, text, unit, alerts, expr, *colors):
    """A number for each database, with colors."""
    return instant(panel("stat", title, text, alerts, [(expr, "{{namespace}} {{database}}")], {"unit": unit, "thresholds": steps(colors)},
                         {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}, 6, 4))


def graph(title, text, unit, alerts, *queries):
    return panel("timeseries", title, text, alerts, [(expr, "{{namespace}} {{database}} " + legend) for expr, legend in queries],
                 {"unit": unit, "min": 0, "custom": {"showPoints": "never"}},
                 {"tooltip": {"mode": "multi", "sort": "desc"}, "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}},
                 12, 8)


def fleet(title, text, **columns):
    """One row for each relay; columns have a query, a unit and colors."""
    made = instant(panel("table", title, text, [], [(expr, "") for expr, _, _ in columns.values()], {"custom": {"align": "auto"}},
                         {"cellHeight": "sm", "sortBy": [{"displayName": "state"}]}, 24, 8))
    names = [name.replace("_", " ") for name in columns]
    for target, name, (_, unit, colors) in zip(made["targets"], names, columns.values()):
        target["format"] = "table"
        properties = [{"id": "unit", "value": unit}]
        if name == "state":
            shown = {"0": "does not publish", "1": "stands by", "2": "leads"}
            properties.append({"id": "mappings", "value": [{"type": "value", "options": {k: {"text": v} for k, v in shown.items()}}]})
        if colors:
            properties += [{"id": "thresholds", "value": steps(colors)}, {"id": "custom.cellOptions", "value": {"type": "color-background"}}]
        made["fieldConfig"]["overrides"].append({"matcher": {"id": "byName", "options": name}, "properties": properties})
    made["transformations"] = [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {
            "excludeByName": {"Time": True},
            "renameByName": {f"Value #{target['refId']}": name for target, name in zip(made["targets"], names)},
        }},
    ]
    return made


def relay(expr):
    """A column of the fleet: one value for each relay, with the same labels in every column."""
    return f"max by ({RELAY}, database) ({expr} {JOIN})"


GREEN, ORANGE, RED = "green", "orange", "red"
LAG = ((None, GREEN), (10, ORANGE), (60, RED))

ROWS = {
    "Now": [
        number("Leader", "1 while a relay of the database leads", "none", ["CdcRelayNoLeader"],
               total("cdc_relay_leader", "max"), (None, RED), (1, GREEN)),
        number("Lag", "Age of the oldest event that is not in Kafka", "s", ["CdcRelayLag"],
               f"max by ({GROUP}) ({leaders('cdc_relay_source_lag_seconds')})", *LAG),
        number("Dead letters", "Events that cannot be published, and those that wait behind them", "none", ["CdcRelayDeadLetters"],
               f"max by ({GROUP}) ({leaders('cdc_relay_dead_letters')})", (None, GREEN), (1, ORANGE)),
        number("Position not saved", "Time since saves of the position fail", "s", ["CdcRelayCheckpointStale"],
               total(lasting('{component="checkpoint"}'), "max"),
               (None, GREEN), (60, ORANGE), (120, RED)),
        fleet("Relays", "Each process, the ones that do not publish first",
              state=(relay("(2 * cdc_relay_leader + cdc_relay_standby)"), "none", ((None, RED), (1, "transparent"), (2, GREEN))),
              lag=(f"max by ({RELAY}, database) ({leaders('cdc_relay_source_lag_seconds')})", "s", LAG),
              events=(f"sum by ({RELAY}, database) (rate(cdc_relay_events_published_total[$__rate_interval]) {JOIN})", "ops", ()),
              in_flight=(relay("cdc_relay_inflight_events"), "none", ()),
              dead_letters=(f"max by ({RELAY}, database) ({leaders('cdc_relay_dead_letters')})", "none", ((None, "transparent"), (1, ORANGE))),
              runs_for=(relay("(time() - process_start_time_seconds)"), "s", ())),
        graph("Alerts", "Those that fire", "none", [],
              (f'count by ({GROUP}, alertname) (ALERTS{{alertname=~"CdcRelay.*", alertstate="firing", {CHOSEN}}})', "{{alertname}}")),
        graph("Problems", "Time since which Kafka, the database, the checkpoint or the marking of rows fails", "s",
              ["CdcRelayKafkaUnavailable", "CdcRelayDatabase", "CdcRelayCheckpointStale"], (each(lasting()), "{{component}}")),
        graph("Leader and standbys", "Relays of each database", "none", ["CdcRelayNoLeader", "CdcRelayNoStandby"],
              (total("cdc_relay_leader"), "lead"), (total("cdc_relay_standby"), "stand by")),
    ],
    "Flow": [
        graph("Events", "Rows received from the WAL or binlog, and records that Kafka has acknowledged", "ops", [],
              (rate("cdc_relay_events_received_total"), "received"),
              (rate("cdc_relay_events_published_total"), "published")),
        graph("Lag", "Age of the oldest event that is not in Kafka", "s", ["CdcRelayLag"],
              (leaders("cdc_relay_source_lag_seconds"), "")),
        graph("Commit to acknowledgement", "From the commit of the oldest event of a batch to Kafka's acknowledgement", "s", ["CdcRelayLag"],
              (quantile(0.5, "cdc_relay_commit_to_ack_seconds"), "p50"),
              (quantile(0.99, "cdc_relay_commit_to_ack_seconds"), "p99")),
        graph("Produce", "From the sending of a batch to Kafka's acknowledgement", "s", ["CdcRelayStalled"],
              (quantile(0.5, "cdc_relay_produce_seconds"), "p50"),
              (quantile(0.99, "cdc_relay_produce_seconds"), "p99")),
        graph("Topics", "Records that Kafka has acknowledged, by topic", "ops", [],
              (rate("cdc_relay_events_published_total", "topic"), "{{topic}}")),
        graph("In flight", "Events that were read and whose position is not saved", "none", ["CdcRelayCheckpointStale"],
              (each("cdc_relay_inflight_events"), "{{instance}}")),
    ],
    "Faults": [
        graph("Errors", "Rejected or failed sends by reason, and errors after which it is tried again, by component", "ops",
              ["CdcRelayCheckpointStale", "CdcRelayMaintenanceFailing"],
              (rate("cdc_relay_publish_errors_total", "reason"), "send: {{reason}}"),
              (rate("cdc_relay_errors_total", "component"), "{{component}}")),
        graph("Stopped, stalled, restarted", "1 while a relay has stopped, or an event has waited for Kafka for a minute; starts within 15 minutes", "none",
              ["CdcRelayStopped", "CdcRelayStalled", "CdcRelayRestarting"],
              (each(otherwise("cdc_relay_stopped", 0)), "stopped: {{reason}}"),
              (each("cdc_relay_stalled"), "stalled"),
              (each("1 - cdc_relay_connected"), "not connected"),
              (each("changes(process_start_time_seconds[15m])"), "starts")),
        graph("Dead letters", "Events that are not resolved, and the age of the oldest", "none", ["CdcRelayDeadLetters", "CdcRelayOldDeadLetter"],
              (leaders("cdc_relay_dead_letters"), ""),
              (leaders("cdc_relay_oldest_dead_letter_age_seconds"), "age in s")),
        graph("Not published", "Events dropped because the configuration says so, new dead letters, and rows of tables that are not configured", "ops",
              ["CdcRelayEventsDropped", "CdcRelayUnknownTable"],
              (rate("cdc_relay_events_dropped_total", "reason"), "{{reason}}"),
              (rate("cdc_relay_dead_letter_events_total", "reason"), "dead letter: {{reason}}"),
              (rate('cdc_relay_events_filtered_total{table="other"}'), "unknown table")),
    ],
    "Database": [
        graph("Time to loss", "Until WAL or binlog is lost that is not published, at the speed of the last minutes", "s",
              ["CdcRelaySlotNearLimit", "CdcRelayBinlogNearExpiry"], (each(otherwise("cdc_relay_time_to_loss_seconds", "Inf")), "")),
        graph("Clock", "How far the database's clock is ahead of the relay's", "s", ["CdcRelayClockSkew"], (each("cdc_relay_clock_skew_seconds"), "")),
        graph("WAL for the slot", "PostgreSQL: what is kept, and what may still be written before the slot is lost (-1: no limit)", "bytes",
              ["CdcRelaySlotNearLimit", "CdcRelayUnlimitedWAL"],
              (each("cdc_relay_slot_retained_bytes"), "kept"),
              (each("cdc_relay_slot_safe_bytes"), "left")),
        graph("Slot", "PostgreSQL: the state of the slot", "none", ["CdcRelaySlotLost"],
              (each("(cdc_relay_slot_status == 1)"), "{{status}}")),
        graph("WAL not received", "PostgreSQL: written by the server and not received yet", "bytes", [],
              (each("cdc_relay_source_lag_bytes"), "")),
        graph("Binlog", "MySQL and MariaDB: how long the server keeps its binlogs, and how far behind the relay is", "s",
              ["CdcRelayBinlogNearExpiry"],
              (each("cdc_relay_binlog_expire_seconds"), "kept"),
              (leaders("cdc_relay_source_lag_seconds"), "behind")),
        graph("Partitions", "Days ahead that have a partition, rows in the default partition, and partitions past the TTL that are not published",
              "none", ["CdcRelayPartitionsAhead", "CdcRelayDefaultPartitionRows", "CdcRelayTTLBelowLag"],
              (each("cdc_relay_partitions_ahead"), "{{table}} days ahead"),
              (each("cdc_relay_default_partition_rows"), "{{table}} default partition"),
              (each("cdc_relay_partitions_unrelayed"), "{{table}} not published")),
        graph("Old rows", "Rows deleted because of retention.keep, and rows marked because of write_back", "ops", ["CdcRelayMaintenanceFailing"],
              (each(otherwise("rate(cdc_relay_rows_deleted_total[$__rate_interval])", 0)), "{{table}} deleted"),
              (each(otherwise("rate(cdc_relay_rows_marked_total[$__rate_interval])", 0)), "{{table}} marked")),
    ],
    "Process": [
        graph("CPU", "Of each relay, in cores", "none", [], (f"rate(process_cpu_seconds_total[$__rate_interval]) {JOIN}", "{{instance}}")),
        graph("Memory", "Resident memory of each relay", "bytes", [], (each("process_resident_memory_bytes"), "{{instance}}")),
    ],
}


def placed():
    """The panels from left to right, below the title of their row."""
    x = y = height = 0
    for title, panels in ROWS.items():
        row = {"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": {"w": 24, "h": 1}}
        for made in [row] + panels:
            place = made["gridPos"]
            if x + place["w"] > 24 or made is row:
                x, y, height = 0, y + height, 0
            place |= {"x": x, "y": y}
            x, height = x + place["w"], max(height, place["h"])
            yield made


def variable(label, chosen):
    return {  # .* also matches a label that is absent
        "name": label, "label": label.capitalize(), "type": "query", "datasource": SOURCE,
        "query": f"label_values(cdc_relay_info{{{chosen}}}, {label})", "refresh": 2, "sort": 1,
        "multi": True, "includeAll": True, "allValue": ".*", "current": {"text": ["All"], "value": ["$__all"]},
    }


TAKEOVER = f"(increase(cdc_relay_takeovers_total[1m]) > 0) {JOIN}"

BOARD = {
    "title": "cdc-relay", "uid": "cdc-relay", "tags": ["cdc-relay", "outbox"], "schemaVersion": 41, "editable": False,
    "refresh": "10s", "time": {"from": "now-1h", "to": "now"}, "timezone": "browser",
    "graphTooltip": 1,  # one cross-hair for all panels
    "links": [{"title": "What to do at an alert", "type": "link", "icon": "doc", "targetBlank": True, "url": RUNBOOK}],
    "annotations": {"list": [{
        "name": "Takeovers", "datasource": SOURCE, "enable": True, "iconColor": "blue", "titleFormat": "{{database}}: {{instance}} leads",
        "target": {"expr": TAKEOVER, "interval": "1m", "refId": "Takeovers"},
    }]},
    "templating": {"list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
                   + [variable(label, chosen) for label, chosen in VARIABLES.items()]},
}

if __name__ == "__main__":
    board = json.dumps(BOARD).removesuffix("}")
    panels = ",\n".join(json.dumps({"id": i + 1} | made) for i, made in enumerate(placed()))
    print(f'{board},\n"panels": [\n{panels}\n]}}')
