// Lengths that share one load: `attend load --mix 128:0.9,16384:0.1`.
#ifndef ATTEND_CLIENT_LENGTH_MIX_H_
#define ATTEND_CLIENT_LENGTH_MIX_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attend::client {

struct MixedLength {
  int64_t length = 0;
  double share = 0;  // of all calls, more than 0 and at most 1
};

// Reads "LENGTH:SHARE,LENGTH:SHARE": two lengths or more, each of at least 1 and named once, whose shares are more than
// 0 and relative to each other; they are scaled to a sum of 1. INVALID_ARGUMENT names the part that is none of this.
absl::StatusOr<std::vector<MixedLength>> ParseLengthMix(absl::string_view text);

// Says which length comes next, so that at any time each has had its share of the calls so far, to within one for each
// other length. The same order every time. Not thread-safe.
class MixOrder {
 public:
  explicit MixOrder(std::vector<MixedLength> mix) : mix_(std::move(mix)), given_(mix_.size()) {}

  // The place in the mix of the next call's length.
  size_t Next();

 private:
  std::vector<MixedLength> mix_;
  std::vector<int64_t> given_;
  int64_t calls_ = 0;
};

}  // namespace attend::client

#endif  // ATTEND_CLIENT_LENGTH_MIX_H_
