// Dead letters: facets, groups by cause, and what a person does with them. The filter stands in the address.
import { Answer, Dialog, Pairs, Table, Time, html, known, link, number, post, sentences, text, useAnswer, useEffect, useMounted, useState } from "./view.js";

const facets = [["reason", "Reason"], ["topic", "Topic"], ["type", "Type"], ["age", "Age"]];
const ages = { "1h": "under 1 hour", "24h": "1 to 24 hours", "7d": "1 to 7 days", older: "over 7 days" };
const verbs = { retry: "Retry", drop: "Drop" };
const filterOf = (query) => Object.fromEntries(["reason", "topic", "type", "age", "cause", "key"].filter((k) => query[k]).map((k) => [k, query[k]]));
const plural = (n) => number(n) + (n === 1 ? " dead letter" : " dead letters");

export function Letters({ query, rights }) {
  if (!rights.loaded) return html`<section><h2>Dead letters</h2><${Answer} of=${rights} /></section>`;
  if (!rights.letters) return html`<section><h2>Dead letters</h2><p class="empty">The configuration has none: set one of errors.* to dead_letter.</p></section>`;
  if (!rights.details) return html`<section><h2>Dead letters</h2><p class="empty">${sentences(rights.reason)}</p></section>`;
  return html`<${List} query=${query} rights=${rights} />`;
}

function List({ query, rights }) {
  const filter = filterOf(query);
  const [picked, pick] = useState({}); // letters that are selected, by their IDs
  const [task, begin] = useState(null); // what was asked for: {do, letters} or {do, filter, count}
  const [more, setMore] = useState([]);
  const first = useAnswer(() => post("letters", { after: "", filter }), filter, 15000, task || more.length > 0 || Object.keys(picked).length > 0);
  useEffect(() => { pick({}); setMore([]); }, [JSON.stringify(filter)]);
  const go = (change) => { location.hash = link("letters", { ...filter, ...change }); };
  const closed = () => { begin(null); pick({}); setMore([]); first.again(); };
  const got = first.got || {};
  const list = [...(got.letters || []), ...more.flatMap((m) => m.letters)];
  const last = more.length ? more[more.length - 1] : got;
  const chosen = list.filter((l) => picked[l.letter]);
  return html`<section aria-labelledby="h-letters" id="letters"><h2 id="h-letters">Dead letters</h2>
    <${Answer} of=${first} empty=${(g) => (g.all ?? g.total) === 0 ? "There are no dead letters." : ""}>${(g) => html`<div class="split">
      <${Facets} got=${g} filter=${filter} go=${go} />
      <div class="body">
        <${Groups} list=${g.groups || []} filter=${filter} go=${go} />
        <div class="line bar">
          <strong>${known(g.total, plural)}${Object.keys(filter).length ? " match" : ""}</strong>
          ${filter.key && html`<button type="button" class="plain" onClick=${() => go({ key: "" })}>of key ${text(filter.key, 80)}: show all</button>`}
          ${chosen.length > 0 && html`<span class="tag info">${number(chosen.length)} selected; updates are paused</span>`}
          ${rights.actions && g.total > 0 && Object.keys(verbs).map((verb) => html`<button type="button" key=${verb} class=${verb === "drop" ? "danger" : ""}
            onClick=${() => begin(chosen.length ? { do: verb, letters: chosen } : { do: verb, filter, count: g.total, until: g.last })}>${verbs[verb]} ${chosen.length ? number(chosen.length) + " selected" : "all " + number(g.total)}</button>`)}
          ${!rights.actions && html`<span class="quiet">${sentences(rights.reason || "This user may only look.")}</span>`}
        </div>
        ${list.length ? html`<${Rows} list=${list} picked=${picked} pick=${pick} actions=${rights.actions} go=${go} open=${(l) => { location.hash = link("letters", { ...filter, letter: l.letter }); }} />` : html`<p class="empty">No dead letter matches the filter. <a href="#letters">Remove it</a></p>`}
        ${last.next && html`<${More} key=${last.next + JSON.stringify(filter)} ask=${() => post("letters", { after: last.next, filter })} add=${(m) => setMore([...more, m])}>Show more (${number(list.length)} of ${number(g.total)})<//>`}
      </div></div>`}<//>
    ${task && html`<${Task} task=${task} onClose=${closed} />`}
    ${query.letter && html`<${Detail} id=${query.letter} act=${rights.actions && ((verb, l) => { go({}); begin({ do: verb, letters: [l] }); })} onClose=${() => { if (query.letter === (new URLSearchParams(location.hash.split("?")[1])).get("letter")) go({}); }} />`}
  </section>`;
}

