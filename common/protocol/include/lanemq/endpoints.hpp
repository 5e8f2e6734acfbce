// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lanemq/end_times.hpp>

namespace lanemq {

/// An endpoint whose host is a name, and the endpoints of the addresses that the name has now. Empty: not
/// known.
struct NamedAddresses {
  std::string endpoint;
  std::vector<std::string> addresses;
};

/// Where a broker may be: several endpoints where another broker goes on in its place. A peer is connected to
/// one at a time: a socket with several connections would deal its messages round to all, the dead one too.
/// A name stands for its addresses, once these are known. Pure; not thread-safe.
class Endpoints {
 public:
  static constexpr std::size_t kEndpointsMax = 16;

  /// `text`: endpoints separated by commas, with spaces or not, as in `tcp://a:5570,tcp://b:5570`. Never
  /// empty: what is no endpoint is found where it is connected to.
  explicit Endpoints(std::string_view text) {
    while (true) {
      const std::size_t comma = text.find(',');
      named_.emplace_back(without_spaces(text.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      text.remove_prefix(comma + 1);
    }
    all_ = named_;
  }

  /// Appends an endpoint that a broker reported. False: it is known, or there is no room.
  bool learn(std::string_view endpoint) {
    if (all_.size() >= kEndpointsMax || std::find(named_.begin(), named_.end(), endpoint) != named_.end() ||
        std::find(all_.begin(), all_.end(), endpoint) != all_.end())
      return false;
    named_.emplace_back(endpoint);
    all_.emplace_back(endpoint);
    return true;
  }

  /// Takes one out, with the addresses of its name once these are looked up again. False: it is not there, or
  /// is the present one.
  bool forget(std::string_view endpoint) {
    if (endpoint == current() || std::erase(named_, endpoint) == 0) return false;
    const std::string present = current();
    std::erase(all_, endpoint);
    at_ = static_cast<std::size_t>(std::find(all_.begin(), all_.end(), present) - all_.begin());
    return true;
  }

  /// Names have been looked up. The present endpoint stays that, as far as it is still there; a name that was
  /// connected to counts as its first address. Of more than kEndpointsMax the last are left out.
  void set_addresses(const std::vector<NamedAddresses>& looked_up) {
    std::vector<std::string> all;
    std::size_t at = 0;
    for (const std::string& endpoint : named_) {
      const auto found = std::find_if(looked_up.begin(), looked_up.end(),
                                      [&](const NamedAddresses& one) { return one.endpoint == endpoint; });
      const bool is_known = found != looked_up.end() && !found->addresses.empty();
      if (endpoint == current()) at = all.size();
      if (!is_known) all.push_back(endpoint);
      if (is_known) all.insert(all.end(), found->addresses.begin(), found->addresses.end());
    }
    if (all.size() > kEndpointsMax) all.resize(kEndpointsMax);
    const auto still = std::find(all.begin(), all.end(), current());
    at_ = still != all.end() ? static_cast<std::size_t>(still - all.begin()) : std::min(at, all.size() - 1);
    all_ = std::move(all);
  }

  /// As they were given and learned, with names.
  const std::vector<std::string>& named() const { return named_; }
  /// Each that can be connected to.
  const std::vector<std::string>& all() const { return all_; }
  bool several() const { return all_.size() > 1; }
  /// The one to be connected to now.
  const std::string& current() const { return all_[at_]; }
  /// The present one does not answer: turns to the one after it, and after the last to the first.
  void turn() { at_ = (at_ + 1) % all_.size(); }

 private:
  static std::string_view without_spaces(std::string_view text) {
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    return text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  }

  std::vector<std::string> named_, all_;
  std::size_t at_ = 0;
};

/// Paces a peer that goes from endpoint to endpoint and finds nobody who serves: at once to the next one,
/// with a pause after each whole round, so that it never spins. Pure; not thread-safe.
class EndpointRounds {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  /// Pause after the first round; doubled after each later round, up to the second.
  static constexpr std::chrono::milliseconds kPause = end_times::round_pause,
                                             kPauseMax = end_times::round_pause_max;
  /// Longer ago than any pause between two that belong together.
  static constexpr std::chrono::milliseconds kForgottenAfter = end_times::round_forgotten_after;

  /// Nobody serves at one of so many. Returns when the next one's turn is; later than `now`: that was a
  /// round.
  TimePoint found_nobody(std::size_t endpoints, TimePoint now) {
    if (now - last_at_ > kForgottenAfter) in_a_row_ = 0;
    last_at_ = now;
    if (++in_a_row_ % endpoints != 0) return now;
    const std::size_t doubled = std::min<std::size_t>(in_a_row_ / endpoints - 1, 8);
    return now + std::min(kPause * (1 << doubled), kPauseMax);
  }

 private:
  std::size_t in_a_row_ = 0;
  TimePoint last_at_{};
};

}  // namespace lanemq
