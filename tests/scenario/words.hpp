// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <lanemq/codec.hpp>

#include "tests/scenario/transcript.hpp"

namespace lanemq::scenario {

/// What the broker makes up, by names that are the same in every run: its job numbers go by `#` and the id of
/// the job, the ids that it makes itself are `ulid-1`, `ulid-2`, ...
class Names {
 public:
  /// Notes which job a number stands for. A number that is new for an id that had one gets a `'`.
  void name_job(std::uint64_t number, std::string_view id);
  std::string job(std::uint64_t number) const;
  /// The number of `#a`, or of `#12345` where nothing has that name.
  std::uint64_t number(const std::string& name) const;
  /// The id itself, or its name where the broker made it.
  std::string id(std::string_view id);
  /// The id that a transcript means by `ulid-1`, or the text itself.
  std::string real_id(const std::string& name) const;

 private:
  std::map<std::uint64_t, std::string> by_number_;
  std::map<std::string, std::uint64_t> numbers_;
  std::map<std::string, std::string> made_, real_;
};

/// The messages of the broker as words. Fields at their default are left out.
Words describe(const wire::ClientReply& reply, std::string_view body, Names& names);
Words describe(const wire::WorkerCommand& command, std::string_view body, Names& names);

/// `#a/1,#b/2`.
std::string describe(const std::vector<wire::Lease>& leases, const Names& names);

/// A message to the broker as it goes over the wire: a header with its body inside.
std::string client_frame(Words words, const Names& names);
std::string worker_frame(Words words, const Names& names);

}  // namespace lanemq::scenario
