import { $, ago, bytes, el, get, keepScroll, number, pairs, post, seconds, table } from "./dom.js";
import * as charts from "./charts.js";
import * as letters from "./letters.js";
import * as topics from "./topics.js";

const every = 5000;
let seen = null; // when the relay answered last

// say changes only what is new: a screen reader announces each change.
function say(id, text, className) {
  if ($(id).textContent !== text) $(id).textContent = text;
  $(id).className = className;
}

function state(st) {
  const problems = (st.problems || []).map((p) => [p.with, p.server].filter(Boolean).join(" ") + " since " + new Date(p.since).toLocaleTimeString() + ": " + p.text);
  say("state", st.state + (st.state === "leading" && !st.connected ? ", not connected" : ""), "badge " + (st.ready && !st.stalled && !problems.length ? "good" : "bad"));
  $("database").textContent = st.source.database;
  $("version").textContent = "cdc-relay " + st.version;
  document.title = st.state + " " + st.source.database + " cdc-relay";
  let problem = st.ready ? "" : "Not ready: " + st.not_ready;
  if (st.stalled) problem = "Stalled: Kafka does not acknowledge.";
  if (problems.length) problem = problems.join("\n");
  say("problem", problem, "problem");
  $("problem").hidden = problem === "";
}

function overview(st, rate) {
  const role = { leading: "this relay", standby: st.leader || "another relay" }[st.state] || "none that this relay knows";
  const known = (text) => ["starting", "standby"].includes(st.state) ? "unknown" : text;
  pairs($("now"), [
    ["Leader", role], ["In this state for", ago(st.since).replace(" ago", "")], ["Lag", known(seconds(st.lag.seconds)), st.lag.seconds > 60 ? "warn" : ""],
    ["Events per second", known(number(rate))], ["In flight", known(number(st.in_flight.events))],
    ["Dead letters", st.dead_letters ? known(number(st.dead_letters.events)) : "off", st.dead_letters && st.dead_letters.events ? "warn" : ""],
  ]);
  const p = st.positions;
  const at = (text) => text && text !== "0/0" ? text : "not known to this relay";
  pairs($("positions"), [["Received", at(p.received)], ["Acknowledged", at(p.acked)], ["Saved", at(p.saved) + (st.checkpoint.saved_at ? ", " + ago(st.checkpoint.saved_at) : "")], ["Confirmed", at(p.confirmed)]]);
  const source = [["Database", st.source.database], ["System", st.source.system_id || "not known yet"]];
  if (st.source.slot) source.push(["Slot", st.source.slot]);
  if (st.slot) source.push(...slot(st.slot));
  if (st.lag.bytes !== undefined) source.push(["Not in Kafka yet", bytes(st.lag.bytes)]);
  source.push(...binlog(st));
  if (st.last_error) source.push([st.last_error.past ? "Past error" : "Last error", ago(st.last_error.at) + (st.last_error.past ? ", no longer so: " : ": ") + st.last_error.text]);
  pairs($("source"), source);
}

let retained = []; // [ms, retained bytes], for the speed at which the limit comes near

function slot(s) {
  const rows = [["Slot status", s.status, { reserved: "good", extended: "warn" }[s.status] || "bad"], ["WAL kept", bytes(s.retained_bytes)]];
  retained = [...retained.filter(([at]) => Date.now() - at < 600000), [Date.now(), s.retained_bytes]];
  const [first] = retained;
  const speed = (s.retained_bytes - first[1]) / Math.max(1, (Date.now() - first[0]) / 1000);
  if (s.safe_bytes === undefined) rows.push(["Until it is lost", "no limit is set: the disk is the limit"]);
  else if (speed > 0) rows.push(["Until it is lost", "about " + seconds(s.safe_bytes / speed) + " at this speed, " + bytes(s.safe_bytes)]);
  else rows.push(["Until it is lost", bytes(s.safe_bytes) + " more; it does not grow"]);
  return rows;
}

let metrics = {};

function binlog(st) {
  const keep = metrics.binlog_expire_seconds;
  if (!keep || !keep.length) return [];
  if (keep[0].value === 0) return [["Binlogs are kept", "until they are purged by hand"]];
  return [["Until it is lost", seconds(Math.max(0, keep[0].value - st.lag.seconds)) + " (binlogs are kept for " + seconds(keep[0].value) + ")"]];
}

