// SPDX-License-Identifier: Apache-2.0
#include "broker/io/store/body_reads.hpp"

namespace lanemq::io {
namespace {

/// Bytes of bodies read ahead.
constexpr std::size_t kBodiesAheadBytesMax = std::size_t{32} << 20;

}  // namespace

BodyReads::BodyReads(core::Broker& broker, Store& store)
    : broker_(broker), store_(store), bodies_(kBodiesAheadBytesMax) {}

void BodyReads::take(core::TimePoint now) {
  if (reading_ > 0) store_.take_bodies(read_);
  reading_ -= read_.size();
  for (const StoredBody& body : read_) {
    if (body.of_result) {
      broker_.handle(core::ResultRead{body.number,
                                      body.body ? std::optional<std::string_view>(body.record) : std::nullopt,
                                      body.body.value_or(Blob())},
                     now);
    } else if (awaited_.erase(body.number) > 0) {
      bodies_.take(body.number);
      broker_.handle(core::BodyRead{body.number, body.body}, now);
    } else {
      bodies_.put(body.number, body.body);
    }
  }
  read_.clear();
}

void BodyReads::find(core::TimePoint now) {
  std::vector<core::BodyWanted>& wanted = broker_.outbox().reads;
  for (const core::BodyWanted& body : wanted) {
    if (body.of_result) {
      wanted_results_.push_back(body.number);
      continue;
    }
    const bool asked = bodies_.expects(body.number);
    if (body.awaited) {
      if (const auto found = bodies_.take(body.number)) {
        broker_.handle(core::BodyRead{body.number, found}, now);
        continue;
      }
      awaited_.insert(body.number);
    } else if (!asked) {
      bodies_.expect(body.number);
    }
    if (!asked) wanted_.push_back(body.number);
  }
  wanted.clear();
}

void BodyReads::ask_store() {
  reading_ += wanted_.size() + wanted_results_.size();
  store_.read(wanted_);
  wanted_.clear();
  store_.read_results(wanted_results_);
  wanted_results_.clear();
}

}  // namespace lanemq::io