// More asks for the next page. Once the filter has changed, its answer is not wanted any more.
function More({ ask, add, children }) {
  const [state, set] = useState({});
  const here = useMounted();
  const go = async () => {
    set({ busy: true });
    try { const m = await ask(); if (here.current) add(m); } catch (e) { set({ error: e.message }); }
  };
  return html`<button type="button" disabled=${state.busy} onClick=${go}>${children}</button>${state.error && html`<p class="failed" role="alert">${sentences(state.error)}</p>`}`;
}

// more says what a list leaves out.
const more = (n, most) => n > most ? html`<li class="quiet">and ${number(n - most)} more, with fewer dead letters</li>` : "";
const mostValues = 12, mostCauses = 8;

const Facets = ({ got, filter, go }) => html`<details class="facets" open=${innerWidth > 700}><summary>Filter</summary>
  ${Object.keys(filter).length > 0 && html`<button type="button" onClick=${() => { location.hash = "#letters"; }}>Remove the filter</button>`}
  ${facets.map(([field, name]) => [field, name, Object.entries((got.facets || {})[field] || {}).filter(([value, n]) => n || filter[field] === value)]).map(([field, name, all]) => html`<div key=${field}><h3>${name}</h3>${
    all.sort((a, b) => field === "age" ? 0 : b[1] - a[1]).slice(0, mostValues).map(([value, n]) => html`<button type="button" class="facet" key=${value} disabled=${!value} aria-pressed=${String(filter[field] === value)}
      onClick=${() => go({ [field]: filter[field] === value ? "" : value })}><span>${text((field === "age" && ages[value]) || value || "not known", 60)}</span><span>${number(n)}</span></button>`)}<ul>${more(all.length, mostValues)}</ul></div>`)}
</details>`;

const Groups = ({ list, filter, go }) => html`<ul class="groups" aria-label="Causes">${list.slice(0, mostCauses).map((g) => html`<li key=${g.reason + g.cause}>
  <button type="button" class="cause" aria-pressed=${String(filter.cause === g.cause)} onClick=${() => go({ cause: filter.cause === g.cause ? "" : g.cause, reason: filter.cause === g.cause ? "" : g.reason })}>
    <strong>${number(g.count)} ×</strong> ${text((g.cause || g.reason).replace(g.reason + ": ", ""), 200)}<span class="quiet">${text(g.reason)}, ${known(g.keys, (n) => number(n) + (n === 1 ? " key" : " keys"))}, first <${Time} at=${g.first} />, last <${Time} at=${g.last} /></span>
  </button></li>`)}${more(list.length, mostCauses)}</ul>`;

function Rows({ list, picked, pick, actions, open, go }) {
  const every = list.every((l) => picked[l.letter]);
  const box = (on, label, change) => html`<input type="checkbox" checked=${on} aria-label=${label} onChange=${change} />`;
  const flip = (l) => { const { [l.letter]: was, ...rest } = picked; pick(was ? rest : { ...picked, [l.letter]: true }); };
  const name = (l) => text(l.id || l.letter, 80);
  const columns = [...(actions ? [[box(every, "Select all that are shown", () => pick(every ? {} : Object.fromEntries(list.map((l) => [l.letter, true]))))]] : []), ["Event"], ["Key"], ["Topic"], ["Type"], ["Reason"], ["Since"], ["Retries", true]];
  return html`<${Table} label="Dead letters" columns=${columns} rows=${list.map((l) => ({ key: l.letter, cells: [...(actions ? [box(!!picked[l.letter], "Select event " + name(l), () => flip(l))] : []),
    html`<button type="button" class="link" onClick=${() => open(l)}>${name(l)}</button>`, l.key ? html`<button type="button" class="link" title="Only this key" onClick=${() => go({ key: l.key })}>${text(l.key, 80)}</button>` : "", text(l.topic, 80), text(l.type, 60), text(l.reason), html`<${Time} at=${l.time} />`, known(l.attempts ?? 0, number)] }))} />`;
}

