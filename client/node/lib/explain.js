// SPDX-License-Identifier: Apache-2.0
// A job's state in sentences: what it waits for, and what would help. The words are those of `lanemq explain`.
import { Explanation } from "./types.js";

/** @typedef {import("./types.js").Status} Status */
/** @typedef {[what: string, help: string]} Said */

/** @param {Status} status */
export function explain(status) {
  const [what, help] = ofState(status);
  const lane = status.lane ? ` of lane ${quoted(status.lane)}` : "";
  return new Explanation(status, `Job ${plain(status.id)}${lane} ${what}`, help);
}

/** Without what a terminal would obey. @param {string} text */
const plain = (text) =>
  String(text).replace(/[^\P{C}]|[\p{Zl}\p{Zp}]/gu, (each) => `\\x${/** @type {number} */ (each.codePointAt(0)).toString(16).padStart(2, "0")}`);

/** @param {string} name */
const quoted = (name) => `"${plain(name)}"`;

/** @param {number} ms */
function duration(ms) {
  ms = Math.round(ms);
  const seconds = Math.floor(ms / 1000);
  const padded = (/** @type {number} */ number) => String(number).padStart(2, "0");
  if (ms < 1000) return `${ms}ms`;
  if (ms < 60_000) return `${seconds}.${Math.floor((ms % 1000) / 100)}s`;
  if (ms < 3_600_000) return `${Math.floor(seconds / 60)}m${padded(seconds % 60)}s`;
  return `${Math.floor(seconds / 3600)}h${padded(Math.floor(seconds / 60) % 60)}m`;
}

/** @param {Status} status @param {string} known @param {string} unknown */
const until = (status, known, unknown) => (status.etaMs === undefined ? unknown : known + duration(status.etaMs));

/** @param {string} text @param {string} separator @returns {[string, string]} At the last separator. */
function cutLast(text, separator) {
  const at = text.lastIndexOf(separator);
  return at < 0 ? ["", text] : [text.slice(0, at), text.slice(at + separator.length)];
}

/** @param {string} text @param {string} separator @returns {[string, string | undefined]} At the first separator. */
function cut(text, separator) {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + separator.length)];
}

const LEARNT_HELP = " lanemq limits shows from what that is known, and lanemq resume budget forgets it.";

/** @param {string} blocker @returns {[string, string]} Without `learnt=`; what the upstream has stated or shown of the limit. */
function cutLearnt(blocker) {
  const [before, learnt] = cutLast(blocker, " learnt=");
  return before ? [before, learnt] : [blocker, ""];
}

/** @param {Status} status @returns {Said} */
function ofState(status) {
  switch (status.state) {
    case "queued":
    case "delayed":
      return waits(status, status.blockedBy ?? "");
    case "running": {
      const at = status.worker ? ` at worker ${quoted(status.worker)}` : "";
      return [`runs${at}, attempt ${status.attempts}.`, "lanemq fetch ID --wait 30s waits for its answer."];
    }
    case "succeeded":
      return ["has succeeded.", "lanemq fetch ID prints its answer."];
    case "cancelled":
      return ["was cancelled.", ""];
    case "expired":
      return [
        `ended because its time was over${errorOf(status)}.`,
        "A longer --timeout or a higher lane helps; lanemq stats shows what the lane waits.",
      ];
    case "failed": {
      const refused = String(status.error.message ?? "").startsWith("upstream_auth: ");
      const help =
        "The key is the worker's: give lanemq-worker the right one and restart it; the upstream's message says what is wrong with " +
        `this one. lanemq redrive ${plain(status.id)} runs it again.`;
      return [`has failed${errorOf(status)}.`, refused ? help : ""];
    }
    case "unknown":
      return [
        "is not known: no such job came, or it has ended and is no longer kept.",
        "A job that is to be found longer is submitted with a longer retain_ms.",
      ];
    default:
      return [`is ${plain(status.state)}.`, ""];
  }
}

/** @param {Status} status */
function errorOf({ error: { code, message } }) {
  return code ? `: ${plain(code)}${message ? `, ${plain(message)}` : ""}` : "";
}

/** @param {Status} status @param {string} blocker @returns {Said} */
function waits(status, blocker) {
  const [kind, rest] = cut(blocker, " ");
  if (blocker.startsWith("no worker ")) {
    return waitsForWorker(blocker.slice("no worker ".length));
  }
  if (blocker === "retry") {
    return [
      `failed at attempt ${status.attempts} and waits to be tried again${until(status, " in ", "")}.`,
      "Waiting helps if the cause passes; the log of its worker names it.",
    ];
  }
  if (!blocker) return ["waits, and the broker does not say for what.", ""];
  const say = rest ? KINDS[kind] : undefined;
  return say ? say(status, /** @type {string} */ (rest)) : [`waits for ${quoted(blocker)}${until(status, "; that may be over in ", "")}.`, ""];
}

/** @param {string} blocker @returns {Said} */
function waitsForWorker(blocker) {
  if (!blocker.includes(" lane=")) {
    return [
      `waits because no worker serves ${quoted(blocker)}.`,
      `Start one: lanemq-worker --service ${plain(blocker)}=HANDLER; or check the job's service for a slip of the pen.`,
    ];
  }
  const at = blocker.lastIndexOf(" lane=");
  const service = blocker.slice(0, at);
  const draining = blocker.endsWith(" draining");
  const lane = blocker.slice(at + " lane=".length, draining ? -" draining".length : undefined);
  const start = `lanemq-worker --service ${plain(service)}=HANDLER`;
  return [
    `waits because no worker serves ${quoted(service)} in lane ${quoted(lane)}${draining ? " (all that do drain)" : ""}.`,
    draining
      ? `lanemq resume worker NAME ends an operator's drain (lanemq workers shows who drains); or start one: ${start}.`
      : `Start one that takes the lane: ${start}, without --lanes; lanemq workers shows who takes which. ` +
        "The reserved_slots of higher lanes are places for these alone.",
  ];
}

