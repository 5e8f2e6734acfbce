// SPDX-License-Identifier: Apache-2.0
// The transcripts of tests/ends for clients, played against the library's session.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lanemq/codec.hpp>

#include "client/library/session.hpp"
#include "tests/support/ends/transcript.hpp"

namespace lanemq::client {
namespace {

using ends::Line;

/// A session with a clock that the transcript moves.
class EndClient {
 public:
  explicit EndClient(const Line& of)
      : session_(now_, of.says("batches") ? 256 : 0, static_cast<std::size_t>(of.number_of("endpoints", 1))) {
    if (!of.says("unconnected")) session_.connected();
    turn(false);
  }

  ends::Heard happens(const std::vector<Line>& lines) {
    heard_ = {};
    for (const Line& line : lines)
      take(line);
    turn(false);
    return std::exchange(heard_, {});
  }

 private:
  void take(const Line& line) {
    const std::string& word = line.word(0);
    if (word == "advance") return advance(ends::duration(line.word(1)));
    if (word == "broker") return broker(line);
    if (word == "connected") return session_.connected();
    if (word == "disconnected") return session_.disconnected(now_);
    if (word == "nobody") return session_.found_nobody(now_);
    if (word == "took")
      return static_cast<void>(session_.seen(refs_.at(line.word(1)), std::stoll(line.word(2)), now_));
    ask(line);
  }

  // ---- time ----

  void advance(std::chrono::milliseconds time) {
    const TimePoint end = now_ + time;
    for (int count = 0; count < 100'000; ++count) {
      const std::optional<TimePoint> wakeup = session_.next_wakeup();
      if (!wakeup || *wakeup > end) break;
      now_ = std::max(now_, *wakeup);
      turn(true);
    }
    now_ = end;
    turn(true);
  }

  void turn(bool timed) {
    session_.advance(now_);
    if (const std::vector<std::string> endpoints = session_.take_told(); !endpoints.empty()) {
      heard_.told.emplace_back("told endpoints");
      for (const std::string& endpoint : endpoints)
        heard_.told.back() += " " + endpoint;
    }
    if (session_.take_reopen(now_)) heard_.said.emplace_back("reconnect");
    while (const std::optional<Outgoing> next = session_.next_send()) {
      const std::string header(next->header);
      const bool has_body = next->body != nullptr;
      session_.sent(now_);
      hear_of(header, has_body, timed);
    }
    tell();
  }

  void hear_of(std::string_view header, bool has_body, bool timed) {
    Decoder decoder;
    Items<wire::ClientRequest> items;
    const Blob none;
    ASSERT_EQ(decoder.decode(header, has_body ? std::optional<std::string_view>("") : std::nullopt, items),
              nullptr);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const std::string mark =
          items.size() > 1 ? std::to_string(i + 1) + "/" + std::to_string(items.size()) + " " : "";
      std::visit([&](const auto& said) { hear_of(said, mark, std::string(items.body(i)), timed); }, items[i]);
    }
  }
  void say(const std::string& mark, std::string_view op, wire::Raw ref, std::string_view id,
           const std::map<std::string, std::string>& fields) {
    std::string name = "nobody";
    for (const auto& [each, number] : refs_)
      if (number == ref_number(ref)) name = each;
    EXPECT_TRUE(id.empty() || id == name) << op << " has the id " << id << " and the ref of " << name;
    heard_.said.push_back(ends::words(mark + std::string(op) + " " + name, fields));
  }
  void hear_of(const wire::Submit& said, const std::string& mark, const std::string& body, bool) {
    say(mark, "submit", said.ref, said.id,
        {{"stream", said.stream ? "true" : ""},
         {"reply", said.reply == "result" ? "" : std::string(said.reply)},
         {"body", body.size() < 100 ? body : ""}});
  }
  void hear_of(const wire::Fetch& said, const std::string& mark, const std::string&, bool) {
    say(mark, "fetch", said.ref, said.id,
        {{"from_seq", said.from_seq ? std::to_string(*said.from_seq) : ""}});
  }
  void hear_of(const wire::Cancel& said, const std::string& mark, const std::string&, bool) {
    say(mark, "cancel", said.ref, said.id, {});
  }
  void hear_of(const wire::Seen& said, const std::string& mark, const std::string&, bool) {
    say(mark, "seen", said.ref, said.id, {{"seq", std::to_string(said.seq)}});
  }
  void hear_of(const wire::Watch& said, const std::string& mark, const std::string&, bool) {
    say(mark, "watch", said.ref, said.id, {{"stop", said.stop ? "true" : ""}});
  }
  void hear_of(const wire::StatusQuery& said, const std::string& mark, const std::string&, bool) {
    if (said.ids.empty()) return say(mark, "status", said.ref, said.id, {});
    heard_.said.emplace_back("status");
    for (const std::string_view id : said.ids)
      heard_.said.back() += " " + std::string(id);
  }
  void hear_of(const wire::Ping& said, const std::string& mark, const std::string&, bool timed) {
    if (ref_number(said.ref) != 0u) return say(mark, "ping", said.ref, {}, {});
    if (timed && lives_)
      hear({.op = "pong", .numbers = {{"ref", 0}}});
    else if (timed)
      heard_.said.emplace_back("ping");
  }
  template <class Other>
  void hear_of(const Other&, const std::string&, const std::string&, bool) {
    heard_.said.emplace_back("something else");
  }

