// SPDX-License-Identifier: Apache-2.0
#include "tests/support/upstream/break_off.hpp"

#include "tests/support/upstream/errors.hpp"

namespace lanemq::upstream {

void break_off(Fault fault, std::uint64_t middle, std::optional<std::uint64_t>& place, Delivery& delivery) {
  if (fault != Fault::reset && fault != Fault::half) return;
  delivery.broken_off = fault == Fault::reset ? Finish::reset : Finish::closed;
  place = middle;
}

Fault break_off_as_asked(const ModelFaults& faults, bool stream, Delivery& delivery) {
  const auto behind_deltas = [&](const std::optional<std::uint64_t>& deltas, Finish finish) {
    if (deltas) delivery.deltas_max = deltas;
    if (deltas) delivery.broken_off = finish;
    return deltas.has_value();
  };
  const auto behind_bytes = [&](const std::optional<std::uint64_t>& bytes, Finish finish) {
    if (bytes) delivery.bytes_max = bytes;
    if (bytes) delivery.broken_off = finish;
    return bytes.has_value();
  };
  if (faults.no_answer || behind_bytes(faults.reset_bytes, Finish::reset)) return Fault::reset;
  if (behind_bytes(faults.half_bytes, Finish::closed)) return Fault::half;
  if (!stream) return faults.stall_deltas ? Fault::stall : Fault::none;
  if (behind_deltas(faults.eof_deltas, Finish::done)) return Fault::eof;
  if (behind_deltas(faults.stall_deltas, Finish::silent)) return Fault::stall;
  if (behind_deltas(faults.error_deltas, Finish::done)) {
    delivery.error = error_of_status(529);
    return Fault::error_event;
  }
  return Fault::none;
}

std::string misfit(const Api& api, const ModelRequest& asked, const ModelFaults& faults) {
  if (!asked.stream &&
      (faults.eof_deltas || faults.error_deltas || faults.pause_deltas || faults.stamps || faults.comments))
    return "The model's name asks for something that only streams do; ask with stream: true.";
  if (faults.pings && (!asked.stream || api.dialect() != Dialect::anthropic))
    return "Only the streams of messages have pings.";
  return {};
}

}  // namespace lanemq::upstream
