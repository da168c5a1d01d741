import { $, el, keepScroll, number, seconds, table } from "./dom.js";

const few = 50; // rows until all are asked for
const orders = {
  rate: (a, b) => b.per_second - a.per_second,
  errors: (a, b) => b.errors - a.errors,
  p99: (a, b) => (b.p99 || 0) - (a.p99 || 0),
  name: () => 0,
};
let last = { topics: [] };
let all = false;

// show sorts and filters the topics, which come in the order of their names.
export function show(got) {
  last = got;
  const words = $("topic-filter").value.trim().toLowerCase();
  const list = got.topics.filter((t) => t.name.toLowerCase().includes(words)).sort(orders[$("topic-order").value]);
  const shown = all ? list : list.slice(0, few);
  $("topic-tools").hidden = got.topics.length < 2;
  $("topic-count").textContent = (list.length > shown.length ? number(shown.length) + " of " : "") + number(list.length) + " topics";
  $("topic-all").hidden = list.length <= few;
  $("topic-all").textContent = all ? "Show " + few : "Show all";
  const rows = shown.map((t) => [t.name, number(t.published), number(t.per_second), t.p99 ? "≤ " + seconds(t.p99) : "none", number(t.errors)]);
  const over = ", last " + Math.max(1, Math.round(got.seconds)) + " s";
  keepScroll($("topics"), rows.length
    ? table([["Topic"], ["Published", true], ["Per second" + over, true], ["p99 to Kafka" + over, true], ["Errors", true]], rows)
    : el("p", got.topics.length ? "No topic has this in its name." : "This relay has published nothing since it started.", "quiet"));
}

const again = () => show(last);
$("topic-filter").oninput = again;
$("topic-order").onchange = again;
$("topic-all").onclick = () => { all = !all; again(); };
