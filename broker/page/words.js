// SPDX-License-Identifier: Apache-2.0
// Figures as people read them.

const kWhole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

/** 12,345; from a million on 1.23 M. */
export function count(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return '–';
  if (Math.abs(value) >= 1e9) return `${(value / 1e9).toFixed(2)} G`;
  if (Math.abs(value) >= 1e6) return `${(value / 1e6).toFixed(2)} M`;
  return kWhole.format(value);
}

/** A rate: digits only where they say something. */
export function rate(value) {
  if (value === undefined || value === null || Number.isNaN(value)) return '–';
  if (value === 0) return '0';
  if (value < 0.095) return '<0.1';
  return value < 10 ? value.toFixed(1) : count(value);
}

/** 250 ms, 1.4 s, 2 min 5 s, 3 h 20 min, 2 d 4 h. */
export function duration(ms) {
  if (ms === undefined || ms === null || Number.isNaN(ms)) return '–';
  if (ms === 0) return '0 s';
  if (ms < 1) return '<1 ms';
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  const minutes = Math.floor(seconds / 60);
  if (minutes < 1440) return two(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.floor(minutes / 60);
  return two(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function two(large, unit, small, smaller) {
  return small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smaller}`;
}

export function bytes(value) {
  if (value === undefined || value === null) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) { value /= 1024; ++place; }
  return `${place === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[place]}`;
}

export function percent(share) {
  return Number.isFinite(share) ? `${Math.round(share * 100)} %` : '–';
}

/** A time of the day, with its day where that is another one. */
export function clock(ms) {
  const then = new Date(ms), now = new Date();
  const time = then.toLocaleTimeString('en-GB');
  return then.toDateString() === now.toDateString() ? time
    : `${then.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })} ${time}`;
}

export function many(number, word, plural = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : plural}`;
}

/** An argument as a shell takes it. */
export function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${String(text).replaceAll("'", "'\\''")}'`;
}

export function name_of_limit(limit) {
  return limit.replaceAll('_', ' ');
}
