// Orders to ranks, for a page that may act: each is asked about first, and its outcome is shown.
import { cut, h } from './dom.js';
import { order, rights } from './store.js';

/** Buttons for a mesh, or for one rank of it; nothing on a page that only reads. */
export function actions(mesh, rank) {
  if (!rights.write) return null;
  const what = rank === undefined ? `all ranks of ${mesh}` : `rank ${rank} of ${mesh}`;
  const target = rank === undefined ? { mesh } : { mesh, ranks: String(rank) };
  return h('div', { class: 'controls' },
    h('button', { onclick: () => ask({ title: `Stop ${what}?`, verb: 'stop', label: 'Stop', target, done: 'They were asked to stop',
      fields: [['reason', 'Reason', ''], ['grace_s', 'Seconds until SIGKILL', '', 'number']] }) }, 'Stop…'),
    h('button', { onclick: () => ask({ title: `Send a signal to ${what}?`, verb: 'signal', label: 'Send', target, done: 'The signal was sent',
      fields: [['signal', 'Signal', 'USR1']] }) }, 'Signal…'));
}

function ask({ title, verb, label, target, fields, done }) {
  const inputs = fields.map(([name, text, value, type]) => [name, type, h('input', { name, value, type: type ?? 'text', min: type ? 0 : null, step: type ? 'any' : null, 'aria-label': text })]);
  const words = h('p', { role: 'status' });
  const send = h('button', { type: 'submit' }, label);
  const close = h('button', { type: 'button', onclick: () => { box.close(); box.remove(); } }, 'Cancel');
  const form = h('form', {}, h('p', {}, inputs.map(([, , input], i) => h('label', {}, `${fields[i][1]} `, input))), words, h('div', { class: 'controls' }, send, close));
  const box = h('dialog', { 'aria-label': title, onclose: () => box.remove() }, h('h2', {}, title), form);
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const body = { ...target };
    for (const [name, type, input] of inputs) if (input.value !== '') body[name] = type === 'number' ? Number(input.value) : input.value;
    send.disabled = true;
    words.textContent = 'The hosts are asked…';
    try {
      const said = await order(verb, body);
      words.textContent = said.ranks === 'none' ? '' : `${done}: ranks ${said.ranks}.`;
      if (said.not_done.length > 0) words.textContent += ` Not confirmed: ${said.not_done.map((text) => cut(text, 300)).join('; ')}`;
      else send.remove();
      close.textContent = 'Close';
    } catch (error) {
      words.textContent = `Nothing was done: ${cut(error.message, 500)}`;
    }
    send.disabled = false;
    close.focus();
  });
  document.body.append(box);
  box.showModal();
}
