#include "client/length_mix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace attend::client {
namespace {

using ::testing::HasSubstr;

std::string Refusal(const std::string& text) { return std::string(ParseLengthMix(text).status().message()); }

TEST(ParseLengthMix, SharesAreRelative) {
  for (const char* text : {"128:0.9,16384:0.1", "128:9,16384:1", "128:90,16384:10"}) {
    const auto mix = ParseLengthMix(text);
    ASSERT_TRUE(mix.ok()) << mix.status();
    ASSERT_EQ(mix->size(), 2u);
    EXPECT_EQ((*mix)[0].length, 128);
    EXPECT_DOUBLE_EQ((*mix)[0].share, 0.9);
    EXPECT_EQ((*mix)[1].length, 16384);
    EXPECT_DOUBLE_EQ((*mix)[1].share, 0.1);
  }
}

TEST(ParseLengthMix, Refusals) {
  EXPECT_THAT(Refusal(""), HasSubstr("'' is not LENGTH:SHARE"));
  for (const char* part : {"128", "128:", ":1", "128:1:2", "x:1", "128:y", "99999999999999999999:1", "1.5:1", " 9:1",
                           "9 :1", "9: 1", "9:1 "}) {
    EXPECT_THAT(Refusal(std::string("8:1,") + part), HasSubstr(std::string("'") + part + "' is not LENGTH:SHARE"));
  }
  EXPECT_THAT(Refusal("8:1,16:1,"), HasSubstr("'' is not"));
  EXPECT_EQ(Refusal("0:1,8:1"), "the length in '0:1' must be at least 1");
  for (const char* share : {"0", "-1", "nan", "inf", "1e308", "1e-7"}) {
    EXPECT_THAT(Refusal(std::string("8:1,9:") + share), HasSubstr("must be in [1e-06, 1e+06]")) << share;
  }
  EXPECT_EQ(Refusal("8:1,9:1,8:2"), "length 8 is named twice");
  EXPECT_EQ(Refusal("8:1"), "'8:1' has one length, must have two");
}

TEST(MixOrder, EachLengthHasItsShareAtAnyTime) {
  for (const char* text : {"128:0.9,16384:0.1", "1:1,2:1,3:1", "5:0.5,6:0.3,7:0.2", "1:1000,2:1"}) {
    const auto mix = ParseLengthMix(text);
    ASSERT_TRUE(mix.ok());
    MixOrder order(*mix);
    std::vector<int64_t> given(mix->size());
    for (int call = 1; call <= 3003; ++call) {
      const size_t next = order.Next();
      ASSERT_LT(next, mix->size());
      ++given[next];
      for (size_t i = 0; i < mix->size(); ++i) {
        ASSERT_LT(std::abs(static_cast<double>(given[i]) - (*mix)[i].share * call), mix->size() - 1 + 1e-9)
            << text << " after " << call << " calls";
      }
    }
  }
}

}  // namespace
}  // namespace attend::client
