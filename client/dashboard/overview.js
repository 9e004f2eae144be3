// The site at a glance, its hosts, and what happened last.
import { bar, bytes, clock, cut, h, show, state, table } from './dom.js';
import { stateOf } from './store.js';

const link = (kind, name) => `#/${kind}/${encodeURIComponent(name)}`;

function tile(number, text, isBad) {
  return h('div', { class: `tile ${isBad ? 'bad' : ''}` }, h('b', {}, number), text);
}

export function overview(root, store) {
  const body = h('div');
  root.append(h('h1', {}, 'Overview'), body);
  const update = () => {
    const hosts = [...store.hosts.values()];
    const meshes = [...store.meshes.values()];
    const all = {};
    const rows = meshes.map((mesh) => {
      const counts = store.counts(mesh);
      for (const [name, n] of Object.entries(counts)) all[name] = (all[name] ?? 0) + n;
      const restarts = [...mesh.ranks.values()].reduce((sum, rank) => sum + rank.restarts, 0);
      const bad = counts.failed ?? 0;
      return { mesh, counts, restarts, bad };
    });
    rows.sort((a, b) => b.bad - a.bad || (a.mesh.mesh < b.mesh.mesh ? -1 : 1));
    const rate = hosts.reduce((sum, host) => sum + (host.broker?.messages_per_second ?? 0), 0);
    const slow = hosts.reduce((sum, host) => sum + (host.broker?.queues.filter((q) => q.waits_ms >= 1000).length ?? 0), 0);
    const lost = hosts.filter((host) => host.state === 'lost').length;
    const live = ['starting', 'running', 'ready', 'stopping', 'slow', 'frozen'].reduce((sum, name) => sum + (all[name] ?? 0), 0);
    show(body,
      h('div', { class: 'tiles' },
        tile(`${hosts.length - lost} of ${hosts.length}`, 'hosts up', lost > 0), tile(meshes.length, 'meshes'),
        tile(live, 'live ranks'), tile(all.failed ?? 0, 'failed ranks', all.failed > 0),
        tile(Math.round(rate), 'messages a second'), tile(slow, 'slow peers', slow > 0)),
      store.cut > 0 ? h('p', {}, `${store.cut} ranks are left out, because there are too many.`) : '',
      h('h2', {}, 'Meshes'),
      rows.length === 0 ? h('p', { class: 'quiet' }, 'There are none.') :
        table([['Mesh', 'place'], ['Ranks', 'number'], ['States', 'bar-cell'], ['Restarts', 'number wide'], ['Command', 'text wide'], ['Why', '']],
          rows.slice(0, 300).map(({ mesh, counts, restarts, bad }) => [
            h('a', { href: link('mesh', mesh.mesh) }, mesh.mesh), mesh.num_ranks, bar(counts), restarts, cut(mesh.command, 120),
            bad > 0 ? h('a', { href: `${link('mesh', mesh.mesh)}/why` }, 'why?') : ''])),
      h('h2', {}, 'Hosts'), hostTable(hosts.slice(0, 50)),
      hosts.length > 50 ? h('p', {}, h('a', { href: '#/hosts' }, `All ${hosts.length} hosts`)) : '',
      h('h2', {}, 'Controllers'), controllerTable([...store.controllers.values()]),
      h('h2', {}, 'Latest events'), eventTable(store.latest(12)));
  };
  return { update };
}

function hostTable(hosts) {
  return table([['Host', 'place'], ['State', ''], ['Live', 'number'], ['Messages/s', 'number'], ['Held', 'number wide'], ['Peers', 'number wide'], ['Load', 'number wide'], ['Memory free', 'number wide'], ['Note', 'text']],
    hosts.map((host) => [
      h('a', { href: link('hosts', host.host) }, host.host), state(host.state), host.live,
      host.broker ? Math.round(host.broker.messages_per_second) : '', host.broker?.held ?? '', host.broker?.peers ?? '',
      host.cpus ? `${host.load.toFixed(1)} / ${host.cpus}` : '', bytes(host.memory_available),
      host.error ? cut(host.error, 200) : host.drains.length > 0 ? `draining: ${host.drains[0].reason}` : '']));
}

function controllerTable(controllers) {
  if (controllers.length === 0) return h('p', { class: 'quiet' }, 'There are none.');
  return table([['At host', 'place'], ['State', ''], ['Since', ''], ['Late polls', 'number'], ['Subscribers', 'number wide'], ['Cannot reach', 'text']],
    controllers.map((one) => [h('a', { href: link('hosts', one.host) }, one.host), state(one.state), clock(one.since), one.late_polls, one.subscribers,
      one.unreachable.length > 0 ? cut(one.unreachable.join(', '), 300) : '–']));
}

