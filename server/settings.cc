#include "server/settings.h"

#include "absl/strings/str_cat.h"
#include "server/quantity.h"

namespace attend::server {

absl::Status Settings::Validate() const {
  // A client that holds nothing may always start one message: it has to fit.
  if (max_message_bytes > receive_budget) {
    return absl::InvalidArgumentError(absl::StrCat("max_message_bytes is ", FormatBytes(max_message_bytes),
                                                   ", must be at most receive_budget, ", FormatBytes(receive_budget)));
  }
  return absl::OkStatus();
}

}  // namespace attend::server
