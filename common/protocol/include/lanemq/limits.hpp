// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lanemq::limits {

// Bounds of a message; checked while it is read, before anything is allocated for it.
inline constexpr std::size_t header_bytes_max = std::size_t{16} * 1024;  ///< without the body inside it
inline constexpr int header_depth_max = 8;          ///< nesting; the header array is depth 1
inline constexpr std::size_t map_entries_max = 64;  ///< entries of one map in a header
inline constexpr std::size_t body_bytes_max =
    std::size_t{64} * 1024 * 1024;                       ///< a body; the default of the option
inline constexpr std::size_t inline_bytes_max = 4096;    ///< bodies up to this travel inside the header
inline constexpr std::size_t envelope_frames_max = 5;    ///< frames in front of a header
inline constexpr std::size_t envelope_bytes_max = 1024;  ///< all envelope frames of one message
inline constexpr std::size_t batch_items_max = 256;  ///< maps of one batch; the most that a peer may ask for
inline constexpr std::size_t batch_bytes_max =
    std::size_t{64} * 1024;  ///< of a batch that this side builds, with bodies; larger messages go alone
inline constexpr std::size_t batch_inherited_bytes_max =
    std::size_t{1} << 20;  ///< bytes that the maps of a batch inherit from its first one, all together

// Bounds of fields.
/// Chunks of a streamed answer, or their bytes, that the client has not confirmed yet: below both bounds the
/// worker may send another one.
inline constexpr std::size_t stream_chunks_max = 64;
inline constexpr std::size_t stream_bytes_max = std::size_t{256} * 1024;

/// Events of one watch that its follower has not confirmed yet; further ones are left out.
inline constexpr std::size_t watch_events_max = 1024;

/// The percent of a job that is done, and what its worker says besides.
inline constexpr std::int64_t progress_pct_max = 100;
inline constexpr std::size_t progress_note_bytes_max = 256;

inline constexpr std::size_t id_bytes_max = 128;      ///< a client's job id
inline constexpr std::size_t ref_bytes_max = 64;      ///< a ref that is a string
inline constexpr std::size_t name_bytes_max = 128;    ///< service, lane, model, client, key, a worker's name
inline constexpr std::size_t text_bytes_max = 4096;   ///< messages to people: error texts, reasons
inline constexpr std::size_t list_entries_max = 256;  ///< services, lanes, ids
inline constexpr std::size_t reason_bytes_max = 256;  ///< why an operator paused something
inline constexpr std::size_t url_bytes_max = 1024;    ///< of a webhook
inline constexpr std::size_t path_bytes_max = 4096;   ///< of a file that an operator names
inline constexpr std::size_t page_rows_max = 256;     ///< rows of a list in one answer to an operator
inline constexpr std::size_t timed_clients_max = 32;  ///< clients whose times and tokens the broker keeps
inline constexpr std::size_t capacity_max = 1024;   ///< jobs one worker may hold: its inventory fits a header
inline constexpr std::int64_t attempts_max = 1000;  ///< of a submit: hand-overs of one job
/// What a key of a gateway may use, has used, or wants: two of them add up to an int.
inline constexpr std::int64_t share_max = 1'000'000'000'000'000;
inline constexpr std::int64_t duration_ms_max = 365LL * 24 * 3600 * 1000;  ///< any *_ms field: one year

}  // namespace lanemq::limits
