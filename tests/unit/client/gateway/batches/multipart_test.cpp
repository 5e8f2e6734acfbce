// SPDX-License-Identifier: Apache-2.0
#include "client/gateway/batches/multipart.hpp"

#include <random>
#include <string>

#include <gtest/gtest.h>

namespace lanemq::gateway {
namespace {

const std::string kForm =
    "--XX\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
    "--XX\r\nContent-Disposition: form-data; name=file; filename=\"C:\\dir\\in \\\"1\\\".jsonl\"\r\n"
    "Content-Type: application/octet-stream\r\n\r\n{}\r\n--X\r\n\r\n--XX--\r\n";

TEST(FormBoundary, is_read_with_and_without_quotes) {
  EXPECT_EQ(form_boundary("multipart/form-data; boundary=XX"), "XX");
  EXPECT_EQ(form_boundary("Multipart/Form-Data; charset=utf-8; Boundary=\"a b\""), "a b");
  EXPECT_EQ(form_boundary("multipart/form-data"), "");
  EXPECT_EQ(form_boundary("application/json; boundary=XX"), "");
  EXPECT_EQ(form_boundary("multipart/form-data; boundary=" + std::string(71, 'x')), "");
}

TEST(ReadForm, gives_the_parts_byte_for_byte) {
  const auto parts = read_form(kForm, "XX");

  ASSERT_TRUE(parts) << parts.error();
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ(find_part(*parts, "purpose")->bytes, "batch");
  EXPECT_FALSE(find_part(*parts, "purpose")->is_file);
  EXPECT_EQ(find_part(*parts, "file")->bytes, "{}\r\n--X\r\n");
  EXPECT_TRUE(find_part(*parts, "file")->is_file);
  EXPECT_EQ(find_part(*parts, "file")->filename, "in \"1\".jsonl");
  EXPECT_EQ(find_part(*parts, "other"), nullptr);
}

TEST(ReadForm, takes_parts_without_bytes_and_a_preamble) {
  const auto parts = read_form(
      "hello\r\n--XX  \r\ncontent-disposition: form-data; name=a\r\n\r\n\r\n"
      "--XX\r\ncontent-disposition: form-data; name=b\r\n\r\n\r\n--XX--",
      "XX");

  ASSERT_TRUE(parts) << parts.error();
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].bytes, "");
  EXPECT_EQ((*parts)[1].name, "b");
}

TEST(ReadForm, refuses_what_is_no_form) {
  EXPECT_FALSE(read_form("", "XX"));
  EXPECT_FALSE(read_form("--XX", "XX"));
  EXPECT_FALSE(read_form("--XX\r\n\r\nno header\r\n--XX--", "XX"));
  EXPECT_FALSE(read_form("--XX\r\ncontent-disposition: form-data\r\n\r\nno name\r\n--XX--", "XX"));
  EXPECT_FALSE(read_form("--XX\r\ncontent-disposition: form-data; name=a\r\n\r\nno end", "XX"));
  EXPECT_FALSE(read_form("--XXjunk\r\ncontent-disposition: form-data; name=a\r\n\r\nb\r\n--XX--", "XX"));
}

TEST(ReadForm, bounds_the_parts) {
  std::string form;
  for (std::size_t i = 0; i <= FormPart::kPartsMax; ++i)
    form += "--XX\r\ncontent-disposition: form-data; name=a\r\n\r\nb\r\n";

  EXPECT_FALSE(read_form(form + "--XX--", "XX"));
}

TEST(ReadForm, survives_any_bytes) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 50'000; ++round) {
    std::string form = kForm;
    for (int edits = 0; edits < 4; ++edits) {
      const std::size_t at = random() % form.size();
      switch (random() % 3) {
        case 0:
          form[at] = static_cast<char>(random());
          break;
        case 1:
          form.erase(at, random() % 8);
          break;
        default:
          form.insert(at, "\r\n--XX\r\n", random() % 8);
      }
      if (form.empty()) break;
    }
    const auto parts = read_form(form, "XX");
    if (!parts) continue;
    for (const FormPart& part : *parts)
      EXPECT_TRUE(part.bytes.empty() || (part.bytes.data() >= form.data() &&
                                         part.bytes.data() + part.bytes.size() <= form.data() + form.size()));
  }
}

}  // namespace
}  // namespace lanemq::gateway
