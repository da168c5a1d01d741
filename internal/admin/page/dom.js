// Everything from the database goes into the page as text, never as HTML.
export const $ = (id) => document.getElementById(id);

export function el(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

export function pairs(dl, list) {
  dl.replaceChildren(...list.map(([name, text, className]) => {
    const pair = el("div");
    pair.append(el("dt", name), el("dd", text, className));
    return pair;
  }));
}

// table has a column for each [name, isNumber]; a cell is text or an element.
export function table(columns, rows) {
  const t = el("table", undefined, "wide");
  const head = t.createTHead().insertRow();
  for (const [name, number] of columns) {
    const th = el("th", name, number ? "number" : "");
    th.scope = "col";
    head.append(th);
  }
  const body = t.createTBody();
  for (const row of rows) {
    const tr = body.insertRow();
    row.forEach((cell, i) => {
      const td = tr.insertCell();
      td.dataset.label = columns[i][0];
      if (columns[i][1]) td.className = "number";
      if (cell instanceof Node) { td.append(cell); } else { td.textContent = cell; }
    });
  }
  const scroll = el("div", undefined, "scroll");
  scroll.tabIndex = 0; // the keyboard scrolls it
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", columns[0][0] + " table");
  scroll.append(t);
  return scroll;
}

// keepScroll replaces what parent shows by child, at the place and with the focus of before.
export function keepScroll(parent, child) {
  const old = parent.firstElementChild;
  const [top, focused] = old ? [old.scrollTop, old === document.activeElement] : [0, false];
  parent.replaceChildren(child);
  child.scrollTop = top;
  if (focused) child.focus();
}

async function answer(response) {
  const type = response.headers.get("Content-Type") || "";
  const body = type.startsWith("application/json") ? await response.json() : { error: (await response.text()).trim() };
  if (!response.ok) throw new Error(body.error || "the relay answered " + response.status);
  return body;
}

export const get = async (path) => answer(await fetch(path, { signal: AbortSignal.timeout(15000) }));
export const post = async (path, body) => answer(await fetch(path, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: AbortSignal.timeout(40000),
}));

export const number = (n) => n === undefined ? "unknown" : n.toLocaleString("en", { maximumFractionDigits: n < 10 ? 2 : 0 });

export function bytes(n) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return number(n) + " " + units[i];
}

export function seconds(s) {
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 120) return number(s) + " s";
  if (s < 7200) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " days";
}

export const ago = (time) => time ? seconds(Math.max(0, (Date.now() - Date.parse(time)) / 1000)) + " ago" : "never";
