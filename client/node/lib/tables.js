// SPDX-License-Identifier: Apache-2.0
// What the protocol says, as scripts/tables writes it from common/protocol. Times are milliseconds.

export const HEADER_BYTES_MAX = 16384;
export const HEADER_DEPTH_MAX = 8;
export const MAP_ENTRIES_MAX = 64;
export const BODY_BYTES_MAX = 67108864;
export const INLINE_BYTES_MAX = 4096;
export const BATCH_ITEMS_MAX = 256;
export const BATCH_BYTES_MAX = 65536;
export const BATCH_INHERITED_BYTES_MAX = 1048576;
export const STREAM_CHUNKS_MAX = 64;
export const STREAM_BYTES_MAX = 262144;
export const WATCH_EVENTS_MAX = 1024;
export const PROGRESS_PCT_MAX = 100;
export const PROGRESS_NOTE_BYTES_MAX = 256;
export const ID_BYTES_MAX = 128;
export const REF_BYTES_MAX = 64;
export const NAME_BYTES_MAX = 128;
export const TEXT_BYTES_MAX = 4096;
export const LIST_ENTRIES_MAX = 256;
export const URL_BYTES_MAX = 1024;
export const CAPACITY_MAX = 1024;
export const ATTEMPTS_MAX = 1000;
export const DURATION_MS_MAX = 31536000000;
export const PROBED_AT_ONCE = 64;
export const ENDS_WITHOUT_PIECES_MAX = 3;
export const FRUITLESS_MAX = 6;
export const SILENT_INTERVALS = 3;
export const OUTCOMES_MAX = 2048;
export const OUTCOME_BYTES_MAX = 536870912;
export const PING_AFTER = 1000;
export const REOPEN_AFTER = 2500;
export const FIRST_PING_AFTER = 300;
export const FIRST_WORD_WITHIN = 1000;
export const PROBE_AFTER = 10000;
export const PROBE_EVERY = 5000;
export const PROBE_TURN = 1000;
export const SEEN_AFTER = 250;
export const FETCH_WAIT_MAX = 60000;
export const FETCH_PAUSE = 1000;
export const RENEW_EVERY = 10000;
export const REOPEN_PAUSE = 100;
export const REOPEN_PAUSE_MAX = 3200;
export const REOPEN_FAILED_PAUSE = 1000;
export const NOT_OWNER_PAUSE = 1000;
export const ROUND_PAUSE = 100;
export const ROUND_PAUSE_MAX = 1000;
export const ROUND_FORGOTTEN_AFTER = 3000;
export const WORKER_FIRST_WORD_WITHIN = 2000;
export const HEARTBEAT_MIN = 10;
export const HEARTBEAT_MAX = 3600000;
export const PARTING_MAX = 2000;
export const PROGRESS_EVERY = 250;

/**
 * Codes, with the status of HTTP, and whether the broker says when to come again.
 * @type {[code: string, status: number, saysWhenToRetry: boolean][]}
 */
export const ERRORS = [
  ["bad_request", 400, false],
  ["unauthorized", 401, false],
  ["forbidden", 403, false],
  ["not_found", 404, false],
  ["gone", 410, false],
  ["conflict", 409, false],
  ["too_large", 413, false],
  ["unsatisfiable", 422, false],
  ["lane_full", 429, true],
  ["client_full", 429, true],
  ["bytes_full", 429, true],
  ["cancelled", 499, false],
  ["slow_reader", 499, false],
  ["internal", 500, false],
  ["upstream_rejected", 502, false],
  ["upstream_failed", 502, true],
  ["upstream_quota", 503, false],
  ["limited", 429, true],
  ["worker_lost", 502, true],
  ["stalled", 504, true],
  ["draining", 503, true],
  ["paused", 503, true],
  ["store_full", 503, true],
  ["not_owner", 503, true],
  ["unavailable", 503, true],
  ["deadline", 504, false],
];
export const REFUSALS = [
  "lane_full",
  "client_full",
  "bytes_full",
  "store_full",
  "draining",
  "paused",
  "not_owner",
  "unavailable",
];
export const LIMITED_BY = [
  "rate",
  "concurrency",
  "slope",
  "day",
];
export const USAGE = [
  "requests",
  "input_tokens",
  "output_tokens",
  "cached_tokens",
  "reasoning_tokens",
];
export const LIMITS = [
  "remaining_requests",
  "remaining_tokens",
  "remaining_input_tokens",
  "remaining_output_tokens",
  "reset_requests_ms",
  "reset_tokens_ms",
  "reset_input_tokens_ms",
  "reset_output_tokens_ms",
  "limit_requests",
  "limit_tokens",
  "limit_input_tokens",
  "limit_output_tokens",
  "limit_concurrency",
  "period_requests_ms",
  "period_tokens_ms",
];
