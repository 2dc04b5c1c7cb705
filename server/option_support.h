// Which fields of AttentionOptions and ResultSelection this server computes. One list: GetServerInfo shows it, and
// whatever is not on it is refused.
#ifndef ATTEND_SERVER_OPTION_SUPPORT_H_
#define ATTEND_SERVER_OPTION_SUPPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "attend/v1/attention.pb.h"

namespace attend::server {

// The names of the fields, as in the proto: GetServerInfoResponse.supported_options.
std::vector<std::string> SupportedOptions();

// UNIMPLEMENTED, naming option and `version`, for the first option that is set, is not supported, and does not say what
// is the default anyway (window_left -1, scores NONE, output_type that of the query). INVALID_ARGUMENT for one that no
// server could compute (a softcap that is negative or not finite, a window below -1, an output_type that is no float).
absl::Status CheckOptionSupport(const v1::AttendRequest& request, absl::string_view version);

}  // namespace attend::server

#endif  // ATTEND_SERVER_OPTION_SUPPORT_H_
