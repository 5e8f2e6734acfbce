// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tests/support/upstream/api.hpp"

namespace lanemq::upstream {

/// What becomes of the connection behind the last piece of an answer.
enum class Finish {
  done,    ///< The body ends as HTTP has it.
  closed,  ///< It is closed in the midst of the body.
  reset,   ///< It is reset.
  silent,  ///< It stays open, and nothing more comes.
};

/// How an answer is sent; without any of it, as a whole.
struct Delivery {
  Duration delay{};                             ///< From the request's arrival to the first byte.
  Duration gap{};                               ///< Between deltas.
  std::optional<std::uint64_t> deltas_max{};    ///< A stream ends behind so many as `broken_off` says.
  std::optional<std::uint64_t> bytes_max{};     ///< The body ends there as `broken_off` says.
  std::optional<std::uint64_t> pause_deltas{};  ///< A stream waits behind so many until it is told to go on.
  Finish broken_off = Finish::closed;           ///< If one of these two is reached.
  std::optional<ApiError> error{};              ///< Behind `deltas_max`, in an event.
  std::size_t drip = 0;                         ///< The largest piece, in bytes; 0: as they come.
  bool pings = false;
  bool comments = false;
  std::string_view line_end = "\n";
  bool stamps = false;
  Duration unix_of_arrival{};  ///< When the request arrived, since 1970; for stamps.
};

/// The body of one answer, piece by piece, each made when it is due: thousands of streams at once cost no
/// more than their deltas.
class Script {
 public:
  struct Piece {
    Duration at{};  ///< Since the request's arrival; never earlier than the piece before.
    std::string bytes;
  };

  /// An answer that is no stream.
  Script(std::string body, const Delivery& delivery);
  /// A stream, written by `api`.
  Script(const Api& api, Completion completion, const Delivery& delivery);
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  /// When the next piece is due; nothing when there is none.
  std::optional<Duration> due();
  /// The next piece, as of `now` since the request's arrival; nothing when the rest is finish()'s.
  std::optional<Piece> next(Duration now);

  /// Whether the next piece is to wait until the stream may go on: next() does not know of that.
  bool paused() const;

  /// What follows the last piece. Before that: meaningless.
  Finish finish() const { return finish_; }
  /// Of the whole body, for content-length; nothing for a stream.
  std::optional<std::size_t> content_length() const;
  bool is_stream() const { return events_ != nullptr; }
  std::uint64_t deltas() const { return deltas_sent_; }

 private:
  enum class Stage { opening, deltas, ended };

  bool fill(Duration now);
  void add(std::string events);
  void break_off();

  Delivery delivery_;
  std::size_t body_bytes_ = 0;
  Completion completion_;
  std::unique_ptr<EventWriter> events_;
  Deltas rest_;
  Stage stage_ = Stage::opening;
  std::string pending_;         // Made, and not yet handed out.
  std::size_t pending_at_ = 0;  // What is handed out of it.
  Duration at_{};
  std::uint64_t bytes_made_ = 0;
  std::uint64_t deltas_sent_ = 0;
  Finish finish_ = Finish::done;
};

}  // namespace lanemq::upstream
