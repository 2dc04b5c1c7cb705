// Fetches rows into the second-level cache ahead of their reader: the first is too small for what lies between the two.
// Included by core/row_products.cc alone, for each instruction set; it has no SIMD of its own.
#ifndef ATTEND_CORE_ROW_FETCHER_H_
#define ATTEND_CORE_ROW_FETCHER_H_

#include <stdint.h>

#include "core/packing.h"

namespace attend::core {

inline constexpr int64_t kCacheLine = 64;

[[gnu::always_inline]] inline void FetchLine(const char* at) {
  constexpr int kForReading = 0;
  constexpr int kSecondLevel = 2;
  __builtin_prefetch(at, kForReading, kSecondLevel);
}

// Row i, which there may not be.
[[gnu::always_inline]] inline void FetchRow(const SourceRows& rows, int64_t i) {
  if (i >= rows.count) return;
  const auto* row = static_cast<const char*>(rows.row(i));
  const int64_t bytes = rows.dim * ElementBytes(rows.type);
  for (int64_t b = 0; b < bytes; b += kCacheLine) FetchLine(row + b);
}

// What is fetched of rows whose reader the processor foresees once it has begun.
inline SourceRows Beginning(SourceRows rows) {
  constexpr int64_t kBytes = 4096;
  const int64_t most = 1 + kBytes / (rows.dim * ElementBytes(rows.type) + 1);
  if (rows.count > most) rows.count = most;
  return rows;
}

// Fetches all rows, evenly over a number of steps: a burst would keep the processor waiting, and leave the memory idle
// after it.
class RowFetcher {
 public:
  RowFetcher(const SourceRows& rows, int64_t steps)
      : rows_(rows.count), stride_(rows.stride * ElementBytes(rows.type)), steps_(steps) {
    row_bytes_ = rows.dim * ElementBytes(rows.type);
    if (stride_ == row_bytes_ && rows_ > 0) {  // rows one after the other are one long row
      row_bytes_ *= rows_;
      rows_ = 1;
    }
    lines_ = rows_ * ((row_bytes_ + kCacheLine - 1) / kCacheLine);
    next_ = static_cast<const char*>(rows.first);
    end_ = next_ + row_bytes_;
  }

  [[gnu::always_inline]] inline void Step() {
    for (due_ += lines_; due_ >= steps_; due_ -= steps_) {
      FetchLine(next_);
      next_ += kCacheLine;
      if (next_ < end_) continue;
      if (--rows_ == 0) due_ = lines_ = 0;
      end_ += stride_;
      next_ = end_ - row_bytes_;
    }
  }

 private:
  int64_t rows_;  // still to be fetched
  int64_t stride_;
  int64_t row_bytes_;
  int64_t lines_;  // in all
  int64_t steps_;
  int64_t due_ = 0;  // lines * steps
  const char* next_;
  const char* end_;  // of the row that it lies in
};

}  // namespace attend::core

#endif  // ATTEND_CORE_ROW_FETCHER_H_
