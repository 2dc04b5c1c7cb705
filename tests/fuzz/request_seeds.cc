#include "tests/fuzz/request_seeds.h"

#include <initializer_list>

#include "attend/v1/attention.pb.h"

namespace attend::fuzz {
namespace {

void Fill(std::initializer_list<int64_t> shape, v1::Tensor& tensor) {
  size_t bytes = 2;
  tensor.set_data_type(v1::DATA_TYPE_FLOAT16);
  for (const int64_t length : shape) {
    tensor.add_shape(length);
    bytes *= static_cast<size_t>(length);
  }
  tensor.set_data(std::string(bytes, 'x'));
}

v1::AttendRequest Plain() {
  v1::AttendRequest request;
  Fill({1, 2, 1, 2}, *request.mutable_query());
  Fill({1, 1, 3, 2}, *request.mutable_key());
  Fill({1, 1, 3, 1}, *request.mutable_value());
  return request;
}

v1::AttendRequest WithCommonOptions() {
  v1::AttendRequest request = Plain();
  request.mutable_options()->set_layout(v1::LAYOUT_BHND);
  request.mutable_options()->set_scale(0.5F);
  request.mutable_options()->set_causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT);
  request.mutable_options()->add_key_lengths(2);
  request.mutable_results()->set_weights(true);
  request.mutable_results()->set_logsumexp(true);
  request.set_request_id("id");
  request.set_priority(3);
  return request;
}

// Every option but those of ragged batches, which exclude others.
v1::AttendRequest WithEveryOption() {
  v1::AttendRequest request = WithCommonOptions();
  v1::AttentionOptions& options = *request.mutable_options();
  options.set_softcap(30);
  options.add_query_offset(-5);
  options.set_window_left(-1);
  options.set_window_right(4);
  Fill({1, 1, 1, 3}, *options.mutable_mask());
  options.mutable_mask()->set_data_type(v1::DATA_TYPE_BOOL);
  options.mutable_mask()->set_data("xyz");
  Fill({1, 3}, *options.mutable_bias());
  for (const float number : {0.5F, 1.0F}) {
    options.add_alibi_slopes(number);
    options.add_sinks(number);
  }
  options.set_output_type(v1::DATA_TYPE_FLOAT32);
  options.set_reject_non_finite(true);
  v1::ResultSelection& results = *request.mutable_results();
  results.add_weight_query_rows(0);
  results.set_average_weights_over_heads(true);
  results.set_scores(v1::SCORE_STAGE_MASKED);
  results.set_omit_output(true);
  return request;
}

v1::AttendRequest Ragged() {
  v1::AttendRequest request;
  Fill({2, 2, 2}, *request.mutable_query());
  Fill({3, 1, 2}, *request.mutable_key());
  Fill({3, 1, 1}, *request.mutable_value());
  v1::AttentionOptions& options = *request.mutable_options();
  options.set_layout(v1::LAYOUT_THD);
  for (const int64_t start : {0, 0, 2}) options.add_query_starts(start);
  for (const int64_t start : {0, 1, 3}) options.add_key_starts(start);
  options.set_window_left(1);
  request.mutable_results()->set_logsumexp(true);
  return request;
}

// Everything that there is, contradictions too.
v1::AttendRequest Full() {
  v1::AttendRequest request = WithEveryOption();
  request.mutable_options()->add_query_starts(0);
  request.mutable_options()->add_key_starts(0);
  request.mutable_options()->set_compute_type(v1::COMPUTE_TYPE_BF16);
  return request;
}

}  // namespace

std::vector<std::string> RequestSeeds() {
  return {"",
          Plain().SerializeAsString(),
          WithCommonOptions().SerializeAsString(),
          WithEveryOption().SerializeAsString(),
          Ragged().SerializeAsString(),
          Full().SerializeAsString()};
}

}  // namespace attend::fuzz
