// Incidents, and topics with a drawer for each.
import { Answer, Dialog, For, Pairs, Table, Time, duration, html, known, link, number, post, sentences, text, useAnswer, useState } from "./view.js";

const happenings = {
  kafka: ["Problem with Kafka", "bad"], database: ["Problem with the database", "bad"], checkpoint: ["Position not saved", "warn"], write_back: ["Rows not marked", "warn"],
  stalled: ["Events wait for Kafka", "bad"], parked: ["Parked", "bad"], stopped: ["Stopped", "bad"], takeover: ["Takeover", "info"], leading: ["Began to lead", "info"], standby: ["Began to stand by", "info"],
};

export function Incidents({ list }) {
  const [all, showAll] = useState(false);
  const shown = all ? list : (list || []).slice(0, 8);
  return html`<section aria-labelledby="h-incidents"><h2 id="h-incidents">Incidents</h2>${
    !list ? html`<p class="empty">Not known.</p>` : !list.length ? html`<p class="empty">None since this process started.</p>`
      : html`<${Table} label="Incidents" columns=${[["What"], ["From"], ["To"], ["For", true], ["Server"], ["Cause"]]} rows=${shown.map((i) => {
        const [name, level] = happenings[i.what] || [text(i.what), "info"];
        const moment = ["leading", "standby", "takeover"].includes(i.what);
        return { key: i.what + i.server + i.from, className: i.to || moment ? "" : "on", cells: [html`<span class=${"tag " + level}>${name}</span>`, html`<${Time} at=${i.from} />`,
          moment ? "" : i.to ? html`<${Time} at=${i.to} />` : html`<strong>goes on</strong>`,
          moment ? "" : i.to ? duration((Date.parse(i.to) - Date.parse(i.from)) / 1000) : html`<${For} at=${i.from} />`, text(i.server, 80), sentences(text(i.cause, 200))] };
      })} />${list.length > 8 && html`<button type="button" onClick=${() => showAll(!all)}>${all ? "Show 8" : "Show all " + list.length}</button>`}`
  }</section>`;
}

const orders = {
  rate: (a, b) => (b.per_second || 0) - (a.per_second || 0), p99: (a, b) => (b.p99 || 0) - (a.p99 || 0), rejected: (a, b) => (b.rejected || 0) - (a.rejected || 0),
  retried: (a, b) => (b.retried || 0) - (a.retried || 0), "last event": (a, b) => (b.last || "").localeCompare(a.last || ""), name: (a, b) => a.name.localeCompare(b.name),
};
const few = 50;

export function Topics({ data, query, rights }) {
  const [all, showAll] = useState(false);
  const got = data.topics || {};
  if (!got.list) return html`<section><h2>Topics</h2><p class="empty">Not known.</p></section>`;
  const order = orders[query.order] ? query.order : "rate";
  const go = (change) => history.replaceState(null, "", link("topics", { ...query, ...change })) ?? dispatchEvent(new Event("hashchange"));
  const words = (query.filter || "").toLowerCase();
  const list = got.list.filter((t) => t.name.toLowerCase().includes(words)).sort(orders[order]);
  const shown = all ? list : list.slice(0, few);
  const over = got.seconds ? "the last " + duration(got.seconds) : "since the start";
  const open = got.list.find((t) => t.name === query.topic);
  return html`<section aria-labelledby="h-topics"><h2 id="h-topics">Topics</h2>
    <div class="line"><label for="topic-filter">Filter</label><input id="topic-filter" value=${query.filter || ""} autocomplete="off" spellcheck="false" onInput=${(e) => go({ filter: e.target.value })} />
      <label for="topic-order">Order</label><select id="topic-order" value=${order} onChange=${(e) => go({ order: e.target.value })}>${Object.keys(orders).map((o) => html`<option value=${o} selected=${o === order}>${o}</option>`)}</select>
      <span class="quiet">${list.length > shown.length ? number(shown.length) + " of " : ""}${number(list.length)} topics; p99, retries and rejections of ${over}</span></div>
    ${shown.length ? html`<${Table} label="Topics" columns=${[["Topic"], ["Per second", true], ["p99", true], ["Published since the start", true], ["Retries", true], ["Rejections", true], ["Last event"]]}
      rows=${shown.map((t) => ({ key: t.name, open: () => go({ topic: t.name }), cells: [text(t.name, 120), known(t.per_second, number), known(t.p99, duration), known(t.published, number),
        known(t.retried, number), known(t.rejected, (n) => n ? html`<span class="bad">${number(n)}</span>` : "0"), t.last ? html`<${Time} at=${t.last} />` : "never"] }))} />`
      : html`<p class="empty">${got.list.length ? "No topic has this in its name." : "Nothing was published since this process started."}</p>`}
    ${list.length > few && html`<button type="button" onClick=${() => showAll(!all)}>${all ? "Show " + few : "Show all"}</button>`}
    ${query.topic && html`<${Drawer} name=${query.topic} topic=${open} rights=${rights} onClose=${() => go({ topic: "" })} />`}
  </section>`;
}

function Drawer({ name, topic, rights, onClose }) {
  return html`<${Dialog} title=${text(name, 120)} className="drawer" onClose=${onClose}>
    ${topic && html`<${Pairs} list=${[["Events per second", known(topic.per_second, number)], ["Commit to Kafka, p99", known(topic.p99, duration)], ["Retries, rejections", html`${known(topic.retried, number)}, ${known(topic.rejected, number)}`],
      ["Last event", topic.last ? html`<${Time} at=${topic.last} />` : "never"]]} />`}
    <p><a href=${link("letters", { topic: name })}>Its dead letters</a></p>
    ${!rights.details ? html`<p class="quiet">${sentences(rights.reason)}</p>` : html`<${Inside} name=${name} />`}
  <//>`;
}

function Inside({ name }) {
  const [live, set] = useState(true);
  const tail = useAnswer(() => post("tail", { topic: name }), name, 3000, !live);
  return html`<div class="line"><h3>Last keys and IDs</h3><button type="button" onClick=${() => set(!live)}>${live ? "Pause this list" : "Follow"}</button></div>
    <${Answer} of=${tail} empty=${(t) => t.events.length ? "" : "Listening: what this relay publishes from now on is shown here."}>${(t) => html`<${Table} label="Last events" columns=${[["At"], ["Key"], ["Event"]]}
      rows=${t.events.map((e) => ({ key: e.at + e.id, cells: [html`<${Time} at=${e.at} />`, text(e.key, 80), html`<a href=${link("find", { id: e.id })}>${text(e.id, 80)}</a>`] }))} />`}<//>`;
}
