// One mesh: its ranks, and when each attempt of them ran; and one rank.
import { bar, bytes, clock, cut, h, s, show, span, state, table } from './dom.js';
import { eventTable } from './overview.js';
import { isFailure, stateOf } from './store.js';

const kMostRows = 500;
const kMostLines = 16;

const link = (mesh, rest = '') => `#/mesh/${encodeURIComponent(mesh)}${rest}`;

export function missing(name) {
  return [h('p', {}, 'No host of this site knows such a mesh.'), h('p', { class: 'quiet' }, name)];
}

export function tabs(mesh) {
  return h('p', {}, h('a', { href: link(mesh) }, 'Ranks'), ' · ', h('a', { href: link(mesh, '/why') }, 'Why'), ' · ',
    h('a', { href: link(mesh, '/logs') }, 'Logs'), ' · ', h('a', { href: `#/grid/${encodeURIComponent(mesh)}` }, 'Grid'));
}

/** Bars of attempts, the ranks with most of them first. */
function timeline(store, mesh) {
  const rows = [...mesh.ranks.values()].map((rank) => ({ rank, attempts: store.attempts(mesh, rank) })).filter((row) => row.attempts.length > 0);
  if (rows.length === 0) return h('p', { class: 'quiet' }, 'No rank has started.');
  const weight = (row) => (row.rank.restarts + row.attempts.length - 1) * 10 + (isFailure(row.rank) ? 5 : 0);
  rows.sort((a, b) => weight(b) - weight(a) || a.rank.rank - b.rank.rank);
  const shown = rows.slice(0, kMostLines);
  const now = Date.parse(store.time);
  const start = Math.min(...shown.flatMap((row) => row.attempts.map((one) => Date.parse(one.started))));
  const end = Math.max(start + 1000, ...shown.flatMap((row) => row.attempts.map((one) => (one.ended ? Date.parse(one.ended) : now))));
  const width = 1000;
  const x = (time) => 70 + (width - 80) * (time - start) / (end - start);
  const made = s('svg', { viewBox: `0 0 ${width} ${shown.length * 18 + 26}`, role: 'img', width: '100%',
    'aria-label': `Attempts of ${shown.length} ranks over ${span(end - start)}` });
  for (let i = 0; i <= 4; ++i) {
    const time = start + (end - start) * i / 4;
    made.append(s('line', { class: 'axis', x1: x(time), x2: x(time), y1: 0, y2: shown.length * 18 + 4 }),
      s('text', { x: x(time), y: shown.length * 18 + 20, 'text-anchor': i === 0 ? 'start' : i === 4 ? 'end' : 'middle' }, i === 0 ? clock(new Date(start).toISOString()).slice(0, 8) : `+${span(time - start)}`));
  }
  shown.forEach(({ rank, attempts }, row) => {
    made.append(s('text', { x: 0, y: row * 18 + 13 }, `rank ${rank.rank}`));
    attempts.forEach((one, i) => {
      const from = x(Date.parse(one.started));
      const to = x(one.ended ? Date.parse(one.ended) : now);
      made.append(s('rect', { class: stateOf(one), x: from, y: row * 18 + 2, width: Math.max(2, to - from - 1), height: 13, rx: 2 },
        s('title', {}, `attempt ${(one.restarts ?? i) + 1}: ${one.status}${one.reason ? `, ${one.reason}` : ''}`)));
    });
  });
  return h('div', { class: 'timeline' }, made, rows.length > shown.length ? h('p', { class: 'quiet' }, `${rows.length - shown.length} further ranks`) : '');
}

