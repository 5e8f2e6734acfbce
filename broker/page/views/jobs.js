// SPDX-License-Identifier: Apache-2.0
// The jobs, by filters; and one of them, from its acceptance to its end.
import { Table, chip, fill, h, icon } from '../dom.js';
import { action } from '../actions.js';
import { get, rows } from '../broker.js';
import { bytes, clock, count, duration, many, quoted } from '../words.js';

const kStates = ['', 'queued', 'delayed', 'running', 'succeeded', 'failed', 'expired', 'cancelled'];
const kFilters = ['lane', 'service', 'client', 'model'];
const kPages = 5;
const kSigns = { queued: 'notice', delayed: 'notice', running: 'good', succeeded: 'good', failed: 'bad', expired: 'warning', cancelled: 'pause' };

export function jobs_view(room) {
  const view = {};
  const fields = Object.fromEntries(kFilters.map((name) => [name, h('input', { name, placeholder: 'any', autocomplete: 'off' })]));
  fields.state = h('select', { name: 'state' }, kStates.map((state) => h('option', { value: state }, state || 'not over')));
  const id = h('input', { name: 'id', placeholder: 'ID', autocomplete: 'off' });
  const form = h('form', { class: 'filters', role: 'search', onsubmit: (event) => {
    event.preventDefault();
    if (id.value.trim()) room.go(`#jobs/${encodeURIComponent(id.value.trim())}`);
    else view.lists();
  }, onchange: (event) => { if (event.target !== id) view.lists(); } },
  h('label', null, h('span', null, 'state'), fields.state), kFilters.map((name) => h('label', null, h('span', null, name), fields[name])),
  h('label', null, h('span', null, 'or one job'), id), h('button', { type: 'submit', class: 'primary' }, 'Show'));
  const note = h('p', { class: 'note' });
  const table = new Table({
    name: 'Jobs', key: (job) => job.id, empty: 'No job is like that.',
    columns: [
      { head: 'Job', cell: (job) => h('a', { class: 'id', href: `#jobs/${encodeURIComponent(job.id)}` }, job.id), same: () => 0 },
      { head: 'State', cell: (job) => chip(kSigns[job.state] ?? 'notice', job.state), same: (job) => job.state },
      { head: 'Lane', cell: (job) => job.lane },
      { head: 'Service', cell: (job) => job.service + (job.model ? ` · ${job.model}` : '') },
      { head: 'Client', cell: (job) => job.client || '–' },
      { head: 'Attempts', number: true, cell: (job) => count(job.attempts) },
      { head: 'Age', number: true, cell: (job) => (job.age_ms === undefined ? '–' : duration(job.age_ms)) },
      { head: 'Worker', cell: (job) => job.worker || '–' },
      { head: 'Progress', cell: (job) => progress(job) || '–' },
    ],
  });
  const list = h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Jobs'), note), form, table.element);
  const one = h('section', { class: 'panel', hidden: true });
  let shown = '', last = '';
  view.element = h('div', { class: 'view' }, one, list);

  view.open = (rest) => {
    if (rest.startsWith('?'))
      for (const [name, value] of new URLSearchParams(rest)) if (fields[name]) fields[name].value = value;
    shown = rest.startsWith('?') ? '' : rest;
    last = '';
    one.hidden = !shown;
    if (shown) fill(one, h('p', null, 'Asking …'));
  };
  view.lists = async () => {
    await Promise.all([shown ? show_one() : null, show_list()]);
  };

  async function show_list() {
    const filter = Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, field.value.trim()]));
    const { list: all, more } = await rows('jobs', filter, kPages);
    table.update(all);
    fill(note, `${many(all.length, 'job')}${more ? ', and there are more: filter them' : ''}`);
  }

  async function show_one() {
    const asked = shown;
    try {
      const job = await get(`jobs/${encodeURIComponent(asked)}`);
      if (asked !== shown || one.contains(document.activeElement) && last === job.state) return;
      const focused = one.contains(document.activeElement);
      last = job.state;
      fill(one, whole(job, room));
      if (focused) one.querySelector('a, button')?.focus();
    } catch (error) {
      if (asked === shown) fill(one, h('header', null, h('h2', null, asked), back()), h('p', { class: 'empty' }, error.message));
    }
  }
  return view;
}

/** How far the worker of a job that runs says it is; empty: it says nothing. */
function progress(job) {
  return [job.pct !== undefined && `${job.pct} %`, job.note].filter(Boolean).join(' · ');
}

function back() {
  return h('a', { href: '#jobs' }, 'Close');
}

function whole(job, room) {
  const waits = job.state === 'queued' || job.state === 'delayed';
  const over = !waits && job.state !== 'running';
  return [
    h('header', null, h('h2', { class: 'id' }, job.id), chip(kSigns[job.state] ?? 'notice', job.state), h('div', { class: 'buttons' },
      over ? null : cancel(job, room), waits ? move(job, room) : null, job.dead ? h('a', { href: '#dead' }, 'Dead jobs') : null, back())),
    job.explanation ? h('p', { class: 'explain' }, h('b', null, job.explanation.what), job.explanation.help ? ` ${job.explanation.help}` : '') : null,
    h('h3', null, 'What happened'), timeline(job, waits, over),
    h('h3', null, 'What is known'), facts(job),
  ];
}

