// The page asks the relay every two seconds, and draws what it knows.
import { For, Time, get, html, known, now, number, place, render, sentences, setClock, text, useEffect, useState } from "./view.js";
import { Charts, pastOf } from "./charts.js";
import { Letters } from "./letters.js";
import { Fleet, Find, Operations } from "./tools.js";
import { Incidents, Topics } from "./topics.js";
import { Numbers, Verdict, Way, lost } from "./verdict.js";

const every = 2000;

// useRelay has the last answer, when it came, and why there is none now.
function useRelay(minutes) {
  const [state, set] = useState({});
  useEffect(() => {
    let ended = false, timer;
    async function look() {
      try {
        const data = await get("api/page?minutes=" + minutes, 8000);
        if (!data.verdict || !data.at) throw new Error("The relay's answer has no verdict: it is of another version than this page. Load the page again");
        setClock(data.at);
        if (!ended) set({ data, past: pastOf(data.history), seen: data.at });
      } catch (e) {
        if (!ended) set((s) => ({ ...s, wrong: e.message, from: s.from || s.seen || new Date(now()).toISOString() }));
      }
      if (!ended) timer = setTimeout(look, every);
    }
    look();
    return () => { ended = true; clearTimeout(timer); };
  }, [minutes]);
  return state;
}

function useRights() {
  const [rights, set] = useState({ loaded: false });
  useEffect(() => {
    let timer;
    const ask = () => get("api/rights").then((r) => set({ ...r, loaded: true }), (e) => { set({ loaded: false, error: e.message, again: ask }); timer = setTimeout(ask, 5000); });
    ask();
    return () => clearTimeout(timer);
  }, []);
  return rights;
}

function usePlace() {
  const [at, set] = useState(place());
  useEffect(() => {
    const moved = () => set(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  return at;
}

const views = [["overview", "Overview"], ["topics", "Topics"], ["letters", "Dead letters"], ["find", "Find"], ["operations", "Operations"], ["fleet", "Fleet"]];

const Header = ({ data, view }) => html`<header class="top"><a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>Skip to the content</a>
  <h1>cdc-relay <span>${data ? text((data.source || {}).database, 60) + " " : ""}<span class="host">${data ? text(data.instance, 60) : ""}</span></span></h1>
  <nav aria-label="Views">${views.map(([id, name]) => {
    const n = data && (id === "letters" ? (data.now || {}).dead_letters : id === "topics" ? ((data.topics || {}).list || []).length : 0);
    return html`<a key=${id} href=${"#" + id} aria-current=${view === id ? "page" : undefined}>${name}${n ? html` <span class="count">${number(n)}</span>` : ""}</a>`;
  })}</nav></header>`;

function View({ at, data, past, rights, range, setRange, onFleet }) {
  switch (at.view) {
    case "topics": return html`<${Topics} data=${data} query=${at.query} rights=${rights} />`;
    case "letters": return html`<${Letters} query=${at.query} rights=${rights} />`;
    case "find": return html`<${Find} query=${at.query} rights=${rights} />`;
    case "operations": return html`<${Operations} data=${data} rights=${rights} />`;
    case "fleet": return html`<${Fleet} onVerdict=${onFleet} />`;
    default: return html`<${Way} data=${data} /><${Numbers} data=${data} past=${past} rights=${rights} />${data.verdict.state !== "standing_by" && html`<${Charts} data=${data} past=${past} range=${range} setRange=${setRange} />`}<${Incidents} list=${data.incidents} />`;
  }
}

function App() {
  const [range, setRange] = useState(60), [fleet, onFleet] = useState(null);
  const relay = useRelay(Math.max(range, 60)), rights = useRights(), at = usePlace();
  const { data, past, wrong } = relay;
  const v = wrong ? lost(relay.from, sentences(wrong), data || {}) : at.view === "fleet" && fleet ? fleet : data ? data.verdict : { level: "idle", title: "Asking the relay" };
  return html`<${Header} data=${data} view=${at.view} /><${Verdict} v=${v} data=${data} />
    <main id="main" tabindex="-1" class=${wrong ? "stale" : ""}>
      ${wrong && data && html`<p class="note">Below is the state of <strong><${Time} at=${relay.seen} /></strong>, <${For} at=${relay.seen} /> ago.</p>`}
      ${data ? html`<${View} at=${at} data=${data} past=${past} rights=${rights} range=${range} setRange=${setRange} onFleet=${onFleet} />` : !wrong && html`<div class="blank"></div>`}
    </main>
    <footer>${data ? html`${text(data.instance, 80)}, ${known(data.version)}, started <${Time} at=${data.started_at} /> · ` : ""}<a href="status">Status</a> · <a href="metrics">Metrics</a></footer>`;
}

render(html`<${App} />`, document.getElementById("app"));