function byTable(name) {
  return Object.fromEntries((metrics[name] || []).map((s) => [s.labels.table, s.value]));
}

function partitions() {
  const [ahead, age, rows, unrelayed] = ["partitions_ahead", "page_oldest_partition_age_seconds", "default_partition_rows", "partitions_unrelayed"].map(byTable);
  const names = Object.keys(ahead).sort();
  keepScroll($("partitions"), names.length
    ? table([["Table"], ["Days ahead", true], ["Oldest day", true], ["Rows in the default", true], ["Past the TTL, not relayed", true]],
      names.map((t) => [t, number(ahead[t]), seconds(age[t] || 0), number(rows[t] || 0), number(unrelayed[t] || 0)]))
    : el("p", "This relay does not maintain partitions now: the configuration has no section retention, or another relay leads.", "quiet"));
}

async function look() {
  try {
    const now = await get("api/page");
    metrics = Object.fromEntries(now.metrics.map((f) => [f.name, f.samples || []]));
    charts.show(now.history);
    state(now.status);
    overview(now.status, now.topics.per_second);
    topics.show(now.topics);
    partitions();
    seen = Date.now();
    $("fresh").textContent = "updated " + new Date(seen).toLocaleTimeString();
    $("fresh").className = "quiet";
  } catch (e) {
    $("fresh").textContent = "The relay does not answer (" + e.message + "). " + (seen ? "Shown is the state of " + new Date(seen).toLocaleTimeString() + "." : "");
    $("fresh").className = "bad";
    say("state", "no answer", "badge bad");
    document.title = "no answer " + $("database").textContent + " cdc-relay";
  }
  setTimeout(look, every);
}

function found(f) {
  const list = [];
  for (const r of f.rows) list.push(["Table", r.table + ", created " + (r.created_at || "at a time that is no date of the years 1 to 9999") + (r.ahead_of_clock ? ", ahead of the clock" : "") + (r.topic ? ", goes to " + r.topic : ", not routed: " + r.refused)]);
  if (!f.rows.length) list.push(["Table", "not there: never committed, or removed since (unknown)"]);
  for (const r of f.records) list.push(["Published", r.topic + ", partition " + r.partition + ", offset " + r.offset + ", at " + r.time + (r.replayed ? ", by a replay" : "")]);
  if (!f.records.length) list.push(["Published", f.searched.length ? "no record in " + f.searched.join(", ") : "unknown: no topic to search"]);
  for (const l of f.letters) list.push(["Dead letter", l.reason + " since " + l.time + ": " + (l.error || "no error")]);
  if (!f.letters.length) list.push(["Dead letter", "no"]);
  list.push(["Before the saved position", f.before_saved_position]);
  const dl = el("dl", undefined, "list");
  pairs(dl, list);
  return dl;
}

function findings(report) {
  const colors = { ok: "good", info: "quiet", warn: "warn", fail: "bad" };
  return table([["Result"], ["Subject"], ["What was found"]],
    report.findings.map((f) => [el("span", f.status, colors[f.status]), f.subject, f.text + (f.fix ? ". Fix: " + f.fix : "")]));
}

function ask(button, out, path, body, render) {
  button.onclick = async () => {
    button.disabled = true;
    out.replaceChildren(el("p", "Looking", "quiet"));
    try { out.replaceChildren(render(await post(path, body()))); } catch (e) { out.replaceChildren(el("p", e.message, "bad")); }
    button.disabled = false;
  };
}

async function offer() {
  try {
    const rights = await get("api/rights");
    for (const [button, out] of [["find", "found"], ["check", "checked"]]) {
      if (rights.details) continue;
      $(button).disabled = true;
      $(out).replaceChildren(el("p", rights.reason, "quiet"));
    }
    await letters.start(rights);
  } catch { setTimeout(offer, every); }
}

ask($("find"), $("found"), "api/event", () => ({ id: $("event").value.trim() }), found);
ask($("check"), $("checked"), "api/check", () => ({}), findings);
$("event").onkeydown = (e) => { if (e.key === "Enter") $("find").click(); };
look();
offer();
