// SPDX-License-Identifier: Apache-2.0
// Who works: what they hold of what they could, when they were heard, and how to drain them; and the services.
import { Table, chip, fill, h, meter } from '../dom.js';
import { action, pause_or_resume, resume } from '../actions.js';
import { rows } from '../broker.js';
import { count, duration, many, quoted } from '../words.js';

export function workers_view(room) {
  let paused = new Set();
  const more = h('p', { class: 'note' });
  const workers = new Table({
    name: 'Workers', key: (worker) => worker.session,
    empty: ['No worker is connected. ', h('code', null, 'lanemq-worker --service echo=echo'), ' starts one.'],
    columns: [
      { head: 'Worker', cell: (worker) => [h('span', { class: 'name' }, worker.name || worker.session.slice(0, 8)), h('small', null, worker.session.slice(0, 8))], same: (worker) => worker.name },
      { head: 'State', cell: (worker) => chip({ ready: 'good', draining: 'pause', greeting: 'notice' }[worker.state] ?? 'notice', worker.state), same: (worker) => worker.state },
      { head: 'Holds', cell: (worker) => [meter(worker.capacity ? held(worker) / worker.capacity : 0, `Places of ${worker.name || worker.session}`, `${held(worker)} of ${worker.capacity}`), h('span', { class: 'words' }, `${count(held(worker))} of ${count(worker.capacity)}${worker.stopping ? `, ${count(worker.stopping)} told to stop` : ''}`)] },
      { head: 'Heard', number: true, cell: (worker) => `${duration(worker.heard_ms)} ago` },
      { head: 'Services', cell: (worker) => names(worker.services, worker.services_count) },
      { head: 'Lanes', cell: (worker) => (worker.lanes?.length ? names(worker.lanes) : 'all') },
      { head: 'Do', cell: (worker) => (worker.state === 'draining' ? resume('worker', worker.session, room.refresh) : drain(worker, room)), same: (worker) => worker.state },
    ],
  });
  const services = new Table({
    name: 'Services', key: (service) => service.name, empty: 'No job and no worker has named a service yet.',
    columns: [
      { head: 'Service', cell: (service) => h('span', { class: 'name' }, service.name), same: () => 0 },
      { head: 'Waiting', number: true, cell: (service) => count(service.queued) },
      { head: 'Workers', number: true, cell: (service) => count(service.workers) },
      { head: 'Free places', number: true, cell: (service) => count(service.free_places) },
      { head: 'Upstream', cell: upstream },
      { head: 'Do', cell: (service) => pause_or_resume('service', service.name, service.paused === true, room.refresh), same: (service) => service.paused === true },
    ],
  });
  return {
    element: h('div', { class: 'view' },
      h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Workers'), more), workers.element),
      h('section', { class: 'panel' }, h('header', null, h('h2', null, 'Services')), services.element)),
    sample({ stats }) { paused = new Set(stats.paused); },
    async lists() {
      const [all, served] = await Promise.all([rows('workers'), rows('services')]);
      workers.update(all.list.sort((one, other) => (one.name ?? '').localeCompare(other.name ?? '') || one.session.localeCompare(other.session)));
      services.update(served.list.sort((one, other) => one.name.localeCompare(other.name)));
      const places = all.list.reduce((sum, worker) => sum + worker.capacity, 0);
      fill(more, `${many(all.list.length, 'worker')}${all.more ? ' and more' : ''}, ${many(places, 'place')}`);
    },
  };
}

// Attempts that are over hold their places until their worker says so.
const held = (worker) => worker.running + (worker.stopping ?? 0);

function drain(worker, room) {
  const shown = worker.name || worker.session;
  return action({
    label: 'Drain', name: `Drain worker ${shown}`, verb: 'drain', fields: { name: worker.session }, then: room.refresh,
    what: `Drain worker “${shown}”?`, why: 'It finishes what it holds and is given no more; resume takes that back.',
    command: () => `lanemq drain ${quoted(worker.session)}`,
    done: (answer) => `Drains: ${many(answer.running, 'job')} to finish.`,
  });
}

function names(list, all) {
  if (!list?.length) return '–';
  return list.join(', ') + (all > list.length ? ` and ${all - list.length} more` : '');
}

function upstream(service) {
  if (!service.workers) return '–';
  if (!service.breaker && !service.breakers?.length) return chip('good', 'answers');
  const apart = (service.breakers ?? []).filter((one) => one.model || one.client)
    .map((one) => [one.model && `model ${one.model}`, one.client && `client ${one.client}`].filter(Boolean).join(', ') + `: ${one.state}`);
  const retry = service.breakers?.find((one) => one.retry_ms)?.retry_ms;
  return [service.breaker ? chip('bad', service.breaker === 'open' ? 'fails, left alone' : 'fails, being tried') : chip('warning', 'fails in part'),
    h('small', null, [...apart, retry ? `tried again in ${duration(retry)}` : ''].filter(Boolean).join('; '))];
}
