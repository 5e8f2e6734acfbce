// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/blob.hpp>

#include "common/http/server/bodies/body_buffer.hpp"
#include "common/http/server/bodies/byte_pot.hpp"
#include "common/http/server/bodies/spool.hpp"
#include "common/http/server/router.hpp"
#include "common/http/server/server.hpp"

namespace lanemq::http {

/// Why a body is not taken.
struct BodyRefusal {
  Refusal kind;
  std::string detail;
};

/// How fast a body comes: senders that are slow hold connections and room.
class Pace {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void begin(const ServerOptions& options, TimePoint now);
  void came(std::size_t bytes) { came_ += bytes; }
  /// Its sender was held up until now: the rate is measured anew.
  void go_on(const ServerOptions& options, TimePoint now);
  /// No more of it is waited for.
  void rest() { due_ = rate_due_ = TimePoint::max(); }
  /// Bytes in total.
  std::size_t bytes() const { return came_; }
  /// Whether it takes too long, or comes below its least rate.
  bool is_overdue(const ServerOptions& options, TimePoint now);

 private:
  std::size_t came_ = 0, came_before_ = 0;  ///< in total; and before the present window of the rate
  TimePoint due_ = TimePoint::max(), rate_due_ = TimePoint::max();
};

/// The body of a connection's present request: in memory, or on its way to the disk, within the bounds of
/// size, room, time and rate. Not thread-safe.
class Intake {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// Does work beside the loop, on the side of the disk. `is_piece`: spooled() is to be called when it is
  /// done.
  using ToDisk = std::function<void(std::function<void()> work, bool is_piece)>;

  /// `options` outlives it. `bodies`, `uploads`: the room in memory, and on the disk.
  Intake(const ServerOptions& options, std::shared_ptr<BytePot> bodies, std::shared_ptr<BytePot> uploads,
         ToDisk to_disk)
      : options_(options),
        bodies_(std::move(bodies)),
        uploads_(std::move(uploads)),
        to_disk_(std::move(to_disk)) {}

  /// A body is to come for `route`, of `length` where that is known, in the shares of `holders`.
  std::optional<BodyRefusal> begin(const Route& route, std::optional<std::uint64_t> length,
                                   std::vector<std::string> holders, TimePoint now);
  /// The most bytes that it may have, and which option says so: ` (body_bytes_max)`.
  std::size_t limit() const;
  std::string bound() const;

  /// Keeps a piece. Makes room as bytes come, so that announced bytes cost nothing.
  std::optional<BodyRefusal> take(std::string_view piece);
  /// A piece is on the disk, which has held its sender up: the rate is measured from now.
  void spooled(TimePoint now) {
    --spooling_;
    pace_.go_on(options_, now);
  }
  /// So much is on its way to the disk that reading pauses.
  bool disk_is_behind() const { return spooling_ >= kSpoolingMax; }

  /// The body is complete. Sends the rest of it to the disk, if any of it is there.
  std::optional<BodyRefusal> end() { return spool_ && !body_.empty() ? spool() : std::nullopt; }
  /// The file of a complete body; null: it is in memory.
  const std::shared_ptr<Spool>& file() const { return spool_; }
  /// Gives the body in memory away; empty: there is none.
  Blob take_all();
  /// Forgets what came.
  void drop();
  void forget_file() { spool_.reset(); }

  /// No more of it is waited for.
  void rest() { pace_.rest(); }
  bool is_overdue(TimePoint now) { return pace_.is_overdue(options_, now); }

 private:
  static constexpr int kSpoolingMax = 2;

  bool spools() const { return !route_->spool_folder.empty(); }
  std::optional<BodyRefusal> spool();

  const ServerOptions& options_;
  const std::shared_ptr<BytePot> bodies_, uploads_;
  const ToDisk to_disk_;
  const Route* route_ = nullptr;
  std::uint64_t length_ = 0;  ///< 0: not known
  BodyBuffer body_;
  BytePot::Hold room_;                ///< of body_
  std::vector<std::string> holders_;  ///< in whose shares it counts
  std::shared_ptr<Spool> spool_;      ///< null: the body is in memory
  int spooling_ = 0;                  ///< pieces on their way to the spool
  Pace pace_;
};

}  // namespace lanemq::http