export function eventTable(events) {
  if (events.length === 0) return h('p', { class: 'quiet' }, 'There are none.');
  return table([['Time', ''], ['What', ''], ['Mesh', 'place'], ['Ranks', 'wide'], ['Text', 'text'], ['Host', 'place wide']],
    events.map((event) => [clock(event.time), event.kind.replaceAll('_', ' '),
      event.mesh ? h('a', { href: link('mesh', event.mesh) }, event.mesh) : '',
      event.end ? `${event.end.rank}` : event.ranks ?? '', cut(event.end ? event.end.reason : event.text, 300), event.host]));
}

export function hostsView(root, store) {
  const search = h('input', { type: 'search', placeholder: 'Search hosts', 'aria-label': 'Search hosts', oninput: () => update() });
  const body = h('div');
  root.append(h('h1', {}, 'Hosts'), h('div', { class: 'controls' }, search), body);
  const update = () => {
    const text = search.value.toLowerCase();
    const hosts = [...store.hosts.values()].filter((host) => `${host.host} ${host.state} ${host.node}`.toLowerCase().includes(text));
    hosts.sort((a, b) => (b.state === 'lost') - (a.state === 'lost'));
    show(body, h('p', { class: 'quiet' }, `${hosts.length} of ${store.hosts.size} hosts`), hostTable(hosts.slice(0, 500)));
  };
  return { update };
}

export function hostView(root, store, [name]) {
  const body = h('div');
  root.append(h('h1', {}, name), body);
  const update = () => {
    const host = store.hosts.get(name);
    if (!host) return show(body, h('p', {}, 'This site has no such host.'));
    const broker = host.broker;
    const ranks = [];
    for (const mesh of store.meshes.values()) {
      for (const rank of mesh.ranks.values()) if (rank.host === name && ranks.length < 300) ranks.push([mesh, rank]);
    }
    show(body,
      h('p', {}, state(host.state), ` since ${host.since.slice(0, 19).replace('T', ' ')} UTC · ${host.node} · version ${host.version} · ${host.containment}`),
      host.error ? h('pre', {}, cut(host.error)) : '',
      h('div', { class: 'tiles' }, tile(host.live, 'live ranks'), tile(broker ? Math.round(broker.messages_per_second) : '–', 'messages a second'),
        tile(broker?.held ?? '–', 'messages held'), tile(broker?.returned ?? '–', 'returned'), tile(broker?.dropped ?? '–', 'dropped'), tile(broker?.refused ?? '–', 'refused')),
      h('h2', {}, 'Queues of peers that do not keep up'),
      broker?.queues.length ? table([['Peer', 'place'], ['Messages', 'number'], ['Bytes', 'number'], ['Took nothing for', 'number']],
        broker.queues.map((queue) => [queue.peer, queue.messages, bytes(queue.bytes), `${(queue.waits_ms / 1000).toFixed(1)} s`])) : h('p', { class: 'quiet' }, 'All keep up.'),
      h('h2', {}, 'Links to other hosts'),
      broker?.links.length ? table([['Host', 'place'], ['State', ''], ['Waiting', 'number'], ['Bytes', 'number']],
        broker.links.map((one) => [one.host, state(one.up ? 'up' : 'lost'), one.messages, bytes(one.bytes)])) : h('p', { class: 'quiet' }, 'There are none.'),
      h('h2', {}, 'Ranks'),
      table([['Mesh', 'place'], ['Rank', 'number'], ['State', '']], ranks.map(([mesh, rank]) => [mesh.mesh,
        h('a', { href: `${link('mesh', mesh.mesh)}/rank/${rank.rank}` }, rank.rank), state(stateOf(rank))])));
  };
  return { update };
}

export function eventsView(root, store) {
  const search = h('input', { type: 'search', placeholder: 'Search events', 'aria-label': 'Search events', oninput: () => update() });
  const body = h('div');
  root.append(h('h1', {}, 'Events'), h('div', { class: 'controls' }, search), body);
  const update = () => {
    const text = search.value.toLowerCase();
    const found = store.latest(400, (event) => `${event.kind} ${event.mesh} ${event.text} ${event.host} ${event.by} ${event.end?.reason}`.toLowerCase().includes(text));
    show(body, h('p', { class: 'quiet' }, `The latest ${store.events.length}, newest first`), eventTable(found));
  };
  return { update };
}
