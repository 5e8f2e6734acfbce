// SPDX-License-Identifier: Apache-2.0
#include "broker/http/access/operator_link.hpp"

#include <utility>

#include <lanemq/error_table.hpp>

#include "common/signals/signals_blocked.hpp"

namespace lanemq::admin {
namespace {

constexpr std::chrono::milliseconds kLookForLateEvery{250};
constexpr int kUnavailableStatus = 503;

void write_field(DocumentWriter& out, const std::string& name,
                 const std::variant<std::string, std::int64_t, bool>& value) {
  out.text(name);
  if (const auto* const text = std::get_if<std::string>(&value))
    out.text(*text);
  else if (const auto* const number = std::get_if<std::int64_t>(&value))
    out.integer(*number);
  else
    out.boolean(std::get<bool>(value));
}

/// The answer's fields, with which op it was.
LoopAnswer answer_of(const std::string& op, Json fields) {
  fields.erase("ref");
  if (op != "error") return {.status = 200, .document = std::move(fields)};
  const auto code = error_code(fields.value("code", ""));
  return {.status = error_info(code.value_or(ErrorCode::internal)).http_status,
          .document = Json{{"error", std::move(fields)}}};
}

}  // namespace

Json error_document(std::string_view code, std::string_view message) {
  return Json{{"error", {{"code", code}, {"message", message}}}};
}

zmq::socket_t operator_socket(zmq::context_t& context, const std::string& endpoint) {
  const SignalsBlocked meanwhile;
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(endpoint);
  return socket;
}

std::optional<LoopMessage> loop_message(std::string_view header) {
  Json message = Json::parse(to_json(header), nullptr, false);
  if (!message.is_array() || message.size() < 3 || !message[2].is_object()) return std::nullopt;
  return LoopMessage{message[1].get<std::string>(), std::move(message[2])};
}

OperatorLink::OperatorLink(zmq::context_t& context, const std::string& endpoint, http::Loop& loop)
    : loop_(loop), socket_(operator_socket(context, endpoint)), timer_(loop.timer()) {
  watch_ = loop.watch(socket_.get(zmq::sockopt::fd), [this] { read(); });
}

OperatorLink::~OperatorLink() = default;

void OperatorLink::ask(const Question& question, Then then) {
  if (waiting_.size() >= kInFlightMax)
    return then({kUnavailableStatus,
                 error_document("busy", "the broker has " + std::to_string(kInFlightMax) +
                                            " requests of HTTP to answer already; try again soon")});
  const std::uint64_t number = ++asked_;
  if (!send_question(socket_, question, number))
    return then({kUnavailableStatus, error_document("busy", "the broker takes no request now; try again")});
  if (waiting_.empty()) give_up_later();
  waiting_[number] = {std::move(then), loop_.now() + question.patience};
  // The socket's descriptor tells of changes alone, and sending may have swallowed one.
  loop_.post([alive = std::weak_ptr<OperatorLink*>(alive_)] {
    if (const std::shared_ptr<OperatorLink*> self = alive.lock()) (*self)->read();
  });
}

/// The envelope says who asks: a frame that only this process can have sent.
bool send_question(zmq::socket_t& socket, const Question& question, std::uint64_t number) {
  Buffer header, ref;
  DocumentWriter out(header);
  out.array(3).text("LMQ1").text(question.op).map(question.fields.size() + 1);
  for (const auto& [name, value] : question.fields)
    write_field(out, name, value);
  out.text("ref").written(number_ref(number, ref).bytes);
  const auto put = [&socket](std::string_view bytes, zmq::send_flags more) {
    return socket.send(zmq::buffer(bytes), zmq::send_flags::dontwait | more).has_value();
  };
  return put(question.who, zmq::send_flags::sndmore) && put(header.view(), zmq::send_flags::none);
}

void OperatorLink::read() {
  while (incoming_.receive(socket_))
    if (incoming_.fault() == nullptr) take(incoming_.header());
}

void OperatorLink::take(std::string_view header) {
  std::optional<LoopMessage> message = loop_message(header);
  if (!message) return;
  const auto at = waiting_.find(message->fields.value("ref", std::uint64_t{0}));
  if (at == waiting_.end()) return;  // it came too late
  const Then then = std::move(at->second.then);
  waiting_.erase(at);
  then(answer_of(message->op, std::move(message->fields)));
}

void OperatorLink::give_up_later() {
  timer_->after(kLookForLateEvery, [this] { give_up(); });
}

void OperatorLink::give_up() {
  std::vector<Then> late;
  const http::Loop::TimePoint now = loop_.now();
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (now < at->second.until) {
      ++at;
      continue;
    }
    late.push_back(std::move(at->second.then));
    at = waiting_.erase(at);
  }
  if (!waiting_.empty()) give_up_later();
  for (const Then& then : late)
    then({error_info(ErrorCode::deadline).http_status,
          error_document("unavailable",
                         "the broker's loop has not answered in time; what was asked for may still happen")});
}

namespace {

/// One question on its way through its pages.
struct Asking : std::enable_shared_from_this<Asking> {
  Asking(OperatorLink& to, Question asked, std::function<void(Json)> taker, std::function<void(bool)> ender)
      : link(to), question(std::move(asked)), take(std::move(taker)), end(std::move(ender)) {}

  void ask(std::int64_t from) {
    Question page = question;
    if (from > 0) page.fields.emplace_back("from", from);
    link.ask(page, [self = shared_from_this()](LoopAnswer answer) { self->add(std::move(answer)); });
  }

  void add(LoopAnswer answer) {
    if (answer.status != 200) return end(false);
    const auto next = answer.document.value("next", std::int64_t{0});
    answer.document.erase("next");
    take(std::move(answer.document));
    if (next > 0 && ++taken < kPagesMax) return ask(next);
    end(true);
  }

  OperatorLink& link;
  const Question question;
  const std::function<void(Json)> take;
  const std::function<void(bool)> end;
  int taken = 0;
};

}  // namespace

void ask_pages(OperatorLink& link, Question question, std::function<void(Json page)> take,
               std::function<void(bool whole)> end) {
  std::make_shared<Asking>(link, std::move(question), std::move(take), std::move(end))->ask(0);
}

}  // namespace lanemq::admin
