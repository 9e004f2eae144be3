// Where the threads of ranks are, looked at once: ranks that are elsewhere than most come first.
import { cut, h, show } from './dom.js';
import { tabs } from './mesh.js';
import { order, rights } from './store.js';

const kMostStacks = 200;

function frameText(frame) {
  if (frame.language === 'python') return `${frame.function} (${frame.file.split('/').pop()}:${frame.line || '?'})`;
  if (frame.function === '') return frame.file || 'code without a file';
  return `${frame.function} (${frame.source && !frame.file.startsWith('libc.so') ? frame.source : frame.file})`;
}

function siteText(stack) {
  const kernel = [stack.system_call && `in ${stack.system_call}`, stack.kernel_function && `kernel: ${stack.kernel_function}`];
  return [...(stack.state === 'R' ? ['runs'] : kernel), stack.note].filter(Boolean).join(', ');
}

function section(stack) {
  const lines = [siteText(stack), ...stack.frames.map(frameText)].filter(Boolean);
  return [h('h2', {}, `Ranks ${stack.ranks} · ${cut(stack.process, 100)} · ${stack.thread === '' ? 'main thread' : `thread ${cut(stack.thread, 100)}`}${stack.threads > 1 ? ` · ${stack.threads} threads` : ''}`),
    h('pre', {}, lines.map((line) => cut(line, 300)).join('\n'))];
}

export function stacksView(root, store, [name, rank]) {
  const body = h('div');
  const again = h('button', { onclick: () => look() }, 'Look again');
  root.append(h('h1', {}, rank ? `Stacks of rank ${rank} of ${name}` : `Stacks of ${name}`), tabs(name), h('div', { class: 'controls' }, again), body);
  let isOpen = true;
  const look = async () => {
    if (!rights.write) return show(body, h('p', {}, 'This page only reads. A look stops each thread for a moment: start meshbus-controller with --http-write to allow it.'));
    again.disabled = true;
    show(body, h('p', { role: 'status' }, 'The hosts are looking…'));
    try {
      const found = await order('stacks', rank ? { mesh: name, ranks: rank } : { mesh: name });
      if (!isOpen) return;
      body.replaceChildren(h('p', { class: 'quiet', role: 'status' }, `Ranks ${found.ranks}, looked at in ${found.took_ms} ms`),
        ...found.not_done.map((text) => h('p', {}, `Not done: ${cut(text, 500)}`)),
        ...found.odd.map((odd) => h('p', {}, h('strong', {}, `Ranks ${odd.ranks}, unlike most: `), cut(odd.where, 500))),
        ...found.stacks.slice(0, kMostStacks).flatMap(section),
        found.stacks.length > kMostStacks ? h('p', { class: 'quiet' }, `${found.stacks.length - kMostStacks} further stacks`) : '',
        ...found.problems.map((problem) => h('p', {}, `Ranks ${problem.ranks}: ${cut(problem.text, 500)}`)));
    } catch (error) {
      if (isOpen) show(body, h('p', { role: 'status' }, `Nothing was looked at: ${cut(error.message, 500)}`));
    }
    again.disabled = false;
  };
  look();
  return { update: () => {}, close: () => { isOpen = false; } };
}
