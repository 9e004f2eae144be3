// What ranks write, live, with a search. Bounded: the latest lines are kept.
import { cut, h } from './dom.js';
import { tabs } from './mesh.js';
import { follow } from './store.js';

const kMostLines = 5000;
const kShown = 1000;
const kMostOpen = 70000;

export function logsView(root, store, [name, rank]) {
  const lines = [];
  let stopped = false;
  let dirty = true;
  const search = h('input', { type: 'search', placeholder: 'Search lines', 'aria-label': 'Search lines', oninput: () => { dirty = true; update(); } });
  const pause = h('button', { onclick: () => { stopped = !stopped; pause.textContent = stopped ? 'Go on' : 'Pause'; dirty = true; } }, 'Pause');
  const words = h('p', { class: 'quiet', role: 'status' }, 'connecting');
  const box = h('pre', { class: 'log', tabindex: 0, 'aria-label': 'Lines' });
  root.append(h('h1', {}, rank ? `Logs of rank ${rank} of ${name}` : `Logs of ${name}`), tabs(name), h('div', { class: 'controls' }, search, pause), words, box);
  const ending = new AbortController();
  const add = (line) => {
    lines.push(line);
    if (lines.length > kMostLines + 1000) lines.splice(0, lines.length - kMostLines);
    dirty = true;
  };
  const update = () => {
    if (!dirty || stopped) return;
    dirty = false;
    const text = search.value;
    const found = text === '' ? lines : lines.filter((line) => line.text.toLowerCase().includes(text.toLowerCase()));
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 30;
    box.replaceChildren(...found.slice(-kShown).map((line) => h('div', { class: line.stream === 'stderr' ? 'err' : '' },
      h('span', { class: 'who' }, `${line.rank} `), marked(cut(line.text), text))));
    if (atEnd) box.scrollTop = box.scrollHeight;
    words.textContent = text === '' ? `${lines.length} lines` : `${found.length} of ${lines.length} lines`;
  };
  const timer = setInterval(update, 250);
  // The beginning of a line whose end has not come, by rank and stream.
  const open = new Map();
  const addPiece = (piece) => {
    const key = `${piece.rank} ${piece.stream}`;
    const known = open.get(key) ?? { text: '', next: piece.offset };
    if (piece.offset > known.next) known.text += `[${piece.offset - known.next} bytes missed]`;
    const texts = (known.text + piece.text).split('\n');
    const rest = texts.pop();
    for (const text of texts) add({ rank: piece.rank, stream: piece.stream, text });
    // A line without an end is cut, so that it takes no more and more memory.
    open.set(key, { text: rest.length > kMostOpen ? `${rest.slice(0, kMostOpen)}…` : rest, next: piece.offset + piece.bytes });
  };
  const finish = () => {
    for (const [key, { text }] of open) if (text !== '') add({ rank: key.split(' ')[0], stream: key.split(' ')[1], text });
    open.clear();
  };
  follow(`api/logs?mesh=${encodeURIComponent(name)}${rank ? `&rank=${rank}` : ''}`, (kind, data) => {
    if (kind === 'pieces') data.pieces.forEach(addPiece);
    if (kind === 'end') {
      finish();
      add({ rank: '–', stream: data.error ? 'stderr' : 'stdout', text: `${data.host}: ${data.error ?? 'all of these ranks have ended'}` });
    }
  }, ending.signal).catch((error) => { if (!ending.signal.aborted) { words.textContent = error.message; } });
  return { update, close: () => { ending.abort(); clearInterval(timer); } };
}

function marked(line, text) {
  const at = text === '' ? -1 : line.toLowerCase().indexOf(text.toLowerCase());
  return at < 0 ? [line] : [line.slice(0, at), h('mark', {}, line.slice(at, at + text.length)), line.slice(at + text.length)];
}
