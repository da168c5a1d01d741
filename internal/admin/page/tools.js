// Find an event, what an operator asks for, and the other relays.
import { Answer, Pairs, Table, Time, bytes, clock, duration, html, known, link, number, post, get, sentences, text, useAnswer, useEffect, useState } from "./view.js";
import { Sign, levelOf, safe } from "./verdict.js";

const guarded = (rights, title, child) => html`<section><h2>${title}</h2>${!rights.loaded ? html`<${Answer} of=${rights} />` : rights.details ? child() : html`<p class="empty">${sentences(rights.reason)}</p>`}</section>`;

export const Find = ({ query, rights }) => guarded(rights, "Find an event", () => html`<${Search} key=${query.id + "/" + query.key} query=${query} />`);

function Search({ query }) {
  const [by, setBy] = useState(query.key ? "key" : "id");
  const asked = query.id ? { id: query.id } : query.key ? { key: query.key } : null;
  return html`<form class="line" onSubmit=${(e) => { e.preventDefault(); location.hash = link("find", { [by]: e.target.elements.what.value.trim() }); }}>
      <label for="by">By</label><select id="by" onChange=${(e) => setBy(e.target.value)}><option value="id" selected=${by === "id"}>ID</option><option value="key" selected=${by === "key"}>key</option></select>
      <label for="what" class="hidden">ID or key</label><input id="what" name="what" value=${query.id || query.key || ""} autocomplete="off" spellcheck="false" maxlength="1024" placeholder=${by === "id" ? "01890a5d-ac96-774b-bcce-b302099a8057" : "order-42"} /><button type="submit" class="strong">Find</button></form>
    <div id="found">${asked ? html`<${Found} asked=${asked} />` : html`<p class="empty">An event's way, from its commit to Kafka or to the dead letters.</p>`}</div>`;
}

function Found({ asked }) {
  const of = useAnswer(() => post("event", asked), asked);
  return html`<${Answer} of=${of} empty=${(g) => g.key && !g.timeline.length ? "No event with this key since " + clock(g.since) + ", and no dead letter." : ""}>${(g) => html`<${Timeline} e=${g} />`}<//>`;
}

const stations = { committed: "Committed", published: "Published", dead_letter: "Dead letter" };

// timelineOf adds what is missing: a station at which nothing was found.
function timelineOf(f) {
  if (f.key) return f.timeline;
  const none = { committed: "not in the table: never committed, or removed since", published: (f.searched || []).length ? "no record in " + f.searched.join(", ") : "unknown: no topic to search" };
  return [...Object.keys(none).filter((what) => !f.timeline.some((m) => m.what === what)).map((what) => ({ what, missing: true, text: none[what] })), ...f.timeline];
}

const Timeline = ({ e }) => html`<article class="timeline"><h3>${text(e.key || e.id, 120)}</h3>
  ${e.key && html`<p class="quiet">Records since <${Time} at=${e.since} />${e.more ? "; there are more than shown" : ""}</p>`}
  <ol>${timelineOf(e).map((s) => html`<li class=${s.what === "dead_letter" ? "bad" : s.missing ? "missing" : "ok"}>
    <strong>${stations[s.what] || text(s.what)}</strong> ${s.at && html`<${Time} at=${s.at} />`}<span>${sentences(s.text)}</span>
    ${e.key && s.id && html`<a href=${link("find", { id: s.id })}>${text(s.id, 120)}</a>`}</li>`)}</ol>
  ${(e.letters || []).length > 0 && html`<a href=${link("letters", { letter: e.letters[0].letter })}>Open the dead letter</a>`}</article>`;

const statuses = { ok: "ok", info: "info", warn: "warn", fail: "bad" };

function Ask({ path, name, text: label, children, id }) {
  const [asked, ask] = useState(0);
  const of = useAnswer(() => asked ? post(path, {}) : Promise.resolve(null), asked);
  return html`<div id=${id}><div class="line"><button type="button" onClick=${() => ask(asked + 1)}>${name}</button><span class="quiet">${of.got ? html`<${Time} at=${new Date(of.at).toISOString()} />` : label}</span></div>${asked > 0 && html`<${Answer} of=${of}>${children}<//>`}</div>`;
}

