// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lanemq::gateway {

/// Settings of files and batches.
struct BatchSettings {
  std::string folder{};  ///< empty: there are no files and batches
  /// The folder was configured, so it must be usable. An unusable default folder only disables files and
  /// batches.
  bool folder_named = false;
  std::string lane = "batch";  ///< of their lines

  std::size_t in_flight_max = 256;  ///< lines of all batches at the broker at once
  std::size_t in_flight_bytes_max = std::size_t{64} * 1024 * 1024;  ///< of their bodies
  std::int64_t batches_max = 100;                                   ///< running batches of one caller
  std::int64_t files_max = 10'000;                                  ///< of one caller
  std::size_t file_bytes_max = std::size_t{200} * 1024 * 1024;
  std::int64_t files_bytes_max = std::int64_t{20} * 1024 * 1024 * 1024;         ///< of all files
  std::int64_t caller_files_bytes_max = std::int64_t{10} * 1024 * 1024 * 1024;  ///< of one caller's files
  std::int64_t lines_max = 50'000;                                              ///< of an OpenAI batch
  std::int64_t message_requests_max = 100'000;                                  ///< of an Anthropic batch
  std::size_t message_batch_bytes_max = std::size_t{256} * 1024 * 1024;

  std::chrono::milliseconds window{std::chrono::hours(24)};     ///< after it a running batch expires
  std::chrono::milliseconds keep{std::chrono::hours(30 * 24)};  ///< of finished batches, and of files
  /// How long the broker keeps the answer of a line: a gateway that is away no longer than this pays for no
  /// line twice.
  std::chrono::milliseconds retain{std::chrono::hours(1)};

  bool operator==(const BatchSettings&) const = default;
};

}  // namespace lanemq::gateway
