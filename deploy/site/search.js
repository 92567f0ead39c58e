// Finds sections that have all words: those with the words in their title come first.
"use strict";
function find(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [];
  const found = [];
  for (const s of searchIndex) {
    const title = (s.page + " " + s.title).toLowerCase(), text = s.text.toLowerCase();
    let score = 0;
    for (const w of words) {
      if (title.includes(w)) score += 10;
      else if (text.includes(w)) score += 1;
      else { score = 0; break; }
    }
    if (score) found.push({ s, score, at: Math.max(0, text.indexOf(words[0]) - 40) });
  }
  return found.sort((a, b) => b.score - a.score).slice(0, 20);
}
// Beside the text there is room for all pages; above it they would hide it.
document.querySelector("nav details").open = matchMedia("(min-width: 50.01rem)").matches;
const list = document.getElementById("found");
document.getElementById("search").addEventListener("input", (event) => {
  list.replaceChildren(...find(event.target.value).map(({ s, at }) => {
    const item = document.createElement("li"), link = document.createElement("a"), part = document.createElement("small");
    link.href = up + s.url;
    link.textContent = s.page === s.title ? s.page : s.page + ": " + s.title;
    part.textContent = s.text.slice(at, at + 120);
    item.append(link, part);
    return item;
  }));
});
