#include "server/token_table.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace attend::server {

absl::StatusOr<TokenTable> TokenTable::Parse(absl::string_view text) {
  TokenTable table;
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const absl::string_view stripped = absl::StripAsciiWhitespace(line);
    if (stripped.empty() || stripped.front() == '#') continue;
    if (const absl::Status status = table.Add(stripped); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", status.message()));
    }
  }
  if (table.entries_.empty()) return absl::InvalidArgumentError("has no token, must have a line name:token at least");
  return table;
}

absl::Status TokenTable::Add(absl::string_view line) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos) {
    return absl::InvalidArgumentError("has no colon, must be name:token, # begins a comment");
  }
  const absl::string_view name = line.substr(0, colon);
  const absl::string_view token = line.substr(colon + 1);
  if (name.empty()) return absl::InvalidArgumentError("has no name before the colon, must be name:token");
  if (token.empty()) return absl::InvalidArgumentError("has no token behind the colon, must be name:token");
  if (!std::all_of(name.begin(), name.end(), &absl::ascii_isprint)) {
    return absl::InvalidArgumentError("the name must be printable ASCII");
  }
  if (!std::all_of(token.begin(), token.end(), &absl::ascii_isgraph)) {
    return absl::InvalidArgumentError("the token must be printable ASCII without spaces");
  }
  const Digest digest = DigestOf(token);
  for (const Entry& entry : entries_) {
    if (entry.name == name) return absl::InvalidArgumentError("the name is that of an earlier line");
    if (entry.digest == digest) return absl::InvalidArgumentError("the token is that of an earlier line");
  }
  entries_.push_back({std::string(name), digest});
  return absl::OkStatus();
}

std::optional<std::string> TokenTable::Find(absl::string_view token) const {
  const Digest digest = DigestOf(token);
  const Entry* found = nullptr;
  // All are looked at, whichever it is.
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(entry.digest.data(), digest.data(), digest.size()) == 0) found = &entry;
  }
  return found == nullptr ? std::nullopt : std::optional<std::string>(found->name);
}

TokenTable::Digest TokenTable::DigestOf(absl::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

}  // namespace attend::server
