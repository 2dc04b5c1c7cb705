// Durations and byte sizes as people write them in settings: "30s", "512MiB", "50%".
#ifndef ATTEND_SERVER_QUANTITY_H_
#define ATTEND_SERVER_QUANTITY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attend::server {

// "500ms", "30s", "1h30m", "0"; "off" is an infinite duration. INVALID_ARGUMENT for anything else: a number without a
// unit, a negative or an infinite one.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// The inverse: "30s", "off".
std::string DescribeDuration(absl::Duration duration);

// A number of bytes, or a share of a total that is not known yet.
class ByteSize {
 public:
  // "1048576", "512MiB" (also KiB, GiB, TiB, B, and the decimal kB, MB, GB, TB), "50%"; fractions such as "1.5GiB" too.
  // INVALID_ARGUMENT for anything else: a negative size, one over 2^62 bytes, a share over 100 %.
  static absl::StatusOr<ByteSize> Parse(absl::string_view text);

  // The bytes, where the whole is `total`.
  int64_t Of(int64_t total) const;

 private:
  double value_ = 0;
  bool percent_ = false;
};

// "512MiB" where that is exact, else the number of bytes.
std::string FormatBytes(int64_t bytes);

}  // namespace attend::server

#endif  // ATTEND_SERVER_QUANTITY_H_
