#include "server/token_table.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attend::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(TokenTableTest, KnowsTheNameOfEachToken) {
  const auto table = TokenTable::Parse("# clients\n\nalice:secret-1\r\n  bob smith:a:b=#c \n#carol:no\n");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->Find("secret-1"), "alice");
  EXPECT_EQ(table->Find("a:b=#c"), "bob smith");
  for (const char* stranger : {"", "no", "secret-", "secret-11", "Secret-1", "alice", "alice:secret-1", " secret-1"}) {
    EXPECT_EQ(table->Find(stranger), std::nullopt) << stranger;
  }
}

TEST(TokenTableTest, AnEmptyTableKnowsNobody) { EXPECT_EQ(TokenTable().Find(""), std::nullopt); }

TEST(TokenTableTest, RefusesALineByItsNumberAndNeverShowsIt) {
  const std::pair<std::string, std::string> cases[] = {
      {"# one\nPASSWORD\n", "line 2: has no colon"},
      {":PASSWORD", "line 1: has no name"},
      {"a:x\n\nPASSWORD:", "line 3: has no token"},
      {"a:PASSWORD\na:y", "line 2: the name is that of an earlier line"},
      {"a:PASSWORD\nb:PASSWORD", "line 2: the token is that of an earlier line"},
      {"a:PASS WORD", "line 1: the token must be printable ASCII without spaces"},
      {"a:PASSWORD\x80", "line 1: the token must be"},
      {"a\tb:PASSWORD", "line 1: the name must be printable ASCII"},
      {std::string("a:PASS\0WORD", 11), "line 1: the token must be"},
      {"", "has no token"},
      {"# only PASSWORD\n", "has no token"},
  };
  for (const auto& [text, reason] : cases) {
    const absl::Status status = TokenTable::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("PASS")));
  }
}

}  // namespace
}  // namespace attend::server
