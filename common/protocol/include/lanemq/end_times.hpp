// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>

/// The times and numbers by which clients and workers keep the page's rules ("When nothing comes", "Streams",
/// "Watches", "The life of a worker", "Several brokers"). The ends of all languages have them from here:
/// scripts/tables writes those of the packages.
namespace lanemq::end_times {

using std::chrono::milliseconds;

// A client's.
inline constexpr milliseconds ping_after{1'000};    ///< of silence
inline constexpr milliseconds reopen_after{2'500};  ///< of silence: a new connection
/// The same before the first word of a connection, where there are several endpoints.
inline constexpr milliseconds first_ping_after{300}, first_word_within{1'000};
/// A job of which nothing was heard for so long is asked after, so often, and some in each turn.
inline constexpr milliseconds probe_after{10'000}, probe_every{5'000}, probe_turn{1'000};
inline constexpr std::size_t probed_at_once = 64;  ///< ids of the largest size that fit a header
/// What a reader has taken is said at a quarter of a window, or after this time.
inline constexpr milliseconds seen_after{250};
inline constexpr milliseconds fetch_wait_max{60'000};
inline constexpr milliseconds fetch_pause{1'000};  ///< between two fetches of a stream
/// So many ends of a stream in a row without the pieces before them end it.
inline constexpr int ends_without_pieces_max = 3;
/// So many connections in a row that end without a message make the largest body the suspect.
inline constexpr int fruitless_max = 6;
/// A broker lets go of a watch that it does not hear of for 30 s.
inline constexpr milliseconds renew_every{10'000};

// Both ends'.
/// Before the third connection in a row that is lost without a word; twice as long before each further one.
inline constexpr milliseconds reopen_pause{100}, reopen_pause_max{3'200};
inline constexpr milliseconds reopen_failed_pause{1'000};  ///< where none could be begun
/// Where a broker that may not own its store knows of no other one, and does not say when to come again.
inline constexpr milliseconds not_owner_pause{1'000};
/// After a round of endpoints at which nobody serves; twice as long after each further one.
inline constexpr milliseconds round_pause{100}, round_pause_max{1'000};
inline constexpr milliseconds round_forgotten_after{3'000};

// A worker's.
inline constexpr int silent_intervals = 3;  ///< heartbeats without a message: the connection is given up
/// The same before the first word, where no interval is known or there are several endpoints.
inline constexpr milliseconds worker_first_word_within{2'000};
inline constexpr milliseconds heartbeat_min{10}, heartbeat_max{3'600'000};
/// The broker answers outcomes at a goodbye, or with its next heartbeat.
inline constexpr milliseconds parting_max{2'000};
inline constexpr milliseconds progress_every{250};  ///< a job's word is sent at most so often
/// Outcomes kept until they are answered, and bytes of their bodies.
inline constexpr std::size_t outcomes_max = 2048, outcome_bytes_max = std::size_t{512} * 1024 * 1024;

}  // namespace lanemq::end_times
