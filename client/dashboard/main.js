// Chooses the view by the address, keeps the data coming, and redraws at most four times a second.
import { h, visible } from './dom.js';
import { Store, follow, learnRights, rights, setToken, takeToken } from './store.js';
import { eventsView, hostView, hostsView, overview } from './overview.js';
import { gridView } from './grid.js';
import { meshView, rankView } from './mesh.js';
import { whyView } from './why.js';
import { logsView } from './logs.js';
import { stacksView } from './stacks.js';

const kRedraw = 250;
const store = new Store();
const main = document.getElementById('main');
const status = document.getElementById('link');
let view = null;
let drawn = 0;
let timer = 0;

const kViews = [
  [/^#?\/?$/, overview],
  [/^#\/hosts$/, hostsView],
  [/^#\/hosts\/([^/]+)$/, hostView],
  [/^#\/grid(?:\/([^/]+))?$/, gridView],
  [/^#\/events$/, eventsView],
  [/^#\/mesh\/([^/]+)$/, meshView],
  [/^#\/mesh\/([^/]+)\/rank\/(\d+)$/, rankView],
  [/^#\/mesh\/([^/]+)\/why$/, whyView],
  [/^#\/mesh\/([^/]+)\/logs(?:\/(\d+))?$/, logsView],
  [/^#\/mesh\/([^/]+)\/stacks(?:\/(\d+))?$/, stacksView],
];
const kLinks = [['#/', 'Overview', 'o'], ['#/hosts', 'Hosts', 'h'], ['#/grid', 'Grid', 'g'], ['#/events', 'Events', 'e']];

function navigate() {
  if (view?.close) view.close();
  const hash = location.hash || '#/';
  view = null;
  for (const [pattern, make] of kViews) {
    const found = pattern.exec(hash);
    if (!found) continue;
    main.replaceChildren();
    view = make(main, store, found.slice(1).map((part) => part && decodeURIComponent(part)));
    break;
  }
  if (!view) main.replaceChildren(h('h1', {}, 'No such page'), h('p', {}, h('a', { href: '#/' }, 'Overview')));
  document.querySelector('nav').replaceChildren(...kLinks.map(([href, name]) =>
    h('a', { href, 'aria-current': hash === href || (href !== '#/' && hash.startsWith(href)) ? 'page' : null }, name)));
  document.title = `${main.querySelector('h1')?.textContent ?? 'meshbus'} · meshbus`;
  redraw();
}

function redraw() {
  timer = 0;
  drawn = performance.now();
  if (view && !document.hidden) view.update();
  document.documentElement.dataset.sequence = store.sequence;
}

function changed() {
  if (timer === 0) timer = setTimeout(redraw, Math.max(0, kRedraw - (performance.now() - drawn)));
}

function say(text, isBad) {
  status.textContent = visible(text);
  status.classList.toggle('bad', isBad);
}

function askForToken(why) {
  const field = h('input', { type: 'password', name: 'token', autocomplete: 'off', 'aria-label': 'Token' });
  main.replaceChildren(h('h1', {}, 'Token'), h('p', {}, `${why}. The controller says at its start in which file the token is.`),
    h('form', { class: 'controls', onsubmit: (event) => { event.preventDefault(); setToken(field.value); navigate(); run(); } },
      field, h('button', {}, 'Open')));
  field.focus();
}

async function run() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10000)) {
    try {
      const couldWrite = rights.write;
      await learnRights();
      if (couldWrite !== rights.write) navigate();
      await follow(`api/stream?since=${store.sequence}`, (name, data) => {
        if (name !== 'site') return;
        store.apply(data);
        pause = 500;
        say(`live · ${data.time.slice(11, 19)} UTC`, false);
        changed();
      });
      say('the controller closed the connection; trying again', true);
    } catch (error) {
      if (error.status === 401) { say('no access', true); return askForToken(error.message); }
      say(`no answer: ${error.message}; trying again`, true);
    }
    await new Promise((then) => setTimeout(then, pause));
  }
}

function help() {
  const box = h('dialog', { onclose: () => box.remove() }, h('h2', {}, 'Keys'),
    h('p', {}, [...kLinks.map(([, name, key]) => [key, name]), ['/', 'search'], ['?', 'this help'], ['Esc', 'close']]
      .map(([key, name]) => h('div', {}, h('kbd', {}, key), ` ${name}`))),
    h('form', { method: 'dialog' }, h('button', {}, 'Close')));
  document.body.append(box);
  box.showModal();
}

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches('input, select, textarea')) return;
  const link = kLinks.find(([, , key]) => key === event.key);
  if (link) location.hash = link[0];
  else if (event.key === '?') help();
  else if (event.key === '/') { event.preventDefault(); main.querySelector('input[type=search]')?.focus(); }
});
document.addEventListener('visibilitychange', changed);
window.addEventListener('hashchange', () => {
  // A link with a token that is opened where the page is already shown.
  if (takeToken()) return location.reload();
  if (location.hash !== '#main') { navigate(); main.focus(); }
});
navigate();
run();
