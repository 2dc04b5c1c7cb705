#include "client/byte_size.h"

#include "absl/strings/str_format.h"

namespace attend::client {

std::string ByteSize(int64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  int unit = 0;
  for (; size >= 1024 && unit < 4; ++unit) size /= 1024;
  return absl::StrFormat("%.4g %s", size, kUnits[unit]);
}

}  // namespace attend::client
