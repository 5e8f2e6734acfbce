// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "broker/core/lanes.hpp"
#include "broker/core/workers.hpp"

namespace lanemq::core {
namespace {

class StreamTest : public testing::Test {
 protected:
  Job& job(std::uint64_t arrival) {
    jobs_.emplace_back();
    jobs_.back().arrival = arrival;
    return jobs_.back();
  }
  std::vector<std::uint64_t> drain(Stream& stream) {
    std::vector<std::uint64_t> order;
    while (Job* head = stream.head()) {
      order.push_back(head->arrival);
      stream.remove(*head);
    }
    return order;
  }

  Lane lane_{LaneOptions{.name = "normal"}, 0};
  Service service_{"echo"};
  std::deque<Job> jobs_;
};

TEST_F(StreamTest, first_in_first_out) {
  Stream stream(lane_, service_, 0);
  for (const std::uint64_t arrival : {1u, 2u, 3u})
    stream.push(job(arrival));
  EXPECT_EQ(stream.depth(), 3u);
  EXPECT_EQ(drain(stream), (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_TRUE(stream.empty());
}

TEST_F(StreamTest, what_comes_back_stands_at_its_old_place) {
  Stream stream(lane_, service_, 0);
  Job &first = job(1), &second = job(2), &third = job(3);
  for (Job* each : {&first, &second, &third})
    stream.push(*each);
  stream.remove(first);
  stream.remove(second);
  stream.push(job(4));

  stream.put_back(second);
  stream.put_back(first);

  EXPECT_EQ(drain(stream), (std::vector<std::uint64_t>{1, 2, 3, 4}));
}

TEST_F(StreamTest, keeps_order_when_one_in_the_middle_is_taken_out) {
  Stream stream(lane_, service_, 0);
  Job &first = job(1), &second = job(2), &third = job(3);
  for (Job* each : {&first, &second, &third})
    stream.push(*each);

  stream.remove(second);

  EXPECT_EQ(drain(stream), (std::vector<std::uint64_t>{1, 3}));
}

TEST_F(StreamTest, the_head_is_always_the_oldest) {
  const bool holds = rc::check([&](const std::vector<std::uint8_t>& steps) {
    Stream stream(lane_, service_, 0);
    std::deque<Job> jobs;
    std::vector<Job*> inside, outside;
    const auto oldest = [&] {
      return inside.empty() ? nullptr
                            : *std::min_element(inside.begin(), inside.end(), [](const Job* a, const Job* b) {
                                return a->arrival < b->arrival;
                              });
    };
    for (const std::uint8_t step : steps) {
      if (step < 100) {
        jobs.emplace_back();
        jobs.back().arrival = jobs.size();
        stream.push(jobs.back());
        inside.push_back(&jobs.back());
      } else if (step < 200 && !inside.empty()) {
        Job* const out = step < 160 ? oldest() : inside[step % inside.size()];
        std::erase(inside, out);
        outside.push_back(out);
        stream.remove(*out);
      } else if (!outside.empty()) {
        Job* const back = outside[step % outside.size()];
        std::erase(outside, back);
        inside.push_back(back);
        stream.put_back(*back);
      }
      RC_ASSERT(stream.head() == oldest());
      RC_ASSERT(stream.depth() == inside.size());
    }
  });
  EXPECT_TRUE(holds);
}

TEST_F(StreamTest, is_found_again_by_what_its_jobs_need) {
  Service other("other");
  Stream& stream = lane_.stream(service_, 0);
  EXPECT_EQ(&lane_.stream(service_, 0), &stream);
  EXPECT_NE(&lane_.stream(service_, 1), &stream);
  EXPECT_NE(&lane_.stream(other, 0), &stream);
  Lane second(LaneOptions{.name = "batch"}, 1);
  EXPECT_NE(&second.stream(service_, 0), &stream);
}

TEST_F(StreamTest, is_ready_while_it_holds_a_job_and_its_service_has_a_free_place) {
  Stream &first = lane_.stream(service_, 0), &second = lane_.stream(service_, 1);
  Job &one = job(1), &two = job(2);
  first.push(one);
  second.push(two);
  lane_.update_ready(first);
  EXPECT_TRUE(lane_.ready().empty());

  service_.free_places = 1;
  lane_.update_ready(first);
  lane_.update_ready(second);
  EXPECT_EQ(lane_.ready().size(), 2u);

  first.remove(one);
  lane_.update_ready(first);
  EXPECT_EQ(lane_.ready(), std::vector<Stream*>{&second});
  service_.free_places = 0;
  lane_.update_ready(second);
  EXPECT_TRUE(lane_.ready().empty());
}

}  // namespace
}  // namespace lanemq::core