  void tell() {
    std::vector<Arrived> arrived;
    session_.take_arrived(arrived);
    for (const Arrived& one : arrived) {
      const std::string name = "told " + named_.at(one.ref) + " ";
      const JobChange& change = one.change;
      if (one.on_change)
        heard_.told.push_back(ends::words(name + change.what,
                                          {{"seq", std::to_string(change.seq)},
                                           {"gap", change.gap ? "true" : ""},
                                           {"left_out", change.gap ? std::to_string(change.left_out) : ""}}));
      else
        heard_.told.push_back(name + "piece seq=" + std::to_string(one.chunk.seq));
    }
    std::vector<Finished> finished;
    session_.take_finished(finished);
    for (Finished& one : finished)
      one.handler(std::move(one.outcome));
  }
  static std::string words(const Outcome& outcome) {
    if (!outcome) {
      const ClientError& error = outcome.error();
      return ends::words("error", {{"code", error.code},
                                   {"local", error.local ? "true" : ""},
                                   {"chunks", error.chunks > 0 ? std::to_string(error.chunks) : ""}});
    }
    if (const auto* done = std::get_if<JobDone>(&*outcome))
      return ends::words("answer", {{"body", std::string(done->body.bytes())}});
    if (const auto* status = std::get_if<JobStatus>(&*outcome)) return "status state=" + status->state;
    return std::holds_alternative<JobAccepted>(*outcome) ? "accepted" : "pong";
  }

  // ---- what the application does ----

