// One mesh: its ranks, and when each attempt of them ran; and one rank.
import { bar, bytes, clock, cut, h, s, show, span, state, table } from './dom.js';
import { actions } from './acts.js';
import { eventTable } from './overview.js';
import { isFailure, rights, stateOf } from './store.js';

const kMostRows = 200;
const kMostLines = 16;

const link = (mesh, rest = '') => `#/mesh/${encodeURIComponent(mesh)}${rest}`;

export function missing(name) {
  return [h('p', {}, 'No host of this site knows such a mesh.'), h('p', { class: 'quiet' }, name)];
}

export function tabs(mesh) {
  return h('p', {}, h('a', { href: link(mesh) }, 'Ranks'), ' · ', h('a', { href: link(mesh, '/why') }, 'Why'), ' · ',
    h('a', { href: link(mesh, '/logs') }, 'Logs'), ' · ', rights.write ? [h('a', { href: link(mesh, '/stacks') }, 'Stacks'), ' · '] : '', h('a', { href: `#/grid/${encodeURIComponent(mesh)}` }, 'Grid'));
}

/** The first of many ranks, by their order, and of those of one order by number. */
function leading(ranks, count, orderOf) {
  const groups = new Map();
  for (const rank of ranks) {
    const order = orderOf(rank);
    (groups.get(order) ?? groups.set(order, []).get(order)).push(rank);
  }
  let found = [];
  for (const order of [...groups.keys()].sort((a, b) => a - b)) {
    if (found.length >= count) break;
    found = found.concat(groups.get(order).sort((a, b) => a.rank - b.rank));
  }
  return found.slice(0, count);
}

/** Every attempt of a rank that is known, oldest first: {started, ended, status, reason}. */
function attemptsOf(rank, ends = []) {
  const found = new Map(ends.map((end) => [end.started, end]));
  found.set(rank.started, rank);
  return [...found.values()].filter((one) => one.started).sort((a, b) => (a.started < b.started ? -1 : 1));
}

/** Bars of attempts, the ranks with most of them first. */
function timeline(store, mesh) {
  const ends = store.ends(mesh);
  const started = [...mesh.ranks.values()].filter((rank) => rank.started || ends.has(rank.rank));
  if (started.length === 0) return h('p', { class: 'quiet' }, 'No rank has started.');
  const weight = (rank) => rank.restarts * 10 + (isFailure(rank) ? 5 : 0);
  const shown = leading(started, kMostLines, (rank) => -weight(rank)).map((rank) => ({ rank, attempts: attemptsOf(rank, ends.get(rank.rank)) }));
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
  return h('div', { class: 'timeline', tabindex: 0, role: 'region', 'aria-label': 'Timeline' }, made, started.length > shown.length ? h('p', { class: 'quiet' }, `${started.length - shown.length} further ranks`) : '');
}

export function meshView(root, store, [name]) {
  const search = h('input', { type: 'search', placeholder: 'Search: rank, host, state, reason', 'aria-label': 'Search ranks', oninput: () => update() });
  const top = h('div');
  const body = h('div');
  let shown = '';
  root.append(h('h1', {}, name), tabs(name), actions(name) ?? '', top, h('h2', {}, 'Ranks'), h('div', { class: 'controls' }, search), body);
  const update = () => {
    const mesh = store.meshes.get(name);
    if (!mesh) { shown = ''; show(body, missing(name)); return show(top); }
    show(top, h('p', { class: 'quiet' }, `${mesh.num_ranks} ranks, ${mesh.region}, on ${mesh.hosts.length} hosts · owner ${mesh.owner}`),
      h('pre', {}, cut(mesh.command)), bar(store.counts(mesh)), h('h2', {}, 'Attempts'), timeline(store, mesh));
    const text = search.value.toLowerCase();
    const ranks = [...mesh.ranks.values()].filter((rank) => text === '' ||
      `${rank.rank} ${rank.host} ${rank.point} ${stateOf(rank)} ${rank.reason}`.toLowerCase().includes(text));
    const order = (rank) => (isFailure(rank) ? 0 : rank.trouble ? 1 : 2);
    const first = leading(ranks, kMostRows, order);
    // A table whose rows are as they were is left alone.
    const key = `${ranks.length} ${first.map((rank) => `${rank.rank}:${rank.changed}`).join()}`;
    if (key === shown) return;
    shown = key;
    show(body, h('p', { class: 'quiet' }, ranks.length > kMostRows ? `The first ${kMostRows} of ${ranks.length} ranks` : `${ranks.length} ranks`),
      table([['Rank', 'number'], ['Point', 'wide'], ['Host', 'place wide'], ['State', ''], ['Attempt', 'number'], ['CPU', 'number wide'], ['Memory', 'number wide'], ['Queue', 'number wide'], ['Last line, or reason', 'text']],
        first.map((rank) => [
          h('a', { href: link(name, `/rank/${rank.rank}`) }, rank.rank), rank.point, rank.host, state(stateOf(rank)), rank.restarts + 1,
          rank.usage?.load !== undefined && rank.usage?.load !== null ? `${Math.round(rank.usage.load * 100)} %` : '', bytes(rank.usage?.rss ?? rank.usage?.peak_rss),
          rank.queue ? rank.queue.messages : '', h('span', { class: 'mono' }, cut((rank.ended ? rank.reason : rank.last_line) ?? '', 160))])));
  };
  return { update };
}

export function rankView(root, store, [name, number]) {
  const body = h('div');
  root.append(h('h1', {}, `Rank ${number} of ${name}`), tabs(name), actions(name, number) ?? '', body);
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
      h('p', {}, h('a', { href: link(name, `/logs/${number}`) }, 'Logs of this rank'), rights.write ? [' · ', h('a', { href: link(name, `/stacks/${number}`) }, 'Stacks of this rank')] : ''),
      rank.stderr_tail.length > 0 ? h('h2', {}, 'Last lines of stderr') : '',
      rank.stderr_tail.length > 0 ? h('pre', {}, rank.stderr_tail.map((line) => cut(line)).join('\n')) : '',
      h('h2', {}, 'Attempts'), timeline(store, { ...mesh, ranks: new Map([[rank.rank, rank]]) }),
      h('h2', {}, 'Events'), eventTable(store.latest(50, (event) => event.mesh === name && (!event.end || event.end.rank === rank.rank))));
  };
  return { update };
}
