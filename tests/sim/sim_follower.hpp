// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "tests/sim/world.hpp"

namespace lanemq::sim {

/// A client that follows all jobs, and now and then one group. It renews its watches and confirms what it
/// hears.
class SimFollower {
 public:
  explicit SimFollower(Stage& stage);

  /// Asks whether a group is over: a watch of it alone.
  void follow(const std::string& group);

 private:
  void renew();
  void watch(std::uint64_t ref, const std::string& group, bool stop = false);
  void heard(const std::string& header);
  template <class Message>
  void say(const Message& message);

  Stage& stage_;
  Link link_;
  Decoder decoder_;
  std::uint64_t all_;                           ///< the ref of the watch of all jobs
  std::map<std::uint64_t, std::string> asked_;  ///< groups that are followed alone, by ref
};

}  // namespace lanemq::sim
