// SPDX-License-Identifier: Apache-2.0
#include "broker/core/job_text.hpp"

#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

TEST(JobText, an_empty_one_has_empty_parts) {
  const JobText text;
  for (int part = 0; part < JobText::kParts; ++part)
    EXPECT_TRUE(text.get(static_cast<JobText::Part>(part)).empty());
  EXPECT_EQ(text.size(), 0u);
}

TEST(JobText, gives_back_what_was_put_in_however_large_and_again_and_again) {
  const bool holds = rc::check([] {
    JobText text;
    const auto rounds = *rc::gen::inRange(1, 5);
    for (int round = 0; round < rounds; ++round) {
      std::array<std::string, JobText::kParts> strings;
      JobText::Parts parts;
      std::size_t total = 0;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto size = *rc::gen::element<std::size_t>(0, 1, 17, 60, 4096);
        strings[i] = std::string(size, static_cast<char>('a' + *rc::gen::inRange(0, 26)));
        parts[i] = strings[i];
        total += size;
      }
      text.assign(parts);
      for (std::size_t i = 0; i < parts.size(); ++i)
        RC_ASSERT(text.get(static_cast<JobText::Part>(i)) == strings[i]);
      RC_ASSERT(text.size() == total);
    }
  });
  EXPECT_TRUE(holds);
}

TEST(JobText, may_be_made_of_its_own_parts) {
  // As at the end of a job: its id stays, its body gives way to the answer; in the record and outside of it.
  for (const std::size_t before : {3u, 100u, 1000u}) {
    for (const std::size_t after : {0u, 3u, 100u, 1000u}) {
      JobText text;
      const std::string body(before, 'b'), answer(after, 'a');
      JobText::Parts parts{};
      parts[JobText::id] = "the-id";
      parts[JobText::envelope] = "envelope";
      parts[JobText::ref] = "ref";
      parts[JobText::model] = "model";
      parts[JobText::body] = body;
      text.assign(parts);

      JobText::Parts rest{};
      for (const auto part : {JobText::id, JobText::envelope, JobText::ref})
        rest[part] = text.get(part);
      rest[JobText::body] = answer;
      text.assign(rest);

      EXPECT_EQ(text.get(JobText::id), "the-id");
      EXPECT_EQ(text.get(JobText::envelope), "envelope");
      EXPECT_EQ(text.get(JobText::ref), "ref");
      EXPECT_EQ(text.get(JobText::model), "");
      EXPECT_EQ(text.get(JobText::body), answer);
    }
  }
}

}  // namespace
}  // namespace lanemq::core
