// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <zmq.hpp>

#include <lanemq/codec.hpp>
#include <lanemq/messages.hpp>

namespace lanemq::test {

/// A broker of one thread that owns a shard: it takes every job and answers with its own name, except those
/// of services that it was told to send elsewhere. It knows the ids that it took. What it says of the shards
/// is told to it, too: it has no rules.
class FakeShard {
 public:
  explicit FakeShard(std::string name, const std::string& endpoint = "tcp://127.0.0.1:*")
      : name_(std::move(name)), socket_(context_, zmq::socket_type::router) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.bind(endpoint);
    endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeShard() {
    stopping_ = true;
    thread_.join();
  }
  FakeShard(const FakeShard&) = delete;
  FakeShard& operator=(const FakeShard&) = delete;

  const std::string& endpoint() const { return endpoint_; }

  /// Its pongs say that from now on. `shards`: as encode_shards() writes them; empty: it has none.
  void say(std::string shards, std::string tenant = {}) {
    const std::lock_guard lock(mutex_);
    shards_ = std::move(shards);
    tenant_ = std::move(tenant);
  }
  void send_on(const std::string& service, const std::string& shard, const std::string& endpoint) {
    const std::lock_guard lock(mutex_);
    elsewhere_[service] = {shard, endpoint};
  }
  void know(const std::string& id) {
    const std::lock_guard lock(mutex_);
    known_.insert(id);
  }
  /// It answers pings and nothing else.
  void fall_silent() { silent_ = true; }
  /// It reads what comes, and answers nothing.
  void stand_still() { silent_ = still_ = true; }

  /// What it was asked since the last call, pings left out: `submit a`, `status a`, `spend`.
  std::vector<std::string> heard() {
    const std::lock_guard lock(mutex_);
    return std::exchange(heard_, {});
  }
  std::size_t heard_count(const std::string& what) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count(heard_.begin(), heard_.end(), what));
  }

 private:
  void serve() {
    while (!stopping_) {
      zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
      if (zmq::poll(&item, 1, std::chrono::milliseconds(10)) == 0) continue;
      std::vector<zmq::message_t> frames(1);
      (void)socket_.recv(frames[0]);
      while (frames.back().more())
        (void)socket_.recv(frames.emplace_back());
      if (frames.size() < 2) continue;
      Items<wire::ClientRequest> requests;
      if (decoder_.decode(frames[1].to_string_view(), {}, requests) != nullptr) continue;
      const std::lock_guard lock(mutex_);
      for (std::size_t i = 0; i < requests.size(); ++i)
        std::visit([&](const auto& message) { on(message, frames[0].to_string_view()); }, requests[i]);
    }
    socket_.close();
  }

  void on(const wire::Ping& ping, std::string_view from) {
    if (still_) return;
    wire::Pong pong{.now_ms = 1, .version = "fake", .ref = ping.ref};
    if (ping.cluster && !shards_.empty()) {
      pong.shard = name_;
      pong.shards = {shards_};
      if (!tenant_.empty()) pong.tenant = tenant_;
    }
    say_to(from, pong);
  }

  void on(const wire::Submit& submit, std::string_view from) {
    heard_.push_back("submit " + std::string(submit.id));
    if (silent_) return;
    const std::string id(submit.id);
    const auto other = elsewhere_.find(std::string(submit.service));
    if (other != elsewhere_.end() && !known_.contains(id)) {
      wire::ErrorReply reply{.id = submit.id, .code = "not_owner", .message = "elsewhere", .ref = submit.ref};
      reply.shard = other->second.first;
      if (!other->second.second.empty()) reply.endpoints = {other->second.second};
      return say_to(from, reply);
    }
    known_.insert(id);
    if (submit.reply == "accepted")
      return say_to(from, wire::Accepted{.id = id, .lane = name_, .ref = submit.ref});
    if (submit.stream) say_chunk(from, submit.id, 0, submit.ref);
    say_result(from, submit.id, submit.stream ? 1 : 0, submit.ref);
  }

  void on(const wire::StatusQuery& query, std::string_view from) {
    state(query.id, "status", query.ref, from);
  }
  void on(const wire::Cancel& query, std::string_view from) { state(query.id, "cancel", query.ref, from); }
  void state(std::string_view id, const std::string& what, wire::Raw ref, std::string_view from) {
    heard_.push_back(what + " " + std::string(id));
    if (silent_) return;
    const bool known = known_.contains(std::string(id));
    say_to(from,
           wire::StatusReply{.id = id, .state = known ? "running" : "unknown", .lane = name_, .ref = ref});
  }

  void on(const wire::Fetch& fetch, std::string_view from) {
    heard_.push_back("fetch " + std::string(fetch.id));
    if (silent_) return;
    if (known_.contains(std::string(fetch.id))) {
      if (fetch.from_seq) say_chunk(from, fetch.id, *fetch.from_seq, fetch.ref);
      return say_result(from, fetch.id, fetch.from_seq ? *fetch.from_seq + 1 : 0, fetch.ref);
    }
    if (fetch.from_seq)
      return say_to(from, wire::ErrorReply{.id = fetch.id, .code = "not_found", .ref = fetch.ref});
    say_to(from, wire::StatusReply{.id = fetch.id, .state = "unknown", .lane = name_, .ref = fetch.ref});
  }

  void on(const wire::StatsQuery& query, std::string_view from) {
    heard_.push_back("stats");
    if (silent_) return;
    Buffer document;
    DocumentWriter(document).map(1).text("of").text(name_);
    say_to(from, wire::StatsReply{.document = {document.view()}, .ref = query.ref});
  }
  void on(const wire::Spend& spend, std::string_view from) {
    heard_.push_back("spend");
    say_to(from, wire::Spent{.key = spend.key, .requests = 1, .ref = spend.ref});
  }
  void on(const wire::Watch& watch, std::string_view from) {
    heard_.push_back("watch");
    say_to(from, wire::Watching{.seq = 0, .ref = watch.ref});
    say_to(from, wire::JobEvent{.what = "started", .id = name_, .ref = watch.ref});
  }
  void on(const wire::Seen&, std::string_view) { heard_.push_back("seen"); }
  void on(const wire::AdminQuery&, std::string_view) { heard_.push_back("admin"); }

  void say_result(std::string_view to, std::string_view id, std::int64_t chunks, wire::Raw ref) {
    header_.clear();
    encode(wire::JobResult{.id = id, .lane = "normal", .chunks = chunks, .ref = ref}, name_, header_);
    send(to);
  }
  void say_chunk(std::string_view to, std::string_view id, std::int64_t seq, wire::Raw ref) {
    header_.clear();
    encode(wire::ChunkReply{.id = id, .seq = seq, .ref = ref}, name_, header_);
    send(to);
  }
  template <class Message>
  void say_to(std::string_view to, const Message& message) {
    header_.clear();
    encode(message, header_);
    send(to);
  }
  void send(std::string_view to) {
    socket_.send(zmq::buffer(to), zmq::send_flags::sndmore);
    socket_.send(zmq::buffer(header_.view()), zmq::send_flags::none);
  }

  const std::string name_;
  zmq::context_t context_;
  zmq::socket_t socket_;
  std::string endpoint_;
  Decoder decoder_;
  Buffer header_;
  std::mutex mutex_;  // guards the five below
  std::string shards_, tenant_;
  std::map<std::string, std::pair<std::string, std::string>> elsewhere_;
  std::set<std::string> known_;
  std::vector<std::string> heard_;
  std::atomic<bool> silent_{false}, still_{false}, stopping_{false};
  std::thread thread_;
};

}  // namespace lanemq::test
