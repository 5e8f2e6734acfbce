// SPDX-License-Identifier: Apache-2.0
// Jobs that failed, in groups: what went wrong, how often, and to run or forget them.
import { Table, fill, h } from '../dom.js';
import { action } from '../actions.js';
import { post, rows } from '../broker.js';
import { count, duration, many, quoted } from '../words.js';

/** So many pages of dead jobs are grouped. */
const kPages = 20;
const kBatch = 100;
/** A group's verbs are said as often as it takes, and not for ever. */
const kBatchesMax = 1000;
const kShown = 5;

export function dead_view(room) {
  const note = h('p', { class: 'note' });
  const all = h('div', { class: 'buttons' });
  const table = new Table({
    name: 'Dead jobs by code and message', key: (group) => `${group.code}\n${group.message}`, empty: 'No job is dead. Those that fail, or whose time is over, come here.',
    columns: [
      { head: 'Code', cell: (group) => h('span', { class: 'name' }, group.code), same: () => 0 },
      { head: 'Jobs', number: true, cell: (group) => count(group.jobs.length) },
      { head: 'Message', cell: (group) => h('span', { class: 'message' }, group.message || '–'), same: () => 0 },
      { head: 'Lanes, services', cell: (group) => `${listed(group, 'lane')}; ${listed(group, 'service')}` },
      { head: 'Clients', cell: (group) => listed(group, 'client') },
      { head: 'Last', number: true, cell: (group) => `${duration(Math.min(...group.jobs.map((job) => job.dead_ms)))} ago` },
      { head: 'First ones', cell: (group) => h('details', null, h('summary', null, 'Show'), h('ul', null, group.jobs.slice(0, kShown).map((job) => h('li', null, h('a', { class: 'id', href: `#jobs/${encodeURIComponent(job.id)}` }, job.id))))), same: (group) => group.jobs.slice(0, kShown).map((job) => job.id).join() },
      { head: 'Do', cell: (group) => h('div', { class: 'buttons' }, group_action(group, 'redrive', room), group_action(group, 'purge', room)), same: (group) => group.jobs.map((job) => job.id).join() },
    ],
  });
  let said = '';
  return {
    element: h('div', { class: 'view' }, h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Dead jobs'), note, all), table.element)),
    async lists() {
      const { list, more, last } = await rows('dead', {}, kPages);
      const groups = grouped(list);
      table.update(groups);
      fill(note, `${many(last.count, 'job')} in ${many(groups.length, 'group')}${more ? `; the oldest ${count(list.length)} are grouped` : ''}`);
      const codes = [...new Set(list.map((job) => job.code))].sort();
      if (codes.join() === said) return;
      said = codes.join();
      fill(all, codes.flatMap((code) => ['redrive', 'purge'].map((verb) => code_action(code, verb, room))));
    },
  };
}

function grouped(list) {
  const groups = new Map();
  for (const job of list) {
    const key = `${job.code}\n${job.message ?? ''}`;
    if (!groups.has(key)) groups.set(key, { code: job.code, message: job.message ?? '', jobs: [] });
    groups.get(key).jobs.push(job);
  }
  return [...groups.values()].sort((one, other) => other.jobs.length - one.jobs.length || one.code.localeCompare(other.code));
}

function listed(group, field) {
  const names = [...new Set(group.jobs.map((job) => job[field] || '(no name)'))];
  return names.slice(0, 3).join(', ') + (names.length > 3 ? ` and ${names.length - 3} more` : '');
}

const kWords = {
  redrive: { label: 'Redrive', past: 'Runs again', done: 'redriven', why: 'They are submitted again under their ids, for whoever fetches the answers; an upstream that still fails fails them again.' },
  purge: { label: 'Purge', past: 'Forgotten', done: 'purged', why: 'They are forgotten, with their histories. Nothing brings them back.' },
};

/** Says a verb until no job is left for it; adds up what it did. */
async function repeated(verb, fields, dry) {
  const sum = { done: 0, refused: 0, message: '' };
  let from;
  for (let batch = 0; batch < kBatchesMax; ++batch) {
    const answer = await post(verb, { ...fields, limit: kBatch, ...(from === undefined ? {} : { from }), ...(dry ? { dry_run: true } : {}) });
    sum.done += answer[kWords[verb].done] ?? 0;
    sum.refused += answer.refused ?? 0;
    sum.message ||= answer.message ?? '';
    if (answer.next === undefined) break;
    from = answer.next;
  }
  return sum;
}

function words_of(verb, sum) {
  return `${kWords[verb].past}: ${many(sum.done, 'job')}${sum.refused ? `; ${count(sum.refused)} refused: ${sum.message}` : ''}.`;
}

/** All dead jobs of a code: the broker chooses them. */
function code_action(code, verb, room) {
  const words = kWords[verb];
  return action({
    label: `${words.label} all ${code}`, danger: verb === 'purge', what: `${words.label} all dead jobs with the code “${code}”?`, why: words.why,
    preview: async () => `It is ${many((await repeated(verb, { code }, true)).done, 'job')}.`,
    command: () => `lanemq ${verb} --code ${quoted(code)}`, send: () => repeated(verb, { code }, false), done: (sum) => words_of(verb, sum), then: room.refresh,
  });
}

/** The jobs of a group: the broker has no filter for messages, so they are named one by one. */
function group_action(group, verb, room) {
  const words = kWords[verb];
  const each = async (dry) => {
    const sum = { done: 0, refused: 0, message: '' };
    for (const job of group.jobs)
      try {
        const answer = await post(verb, { id: job.id, ...(dry ? { dry_run: true } : {}) });
        sum.done += answer[words.done] ?? 0;
        sum.refused += answer.refused ?? 0;
        sum.message ||= answer.message ?? '';
      } catch (error) {
        if (error.status !== 404) throw error;  // it is not dead any more
      }
    return sum;
  };
  return action({
    label: words.label, name: `${words.label} the ${many(group.jobs.length, 'job')} that ended with ${group.code}: ${group.message}`, danger: verb === 'purge',
    what: `${words.label} ${many(group.jobs.length, 'job')} that ended with “${group.code}”?`, why: words.why,
    preview: async () => `It is ${many((await each(true)).done, 'job')}.`,
    command: () => (group.jobs.length === 1 ? `lanemq ${verb} ${quoted(group.jobs[0].id)}` : `for id in ${group.jobs.slice(0, kShown).map((job) => quoted(job.id)).join(' ')}${group.jobs.length > kShown ? ' …' : ''}; do lanemq ${verb} "$id"; done`),
    send: () => each(false), done: (sum) => words_of(verb, sum), then: room.refresh,
  });
}
