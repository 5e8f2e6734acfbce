// SPDX-License-Identifier: Apache-2.0
import { strict as assert } from "node:assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { peerOf, publicKeyOf, readSecret } from "../../../../client/node/lib/settings.js";
import { PACKAGE } from "./support.mjs";

const { curveKeyPair } = createRequire(`${PACKAGE}/package.json`)("zeromq");
const [broker, mine] = [curveKeyPair(), curveKeyPair()];

test("a public key is what libzmq makes of the secret one", () => {
  for (let time = 0; time < 20; ++time) {
    const pair = curveKeyPair();
    assert.equal(publicKeyOf(pair.secretKey), pair.publicKey);
  }
});

test("a key stands in the program, in a file, in a variable or with systemd", (t) => {
  const folder = mkdtempSync(join(tmpdir(), "lanemq-"));
  t.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "my.key"), `${mine.secretKey}\n`);
  const environment = { MINE: ` ${mine.secretKey} `, CREDENTIALS_DIRECTORY: folder };
  for (const source of [mine.secretKey, `file:${folder}/my.key`, "env:MINE", "credential:my.key"]) {
    assert.equal(readSecret(source, environment), mine.secretKey);
  }
  assert.throws(() => readSecret("env:NONE", environment), /variable NONE .* is not set/);
  assert.throws(() => readSecret("credential:x", {}), /CREDENTIALS_DIRECTORY/);
});

test("what the program says goes before what the environment says", () => {
  const variables = { broker: "tcp://b:1", brokerKey: broker.publicKey, secretKey: mine.secretKey };
  assert.deepEqual(peerOf({}, {}, "tcp://d:1", {}), { endpoints: ["tcp://d:1"] });
  assert.deepEqual(peerOf({ broker: "tcp://a:1" }, variables, "tcp://d:1", {}), {
    endpoints: ["tcp://a:1"], brokerKey: broker.publicKey, publicKey: mine.publicKey, secretKey: mine.secretKey,
  });
});

test("keys that are none are refused, and no message repeats one", () => {
  assert.throws(() => peerOf({ brokerKey: broker.publicKey }, {}, "e", {}), /needs both/);
  for (const bad of ["short", "\x01".repeat(40), "#".repeat(40), `${"é".repeat(20)}`]) {
    assert.throws(() => peerOf({ brokerKey: broker.publicKey, secretKey: bad }, {}, "e", {}), (error) => {
      return /secretKey is no key/.test(error.message) && !error.message.includes(bad);
    });
  }
});

test("several endpoints stand in a list, or in a text with commas", () => {
  const both = ["tcp://a:1", "tcp://b:1"];
  assert.deepEqual(peerOf({ broker: both }, {}, "e", {}), { endpoints: both });
  assert.deepEqual(peerOf({}, { broker: "tcp://a:1, tcp://b:1" }, "e", {}), { endpoints: both });
  for (const bad of ["tcp://a:1,", ["tcp://a:1", ""], [], Array.from({ length: 17 }, (_, at) => `tcp://a:${at}`)]) {
    assert.throws(() => peerOf({ broker: bad }, {}, "e", {}), /give 1 to 16 endpoints/);
  }
});
