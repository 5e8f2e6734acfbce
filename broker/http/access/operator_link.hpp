// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>
#include <zmq.hpp>

#include <lanemq/codec.hpp>

#include "common/http/server/base/loop.hpp"
#include "common/zmq/message.hpp"

namespace lanemq::admin {

/// JSON whose members stay in their order.
using Json = nlohmann::ordered_json;

/// A request to the broker's loop: an op of the protocol and its fields.
struct Question {
  std::string op{};
  std::vector<std::pair<std::string, std::variant<std::string, std::int64_t, bool>>> fields{};
  std::string who{};  ///< asks, for the broker's log
  std::chrono::milliseconds patience{10'000};
};

/// The loop's answer to one request.
struct LoopAnswer {
  int status = 200;  ///< of HTTP
  Json document{};   ///< the answer's fields, or `{"error": {…}}`
};

/// A body that says why there is no answer. `code`: of the protocol, or `unavailable` or `busy`.
Json error_document(std::string_view code, std::string_view message);

/// A connection to where the loop listens to operators of its own process.
zmq::socket_t operator_socket(zmq::context_t& context, const std::string& endpoint);

/// A message of the loop: an op, and its fields with `ref`. None: the header is not understood.
struct LoopMessage {
  std::string op{};
  Json fields{};
};
std::optional<LoopMessage> loop_message(std::string_view header);

/// Says a question with that ref, by a DEALER to the loop; false: there is no room for it.
bool send_question(zmq::socket_t& socket, const Question& question, std::uint64_t ref);

/// An operator's connection to the loop, from another thread of the same process: a DEALER that says what any
/// operator says. Belongs to the thread of `loop`, which outlives it.
class OperatorLink {
 public:
  using Then = std::function<void(LoopAnswer answer)>;
  /// Requests without an answer; a further one is refused.
  static constexpr std::size_t kInFlightMax = 64;

  /// `endpoint`: where the loop listens to operators of its own process.
  OperatorLink(zmq::context_t& context, const std::string& endpoint, http::Loop& loop);
  ~OperatorLink();
  OperatorLink(const OperatorLink&) = delete;
  OperatorLink& operator=(const OperatorLink&) = delete;

  /// Asks, and calls `then` once with the answer, or with why there is none. May call it at once.
  void ask(const Question& question, Then then);
  std::size_t in_flight() const { return waiting_.size(); }

 private:
  struct Waiting {
    Then then;
    http::Loop::TimePoint until;
  };

  void read();
  void take(std::string_view header);
  void give_up_later();
  void give_up();

  http::Loop& loop_;
  zmq::socket_t socket_;
  socket::Message incoming_;
  std::map<std::uint64_t, Waiting> waiting_;
  std::uint64_t asked_ = 0;
  std::unique_ptr<http::Loop::Timer> timer_;
  std::unique_ptr<http::Loop::Watch> watch_;
  const std::shared_ptr<OperatorLink*> alive_ = std::make_shared<OperatorLink*>(this);
};

/// Pages of one answer that are asked for; what is on further ones is left out.
inline constexpr int kPagesMax = 16;

/// Asks `question` again and again, each time from where the page before ended (docs/protocol/operating.md,
/// `next`). `take` gets each page, then `end` is called once: with false where the loop did not answer.
void ask_pages(OperatorLink& link, Question question, std::function<void(Json page)> take,
               std::function<void(bool whole)> end);

}  // namespace lanemq::admin
