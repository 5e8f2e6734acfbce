// SPDX-License-Identifier: Apache-2.0
// The server by itself, over real sockets: what is thrown, and what a head alone decides.
#include "common/http/server/server.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/http/server/bodies/disk_faults.hpp"
#include "common/http/server/bodies/spool.hpp"
#include "tests/support/eventually.hpp"

namespace lanemq::http {
namespace {

/// A connection that waits for what it asks for.
class Caller {
 public:
  /// `window`: how many bytes its system takes ahead of it; 0: as many as it likes.
  /// `from`: its own address.
  explicit Caller(std::uint16_t port, int window = 0, const char* from = "127.0.0.1")
      : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in own{};
    own.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &own.sin_addr);
    if (::bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
      throw std::runtime_error("cannot bind");
    if (window > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &window, sizeof window);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("cannot connect");
  }
  ~Caller() { ::close(fd_); }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  /// Until the text is there, or the connection is closed.
  std::string read_until(std::string_view text) {
    while (seen_.find(text) == std::string::npos && read_some(4096) > 0) {
    }
    return seen_;
  }
  /// How many bytes came; 0 or less: no more will.
  ssize_t read_some(std::size_t most) {
    std::string bytes(most, '\0');
    const ssize_t size = ::recv(fd_, bytes.data(), most, 0);
    if (size > 0) seen_.append(bytes, 0, static_cast<std::size_t>(size));
    return size;
  }
  std::string read_all() { return read_until(std::string_view("\0nobody sends this", 18)); }

