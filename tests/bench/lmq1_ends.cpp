// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include <unistd.h>
#include <zmq.hpp>

#include "tests/bench/bench_keys.hpp"
#include "tests/bench/ends.hpp"
#include "tests/bench/lmq1.hpp"
#include "tests/bench/process.hpp"

// LMQ1 by hand: one frame a message, ids given by the client, every field at its default left out.
namespace lanemq::bench {
namespace {

constexpr std::string_view kService = "echo";
constexpr std::array<std::string_view, 3> kLaneNames = {"critical", "high", "batch"};  // by Lane

constexpr std::uint64_t kHeartbeatMsMax = 60'000;

/// What the broker's answer says where it is no answer to count: its op, and the code and text of an error.
struct Remark {
  std::string_view code;
  std::string_view text;

  bool read(std::string_view key, lmq1::Reader& reader) {
    if (key == "code") return reader.text(code);
    if (key == "message") return reader.text(text);
    return reader.skip();
  }
  [[noreturn]] void fail(std::string_view op) const {
    std::string words = "the broker said " + std::string(op);
    if (!code.empty()) words += " " + std::string(code);
    if (!text.empty()) words += ": " + std::string(text);
    throw Failure(words);
  }
};

/// A DEALER and the message that it has read last.
class Connection {
 public:
  Connection(const std::string& endpoint, End end, SendAhead ahead)
      : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::rcvhwm, 0);
    if (ahead == SendAhead::unbounded) socket_.set(zmq::sockopt::sndhwm, 0);
    set_timeout(kReplyTimeoutMs);
    show_key(socket_, end);
    socket_.connect(endpoint);
  }

  void set_timeout(int milliseconds) { socket_.set(zmq::sockopt::rcvtimeo, milliseconds); }
  void send(const lmq1::Writer& writer) {
    socket_.send(zmq::const_buffer(writer.view().data(), writer.view().size()), zmq::send_flags::none);
  }

  /// Takes one message; false where there is none, or none in time.
  bool take(Wait wait) {
    if (!socket_.recv(header_, wait == Wait::no ? zmq::recv_flags::dontwait : zmq::recv_flags::none))
      return false;
    if (!body_.empty()) body_.rebuild();  // nothing of the message before may be read again
    if (header_.more() && (!socket_.recv(body_, zmq::recv_flags::none) || body_.more()))
      throw Failure("the broker sent more than two frames");
    return true;
  }
  /// Returns how many items it has.
  template <class Begin, class Field, class Body>
  std::size_t read(std::string_view& op, Begin&& begin, Field&& field, Body&& body) {
    const std::size_t items =
        lmq1::read_message(header_.to_string_view(), body_.to_string_view(), op, begin, field, body);
    if (items == 0 || items > kBatchMax)
      throw Failure("the broker sent a malformed message of " + std::to_string(header_.size()) + " bytes");
    return items;
  }
  /// The body of a message that was read from this connection, open for changes.
  void* writable(std::string_view body) {
    const bool own_frame = body.data() == body_.to_string_view().data();
    return own_frame ? body_.data() : header_.data<char>() + (body.data() - header_.to_string_view().data());
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
  zmq::message_t header_;
  zmq::message_t body_;
};

/// Job ids in a ULID's shape, 26 characters: the process, so that two clients never share one, and a counter.
class IdCounter {
 public:
  IdCounter() {
    std::array<char, kIdBytes + 1> text{};
    std::snprintf(text.data(), text.size(), "01JB%010d%0*d", static_cast<int>(getpid()), kDigits, 0);
    id_ = text.data();
  }
  std::string_view next() {
    for (std::size_t digit = kIdBytes; digit-- > kIdBytes - kDigits;) {
      if (id_[digit] == 'Z') {
        id_[digit] = '0';
        continue;
      }
      id_[digit] = id_[digit] == '9' ? 'A' : static_cast<char>(id_[digit] + 1);
      break;
    }
    return id_;
  }

 private:
  static constexpr std::size_t kIdBytes = 26;
  static constexpr int kDigits = 12;
  std::string id_;
};

/// A message of up to `batch` items that is being written: the maps in one writer, their bodies in another.
class Outgoing {
 public:
  explicit Outgoing(std::string_view op) : op_(op) {}

