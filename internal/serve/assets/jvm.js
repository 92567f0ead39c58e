// One JVM over time.

import {el, mib, signed, age, when, setText, css, colour, ownerNames, ownerOrder, verdicts} from "./format.js";
import {get, all} from "./main.js";

const spans = {"1 h": 3600, "6 h": 21600, "24 h": 86400, "7 d": 604800, "30 d": 2592000, "90 d": 7776000};
const marked = {"oom-kill": "killed in its group", "limit-reached": "limit reached", "ended": "ended"};

export async function jvm(main, id, from, to) {
  const zooms = from ? [[Number(from), Number(to)]] : [];
  let span = "1 h", plots = [], data = null, compared = [0, -1], zooming = false;

  const title = el("h1"), facts = el("dl", {class: "facts"}), findings = el("aside", {"aria-label": "findings"});
  const memory = el("div", {class: "plot"}), heap = el("div", {class: "plot"});
  const choose = Object.keys(spans).map(s => el("button", {type: "button", onclick: () => { span = s; zooms.length = 0; draw(); }}, s));
  const out = el("button", {type: "button", onclick: zoomOut, title: "also: Escape, or a double click"}, "Zoom out");
  const resolution = el("span", {class: "soft small"});
  const sliders = [0, 1].map(i => el("input", {type: "range", min: 0, value: 0, "aria-label": "moment " + "AB"[i], oninput: () => { compared[i] = Number(sliders[i].value); compare(); }}));
  const outputs = [el("output"), el("output")];
  const table = el("tbody");
  const moments = el("section", {class: "moments"}, el("h2", {}, "Two moments"),
    sliders.map((s, i) => el("label", {}, el("strong", {}, "AB"[i]), s, outputs[i])),
    el("div", {class: "wide"}, el("table", {}, el("thead", {}, el("tr", {}, ["Resident", "A", "B", "Change"].map((t, i) => el("th", {scope: "col", class: i ? "n" : null}, t)))), table)));
  const why = el("section", {class: "why", hidden: true, "aria-label": "why it ended"});
  const events = el("tbody"), none = el("p", {class: "soft"}, "none");

  function range() {
    if (zooms.length) return zooms[zooms.length - 1];
    const end = data?.jvm.ended ? Date.parse(data.jvm.ended) / 1000 + 30 : Date.now() / 1000;
    return [end - spans[span], end];
  }

  function zoomOut() {
    if (zooms.length) { zooms.pop(); draw(); }
  }

  async function load() {
    const detail = await get("jvms/" + id);
    data = {...data, jvm: detail};
    const [a, b] = range(), query = {from: Math.floor(a), to: Math.ceil(b), points: Math.max(100, Math.min(1000, memory.clientWidth || 800))};
    const [samples, footprints, list] = await Promise.all([get(`jvms/${id}/samples`, query), get(`jvms/${id}/footprints`, query),
      get(`jvms/${id}/events`, {from: query.from, to: query.to, limit: 1000})]);
    data = {jvm: detail, samples, footprints, events: list.items, from: a, to: b};
  }

  async function draw() {
    await load();
    describe();
    graph();
    compare();
  }

  async function update() {
    if (zooms.length === 0) return draw();
    data.jvm = await get("jvms/" + id);
    describe();
  }

  function describe() {
    const j = data.jvm, p = j.process;
    setText(title, j.name || "pid " + j.pid);
    const pairs = {machine: j.machine, pid: j.pid, JDK: j.jdk, collector: j.collector, namespace: j.namespace, pod: j.pod, container: j.container?.slice(0, 12), group: p.group?.path,
      started: j.started && when(j.started), [j.ended ? "ended" : "seen"]: j.ended ? when(j.ended) : age((Date.now() - Date.parse(j.last)) / 1000) + " ago",
      limit: j.limit ? mib(j.limit) : "none", needed: mib(j.needed), headroom: j.headroom == null ? null : mib(j.headroom), "live set": j.liveSet ? mib(j.liveSet) : null};
    facts.replaceChildren(...Object.entries(pairs).filter(([, v]) => v != null && v !== "").map(([k, v]) => el("div", {}, el("dt", {}, k), el("dd", {}, String(v)))));
    findings.replaceChildren(el("h2", {}, "Findings"), ...(j.found.length ? j.found.map(f => el("div", {class: "finding"}, f.title,
      el("div", {class: "soft small"}, [f.bytes ? mib(f.bytes) : "", f.certainty, f.id].filter(Boolean).join(" · ")))) : [el("p", {class: "soft"}, "none")]),
      el("p", {class: "small soft"}, "What to do: ", el("code", {}, "tare doctor " + j.pid), " on its machine."));
    explain(j.autopsy);
    none.hidden = data.events.length > 0;
    events.replaceChildren(...data.events.slice(-200).reverse().map(e => el("tr", {}, el("td", {}, when(e.at)), el("td", {}, marked[e.kind] ?? e.kind),
      el("td", {class: "wrap"}, e.text ?? (e.values ? Object.entries(e.values).map(([k, v]) => `${k} ${v}`).join(", ") : "")))));
    for (const b of choose) b.setAttribute("aria-pressed", zooms.length === 0 && b.textContent === span);
    out.disabled = zooms.length === 0;
    setText(resolution, `the peak of each ${age(data.samples.step)}`);
  }

  // explain shows the autopsy that the machine's agent has made.
  function explain(a) {
    why.hidden = !a;
    if (!a) return;
    const grew = a.growth.filter(g => Math.abs(g.to - g.from) >= 1048576);
    why.replaceChildren(el("h2", {}, a.headline), ...(a.what ? [el("p", {}, a.what)] : []),
      ...(grew.length ? [el("p", {class: "soft small"}, grew.map(g => `${ownerNames.get(g.account) ?? g.account.replaceAll("-", " ")} ${signed(g.to - g.from)}`).join(" · "))] : []),
      el("p", {class: "soft small"}, `${a.confidence}: ${a.verdict.replaceAll("-", " ")}`),
      el("ul", {}, a.evidence.map(e => el("li", {}, el("span", {class: "soft"}, e.source + "  "), e.text))),
      ...(a.do.length ? [el("h3", {}, "What to do"), el("ul", {}, a.do.map(d => el("li", {}, ...(d.option ? [el("code", {}, d.option), " "] : []), d.text)))] : []));
  }

  function graph() {
    for (const p of plots) p.destroy();
    memory.replaceChildren(el("h2", {}, "Resident memory by owner"));
    heap.replaceChildren(el("h2", {}, "Java heap, and collections"));
    plots = [plot(memory, memoryPlot(data), data, zoom, 320), plot(heap, heapPlot(data), data, zoom, 200)];
  }

  // zoom looks at a part closer. Both plots tell of one selection.
  function zoom(a, b) {
    if (zooming || b - a < 30) return;
    zooming = true;
    zooms.push([a, b]);
    draw().finally(() => { zooming = false; });
  }

  // compare shows two footprints of those that the plot has.
  function compare() {
    const f = data.footprints, n = f.times.length;
    moments.hidden = n === 0;
    if (n === 0) return;
    compared = compared.map((c, i) => c < 0 || c >= n ? (i ? n - 1 : 0) : c);
    if (compared[1] === 0 && n > 1 && sliders[1].max !== String(n - 1)) compared[1] = n - 1;
    compared.forEach((c, i) => {
      sliders[i].max = n - 1;
      sliders[i].value = c;
      setText(outputs[i], when(f.times[c] * 1000));
      sliders[i].setAttribute("aria-valuetext", outputs[i].textContent);
    });
    const [a, b] = compared;
    const rows = ownerOrder(Object.keys(f.owners)).map(o => [o, f.owners[o][a] ?? 0, f.owners[o][b] ?? 0]);
    rows.push([null, f.resident[a], f.resident[b]]);
    table.replaceChildren(...rows.map(([o, x, y]) => el("tr", {}, o ? el("td", {}, key(o), ownerNames.get(o) ?? o) : el("th", {scope: "row"}, "= Rss"),
      ...[mib(x), mib(y), signed(y - x)].map(t => el("td", {class: "n"}, t)))));
    for (const p of plots) p.redraw(false);
  }

  function keys(e) {
    if (e.key === "Escape") zoomOut();
  }

  const rebuild = () => { if (data?.samples) { graph(); compare(); } };
  const media = ["(prefers-color-scheme: dark)", "print"].map(m => matchMedia(m));
  main.replaceChildren(title, facts, why, el("div", {class: "tools"}, choose, out, resolution),
    el("div", {class: "columns"}, el("div", {}, memory, heap, moments), el("div", {}, findings, el("h2", {}, "Events"), none, el("div", {class: "wide"}, el("table", {}, events)))));
  await draw();
  addEventListener("keydown", keys);
  const observer = new ResizeObserver(() => { for (const p of plots) p.setSize({width: Math.max(200, memory.clientWidth), height: p.height}); });
  observer.observe(memory);
  for (const m of media) m.addEventListener("change", rebuild);
  return {
    update,
    close() {
      removeEventListener("keydown", keys);
      observer.disconnect();
      for (const m of media) m.removeEventListener("change", rebuild);
      for (const p of plots) p.destroy();
    },
  };

  // key is the colour of an owner in a table.
  function key(owner) {
    const k = el("span", {class: "key", "aria-hidden": "true"});
    k.style.background = colour(owner);
    return k;
  }

  // plot draws one plot: series over times, with a part of them stacked.
  function plot(where, {times, series, ticks}, data, zoom, height) {
    const long = data.to - data.from > 2 * 86400, days = data.to - data.from > 3 * 86400;
    const clock = (_, all) => all.map(t => { const w = when(t * 1000, true); return days ? w.slice(5, 10) : long ? w.slice(5, 16) : w.slice(11, 16); });
    const axis = {stroke: css("--soft"), grid: {stroke: css("--line"), width: 1}, ticks: {stroke: css("--line"), width: 1}};
    const stacked = series.filter(s => s.stacked).length;
    const u = new uPlot({
      width: Math.max(200, where.clientWidth), height, cursor: {sync: {key: "tare"}, drag: {x: true, y: false, setScale: false}},
      scales: {x: {time: true, range: () => [data.from, data.to]}, y: {range: (_, __, most) => [0, Math.max(1048576, (most ?? 0) * 1.05)]}},
      axes: [{...axis, values: clock}, {...axis, size: 70, values: (_, all) => all.map(v => mib(v).replace(".0", "")), incrs: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536].map(n => n * 1048576)}],
      series: [{value: (_, t) => t == null ? "" : when(t * 1000)}, ...series.map(s => ({
        label: s.label, stroke: s.colour, width: s.stacked ? 1 : 1.5, dash: s.dash, fill: s.stacked ? s.colour + "b0" : undefined, spanGaps: false, points: {show: s.stacked ? false : undefined},
        paths: s.stepped ? uPlot.paths.stepped({align: 1}) : undefined,
        value: (_, v, i, index) => index == null || s.values[index] == null ? "" : mib(s.values[index]),
      }))],
      bands: Array.from({length: Math.max(0, stacked - 1)}, (_, i) => ({series: [i + 2, i + 1]})),
      hooks: {
        setSelect: [u => { if (u.select.width > 4) { const a = u.posToVal(u.select.left, "x"), b = u.posToVal(u.select.left + u.select.width, "x"); u.setSelect({left: 0, width: 0, top: 0, height: 0}, false); zoom(a, b); } }],
        draw: [u => marks(u, data, ticks)],
        ready: [u => u.over.addEventListener("dblclick", zoomOut)],
      },
    }, [times, ...series.map(s => s.drawn ?? s.values)], where);
    where.dataset.points = times.length;
    return u;
  }

  // marks draws events, collections, and the two moments.
  function marks(u, data, ticks) {
    const c = u.ctx, {left, top, width, height} = u.bbox, ratio = devicePixelRatio;
    const line = (t, colour, dash, label) => {
      const x = u.valToPos(t, "x", true);
      if (x < left || x > left + width) return;
      c.save();
      c.strokeStyle = c.fillStyle = colour;
      c.lineWidth = ratio;
      c.setLineDash(dash.map(d => d * ratio));
      c.beginPath();
      c.moveTo(x, top);
      c.lineTo(x, top + height);
      c.stroke();
      if (label) {
        c.font = `${12 * ratio}px system-ui, sans-serif`;
        c.textAlign = x > left + width - 60 * ratio ? "right" : "left";
        c.fillText(label, x + (c.textAlign === "left" ? 3 : -3) * ratio, top + 12 * ratio);
      }
      c.restore();
    };
    const killed = data.events.some(e => e.kind === "oom-kill");
    for (const e of data.events) {
      const t = Date.parse(e.at) / 1000;
      if (e.kind === "oom-kill") line(t, css("--bad"), [], "kill");
      else if (e.kind === "ended") line(t, css("--soft"), [4, 3], killed ? "" : "ended");
      else if (e.kind === "limit-reached") line(t, css("--bad"), [1, 5], "");
    }
    if (data.footprints.times.length) compared.forEach((i, n) => i >= 0 && line(data.footprints.times[i], css("--other"), [2, 3], "AB"[n]));
    c.save();
    c.strokeStyle = css("--soft");
    c.lineWidth = ratio;
    for (const t of ticks ?? []) {
      const x = u.valToPos(t, "x", true);
      if (x >= left && x <= left + width) { c.beginPath(); c.moveTo(x, top + height - 7 * ratio); c.lineTo(x, top + height); c.stroke(); }
    }
    c.restore();
  }
}

