// SPDX-License-Identifier: Apache-2.0
// Has one job done and prints its answer.   request.mjs [ENDPOINT [SERVICE [BODY]]]
import { randomUUID } from "node:crypto";
import process from "node:process";

import { decode, encode } from "@msgpack/msgpack";
import { Request } from "zeromq";

const [endpoint = "tcp://127.0.0.1:5570", service = "echo", text = "hello"] = process.argv.slice(2);
const { LANEMQ_BROKER_KEY, LANEMQ_PUBLIC_KEY, LANEMQ_SECRET_KEY } = process.env;
const keys = LANEMQ_BROKER_KEY && {
  curveServerKey: LANEMQ_BROKER_KEY, curvePublicKey: LANEMQ_PUBLIC_KEY, curveSecretKey: LANEMQ_SECRET_KEY,
};
const submit = encode(["LMQ1", "submit", { service, id: randomUUID() }, Buffer.from(text)]);

async function ask() {
  const client = new Request({ linger: 0, receiveTimeout: 2000, ...keys });
  client.connect(endpoint);
  try {
    await client.send(submit);
    return await client.receive();
  } catch (error) {
    if (error.code !== "EAGAIN") throw error;
    console.error("no answer yet");
    return undefined; // Silence: ask again by a new socket. The id is the same, so the work is not done twice.
  } finally {
    client.close();
  }
}

let answer;
for (let attempt = 0; attempt < 10 && !answer; ++attempt) answer = await ask();
if (answer) {
  const [, op, fields, inside] = decode(answer[0]);
  if (op === "result") console.log(Buffer.from(inside ?? answer[1] ?? []).toString());
  else console.error(`${fields.code}: ${fields.message ?? ""}`);
  process.exitCode = op === "result" ? 0 : 1;
} else {
  console.error("no answer");
  process.exitCode = 3;
}
