// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace lanemq::limits {

// What a message may hold. Each is checked while a message is read, before anything is allocated for it.
inline constexpr std::size_t header_bytes_max =
    std::size_t{16} * 1024;                         ///< a header without the body inside it
inline constexpr int header_depth_max = 8;          ///< nesting; the header array is depth 1
inline constexpr std::size_t map_entries_max = 64;  ///< entries of one map in a header
inline constexpr std::size_t body_bytes_max =
    std::size_t{64} * 1024 * 1024;                       ///< a body; the default of the option
inline constexpr std::size_t inline_bytes_max = 4096;    ///< bodies up to this travel inside the header
inline constexpr std::size_t envelope_frames_max = 5;    ///< frames in front of a header
inline constexpr std::size_t envelope_bytes_max = 1024;  ///< all envelope frames of one message
inline constexpr std::size_t batch_items_max = 256;      ///< maps of one batch; what a peer may ask for
inline constexpr std::size_t batch_bytes_max =
    std::size_t{64} * 1024;  ///< a batch that is put together here, bodies included; larger ones go apart
inline constexpr std::size_t batch_inherited_bytes_max =
    std::size_t{1} << 20;  ///< what the maps of one batch have from its first one, each counted

// What a field may hold.
/// A streamed answer's chunks on their way from its worker to its client that the client has not yet said it
/// has taken: a worker sends another one while they are fewer, and fewer bytes.
inline constexpr std::size_t stream_chunks_max = 64;
inline constexpr std::size_t stream_bytes_max = std::size_t{256} * 1024;

inline constexpr std::size_t id_bytes_max = 128;      ///< a client's job id
inline constexpr std::size_t ref_bytes_max = 64;      ///< a ref that is a string
inline constexpr std::size_t name_bytes_max = 128;    ///< service, lane, model, client, key, a worker's name
inline constexpr std::size_t text_bytes_max = 4096;   ///< messages to people: error texts, reasons
inline constexpr std::size_t list_entries_max = 256;  ///< services, lanes, ids
inline constexpr std::size_t reason_bytes_max = 256;  ///< why an operator paused something
inline constexpr std::size_t path_bytes_max = 4096;   ///< of a file that an operator names
inline constexpr std::size_t page_rows_max = 256;     ///< rows of a list in one answer to an operator
inline constexpr std::size_t capacity_max = 1024;   ///< jobs one worker may hold: its inventory fits a header
inline constexpr std::int64_t attempts_max = 1000;  ///< what a submit may say: hand-overs of one job
inline constexpr std::int64_t duration_ms_max = 365LL * 24 * 3600 * 1000;  ///< any *_ms field: one year

}  // namespace lanemq::limits
