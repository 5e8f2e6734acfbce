// SPDX-License-Identifier: Apache-2.0
// The classes of errors are the table of docs/protocol/README.md, and those of failures the classes of docs/protocol/worker.md.
import { strict as assert } from "node:assert";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import * as errors from "../../../../client/node/lib/errors.js";
import * as failures from "../../../../client/node/lib/failures.js";
import * as lanemq from "../../../../client/node/lib/index.js";
import { PACKAGE, ROOT } from "./support.mjs";

const page = readdirSync(`${ROOT}docs/protocol`).sort().map((name) => readFileSync(`${ROOT}docs/protocol/${name}`, "utf8")).join("\n");
const table = page.split("\n## Error codes\n")[1].split("\n## ")[0];
const rows = [...table.matchAll(/^\| `(\w+)` \| (\d+) \| (yes)? ?\| (.*) \|$/gm)].map(([, code, status, retry, meaning]) => ({
  code, status: Number(status), retry: retry === "yes", meaning,
}));

test("each code of the page has a class, and no other", () => {
  assert(rows.length > 20);
  assert.deepEqual(
    [...errors.BY_CODE].map(([code, { httpStatus, saysWhenToRetry }]) => ({ code, status: httpStatus, retry: saysWhenToRetry })),
    rows.map(({ code, status, retry }) => ({ code, status, retry })));
});

test("each class says what the page says", () => {
  const source = readFileSync(`${PACKAGE}/lib/errors.js`, "utf8");
  for (const { code, meaning } of rows) {
    const name = errors.BY_CODE.get(code).name;
    const [, comment] = source.match(new RegExp(`/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\nexport class ${name} `));
    const plain = meaning.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1");
    assert.equal(comment.replaceAll(/\s+\*?\s*/g, " ").trim(), `${plain[0].toUpperCase()}${plain.slice(1)}.`);
  }
});

test("each class is of the package", () => {
  for (const row of errors.BY_CODE.values()) assert.equal(lanemq[row.name], row);
});

test("an unknown code is internal and keeps its word", () => {
  const error = errors.errorOf("from_tomorrow", "m", { id: "a" });
  assert.deepEqual([error.constructor, error.code, String(error)], [errors.InternalError, "from_tomorrow", "from_tomorrow: m (job a)"]);
  assert.deepEqual([errors.InternalError.code, error.name, error.httpStatus], ["internal", "InternalError", 500]);
});

test("failures are the classes of the page", () => {
  const classes = page.split("\n| class | what the broker does |\n")[1].split("\n\n")[0];
  const named = [...classes.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
  const ours = Object.values(failures).filter((each) => Object.getPrototypeOf(each) === failures.Failure);
  assert.deepEqual(ours.map((each) => each.errorClass).sort(), named.sort());
});