  std::size_t items() const { return items_; }
  lmq1::Writer& next_map() {
    ++items_;
    return maps_;
  }
  void body(std::string_view bytes) { bodies_.bytes(bytes.data(), bytes.size()); }
  void send(Connection& connection) {
    out_.begin(op_, true);
    if (items_ > 1) out_.array(items_);
    out_.raw(maps_.view());
    if (items_ > 1) out_.array(items_);
    out_.raw(bodies_.view());
    connection.send(out_);
    maps_.clear();
    bodies_.clear();
    items_ = 0;
  }

 private:
  std::string_view op_;
  lmq1::Writer maps_, bodies_, out_;
  std::size_t items_ = 0;
};

class Lmq1Client final : public ClientEnd {
 public:
  Lmq1Client(const std::string& endpoint, SendAhead ahead, std::size_t batch)
      : connection_(endpoint, End::client, ahead), batch_(batch) {
    for (std::size_t lane = 0; lane < kLaneNames.size(); ++lane) {
      out_.clear();
      out_.map(batch > 1 ? 4 : 3);
      if (batch > 1) {
        out_.text("batch");
        out_.number(batch);
      }
      for (const std::string_view word : {std::string_view("service"), kService, std::string_view("lane"),
                                          kLaneNames[lane], std::string_view("id")})
        out_.text(word);
      heads_[lane] = out_.view();
    }
  }

  /// All jobs of a batch are of one lane: a later one says its id alone.
  void submit(const JobBody& body, Lane lane) override {
    lmq1::Writer& map = jobs_.next_map();
    if (jobs_.items() == 1) {
      map.raw(heads_[static_cast<std::size_t>(lane)]);
    } else {
      map.map(1);
      map.text("id");
    }
    map.text(ids_.next());
    jobs_.body({reinterpret_cast<const char*>(&body), sizeof body});
    if (jobs_.items() == batch_) jobs_.send(connection_);
  }
  void push() override {
    if (jobs_.items() > 0) jobs_.send(connection_);
  }

  bool receive(JobBody& reply, Wait wait) override {
    if (read_ == items_) {
      if (!take(wait)) return false;
      if (op_ != "result") remark_.fail(op_);
    }
    const std::string_view body = bodies_[read_++];
    if (body.size() != kBodyBytes) throw Failure("the broker sent a result of another size");
    std::memcpy(&reply, body.data(), sizeof reply);
    return true;
  }

  void flush() override {
    out_.begin("ping", false);
    out_.map(0);
    connection_.send(out_);
    take(Wait::until_reply);
    read_ = items_;
    if (op_ != "pong") remark_.fail(op_);
  }

 private:
  bool take(Wait wait) {
    if (!connection_.take(wait)) {
      if (wait == Wait::no) return false;
      throw Failure("no answer from the broker within 10 s");
    }
    remark_ = {};
    items_ = connection_.read(
        op_, [](std::size_t) {},
        [&](std::size_t, std::string_view key, lmq1::Reader& reader) { return remark_.read(key, reader); },
        [&](std::size_t item, std::string_view body) { bodies_.at(item) = body; });
    read_ = 0;
    return true;
  }

  Connection connection_;
  const std::size_t batch_;
  lmq1::Writer out_;
  Outgoing jobs_{"submit"};
  std::array<std::string, kLaneNames.size()> heads_;  ///< a map up to the id, which is all that changes
  IdCounter ids_;
  std::string_view op_;
  std::array<std::string_view, kBatchMax> bodies_;
  std::size_t items_ = 0, read_ = 0;  ///< of the message that was taken last
  Remark remark_;
};

class Lmq1Worker final : public WorkerEnd {
 public:
  Lmq1Worker(const std::string& endpoint, const WorkerPlace& place)
      : connection_(endpoint, End::worker, SendAhead::unbounded), place_(place) {}

