// The verdict, the way of an event, and the numbers: what one look tells.
import { Copy, For, Time, bytes, clock, duration, html, known, link, number, place, prose, sentences, since, text, useEffect } from "./view.js";

const shapes = { // the icon's and the bar's sign: its shape tells what its colour tells
  good: "M7 17l6 6L25 10", warn: "M16 7v11M16 23v2", bad: "M9 9l14 14M23 9L9 23", idle: "M9 16h14",
};
const colors = { good: "#17693a", warn: "#f2b02e", bad: "#c02a20", idle: "#566070" };

const drawing = (level) => `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><circle cx="16" cy="16" r="16" fill="${colors[level]}"/>` +
  `<path d="${shapes[level]}" fill="none" stroke="${level === "warn" ? "#1b1f27" : "#fff"}" stroke-width="4" stroke-linecap="round" stroke-linejoin="round"/></svg>`;

// levelOf is what the page can draw.
export const levelOf = (v) => shapes[v.level] ? v.level : "idle";

export const Sign = ({ level }) => html`<svg class="sign" viewBox="0 0 32 32" aria-hidden="true"><path d=${shapes[level]} fill="none" stroke="currentColor" stroke-width="4" stroke-linecap="round" stroke-linejoin="round" /></svg>`;

// lost is the verdict on a relay that does not answer.
export const lost = (at, why, { instance, standbys }) => ({
  state: "no_answer", level: "bad", title: "No answer" + (instance ? " from " + text(instance, 60) : ""), since: at, cause: text(why),
  fix: "See whether its process runs, and read the last lines of its log; if it runs, check the network between here and it.",
  effect: standbys && standbys.length ? "Not known from here: a standby may have taken over." : "Not known from here. Events wait in the database.",
});

// Title has the words of the bar, and since when where that matters.
function Title({ v, leader }) {
  const name = leader && leader.name;
  const [before, after] = name && v.title.includes(name) ? v.title.split(name, 2) : [v.title, ""];
  return html`${sentences(text(before, 160))}${after !== "" || (name && v.title.includes(name)) ? html`<a href=${safe(leader.url)}>${text(name, 80)}</a>${sentences(text(after, 160))}` : ""}
    ${v.since && v.level === "bad" ? html` <span class="since">since <${Time} at=${v.since} /> (<${For} at=${v.since} />)</span>` : ""}`;
}

// safe keeps a link from running a script.
export const safe = (url) => url === "./" || /^https?:\/\//.test(url || "") ? url : undefined;

export function Verdict({ v, data }) {
  const level = levelOf(v);
  const words = sentences(text(v.title, 120)) + (v.since && level === "bad" ? " since " + clock(v.since) : "");
  useEffect(() => {
    document.title = { good: "✓ ", warn: "! ", bad: "✕ ", idle: "" }[level] + words + (data ? " · " + text((data.source || {}).database, 60) : "");
    document.querySelector("link[rel=icon]").href = "data:image/svg+xml," + encodeURIComponent(drawing(level));
  });
  const said = sentences(v.fix).split("`").includes(v.command), letters = /^cdc-relay dlq /.test(v.command) && place().view !== "letters";
  const rest = [["Cause", v.cause && prose(v.cause)], ["What to do", (v.fix || v.command) && html`${v.fix && prose(v.fix, v.command)}${v.command && !said && html`<${Copy} value=${v.command} />`}${letters && html` <a href=${link("letters")}>Open the dead letters</a>`}`],
    ["Effect", v.effect && prose(v.effect)]].filter(([, what]) => what);
  return html`<section id="verdict" class=${"verdict " + level} aria-label="Verdict">
    <div class="inner"><p class="words"><${Sign} level=${level} /><span><${Title} v=${v} leader=${data && data.leader} /></span></p>
      ${v.since && level !== "bad" && html`<p class="small">since <${Time} at=${v.since} />, for <${For} at=${v.since} /></p>`}
      ${rest.length > 0 && html`<dl class="why">${rest.map(([name, what]) => html`<div key=${name}><dt>${name}</dt><dd>${what}</dd></div>`)}</dl>`}
      ${v.also && v.also.length > 0 && html`<ul class="others" aria-label="Also">${v.also.map((o) => html`<li key=${o.title}><details><summary>${sentences(o.title)}</summary><p>${prose(o.cause)}</p>${o.fix && html`<p>${prose(o.fix)}</p>`}</details></li>`)}</ul>`}
    </div></section>
    <p class="hidden" role="status">${words}</p>`;
}

const names = { database: "Database", read: "Read", visible: "Visible", in_flight: "In flight", kafka: "Kafka", saved: "Saved" };
const states = { ok: "ok", waiting: "waits", broken: "broken", unknown: "unknown", off: "off" };

