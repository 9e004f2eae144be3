// What is known of the site: a snapshot, then its changes (docs: share/openapi/controller.json).

/** An end that nobody asked for: a code that is not 0, a signal, a failure (spec 4.2). */
export function isFailure(rank) {
  if (rank.status === 'failed') return true;
  return !rank.stop && (rank.status === 'killed' || (rank.status === 'stopped' && (rank.exit_code ?? 0) !== 0));
}

/** A word for the state of a rank: its status, its trouble, or that it has failed. */
export function stateOf(rank) { return isFailure(rank) ? 'failed' : rank.trouble?.trouble ?? rank.status; }

export class Store {
  constructor() { this.clear(); }

  clear() {
    this.sequence = 0;
    this.time = '';
    this.cut = 0;
    this.hosts = new Map();
    this.controllers = new Map();
    this.meshes = new Map();
    this.events = [];
  }

  /** Takes over a view: everything, or what has changed since the one before. */
  apply(view) {
    if (view.since === 0) this.clear();
    this.sequence = view.sequence;
    this.time = view.time;
    this.cut = view.cut;
    for (const host of view.hosts) this.hosts.set(host.host, host);
    for (const one of view.controllers) this.controllers.set(one.host, one);
    for (const name of view.gone) this.meshes.delete(name);
    for (const mesh of view.meshes) {
      const known = this.meshes.get(mesh.mesh);
      const ranks = known ? known.ranks : new Map();
      for (const rank of mesh.ranks) ranks.set(rank.rank, rank);
      // It may have been made smaller.
      for (const rank of [...ranks.keys()]) if (rank >= mesh.num_ranks) ranks.delete(rank);
      this.meshes.set(mesh.mesh, { ...mesh, ranks });
    }
    this.events.push(...view.events);
    if (this.events.length > 1000) this.events.splice(0, this.events.length - 1000);
  }

  /** Ranks of a mesh by state. */
  counts(mesh) {
    const counts = {};
    for (const rank of mesh.ranks.values()) {
      const name = stateOf(rank);
      counts[name] = (counts[name] ?? 0) + 1;
    }
    return counts;
  }

  /** The ends in the events of a mesh, by rank. */
  ends(mesh) {
    const found = new Map();
    for (const event of this.events) {
      if (event.mesh !== mesh.mesh || !event.end) continue;
      (found.get(event.end.rank) ?? found.set(event.end.rank, []).get(event.end.rank)).push(event.end);
    }
    return found;
  }

  /** Events of which that holds, the newest first: those of several hosts come in turns. */
  latest(count, holds = () => true) {
    return this.events.filter(holds).sort((a, b) => (a.time < b.time ? 1 : a.time > b.time ? -1 : b.sequence - a.sequence)).slice(0, count);
  }
}

let token = sessionStorage.getItem('meshbus-token') ?? '';
// A link may bring the token, and the view to open: #token=TOKEN or #token=TOKEN&view=/mesh/NAME. It leaves the address at once.
export function takeToken() {
  const given = /^#token=([^&]*)(?:&view=(.*))?$/.exec(location.hash);
  if (!given) return false;
  setToken(decodeURIComponent(given[1]));
  history.replaceState(null, '', `${location.pathname}#${given[2] ?? '/'}`);
  return true;
}
takeToken();
export function setToken(text) { token = text; sessionStorage.setItem('meshbus-token', text); }

function headers() { return token ? { Authorization: `Bearer ${token}` } : {}; }

/** One answer of the API. */
export async function ask(path) {
  const response = await fetch(path, { headers: headers(), cache: 'no-store' });
  if (!response.ok) throw Object.assign(new Error((await response.text()).trim()), { status: response.status });
  return response.json();
}

/** What this page may do; asked for when the controller answers. */
export const rights = { write: false };
export async function learnRights() { rights.write = (await ask('api/rights')).write === true; }

/** Asks for a deed: {ranks, not_done, …}, also when hosts did not do it. Throws when nothing was done. */
export async function order(verb, body) {
  const response = await fetch(`api/${verb}`, { method: 'POST', headers: { ...headers(), 'Content-Type': 'application/json' }, cache: 'no-store', body: JSON.stringify(body) });
  if (!response.ok && response.status !== 502) throw Object.assign(new Error((await response.text()).trim()), { status: response.status });
  return response.json();
}

/** Reads a stream of server-sent events until it ends; onEvent(name, data). EventSource cannot send a token. */
export async function follow(path, onEvent, signal) {
  const response = await fetch(path, { headers: headers(), cache: 'no-store', signal });
  if (!response.ok) throw Object.assign(new Error((await response.text()).trim()), { status: response.status });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let pieces = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    // A snapshot comes in many pieces: they are joined once its end is there.
    pieces.push(value);
    if (!value.includes('\n\n') && !(value.startsWith('\n') && pieces.length > 1)) continue;
    const blocks = pieces.join('').split('\n\n');
    pieces = [blocks.pop()];
    for (const block of blocks) {
      let name = 'message';
      const data = [];
      for (const line of block.split('\n')) {
        if (line.startsWith('event: ')) name = line.slice(7);
        if (line.startsWith('data: ')) data.push(line.slice(6));
      }
      if (data.length > 0) onEvent(name, JSON.parse(data.join('\n')));
    }
  }
}
