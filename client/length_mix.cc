#include "client/length_mix.h"

#include <algorithm>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attend::client {
namespace {

// Beyond them a length would never have its turn.
constexpr double kLeastShare = 1e-6;
constexpr double kMostShare = 1e6;

absl::StatusOr<MixedLength> ParsePart(absl::string_view part) {
  const std::vector<absl::string_view> words = absl::StrSplit(part, ':');
  MixedLength mixed;
  // The numbers' own readers would skip spaces.
  if (words.size() != 2 || part.find_first_of(" \t") != part.npos || !absl::SimpleAtoi(words[0], &mixed.length) ||
      !absl::SimpleAtod(words[1], &mixed.share)) {
    return absl::InvalidArgumentError(absl::StrCat("'", part, "' is not LENGTH:SHARE, such as 128:0.9"));
  }
  if (mixed.length < 1) {
    return absl::InvalidArgumentError(absl::StrCat("the length in '", part, "' must be at least 1"));
  }
  if (!(mixed.share >= kLeastShare) || mixed.share > kMostShare) {
    return absl::InvalidArgumentError(
        absl::StrCat("the share in '", part, "' must be in [", kLeastShare, ", ", kMostShare, "]"));
  }
  return mixed;
}

}  // namespace

absl::StatusOr<std::vector<MixedLength>> ParseLengthMix(absl::string_view text) {
  std::vector<MixedLength> mix;
  double sum = 0;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const absl::StatusOr<MixedLength> parsed = ParsePart(part);
    if (!parsed.ok()) return parsed.status();
    const auto same = [&](const MixedLength& other) { return other.length == parsed->length; };
    if (std::any_of(mix.begin(), mix.end(), same)) {
      return absl::InvalidArgumentError(absl::StrCat("length ", parsed->length, " is named twice"));
    }
    mix.push_back(*parsed);
    sum += parsed->share;
  }
  if (mix.size() < 2) return absl::InvalidArgumentError(absl::StrCat("'", text, "' has one length, must have two"));
  for (MixedLength& mixed : mix) mixed.share /= sum;
  return mix;
}

size_t MixOrder::Next() {
  ++calls_;
  size_t next = 0;
  double most = 0;
  for (size_t i = 0; i < mix_.size(); ++i) {
    const double lacks = mix_[i].share * static_cast<double>(calls_) - static_cast<double>(given_[i]);
    if (i == 0 || lacks > most) {
      most = lacks;
      next = i;
    }
  }
  ++given_[next];
  return next;
}

}  // namespace attend::client
