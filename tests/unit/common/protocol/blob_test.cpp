// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include <lanemq/blob.hpp>

namespace lanemq {
namespace {

TEST(Blob, borrows_bytes_without_owning_them) {
  const std::string bytes = "bytes";

  const Blob blob = Blob::borrow(bytes);

  EXPECT_EQ(blob.bytes().data(), bytes.data());
  EXPECT_FALSE(blob.owns());
}

TEST(Blob, copies_and_shares_what_it_owns) {
  std::string bytes = "bytes";
  const Blob blob = Blob::copy(bytes);
  const Blob second = blob;
  bytes = "other";

  EXPECT_TRUE(blob.owns());
  EXPECT_EQ(blob.bytes(), "bytes");
  EXPECT_EQ(second.bytes().data(), blob.bytes().data());
}

TEST(Blob, keeps_its_owner_alive) {
  auto owner = std::make_shared<const std::string>("a longer text that lives on the heap");
  const std::weak_ptr<const std::string> watch = owner;
  {
    const Blob blob = Blob::own(owner, *owner);
    owner.reset();
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(blob.bytes(), "a longer text that lives on the heap");
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Blob, that_borrows_is_copied_when_it_has_to_own) {
  std::string bytes = "bytes";

  const Blob owned = Blob::borrow(bytes).owned();
  bytes = "other";

  EXPECT_EQ(owned.bytes(), "bytes");
  EXPECT_TRUE(owned.owns());
  EXPECT_EQ(owned.owned().bytes().data(), owned.bytes().data()) << "nothing to copy";
}

TEST(Blob, that_is_empty_owns_all_it_has) {
  EXPECT_TRUE(Blob().owns());
  EXPECT_TRUE(Blob().empty());
  EXPECT_TRUE(Blob::copy("").owns());
  EXPECT_TRUE(Blob::borrow("").owned().empty());
}

}  // namespace
}  // namespace lanemq