/** Times are counted back from now: the broker's clock tells how long ago, not when. */
function timeline(job, waits, over) {
  const now = Date.now();
  const steps = [];
  const attempts = [...(job.history ?? [])].reverse();
  const began = job.age_ms !== undefined ? now - job.age_ms : undefined;
  steps.push({ sign: 'good', at: began, what: `Accepted into lane ${job.lane}`, more: job.client !== undefined ? `of client ${job.client || '(no name)'}` : '' });
  if (job.queued_ms !== undefined && !attempts.length && job.attempts > 0) steps.push({ sign: 'notice', what: `Waited for ${duration(job.queued_ms)}` });
  for (const attempt of attempts)
    steps.push({
      sign: 'bad', at: attempt.ended_ms, what: `Attempt ${attempt.attempt} ended after ${duration(attempt.ran_ms)}: ${attempt.code ?? attempt.class}`,
      more: [attempt.worker && `at worker ${attempt.worker}`, attempt.class, attempt.message].filter(Boolean).join(' · '),
    });
  if (waits) steps.push({ sign: 'notice', at: now, what: `Waits for ${job.blocked_by ?? 'its turn'}`, more: job.eta_ms !== undefined ? `may be over in ${duration(job.eta_ms)}` : '' });
  if (job.state === 'running')
    steps.push({ sign: 'good', at: job.ran_ms !== undefined ? now - job.ran_ms : undefined, what: `Attempt ${job.attempts} runs${job.worker ? ` at worker ${job.worker}` : ''}`, more: `for ${duration(job.ran_ms)}${job.key ? ` · key ${job.key}` : ''}${job.chunks ? ` · ${many(job.chunks, 'chunk')}` : ''}${progress(job) && ` · ${progress(job)}`}${job.silent_ms === undefined ? '' : ` · last heard ${duration(job.silent_ms)} ago`}` });
  if (job.deadline_ms !== undefined && !over) steps.push({ sign: 'pause', at: now + job.deadline_ms, what: `Its time is over in ${duration(job.deadline_ms)}`, later: true });
  if (over) steps.push({ sign: kSigns[job.state] ?? 'notice', what: `Ended: ${job.state}${job.code ? `, ${job.code}` : ''}`, more: [job.message, job.ran_ms !== undefined && `ran for ${duration(job.ran_ms)}`, job.kept_ms !== undefined && `kept for ${duration(job.kept_ms)} more`].filter(Boolean).join(' · ') });
  return h('ol', { class: 'timeline' }, steps.map((step) => h('li', { class: step.later ? 'later' : undefined }, icon(step.sign),
    h('div', null, h('b', null, step.what), step.more ? h('p', null, step.more) : null), step.at === undefined ? null : h('time', null, clock(step.at)))));
}

const kFacts = [
  ['service', 'Service'], ['model', 'Model'], ['attempts_max', 'Attempts at most', count], ['body_bytes', 'Body', bytes], ['bytes', 'Counts as', bytes],
  ['input_tokens', 'Input tokens, estimated', count], ['output_tokens', 'Output tokens, estimated', count], ['reply', 'Reply'],
  ['retain_ms', 'Answer is kept for', duration], ['waiters', 'Clients that wait', count], ['readers', 'Readers of its stream', count], ['crashes', 'Workers lost with it', count],
  ['budgets', 'Budgets', (list) => (Array.isArray(list) ? list.join(', ') : String(list))], ['session', 'Session'],
];

function facts(job) {
  return h('dl', { class: 'facts' }, kFacts.filter(([field]) => job[field] !== undefined && job[field] !== '').map(([field, title, show = String]) =>
    h('div', null, h('dt', null, title), h('dd', null, show(job[field])))));
}

function cancel(job, room) {
  return action({
    label: 'Cancel', name: `Cancel job ${job.id}`, verb: 'cancel', fields: { id: job.id }, danger: true, then: room.refresh,
    what: `Cancel job ${job.id}?`, why: job.state === 'running' ? 'Its call is ended at the worker; its client is told.' : 'It is never run; its client is told.',
    command: () => `lanemq cancel ${quoted(job.id)}`, done: () => `Cancelled ${job.id}.`,
  });
}

function move(job, room) {
  const lanes = Object.keys(room.latest()?.stats.lanes ?? {}).filter((lane) => lane !== job.lane);
  if (!lanes.length) return null;
  return action({
    label: 'Move', name: `Move job ${job.id}`, verb: 'move', fields: { id: job.id }, then: room.refresh,
    what: `Move job ${job.id} out of lane “${job.lane}”?`, why: 'It stands in the new lane where it would if it had come there; its deadline stays.',
    asks: [{ name: 'lane', label: 'To lane', options: lanes }],
    command: ({ lane = lanes[0] }) => `lanemq move ${quoted(job.id)} ${quoted(lane)}`, done: (answer) => `Moved ${job.id} to lane “${answer.lane}”.`,
  });
}
