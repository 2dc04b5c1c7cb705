// docs/operations.md and --help must tell of everything that an operator can set or see.
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/command_line.h"
#include "server/metrics.h"
#include "server/settings_table.h"

namespace attend::server {
namespace {

using ::testing::HasSubstr;

std::string Document() {
  std::ifstream file(ATTEND_OPERATIONS_DOCUMENT);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OperationsDocumentTest, HasARowForEverySettingWithItsDefault) {
  const std::string document = Document();
  for (const Setting& setting : SettingsTable()) {
    const std::string value =
        setting.default_text.empty() ? " " : absl::StrCat(" `", absl::string_view(setting.default_text), "` ");
    EXPECT_THAT(document, HasSubstr(absl::StrCat("| `", setting.name, "` |", value, "| ")));
  }
}

TEST(OperationsDocumentTest, HasNoRowForWhatIsNoSetting) {
  const std::string document = Document();
  const size_t begin = document.find("| setting | default | effect |");
  const size_t end = document.find("\n\n", begin);
  ASSERT_NE(begin, std::string::npos);
  size_t rows = 0;
  for (const absl::string_view line : absl::StrSplit(document.substr(begin, end - begin), '\n')) {
    if (line.substr(0, 3) == "| `") ++rows;
  }
  EXPECT_EQ(rows, SettingsTable().size());
}

TEST(OperationsDocumentTest, NamesEveryMetric) {
  const std::string document = Document();
  const std::string text = Metrics({}).Text();
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() < 3 || words[1] != "TYPE" || words[2].substr(0, 7) != "attend_") continue;
    EXPECT_THAT(document, HasSubstr(absl::StrCat("`", words[2])));
  }
}

}  // namespace
}  // namespace attend::server