  void announce() override {
    send_ready();
    if (!take()) throw Failure("no welcome from the broker within 10 s");
    if (op_ != "welcome") remark_.fail(op_);
    if (heartbeat_ms_ < 1 || heartbeat_ms_ > kHeartbeatMsMax)
      throw Failure("the broker's heartbeat_ms is out of range");
    // Idle for a heartbeat is the time to send one; under load every result counts as life.
    connection_.set_timeout(static_cast<int>(heartbeat_ms_));
  }

  [[noreturn]] void run(const Performer& performer) override {
    for (;;) {
      // Silence for a heartbeat's time is for the worker to break.
      const std::string_view op = take() ? op_ : "heartbeat";
      if (op == "job")
        perform(performer);
      else if (op == "heartbeat")
        send_heartbeat();
      else if (op != "acked")
        remark_.fail(op);  // a lost session, a cancelled or stale job: none of it belongs into a figure
    }
  }

 private:
  struct Job {
    std::uint64_t number = 0, attempt = 1;
    std::string_view body;
  };

  bool take() {
    if (!connection_.take(Wait::until_reply)) return false;
    remark_ = {};
    jobs_taken_ = connection_.read(
        op_,
        [&](std::size_t item) {
          jobs_.at(item) = {.number = 0, .attempt = item == 0 ? 1 : jobs_[0].attempt, .body = {}};
        },
        [&](std::size_t item, std::string_view key, lmq1::Reader& reader) {
          if (key == "job") return reader.number(jobs_[item].number);
          if (key == "attempt") return reader.number(jobs_[item].attempt);
          if (key == "heartbeat_ms") return reader.number(heartbeat_ms_);
          return remark_.read(key, reader);
        },
        [&](std::size_t item, std::string_view body) { jobs_[item].body = body; });
    return true;
  }

  /// As many results in one message as there were jobs in it.
  void perform(const Performer& performer) {
    for (std::size_t i = 0; i < jobs_taken_; ++i) {
      const Job& job = jobs_[i];
      if (job.body.size() != kBodyBytes) throw Failure("the broker sent a job of another size");
      performer.perform(connection_.writable(job.body));
      lmq1::Writer& map = results_.next_map();
      // Where the first one says its attempt, all do: it would be inherited.
      const bool says_attempt = jobs_[0].attempt != 1 || job.attempt != 1;
      map.map(says_attempt ? 2 : 1);
      map.text("job");
      map.number(job.number);
      if (says_attempt) {
        map.text("attempt");
        map.number(job.attempt);
      }
      results_.body(job.body);
    }
    results_.send(connection_);
  }

  void send_ready() {
    out_.begin("ready", false);
    out_.map(3 + (place_.reserved ? 1 : 0) + (place_.batch > 1 ? 1 : 0));
    out_.text("services");
    out_.array(1);
    out_.text(kService);
    out_.text("capacity");
    out_.number(static_cast<std::uint64_t>(place_.capacity));
    out_.text("name");
    out_.text("bench-" + std::to_string(place_.index));
    if (place_.batch > 1) {
      out_.text("batch");
      out_.number(place_.batch);
    }
    if (place_.reserved) {
      out_.text("lanes");
      out_.array(1);
      out_.text(kLaneNames[static_cast<std::size_t>(Lane::critical)]);
    }
    connection_.send(out_);
  }

  /// Every job that was read is answered, so the inventory is always empty.
  void send_heartbeat() {
    out_.begin("heartbeat", false);
    out_.map(1);
    out_.text("jobs");
    out_.array(0);
    connection_.send(out_);
  }

  Connection connection_;
  WorkerPlace place_;
  lmq1::Writer out_;
  Outgoing results_{"result"};
  std::string_view op_;
  std::array<Job, kBatchMax> jobs_;
  std::size_t jobs_taken_ = 0;  ///< with the last message
  Remark remark_;
  std::uint64_t heartbeat_ms_ = 1000;
};

}  // namespace

std::unique_ptr<ClientEnd> make_lmq1_client(const std::string& endpoint, SendAhead ahead, std::size_t batch) {
  return std::make_unique<Lmq1Client>(endpoint, ahead, batch);
}

std::unique_ptr<WorkerEnd> make_lmq1_worker(const std::string& endpoint, const WorkerPlace& place) {
  return std::make_unique<Lmq1Worker>(endpoint, place);
}

}  // namespace lanemq::bench