 private:
  int fd_;
  std::string seen_;
};

struct Odd {};  ///< thrown, and no std::exception

class Server : public testing::Test {
 protected:
  Server() {
    add("/ok", [](HttpRequest request, const ResponderPtr& responder) {
      responder->answer({.status = 200, .headers = {}, .body = request.body});
    });
    add("/peer", [](const HttpRequest& request, const ResponderPtr& responder) {
      responder->answer({.status = 200, .headers = {}, .body = blob_of(request.peer)});
    });
    add("/hold", [this](const HttpRequest&, const ResponderPtr& responder) { held_.push_back(responder); });
    add("/throws", [](const HttpRequest&, const ResponderPtr&) { throw std::length_error("too long"); });
    add("/throws-odd", [](const HttpRequest&, const ResponderPtr&) { throw Odd(); });
    add("/throws-later", [this](const HttpRequest&, const ResponderPtr& responder) {
      server_->post([responder] {
        responder->answer({.status = 200, .headers = {}, .body = {}});
        throw std::bad_alloc();
      });
    });
    add("/throws-when-written", [](const HttpRequest&, const ResponderPtr& responder) {
      responder->begin(200, {});
      responder->write(Blob::borrow("piece"), [] { throw Odd(); });
    });
    add("/throws-when-gone", [](const HttpRequest&, const ResponderPtr& responder) {
      responder->on_gone([responder] { throw Odd(); });
    });
    for (const auto& [path, size] : {std::pair("/large", kLarge), std::pair("/small", kSmall)})
      add(path, [size = size](const HttpRequest&, const ResponderPtr& responder) {
        responder->answer({.status = 200, .headers = {}, .body = blob_of(std::string(size, 'x'))});
      });
    router_.add(Route{.method = "POST",
                      .pattern = "/upload",
                      .handler =
                          [](const HttpRequest& request, const ResponderPtr& responder) {
                            responder->answer({.status = 200, .headers = {}, .body = request.body});
                          },
                      .body_bytes_max = 20'000'000,
                      .spool_folder = testing::TempDir()});
    router_.add(Route{.method = "POST",
                      .pattern = "/upload-nowhere",
                      .handler = [](const HttpRequest&, const ResponderPtr& responder) { responder->cut(); },
                      .body_bytes_max = 20'000'000,
                      .spool_folder = "/nowhere"});
    router_.add(
        Route{.method = "POST",
              .pattern = "/named",
              .handler = [](const HttpRequest&, const ResponderPtr& responder) { responder->cut(); },
              .admit = [](const HttpRequest&) -> tl::expected<std::string, HttpAnswer> { return "alice"; }});
    router_.add(Route{.method = "POST",
                      .pattern = "/refused",
                      .handler = [](const HttpRequest&, const ResponderPtr& responder) { responder->cut(); },
                      .admit = [](const HttpRequest&) -> tl::expected<std::string, HttpAnswer> {
                        return tl::unexpected(HttpAnswer{.status = 403, .headers = {}, .body = {}});
                      }});
    server_ = std::make_unique<HttpServer>(
        ServerOptions{.connections_max = kConnections,
                      .connections_per_address_max = 2 * kConnections,
                      .proxies = {"127.0.0.2"},
                      .bodies_bytes_max = 4'000'000,
                      .uploads_bytes_max = 40'000'000,
                      .answers_bytes_max = kLarge + kSmall,
                      .body_bytes_per_second_min = 100'000,
                      .body_rate_window = std::chrono::milliseconds(1'500),
                      .write_timeout = std::chrono::milliseconds(1'500)},
        router_, [](Refusal kind, const HttpRequest& request, std::string_view detail) {
          if (request.path == "/nowhere") throw std::runtime_error("no words for it");
          const int status = kind == Refusal::disk_refuses     ? 507
                             : kind == Refusal::out_of_memory  ? 503
                             : kind == Refusal::body_too_large ? 413
                                                               : 400;
          return HttpAnswer{.status = status, .headers = {}, .body = blob_of(std::string(detail))};
        });
    thread_ = std::thread([this] { server_->run([this](std::string_view) { ++failures_; }); });
  }
  ~Server() override {
    server_->post([this] { server_->stop(); });
    thread_.join();
  }

  static constexpr std::size_t kConnections = 8;
  static constexpr std::size_t kLarge = 20'000'000, kSmall = 8'000'000;

  void add(const char* path, RequestHandler handler) {
    router_.add("GET", path, handler);
    router_.add("POST", path, std::move(handler));
  }
  std::string answer_to(const std::string& path) {
    Caller caller(server_->port());
    caller.send("GET " + path + " HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n");
    return caller.read_all();
  }
  ServerCounters counters() {
    std::promise<ServerCounters> told;
    server_->post([&] { told.set_value(server_->counters()); });
    return told.get_future().get();
  }
  std::size_t busy() {
    std::promise<std::size_t> told;
    server_->post([&] { told.set_value(server_->busy()); });
    return told.get_future().get();
  }
  void when(const std::function<bool(const ServerCounters&)>& happened) {
    ASSERT_TRUE(test::eventually([&] { return happened(counters()); }));
  }
  void when_busy(std::size_t count) {
    ASSERT_TRUE(test::eventually([&] { return busy() == count; }));
  }
  void when_connections(std::uint64_t count) {
    ASSERT_TRUE(test::eventually([&] { return counters().connections == count; }));
  }

  Router router_;
  std::vector<ResponderPtr> held_;  ///< on the loop's thread
  std::unique_ptr<HttpServer> server_;
  std::atomic<int> failures_{0};
  std::thread thread_;
};

TEST_F(Server, closes_the_connection_that_something_threw_for_and_serves_the_others) {
  Caller other(server_->port());
  other.send("GET /ok HTTP/1.1\r\nHost: g\r\n\r\n");
  EXPECT_TRUE(other.read_until("\r\n\r\n").starts_with("HTTP/1.1 200")) << other.read_all();

  EXPECT_TRUE(answer_to("/throws").starts_with("HTTP/1.1 400"));
  EXPECT_EQ(answer_to("/throws-odd"), "");
  EXPECT_TRUE(answer_to("/throws-later").starts_with("HTTP/1.1 200"));
  answer_to("/throws-when-written");
  EXPECT_EQ(answer_to("/nowhere"), "");
  {
    Caller leaver(server_->port());
    leaver.send("GET /throws-when-gone HTTP/1.1\r\nHost: g\r\n\r\n");
    while (busy() == 0)
      std::this_thread::yield();
  }
  when_connections(1);

  EXPECT_EQ(counters().failures, 6u);
  EXPECT_EQ(failures_, 6);
  EXPECT_EQ(busy(), 0u);
  EXPECT_EQ(counters().body_bytes, 0u);
  other.send("GET /ok HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n");
  EXPECT_NE(other.read_all().find("connection: close"), std::string::npos);
}

TEST_F(Server, closes_who_has_sent_no_whole_head_for_one_more) {
  const std::string rest = "st: g\r\n\r\n", get = "GET /ok HTTP/1.1\r\nHo" + rest,
                    hold = "GET /hold HTTP/1.1\r\nHo";
  Caller kept(server_->port());
  kept.send(get);
  EXPECT_TRUE(kept.read_until("\r\n\r\n").starts_with("HTTP/1.1 200"));
  std::vector<std::unique_ptr<Caller>> others;
  for (std::size_t i = 1; i < kConnections; ++i) {
    others.push_back(std::make_unique<Caller>(server_->port()));
    others.back()->send(hold);
    when_connections(i + 1);
  }

  Caller newcomer(server_->port());
  newcomer.send(get);
  EXPECT_TRUE(newcomer.read_until("\r\n\r\n").starts_with("HTTP/1.1 200"));
  EXPECT_EQ(others.front()->read_all(), "") << "the oldest one";
  EXPECT_EQ(counters().gave_way, 1u);

  // When all have sent theirs, those go that are kept between requests.
  others.erase(others.begin());
  for (const auto& other : others)
    other->send(rest);
  when_busy(others.size());
  for (Caller* gone : {&kept, &newcomer}) {
    others.push_back(std::make_unique<Caller>(server_->port()));
    others.back()->send(hold + rest);
    EXPECT_EQ(gone->read_all().find("HTTP/1.1", 1), std::string::npos);
    when_busy(others.size());
  }
  EXPECT_EQ(counters().gave_way, 3u);
  EXPECT_EQ(counters().refused, 0u);

  Caller late(server_->port());
  EXPECT_EQ(late.read_all(), "") << "all others are at work";
  EXPECT_EQ(counters().refused, 1u);
  server_->post([this] {
    for (const ResponderPtr& held : std::exchange(held_, {}))
      held->answer({.status = 200, .headers = {}, .body = {}});
  });
  for (const auto& other : others)
    EXPECT_TRUE(other->read_until("\r\n\r\n").starts_with("HTTP/1.1 200"));
}

TEST_F(Server, believes_its_proxies_alone_where_a_request_comes_from) {
  const auto peer = [&](const char* from, const std::string& forwarded) {
    Caller caller(server_->port(), 0, from);
    caller.send("GET /peer HTTP/1.1\r\nHost: g\r\nConnection: close\r\n" + forwarded + "\r\n");
    const std::string answer = caller.read_all();
    return answer.substr(answer.find("\r\n\r\n") + 4);
  };
  EXPECT_EQ(peer("127.0.0.1", "X-Forwarded-For: 192.0.2.1\r\n"), "127.0.0.1") << "no proxy";
  EXPECT_EQ(peer("127.0.0.2", ""), "127.0.0.2");
  EXPECT_EQ(peer("127.0.0.2", "X-Forwarded-For: 192.0.2.1\r\n"), "192.0.2.1");
  EXPECT_EQ(peer("127.0.0.2", "X-Forwarded-For: 198.51.100.1\r\nx-forwarded-for: 192.0.2.1, 127.0.0.2\r\n"),
            "192.0.2.1");
}

TEST_F(Server, counts_a_body_for_whom_the_proxy_names) {
  const auto post = [&](Caller& caller, const char* sender) {
    caller.send("POST /ok HTTP/1.1\r\nHost: g\r\nX-Forwarded-For: " + std::string(sender) +
                "\r\nContent-Length: 900000\r\n\r\n" + std::string(800'000, 'x'));
  };
  Caller first(server_->port(), 0, "127.0.0.2"), second(server_->port(), 0, "127.0.0.2"),
      third(server_->port(), 0, "127.0.0.2");
  post(first, "192.0.2.1");
  when([](const ServerCounters& now) { return now.body_bytes == 800'000; });
  post(second, "192.0.2.2");
  when([](const ServerCounters& now) { return now.body_bytes == 1'600'000; });
  post(third, "192.0.2.1");
  EXPECT_TRUE(third.read_all().starts_with("HTTP/1.1 503"));
}

TEST_F(Server, decides_by_the_head_who_may_send_a_body) {
  Caller waits(server_->port());
  waits.send("POST /refused HTTP/1.1\r\nHost: g\r\nContent-Length: 900000\r\nExpect: 100-continue\r\n\r\n");

  const std::string answer = waits.read_all();

  EXPECT_TRUE(answer.starts_with("HTTP/1.1 403")) << answer;
  EXPECT_EQ(answer.find("100 Continue"), std::string::npos);
  EXPECT_EQ(counters().body_bytes, 0u);
}

TEST_F(Server, lets_who_is_refused_send_all_of_it_and_read_why) {
  Caller caller(server_->port());
  caller.send("POST /refused HTTP/1.1\r\nHost: g\r\nContent-Length: 30000000\r\n\r\n" +
              std::string(30'000'000, 'x'));
  EXPECT_TRUE(caller.read_all().starts_with("HTTP/1.1 403"));
  EXPECT_EQ(counters().body_bytes, 0u);
}

TEST_F(Server, keeps_nothing_for_what_is_only_announced) {
  Caller announces(server_->port());
  announces.send("POST /ok HTTP/1.1\r\nHost: g\r\nContent-Length: 900000\r\nExpect: 100-continue\r\n\r\n");

  EXPECT_EQ(announces.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  EXPECT_EQ(counters().body_bytes, 0u);
  announces.send(std::string(900'000, 'x'));
  const std::string answer = announces.read_until(std::string(900'000, 'x'));
  EXPECT_NE(answer.find("HTTP/1.1 200"), std::string::npos);
}

TEST_F(Server, sends_no_continue_to_who_has_sent_already) {
  Caller caller(server_->port());
  caller.send(
      "POST /ok HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: "
      "close\r\n\r\nhi");

  EXPECT_TRUE(caller.read_all().starts_with("HTTP/1.1 200"));
}

TEST_F(Server, answers_what_is_sent_ahead_in_its_order) {
  Caller caller(server_->port());
  std::string all;
  for (int i = 0; i < 300; ++i)
    all += "POST /ok HTTP/1.1\r\nHost: g\r\nContent-Length: 4\r\n\r\n" + std::to_string(1000 + i);
  caller.send(all + "GET /ok HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n");

  const std::string answers = caller.read_all();

  std::size_t at = 0;
  for (int i = 0; i < 300; ++i) {
    at = answers.find("\r\n\r\n" + std::to_string(1000 + i), at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST_F(Server, gives_nobody_more_than_a_quarter_of_the_room_for_bodies) {
  const std::string head = "POST /ok HTTP/1.1\r\nHost: g\r\nContent-Length: ";
  Caller large(server_->port());
  large.send(head + "1000001\r\n\r\n");
  EXPECT_TRUE(large.read_all().starts_with("HTTP/1.1 413"));

  Caller first(server_->port());
  first.send(head + "900000\r\n\r\n" + std::string(800'000, 'x'));
  when([](const ServerCounters& now) { return now.body_bytes == 800'000; });
  Caller second(server_->port());
  second.send(head + "300000\r\n\r\n" + std::string(300'000, 'x'));
  EXPECT_TRUE(second.read_all().starts_with("HTTP/1.1 503"));

  first.send(std::string(100'000, 'x'));
  EXPECT_TRUE(first.read_until("\r\n\r\n").starts_with("HTTP/1.1 200"));
  when([](const ServerCounters& now) { return now.body_bytes == 0; });
}

TEST_F(Server, has_a_large_upload_on_the_disk_and_not_in_memory) {
  std::string body(9'000'000, 'x');
  for (std::size_t i = 0; i < body.size(); i += 1'000)
    body.replace(i, 8, std::to_string(10'000'000 + i));
  Caller caller(server_->port());
  caller.send("POST /upload HTTP/1.1\r\nHost: g\r\nContent-Length: 9000000\r\n\r\n" +
              body.substr(0, 8'500'000));
  when([](const ServerCounters& now) { return now.upload_bytes >= 8'000'000; });
  EXPECT_LT(counters().body_bytes, 1'000'000u);

  caller.send(body.substr(8'500'000) + "GET /ok HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n");

  const std::string answers = caller.read_all();
  EXPECT_NE(answers.find(body), std::string::npos);
  EXPECT_TRUE(answers.ends_with("connection: close\r\n\r\n"));
  when([](const ServerCounters& now) { return now.upload_bytes == 0 && now.body_bytes == 0; });
}

/// Cuts off the file without a name that this process has last opened in that folder.
void cut_off_nameless_file(const std::string& folder) {
  for (int fd = 1'023; fd > 2; --fd) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    std::string target(4096, '\0');
    const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
    target.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    if (!target.starts_with(folder) || !target.ends_with(" (deleted)")) continue;
    ASSERT_EQ(::ftruncate(fd, 4'096), 0);
    return;
  }
  FAIL() << "no file without a name in " << folder;
}

TEST(Spool, is_zeros_where_the_disk_gives_nothing_back) {
  const auto pot = std::make_shared<BytePot>(100'000'000);
  const auto spool = std::make_shared<Spool>(testing::TempDir(), BytePot::Hold(pot, {}));
  spool->append(std::string(3'000'000, 'x'));
  const Blob body = spool->look();
  {
    const DiskFaults faults;
    EXPECT_EQ(std::count(body.bytes().begin(), body.bytes().end(), 'x'), 3'000'000);
    EXPECT_FALSE(faults.happened());
  }
  cut_off_nameless_file(testing::TempDir());
  for (int again = 0; again < 2; ++again) {
    const DiskFaults faults;
    EXPECT_EQ(std::count(body.bytes().begin(), body.bytes().end(), 'x'), 4'096);
    EXPECT_EQ(faults.happened(), again == 0) << "once for each page";
  }
}

TEST_F(Server, sees_that_a_caller_left_behind_more_than_is_read_ahead) {
  {
    Caller caller(server_->port());
    caller.send("GET /hold HTTP/1.1\r\nHost: g\r\n\r\n" + std::string(90'000, 'x'));
    when([](const ServerCounters& now) { return now.requests == 1; });
  }
  when([](const ServerCounters& now) { return now.hang_ups == 1; });
}

TEST_F(Server, says_that_the_disk_refuses_an_upload) {
  Caller caller(server_->port());
  caller.send("POST /upload-nowhere HTTP/1.1\r\nHost: g\r\nTransfer-Encoding: chunked\r\n\r\n1e8480\r\n" +
              std::string(2'000'000, 'x') + "\r\n0\r\n\r\n");

  const std::string answer = caller.read_until("/nowhere");

  EXPECT_TRUE(answer.starts_with("HTTP/1.1 507")) << answer;
  when([](const ServerCounters& now) { return now.upload_bytes == 0 && now.body_bytes == 0; });
}

TEST_F(Server, forgets_an_upload_whose_sender_leaves) {
  {
    Caller caller(server_->port());
    caller.send("POST /upload HTTP/1.1\r\nHost: g\r\nContent-Length: 9000000\r\n\r\n" +
                std::string(5'000'000, 'x'));
    when([](const ServerCounters& now) { return now.upload_bytes > 0; });
  }
  when([](const ServerCounters& now) {
    return now.connections == 0 && now.upload_bytes == 0 && now.body_bytes == 0;
  });
}

TEST_F(Server, gives_nobody_more_than_a_quarter_of_the_disk) {
  Caller caller(server_->port());
  caller.send("POST /upload HTTP/1.1\r\nHost: g\r\nContent-Length: 10000001\r\n\r\n");

  EXPECT_TRUE(caller.read_all().starts_with("HTTP/1.1 413"));
}

TEST_F(Server, reads_pieces_of_files_beside_a_whole_one) {
  std::promise<void> may_end, piece;
  server_->post([&] {
    server_->aside(
        http::Loop::Side::files, [&] { may_end.get_future().wait(); }, [] {});
    server_->aside(
        http::Loop::Side::disk, [] {}, [&] { piece.set_value(); });
  });
  EXPECT_EQ(piece.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  may_end.set_value();
}

TEST_F(Server, closes_a_body_that_trickles) {
  Caller slow(server_->port());
  slow.send("POST /ok HTTP/1.1\r\nHost: g\r\nContent-Length: 900000\r\n\r\n" + std::string(400'000, 'x'));

  EXPECT_EQ(slow.read_all(), "") << "what it sent fast does not help it afterwards";
  EXPECT_EQ(counters().timeouts, 1u);
  EXPECT_EQ(counters().body_bytes, 0u);
  EXPECT_EQ(busy(), 0u);
}

TEST_F(Server, counts_a_request_as_running_while_its_body_comes) {
  Caller caller(server_->port());
  caller.send("POST /ok HTTP/1.1\r\nHost: g\r\nContent-Length: 2\r\n\r\nh");
  when([](const ServerCounters& now) { return now.body_bytes == 1; });
  EXPECT_EQ(busy(), 1u);

  caller.send("i");
  caller.read_until("\r\n\r\nhi");

  when_busy(0);
}

TEST_F(Server, cuts_the_largest_answer_when_unread_ones_are_too_many) {
  const std::string request = " HTTP/1.1\r\nHost: g\r\n\r\n";
  Caller first(server_->port(), 4096), largest(server_->port(), 4096), last(server_->port(), 4096);
  const auto ask = [&](Caller& caller, const std::string& path, std::size_t unread) {
    caller.send("GET " + path + request);
    when([&](const ServerCounters& now) { return now.answer_bytes > unread || now.answers_cut > 0; });
  };
  ask(first, "/small", kSmall / 2);
  ask(largest, "/large", kSmall / 2 + kLarge / 2);
  EXPECT_EQ(counters().answers_cut, 0u);

  last.send("GET /small" + request);
  when([](const ServerCounters& now) { return now.answers_cut == 1; });

  EXPECT_LT(largest.read_all().size(), kLarge);
  EXPECT_GT(first.read_until(std::string(100'000, 'x')).size(), 100'000u);
}

TEST_F(Server, keeps_who_reads_slowly_and_cuts_who_does_not_read) {
  Caller slow(server_->port(), 4096), deaf(server_->port(), 4096);
  for (Caller* caller : {&slow, &deaf})
    caller->send("GET /small HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n");
  when([](const ServerCounters& now) { return now.answer_bytes > kSmall; });

  // It reads a little between the looks, for longer than the server waits twice for who does not read.
  const auto reads_until_cut = [&](std::uint64_t cut) {
    return test::eventually([&] { return slow.read_some(1024) <= 0 || counters().timeouts == cut; });
  };
  ASSERT_TRUE(reads_until_cut(1));
  Caller deaf_later(server_->port(), 4096);
  deaf_later.send("GET /small HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(reads_until_cut(2));

  EXPECT_EQ(counters().timeouts, 2u);
  EXPECT_GT(slow.read_all().size(), kSmall);
}

}  // namespace
}  // namespace lanemq::http
