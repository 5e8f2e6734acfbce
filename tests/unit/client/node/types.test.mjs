// SPDX-License-Identifier: Apache-2.0
// What callers may say of a job, and that the package is typed throughout.
import { strict as assert } from "node:assert";
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";

import { Submit, bodyBytes, wholeMs } from "../../../../client/node/lib/types.js";
import { PACKAGE } from "./support.mjs";

const TSC = `${PACKAGE}/node_modules/typescript/bin/tsc`;
const tsc = (...words) => spawnSync(process.execPath, [TSC, ...words], { cwd: PACKAGE, encoding: "utf8" });

function folder(t) {
  const path = mkdtempSync(join(tmpdir(), "lanemq-"));
  t.after(() => rmSync(path, { recursive: true }));
  return path;
}

test("options are the fields of the page", () => {
  const submit = new Submit("s", {
    lane: "low", timeoutMs: 1500, delayMs: 60_000, retainMs: 0, attemptsMax: 2, group: "g", groupSize: 3, notify: "http://h/", durable: false, whenLimited: "end", whenSpent: "end",
    cancelWhenGone: true, cost: { input_tokens: 1 }, meta: [1], extra: { "x-a": 1 }, model: undefined,
  });
  assert.deepEqual(submit.fields, {
    service: "s", lane: "low", timeout_ms: 1500, delay_ms: 60_000, retain_ms: 0, attempts_max: 2, group: "g", group_size: 3, notify: "http://h/", durable: false, limited: "end",
    spent: "end", orphan: "cancel", cost: { input_tokens: 1 }, meta: [1], "x-a": 1,
  });
  assert.equal(submit.patienceMs, 61_500);
});

test("defaults are left out", () => {
  const submit = new Submit("s", { whenLimited: "wait", whenSpent: "wait", cancelWhenGone: false, whenFull: "wait", extra: { "x-a": undefined } });
  assert.deepEqual([submit.fields, submit.patienceMs], [{ service: "s" }, undefined]);
});

test("a job has as many fields as a submit and its job may have", () => {
  const extras = (count) => ({ extra: Object.fromEntries(Array.from({ length: count }, (_, n) => [`x-${n}`, n])) });
  const many = { attemptsMax: 1, group: "g", notify: "http://h/", retainMs: 1, delayMs: 1, durable: true, whenLimited: "end", whenSpent: "end" };
  for (const [options, most] of [[{}, 58], [{ lane: "l", model: "m", meta: 1 }, 56], [many, 52]]) {
    new Submit("s", { ...options, ...extras(most) });
    const why = new RegExp(`${most + 1} fields in extra and ${63 - most + 1} others, the limit of both is 64`);
    assert.throws(() => new Submit("s", { ...options, ...extras(most + 1) }), why);
  }
});

test("what cannot be sent is refused at once", () => {
  for (const options of [
    { meta: "\udce9" }, { trace: { "\udce9": 1 } }, { extra: { "x-a": ["\udce9"] } }, { meta: new Set([1]) }, { meta: new Date() }, { lane: "\udce9" },
    { notify: "http://\udce9/" }, { extra: { "x-\udce9": 1 } },
  ]) {
    assert.throws(() => new Submit("s", options), /^(Range|Type)Error/);
  }
});

test("what the caller changes later changes nothing", () => {
  const meta = { a: [1], ["__proto__"]: { b: 1 } };
  const submit = new Submit("s", { meta, extra: { "x-a": meta } });
  meta.a.push(2);
  assert.deepEqual([submit.fields.meta, submit.fields["x-a"]], Array(2).fill({ a: [1], ["__proto__"]: { b: 1 } }));
});

test("durations are rounded up", () => {
  assert.deepEqual([0, 0.1, 1000, 1.1].map((each) => wholeMs("t", each)), [0, 1, 1000, 2]);
  for (const bad of [-1, NaN, Infinity, "1", null]) assert.throws(() => wholeMs("t", bad), /^(Range|Type)Error: t is/);
});

