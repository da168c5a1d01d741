import { $, ago, el, number, post, table } from "./dom.js";

let pages = [""]; // the letters after which the pages so far begin
let busy = false;

function confirmed(text, verb) {
  const dialog = $("confirm");
  $("confirm-text").textContent = text;
  $("confirm-yes").textContent = verb;
  return new Promise((resolve) => {
    let yes = false;
    $("confirm-yes").onclick = () => { yes = true; dialog.close(); };
    $("confirm-no").onclick = () => dialog.close();
    dialog.onclose = () => resolve(yes);
    dialog.showModal();
    $("confirm-no").focus();
  });
}

function say(text, className) {
  $("letters").querySelector(".say").replaceChildren(el("p", text, className));
}

async function resolve(letter, action, verb, text) {
  if (busy || !await confirmed(text, verb)) return;
  busy = true;
  say(verb + " is under way: the leading relay does it", "quiet");
  try {
    await post("api/resolve", { do: action, id: letter.letter });
    await load();
    say(verb + ": done", "good");
  } catch (e) {
    say(verb + ": " + e.message, "bad");
  }
  busy = false;
}

function buttons(letter) {
  const line = el("div", undefined, "actions");
  const name = "event " + (letter.id || letter.letter);
  const add = (verb, action, text) => {
    const b = el("button", verb);
    b.type = "button";
    b.setAttribute("aria-label", verb + " " + name);
    b.onclick = () => resolve(letter, action, verb, text);
    line.append(b);
  };
  add("Retry", "retry", "Publish " + name + " again? Those that wait for it follow.");
  add("Drop", "drop", "Drop " + name + "? It is never published, and this cannot be undone. Those that wait for it follow.");
  return line;
}

function button(text, on, disabled) {
  const b = el("button", text);
  b.type = "button";
  b.onclick = on;
  b.disabled = disabled;
  return b;
}

let actions = false;

async function load() {
  const got = await post("api/letters", { after: pages[pages.length - 1] });
  const columns = [["Event"], ["Key"], ["Topic"], ["Reason"], ["Error"], ["Since"], ["Attempts", true]];
  const rows = got.letters.map((l) => [l.id || l.letter, l.key || "", l.topic || "", el("span", l.reason, "whole"), l.error || "", ago(l.time), number(l.attempts || 0)]);
  if (actions) {
    columns.push(["Actions"]);
    rows.forEach((row, i) => row.push(buttons(got.letters[i])));
  }
  const reasons = Object.entries(got.reasons).map(([reason, n]) => reason + " " + number(n)).join(", ");
  const nav = el("div", undefined, "line");
  nav.append(
    button("Reload", turn(() => { pages = [""]; }), false),
    button("Previous", turn(() => pages.pop()), pages.length < 2),
    button("Next", turn(() => pages.push(got.letters[got.letters.length - 1].letter)), !got.more),
    el("span", got.total ? number(got.total) + " (" + reasons + "), page " + pages.length : "No dead letters", "quiet"));
  $("letters").replaceChildren(nav, el("div", undefined, "say"), ...(rows.length ? [table(columns, rows)] : []));
}

const turn = (change) => async () => {
  change();
  try { await load(); } catch (e) { pages = [""]; say(e.message, "bad"); }
};

// start shows what the caller may see.
export async function start(rights) {
  actions = rights.actions;
  if (!rights.letters) return $("letters").replaceChildren(el("p", "The configuration has none: set one of errors.* to dead_letter.", "quiet"));
  if (!rights.details) return $("letters").replaceChildren(el("p", rights.reason, "quiet"));
  $("letters").replaceChildren(el("div", undefined, "say"));
  try { await load(); } catch (e) {
    $("letters").replaceChildren(button("Reload", () => start(rights), false), el("p", e.message, "bad"));
  }
}
