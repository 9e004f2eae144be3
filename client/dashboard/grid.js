// Ranks as a grid: a row for each host, a column for each of its ranks. Drawn on a canvas, and only what changed.
import { classOf, h } from './dom.js';
import { stateOf } from './store.js';

const kGap = 1;
const kLeast = 2;
/** With more bad ranks than this share, small cells are not made larger for them: they are seen anyway. */
const kFewBad = 0.01;
const kBad = ['failed', 'frozen'];
const kLegend = ['starting', 'running', 'ready', 'stopping', 'stopped', 'killed', 'failed', 'frozen', 'unknown'];

function colours() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(kLegend.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const nameOf = (rank) => classOf(stateOf(rank));

/**
 * Where each rank is: a place, [host, rank of it], for each rank, and how hosts lie: down, then to the right in blocks beside each
 * other; or, when the ranks of one host are too many for a line, on some lines each.
 */
export function layout(mesh, width, height) {
  const hosts = new Map(mesh.hosts.map((host, i) => [host, i]));
  const seen = new Uint32Array(Math.max(mesh.hosts.length, 1) + 1);
  const places = new Map();
  for (const rank of [...mesh.ranks.values()].sort((a, b) => a.rank - b.rank)) {
    const row = hosts.get(rank.host) ?? mesh.hosts.length;
    places.set(rank.rank, [row, seen[row]++]);
  }
  const perHost = Math.max(1, ...seen);
  const rows = Math.max(1, mesh.hosts.length + (seen[mesh.hosts.length] > 0 ? 1 : 0));
  // The largest cell with which all hosts fit; with the smallest one the grid may be higher than the window.
  for (let cell = 40; ; --cell) {
    const down = Math.max(1, Math.floor(height / cell));
    const blocks = Math.ceil(rows / down);
    if (blocks * (perHost + (blocks > 1 ? 1 : 0)) * cell <= width) {
      const used = blocks > 1 ? Math.ceil(rows / blocks) : rows;
      return { places, cell, perHost, down: used, blocks, columns: perHost, lines: 1, height: used * cell };
    }
    const lines = Math.ceil(perHost / Math.max(1, Math.floor(width / cell)));
    if (cell <= kLeast || (lines > 1 && rows * lines <= down))
      return { places, cell, perHost, down: rows, blocks: 1, columns: Math.ceil(perHost / lines), lines, height: rows * lines * cell };
  }
}

export function gridView(root, store, [name]) {
  const search = h('select', { 'aria-label': 'Mesh', onchange: () => { location.hash = `#/grid/${encodeURIComponent(search.value)}`; } });
  const canvas = h('canvas', { tabindex: 0, role: 'img' });
  const words = h('p', { class: 'quiet', role: 'status' });
  const tip = h('div', { class: 'tip', hidden: true });
  root.append(h('h1', {}, 'Grid'), h('div', { class: 'controls' }, search, h('span', { class: 'quiet' }, 'arrow keys choose a rank, Enter opens it')),
    h('div', { class: 'legend' }, kLegend.map((one) => h('span', { class: `state ${one}` }, one))), words, canvas, tip);
  let drawn = new Map();
  let plan = null;
  let planned = '';
  let chosen = null;
  let byPlace = new Map();

  const mesh = () => store.meshes.get(name ?? store.meshes.keys().next().value);
  const position = (rank) => {
    const [row, column] = plan.places.get(rank);
    const block = Math.floor(row / plan.down);
    const line = (row % plan.down) * plan.lines + Math.floor(column / plan.columns);
    return [(block * (plan.perHost + (plan.blocks > 1 ? 1 : 0)) + column % plan.columns) * plan.cell, line * plan.cell];
  };

  function update() {
    const names = [...store.meshes.keys()].sort();
    if (search.options.length !== names.length) search.replaceChildren(...names.map((one) => h('option', { value: one }, one)));
    const shown = mesh();
    if (!shown) { words.textContent = 'There is no mesh.'; return; }
    search.value = shown.mesh;
    const width = Math.max(200, canvas.clientWidth);
    const isBad = (colour) => kBad.includes(colour);
    const counts = store.counts(shown);
    const bad = kBad.reduce((sum, one) => sum + (counts[one] ?? 0), 0);
    const isFew = bad <= Math.max(20, kFewBad * shown.ranks.size);
    const key = `${shown.mesh} ${shown.ranks.size} ${width} ${matchMedia('(prefers-color-scheme: dark)').matches} ${isFew}`;
    const context = canvas.getContext('2d');
    if (key !== planned) {
      planned = key;
      plan = layout(shown, width, Math.max(240, window.innerHeight - 260));
      byPlace = new Map([...plan.places].map(([rank, [row, column]]) => [row * plan.perHost + column, rank]));
      const ratio = window.devicePixelRatio || 1;
      canvas.width = Math.floor(width * ratio);
      canvas.height = Math.ceil((plan.height + 1) * ratio);
      canvas.style.height = `${plan.height + 1}px`;
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawn = new Map();
    }
    const gap = plan.cell > 3 ? kGap : 0;
    const larger = isFew && plan.cell < 6 ? 2 : 0;
    // A larger mark lies over its neighbours: when one goes, they are drawn again.
    if (larger > 0) for (const rank of shown.ranks.values()) if (isBad(drawn.get(rank.rank)) && !isBad(nameOf(rank))) uncover(rank.rank);
    const batches = {};
    for (const rank of shown.ranks.values()) {
      const colour = nameOf(rank);
      if (drawn.get(rank.rank) === colour) continue;
      drawn.set(rank.rank, colour);
      (batches[colour] ??= []).push(rank.rank);
    }
    const palette = colours();
    // What needs a look comes last, and a little larger where cells are small: one failed rank of many is seen.
    for (const [colour, ranks] of Object.entries(batches).sort(([a], [b]) => isBad(a) - isBad(b))) {
      context.fillStyle = palette[colour];
      const more = isBad(colour) ? larger : 0;
      for (const rank of ranks) {
        const [x, y] = position(rank);
        context.fillRect(x - more, y - more, plan.cell - gap + 2 * more, plan.cell - gap + 2 * more);
      }
    }
    words.textContent = `${shown.ranks.size} ranks on ${shown.hosts.length} hosts, ${shown.region}: ${Object.entries(counts).map(([one, n]) => `${n} ${one}`).join(', ')}`;
    canvas.setAttribute('aria-label', words.textContent);
    canvas.dataset.cells = drawn.size;
  }

  /** The neighbours of a rank are to be drawn again. */
  function uncover(rank) {
    const [x, y] = position(rank).map((at) => at / plan.cell);
    for (let down = -1; down <= 1; ++down) for (let right = -1; right <= 1; ++right) drawn.delete(rankIn(x + right, y + down));
  }

  function rankAt(event) {
    if (!plan) return undefined;
    const box = canvas.getBoundingClientRect();
    return rankIn(Math.floor((event.clientX - box.left) / plan.cell), Math.floor((event.clientY - box.top) / plan.cell));
  }

  function rankIn(x, y) {
    if (x < 0 || y < 0) return undefined;
    const wide = plan.columns + (plan.blocks > 1 ? 1 : 0);
    const column = x % wide + (y % plan.lines) * plan.columns;
    if (x % wide >= plan.columns || column >= plan.perHost || y >= plan.down * plan.lines) return undefined;
    return byPlace.get((Math.floor(x / wide) * plan.down + Math.floor(y / plan.lines)) * plan.perHost + column);
  }

  function describe(number) {
    const rank = mesh()?.ranks.get(number);
    return rank ? `rank ${rank.rank} · ${rank.point} · ${rank.host} · ${stateOf(rank)}${rank.restarts ? ` · attempt ${rank.restarts + 1}` : ''}` : '';
  }
  const open = (rank) => { location.hash = `#/mesh/${encodeURIComponent(mesh().mesh)}/rank/${rank}`; };

  canvas.addEventListener('mousemove', (event) => {
    const rank = rankAt(event);
    tip.hidden = rank === undefined;
    if (rank === undefined) return;
    tip.textContent = describe(rank);
    tip.style.left = `${Math.min(event.clientX + 14, window.innerWidth - 330)}px`;
    tip.style.top = `${event.clientY + 14}px`;
  });
  canvas.addEventListener('mouseleave', () => { tip.hidden = true; });
  canvas.addEventListener('click', (event) => { const rank = rankAt(event); if (rank !== undefined) open(rank); });
  canvas.addEventListener('keydown', (event) => {
    if (!plan || !mesh()) return;
    const step = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[event.key];
    if (event.key === 'Enter' && chosen !== null) return open(chosen);
    if (!step) return;
    event.preventDefault();
    const [row, column] = plan.places.get(chosen) ?? [0, -1];
    const next = byPlace.get((row + step[0]) * plan.perHost + Math.max(0, Math.min(plan.perHost - 1, column + step[1])));
    if (next === undefined) return;
    chosen = next;
    const box = canvas.getBoundingClientRect();
    const [x, y] = position(chosen);
    tip.hidden = false;
    tip.textContent = describe(chosen);
    tip.style.left = `${box.left + x + plan.cell}px`;
    tip.style.top = `${box.top + y + plan.cell}px`;
  });
  const resized = new ResizeObserver(() => update());
  resized.observe(canvas);
  return { update, close: () => resized.disconnect() };
}
