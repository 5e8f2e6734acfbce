// SPDX-License-Identifier: Apache-2.0
#include "common/json/base64.hpp"

#include <string>

#include <gtest/gtest.h>

namespace lanemq {
namespace {

TEST(Base64, writes_what_the_rfc_says_and_reads_it_back) {
  const std::pair<const char*, const char*> kPairs[] = {{"", ""},
                                                        {"f", "Zg=="},
                                                        {"fo", "Zm8="},
                                                        {"foo", "Zm9v"},
                                                        {"foob", "Zm9vYg=="},
                                                        {"fooba", "Zm9vYmE="},
                                                        {"foobar", "Zm9vYmFy"},
                                                        {"\xff\xfe\xfb", "//77"}};
  for (const auto& [bytes, text] : kPairs) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, every_byte_comes_back) {
  std::string bytes;
  for (int i = 0; i < 256; ++i)
    EXPECT_EQ(from_base64(to_base64(bytes += static_cast<char>(i))), bytes);
}

TEST(Base64, refuses_what_is_none) {
  for (const char* const text :
       {"Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", " Zm9", "Zm-v", "Zh==", "Zm9="})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

}  // namespace
}  // namespace lanemq
