#include "tests/bench/bench_request.h"

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace attend::bench {

absl::StatusOr<BenchRequest> BenchRequest::Parse(absl::string_view line) {
  const std::vector<std::string> parts = absl::StrSplit(line, ' ', absl::SkipWhitespace());
  if (parts.empty()) return absl::InvalidArgumentError("an empty line");
  BenchRequest request;
  request.word = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> value = absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    if (value.first.empty() || value.second.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(parts[i], " is not name=value"));
    }
    request.values.insert(value);
  }
  return request;
}

int64_t BenchRequest::Number(const std::string& name, int64_t otherwise) const {
  const auto found = values.find(name);
  int64_t number = 0;
  return found != values.end() && absl::SimpleAtoi(found->second, &number) ? number : otherwise;
}

absl::StatusOr<core::ElementType> BenchRequest::Type() const {
  const auto found = values.find("type");
  if (found == values.end()) return core::ElementType::kFloat32;
  for (const auto type : {core::ElementType::kFloat32, core::ElementType::kBFloat16, core::ElementType::kFloat16}) {
    if (core::ElementTypeName(type) == found->second) return type;
  }
  return absl::InvalidArgumentError(absl::StrCat("type is ", found->second, ", must be f32, bf16 or f16"));
}

absl::StatusOr<core::AttentionProblem> BenchRequest::Problem() const {
  const auto type = Type();
  if (!type.ok()) return type.status();
  core::AttentionOptions options;
  if (Number("causal", 0) != 0) options.causal = core::CausalAlignment::kTopLeft;
  if (const int64_t window = Number("window", 0); window > 0) options.window_left = window - 1;
  const int64_t query_heads = Number("query_heads", 1);
  const int64_t queries = Number("queries", 1);
  const int64_t dim = Number("dim", 64);
  return core::AttentionProblem::Create({.batch = Number("batch", 1),
                                         .query_heads = query_heads,
                                         .kv_heads = Number("kv_heads", query_heads),
                                         .query_length = queries,
                                         .key_length = Number("keys", queries),
                                         .head_dim = dim,
                                         .value_dim = dim},
                                        *type, std::move(options));
}

std::string JsonLine(const absl::StatusOr<std::string>& answer) {
  if (answer.ok()) return *answer;
  const std::string message = absl::StrReplaceAll(answer.status().ToString(), {{"\\", "/"}, {"\"", "'"}, {"\n", " "}});
  return absl::StrCat("{\"error\": \"", message, "\"}");
}

}  // namespace attend::bench
