// The pages, and what keeps them up to date.

import {el, setText, when} from "./format.js";
import {fleet} from "./fleet.js";
import {jvm} from "./jvm.js";
import {kills, fits} from "./lists.js";

// every is how often a page asks for what is new, in milliseconds.
const every = 5000;

const main = document.getElementById("main");
const state = document.getElementById("state");
let view = null; // {update, close} of the page that is shown
let controller = new AbortController();
let timer = 0;

// get asks the API; the answer of a page that was left is dropped.
export async function get(path, parameters = {}, signal = controller.signal) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v != null && v !== ""));
  const response = await fetch("/api/v1/" + path + "?" + query, {signal, credentials: "same-origin"});
  if (response.status === 401) {
    location.assign("/login");
    throw new DOMException("logged out", "AbortError");
  }
  const body = await response.json();
  if (!response.ok) throw new Error(body.error ?? response.statusText);
  return body;
}

// all asks for a list, part after part, of at most most items.
export async function all(path, parameters = {}, most = 5000) {
  const items = [];
  for (let after = 0; items.length < most;) {
    const part = await get(path, {...parameters, limit: 1000, after});
    items.push(...part.items);
    if (part.next == null) break;
    after = part.next;
  }
  return items;
}

const pages = [
  [/^#?\/?$/, fleet], [/^#\/jvm\/(\d+)(?:\/(\d+)-(\d+))?$/, jvm], [/^#\/kills$/, kills], [/^#\/fits$/, fits],
];

async function show() {
  controller.abort();
  controller = new AbortController();
  clearTimeout(timer);
  view?.close?.();
  view = null;
  const hash = location.hash === "#main" ? "" : location.hash;
  const [pattern, page] = pages.find(([p]) => p.test(hash)) ?? pages[0];
  for (const a of document.querySelectorAll("header nav a")) {
    if (a.getAttribute("href") === (hash || "#/")) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  main.replaceChildren(el("p", {class: "soft"}, "…"));
  const mine = controller;
  try {
    const made = await page(main, ...(pattern.exec(hash) ?? []).slice(1));
    if (mine.signal.aborted) return made?.close?.();
    view = made;
    fresh();
    document.body.dataset.shown = hash || "#/";
  } catch (error) {
    failed(error, mine);
    if (!mine.signal.aborted) main.replaceChildren(el("p", {class: "bad"}, String(error.message)));
  }
  schedule(mine);
}

function schedule(mine) {
  timer = setTimeout(async () => {
    if (mine.signal.aborted) return;
    if (!document.hidden && view?.update) {
      try {
        await view.update();
        fresh();
      } catch (error) {
        failed(error, mine);
      }
    }
    if (!mine.signal.aborted) schedule(mine);
  }, every);
}

function fresh() {
  state.classList.remove("bad");
  setText(state, "as of " + when(new Date()));
}

function failed(error, mine) {
  if (mine.signal.aborted || error.name === "AbortError") return;
  state.classList.add("bad");
  setText(state, "no answer: " + error.message);
}

addEventListener("hashchange", show);
get("status").then(s => { document.getElementById("logout").hidden = !s.login; }).catch(() => {});
show();
