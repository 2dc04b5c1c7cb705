#include "server/version.h"

namespace attend::server {

absl::string_view Version() { return ATTEND_VERSION; }

}  // namespace attend::server
