// SPDX-License-Identifier: Apache-2.0
// The transcripts of tests/ends for workers, played against the library's session.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "tests/support/ends/transcript.hpp"
#include "worker/session/session.hpp"

namespace lanemq::worker {
namespace {

using ends::Line;

wire::Lease lease_of(const std::string& word) {
  const std::size_t slash = word.find('/');
  return {std::stoull(word), slash == std::string::npos ? 1 : std::stoll(word.substr(slash + 1))};
}
std::string name_of_lease(std::uint64_t job, std::int64_t attempt) {
  return std::to_string(job) + (attempt == 1 ? "" : "/" + std::to_string(attempt));
}
std::vector<std::string> names_in(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t from = 0; from <= text.size() && !text.empty();) {
    const std::size_t comma = std::min(text.find(',', from), text.size());
    all.push_back(text.substr(from, comma - from));
    from = comma + 1;
  }
  return all;
}

/// What the broker reads, as a line each.
struct EndPrinter {
  std::string body;

  std::string operator()(const wire::Ready& ready) const {
    std::string lanes;
    for (const std::string_view lane : ready.lanes)
      lanes += (lanes.empty() ? "" : ",") + std::string(lane);
    EXPECT_TRUE(ready.resumes);
    return ends::words("ready", {{"capacity", std::to_string(ready.capacity)},
                                 {"lanes", lanes},
                                 {"session", std::string(ready.session)}});
  }
  std::string operator()(const wire::Heartbeat& heartbeat) const {
    std::string line = "heartbeat";
    for (const wire::Lease& lease : heartbeat.jobs)
      line += " " + name_of_lease(lease.job, lease.attempt);
    return line;
  }
  std::string operator()(const wire::Outcome& outcome) const {
    return ends::words("result " + name_of_lease(outcome.job, outcome.attempt), {{"body", shown()}});
  }
  std::string operator()(const wire::Failure& failure) const {
    return ends::words("error " + name_of_lease(failure.job, failure.attempt),
                       {{"class", std::string(failure.error_class)}, {"code", std::string(failure.code)}});
  }
  std::string operator()(const wire::Progress& word) const {
    return ends::words(
        "progress " + name_of_lease(word.job, word.attempt),
        {{"pct", word.pct ? std::to_string(*word.pct) : ""}, {"note", std::string(word.note)}});
  }
  std::string operator()(const wire::Chunk& chunk) const {
    return ends::words("chunk " + name_of_lease(chunk.job, chunk.attempt),
                       {{"seq", std::to_string(chunk.seq)}, {"body", shown()}});
  }
  std::string operator()(const wire::Bye&) const { return "bye"; }

  std::string shown() const { return body.size() < 100 ? body : ""; }
};

/// A session with a clock that the transcript moves, and the link's part: it makes connections.
class EndWorker {
 public:
  explicit EndWorker(const Line& of)
      : session_({.services = names_in(of.field("services").value_or("s")),
                  .lanes = names_in(of.field("lanes").value_or("")),
                  .name = "w",
                  .version = "0",
                  .process = {},
                  .capacity = static_cast<std::size_t>(of.number_of("capacity", 2))}) {
    session_.connected(now_);
  }

  ends::Heard happens(const std::vector<Line>& lines) {
    heard_ = {};
    for (const Line& line : lines)
      take(line);
    turn();
    return std::exchange(heard_, {});
  }

 private:
  void take(const Line& line) {
    const std::string& word = line.word(0);
    if (word == "start" || word == "connected") return;  // it greets by itself
    if (word == "advance") return advance(ends::duration(line.word(1)));
    if (word == "broker") return broker(line);
    if (word == "disconnected") return reconnect();
    if (word == "leave") return session_.leave(now_, effects_);
    if (word == "drain") return session_.drain(now_ + ends::duration(line.word(1)), now_, effects_);
    const wire::Lease lease = lease_of(line.word(1));
    if (word == "done")
      return session_.finish(lease, JobOutcome::success(Blob::copy(line.body()), {}, {}), now_, effects_);
    if (word == "fail") {
      ASSERT_EQ(line.field("class"), "retry");
      JobFailure failure{.error_class = ErrorClass::retry, .code = line.field("code").value_or("")};
      return session_.finish(lease, JobOutcome::failure(std::move(failure)), now_, effects_);
    }
    if (word == "progress") {
      const int pct = static_cast<int>(line.number_of("pct", 0));
      return session_.progress({lease, {.pct = pct, .note = line.field("note").value_or("")}}, now_);
    }
    ASSERT_EQ(word, "piece") << "no word of a worker's transcript";
    for (std::int64_t count = line.number_of("count", 1); count > 0; --count)
      session_.chunk({.lease = lease, .body = Blob::copy(line.body())}, now_, effects_);
  }

