// SPDX-License-Identifier: Apache-2.0
// What is wrong, since when, and what to do: pure, from the statistics and the history.
import { bytes, count, duration, many, name_of_limit, quoted } from './words.js';

/** A lane whose oldest job waits for longer is worth a word. */
const kOldMs = 60_000;
const kTurnMs = 250;

/** `series`, `is`: the history tells since when. `view`: where to look. */
function troubles_of(stats) {
  return [...of_store(stats), ...of_services(stats), ...of_upstreams(stats), ...of_budgets(stats), ...of_room(stats),
    ...of_pauses(stats), ...of_lanes(stats)];
}

function* of_store({ store }) {
  const level = { failed: 'bad', full: 'bad', stalled: 'bad', unsafe: 'bad', behind: 'warning' }[store.state];
  if (!level) return;
  const [what, help] = {
    full: ['The disk is full: durable jobs are refused', 'Make room where the store stands; the broker goes on by itself.'],
    unsafe: ['Nothing replicates the store: durable jobs are refused', 'Name synchronous standbys at the database, or see store_replication.'],
    stalled: ['The disk stands still: durable jobs wait for it', 'Look at the disk and its other writers.'],
    behind: ['The store is behind: more waits for the disk than may', 'Look at the disk, or submit fewer durable jobs.'],
    failed: ['The store has failed', 'Look at the disk and start the broker again.'],
  }[store.state];
  yield { level, what, help, series: 'broker.store_trouble', view: 'system' };
}

function name_of_unserved(name, { lane, draining }) {
  return `“${name}”${lane === undefined ? '' : ` in lane “${lane}”`}${draining ? ' (all that do drain)' : ''}`;
}

function help_of_unserved(name, { lane, draining }) {
  const start = `lanemq-worker --service ${quoted(name)}=HANDLER`;
  if (draining) return `lanemq resume worker NAME ends an operator's drain; or start one: ${start}.`;
  if (lane !== undefined) return `Start one that takes the lane: ${start}, without --lanes; or give those that are there this lane, too.`;
  return `Start one: ${start}; or look for a slip in the service's name.`;
}

function* of_services({ unserved }) {
  const names = Object.keys(unserved);
  if (!names.length) return;
  const queued = names.reduce((sum, name) => sum + unserved[name].queued, 0);
  const which = names.slice(0, 3).map((name) => name_of_unserved(name, unserved[name])).join(', ') + (names.length > 3 ? ' and others' : '');
  yield {
    level: 'bad', what: `No worker serves ${which}: ${many(queued, 'job')} ${queued === 1 ? 'waits' : 'wait'}`,
    help: help_of_unserved(names[0], unserved[names[0]]),
    series: 'broker.unserved', view: 'workers',
  };
}

function* of_upstreams({ upstreams }) {
  const broken = Object.entries(upstreams).filter(([, one]) => one.breaker !== 'closed');
  if (!broken.length) return;
  const [name, one] = broken[0];
  const next = one.retry_ms ? `; it is tried again in ${duration(one.retry_ms)}` : '';
  yield {
    level: 'bad',
    what: `The upstream of “${name}”${broken.length > 1 ? ` and of ${many(broken.length - 1, 'other service')}` : ''} fails`,
    help: `Its workers' logs say how${next}. Nothing of it is handed over until it answers.`,
    series: 'broker.upstreams_open', view: 'workers',
  };
}

function* of_budgets({ budgets, keys }) {
  for (const [name, own] of Object.entries(keys ?? {})) {
    const spent = Object.entries(own).filter(([, key]) => key.state === 'spent');
    if (!spent.length) continue;
    const all = spent.length === Object.keys(own).length;
    yield {
      level: all ? 'bad' : 'warning', what: `Key “${spent[0][0]}” of budget “${name}” is refused by its upstream${all ? ', and there is no other' : ''}`,
      help: 'Pay, or replace the key; SIGHUP or lanemq reload has it tried at once.', series: 'broker.keys_spent', view: 'budgets',
    };
  }
  const paused = Object.entries(budgets).filter(([, one]) => one.paused_ms);
  if (!paused.length) return;
  const [name, one] = paused[0];
  yield {
    level: 'warning', what: `The upstream of budget “${name}” asked for a pause, over in ${duration(one.paused_ms)}`,
    help: 'Waiting helps. Where it happens often, the upstream allows less than the budget says: lower its limits.',
    series: 'broker.budgets_paused', view: 'budgets',
  };
}