  void ask(const Line& line) {
    const std::uint64_t ref = refs_.size() + 1;
    const std::string& name = line.word(1);
    Request request{.ref = ref, .id = name, .asked = now_};
    Buffer ref_bytes, header, items;
    const wire::Raw raw = number_ref(ref, ref_bytes);
    const std::string body = line.body();
    const std::string& kind = line.word(0);
    if (kind == "submit" || kind == "stream" || kind == "leave") {
      request.kind = kind == "submit"   ? RequestKind::submit
                     : kind == "stream" ? RequestKind::stream
                                        : RequestKind::leave;
      wire::Submit submit{.service = "s", .id = name, .stream = kind == "stream", .ref = raw};
      if (kind == "leave") submit.reply = "accepted";
      request.body_bytes = body.size();
      if (body.size() > limits::inline_bytes_max) {
        encode(submit, header);
        request.body = Blob::copy(body);
      } else {
        request.item = write_item(submit, items);
        Batch(request.item, body, items).write(items, header);
        request.item.begin = std::string_view("\x94\xA4LMQ1\xA6submit").size();
      }
    } else if (kind == "fetch") {
      request.kind = RequestKind::fetch;
      encode(wire::Fetch{.id = name, .ref = raw}, header);
    } else if (kind == "status") {
      request.kind = RequestKind::status;
      encode(wire::StatusQuery{.id = name, .ids = {}, .ref = raw}, header);
    } else if (kind == "cancel") {
      request.kind = RequestKind::cancel;
      encode(wire::Cancel{.id = name, .ref = raw}, header);
    } else if (kind == "ping") {
      encode(wire::Ping{.ref = raw}, header);
    } else if (kind == "watch") {
      request.kind = RequestKind::watch;
      request.id.clear();
      request.on_change = std::make_shared<const ChangeHandler>();
      encode(wire::Watch{.ref = raw}, header);
    } else {
      ASSERT_EQ(kind, "follow") << "no word of a client's transcript";
      request.kind = RequestKind::stream;
      request.from_seq = line.number_of("from_seq", 0);
    }
    request.takes_at_once = false;
    request.header = std::string(header.view());
    if (const auto timeout = line.field("timeout")) request.deadline = now_ + ends::duration(*timeout);
    request.handler = [this, name](Outcome&& outcome) {
      heard_.told.push_back("told " + name + " " + words(outcome));
    };
    refs_[name] = ref;
    named_[ref] = name;
    session_.begin(std::move(request), now_);
  }

  // ---- what the broker does ----

  void broker(const Line& line) {
    const std::string& op = line.word(1);
    if (op == "lives" || op == "silent") {
      lives_ = op == "lives";
      return;
    }
    if (op == "noise") return session_.heard_nonsense();
    ends::Message message{.op = op == "states" ? "status" : op, .fields = line.fields};
    message.fields.erase("body");
    message.fields.erase("body_bytes");
    message.fields.erase("endpoints");
    if (op == "states") {
      for (std::size_t at = 2; at < line.words.size(); ++at) {
        const std::string& pair = line.word(at);
        message.states.emplace_back(pair.substr(0, pair.find(':')), pair.substr(pair.find(':') + 1));
      }
      message.numbers["ref"] = Probes::kRef;
    } else if (line.words.size() > 2) {
      message.numbers["ref"] = line.word(2) == "question" ? Probes::kRef : refs_.at(line.word(2));
    } else if (op == "pong") {
      message.numbers["ref"] = 0;
    }
    if (const auto endpoints = line.field("endpoints"))
      for (std::size_t from = 0; from <= endpoints->size();) {
        const std::size_t comma = std::min(endpoints->find(',', from), endpoints->size());
        message.lists["endpoints"].push_back(endpoints->substr(from, comma - from));
        from = comma + 1;
      }
    hear(message, line.body());
  }
  void hear(const ends::Message& message, const std::string& body = {}) {
    Decoder decoder;
    Items<wire::ClientReply> replies;
    const std::string header = ends::pack(message);
    if (decoder.decode(header, {}, replies) != nullptr) return session_.heard_nonsense();
    session_.heard(replies[0], Blob::copy(body), now_);
  }

  TimePoint now_{std::chrono::hours(1)};
  Session session_;
  bool lives_ = false;
  std::map<std::string, std::uint64_t> refs_;
  std::map<std::uint64_t, std::string> named_;
  ends::Heard heard_;
};

class ClientEnds : public testing::TestWithParam<ends::Transcript> {};

TEST_P(ClientEnds, plays) {
  if (const auto why = GetParam().except.find("cpp"); why != GetParam().except.end())
    GTEST_SKIP() << why->second;
  EndClient client(GetParam().of);

  const std::string wrong =
      ends::play(GetParam(), [&](const std::vector<Line>& lines) { return client.happens(lines); });

  EXPECT_EQ(wrong, "");
}

INSTANTIATE_TEST_SUITE_P(tests, ClientEnds, testing::ValuesIn(ends::read("client")),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace lanemq::client
