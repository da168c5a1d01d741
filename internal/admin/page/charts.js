/* global uPlot */
import { $ } from "./dom.js";

const charts = {};

function draw(id, label, data) {
  const css = getComputedStyle(document.documentElement);
  const color = (name) => css.getPropertyValue(name).trim();
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  if (charts[id]) charts[id].destroy();
  charts[id] = new uPlot({
    width: $(id).clientWidth, height: 170, legend: { show: false }, cursor: { drag: { x: false, y: false } },
    scales: { x: { range: (_, first) => span(first) }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [axis, { ...axis, size: 56 }],
    series: [{}, { label, stroke: color("--accent"), width: 1.5, points: { show: false } }],
  }, data, $(id));
}

// span is the hour, or less after a start, but not so little that the axis shows seconds.
function span(first) {
  const now = Date.now() / 1000;
  return [Math.max(now - 3600, Math.min(first ?? now, now - 300)), now];
}

let last = [];

export function show(samples) {
  last = samples;
  const at = samples.map((s) => s.at);
  const rates = samples.map((s, i) => {
    const before = samples[i - 1];
    return before && s.at > before.at ? Math.max(0, s.published - before.published) / (s.at - before.at) : null;
  });
  draw("rate", "events per second", [at, rates]);
  draw("lag", "seconds", [at, samples.map((s) => s.lag)]);
  const rate = rates.length ? rates[rates.length - 1] : null;
  $("rate").setAttribute("role", "img");
  $("rate").setAttribute("aria-label", "Events per second, now " + (rate === null ? "unknown" : rate.toFixed(1)));
  $("lag").setAttribute("role", "img");
  $("lag").setAttribute("aria-label", "Lag in seconds, now " + (samples.length ? samples[samples.length - 1].lag.toFixed(2) : "unknown"));
}

const again = () => last.length && show(last);
addEventListener("resize", again);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
