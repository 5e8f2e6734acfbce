// SPDX-License-Identifier: Apache-2.0
#include "broker/core/jobs/job_text.hpp"

#include <array>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace lanemq::core {
namespace {

/// A text with as much room behind it as it asks for, and none more.
class Held {
 public:
  explicit Held(const JobText::Contents& contents)
      : memory_(std::make_unique<char[]>(sizeof(JobText) + JobText::tail_bytes(contents))),
        text_(*::new (memory_.get()) JobText) {
    text_.fill(contents);
  }
  ~Held() { text_.~JobText(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  JobText& operator*() const { return text_; }
  JobText* operator->() const { return &text_; }

 private:
  std::unique_ptr<char[]> memory_;
  JobText& text_;
};

TEST(JobText, an_empty_one_has_empty_parts) {
  const Held text({});
  for (int part = 0; part < JobText::kParts; ++part)
    EXPECT_TRUE(text->get(static_cast<JobText::Part>(part)).empty());
  EXPECT_EQ(text->size(), 0u);
  EXPECT_FALSE(text->has_expected());
  EXPECT_EQ(text->body_hash(), std::nullopt);
}

TEST(JobText, gives_back_what_was_put_in_however_large) {
  const bool holds = rc::check([] {
    JobText::Contents contents;
    std::array<std::string, JobText::kParts> strings;
    std::size_t total = 0;
    for (std::size_t i = 0; i < strings.size(); ++i) {
      strings[i].assign(*rc::gen::element<std::size_t>(0, 0, 1, 26, 100, 300, 4096),
                        static_cast<char>('a' + i));
      contents.parts[i] = strings[i];
      total += strings[i].size();
    }
    if (*rc::gen::arbitrary<bool>()) contents.body_hash = *rc::gen::arbitrary<std::uint64_t>();
    if (*rc::gen::arbitrary<bool>()) contents.expected = Expected{1, 2, 3};
    const Held text(contents);
    RC_ASSERT(text->size() == total);
    for (std::size_t i = 0; i < strings.size(); ++i)
      RC_ASSERT(text->get(static_cast<JobText::Part>(i)) == strings[i]);
    RC_ASSERT(text->body_hash() == contents.body_hash);
    RC_ASSERT(text->has_expected() == contents.expected.has_value());
    if (text->has_expected()) {
      text->set_expected({4, 5, 6});
      RC_ASSERT(text->expected() == (Expected{4, 5, 6}));
      RC_ASSERT(text->get(JobText::body) == strings[JobText::body]);
    }
    text->clear();
    RC_ASSERT(text->size() == 0u && text->get(JobText::body).empty());
  });
  EXPECT_TRUE(holds);
}

TEST(JobText, needs_no_more_room_than_it_says) {
  for (const std::size_t size : {0, 1, 250, 254, 255, 4096}) {
    JobText::Contents contents;
    const std::string body(size, 'x');
    contents.parts[JobText::body] = body;
    EXPECT_LE(JobText::tail_bytes(contents), JobText::kInlineBytes);
    contents.body_hash = 7;
    contents.expected = Expected{1, 2, 3};
    EXPECT_LE(JobText::tail_bytes(contents), JobText::kTailBytesMax);
    EXPECT_EQ(Held(contents)->get(JobText::body), body);
  }
}

}  // namespace
}  // namespace lanemq::core