export const Way = ({ data }) => html`<section aria-labelledby="h-way"><h2 id="h-way">The way of an event</h2>
  <ol class="way">${(data.steps || []).map((s) => html`<li key=${s.id} class=${"step " + (states[s.state] ? s.state : "unknown")}>
    <p class="name">${names[s.id] || text(s.id)}<span class="state">${s.id === "database" && s.state === "waiting" ? "near its limit" : states[s.state] || "unknown"}</span></p>
    <p class="server">${text(s.server, 120)}</p>
    <p>${sentences(text(s.text, 140))}</p>
    <p class="quiet">${s.state === "broken" && s.since ? html`since <${Time} at=${s.since} />, <${For} at=${s.since} />`
      : s.latency !== null && s.latency !== undefined ? "latency " + duration(s.latency) : s.since ? html`since <${Time} at=${s.since} short />` : ""}</p>
  </li>`)}</ol>
  <p class="chips"><span class="quiet">${data.verdict.state === "standing_by" ? "Leader" : "Standbys"}</span>${standbys(data)}</p>
</section>`;

function standbys(data) {
  if (data.verdict.state === "standing_by") {
    const l = data.leader || {};
    const does = l.publishing === true ? "publishes" : l.publishing === false ? "does not publish" : "whether it publishes is unknown";
    return html` <span class=${"chip " + (l.publishing === true ? "ok" : l.publishing === false ? "broken" : "unknown")}>${!l.name ? "unknown" : html`${safe(l.url) ? html`<a href=${safe(l.url)}>${text(l.name, 80)}</a>` : text(l.name, 80)}, ${does}`}${
      l.asked_at && since(l.asked_at) > 15 ? html`, asked <${For} at=${l.asked_at} /> ago` : ""}</span>`;
  }
  if (!data.standbys) return html` <span class="chip unknown">unknown: ${data.peers ? "not every relay of http.peers has answered" : "set http.peers to the addresses of the other relays"}</span>`;
  if (!data.standbys.length) return html` <span class="chip waiting">none that answers</span>`;
  return data.standbys.map((s) => html` <span class="chip ok"><a href=${safe(s.url)}>${text(s.name, 80)}</a>${s.since && html` since <${Time} at=${s.since} short />`}</span>`);
}

// told is what a line says below a value that is known.
const told = (value, words) => value === null || value === undefined ? "" : words;

// Spark draws the last hour of a column. What is not known is a gap.
function Spark({ times, values, label }) {
  const end = times.length ? times[times.length - 1] : 0;
  const over = Math.min(3600, Math.max(300, end - times[0]));
  const most = Math.max(...values.filter((v, i) => v !== null && times[i] >= end - over), 0) || 1;
  let path = "", pen = "M", points = 0;
  times.forEach((at, i) => {
    if (at < end - over) return;
    if (values[i] === null || values[i] === undefined) { pen = "M"; return; }
    path += pen + ((at - end + over) / over * 120).toFixed(1) + " " + (23 - values[i] / most * 21).toFixed(1);
    pen = "L"; points++;
  });
  return html`<svg class="spark" viewBox="0 0 120 24" preserveAspectRatio="none" role="img" aria-label=${label + " in the last hour" + (points ? "" : ": unknown")}><path d=${path || "M0 0"} /></svg>`;
}

export function Numbers({ data, past, rights }) {
  if (data.verdict.state === "standing_by") return html`<section><p class="quiet">A standby reads nothing: numbers and charts are on ${data.leader && safe(data.leader.url) ? html`<a href=${safe(data.leader.url)}>the page of the leader</a>` : "the page of the leader"}.</p></section>`;
  const n = data.now || {};
  const log = data.slot || (data.source || {}).slot ? "WAL" : "Binlog";
  const limit = n.limit_bytes ? "of " + bytes(n.limit_bytes) : "";
  const left = n.lost_in !== null && n.lost_in !== undefined ? (limit && limit + "; ") + (log === "WAL" ? "slot " : "") + "lost in " + duration(n.lost_in)
    : limit ? limit + " that may be kept" : log === "WAL" ? "no limit is set" : "";
  const tile = (name, value, below, column, className) => html`<div key=${name} class=${"tile " + (className || "")}><dt>${name}</dt><dd>${value}</dd>
    <dd class="below">${below || "\u00a0"}</dd><dd><${Spark} times=${past.times} values=${past.columns[column] || []} label=${name} /></dd></div>`;
  return html`<section aria-labelledby="h-numbers"><h2 id="h-numbers">Now, and the last hour</h2>
    <dl class="tiles">
    ${tile("Events per second", known(n.per_second, number), told(n.per_second, "in the last seconds"), 0)}
    ${tile("Lag", known(n.lag, duration), told(n.lag, "age of the oldest event"), 1, n.lag > 60 ? "warn" : "")}
    ${tile("Commit to Kafka, p99", n.per_second === 0 && !n.p99 ? "none" : known(n.p99, duration), told(n.p50, "p50 " + duration(n.p50 || 0)), 3)}
    ${tile("Waiting events", known(n.waiting, number), told(n.waiting_bytes, bytes(n.waiting_bytes || 0) + (data.verdict.state === "not_publishing" ? ", and more in the database" : "")), 4)}
    ${tile(log + " kept", known(n.kept_bytes, bytes), told(n.lost_in ?? n.kept_bytes, left), 5, n.lost_in && n.lost_in < 3600 ? "bad" : "")}
    ${tile("Dead letters", rights.loaded && !rights.letters ? "off" : known(n.dead_letters, (v) => v ? html`<a href=${link("letters")}>${number(v)}</a>` : "0"), n.held ? number(n.held) + " of them are held behind others" : "", 6, n.dead_letters ? "warn" : "")}
  </dl></section>`;
}
