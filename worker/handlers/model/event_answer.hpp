// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "worker/handlers/http/answer_reader.hpp"
#include "worker/handlers/http/http_headers.hpp"
#include "worker/handlers/model/model_api.hpp"
#include "worker/handlers/sse/sse_parser.hpp"

namespace lanemq::worker {

/// A model's answer as a stream of events: whole events are passed on, byte for byte.
///
/// Comments are dropped, and so is the usage that the worker asked for itself. Events before the first
/// content are held back and go with it, so that a call that fails before can be repeated unnoticed. An
/// answer is complete with its last event ([DONE], message_stop, response.completed). One of choices that
/// have all ended is complete, too, where HTTP says that nothing is missing: [DONE] is added. One that ends
/// without either is a failure `stream_broken`; an error event is the failure that it names; an event over
/// SseParser::kEventBytesMax is a failure `event_too_large`.
class EventAnswer final : public AnswerReader {
 public:
  /// Openings of more bytes count as content.
  static constexpr std::size_t kOpeningBytesMax = std::size_t{64} * 1024;

  struct Options {
    bool in_pieces = true;             ///< else the events are collected as the answer's body
    bool strips_usage = false;         ///< drops an event with nothing but the usage
    std::size_t answer_bytes_max = 0;  ///< of a collected body
    /// Of the call: their secrets are redacted in passed-on events. Null: there are none.
    std::shared_ptr<const HttpHeaders> headers{};
  };
  /// `api` must outlive it.
  EventAnswer(const ModelApi& api, Options options) : api_(api), options_(options) {}

  bool reads(const UpstreamHeaders& headers) override;
  Step take(std::string_view bytes) override;
  std::size_t pending() const override;
  bool pass_on(Completion& done) override;
  bool has_content() const override { return has_content_; }
  bool is_complete() const override { return is_complete_; }
  wire::Usage usage_so_far() const override;
  AnswerOutcome outcome(std::optional<JobFailure> broken) override;

 private:
  Step take_event(const SseEvent& event);
  void take_usage(const EventFacts& facts);
  wire::Usage said_usage() const;
  Step stop(JobFailure failure);
  bool may_pass_on() const { return options_.in_pieces && (has_content_ || is_complete_); }
  void end_whole();
  JobFailure broken_off(std::optional<JobFailure> broken) const;
  AnswerOutcome failed(JobFailure failure) const;

  const ModelApi& api_;
  const Options options_;
  UpstreamHeaders headers_;
  SseParser parser_;
  std::string events_;  ///< events to pass on, held back, or collected
  bool has_content_ = false, is_complete_ = false;
  struct {
    std::uint64_t seen = 0, ended = 0;  ///< as in EventFacts
  } choices_;
  wire::Usage usage_;
  bool usage_is_whole_ = false;
  struct {
    std::int64_t events = 0, bytes = 0;
  } content_;
  std::optional<JobFailure> failure_;
};

}  // namespace lanemq::worker
