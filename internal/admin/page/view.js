// What every part of the page uses. What the relay sends goes into the page as text, never as HTML.
import htm from "./htm.js";
import { h, render } from "./preact.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./hooks.js";

export { render, useEffect, useLayoutEffect, useRef, useState };
export const html = htm.bind(h);

const invisible = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

// text makes characters visible that nobody sees, and cuts what is too long.
export function text(value, max = 400) {
  const all = String(value ?? "");
  const part = all.length > max ? all.slice(0, max) : all;
  const seen = part.replace(invisible, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
  return all.length > max ? seen + "… (" + number(all.length) + " characters)" : seen;
}

export const Unknown = () => html`<span class="unknown">unknown</span>`;

// known shows a value, or that it is not known.
export const known = (value, show = text) => value === null || value === undefined ? html`<${Unknown} />` : show(value);

export const number = (n) => n.toLocaleString("en", Math.abs(n) < 1 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: Math.abs(n) < 10 ? 1 : 0 });

export function bytes(n) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return number(n) + "\u00a0" + units[i];
}

export function duration(s) {
  if (s < 0) return "−" + duration(-s);
  if (s < 1) return number(s * 1000) + "\u00a0ms";
  if (s < 60) return (s < 10 ? number(s) : Math.floor(s)) + "\u00a0s";
  const [big, small, of, name, rest] = s < 3600 ? [60, 1, 60, "\u00a0min", "\u00a0s"] : s < 86400 ? [3600, 60, 60, "\u00a0h", "\u00a0min"] : [86400, 3600, 24, "\u00a0days", "\u00a0h"];
  const part = Math.floor(s / small) % of;
  return Math.floor(s / big) + name + (part ? "\u00a0" + part + rest : "");
}

let skew = 0; // how far this machine's clock is ahead of the relay's, in ms
export const setClock = (at) => { skew = Date.now() - Date.parse(at); };
export const now = () => Date.now() - skew;
export const since = (at) => Math.max(0, (now() - Date.parse(at)) / 1000);

export function clock(at, short) {
  const d = new Date(at);
  const day = d.toDateString() !== new Date(now()).toDateString() ? d.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + " " : "";
  return day + d.toLocaleTimeString("en-GB", short ? { hour: "2-digit", minute: "2-digit" } : undefined);
}

// prose is a sentence of the relay: it begins with a capital, and `this` is code, which can be copied if it is the command.
export const prose = (s, command) => sentences(s).replace(/^[a-z]+(?=[ ,]|: )/, (word) => word[0].toUpperCase() + word.slice(1)).split("`").map((part, i) => i % 2 ? html`<code>${part}</code>${part === command && html`<${Copy} value=${part} beside />`}` : part);

// sentences shows times within a text in the reader's time zone, and numbers as the page does.
export const sentences = (s) => text(s).replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, (at) => clock(at))
  .replace(/\b\d{4,}(?= (events?|dead letters?|are held)\b)/g, (n) => number(Number(n))).replace(/(\d) (?=(bytes|[kMGT]B)\b)/g, "$1\u00a0");

// useSecond draws anew each second: a duration counts on.
function useSecond() {
  const [, tick] = useState(0);
  useEffect(() => {
    const id = setInterval(() => tick((n) => n + 1), 1000);
    return () => clearInterval(id);
  }, []);
}

export function For({ at }) {
  useSecond();
  const s = since(at);
  return html`<span class="for">${duration(s < 10 ? Math.floor(s) + (s < 1 ? s % 1 : 0) : s)}</span>`;
}

export const Time = ({ at, short }) => at ? html`<time datetime=${at} title=${at}>${clock(at, short)}</time>` : html`<${Unknown} />`;

async function answer(response) {
  const type = response.headers.get("Content-Type") || "";
  const body = type.startsWith("application/json") ? await response.json() : { error: (await response.text()).trim().slice(0, 400) };
  if (!response.ok) throw new Error(body.error || "the relay answered " + response.status);
  return body;
}

// failed says what a browser's own messages do not.
const failed = (e) => { throw new Error(e.name === "TimeoutError" ? "There was no answer in time" : e instanceof TypeError ? "The relay cannot be reached" : e.message); };

export const get = (path, ms = 15000) => fetch(path, { signal: AbortSignal.timeout(ms) }).then(answer).catch(failed);
export const post = (path, body) => fetch("api/" + path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: AbortSignal.timeout(40000),
}).then(answer).catch(failed);

