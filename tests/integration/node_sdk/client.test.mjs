// SPDX-License-Identifier: Apache-2.0
// The client against the real broker, with workers of the package.
import { strict as assert } from "node:assert";
import { test } from "node:test";

import * as lanemq from "../../../client/node/lib/index.js";
import { CANCELLED_WITHIN, PATIENCE, STEADY, all, held, room, run, texts, until } from "./support.mjs";

const shout = (job) => job.text.toUpperCase();

test("a job is answered with what the worker says of it", async (t) => {
  const here = await room(t);
  await here.serve({ shout: (job) => new lanemq.Result(job.text.toUpperCase(), { usage: { input_tokens: 3 } }) });
  const client = here.connect();

  const answer = await client.submit("shout", "hello", {
    id: "first", lane: "critical", model: "m", client: "me", cost: { input_tokens: 1, output_tokens: 2 }, timeoutMs: 60_000, retainMs: 60_000,
  });

  assert.deepEqual([answer.text, answer.id, answer.lane, answer.attempts], ["HELLO", "first", "critical", 1]);
  assert.deepEqual(answer.usage, { input_tokens: 3 });
  assert.deepEqual((await client.submit("shout", { a: 1 })).json(), { A: 1 });
});

test("a handler gets what the client said", async (t) => {
  const here = await room(t);
  const calls = [];
  await here.serve({ a: (job) => void calls.push(job), b: (job) => void calls.push(job) });

  await here.connect().submit("b", Buffer.from("\0body"), {
    id: "i", lane: "low", model: "m", client: "c", timeoutMs: 60_000, meta: { k: [1, 2.5, null] }, trace: "t", cost: { input_tokens: 7 },
    extra: { "x-tag": "y" },
  });

  const [{ service, body, id, lane, model, client, attempt, stream, meta, trace, cost, extra, timeLeftMs }] = calls;
  assert.deepEqual([service, body.toString(), id, lane, model, client, attempt, stream], ["b", "\0body", "i", "low", "m", "c", 1, false]);
  assert.deepEqual([meta, trace, cost, extra], [{ k: [1, 2.5, null] }, "t", { input_tokens: 7 }, { "x-tag": "y" }]);
  assert(timeLeftMs > 50_000 - PATIENCE && timeLeftMs <= 60_000, `${timeLeftMs}`);
});

test("bodies of any size go both ways", async (t) => {
  const here = await room(t);
  await here.serve({ echo: (job) => job.body });
  const client = here.connect();
  for (const size of [0, 1, 4096, 4097, 1 << 20, 20 << 20]) {
    const body = Buffer.alloc(size, "0123456789");
    assert(body.equals((await client.submit("echo", body)).body), `${size} bytes`);
  }
});

test("a job is left, and fetched by another client", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({ held: handler });
  const accepted = await here.connect().leave("held", "x", { id: "left" });
  assert.deepEqual([accepted.id, accepted.duplicate], ["left", false]);
  const other = here.connect();

  await assert.rejects(other.fetch("left", { waitMs: 50 }), (error) => {
    return error instanceof lanemq.NotOverError && ["queued", "running"].includes(error.state);
  });
  handler.go();

  assert.equal((await other.fetch("left")).text, "x");
  assert.equal((await other.status("left")).state, "succeeded");
});

test("many submits of a turn travel together", async (t) => {
  const here = await room(t);
  await here.serve({ shout }, { capacity: 32 });
  const client = here.connect();

  const answers = await Promise.all(Array.from({ length: 200 }, (_, number) => client.submit("shout", `a${number}`)));

  assert.deepEqual(answers.map(({ text }) => text), Array.from({ length: 200 }, (_, number) => `A${number}`));
  assert.equal(client.counters.sent, 200);
});

