// SPDX-License-Identifier: Apache-2.0
// How tests in JavaScript wait for what they need.
import { setTimeout as sleep } from "node:timers/promises";

/** How long anything may take before the test gives up, in ms. */
export const PATIENCE = 1000 * Number(process.env.LANEMQ_TEST_PATIENCE ?? 60);

/** Polls for something that no socket tells of, and returns it. */
export async function until(happened, what, patience = PATIENCE) {
  const deadline = performance.now() + patience;
  for (let value; ; await sleep(5)) {
    if ((value = await happened())) return value;
    if (performance.now() > deadline) throw new Error(`${what}: not within ${patience} ms`);
  }
}