function Detail({ id, act, onClose }) {
  const of = useAnswer(() => post("letter", { id }), id);
  return html`<${Dialog} title="Dead letter" className="drawer" onClose=${onClose}><${Answer} of=${of}>${(l) => html`<p class="error">${sentences(text(l.error || "no error is known", 2000))}</p>
      ${act && html`<div class="line">${Object.keys(verbs).map((verb) => html`<button type="button" key=${verb} class=${verb === "drop" ? "danger" : ""} onClick=${() => act(verb, l)}>${verbs[verb]}</button>`)}</div>`}
      <${Pairs} list=${[["Event", html`<a href=${link("find", { id: l.id })}>${text(l.id)}</a>`], ["Key", text(l.key)], ["Topic", text(l.topic)], ["Type", text(l.type)], ["Reason", text(l.reason)], ["Since", html`<${Time} at=${l.time} />`],
        ["Last retry", l.tried ? html`<${Time} at=${l.tried} />` : "none"], ["Retries", known(l.attempts ?? 0, number)], ["Held behind it", known(l.behind, (n) => number(n) + (n === 1 ? " event" : " events"))], ["Table", text(l.table)], ["Position", text(l.place)]].filter(([, v]) => v !== "")} />
      <h3>Headers</h3><${Pairs} list=${Object.entries(l.headers || {}).map(([k, v]) => [text(k, 80), text(v)])} /><p class="quiet">Payloads are never shown.</p>`}<//><//>`;
}

const handled = (r) => r.done + (r.skipped || 0) + (r.before || 0) + r.total;

// outcome says what became of letters.
export const outcome = (r) => number(r.done) + " done, " + number(r.total) + " failed" + (r.skipped ? ", " + number(r.skipped) + " dropped because errors.skip has them" : "") +
  (r.before ? ", " + number(r.before) + " resolved before" : "");

// Task asks to confirm, shows progress, and the result for each.
function Task({ task, onClose }) {
  const count = task.letters ? task.letters.length : task.count;
  const [typed, type] = useState("");
  const [state, set] = useState({ at: "ask", done: 0, total: 0, failed: [] });
  const verb = verbs[task.do];
  const here = useMounted(); // whoever closes the dialog stops what was not asked for yet
  const mustType = count > 1 || task.do === "drop";
  async function one() {
    const result = { done: 0, failed: [], total: 0 };
    for (const l of task.letters) {
      if (!here.current) break;
      try {
        const r = await post("resolve", { do: task.do, id: l.letter });
        result.failed.push(...(r.failed || []));
        if ((r.failed || []).length) result.total++; else result.done++;
      } catch (e) { result.failed.push({ id: l.id || l.letter, error: e.message }); result.total++; }
      set({ at: "run", ...result });
    }
    return result;
  }
  async function matching() {
    const sum = { done: 0, skipped: 0, before: 0, total: 0, failed: [] };
    for (let left = count, after = ""; left > 0 && here.current && !sum.error;) { // an answer is of some hundreds, and says how many are left
      const r = await post("resolve", { do: task.do, filter: task.filter, count: left, after, until: task.until });
      for (const kind of ["done", "skipped", "before"]) sum[kind] += r[kind] || 0;
      sum.total += r.failed_total ?? (r.failed || []).length;
      sum.failed.push(...(r.failed || []));
      sum.error = r.error;
      set({ at: "run", ...sum });
      [left, after] = [r.left || 0, r.after];
    }
    return sum;
  }
  async function run() {
    set({ at: "run", done: 0, total: 0, failed: [] });
    try {
      const r = await (task.letters ? one() : matching());
      set({ at: "end", ...r });
    } catch (e) { set((s) => ({ ...s, at: "end", error: e.message })); }
  }
  const what = plural(count);
  return html`<${Dialog} title=${verb + " " + what} runs=${state.at === "run"} onClose=${onClose}>
    ${state.at === "ask" && html`<form onSubmit=${(e) => { e.preventDefault(); run(); }}>
      <p>${task.do === "drop" ? "Dropped events are never published. This cannot be undone." : "They are published again."} Those held behind them follow.</p>
      ${mustType && html`<p><label for="typed">Type ${count} to confirm</label> <input id="typed" inputmode="numeric" autocomplete="off" value=${typed} onInput=${(e) => type(e.target.value)} /></p>`}
      <div class="line"><button type="submit" class=${task.do === "drop" ? "danger strong" : "strong"} disabled=${mustType && typed.trim() !== String(count)}>${verb} ${what}</button></div></form>`}
    ${state.at === "run" && html`<p role="status">${verb}: ${number(handled(state))} of ${number(count)}</p><progress max=${count} value=${handled(state)} aria-label="Progress"></progress>`}
    ${state.at === "end" && html`<p role="status" class=${state.error || state.total ? "failed" : "done"}>${outcome(state)}${state.error ? ". " + sentences(state.error) : ""}</p>
      ${state.failed.length > 0 && html`<${Table} label="Failed" columns=${[["Event"], ["Error"]]} rows=${state.failed.slice(0, 500).map((f, i) => ({ key: i, cells: [text(f.id, 80), sentences(f.error)] }))} />`}`}
  <//>`;
}
