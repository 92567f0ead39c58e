// The fleet: a row for each JVM that runs, and the kills of the last week above.

import {el, svg, mib, age, setText, when, verdicts} from "./format.js";
import {get, all} from "./main.js";

const columns = [
  {id: "name", title: "JVM", value: j => j.name.toLowerCase(), text: true},
  {id: "limit", title: "Limit", value: j => j.limit ?? -1},
  {id: "needed", title: "Needed", value: j => j.needed, help: "what the group uses and the kernel cannot drop"},
  {id: "headroom", title: "Headroom", value: j => j.headroom ?? Infinity},
  {id: "share", title: "Of its limit", graph: true, value: j => j.limit ? j.needed / j.limit : -1},
  {id: "liveSet", title: "Live set", value: j => j.liveSet, help: "what the last collection left"},
  {id: "savable", title: "Could be saved", value: j => j.savable, help: "by what tare doctor is certain of"},
  {id: "spark", title: "Last hour", graph: true, value: j => Math.max(-1, ...j.spark.peaks) - Math.min(...j.spark.peaks.filter(p => p >= 0))},
  {id: "look", title: "Last look", value: j => Date.parse(j.countersAt ?? j.last), help: "how long ago its counters were read"},
];

// kept is how the reader sorts and filters, for as long as the tab is open.
const kept = {by: "share", descending: true, filter: ""};

export async function fleet(main) {
  const rows = new Map(); // by id: {tr, cells, jvm}
  const killed = el("section", {class: "kills", hidden: true, "aria-label": "kills of the last week"});
  const count = el("span", {class: "soft", role: "status"});
  const filter = el("input", {type: "search", id: "filter", placeholder: "name, machine, pod", value: kept.filter,
    oninput: () => { kept.filter = filter.value; arrange(); }});
  const heads = columns.map(c => el("th", {scope: "col", class: c.text || c.graph ? null : "n", title: c.help},
    el("button", {type: "button", onclick: () => sortBy(c)}, c.title)));
  const body = el("tbody");
  const empty = el("p", {hidden: true}, "No JVM was seen in the last quarter of an hour. ", el("code", {}, "tare agent --to URL"), " on each machine sends them here; a JVM is seen some seconds after its start.");

  function sortBy(c) {
    if (kept.by === c.id) kept.descending = !kept.descending;
    else Object.assign(kept, {by: c.id, descending: !c.text});
    arrange();
  }

  // arrange sorts and filters the rows that there are.
  function arrange() {
    const column = columns.find(c => c.id === kept.by);
    columns.forEach((c, i) => {
      if (c === column) heads[i].setAttribute("aria-sort", kept.descending ? "descending" : "ascending");
      else heads[i].removeAttribute("aria-sort");
    });
    const words = kept.filter.toLowerCase().split(/\s+/);
    const shown = [...rows.values()].filter(r => words.every(w => r.text.includes(w)));
    for (const r of shown) r.key = column.value(r.jvm);
    const sign = kept.descending ? -1 : 1;
    shown.sort((a, b) => (a.key < b.key ? -sign : a.key > b.key ? sign : a.jvm.id - b.jvm.id));
    const wanted = shown.map(r => r.tr);
    if (wanted.length !== body.children.length || wanted.some((tr, i) => body.children[i] !== tr)) body.replaceChildren(...wanted);
    setText(count, shown.length === rows.size ? `${rows.size} ${rows.size === 1 ? 'JVM' : 'JVMs'}` : `${shown.length} of ${rows.size} JVMs`);
    empty.hidden = rows.size > 0;
  }

  async function update() {
    const [jvms, kills] = await Promise.all([all("jvms", {state: "live"}), get("kills", {limit: 200})]);
    const there = new Set();
    for (const j of jvms) {
      there.add(j.id);
      let row = rows.get(j.id);
      if (!row) rows.set(j.id, row = newRow(j));
      fill(row, j);
    }
    for (const id of rows.keys()) if (!there.has(id)) rows.delete(id);
    showKills(killed, kills.items);
    arrange();
  }

  const table = el("table", {class: "fleet"}, el("thead", {}, el("tr", {}, heads)), body);
  await update();
  main.replaceChildren(killed, el("h1", {}, "Fleet"),
    el("div", {class: "tools"}, el("label", {for: "filter"}, "Filter"), filter, count), el("div", {class: "wide"}, table), empty);
  return {update};
}

