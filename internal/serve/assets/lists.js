// Kills, and fits.

import {el, mib, age, when, verdicts, ownerNames} from "./format.js";
import {get} from "./main.js";

const week = 7 * 86400;

export async function kills(main) {
  let days = 7;
  const body = el("tbody");
  const none = el("p", {class: "soft"});
  const choose = [7, 30, 92].map(n => el("button", {type: "button", onclick: () => { days = n; update(); }}, `${n} days`));

  async function update() {
    const now = Date.now() / 1000;
    const got = await get("kills", {from: Math.floor(now - days * 86400), to: Math.ceil(now) + 1, limit: 1000});
    choose.forEach(b => b.setAttribute("aria-pressed", b.textContent === `${days} days`));
    none.textContent = got.items.length ? (got.next ? "These are the last 1000." : "") : "The kernel killed in no group of a JVM.";
    body.replaceChildren(...got.items.map(row));
  }

  await update();
  main.replaceChildren(el("h1", {}, "Kills"), el("div", {class: "tools"}, choose), el("div", {class: "wide"}, el("table", {},
    el("thead", {}, el("tr", {}, ["When", "JVM", "Why", "Limit", "Last footprint", "Its largest owners"].map(t => el("th", {scope: "col"}, t)))), body)), none);
  return {update};
}

function row(k) {
  const at = Date.parse(k.at), last = k.last?.footprint;
  const largest = [...(last?.owners ?? [])].sort((a, b) => b.resident - a.resident).slice(0, 3);
  const from = Math.floor(at / 1000) - 1800, to = Math.floor(at / 1000) + 600;
  return el("tr", {}, el("td", {}, when(k.at)),
    el("td", {class: "name"}, el("a", {href: `#/jvm/${k.jvm}/${from}-${to}`}, k.name || "JVM " + k.jvm), el("div", {class: "soft small"}, `${k.machine} · ${k.group}`)),
    el("td", {class: "wrap"}, k.autopsy ? [k.autopsy.headline, el("div", {class: "soft small"}, [k.autopsy.what, k.autopsy.confidence].filter(Boolean).join(" · "))] : verdicts[k.verdict] ?? k.verdict, k.kills > 1 ? ` (${k.kills} kills)` : ""),
    el("td", {class: "n"}, k.counters.limit ? mib(k.counters.limit) : "none"),
    el("td", {class: "wrap"}, last ? `${mib(last.resident)} resident, ${age((at - Date.parse(k.last.at)) / 1000)} before` : "none"),
    el("td", {class: "wrap"}, largest.map(o => `${ownerNames.get(o.owner) ?? o.owner} ${mib(o.resident)}`).join(", ")));
}

export async function fits(main) {
  const body = el("tbody");
  const none = el("p", {class: "soft"});
  async function update() {
    const got = await get("fits");
    none.textContent = got.fits.length ? "" : "No fit is kept here: make one with tare fit.";
    body.replaceChildren(...got.fits.slice(0, 500).map(f => el("tr", {}, el("td", {}, when(f.began)),
      el("td", {class: "name"}, el("a", {href: "/fits/" + f.id}, f.command.join(" ") || "fit " + f.id), el("div", {class: "soft small"}, [f.host, f.dir, f.jdk && "JDK " + f.jdk].filter(Boolean).join(" · "))),
      el("td", {}, f.state), el("td", {class: "n"}, f.limitBytes ? mib(f.limitBytes) : ""), el("td", {class: "n"}, String(f.trials)), el("td", {class: "wrap"}, f.error ?? ""))));
  }
  await update();
  main.replaceChildren(el("h1", {}, "Fits"), el("div", {class: "wide"}, el("table", {},
    el("thead", {}, el("tr", {}, ["Began", "Command", "State", "Limit", "Trials", "Why not"].map(t => el("th", {scope: "col"}, t)))), body)), none);
  return {update};
}