test("map is in order, or as answers come", async (t) => {
  const here = await room(t);
  let open;
  const gate = new Promise((resolve) => (open = resolve));
  await here.serve({ s: async (job) => (job.text === "0" && (await gate), job.body) }, { capacity: 8 });
  const client = here.connect();
  const bodies = Array.from({ length: 500 }, (_, number) => `${number}`);
  async function* slowly() {
    for (const body of bodies) yield body;
  }

  const came = [];
  for await (const answer of client.map("s", bodies, { ordered: false, window: 8, progress: false })) {
    came.push(answer.index);
    if (came.length === 499) open();
  }

  assert.equal(came.at(-1), 0);
  assert.deepEqual([...came].sort((one, other) => one - other), bodies.map(Number));
  for (const input of [bodies, new Set(bodies), bodies.values(), slowly()]) {
    assert.deepEqual((await all(client.map("s", input, { progress: false }))).map(({ text }) => text), bodies);
  }
});

test("map takes items with ids and options of their own", async (t) => {
  const here = await room(t);
  await here.serve({ s: ({ lane, id, model }) => `${lane} ${id} ${model}` }, { capacity: 8 });
  const items = [new lanemq.Job("a", { id: "one", lane: "high" }), "b", new lanemq.Job("c", { model: "m" })];

  const answers = await all(here.connect().map("s", items, { lane: "low", progress: false }));

  assert.equal(answers[0].text, "high one undefined");
  assert.match(answers[1].text, /^low [0-9a-f]{32} undefined$/);
  assert.match(answers[2].text, /^low [0-9a-f]{32} m$/);
});

test("map returns errors, or throws the first and cancels the rest", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({
    s: (job) => {
      if (job.text === "bad") throw new lanemq.Permanent("no");
      return job.text === "slow" ? handler(job) : job.body;
    },
  }, { capacity: 8 });
  const client = here.connect();

  const outcomes = await all(client.map("s", ["a", "bad", "c"], { errors: "return", progress: false }));

  assert.deepEqual(outcomes.map((each) => each.constructor), [lanemq.Answer, lanemq.UpstreamRejectedError, lanemq.Answer]);
  assert.equal(outcomes[1].index, 1);
  await assert.rejects(all(client.map("s", ["slow", "slow", "bad"], { progress: false })), lanemq.UpstreamRejectedError);
  await here.noJobsWithin();
});

test("an input that fails ends its map, and what was begun is cancelled", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({ held: handler });
  const client = here.connect();
  function* now() {
    yield "a";
    throw new Error("no more");
  }
  async function* later() {
    yield* now();
  }
  for (const input of [now(), later()]) await assert.rejects(all(client.map("held", input, { progress: false })), /no more/);
  await here.noJobsWithin();
});

test("a stream is read piece by piece, beyond a window", async (t) => {
  const here = await room(t);
  await here.serve({
    count: async (job) => {
      for (let number = 0; number < 1000; ++number) await job.chunk(`${number}`);
      return new lanemq.Result("end", { usage: { output_tokens: 1000 } });
    },
  });
  const client = here.connect();
  const stream = client.stream("count", "", { id: "counted" });

  assert.deepEqual(texts(await all(stream)), Array.from({ length: 1000 }, (_, number) => `${number}`));
  assert.deepEqual([stream.answer.text, stream.answer.chunks], ["end", 1000]);
  assert.deepEqual(texts(await all(client.follow("counted", { first: 998 }))), ["998", "999"]);
});

test("a slow reader holds its worker back", async (t) => {
  const here = await room(t);
  let sent = 0;
  await here.serve({
    shout,
    endless: async (job) => {
      for (;;) {
        await job.chunk("x".repeat(1000));
        sent += 1;
      }
    },
  });
  const client = here.connect();
  const stream = client.stream("endless");
  assert.equal((await stream.next()).value.length, 1000);
  await until(() => sent >= 64, "a full window");
  for (let round = 0; round < 100; ++round) await client.submit("shout"); // in each of which a worker that nobody holds back sends more
  assert(sent <= 2 * 64 + 2, `${sent}`); // one window at the worker, one at most between broker and reader
  await stream.close();
  await here.noJobsWithin();
});

test("a handler that does not wait for its pieces sends no more than a window and what is bounded", async (t) => {
  const here = await room(t);
  await here.serve({
    careless: async (job) => {
      const sent = Array.from({ length: 200 }, (_, number) => job.chunk(`${number}`));
      const results = await Promise.allSettled(sent);
      return `${results.filter(({ status }) => status === "rejected").length}`;
    },
    unwaited: (job) => {
      for (let number = 0; number < 100; ++number) job.chunk(`${number}`);
    },
  });
  const client = here.connect();
  const stream = client.stream("careless");
  assert.deepEqual(texts(await all(stream)), Array.from({ length: 128 }, (_, number) => `${number}`));
  assert.equal(stream.answer.text, "72");
  assert.equal((await all(client.stream("unwaited"))).length, 100);
});