function newRow(j) {
  const cells = Object.fromEntries(columns.map(c => [c.id, el("td", {class: c.text ? "name" : "n", "data-label": c.title})]));
  const link = el("a", {href: "#/jvm/" + j.id});
  const where = el("div", {class: "soft small"});
  cells.name.append(link, where);
  cells.share.className = cells.spark.className = "graph";
  return {tr: el("tr", {}, Object.values(cells)), cells, link, where};
}

function fill(row, j) {
  row.jvm = j;
  row.text = [j.name, j.machine, j.pod, j.namespace, j.container, j.jdk].join(" ").toLowerCase();
  const c = row.cells;
  setText(row.link, j.name || "pid " + j.pid);
  setText(row.where, [j.machine, j.namespace, j.pod ?? j.container?.slice(0, 12), `pid ${j.pid}`, j.jdk && `JDK ${j.jdk}`, j.collector].filter(Boolean).join(" · "));
  setText(c.limit, j.limit ? mib(j.limit) : "none");
  setText(c.needed, mib(j.needed));
  setText(c.headroom, j.headroom == null ? "" : mib(j.headroom));
  c.headroom.classList.toggle("bad", j.headroom != null && j.headroom < 0.05 * j.limit);
  setText(c.liveSet, j.liveSet ? mib(j.liveSet) : "");
  setText(c.savable, j.savable ? mib(j.savable) : "");
  setText(c.look, j.countersAt ? age((Date.now() - Date.parse(j.countersAt)) / 1000) : "");
  const drawn = JSON.stringify([j.limit, j.needed, j.reclaimable, j.spark]);
  if (row.drawn !== drawn) {
    row.drawn = drawn;
    c.share.replaceChildren(bar(j));
    c.spark.replaceChildren(spark(j));
  }
}

// bar shows of the limit what is needed, what can be dropped, and what is free.
function bar(j) {
  const width = 120, height = 12;
  if (!j.limit) return "";
  const x = bytes => Math.max(0, Math.min(width, bytes / j.limit * width));
  const needed = x(j.needed), drop = x(j.needed + j.reclaimable);
  const text = `${Math.round(100 * j.needed / j.limit)} % needed, ${mib(j.reclaimable)} can be dropped, ${mib(j.headroom)} left`;
  return svg("svg", {class: "bar" + (j.needed > 0.95 * j.limit ? " full" : ""), width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text},
    svg("title", {}, text), svg("rect", {class: "free", width, height}), svg("rect", {class: "drop", width: drop, height}), svg("rect", {class: "needed", width: needed, height}));
}

// spark shows the peaks of the last hour's minutes, from zero to the largest.
function spark(j) {
  const width = 120, height = 24, {minute, peaks} = j.spark;
  const most = Math.max(1, ...peaks), now = Math.floor(Date.now() / 60000);
  let line = "", open = false;
  peaks.forEach((p, i) => {
    const x = width - (now - minute + peaks.length - 1 - i) * width / 60;
    if (p < 0 || x < 0) return void (open = false);
    line += (open ? "L" : "M") + x.toFixed(1) + " " + (height - 1 - p / most * (height - 3)).toFixed(1);
    open = true;
  });
  const text = "needed in the last hour, at most " + mib(most);
  return svg("svg", {class: "spark", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": text}, svg("title", {}, text), svg("path", {d: line || "M0 0"}));
}

function showKills(section, kills) {
  section.hidden = kills.length === 0;
  const worst = [...kills].sort((a, b) => (b.verdict === "jvm-ended") - (a.verdict === "jvm-ended") || Date.parse(b.at) - Date.parse(a.at));
  const drawn = JSON.stringify(worst.map(k => [k.id, k.verdict, k.autopsy?.headline]));
  if (section.dataset.drawn === drawn) return;
  section.dataset.drawn = drawn;
  const more = kills.length > 3 ? [el("p", {class: "small"}, el("a", {href: "#/kills"}, `all ${kills.length}${kills.length === 200 ? " and more" : ""}`))] : [];
  section.replaceChildren(el("h2", {}, "Killed in the last week"), el("ol", {}, worst.slice(0, 3).map(k => el("li", {},
    el("a", {href: "#/jvm/" + k.jvm}, k.name || "JVM " + k.jvm), ` on ${k.machine}, ${when(k.at)}: ${k.autopsy?.headline ?? verdicts[k.verdict] ?? k.verdict}`))), ...more);
}
