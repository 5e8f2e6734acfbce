// SPDX-License-Identifier: Apache-2.0
// Ports of the kernel's choice that stay the test's while nobody listens at them. Node cannot bind without listening: ports.py holds
// them.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

let holder, lines;
let asked = 0; // and not answered: so long this process does not end

function start() {
  holder = spawn("python3", [fileURLToPath(new URL("ports.py", import.meta.url))], { stdio: ["pipe", "pipe", "inherit"] });
  lines = createInterface({ input: holder.stdout })[Symbol.asyncIterator]();
  for (const one of [holder, holder.stdin]) one.unref(); // it ends with this process
}

export async function freePort() {
  if (!holder) start();
  if (asked++ === 0) holder.stdout.ref();
  holder.stdin.write("\n");
  const { done, value } = await lines.next();
  if (--asked === 0) holder.stdout.unref();
  if (done) throw new Error("ports.py has ended");
  return Number(value);
}

export const freeEndpoint = async () => `tcp://127.0.0.1:${await freePort()}`;

/** Endpoints for a broker that is started later, or again. */
export const fixedEndpoints = async () => ({ clients: await freeEndpoint(), workers: await freeEndpoint(), admin: await freeEndpoint() });
