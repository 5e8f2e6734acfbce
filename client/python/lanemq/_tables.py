# SPDX-License-Identifier: Apache-2.0
"""What the protocol says, as scripts/tables writes it from common/protocol. Times are seconds."""

HEADER_BYTES_MAX = 16384
HEADER_DEPTH_MAX = 8
MAP_ENTRIES_MAX = 64
BODY_BYTES_MAX = 67108864
INLINE_BYTES_MAX = 4096
BATCH_ITEMS_MAX = 256
BATCH_BYTES_MAX = 65536
BATCH_INHERITED_BYTES_MAX = 1048576
STREAM_CHUNKS_MAX = 64
STREAM_BYTES_MAX = 262144
WATCH_EVENTS_MAX = 1024
PROGRESS_PCT_MAX = 100
PROGRESS_NOTE_BYTES_MAX = 256
ID_BYTES_MAX = 128
REF_BYTES_MAX = 64
NAME_BYTES_MAX = 128
TEXT_BYTES_MAX = 4096
LIST_ENTRIES_MAX = 256
URL_BYTES_MAX = 1024
CAPACITY_MAX = 1024
ATTEMPTS_MAX = 1000
DURATION_MS_MAX = 31536000000
PROBED_AT_ONCE = 64
ENDS_WITHOUT_PIECES_MAX = 3
FRUITLESS_MAX = 6
SILENT_INTERVALS = 3
OUTCOMES_MAX = 2048
OUTCOME_BYTES_MAX = 536870912
PING_AFTER = 1.0
REOPEN_AFTER = 2.5
FIRST_PING_AFTER = 0.3
FIRST_WORD_WITHIN = 1.0
PROBE_AFTER = 10.0
PROBE_EVERY = 5.0
PROBE_TURN = 1.0
SEEN_AFTER = 0.25
FETCH_WAIT_MAX = 60.0
FETCH_PAUSE = 1.0
RENEW_EVERY = 10.0
REOPEN_PAUSE = 0.1
REOPEN_PAUSE_MAX = 3.2
REOPEN_FAILED_PAUSE = 1.0
NOT_OWNER_PAUSE = 1.0
ROUND_PAUSE = 0.1
ROUND_PAUSE_MAX = 1.0
ROUND_FORGOTTEN_AFTER = 3.0
WORKER_FIRST_WORD_WITHIN = 2.0
HEARTBEAT_MIN = 0.01
HEARTBEAT_MAX = 3600.0
PARTING_MAX = 2.0
PROGRESS_EVERY = 0.25

#: Codes, with the status of HTTP, and whether the broker says when to come again.
ERRORS = (
    ("bad_request", 400, False),
    ("unauthorized", 401, False),
    ("forbidden", 403, False),
    ("not_found", 404, False),
    ("gone", 410, False),
    ("conflict", 409, False),
    ("too_large", 413, False),
    ("unsatisfiable", 422, False),
    ("lane_full", 429, True),
    ("client_full", 429, True),
    ("bytes_full", 429, True),
    ("cancelled", 499, False),
    ("slow_reader", 499, False),
    ("internal", 500, False),
    ("upstream_rejected", 502, False),
    ("upstream_failed", 502, True),
    ("upstream_quota", 503, False),
    ("limited", 429, True),
    ("worker_lost", 502, True),
    ("stalled", 504, True),
    ("draining", 503, True),
    ("paused", 503, True),
    ("store_full", 503, True),
    ("not_owner", 503, True),
    ("unavailable", 503, True),
    ("deadline", 504, False),
)
REFUSALS = (
    "lane_full",
    "client_full",
    "bytes_full",
    "store_full",
    "draining",
    "paused",
    "not_owner",
    "unavailable",
)
LIMITED_BY = (
    "rate",
    "concurrency",
    "slope",
    "day",
)
USAGE = (
    "requests",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "reasoning_tokens",
)
LIMITS = (
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
)
