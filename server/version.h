// The version of the project, from the top of CMakeLists.txt.
#ifndef ATTEND_SERVER_VERSION_H_
#define ATTEND_SERVER_VERSION_H_

#include "absl/strings/string_view.h"

namespace attend::server {

// "1.2.3".
absl::string_view Version();

}  // namespace attend::server

#endif  // ATTEND_SERVER_VERSION_H_