// useMounted is false in its current once the part is gone.
export function useMounted() {
  const here = useRef(true);
  useEffect(() => () => { here.current = false; }, []);
  return here;
}

// useAnswer asks at once, when what is asked changes, and every few seconds; with held it keeps what it has.
export function useAnswer(ask, what, every, held) {
  const [state, set] = useState({});
  const turn = useRef(0), busy = useRef(0);
  const again = async () => {
    const mine = ++turn.current;
    busy.current++;
    try {
      const got = await ask();
      if (mine === turn.current) set({ got, at: now() });
    } catch (e) {
      if (mine === turn.current) set((s) => ({ ...s, error: e.message }));
    }
    busy.current--;
  };
  useEffect(() => { set({}); again(); return () => { turn.current++; }; }, [JSON.stringify(what)]);
  useEffect(() => {
    if (!every || held) return undefined;
    const id = setInterval(() => document.hidden || busy.current || again(), every);
    return () => clearInterval(id);
  }, [every, held, JSON.stringify(what)]);
  return { ...state, again };
}

// Answer shows loading, failed or empty, each in its own way, or what was answered.
export function Answer({ of, empty, children }) {
  if (of.error && !of.got) return html`<p class="failed" role="alert">${sentences(of.error)} <button type="button" onClick=${of.again}>Try again</button></p>`;
  if (!of.got) return html`<p class="loading" role="status"><span class="spin" aria-hidden="true"></span>Loading</p>`;
  return html`${of.error && html`<p class="failed" role="alert">Shown is the state of <${Time} at=${new Date(of.at).toISOString()} />: ${sentences(of.error)}</p>`}
    ${empty && empty(of.got) ? html`<p class="empty">${empty(of.got)}</p>` : children(of.got)}`;
}

// Table has columns [name, isNumber]; a row is {key, cells, open}: open makes its first cell a button.
export const Table = ({ label, columns, rows }) => html`<div class="scroll" tabindex="0" role="group" aria-label=${label}><table>
  <thead><tr>${columns.map(([name, n]) => html`<th scope="col" class=${n ? "n" : ""}>${name}</th>`)}</tr></thead>
  <tbody>${rows.map((r) => html`<tr key=${r.key} class=${r.className || ""}>${r.cells.map((cell, i) => html`<td data-label=${typeof columns[i][0] === "string" ? columns[i][0] : ""} class=${columns[i][1] ? "n" : ""}>${
    i === 0 && r.open ? html`<button type="button" class="link" onClick=${r.open}>${cell}</button>` : cell}</td>`)}</tr>`)}</tbody>
</table></div>`;

export const Pairs = ({ list }) => html`<dl class="pairs">${list.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

// Dialog is open as long as it is drawn. Escape and a click beside it close it, unless something runs in it, which only its button stops.
export function Dialog({ title, className, runs, onClose, children }) {
  const ref = useRef();
  useLayoutEffect(() => { const before = document.activeElement; ref.current.showModal(); return () => before && before.focus && before.focus(); }, []);
  return html`<dialog ref=${ref} class=${className} aria-label=${title} onClose=${onClose} onCancel=${(e) => runs && e.preventDefault()}
    onClick=${(e) => !runs && e.target === ref.current && ref.current.close()}>
    <div class="inside"><header><h2>${title}</h2><button type="button" class="plain" onClick=${() => ref.current.close()}>${runs ? "Stop" : "Close"}</button></header>${children}</div>
  </dialog>`;
}

export function Copy({ value, beside }) {
  const [done, set] = useState("");
  const copy = async () => {
    try { await navigator.clipboard.writeText(value); set("Copied"); } catch { set("Select it and copy"); }
    setTimeout(() => set(""), 2000);
  };
  return html`<span class=${beside ? "command beside" : "command"}>${!beside && html`<code>${text(value)}</code>`}<button type="button" onClick=${copy} aria-label=${"Copy " + text(value, 80)}>${done || "Copy"}</button></span>`;
}

// The address has the view and its filter: #letters?reason=unroutable.
export function place() {
  const [view, query] = location.hash.slice(1).split("?");
  return { view: view || "overview", query: Object.fromEntries(new URLSearchParams(query || "")) };
}

export function link(view, query = {}) {
  const set = new URLSearchParams(Object.entries(query).filter(([, v]) => v)).toString();
  return "#" + view + (set ? "?" + set : "");
}
