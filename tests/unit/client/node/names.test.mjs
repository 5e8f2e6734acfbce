// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { test } from "node:test";

import { Addresses } from "../../../../client/node/lib/names.js";

test("what has no name goes straight on", () => {
  for (const endpoint of [
    "tcp://127.0.0.1:5570", "tcp://[::1]:5570", "tcp://::1:5570", "tcp://[fe80::1%eth0]:5570", "tcp://eth0:0;127.0.0.1:5570", "tcp://*:5570",
    "ipc:///run/lanemq/clients", "ipc://@lanemq", "inproc://name", "nowhere", "tcp://", "tcp://:5570",
  ]) {
    assert.equal(Addresses.of(endpoint), undefined, endpoint);
  }
  for (const endpoint of ["tcp://broker:5570", "tcp://a-1.lanemq_2.svc:5570", "tcp://eth0:0;broker:5570", "tcp://1a:1", "tcp://127.1:5570"]) {
    assert(Addresses.of(endpoint), endpoint);
  }
});

test("a name of the table of hosts has its addresses, and these stand in its place", async () => {
  const addresses = Addresses.of("tcp://eth0:0;LocalHost:5570");
  assert.equal(await addresses.find(undefined), undefined);
  const found = [];
  while (addresses.more) found.push(addresses.take());
  assert(found.includes("tcp://eth0:0;127.0.0.1:5570"), found.join());
  assert(found.every((one) => /;(127\.0\.0\.1|\[[:0-9a-f]+\]):5570$/.test(one)), found.join());
  assert.equal(addresses.take(), undefined);
});

test("behind the last address the name is looked up anew, and so it is when one was reached", async () => {
  const addresses = Addresses.of("tcp://localhost:5570");
  await addresses.find(undefined);
  const first = addresses.take();
  while (addresses.more) addresses.take();
  await addresses.find(undefined);
  assert.equal(addresses.take(), first);
  await addresses.find(undefined);
  addresses.reached();
  assert.equal(addresses.more, false);
  await addresses.find(undefined);
  assert.equal(addresses.take(), first);
});
