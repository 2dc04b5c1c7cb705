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
  if (tls_cert.empty() != tls_key.empty()) {
    return absl::InvalidArgumentError(tls_key.empty() ? "tls_cert is set, tls_key must be, too"
                                                      : "tls_key is set, tls_cert must be, too");
  }
  if (!tls_client_ca.empty() && tls_cert.empty()) {
    return absl::InvalidArgumentError("tls_client_ca is set, tls_cert and tls_key must be, too");
  }
  if (health_requires_client_certificate && tls_client_ca.empty()) {
    return absl::InvalidArgumentError("health_requires_client_certificate is true, tls_client_ca must be set, too");
  }
  return absl::OkStatus();
}

}  // namespace attend::server
