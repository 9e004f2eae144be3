// Why a mesh ended as it did, as a story: the first cause, then what followed.
import { clock, cut, h, show, span } from './dom.js';
import { missing, tabs } from './mesh.js';
import { isFailure } from './store.js';

const kMostSteps = 200;

/** The ends that are known of a mesh, and its events that are none, oldest first. */
export function story(store, mesh) {
  const steps = [];
  const seen = new Set();
  const addEnd = (end, host) => {
    const key = `${end.rank} ${end.ended}`;
    if (!end.ended || seen.has(key)) return;
    seen.add(key);
    steps.push({ time: end.ended, rank: end.rank, host, end });
  };
  for (const event of store.events) {
    if (event.mesh !== mesh.mesh) continue;
    if (event.end) addEnd(event.end, event.host);
    else steps.push({ time: event.time, host: event.host, event });
  }
  for (const rank of mesh.ranks.values()) if (rank.ended) addEnd(rank, rank.host);
  steps.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
  // What another life has mended is not what ended the mesh.
  const lives = new Map();
  const note = (rank, life) => lives.set(rank, Math.max(lives.get(rank) ?? 0, life ?? 0));
  for (const step of steps) if (step.end) note(step.rank, step.end.restarts);
  for (const rank of mesh.ranks.values()) note(rank.rank, rank.restarts);
  const first = steps.find((step) => step.end && isFailure(step.end) && !step.end.consequence
    && (step.end.restarts ?? 0) >= lives.get(step.rank));
  return { steps, first };
}

export function whyView(root, store, [name]) {
  const body = h('div');
  root.append(h('h1', {}, `Why: ${name}`), tabs(name), body);
  let shown = '';
  const update = () => {
    const mesh = store.meshes.get(name);
    if (!mesh) return show(body, missing(name));
    const { steps, first } = story(store, mesh);
    // A list that has not changed keeps its place and what is selected in it.
    const key = `${steps.length} ${first?.time} ${mesh.changed}`;
    if (key === shown) return;
    shown = key;
    if (steps.length === 0) return show(body, h('p', {}, 'Nothing has ended, and nobody asked for an end.'));
    const start = first ? Date.parse(first.time) : Date.parse(steps[0].time);
    const same = new Map();
    for (const step of steps) {
      if (step === first) continue;
      // What is equal and within a second is one step: "ranks 1, 2, 3".
      const words = step.end ? `${step.end.reason}|${step.end.consequence}|${Math.floor((Date.parse(step.time) - start) / 1000)}` : `${step.event.kind}|${step.event.text}|${step.event.by}|${Math.floor((Date.parse(step.time) - start) / 1000)}`;
      (same.get(words) ?? same.set(words, []).get(words)).push(step);
    }
    const all = [...same.values()];
    show(body,
      first ? h('p', {}, h('strong', {}, `Rank ${first.rank} was first: `), cut(first.end.reason, 500)) : h('p', {}, 'No rank has failed by itself.'),
      h('ol', { class: 'story' },
        [...(first ? [[first]] : []), ...all].sort((a, b) => (a[0].time < b[0].time ? -1 : 1)).slice(0, kMostSteps).map((group) => entry(group, first, start))),
      all.length > kMostSteps ? h('p', { class: 'quiet' }, `${all.length - kMostSteps} further steps`) : '');
  };
  return { update };
}

function placesOf(group) {
  const hosts = [...new Set(group.map((one) => one.host))];
  return hosts.length <= 4 ? hosts.join(', ') : `${hosts.slice(0, 4).join(', ')} and ${hosts.length - 4} more hosts`;
}

function entry(group, first, start) {
  const step = group[0];
  const offset = Date.parse(step.time) - start;
  const when = h('span', { class: 'when' }, `${clock(step.time)} ${offset === 0 ? '' : offset > 0 ? `(${span(offset)} later)` : `(${span(-offset)} before)`} `);
  if (!step.end) {
    const { event } = step;
    return h('li', {}, when, h('div', {}, `${event.kind.replaceAll('_', ' ')}: ${cut(event.text, 500)}`, event.by ? h('span', { class: 'quiet' }, ` by ${cut(event.by, 200)}`) : ''),
      h('div', { class: 'quiet' }, placesOf(group)));
  }
  const ranks = group.map((one) => one.rank).sort((a, b) => a - b);
  const who = ranks.length === 1 ? `Rank ${ranks[0]}` : `Ranks ${ranks.slice(0, 12).join(', ')}${ranks.length > 12 ? ` and ${ranks.length - 12} more` : ''}`;
  const because = step.end.because !== null && step.end.because !== undefined ? ` (because of rank ${step.end.because})` : step.end.consequence ? ' (as a consequence)' : '';
  return h('li', { class: step === first ? 'first' : '' }, when, step === first ? h('strong', {}, 'First cause') : '',
    h('div', {}, `${who}${step.end.restarts ? `, attempt ${step.end.restarts + 1}` : ''}: ${cut(step.end.reason, 500)}${because}`),
    h('div', { class: 'quiet' }, ranks.length === 1 ? `${step.end.point} · ${step.host}` : placesOf(group)),
    step.end.stderr_tail?.length > 0 && (step === first || ranks.length === 1) ? h('pre', {}, step.end.stderr_tail.slice(-30).map((line) => cut(line, 1000)).join('\n')) : '');
}
