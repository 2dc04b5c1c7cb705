// The tokens that callers may bring, and whose each is.
#ifndef ATTEND_SERVER_TOKEN_TABLE_H_
#define ATTEND_SERVER_TOKEN_TABLE_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attend::server {

// Holds digests rather than the tokens themselves. Thread-safe: it never changes.
class TokenTable {
 public:
  // No token: nobody has one.
  TokenTable() = default;

  // Reads lines `name:token`; a line that begins with # is a comment, an empty one is passed over. A name is printable
  // ASCII without colons, a token printable ASCII without spaces. INVALID_ARGUMENT, with the number of the line and
  // never what it holds: another line, a name or a token that an earlier line has; a text without tokens.
  static absl::StatusOr<TokenTable> Parse(absl::string_view text);

  // The name of the client whose token this is. Takes as long for every token of a length, known or not.
  std::optional<std::string> Find(absl::string_view token) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Entry {
    std::string name;
    Digest digest;
  };

  static Digest DigestOf(absl::string_view token);
  absl::Status Add(absl::string_view line);

  std::vector<Entry> entries_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_TOKEN_TABLE_H_