test("cancel reaches the handler", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({ held: handler });
  const client = here.connect();
  await client.leave("held", "", { id: "doomed" });
  await until(() => handler.came.length > 0, "the call");

  assert.equal((await client.cancel("doomed")).state, "cancelled");
  await until(() => handler.cancelled.includes("doomed"), "the cancel at the handler");
  await assert.rejects(client.fetch("doomed"), lanemq.CancelledError);
  assert.equal((await client.status("nobody")).state, "unknown");
});

test("a handler says how far it is, also while it computes", async (t) => {
  const here = await room(t);
  let go;
  const released = new Promise((resolve) => (go = resolve));
  await here.serve({
    works: async (job) => {
      for (let pct = 0; pct < 100; pct += 0.1) job.progress(pct, "å".repeat(200));
      job.progress(undefined, "thinks");
      // A word that is wrong is no reason to do the work again.
      for (const [pct, note] of [["50", 5], [5n, {}], [Number.NaN, null], [Infinity, Symbol("x")]]) job.progress(pct, note);
      job.progress(42.7, "half way");
      await released;
      return "done";
    },
  });
  const client = here.connect();
  await client.leave("works", "", { id: "long" });

  await until(async () => (await client.status("long")).note === "half way", "the last word");
  const status = await client.status("long");
  assert.deepEqual([status.state, status.pct], ["running", 42]);
  assert(status.silentMs < PATIENCE);
  go();
  assert.equal((await client.fetch("long")).text, "done");
  assert.equal((await client.status("long")).pct, undefined);
});

test("explain says what `lanemq explain` says", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({ held: handler }, { capacity: 1 });
  const client = here.connect();
  await here.serve({ urgent: held() }, { lanes: ["high"] });
  for (const [id, service] of [["nobody's", "nobody"], ["runs", "held"], ["no lane", "urgent"]]) await client.leave(service, "", { id });
  await until(() => handler.came.length > 0, "the call");
  await client.leave("held", "", { id: "waits", lane: "low" });
  await client.leave("held", "", { id: "later", delayMs: 3_600_000 });
  await client.leave("held", "", { id: "doomed" });
  await client.cancel("doomed");
  for (const id of ["nobody's", "no lane", "runs", "waits", "doomed", "unknown"]) {
    const said = run("lanemq", ["--broker", here.broker.clients, "explain", id]).stdout;
    assert.equal(String(await client.explain(id)).trim(), said.trim(), id);
  }
  assert.match((await client.explain("later")).what, /delay/);
  handler.go();
});

test("ping", async (t) => {
  const pong = await (await room(t)).connect().ping();
  assert.match(pong.version, /\d+\.\d+/);
  assert(Math.abs(pong.brokerTime - Date.now()) < 5000);
  assert.equal(pong.defaultLane, "normal");
});

// ---- errors

test("refusals are classes", async (t) => {
  const here = await room(t);
  const client = here.connect();
  await assert.rejects(client.submit("s", "", { lane: "nowhere" }), (error) => error instanceof lanemq.BadRequestError && /normal/.test(error.message));
  await assert.rejects(client.fetch("nobody's"), lanemq.NotFoundError);
  await client.leave("s", "a", { id: "taken" });
  await assert.rejects(client.submit("s", "b", { id: "taken" }), (error) => {
    return error instanceof lanemq.ConflictError && error.code === "conflict" && error.id === "taken" && error.httpStatus === 409;
  });
  await assert.rejects(client.submit("s", "", { timeoutMs: 50 }), (error) => error instanceof lanemq.DeadlineError && !error.local);
});