function* of_room({ memory_bytes: used, memory_max: most, descriptors, turn_ms: turn }) {
  if (used > 0.9 * most)
    yield {
      level: 'bad', what: `Jobs and answers fill ${bytes(used)} of ${bytes(most)} of memory`,
      help: 'New jobs are about to be refused: add workers, shorten retain, or raise memory_max.', series: 'broker.memory_share', is: (value) => value > 0.9, view: 'system',
    };
  if (descriptors.limit > 0 && descriptors.used > 0.9 * descriptors.limit)
    yield {
      level: 'warning', what: `${count(descriptors.used)} of ${count(descriptors.limit)} descriptors are open`,
      help: 'Raise LimitNOFILE, or find out who connects so often.', series: 'broker.descriptors_share', is: (value) => value > 0.9, view: 'system',
    };
  if (turn.last_minute > kTurnMs)
    yield {
      level: 'notice', what: `The loop was held up for ${duration(turn.last_minute)} within the last minute`,
      help: 'Give the machine more time: nobody is answered meanwhile.', series: 'broker.turn_ms', is: (value) => value > kTurnMs, view: 'system',
    };
}

function* of_pauses({ paused }) {
  if (!paused.length) return;
  const [what, ...name] = paused[0].split(' ');
  yield {
    level: 'notice', what: `An operator has paused ${what} “${name.join(' ')}”${paused.length > 1 ? ` and ${count(paused.length - 1)} more` : ''}`,
    help: `lanemq resume ${what} ${quoted(name.join(' '))} takes it back.`, series: 'broker.pauses', view: 'system',
  };
}

/** The limit of a budget of which next to nothing is left; null: there is none. */
export function tightest(budgets) {
  let found = null;
  for (const [name, budget] of Object.entries(budgets))
    for (const [limit, one] of Object.entries(budget)) {
      if (typeof one !== 'object' || !(one.capacity > 0)) continue;
      const used = 1 - one.level / one.capacity;
      if (used >= 0.95 && (!found || used > found.used)) found = { name, limit, used };
    }
  return found;
}

function* of_lanes({ lanes, budgets, workers }) {
  const old = Object.entries(lanes).filter(([, lane]) => lane.queued > 0 && lane.oldest_ms > kOldMs)
    .sort(([, one], [, other]) => other.oldest_ms - one.oldest_ms);
  if (!old.length) return;
  const [name, lane] = old[0];
  const tight = tightest(budgets);
  const full = workers.capacity > 0 && workers.running >= workers.capacity;
  const help = tight ? `Budget “${tight.name}” has next to nothing left of its ${name_of_limit(tight.limit)}: the quota is what limits.`
    : full ? `All ${many(workers.capacity, 'place')} are taken: more workers, or more --capacity, help.`
      : 'Jobs → its oldest job says what it waits for.';
  yield {
    level: 'notice', what: `Lane “${name}” has ${many(lane.queued, 'job')} waiting, the oldest for ${duration(lane.oldest_ms)}`,
    help, since_ms: lane.oldest_ms - kOldMs, view: tight ? 'budgets' : full ? 'workers' : 'jobs',
  };
}

const kOrder = ['bad', 'warning', 'notice'];

/** Since when the trouble has been there, by the history, newest last; null: for longer than it goes back. */
function begin_of(trouble, history, now) {
  if (trouble.since_ms !== undefined) return now - trouble.since_ms;
  const is = trouble.is ?? ((value) => value > 0);
  for (const part of history) {
    const values = part?.series[trouble.series];
    if (!values) continue;
    let place = values.length - 1;
    while (place >= 0 && (values[place] === null || is(values[place]))) --place;
    if (place >= 0) return Math.min(now, part.at_ms[Math.min(place + 1, part.at_ms.length - 1)]);
  }
  return null;
}

/**
 * The sentence on top. `history`: parts of it, the finest first; `now`: the sample's time.
 * Returns { level, what, since, help, view, others }.
 */
export function verdict_of(stats, history, now) {
  const all = troubles_of(stats).sort((one, other) => kOrder.indexOf(one.level) - kOrder.indexOf(other.level));
  if (!all.length) return { level: 'good', what: good_words(stats), others: [] };
  const [first, ...others] = all;
  return { ...first, since: begin_of(first, history, now), others };
}

function good_words({ lanes, workers }) {
  const sum = (field) => Object.values(lanes).reduce((total, lane) => total + lane[field], 0);
  const waiting = sum('queued'), running = sum('running');
  if (workers.connected === 0) return 'Nothing is wrong. No worker is connected, and no job waits for one.';
  if (waiting + running === 0) return 'All is well. No job waits, none runs.';
  return `All is well. ${many(running, 'job')} ${running === 1 ? 'runs' : 'run'}, ${many(waiting, 'job')} ${waiting === 1 ? 'waits' : 'wait'}.`;
}
