// SPDX-License-Identifier: Apache-2.0
#include "common/http/server/intake.hpp"

#include <algorithm>
#include <utility>

namespace lanemq::http {
namespace {

constexpr std::string_view kBodies = "bodies_bytes_max", kUploads = "uploads_bytes_max";

/// A body that gives its bytes back to the pot when it is released.
struct HeldBody {
  BodyBuffer bytes;
  BytePot::Hold room;
};

/// `wanted`: the room that the body needs alone. `bound`: the option of the pot.
BodyRefusal no_room(BytePot::Over over, std::size_t wanted, const BytePot& pot, std::string_view bound) {
  const std::string share =
      "a caller's share of " + std::string(bound) + " is " + std::to_string(pot.share_max()) + " bytes";
  if (over == BytePot::Over::all)
    return {Refusal::out_of_memory, "the server holds " + std::to_string(pot.bytes_max()) +
                                        " bytes of requests (" + std::string(bound) + "); try again later"};
  if (wanted > pot.share_max())
    return {Refusal::body_too_large,
            "the body has at least " + std::to_string(wanted) + " bytes, and " + share};
  return {Refusal::out_of_memory, share + ", which your requests have; try again later"};
}

}  // namespace

void Pace::begin(const ServerOptions& options, TimePoint now) {
  came_ = came_before_ = 0;
  due_ = now + options.body_timeout;
  rate_due_ = options.body_bytes_per_second_min > 0 ? now + options.body_rate_window : TimePoint::max();
}

void Pace::go_on(const ServerOptions& options, TimePoint now) {
  if (rate_due_ != TimePoint::max()) rate_due_ = now + options.body_rate_window;
  came_before_ = came_;
}

bool Pace::is_overdue(const ServerOptions& options, TimePoint now) {
  if (now >= due_) return true;
  if (now < rate_due_) return false;
  const std::size_t came = came_ - std::exchange(came_before_, came_);
  rate_due_ = now + options.body_rate_window;
  const auto window = static_cast<std::size_t>(options.body_rate_window.count());
  return came < options.body_bytes_per_second_min * window / 1000;
}

std::optional<BodyRefusal> Intake::begin(const Route& route, std::optional<std::uint64_t> length,
                                         std::vector<std::string> holders, TimePoint now) {
  route_ = &route;
  length_ = length.value_or(0);
  if (length_ > limit())
    return BodyRefusal{Refusal::body_too_large, "the body has " + std::to_string(length_) +
                                                    " bytes, the limit is " + std::to_string(limit()) +
                                                    bound()};
  const BytePot& pot = spools() ? *uploads_ : *bodies_;
  if (length_ > pot.share_max())
    return no_room(BytePot::Over::share, static_cast<std::size_t>(length_), pot,
                   spools() ? kUploads : kBodies);
  holders_ = std::move(holders);
  room_ = BytePot::Hold(bodies_, holders_);
  pace_.begin(options_, now);
  return std::nullopt;
}

std::size_t Intake::limit() const {
  return route_ && route_->body_bytes_max ? route_->body_bytes_max : options_.body_bytes_max;
}

std::string Intake::bound() const {
  const std::string& name = route_ && route_->body_bytes_max ? route_->body_bound : "body_bytes_max";
  return name.empty() ? "" : " (" + name + ")";
}

std::optional<BodyRefusal> Intake::take(std::string_view piece) {
  pace_.came(piece.size());
  if (const BytePot::Over over = room_.take(piece.size()); over != BytePot::Over::nothing)
    return no_room(over, pace_.bytes(), *bodies_, kBodies);
  body_.append(piece, static_cast<std::size_t>(length_));
  // Several pieces may be in memory at once, and must not use up a small share.
  const std::size_t from = std::min(Spool::kFrom, bodies_->share_max() / 4);
  return spools() && body_.size() >= from ? spool() : std::nullopt;
}

/// Sends the body so far to the disk.
std::optional<BodyRefusal> Intake::spool() {
  if (!spool_) spool_ = std::make_shared<Spool>(route_->spool_folder, BytePot::Hold(uploads_, holders_));
  if (const BytePot::Over over = spool_->take_room(body_.size()); over != BytePot::Over::nothing)
    return no_room(over, pace_.bytes(), *uploads_, kUploads);
  ++spooling_;
  auto piece = std::make_shared<HeldBody>(HeldBody{std::exchange(body_, {}), std::move(room_)});
  room_ = BytePot::Hold(bodies_, holders_);
  to_disk_(
      [spool = spool_, piece = std::move(piece)]() mutable {
        spool->append(piece->bytes.view());
        piece.reset();
        spool.reset();
      },
      true);
  return std::nullopt;
}

Blob Intake::take_all() {
  if (body_.empty()) return {};
  auto held = std::make_shared<HeldBody>(HeldBody{std::exchange(body_, {}), std::move(room_)});
  const std::string_view bytes = held->bytes.view();
  return Blob::own(std::move(held), bytes);
}

void Intake::drop() {
  body_ = BodyBuffer();
  room_.give_back();
  // Deleting a large file takes the system time, so that is done beside the loop.
  if (spool_) to_disk_([spool = std::exchange(spool_, nullptr)]() mutable { spool.reset(); }, false);
}

}  // namespace lanemq::http
