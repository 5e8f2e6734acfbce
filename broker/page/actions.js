// SPDX-License-Identifier: Apache-2.0
// Whatever changes the broker: each names its command, asks once, and says what became of it.
import { h, fill } from './dom.js';
import { post } from './broker.js';
import { quoted } from './words.js';

const kSaidForMs = 8000;

let may = false;
let why_not = '';

/** Whether this caller may change anything; else why not. */
export function set_role(allowed, reason) {
  may = allowed;
  why_not = reason;
  document.body.classList.toggle('read-only', !may);
  for (const button of document.querySelectorAll('button.act')) settle(button);
}

function settle(button) {
  button.disabled = !may;
  button.title = may ? button.dataset.command : why_not;
}

/**
 * A button. `label`; `command`: what `lanemq` would be told; `what`: the question; `verb`, `fields`: what is sent;
 * or `send()`, which does it itself; `preview(): Promise<string>` says what it would change; `done(answer): string`; `danger`; `asks`: [{ name, label, value, options }].
 */
export function action(options) {
  const button = h('button', {
    type: 'button', class: `act${options.danger ? ' danger' : ''}`, 'aria-label': options.name ?? options.label,
    'aria-haspopup': 'dialog', data: { command: options.command({}) }, onclick: () => confirm(options, button),
  }, options.label);
  settle(button);
  return button;
}

let told = 0;
/** Says a thing once, at the lower edge. */
export function tell(text, bad = false) {
  const said = document.getElementById('said');
  said.className = `said ${bad ? 'bad' : 'good'} shown`;
  said.textContent = text;
  const mine = ++told;
  setTimeout(() => { if (mine === told) said.classList.remove('shown'); }, kSaidForMs);
}

function field_of(ask, changed) {
  const input = ask.options
    ? h('select', { name: ask.name, onchange: changed }, ask.options.map((one) => h('option', { value: one }, one)))
    : h('input', { name: ask.name, value: ask.value ?? '', maxlength: 200, autocomplete: 'off', oninput: changed });
  return { ask, input, element: h('label', null, h('span', null, ask.label), input) };
}

function confirm(options, button) {
  const dialog = document.getElementById('ask');
  const command = h('code', { class: 'command' });
  const preview = h('p', { class: 'preview', 'aria-live': 'polite' });
  const values = () => Object.fromEntries(fields.filter((one) => one.input.value !== '').map((one) => [one.ask.name, one.input.value]));
  const changed = () => { command.textContent = options.command(values()); };
  const fields = (options.asks ?? []).map((ask) => field_of(ask, changed));
  const sure = h('button', { type: 'submit', class: options.danger ? 'danger' : 'primary' }, options.label);
  const form = h('form', { method: 'dialog', onsubmit: (event) => { event.preventDefault(); run(); } },
    h('h2', { id: 'ask-title' }, options.what), options.why ? h('p', null, options.why) : null, fields.map((one) => one.element),
    preview, h('p', { class: 'same' }, 'The same on the command line:'), command,
    h('div', { class: 'buttons' }, h('button', { type: 'button', onclick: () => dialog.close() }, 'Leave it'), sure));
  const run = async () => {
    sure.disabled = true;
    try {
      const answer = options.send ? await options.send() : await post(options.verb, { ...options.fields, ...values() });
      tell(options.done(answer));
      options.then?.();
    } catch (error) {
      tell(`${options.label}: ${error.message}`, true);
    }
    dialog.close();
  };
  dialog.onclose = () => (button.isConnected ? button : document.getElementById('main')).focus();
  fill(dialog, form);
  changed();
  dialog.showModal();
  (fields[0]?.input ?? sure).focus();
  if (!options.preview) return preview.remove();
  preview.textContent = 'Counting …';
  options.preview().then((text) => { preview.textContent = text; }, (error) => { preview.textContent = `Not counted: ${error.message}`; });
}

/** Pause, or take the pause back, of a lane, service, client or budget. */
export function pause_or_resume(what, name, paused, then) {
  return paused ? resume(what, name, then) : pause(what, name, then);
}


function pause(what, name, then) {
  return action({
    label: 'Pause', name: `Pause ${what} ${name}`, verb: 'pause', fields: { what, name }, then,
    what: `Pause ${what} “${name}”?`, why: 'Nothing of it is handed over until it is resumed. What runs goes on, submits are taken, deadlines fire.',
    asks: [{ name: 'reason', label: 'Reason, for the others' }],
    command: ({ reason }) => `lanemq pause ${what} ${quoted(name)}${reason ? ` --reason ${quoted(reason)}` : ''}`,
    done: (answer) => answer.changed ? `Paused ${what} “${name}”.` : `${what} “${name}” was paused already.`,
  });
}

export function resume(what, name, then) {
  return action({
    label: 'Resume', name: `Resume ${what} ${name}`, verb: 'resume', fields: { what, name }, then,
    what: `Resume ${what} “${name}”?`, why: 'Its jobs are handed over again.',
    command: () => `lanemq resume ${what} ${quoted(name)}`,
    done: (answer) => answer.changed ? `Resumed ${what} “${name}”.` : `${what} “${name}” was not paused.`,
  });
}
