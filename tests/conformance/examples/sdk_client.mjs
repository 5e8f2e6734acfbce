// SPDX-License-Identifier: Apache-2.0
// The Node package's client as the kit wants it: sdk_client.mjs ENDPOINT reads jobs from stdin and prints a line for each.
import { readFileSync } from "node:fs";
import process from "node:process";

import { Client, LaneMQError, UnauthorizedError } from "../../../client/node/lib/index.js";

const [broker] = process.argv.slice(2);
const client = new Client({ broker });

async function ask(line) {
  const [what] = line.split(" ", 1);
  const body = line.slice(what.length + 1);
  try {
    if (what === "stream") {
      const stream = client.stream("echo", body);
      const pieces = [];
      for await (const piece of stream) pieces.push(piece);
      return `result ${Buffer.concat([...pieces, stream.answer.body])}`;
    }
    return `result ${(await client.submit("echo", body)).text}`;
  } catch (error) {
    if (error instanceof UnauthorizedError || !(error instanceof LaneMQError)) throw error;
    return `error ${error.code}`;
  }
}

const lines = readFileSync(0, "utf8").split("\n").filter(Boolean);
await Promise.all(lines.map(async (line) => process.stdout.write(`${await ask(line)}\n`)));
await client.close();
