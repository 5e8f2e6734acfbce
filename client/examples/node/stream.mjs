// SPDX-License-Identifier: Apache-2.0
// Prints the pieces of a job's answer as they come, a line each.   stream.mjs [ENDPOINT [SERVICE [BODY]]]
import { randomUUID } from "node:crypto";
import process from "node:process";

import { decode, encode } from "@msgpack/msgpack";
import { Dealer } from "zeromq";

const [endpoint = "tcp://127.0.0.1:5570", service = "words", text = "one two three"] = process.argv.slice(2);
const { LANEMQ_BROKER_KEY, LANEMQ_PUBLIC_KEY, LANEMQ_SECRET_KEY } = process.env;
const keys = LANEMQ_BROKER_KEY && {
  curveServerKey: LANEMQ_BROKER_KEY, curvePublicKey: LANEMQ_PUBLIC_KEY, curveSecretKey: LANEMQ_SECRET_KEY,
};
const id = randomUUID();
let client;
let taken = 0; // how many pieces have come, which is the number of the next one

const say = (op, fields, ...body) => client.send(encode(["LMQ1", op, { id, ...fields }, ...body]));
const fetchRest = () => say("fetch", { from_seq: taken, wait_ms: 1000 });

/** Makes a new connection, and asks by it for the pieces that have not come yet. */
async function connect() {
  client?.close();
  client = new Dealer({ linger: 0, receiveTimeout: 1000, ...keys });
  client.connect(endpoint);
  await (taken > 0 ? fetchRest() : say("submit", { service, stream: true }, Buffer.from(text)));
}

/** The next message; nothing where the broker is silent. */
async function receive() {
  let frames;
  try {
    frames = await client.receive();
  } catch (error) {
    if (error.code !== "EAGAIN") throw error;
    return {};
  }
  try {
    const [, op, fields, inside] = decode(frames[0]);
    return { op, fields, body: Buffer.from(inside ?? frames[1] ?? []).toString() };
  } catch {
    return { op: "unreadable" }; // what a later version may say
  }
}

function end(code, line) {
  if (line) (code === 0 ? console.log : console.error)(line);
  process.exitCode = code;
  client.close();
}

await connect();
for (let silences = 0, waited = 0; !client.closed; ) { // seconds without any word; without one about the job
  const { op, fields, body } = await receive();
  silences = op ? 0 : silences + 1;
  if (op !== "pong") waited = op ? 0 : waited + 1;
  if (silences === 20) end(3, "no answer");
  else if (!op && silences % 2 === 1 && waited % 8 !== 0) await say("ping", {}); // the job may take long: is the broker there?
  else if (!op) await connect();
  else if (op === "chunk" && fields.seq === taken) {
    console.log(body);
    await say("seen", { seq: taken++ });
  } else if (op === "status") await fetchRest(); // nothing new for a second; the job goes on
  else if (op === "chunk" && fields.seq > taken) await connect(); // this client was too slow for what is missing
  else if (op === "result" && (fields.chunks ?? 0) > taken) await connect();
  else if (op === "error" && fields.code === "slow_reader") await connect();
  else if (op === "result") end(0, body);
  else if (op === "error") end(1, `${fields.code}: ${fields.message ?? ""}`);
}