test("a full lane throws or waits", async (t) => {
  const here = await room(t, ...STEADY, "--set", "lane.low.depth_max=1");
  const handler = held();
  await here.serve({ held: handler, shout }, { capacity: 1 });
  const client = here.connect();
  // So that the broker knows how fast the lane empties, and does not say 30 s.
  for (const end = performance.now() + 1500; performance.now() < end; ) await client.submit("shout", "", { lane: "low" });
  await client.leave("held", "", { lane: "low", id: "runs" });
  await until(() => handler.came.length > 0, "the call");
  await client.leave("held", "", { lane: "low", id: "waits" });

  await assert.rejects(client.submit("held", "", { lane: "low", whenFull: "throw" }), (error) => {
    return error instanceof lanemq.LaneFullError && error.retryAfterMs > 0 && error.limiter === "lane.low.depth_max";
  });
  setTimeout(handler.go, 300);
  assert.equal((await client.submit("held", "third", { lane: "low" })).text, "third");
  assert(client.counters.resent > 0);
});

test("what no message can say ends its job alone", async (t) => {
  const here = await room(t);
  const complaints = [];
  const said = {
    fraction: () => new lanemq.Result("x", { usage: { input_tokens: 0.5 } }),
    callback: () => new lanemq.Result("x", { usage: { input_tokens: () => 1 } }),
    number: () => 5,
    surrogate: () => { throw new Error("caf\udce9"); },
    silent: () => { throw { toString() { throw new Error("no text"); } }; },
    plain: () => "x",
  };
  const log = (level, message) => {
    if (level !== "error") return;
    complaints.push(message);
    throw new Error("a log that fails");
  };
  await here.serve({ s: (job) => said[job.text]() }, { capacity: 1, log });
  const client = here.connect();
  for (const text of ["fraction", "callback", "number", "surrogate", "silent"]) {
    await assert.rejects(client.submit("s", text, { attemptsMax: 1 }), /bad_outcome: /, text);
  }
  assert.equal((await client.submit("s", "plain")).text, "x");
  assert(complaints.length >= 5);
});

test("what a handler throws are the classes of the protocol", async (t) => {
  const here = await room(t);
  const attempts = {};
  const logged = [];
  await here.serve({
    s: (job) => {
      const first = (attempts[job.text] = (attempts[job.text] ?? 0) + 1) === 1;
      if (job.text === "retry" && first) throw new lanemq.Retry("again", { retryAfterMs: 10 });
      if (job.text === "limited" && first) throw new lanemq.Limited("slowly", { retryAfterMs: 100 });
      if (job.text === "released" && first) throw new lanemq.Released("not now");
      if (job.text === "permanent") throw new lanemq.Permanent("bad prompt", { code: "policy", body: Buffer.from("why"), upstreamStatus: 422 });
      if (job.text === "bug") throw new TypeError("a mistake");
      return `${job.text} ${job.attempt}`;
    },
  }, { log: (level, message) => logged.push([level, message]) });
  const client = here.connect();
  for (const name of ["retry", "limited", "released"]) assert.equal((await client.submit("s", name)).text, `${name} 2`);
  assert.equal((await client.submit("s", "limited")).attempts, 1);
  await assert.rejects(client.submit("s", "permanent"), (error) => {
    assert(error instanceof lanemq.UpstreamRejectedError);
    assert.deepEqual([error.message, error.body.toString(), error.upstreamStatus], ["policy: bad prompt", "why", 422]);
    return true;
  });
  await assert.rejects(client.submit("s", "bug", { attemptsMax: 2 }), (error) => {
    return error instanceof lanemq.UpstreamFailedError && error.message.includes("TypeError");
  });
  assert.equal(attempts.bug, 2);
  assert.equal(logged.filter(([level, message]) => level === "error" && message.includes("a mistake")).length, 2);
});

