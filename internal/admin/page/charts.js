// The charts have one cross-hair. Spans of outages are shaded; what is not known is a gap.
/* global uPlot */
import { bytes, clock, duration, html, number, useEffect, useLayoutEffect, useRef, useState } from "./view.js";

const ranges = [["15 min", 15], ["1 h", 60], ["6 h", 360]];
// brief is a duration in one unit.
function brief(s) {
  const [of, unit] = s < 1 ? [0.001, " ms"] : s < 180 ? [1, " s"] : s < 10800 ? [60, " min"] : [3600, " h"];
  return number(s / of) + unit;
}

const figures = [
  { name: "Events per second", columns: [0], labels: ["published"], show: number, least: 1 },
  { name: "Lag", columns: [1], labels: ["lag"], show: duration, axis: brief, least: 0.01 },
  { name: "Commit to Kafka", columns: [3, 2], labels: ["p99", "p50"], none: true, show: duration, axis: brief, least: 0.01 },
  { name: "Kept by the database", columns: [5], labels: ["kept"], show: bytes, limit: true, least: 1024, steps: Array.from({ length: 50 }, (_, i) => 2 ** i) },
];
// The verdict of each moment is a column of its own: publishing, publishing but, not publishing, standing by, starting, stopping, parked.
const verdicts = 7, shades = [null, "warn", "bad", null, null, null, "bad"];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

const moments = ["leading", "standby", "takeover"];

// shade paints when nothing was published, or something was amiss, and takeovers, over the whole height, at least three pixels wide.
function shade(u, { past, seconds, incidents }) {
  const { left, top, width, height } = u.bbox;
  const paint = (name, from, to) => {
    const end = u.valToPos(to, "x", true), a = Math.max(left, u.valToPos(from, "x", true)), b = Math.min(left + width, Math.max(end, a + 3));
    if (b <= a || end < left) return;
    u.ctx.fillStyle = color(name);
    u.ctx.fillRect(a, top, b - a, height);
  };
  u.ctx.save();
  u.ctx.globalAlpha = 0.2;
  (past.columns[verdicts] || []).forEach((v, i) => { if (shades[v]) paint(shades[v], past.times[i] - seconds, past.times[i]); });
  for (const i of incidents) if (moments.includes(i.what)) paint("accent", Date.parse(i.from) / 1000, Date.parse(i.from) / 1000);
  u.ctx.restore();
}

function Chart({ figure, past, incidents, limit, range, end, seconds }) {
  const box = useRef(), plot = useRef(), state = useRef();
  const [at, hover] = useState(null);
  const series = figure.columns.map((c) => past.columns[c] || []);
  state.current = { incidents, range, end, past, seconds };
  const data = [past.times, ...series, ...(figure.limit && limit ? [past.times.map(() => limit)] : [])];
  const [scheme, again] = useState(0);
  useEffect(() => {
    const redraw = () => again((n) => n + 1);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", redraw);
    addEventListener("resize", redraw);
    return () => { dark.removeEventListener("change", redraw); removeEventListener("resize", redraw); };
  }, []);
  const span = (first) => { const { range, end } = state.current; return [Math.max(end - range * 60, Math.min(first ?? end, end - 300)), end]; }; // less after a start
  useLayoutEffect(() => {
    const axis = { stroke: color("quiet"), grid: { stroke: color("line"), width: 1 }, ticks: { stroke: color("line"), size: 4 }, font: "12px system-ui, sans-serif" };
    plot.current = new uPlot({
      width: box.current.clientWidth, height: 150, legend: { show: false }, padding: [8, 18, 0, 0],
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: { x: { range: (_, first) => span(first) }, y: { range: (_, __, max) => [0, Math.max(max * 1.1, figure.least)] } },
      axes: [{ ...axis, size: 28, space: 70, values: (_, list) => list.map((t) => clock(t * 1000, list[1] - list[0] >= 60)) },
        { ...axis, size: 70, ...(figure.steps ? { incrs: figure.steps } : {}), values: (_, list) => list.map(figure.axis || figure.show) }],
      series: [{}, ...figure.columns.map((_, i) => ({ stroke: color(i ? "quiet" : "accent"), width: 1.5, points: { show: false } })),
        ...(data.length > figure.columns.length + 1 ? [{ stroke: color("bad"), width: 1, dash: [4, 4], points: { show: false } }] : [])],
      hooks: { drawAxes: [(u) => shade(u, state.current)], setCursor: [(u) => hover(u.cursor.idx ?? null)] },
    }, data, box.current);
    return () => plot.current.destroy();
  }, [scheme, data.length]);
  useLayoutEffect(() => plot.current.setData(data));
  const i = at !== null && at < past.times.length ? at : past.times.length - 1;
  const values = figure.labels.map((label, k) => { const v = (series[k] || [])[i]; return (figure.labels.length > 1 ? label + " " : "") + (v !== null && v !== undefined ? figure.show(v) : figure.none && (past.columns[0] || [])[i] === 0 ? "none" : "unknown"); }).join(", ");
  const when = i < 0 ? "" : clock(past.times[i] * 1000);
  return html`<figure><figcaption>${figure.name}<span class="value">${values} <span class="quiet">${when}</span></span></figcaption>
    <div class="chart" ref=${box} role="img" aria-label=${figure.name + ": " + values + " " + when}></div></figure>`;
}

export function Charts({ data, past, range, setRange }) {
  const limit = (data.now || {}).limit_bytes;
  const end = Date.parse(data.at) / 1000;
  return html`<section aria-labelledby="h-charts"><div class="line"><h2 id="h-charts">Charts</h2>
    <div class="group" role="group" aria-label="Time range">${ranges.map(([name, s]) => html`<button type="button" aria-pressed=${String(range === s)} onClick=${() => setRange(s)}>${name}</button>`)}</div>
    <span class="quiet key"><i class="bad"></i>not publishing <i class="warn"></i>impaired <i class="accent"></i>takeover</span></div>
    <div class="charts">${figures.map((f) => html`<${Chart} key=${f.name} figure=${f} past=${past} incidents=${data.incidents || []} limit=${limit} range=${range} end=${end} seconds=${(data.history || {}).seconds || 10} />`)}</div>
  </section>`;
}

// pastOf makes columns, which charts take, of the rows of the history. What is not known is null.
export function pastOf(history) {
  const { samples = [], seconds = 10, from } = history || {};
  return {
    times: samples.map((_, i) => Date.parse(from) / 1000 + (i + 1) * seconds),
    columns: Array.from({ length: 8 }, (_, c) => samples.map((row) => row[c] ?? null)),
  };
}
