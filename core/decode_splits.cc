#include "core/decode_splits.h"

#include <algorithm>
#include <limits>

#include "core/matmul.h"

namespace attend::core {
namespace {

int64_t CeilDivide(int64_t count, int64_t unit) { return count / unit + (count % unit != 0 ? 1 : 0); }

int64_t SaturatingMultiplyAdd(int64_t a, int64_t b, int64_t c) {
  int64_t product = 0;
  int64_t sum = 0;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(product, c, &sum)) {
    return std::numeric_limits<int64_t>::max();
  }
  return sum;
}

}  // namespace

bool DecodeSplits::Takes(const AttentionProblem& problem, int64_t b) {
  const int64_t queries = problem.QueryCount(b);
  return queries > 0 && queries <= kMaxDecodeRows && problem.group_size() <= kMaxDecodeRows / queries;
}

DecodeSplits::DecodeSplits(const AttentionProblem& problem) : problem_(&problem) {
  const AttentionShape& shape = problem.shape();
  takes_all_ = true;
  if (shape.batch == 0 || shape.query_length == 0) return;
  const bool ragged = problem.options().layout == Layout::kTHD;
  if (!ragged && !Takes(problem, 0)) {
    takes_all_ = false;
    return;
  }
  const int64_t alike = problem.ElementsAreAlike() ? shape.batch : 1;
  for (int64_t b = 0; b < shape.batch; b += alike) {
    if (!Takes(problem, b)) {
      takes_all_ = takes_all_ && problem.QueryCount(b) == 0;
      continue;
    }
    heads_ = shape.batch * shape.kv_heads;
    max_rows_ = std::max(max_rows_, Rows(b));
    max_count_ = std::max(max_count_, Count(b));
    total_ = SaturatingMultiplyAdd(Count(b), alike * shape.kv_heads, total_);
  }
}

int DecodeSplits::Rows(int64_t b) const {
  if (problem_ == nullptr || !Takes(*problem_, b)) return 0;
  return static_cast<int>(problem_->QueryCount(b) * problem_->group_size());
}

// Keys of a split: by the number of keys that there are, not by those that are seen.
int64_t DecodeSplits::Length(int64_t b) const {
  const int64_t pieces = CeilDivide(problem_->KeyCount(b), kDecodePiece);
  return std::max<int64_t>(1, CeilDivide(pieces, kMaxDecodeSplits)) * kDecodePiece;
}

int64_t DecodeSplits::Count(int64_t b) const {
  const KeyRange seen = problem_->SeenKeys(b);
  if (seen.count() == 0) return 1;
  return CeilDivide(seen.end, Length(b)) - seen.begin / Length(b);
}

KeyRange DecodeSplits::Keys(int64_t b, int64_t split) const {
  const KeyRange seen = problem_->SeenKeys(b);
  if (seen.count() == 0) return {};
  const int64_t length = Length(b);
  const int64_t first = (seen.begin / length + split) * length;
  return {.begin = std::max(first, seen.begin / kKeyGranule * kKeyGranule), .end = std::min(first + length, seen.end)};
}

}  // namespace attend::core