test("what no job can be is refused before it is sent", async (t) => {
  const here = await room(t);
  const client = here.connect();
  for (const [options, fault] of [
    [{ lane: "" }, /lane has 0 bytes/], [{ timeoutMs: -1 }, /timeoutMs is -1/], [{ meta: 2 ** 60 }, /send text/], [{ extra: { tag: 1 } }, /begin with x-/],
    [{ whenFull: "maybe" }, /whenFull is one of/], [{ meta: "x".repeat(20_000) }, /header_bytes_max/], [{ id: "x".repeat(129) }, /129 bytes/],
    [{ colour: "red" }, /no option colour/], [{ durable: 1 }, /true or false/], [{ stream: true }, /option of leave/],
  ]) {
    await assert.rejects(client.submit("s", "", options), fault);
  }
  await assert.rejects(client.submit("s", 3), /a body is/);
  await assert.rejects(client.submit("s", Buffer.alloc(64 * 1024 * 1024 + 1)), lanemq.TooLargeError);
  assert.throws(() => new lanemq.Client({ broker: "nowhere" }), /no endpoint/);
  assert.throws(() => new lanemq.Client({ brokerKey: "x".repeat(40) }), /needs both/);
  assert.throws(() => client.map("s", [], { errors: "maybe" }), /errors is one of/);
  assert.equal(client.counters.sent, 0);
});

test("a client that is full throws or waits", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({ held: handler });
  const client = here.connect({ pendingMax: 2 });
  const answers = [1, 2, 3].map(() => client.submit("held"));
  await until(() => handler.came.length === 2, "two calls");
  await assert.rejects(client.submit("held", "", { whenFull: "throw" }), (error) => {
    return error instanceof lanemq.ClientFullError && error.message.includes("pendingMax");
  });
  const controller = new AbortController();
  const impatient = client.submit("held", "", { signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(impatient, /enough/);
  handler.go();
  await Promise.all(answers);
  assert.equal(handler.came.length, 3);
});

test("a client that is closed ends what waits", async (t) => {
  const here = await room(t);
  await here.serve({ held: held() }, { capacity: 1 });
  const client = here.connect();
  const ended = client.submit("held").catch((error) => error);
  const reader = client.stream("held");
  const read = reader.next().catch((error) => error);
  await here.running(1);

  await client.close();

  for (const error of [await ended, await read]) assert.deepEqual([error.code, error.local], ["cancelled", true]);
  await here.noJobsWithin();
  await assert.rejects(client.submit("held"), lanemq.CancelledError);
});

test("an aborted signal cancels the job that it was given to", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({ held: handler }, { capacity: 8 });
  const client = here.connect();
  const controller = new AbortController();
  const { signal } = controller;
  const waiting = [
    client.submit("held", "one", { signal }), all(client.map("held", ["a", "b", "c"], { signal, progress: false })), all(client.stream("held", "", { signal })),
    client.fetch("nobody", { signal }).catch(() => assert.rejects(Promise.reject(signal.reason))),
  ];
  await until(() => handler.came.length === 5, "the calls");
  controller.abort(new Error("enough"));
  for (const each of waiting.slice(0, 3)) await assert.rejects(each, /enough/);
  await assert.rejects(client.submit("held", "", { signal }), /enough/);
  await here.noJobsWithin();
  await until(() => handler.cancelled.length === 5, "the cancels at the handlers");
});

test("an iterator that is left cancels what it submitted", async (t) => {
  const here = await room(t);
  const handler = held();
  await here.serve({ s: (job) => (job.text === "0" ? job.body : handler(job)) }, { capacity: 8 });
  const client = here.connect();
  for await (const answer of client.map("s", Array.from({ length: 100 }, (_, n) => `${n}`), { progress: false })) {
    assert.equal(answer.text, "0");
    break;
  }
  await here.noJobsWithin();
  const begun = performance.now();
  const answers = client.map("s", ["x"], { progress: false });
  const next = answers.next();
  await here.running(1);
  await answers.return(); // while next() waits
  assert.deepEqual(await next, { done: true, value: undefined });
  const stream = client.stream("s", "x");
  const piece = stream.next();
  await here.running(1);
  await stream.close();
  assert.deepEqual(await piece, { done: true, value: undefined });
  await here.noJobsWithin();
  assert(performance.now() - begun < PATIENCE + CANCELLED_WITHIN);
});