export const Operations = ({ data, rights }) => html`
  ${guarded(rights, "Check", () => html`<${Ask} id="check" path="check" name="Run check" text="Verifies what a run needs, and changes nothing.">${(r) => html`<${Table} label="Findings" columns=${[["Result"], ["Subject"], ["Found"]]}
    rows=${(r.findings || []).map((f, i) => ({ key: i, cells: [html`<span class=${"tag " + (statuses[f.status] || "info")}>${text(f.status)}</span>`, text(f.subject), html`${sentences(f.text)}${f.fix ? html`<br /><span class="quiet">Fix: ${sentences(f.fix)}</span>` : ""}`] }))} />`}<//>`)}
  <section><h2>Partitions and TTL</h2>${!(data.partitions || []).length ? html`<p class="empty">Not maintained by this relay: the configuration has no section retention, or another relay leads.</p>`
    : html`<${Table} label="Partitions" columns=${[["Table"], ["Days ahead", true], ["Oldest day", true], ["Rows in the default partition", true], ["Past the TTL, not relayed", true]]}
      rows=${data.partitions.map((p) => ({ key: p.table, cells: [text(p.table), known(p.days_ahead, number), known(p.oldest_seconds, duration), known(p.default_rows, number), known(p.past_ttl, number)] }))} />`}</section>
  <section><h2>Positions</h2><${Positions} data=${data} /></section>
  ${guarded(rights, "Configuration", () => html`<${Ask} path="config" name="Show it" text="The effective one, without secrets.">${(c) => html`<pre tabindex="0">${text(c.text, 100000).replaceAll("\\u000a", "\n")}</pre>`}<//>`)}`;

function Positions({ data }) {
  const p = data.positions || {}, s = data.source || {}, slot = data.slot;
  const list = [["Read", p.received], ["Acknowledged", p.acked], ["Saved", p.saved, (data.checkpoint || {}).saved_at], ["Confirmed", p.confirmed]].map(([name, at, when]) => [name, html`${at && at !== "0/0" ? text(at) : known(null)}${when ? html`, <${Time} at=${when} />` : ""}`]);
  list.push(["Database", known(s.database || null)], ["System", known(s.system_id || null)]);
  if (s.slot) list.push(["Slot", text(s.slot)]);
  if (slot) list.push(["Slot status", html`${known(slot.status || null)}${slot.asked_at ? html`, asked <${Time} at=${slot.asked_at} />` : ""}`], ["WAL kept", known(slot.retained_bytes, bytes)]);
  return html`<${Pairs} list=${list} />`;
}

const worst = { bad: 0, warn: 2, idle: 3, good: 4 };
const lostIn = (r) => (r.now && r.now.lost_in) ?? Number.MAX_VALUE;
const rank = (r) => r.verdict ? worst[levelOf(r.verdict)] : 1;

// kindOf is how a relay is counted: as the colour of its row says.
const kindOf = (r) => r.verdict ? levelOf(r.verdict) : "bad";
const kinds = { bad: "need somebody now", warn: "impaired", good: "well" };
const wordOf = (r) => kinds[kindOf(r)] || text(r.verdict.state, 40).replace("_", " ");
const counted = (n, word) => number(n) + " " + (n === 1 ? word.replace(/^need /, "needs ") : word);

// fleetVerdict is the worst of all, in a sentence.
function fleetVerdict(list) {
  const [bad, warn] = ["bad", "warn"].map((kind) => list.filter((r) => kindOf(r) === kind).length);
  const led = new Set(list.filter((r) => r.verdict && r.verdict.state.startsWith("publishing")).map((r) => r.name));
  const idle = new Set(list.map((r) => r.name).filter((name) => !led.has(name))).size;
  const of = " of " + list.length + (list.length === 1 ? " relay " : " relays ");
  if (bad) return { level: "bad", title: bad + of + (bad === 1 ? "needs" : "need") + " somebody now" };
  if (warn) return { level: "warn", title: warn + of + (warn === 1 ? "is" : "are") + " impaired" };
  if (idle) return { level: "idle", title: "No relay of " + idle + (idle === 1 ? " database" : " databases") + " is known to publish" };
  return { level: "good", title: list.length === 1 ? "The relay is well" : "All " + list.length + " relays are well" };
}

export function Fleet({ onVerdict }) {
  const of = useAnswer(() => get("api/fleet").then((list) => list.sort((a, b) => rank(a) - rank(b) || lostIn(a) - lostIn(b) || (a.name || "").localeCompare(b.name || ""))), 0, 5000);
  useEffect(() => { onVerdict(of.error ? null : of.got && of.got.length ? fleetVerdict(of.got) : null); return () => onVerdict(null); }, [of.got, of.error]);
  return html`<section aria-labelledby="h-fleet"><h2 id="h-fleet">Fleet</h2><${Answer} of=${of}>${(g) => html`
    ${g.length < 2 && html`<p class="empty">No other relays are known: name them in http.peers.</p>`}<p class="quiet">${[...new Set(g.map(wordOf))].map((word) => counted(g.filter((r) => wordOf(r) === word).length, word)).join(", ")}</p>
    <${Table} label="Relays" columns=${[["Verdict"], ["Relay"], ["Since"], ["Events/s", true], ["Lag", true], ["Waiting", true], ["Kept", true], ["Lost in", true], ["Dead letters", true]]}
      rows=${g.map((r) => {
        const n = r.now || {}, v = r.verdict, level = v ? levelOf(v) : "unknown";
        return { key: r.url + r.name, cells: [html`<span class=${"pill " + level}>${v ? html`<${Sign} level=${level} />${sentences(text(v.title, 80))}` : "No answer"}</span>${v ? v.cause && html`<span class="quiet block">${sentences(text(v.cause, 160))}</span>` : html`<span class="quiet block">${sentences(r.error || "it gave no reason")}</span>`}`,
          html`<a href=${safe(r.url)}>${text(r.name || r.url, 80)}</a>${r.instance && html`<span class="quiet block relay">${text(r.instance, 80)}</span>`}`, v && v.since ? html`<${Time} at=${v.since} />` : known(null),
          known(n.per_second, number), known(n.lag, duration), known(n.waiting, number), known(n.kept_bytes, bytes), v ? n.lost_in ? duration(n.lost_in) : "" : known(null), known(n.dead_letters, number)] };
      })} />`}<//></section>`;
}
