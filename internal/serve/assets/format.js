// What figures and pieces of a page look like.

const MiB = 1048576;

// mib is bytes in MiB, or GiB where they are many.
export function mib(bytes) {
  if (bytes == null) return "";
  const abs = Math.abs(bytes);
  if (abs >= 10240 * MiB) return (bytes / MiB / 1024).toFixed(1) + " GiB";
  return (bytes / MiB).toFixed(abs < 100 * MiB ? 1 : 0) + " MiB";
}

// signed is a change of bytes.
export function signed(bytes) {
  return (bytes > 0 ? "+" : bytes < 0 ? "−" : "") + mib(Math.abs(bytes));
}

// age is how long ago something was.
export function age(seconds) {
  seconds = Math.max(0, seconds);
  if (seconds < 100) return Math.round(seconds) + " s";
  if (seconds < 6000) return Math.round(seconds / 60) + " min";
  if (seconds < 172800) return Math.round(seconds / 3600) + " h";
  return Math.round(seconds / 86400) + " d";
}

// when is a moment by the clock of the reader, of today without the date unless
// whole is asked for.
export function when(time, whole) {
  const t = new Date(time), two = n => String(n).padStart(2, "0");
  const date = `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())}`, clock = `${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
  return !whole && t.toDateString() === new Date().toDateString() ? clock : `${date} ${clock}`;
}

// el makes an element. What a JVM calls itself is a text here, and never markup.
export function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value != null && value !== false) e.setAttribute(name, value);
  }
  e.append(...children.flat().filter(c => c != null));
  return e;
}

// svg makes an element of SVG.
export function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// setText sets a text only where it has changed.
export function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// ownerNames are what owners are called, in the order of a report: the heap is at
// the bottom of a stack.
export const ownerNames = new Map(Object.entries({
  "java-heap": "Java heap", "class-space": "Class space", "metaspace": "Metaspace", "code-cache": "Code cache",
  "thread-stacks": "Thread stacks", "gc": "GC", "cds": "CDS archive", "malloc": "malloc", "mapped-files": "Mapped files",
  "jvm-other": "JVM, other", "unattributed": "unattributed",
}));

// ownerOrder sorts owners, those of a later version last.
export function ownerOrder(names) {
  const known = [...ownerNames.keys()];
  const rank = n => known.includes(n) ? known.indexOf(n) : known.length;
  return [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
}

// colour is the colour of an owner, from the style.
export function colour(name) {
  const i = [...ownerNames.keys()].indexOf(name);
  return css(["--c0", "--c4", "--c2", "--c1", "--c3", "--c5", "--c7", "--c6", "--other", "--base", "--muted"][i] ?? "--muted");
}

// css is a property of the style.
export function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// verdicts are what became of a JVM when the kernel killed in its group.
export const verdicts = {
  "jvm-ended": "the JVM ended with a kill for its group's limit",
  "other-process": "another process of its group was killed",
  "": "not decided yet",
};