  void advance(std::chrono::milliseconds time) {
    const TimePoint end = now_ + time;
    for (int count = 0; count < 100'000 && session_.next_wakeup() <= end; ++count) {
      now_ = std::max(now_, session_.next_wakeup());
      turn();
    }
    now_ = end;
    turn();
  }

  void reconnect() {
    drain();
    heard_.said.emplace_back("reconnect");
    session_.connected(now_);
  }

  void turn() {
    session_.advance(now_, effects_);
    drain();
    for (const Effect& effect : std::exchange(effects_, {})) {
      if (const auto* start = std::get_if<StartJob>(&effect))
        heard_.told.push_back("told start " + name_of_lease(start->lease.job, start->lease.attempt));
      if (const auto* cancel = std::get_if<CancelJob>(&effect))
        heard_.told.push_back("told stop " + name_of_lease(cancel->lease.job, cancel->lease.attempt));
      if (std::holds_alternative<Welcomed>(effect)) heard_.told.emplace_back("told welcomed");
      if (std::holds_alternative<Left>(effect)) heard_.told.emplace_back("told left");
      if (const auto* refused = std::get_if<Refused>(&effect))
        heard_.told.emplace_back(refused->ever ? "told refused ever=true" : "told refused");
      if (std::holds_alternative<Reconnect>(effect)) {
        reconnect();
        drain();
      }
    }
  }

  void drain() {
    for (Outbox& outbox = session_.outbox(); !outbox.empty(); outbox.pop()) {
      const Outbox::Message message = outbox.front();
      Items<wire::WorkerReport> reports;
      ASSERT_EQ(decoder_.decode(message.header, {}, reports), nullptr);
      for (std::size_t i = 0; i < reports.size(); ++i) {
        const EndPrinter printer{std::string(message.body ? message.body->bytes() : reports.body(i))};
        const std::string mark =
            reports.size() > 1 ? std::to_string(i + 1) + "/" + std::to_string(reports.size()) + " " : "";
        heard_.said.push_back(mark + std::visit(printer, reports[i]));
        if (lives_ && std::holds_alternative<wire::Heartbeat>(reports[i])) session_.heard(now_);
      }
    }
  }

  void broker(const Line& line) {
    const std::string& op = line.word(1);
    if (op == "lives" || op == "silent") {
      lives_ = op == "lives";
      return;
    }
    if (op == "noise") return session_.heard(now_);
    if (op == "unreadable")
      return session_.refuse_unreadable(lease_of(line.word(2)), "field \"model\" is no text");
    ends::Message message{.op = op, .fields = line.fields};
    if (op == "welcome")
      message.fields.insert({{"session", "s"}, {"heartbeat_ms", "1000"}, {"body_bytes_max", "1000000"}});
    for (std::size_t at = 2; at < line.words.size(); ++at) {
      const wire::Lease lease = lease_of(line.word(at));
      if (op == "acked") {
        message.leases.emplace_back(lease.job, static_cast<std::uint64_t>(lease.attempt));
        continue;
      }
      message.numbers["job"] = lease.job;
      message.numbers["attempt"] = static_cast<std::uint64_t>(lease.attempt);
    }
    Items<wire::WorkerCommand> commands;
    const std::string header = ends::pack(message);
    if (decoder_.decode(header, {}, commands) != nullptr) return session_.heard(now_);
    session_.receive(commands[0], now_, effects_);
  }

  TimePoint now_{std::chrono::hours(1)};
  Session session_;
  Decoder decoder_;
  Effects effects_;
  bool lives_ = false;
  ends::Heard heard_;
};

class WorkerEnds : public testing::TestWithParam<ends::Transcript> {};

TEST_P(WorkerEnds, plays) {
  if (const auto why = GetParam().except.find("cpp"); why != GetParam().except.end())
    GTEST_SKIP() << why->second;
  EndWorker worker(GetParam().of);

  const std::string wrong =
      ends::play(GetParam(), [&](const std::vector<Line>& lines) { return worker.happens(lines); });

  EXPECT_EQ(wrong, "");
}

INSTANTIATE_TEST_SUITE_P(tests, WorkerEnds, testing::ValuesIn(ends::read("worker")),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace lanemq::worker
