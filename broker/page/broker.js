// SPDX-License-Identifier: Apache-2.0
// The broker, as the page reaches it: requests, the stream of samples, and the key.

const kKeyPlace = 'lanemq.key';
const kPatienceMs = 12000;
/** A stream that says nothing for so long is taken for lost: the broker has a sample a second. */
const kSilenceMs = 6000;
const kComeBackMs = 1000;

export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The key lasts as long as the tab. */
export const key = {
  get: () => sessionStorage.getItem(kKeyPlace) ?? '',
  set: (value) => value ? sessionStorage.setItem(kKeyPlace, value) : sessionStorage.removeItem(kKeyPlace),
};

function headers(more = {}) {
  return key.get() ? { ...more, authorization: `Bearer ${key.get()}` } : more;
}

async function answer_of(response) {
  let document = null;
  try {
    document = await response.json();
  } catch {
    throw new Refused(response.status, 'unreadable', `the broker answered ${response.status} without JSON`);
  }
  if (!response.ok) throw new Refused(response.status, document.error?.code ?? '', document.error?.message ?? `status ${response.status}`);
  return document;
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, { ...options, cache: 'no-store', signal: AbortSignal.timeout(kPatienceMs) });
  } catch {
    throw new Refused(0, 'unreached', 'the broker does not answer');
  }
  return answer_of(response);
}

/** `fields`: of the query; those that are empty are left out. */
export function get(path, fields = {}) {
  const query = new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== '' && value !== undefined));
  return ask(`/v1/${path}${query.size ? `?${query}` : ''}`, { headers: headers() });
}

/** All rows of a list, of so many pages at most; `more` says that there are others. */
export async function rows(verb, fields = {}, pages = 10) {
  const list = [];
  let from, last;
  for (let page = 0; page < pages; ++page) {
    last = await get(verb, { ...fields, from });
    list.push(...last[verb]);
    from = last.next;
    if (from === undefined) break;
  }
  return { list, more: from !== undefined, last };
}

export function post(verb, fields = {}) {
  return ask(`/v1/${verb}`, {
    method: 'POST', headers: headers({ 'content-type': 'application/json' }), body: JSON.stringify(fields),
  });
}

/**
 * Follows the samples for ever: a connection that is lost, silent or refused is made again.
 * `on.sample(sample)`, `on.lost(error)`.
 */
export class Samples {
  constructor(on) {
    this.on = on;
    this.run();
  }

  /** Connects anew at once, with another key. */
  again() {
    this.abort?.abort();
    this.wake?.();
  }

  async run() {
    for (;;) {
      try {
        await this.follow();
        this.on.lost(new Refused(0, 'unreached', 'the broker has closed the connection'));
      } catch (error) {
        this.on.lost(error instanceof Refused ? error : new Refused(0, 'unreached', 'the broker does not answer'));
      }
      await new Promise((resolve) => { this.wake = resolve; setTimeout(resolve, kComeBackMs); });
    }
  }

  async follow() {
    const abort = this.abort = new AbortController();
    let silence = setTimeout(() => abort.abort(), kSilenceMs);
    try {
      const response = await fetch('/v1/events', { headers: headers(), cache: 'no-store', signal: abort.signal });
      if (!response.ok) await answer_of(response);
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort(), kSilenceMs);
        text = this.take(text + value);
      }
    } finally {
      clearTimeout(silence);
      abort.abort();
    }
  }

  /** Hands over the events that are whole; returns the rest. */
  take(text) {
    const events = text.split('\n\n');
    const rest = events.pop();
    for (const event of events) {
      const lines = event.split('\n');
      if (!lines.includes('event: sample')) continue;
      const data = lines.find((line) => line.startsWith('data: '));
      if (data) this.on.sample(JSON.parse(data.slice(6)));
    }
    return rest;
  }
}
