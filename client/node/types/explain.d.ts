/** @typedef {import("./types.js").Status} Status */
/** @typedef {[what: string, help: string]} Said */
/** @param {Status} status */
export function explain(status: Status): Explanation;
export type Status = import("./types.js").Status;
export type Said = [what: string, help: string];
import { Explanation } from "./types.js";
