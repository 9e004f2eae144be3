// Elements and texts. What ranks and hosts wrote reaches the page through here and as text only.

/** A text with every control character visible, so that no escape sequence or change of direction hides. */
export function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (c) => { const n = c.charCodeAt(0); return n < 0x100 ? `\\x${n.toString(16).padStart(2, '0')}` : `\\u${n.toString(16).padStart(4, '0')}`; });
}

/** The beginning of a long text, and how much is left out. */
export function cut(text, most = 2000) {
  const all = String(text);
  return all.length <= most ? visible(all) : `${visible(all.slice(0, most))} … ${all.length - most} more characters`;
}

/** h('td', {class: 'number'}, 3): children are elements or texts, never markup. */
export function h(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  fill(made, attributes, children);
  return made;
}

/**
 * Makes those the children of an element, and keeps every node that is as it was: what is focused, selected or scrolled
 * stays so while data comes in.
 */
export function show(root, ...children) {
  let old = root.firstChild;
  for (const next of children.flat().filter((child) => child !== null && child !== undefined && child !== '')) {
    const wanted = next instanceof Node ? next : document.createTextNode(visible(next));
    const after = old?.nextSibling ?? null;
    if (!old) root.append(wanted);
    else if (!becomes(old, wanted)) old.replaceWith(wanted);
    old = after;
  }
  while (old) {
    const after = old.nextSibling;
    old.remove();
    old = after;
  }
}

/** Gives a node what another one is made of; false: it cannot. */
function becomes(old, wanted) {
  if (old.nodeName !== wanted.nodeName) return false;
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return true;
  }
  for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) === value) continue;
    // The policy forbids the attribute, and allows its object.
    if (name === 'style') old.style.cssText = wanted.style.cssText;
    else old.setAttribute(name, value);
  }
  show(old, [...wanted.childNodes]);
  return true;
}

/** h() for SVG. */
export function s(tag, attributes = {}, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  fill(made, attributes, children);
  return made;
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    made.append(child instanceof Node ? child : document.createTextNode(visible(child)));
  }
}

export function state(name) { return h('span', { class: `state ${classOf(name)}` }, name); }

const kStates = ['starting', 'running', 'ready', 'stopping', 'stopped', 'killed', 'failed', 'unknown', 'up', 'lost', 'frozen', 'slow'];
/** A class of ours for a word of theirs. */
export function classOf(name) { return kStates.includes(name) ? name : 'unknown'; }

/** Rows below a head: [['Rank', 'number'], ['Host', 'place']]. */
export function table(head, rows) {
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': head.map(([title]) => title).join(', ') },
    h('table', {},
      h('thead', {}, h('tr', {}, head.map(([title, kind]) => h('th', { class: kind, scope: 'col' }, title)))),
      h('tbody', {}, rows.map((cells) => h('tr', {}, cells.map((cell, i) => h('td', { class: head[i][1] }, cell)))))));
}

/** A bar of the states of ranks: {ready: 3, failed: 1}. */
export function bar(counts) {
  const all = Object.values(counts).reduce((sum, n) => sum + n, 0);
  const words = Object.entries(counts).map(([name, n]) => `${n} ${name}`).join(', ');
  return h('div', { class: 'bar', role: 'img', 'aria-label': words, title: words },
    Object.entries(counts).map(([name, n]) => { const part = h('i', { class: classOf(name) }); part.style.width = `${100 * n / all}%`; return part; }));
}

export function clock(time) { return time ? time.slice(11, 23) : ''; }

export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3600000) return `${Math.floor(ms / 60000)} min ${Math.floor(ms % 60000 / 1000)} s`;
  return `${Math.floor(ms / 3600000)} h ${Math.floor(ms % 3600000 / 60000)} min`;
}

export function bytes(n) {
  if (n === null || n === undefined) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; n >= 1024 && i < 4; ++i) n /= 1024;
  return `${i === 0 ? n : n.toFixed(1)} ${units[i]}`;
}
