// The command line of `attend infer`: files, and every option of the API that a command line can say.
#ifndef ATTEND_CLIENT_INFER_OPTIONS_H_
#define ATTEND_CLIENT_INFER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "attend/v1/attention.pb.h"
#include "client/cli11_names.h"

namespace attend::client {

struct InferOptions {
  // Inputs. These and the results are files as ParseTensorPath reads them; the default names are those of the members.
  std::string query;
  std::string key;
  std::string value;
  std::string mask;  // empty: none, like all that follow
  std::string bias;
  v1::DataType element_type = v1::DATA_TYPE_UNSPECIFIED;  // that of the files

  // Results.
  std::string output;
  std::string weights;
  std::string scores;
  std::string logsumexp;
  v1::ScoreStage score_stage = v1::SCORE_STAGE_SCALED;
  std::vector<int64_t> weight_query_rows;
  bool average_weights = false;

  // Options as on the wire.
  v1::Layout layout = v1::LAYOUT_UNSPECIFIED;
  std::optional<float> scale;
  float softcap = 0;
  v1::CausalAlignment causal = v1::CAUSAL_ALIGNMENT_UNSPECIFIED;
  std::vector<int64_t> query_offset;
  std::optional<int64_t> window_left;
  std::optional<int64_t> window_right;
  std::vector<int64_t> key_lengths;
  std::vector<int64_t> query_starts;
  std::vector<int64_t> key_starts;
  std::vector<float> alibi_slopes;
  std::vector<float> sinks;
  v1::ComputeType compute_type = v1::COMPUTE_TYPE_UNSPECIFIED;
  v1::DataType output_type = v1::DATA_TYPE_UNSPECIFIED;
  bool reject_non_finite = false;
  std::string request_id;
  int32_t priority = 0;

  // Checking.
  bool verify = false;
  int64_t verify_rows = 64;

  // A UsageError for what names no file, and for what excludes each other: no result at all, two results in one place,
  // weight_query_rows without weights or scores.
  absl::Status Validate() const;
};

// Adds the options to `command`; parsing fills `options`, which outlives it.
void AddInferOptions(CLI::App& command, InferOptions& options);

// What goes on the wire, but for the tensors.
v1::AttentionOptions ToAttentionOptions(const InferOptions& options);
v1::ResultSelection ToResultSelection(const InferOptions& options);

}  // namespace attend::client

#endif  // ATTEND_CLIENT_INFER_OPTIONS_H_
