// A server's certificate, its key and the authorities of its clients' certificates: checked together.
#ifndef ATTEND_SERVER_CERTIFICATE_SET_H_
#define ATTEND_SERVER_CERTIFICATE_SET_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attend::server {

// PEM texts.
struct CertificateSet {
  std::string certificate;               // of the server first, then those of its chain
  std::string key;                       // of the first certificate, without a passphrase
  std::optional<std::string> client_ca;  // absent: clients are not asked for certificates

  // The end of the first certificate of the chain that expires. INVALID_ARGUMENT, one line that begins with the
  // setting, for what gRPC could not use at `now`: a text that cannot be parsed or has no certificate, a certificate of
  // the server or its chain that has expired or is not yet valid, one that is too weak, a key of another certificate,
  // authorities of which none is valid.
  absl::StatusOr<absl::Time> Check(absl::Time now) const;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_CERTIFICATE_SET_H_