export function meshView(root, store, [name]) {
  const search = h('input', { type: 'search', placeholder: 'Search: rank, host, state, reason', 'aria-label': 'Search ranks', oninput: () => update() });
  const top = h('div');
  const body = h('div');
  root.append(h('h1', {}, name), tabs(name), top, h('h2', {}, 'Ranks'), h('div', { class: 'controls' }, search), body);
  const update = () => {
    const mesh = store.meshes.get(name);
    if (!mesh) { show(body, missing(name)); return show(top); }
    show(top, h('p', { class: 'quiet' }, `${mesh.num_ranks} ranks, ${mesh.region}, on ${mesh.hosts.length} hosts · owner ${mesh.owner}`),
      h('pre', {}, cut(mesh.command)), bar(store.counts(mesh)), h('h2', {}, 'Attempts'), timeline(store, mesh));
    const text = search.value.toLowerCase();
    const ranks = [...mesh.ranks.values()].filter((rank) => text === '' ||
      `${rank.rank} ${rank.host} ${rank.point} ${stateOf(rank)} ${rank.reason}`.toLowerCase().includes(text));
    const order = (rank) => (isFailure(rank) ? 0 : rank.trouble ? 1 : 2);
    ranks.sort((a, b) => order(a) - order(b) || a.rank - b.rank);
    show(body, h('p', { class: 'quiet' }, ranks.length > kMostRows ? `The first ${kMostRows} of ${ranks.length} ranks` : `${ranks.length} ranks`),
      table([['Rank', 'number'], ['Point', 'wide'], ['Host', 'place'], ['State', ''], ['Attempt', 'number'], ['CPU', 'number wide'], ['Memory', 'number wide'], ['Queue', 'number wide'], ['Last line, or reason', 'text']],
        ranks.slice(0, kMostRows).map((rank) => [
          h('a', { href: link(name, `/rank/${rank.rank}`) }, rank.rank), rank.point, rank.host, state(stateOf(rank)), rank.restarts + 1,
          rank.usage?.load !== undefined && rank.usage?.load !== null ? `${Math.round(rank.usage.load * 100)} %` : '', bytes(rank.usage?.rss ?? rank.usage?.peak_rss),
          rank.queue ? rank.queue.messages : '', h('span', { class: 'mono' }, cut((rank.ended ? rank.reason : rank.last_line) ?? '', 160))])));
  };
  return { update };
}

export function rankView(root, store, [name, number]) {
  const body = h('div');
  root.append(h('h1', {}, `Rank ${number} of ${name}`), tabs(name), body);
  const update = () => {
    const mesh = store.meshes.get(name);
    const rank = mesh?.ranks.get(Number(number));
    if (!rank) return show(body, missing(name));
    const fact = (title, value) => (value === null || value === undefined || value === '' ? null : h('tr', {}, h('th', { scope: 'row' }, title), h('td', { class: 'text' }, value)));
    show(body,
      h('div', { class: 'scroll' }, h('table', {}, h('tbody', {},
        fact('State', state(stateOf(rank))), fact('Reason', rank.ended ? cut(rank.reason) : ''), fact('Trouble', rank.trouble?.reason),
        fact('Host', h('a', { href: `#/hosts/${encodeURIComponent(rank.host)}` }, rank.host)), fact('Point', rank.point), fact('Pid', rank.pid), fact('Attempt', rank.restarts + 1),
        fact('Started', rank.started), fact('Ended', rank.ended), fact('Exit code', rank.exit_code), fact('Signal', rank.signal),
        fact('Consequence of rank', rank.because), fact('Stopped by', rank.stop?.by), fact('Stop reason', rank.stop?.reason),
        fact('CPU time', rank.usage ? `${rank.usage.user_s.toFixed(2)} s user, ${rank.usage.system_s.toFixed(2)} s system` : ''),
        fact('Peak memory', bytes(rank.usage?.peak_rss)), fact('Threads', rank.usage?.threads), fact('Last line', h('span', { class: 'mono' }, cut(rank.last_line ?? '')))))),
      h('p', {}, h('a', { href: link(name, `/logs/${number}`) }, 'Logs of this rank')),
      rank.stderr_tail.length > 0 ? h('h2', {}, 'Last lines of stderr') : '',
      rank.stderr_tail.length > 0 ? h('pre', {}, rank.stderr_tail.map((line) => cut(line)).join('\n')) : '',
      h('h2', {}, 'Attempts'), timeline(store, { ...mesh, ranks: new Map([[rank.rank, rank]]) }),
      h('h2', {}, 'Events'), eventTable(store.events.filter((event) => event.mesh === name && (!event.end || event.end.rank === rank.rank)).slice(-50).reverse()));
  };
  return { update };
}
