// SPDX-License-Identifier: Apache-2.0
// Reads the transcripts of tests/ends and plays them: what they mean is in tests/ends/README.md. Knows no session.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";

import { ROOT } from "./support.mjs";

const LISTS = ["status", "heartbeat", "states", "acked"]; // lines that name many
const UNITS = { ms: 1, s: 1000, min: 60_000 };

/** @param {string} word */
export function milliseconds(word) {
  const [, amount, unit] = /^(\d+)(ms|s|min)$/.exec(word);
  return Number(amount) * UNITS[unit];
}

/** `j1-j3` as j1, j2, j3; anything else as it is. */
function spread(text) {
  const match = /^([a-z]*)(\d+)-([a-z]*)(\d+)$/.exec(text);
  if (!match || match[1] !== match[3]) return [text];
  return Array.from({ length: Number(match[4]) - Number(match[2]) + 1 }, (_, n) => `${match[1]}${Number(match[2]) + n}`);
}

/** The lines that one line stands for: a range of names or numbers is a line for each, or many names in one. */
function parse(number, text) {
  const words = [];
  const fields = {};
  for (const part of text.split(/\s+/)) {
    const field = /^([a-z_0-9]+)=(.*)$/.exec(part);
    if (field) fields[field[1]] = field[2];
    else words.push(part);
  }
  const line = (said, own = fields) => ({ number, words: said, fields: own, text: textOf(said, own) });
  if (words.slice(0, 2).some((word) => LISTS.includes(word))) return [line(words.flatMap(spread))];
  const at = words.findIndex((word) => spread(word).length > 1);
  if (at >= 0) return spread(words[at]).map((one) => line(words.with(at, one)));
  if (fields.seq && spread(fields.seq).length > 1) return spread(fields.seq).map((seq) => line(words, { ...fields, seq }));
  return [line(words)];
}

/** Words, and fields in the order of their names. */
export const textOf = (words, fields) =>
  [...words, ...Object.keys(fields).sort().filter((key) => fields[key] !== undefined).map((key) => `${key}=${fields[key]}`)].join(" ");

/** All transcripts for clients, or for workers. */
function read(which) {
  const found = [];
  for (const file of readdirSync(`${ROOT}tests/ends`).filter((name) => name.endsWith(".txt")).sort()) {
    let current;
    for (const [index, source] of readFileSync(`${ROOT}tests/ends/${file}`, "utf8").split("\n").entries()) {
      const text = source.split(" # ")[0].trim();
      if (text === "" || text.startsWith("#")) continue;
      const [sign, ...words] = text.split(" ");
      const rest = words.join(" ");
      if (sign === "==") found.push((current = { file: `tests/ends/${file}`, name: rest, excepted: {}, steps: [] }));
      else if (sign === "rule") current.rule = rest;
      else if (sign === "client" || sign === "worker") [current.of] = parse(index + 1, text);
      else if (sign === "except") current.excepted[words[0]] = words.slice(1).join(" ");
      else if (sign === "<") current.steps.at(-1).expected.push(...parse(index + 1, rest));
      else current.steps.push({ happens: parse(index + 1, rest), expected: [] });
    }
  }
  for (const { file, name, rule, of, steps } of found) assert(rule && of && steps.length > 0, `${file} ${name}: it has no rule, no end or no step`);
  return found.filter(({ of }) => of.words[0] === which);
}

/** Words in brackets may be there or not; `*` stands for any value. */
function fits(expected, got) {
  if (expected === got) return true;
  const escaped = expected.replace(/[.+?^${}|[\]\\]/g, "\\$&").replaceAll("*", "\\S+");
  return new RegExp(`^${escaped.replace(/ ?\((.*?)\)/g, "(?: ?$1)?")}$`).test(got);
}

/** The first line that is not as expected. A whole line in brackets may be there or not. */
function compare(expected, got) {
  const rest = [...got];
  for (const line of expected) {
    const optional = line.text.startsWith("(") && line.text.endsWith(")");
    if (rest.length > 0 && (optional ? line.text.slice(1, -1) === rest[0] : fits(line.text, rest[0]))) rest.shift();
    else if (!optional) return { line, came: rest[0] ?? "nothing" };
  }
  return rest.length > 0 ? { came: rest[0] } : undefined;
}

/** Plays a transcript against an end: `happens(lines)` returns two lists of lines, what the end has said and what it has told. */
function play({ file, name, rule, steps }, end) {
  for (const { happens, expected } of steps) {
    const [said, told] = end.happens(happens);
    for (const [got, isTold] of [[said, false], [told, true]]) {
      const wrong = compare(expected.filter(({ words }) => (words[0].replace("(", "") === "told") === isTold), got);
      if (!wrong) continue;
      assert.fail(
        `${file}:${(wrong.line ?? happens[0]).number} ${name}\n  rule: ${rule}\n  after    > ${happens[0].text}\n` +
          `  expected < ${wrong.line?.text ?? "nothing more"}\n  got      < ${wrong.came}`,
      );
    }
  }
}

/** The maps of a message, each with what it inherits, and its body. */
export function itemsOf(fields, inside) {
  if (!Array.isArray(fields)) return [[fields, inside ?? Buffer.alloc(0)]];
  const { id, ids, ref, job, ...first } = fields[0];
  return fields.map((each, at) => {
    const whole = at === 0 ? each : { ...first, ...each };
    return [Object.fromEntries(Object.entries(whole).filter(([, value]) => value !== null)), inside?.[at] ?? Buffer.alloc(0)];
  });
}

/** The times until `end` at which the session has work, and the end. */
export function* wakeups(session, now, end) {
  for (let wakeup, count = 0; (wakeup = session.nextWakeup()) !== undefined && wakeup <= end && count < 100_000; ++count) {
    yield (now = Math.max(now, wakeup));
  }
  yield end;
}

/** A test for each transcript of `which`, played against `make(transcript.of)`. */
export function plays(which, make) {
  for (const transcript of read(which)) {
    test(transcript.name, { skip: transcript.excepted.node }, () => play(transcript, make(transcript.of)));
  }
}