/** What a job waits for, by the first word of `blocked_by`. @type {Record<string, (status: Status, rest: string) => Said>} */
const KINDS = {
  worker: (status, service) => service.endsWith(" alone") ? [
    `waits for a worker that serves ${quoted(service.slice(0, -" alone".length))} and holds nothing else: ` +
      "a worker was lost that had this job and others, and any of them may be why.",
    "It goes as any again when it is known which one was; " +
      "one more worker for that service lets others go on meanwhile.",
  ] : [
    `waits for a free place at a worker that serves ${quoted(service)}.`,
    "Start a worker for that service, or give one more --capacity; lanemq stats shows the places.",
  ],
  upstream: waitsForUpstream,
  client: (status, rest) => [
    `waits because its client, ${quoted(cutLast(rest, " ")[0])}, has as many jobs at workers as it may (in_flight_max).`,
    "It goes when one of them ends.",
  ],
  reserve: (status, rest) => {
    const [name, limit] = cutLast(cutLearnt(rest)[0], " ");
    const soon = until(status, "; there may be more in ", "");
    return [
      `waits because what is left of budget ${quoted(name)} (${plain(limit)}) is reserved for higher lanes${soon}.`,
      "A higher lane may use it, a higher limit helps if the upstream allows it.",
    ];
  },
  budget: waitsForBudget,
  paused: (status, rest) => {
    const [thing, reason] = cut(rest, ": ");
    const [what, name = ""] = cut(thing, " ");
    return [
      `waits because an operator paused ${plain(what)} ${quoted(name)}${reason === undefined ? "" : `: ${plain(reason)}`}.`,
      `lanemq resume ${plain(what)} ${plain(name)} takes the pause back.`,
    ];
  },
  lane: (status, lane) => [
    `waits for its turn: there are jobs before it in lane ${quoted(lane)} or in higher ones.`,
    "Nothing is used up; a higher lane puts a job in front.",
  ],
};

/** @param {Status} status @param {string} blocker @returns {Said} */
function waitsForUpstream(status, blocker) {
  const [before, client] = cut(blocker, " client=");
  const [service, model] = cut(before, " model=");
  const ofModel = model ? ` for model ${quoted(model)}` : "";
  const ofClient = client ? `, as far as client ${quoted(client)} is concerned` : "";
  return [
    `waits because the upstream of ${quoted(service)} failed${ofModel} and is left alone${ofClient}` +
      `${until(status, "; it is tried again in ", "")}.`,
    "The logs of its workers say how it failed; lanemq stats shows the upstreams in trouble.",
  ];
}

/** @param {Status} status @param {string} blocker @returns {Said} */
function waitsForBudget(status, blocker) {
  const paused = " paused by its upstream";
  if (blocker.endsWith(paused)) {
    const name = quoted(blocker.slice(0, -paused.length));
    return [
      `waits because the upstream of budget ${name} asked for a pause${until(status, ", which is over in ", "")}.`,
      "Waiting helps. If it happens often, the upstream allows less than the budget says: lower its limits.",
    ];
  }
  const [budget, model] = cut(blocker, " paused by model=");
  if (model !== undefined) {
    return [
      `waits because the upstream of budget ${quoted(budget)} asked for a pause of model ${quoted(model)}` +
        `${until(status, ", which is over in ", "")}.`,
      "Waiting helps, or another model. lanemq resume budget takes the upstream's word back.",
    ];
  }
  if (blocker.endsWith(" keys")) {
    return [
      `waits because every key of budget ${quoted(blocker.slice(0, -" keys".length))} was refused by its upstream and rests, or ` +
        `is drained${until(status, "; the next one is tried in ", "")}.`,
      "Add a key, or see to the accounts; SIGHUP has the broker try them at once, and lanemq limits shows them.",
    ];
  }
  const [before, learnt] = cutLearnt(blocker);
  const [name, limit] = cutLast(before, " ");
  if (learnt && limit === "concurrency") {
    return [
      `waits because the upstream of budget ${quoted(name)} takes ${plain(learnt)} jobs at once.`,
      `It goes when one of them ends; a higher lane puts a job in front.${LEARNT_HELP}`,
    ];
  }
  if (learnt) {
    return [
      `waits for budget ${quoted(name)}: not enough is left of its ${plain(limit)}, which is ${plain(learnt)} by its upstream` +
        `${until(status, "; there may be in ", ", and what comes free goes to jobs before it")}.`,
      `A higher lane puts a job in front.${LEARNT_HELP}`,
    ];
  }
  if (limit === "concurrency") {
    return [
      `waits because as many jobs run as budget ${quoted(name)} allows at once (concurrency).`,
      "It goes when one of them ends; a higher concurrency helps if the upstream allows it, a higher lane puts a job in front.",
    ];
  }
  return [
    `waits for budget ${quoted(name)}: not enough is left of its ${plain(limit)}` +
      `${until(status, "; there may be in ", ", and what comes free goes to jobs before it")}.`,
    "A higher limit helps if the upstream allows it (lanemq limits shows what is left), a higher lane puts a job in front.",
  ];
}
