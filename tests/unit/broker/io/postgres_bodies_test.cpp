// SPDX-License-Identifier: Apache-2.0
// Large bodies where no connection can be had for them: whether they go with their turns.
#include "broker/io/store/postgres/postgres_bodies.hpp"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "broker/io/store/store_exchange.hpp"
#include "tests/support/eventually.hpp"

namespace lanemq::io {
namespace {

/// Their database is nowhere. The test says whether commits go on.
class BodiesWithoutConnection : public testing::Test {
 protected:
  BodiesWithoutConnection() : thread_([this] { bodies_.run(); }) {}
  ~BodiesWithoutConnection() override {
    exchange_.end();
    thread_.join();
  }
  std::vector<Blob> given() {
    std::vector<Blob> bodies;
    bodies_.take_put(bodies);
    return bodies;
  }

  std::atomic<bool> away_{true};
  std::atomic<int> asked_{0};  ///< how often it could have given a body back, had commits gone on
  const PostgresPlace place_{.target = {.conninfo = "host=/nowhere user=x", .search_path = "x"}, .text = "x"};
  StoreExchange exchange_;
  PostgresBodies bodies_{place_,
                         exchange_,
                         1,
                         {.connections = [] { return 1; },
                          .away =
                              [this] {
                                ++asked_;
                                return away_.load();
                              }}};

 private:
  std::thread thread_;
};

TEST_F(BodiesWithoutConnection, wait_while_commits_are_away_and_go_with_their_turns_when_these_go_on) {
  const Blob body = Blob::copy(std::string(1u << 20, 'x'));
  bodies_.put(body);

  ASSERT_TRUE(test::eventually([&] { return asked_ >= 4; }));
  EXPECT_TRUE(given().empty());
  EXPECT_EQ(exchange_.take_remark(), "");

  away_ = false;
  std::vector<Blob> back;
  ASSERT_TRUE(test::eventually([&] {
    bodies_.take_put(back);
    return !back.empty();
  }));
  EXPECT_EQ(back[0].bytes().data(), body.bytes().data());
  EXPECT_EQ(bodies_.put_bytes(), 0u);
}

}  // namespace
}  // namespace lanemq::io
