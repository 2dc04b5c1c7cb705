// The names of CLI11's classes, for headers: its own compile every validator into each file that includes them.
#ifndef ATTEND_CLIENT_CLI11_NAMES_H_
#define ATTEND_CLIENT_CLI11_NAMES_H_

namespace CLI {  // NOLINT(readability-identifier-naming): it is another's
class App;
class Option;
}  // namespace CLI

#endif  // ATTEND_CLIENT_CLI11_NAMES_H_