test("bodies are bytes, text or JSON", () => {
  const bodies = ["ä", Buffer.from("x"), new Uint8Array([121]), new Uint8Array([122]).buffer, { a: ["ä"] }, [1]];
  assert.deepEqual(bodies.map((each) => bodyBytes(each).toString()), ["ä", "x", "y", "z", '{"a":["ä"]}', "[1]"]);
  const mine = Buffer.from("before");
  const taken = bodyBytes(mine);
  mine.fill("x");
  assert.equal(taken.toString(), "before"); // it may be sent again later
  for (const bad of [5, null, undefined, true, new Uint16Array(2)]) assert.throws(() => bodyBytes(bad), /a body is/);
});

test("tsc finds nothing, and types/ is what `npm run types` writes", (t) => {
  const written = folder(t);
  const asked = tsc("--project", "tsconfig.types.json", "--outDir", written);
  assert.equal(asked.status, 0, asked.stdout);
  assert.deepEqual(readdirSync(`${PACKAGE}/types`).sort(), readdirSync(written).sort());
  for (const name of readdirSync(written)) {
    assert.equal(readFileSync(`${PACKAGE}/types/${name}`, "utf8"), readFileSync(join(written, name), "utf8"), `npm run types: ${name}`);
  }
});

/** What tsc says of a program in TypeScript that uses the package as npm installs it. */
function judge(t, text) {
  const place = folder(t);
  execFileSync("mkdir", ["-p", join(place, "node_modules/@types")]);
  symlinkSync(PACKAGE, join(place, "node_modules/lanemq"));
  symlinkSync(`${PACKAGE}/node_modules/@types/node`, join(place, "node_modules/@types/node"));
  writeFileSync(join(place, "package.json"), '{"type": "module"}');
  writeFileSync(join(place, "use.ts"), text);
  const asked = tsc("--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,esnext.disposable", join(place, "use.ts"));
  return asked.stdout;
}

test("a program in TypeScript sees the types", (t) => {
  const said = judge(t, `
    import { Client, Job, LaneFullError, LaneMQError, Result, Worker, worker, type Answer, type Status } from "lanemq";
    const client = new Client({ broker: "tcp://127.0.0.1:5570", pendingMax: 10 });
    const answer: Answer = await client.submit("s", { a: 1 }, { lane: "low", cost: { input_tokens: 1 }, timeoutMs: 5, id: "x" });
    const text: string = answer.text;
    for await (const each of client.map("s", ["a", new Job("b", { lane: "high" })], { ordered: false })) text.concat(each.text);
    for await (const each of client.map("s", ["a"], { errors: "return" })) if (each instanceof LaneMQError) each.code.trim();
    for await (const piece of client.stream("s")) piece.toString("utf8");
    const status: Status = await client.cancel("x");
    try { await client.close(); } catch (error) { if (error instanceof LaneFullError) error.retryAfterMs?.toFixed(); }
    const done: boolean = await worker("s", async (job) => { await job.chunk(status.state); return new Result(job.body, { usage: { requests: 1 } }); }).run();
    const more = new Worker({ one: (job) => job.text, two: () => undefined }, { capacity: 8 });
    more.drain();
    if (!done) throw job;
    declare const job: unknown;
  `);
  assert.equal(said, "");
});

test("and what is wrong with it", (t) => {
  const said = judge(t, `
    import { Client } from "lanemq";
    const client = new Client();
    client.submit("s", "x", { colour: "red" });
    client.submit("s", 5);
    client.submit("s", "x", { whenFull: "maybe" });
    for await (const each of client.map("s", [], { errors: "return" })) each.text;
  `);
  assert.deepEqual([...said.matchAll(/use\.ts\((\d+),/g)].map(([, line]) => Number(line)), [4, 5, 6, 7], said);
});