test("a watch tells what becomes of jobs", async (t) => {
  const here = await room(t);
  await here.serve({ shout });
  const client = here.connect();
  const seen = [];
  for await (const event of client.watch({ client: "me" })) {
    if (event.what === "watching") {
      await client.submit("shout", "x", { id: "mine", client: "me" });
      await client.submit("shout", "x", { id: "other", client: "them" });
    } else seen.push(event);
    if (event.over) break;
  }
  assert.deepEqual(seen.map(({ what, id, seq }) => [what, id, seq]), [["accepted", "mine", 0], ["started", "mine", 1], ["ended", "mine", 2]]);
  assert.deepEqual([seen[2].state, seen[2].client, seen[2].attempts], ["succeeded", "me", 1]);
  assert(Math.abs(seen[2].at.getTime() - Date.now()) < 60_000);
  await client.ping(); // behind the watch's end
  await client.submit("shout", "y", { client: "me" });
  assert.equal((await here.asked("stats")).counters.events_out, 3);
});

test("a reader of a watch that takes is told all, and one that waits what it missed", async (t) => {
  const here = await room(t);
  await here.serve({ shout }, { capacity: 64 });
  const client = here.connect();
  const slow = here.connect().watch();
  assert.equal((await slow.next()).value.what, "watching");
  const quick = client.watch({ service: "shout" });
  await quick.next();
  const ended = [];
  const read = (async () => {
    for await (const event of quick) {
      assert(!event.gap);
      if (event.over && ended.push(event.id) === 1500) return;
    }
  })();
  const answers = await all(client.map("shout", Array(1500).fill("x"), { window: 32, progress: false }));
  await read;
  assert.deepEqual(ended.sort(), answers.map(({ id }) => id).sort());
  let [told, missed] = [0, 0];
  while (told + missed < 4500) {
    const { value } = await slow.next();
    told += 1;
    missed += value.leftOut;
    if (told === 1024) await client.submit("shout", "x"); // what comes behind a gap tells of it
  }
  assert(missed > 1500);
});

test("a watch that is refused, aborted, or whose client is closed ends", async (t) => {
  const here = await room(t);
  const client = here.connect();
  await assert.rejects(client.watch({ lane: "nowhere" }).next(), lanemq.BadRequestError);
  assert.throws(() => client.watch({ id: "" }), RangeError);
  assert.throws(() => client.watch({ lanes: "x" }), /there is no option lanes/);
  const aborted = new AbortController();
  const one = client.watch({ signal: aborted.signal });
  assert.equal((await one.next()).value.what, "watching");
  const next = one.next();
  aborted.abort(new Error("enough"));
  await assert.rejects(next, /enough/);
  const other = client.watch();
  assert.equal((await other.next()).value.what, "watching");
  await client.close();
  await assert.rejects(other.next(), lanemq.CancelledError);
});

test("a watch goes on in the broker's next life, and says so", async (t) => {
  const here = await room(t);
  await here.serve({ shout });
  const client = here.connect({ log: () => {} });
  const events = client.watch({ service: "shout" });
  const next = async () => (await events.next()).value;
  assert.equal((await next()).what, "watching");
  await client.submit("shout", "x", { id: "before" });
  for (const what of ["accepted", "started", "ended"]) assert.equal((await next()).what, what);
  await here.restart();
  const again = await next();
  assert.deepEqual([again.what, again.gap, again.seq], ["watching", true, 0]);
  // On a busy machine the client may take the new broker for silent, too, and watch once more.
  const change = async () => {
    for (;;) {
      const event = await next();
      if (event.what !== "watching") return event;
    }
  };
  await client.submit("shout", "x", { id: "after" });
  for (const what of ["accepted", "started", "ended"]) {
    const { what: said, id, gap } = await change();
    assert.deepEqual([said, id, gap], [what, "after", false]);
  }
});

test("a watch of a group hears that it is over", async (t) => {
  const here = await room(t);
  await here.serve({ shout });
  const client = here.connect();
  const events = client.watch({ group: "g" });
  const next = async () => (await events.next()).value;
  assert.equal((await next()).what, "watching");
  await client.submit("shout", "x", { group: "g" });
  await client.submit("shout", "x", { group: "h" });
  const seen = [await next(), await next(), await next(), await next()];
  assert.deepEqual(seen.map(({ what, group }) => [what, group]), ["accepted", "started", "ended", "group_over"].map((what) => [what, "g"]));
  assert.deepEqual([seen[3].succeeded, seen[3].failed, seen[3].cancelled, seen[3].expired], [1, 0, 0, 0]);
  await events.close();
});
