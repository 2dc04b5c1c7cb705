#include "server/quantity.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace attend::server {
namespace {

struct ByteUnit {
  absl::string_view name;
  double bytes;
};

constexpr ByteUnit kByteUnits[] = {
    {"", 1},     {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
    {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
};

// Where the number at the start of `text` ends.
size_t NumberLength(absl::string_view text) {
  size_t length = 0;
  while (length < text.size() && (absl::ascii_isdigit(text[length]) || text[length] == '.')) ++length;
  return length;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  if (text == "off") return absl::InfiniteDuration();
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
      duration == absl::InfiniteDuration()) {
    return absl::InvalidArgumentError("must be a duration such as 500ms, 30s, 1h or off");
  }
  return duration;
}

std::string DescribeDuration(absl::Duration duration) {
  return duration == absl::InfiniteDuration() ? "off" : absl::FormatDuration(duration);
}

absl::StatusOr<ByteSize> ByteSize::Parse(absl::string_view text) {
  const absl::Status malformed = absl::InvalidArgumentError("must be a size such as 1048576, 512MiB or 50%");
  const size_t digits = NumberLength(text);
  ByteSize size;
  if (digits == 0 || !absl::SimpleAtod(text.substr(0, digits), &size.value_)) return malformed;
  const absl::string_view unit = text.substr(digits);
  if (unit == "%") {
    if (size.value_ > 100) return absl::InvalidArgumentError("must be at most 100%");
    size.percent_ = true;
    return size;
  }
  for (const ByteUnit& known : kByteUnits) {
    if (unit != known.name) continue;
    size.value_ *= known.bytes;
    if (size.value_ > 0x1p62) return absl::InvalidArgumentError("must be at most 2^62 bytes");
    return size;
  }
  return malformed;
}

int64_t ByteSize::Of(int64_t total) const {
  return static_cast<int64_t>(percent_ ? value_ / 100 * static_cast<double>(total) : value_);
}

std::string FormatBytes(int64_t bytes) {
  constexpr std::pair<int64_t, absl::string_view> kUnits[] = {
      {int64_t{1} << 30, "GiB"}, {int64_t{1} << 20, "MiB"}, {int64_t{1} << 10, "KiB"}};
  for (const auto& [size, name] : kUnits) {
    if (bytes != 0 && bytes % size == 0) return absl::StrCat(bytes / size, name);
  }
  return absl::StrCat(bytes);
}

}  // namespace attend::server
