// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace lanemq::gateway {

/// How files and batches are kept and run. Every bound has a name here.
struct BatchSettings {
  std::string folder{};  ///< where they are kept; empty: there are no files and batches
  /// Somebody named the folder: it must be fit for use. Else there are no files and batches where it is not.
  bool folder_named = false;
  std::string lane = "batch";  ///< in which their lines run

  std::size_t in_flight_max = 256;  ///< lines of all batches that are at the broker at once
  std::size_t in_flight_bytes_max = std::size_t{64} * 1024 * 1024;  ///< their bodies together
  std::int64_t batches_max = 100;                                   ///< of one caller that are not over
  std::int64_t files_max = 10'000;                                  ///< of one caller
  std::size_t file_bytes_max = std::size_t{200} * 1024 * 1024;
  std::int64_t files_bytes_max = std::int64_t{20} * 1024 * 1024 * 1024;  ///< of all files
  std::int64_t lines_max = 50'000;                                       ///< of an OpenAI batch
  std::int64_t message_requests_max = 100'000;                           ///< of an Anthropic batch
  std::size_t message_batch_bytes_max = std::size_t{256} * 1024 * 1024;

  std::chrono::milliseconds window{std::chrono::hours(24)};     ///< after it a batch expires
  std::chrono::milliseconds keep{std::chrono::hours(30 * 24)};  ///< batches that are over, and files
  /// How long the broker keeps the answer of a line that nobody fetched: a gateway that is away no longer
  /// than this pays for no line twice.
  std::chrono::milliseconds retain{std::chrono::hours(1)};

  bool operator==(const BatchSettings&) const = default;
};

}  // namespace lanemq::gateway