// gaps are values with nothing where samples are missing.
function withGaps(times, values, step) {
  return values.map((v, i) => i > 0 && times[i] - times[i - 1] > 6 * step ? null : v);
}

// memoryPlot is the owners, one on top of the other, and what limits them.
function memoryPlot({samples, footprints, jvm, to}) {
  const end = Math.min(to, (jvm.ended ? Date.parse(jvm.ended) : Date.parse(jvm.last)) / 1000);
  const times = [...new Set([...samples.times, ...footprints.times, ...(footprints.times.length && end > footprints.times.at(-1) ? [end] : [])])].sort((a, b) => a - b);
  // A footprint holds until the next one.
  let at = -1;
  const held = times.map(t => { while (at + 1 < footprints.times.length && footprints.times[at + 1] <= t) at++; return t <= end ? at : -1; });
  let below = times.map(() => 0);
  const series = ownerOrder(Object.keys(footprints.owners)).map(o => {
    const values = held.map(i => i < 0 ? null : footprints.owners[o][i]);
    const drawn = below = values.map((v, i) => v == null ? null : v + (below[i] ?? 0));
    return {label: ownerNames.get(o) ?? o, colour: colour(o), values, drawn, stacked: true, stepped: true};
  });
  const index = new Map(samples.times.map((t, i) => [t, i]));
  const sampled = name => fillIn(times, index, withGaps(samples.times, samples.columns[name], samples.step));
  series.push({label: "needed by its group", colour: css("--ink"), values: sampled("needed")});
  if (samples.columns.bound.some(b => b > 0)) series.push({label: "limit", colour: css("--bad"), dash: [6, 4], values: sampled("bound").map(b => b || null), stepped: true});
  return {times, series};
}

// fillIn is the values of samples at all times: between two samples the one before.
function fillIn(times, index, values) {
  let last = null;
  return times.map(t => { const i = index.get(t); if (i != null) last = values[i]; return last; });
}

// heapPlot is what the JVM says of its heap, and when it collected.
function heapPlot({samples}) {
  const {times, columns, step} = samples, gapped = name => withGaps(times, columns[name], step).map(v => v || null);
  const ticks = times.filter((_, i) => i > 0 && columns.collections[i] > columns.collections[i - 1]);
  return {times, ticks, series: [
    {label: "committed", colour: css("--muted"), values: gapped("heap_committed"), stepped: true},
    {label: "used, at most", colour: css("--main"), values: gapped("heap_used")},
    {label: "live set, at most", colour: css("--good"), values: gapped("after_gc")},
  ]};
}
