// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <gtest/gtest.h>

#include <lanemq/curve_keys.hpp>

namespace lanemq {
namespace {

// Of ZeroMQ's manual, zmq_curve(7).
const std::string kPublic = "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7";
const std::string kSecret = "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6";

TEST(CurveKeys, a_key_is_forty_characters_that_make_bytes) {
  EXPECT_TRUE(is_curve_key(kPublic));
  EXPECT_TRUE(is_curve_key(kSecret));
  EXPECT_FALSE(is_curve_key(""));
  EXPECT_FALSE(is_curve_key(kPublic.substr(1)));
  EXPECT_FALSE(is_curve_key(kPublic + "a"));
  EXPECT_FALSE(is_curve_key(' ' + kPublic.substr(1)));
  EXPECT_FALSE(is_curve_key('"' + kPublic.substr(1)));
  // Five characters that say more than four bytes hold: 85^5 - 1.
  EXPECT_FALSE(is_curve_key("#####" + kPublic.substr(5)));
  // The greatest that they hold.
  EXPECT_TRUE(is_curve_key("%nSc0" + kPublic.substr(5)));
  EXPECT_FALSE(is_curve_key("%nSc1" + kPublic.substr(5)));
}

TEST(CurveKeys, one_key_without_the_other_is_named_and_never_shown) {
  EXPECT_EQ(CurveKeys{}.why_unusable(), "");
  EXPECT_EQ((CurveKeys{kPublic, kSecret}).why_unusable(), "");
  for (const CurveKeys& keys : {CurveKeys{"", kSecret}, CurveKeys{kPublic, ""},
                                CurveKeys{kPublic, kSecret + "x"}, CurveKeys{"x", kSecret}}) {
    const std::string why = keys.why_unusable();
    EXPECT_NE(why, "");
    EXPECT_EQ(why.find(kSecret), std::string::npos);
  }
}

}  // namespace
}  // namespace lanemq
