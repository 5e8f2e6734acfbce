// SPDX-License-Identifier: Apache-2.0
// A session that is told messages and times, and what it says, decoded by msgpack alone.
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

export const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
export const PACKAGE = `${ROOT}client/node`;
const require = createRequire(`${PACKAGE}/package.json`);
export const { ExtData, decode, encode } = require("@msgpack/msgpack");

/** All that the session has to say: [op, fields or list of maps, body or bodies]. */
export function said(session, now = 0) {
  const messages = [];
  for (let frames; (frames = session.nextMessage(now)); ) {
    const [, op, fields, inside] = decode(frames[0]);
    messages.push([op, fields, plain(inside ?? frames[1] ?? [])]);
  }
  return messages;
}

/** Bodies as text. */
const plain = (body) => (Array.isArray(body) && body.length > 0 ? body.map(plain) : Buffer.from(body).toString());

export function tell(session, op, fields, body, now = 0) {
  const header = ["LMQ1", op, fields, ...(body === undefined ? [] : [Buffer.from(body)])];
  session.received([Buffer.from(encode(header))], now);
}

/** What came of requests since it was asked last. */
export const outcomes = (session) => session.events.splice(0).map(([, value]) => value);
