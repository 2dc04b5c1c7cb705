#include "server/attend_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/violation.h"
#include "server/codec_requests.h"
#include "server/response_writer.h"

namespace attend::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DecodeAttendRequestTest, ReadsAProblem) {
  const auto decoded = DecodeChanged([](v1::AttendRequest& r) {
    r.mutable_options()->set_scale(-2);
    r.mutable_options()->set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
    r.mutable_options()->add_key_lengths(0);
    r.mutable_options()->add_key_lengths(5);
    r.mutable_results()->set_weights(true);
    r.mutable_results()->set_logsumexp(true);
    r.set_request_id("an id");
    r.set_priority(9);
  });
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const core::AttentionShape& shape = decoded->problem.shape();
  EXPECT_EQ(shape.batch, 2);
  EXPECT_EQ(shape.query_heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.query_length, 3);
  EXPECT_EQ(shape.key_length, 5);
  EXPECT_EQ(shape.head_dim, 8);
  EXPECT_EQ(shape.value_dim, 6);
  EXPECT_EQ(decoded->problem.type(), core::ElementType::kFloat32);
  EXPECT_EQ(decoded->problem.scale(), -2);
  EXPECT_EQ(decoded->problem.options().layout, core::Layout::kBHND);
  EXPECT_EQ(decoded->problem.options().causal, core::CausalAlignment::kBottomRight);
  EXPECT_THAT(decoded->problem.options().key_lengths, testing::ElementsAre(0, 5));
  EXPECT_TRUE(decoded->problem.results().weights);
  EXPECT_TRUE(decoded->problem.results().logsumexp);
  EXPECT_EQ(decoded->tensors.query.size(), decoded->problem.QueryBytes());
  EXPECT_EQ(decoded->tensors.key.size(), decoded->problem.KeyBytes());
  EXPECT_EQ(decoded->tensors.value.size(), decoded->problem.ValueBytes());
  EXPECT_EQ(decoded->request_id, "an id");
  EXPECT_EQ(decoded->priority, 9);
}

TEST(DecodeAttendRequestTest, ReadsEveryOption) {
  const auto decoded = DecodeChanged([](v1::AttendRequest& r) {
    v1::AttentionOptions& options = *r.mutable_options();
    options.set_softcap(30);
    for (const int64_t offset : {-7, 9}) options.add_query_offset(offset);
    options.set_window_left(0);
    options.set_window_right(4);
    SetMask(r, {2, 1, 1, 5}, 10);
    SetBias(r, v1::DATA_TYPE_BFLOAT16, {3, 5}, 30);
    for (const float number : {1, 2, 3, 4}) {
      options.add_alibi_slopes(number);
      options.add_sinks(-number);
    }
    options.set_compute_type(v1::COMPUTE_TYPE_BF16);
    options.set_output_type(v1::DATA_TYPE_FLOAT32);
    options.set_reject_non_finite(true);
  });
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const core::AttentionOptions& options = decoded->problem.options();
  EXPECT_EQ(options.softcap, 30);
  EXPECT_THAT(options.query_offset, ElementsAre(-7, 9));
  EXPECT_EQ(options.window_left, 0);
  EXPECT_EQ(options.window_right, 4);
  ASSERT_TRUE(options.mask.has_value());
  EXPECT_THAT(options.mask->shape, ElementsAre(2, 1, 1, 5));
  EXPECT_EQ(decoded->tensors.mask.size(), 10);
  ASSERT_TRUE(options.bias.has_value());
  EXPECT_THAT(options.bias->shape, ElementsAre(3, 5));
  EXPECT_EQ(options.bias->type, core::ElementType::kBFloat16);
  EXPECT_EQ(decoded->tensors.bias.size(), 30);
  EXPECT_THAT(options.alibi_slopes, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(options.sinks, ElementsAre(-1, -2, -3, -4));
  EXPECT_EQ(options.compute_type, core::ComputeType::kBFloat16);
  EXPECT_EQ(options.output_type, core::ElementType::kFloat32);
  EXPECT_TRUE(decoded->reject_non_finite);
}

TEST(DecodeAttendRequestTest, ReadsWhatIsAskedFor) {
  for (const auto& [wire, stage] : {std::pair(v1::SCORE_STAGE_NONE, core::ScoreStage::kNone),
                                    {v1::SCORE_STAGE_SCALED, core::ScoreStage::kScaled},
                                    {v1::SCORE_STAGE_SOFTCAPPED, core::ScoreStage::kSoftcapped},
                                    {v1::SCORE_STAGE_MASKED, core::ScoreStage::kMasked}}) {
    const auto decoded = DecodeChanged([wire = wire](v1::AttendRequest& r) {
      v1::ResultSelection& results = *r.mutable_results();
      results.set_weights(true);
      for (const int64_t row : {2, 0}) results.add_weight_query_rows(row);
      results.set_average_weights_over_heads(true);
      results.set_scores(wire);
      results.set_omit_output(true);
    });
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const core::ResultSelection& results = decoded->problem.results();
    EXPECT_TRUE(results.weights);
    EXPECT_THAT(results.weight_query_rows, ElementsAre(2, 0));
    EXPECT_TRUE(results.average_weights_over_heads);
    EXPECT_EQ(results.scores, stage);
    EXPECT_FALSE(results.logsumexp);
    EXPECT_TRUE(results.omit_output);
  }
}

TEST(DecodeAttendRequestTest, ReadsRaggedBatches) {
  const auto decoded = DecodeChanged(MakeRagged);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const core::AttentionShape& shape = decoded->problem.shape();
  EXPECT_EQ(decoded->problem.options().layout, core::Layout::kTHD);
  EXPECT_EQ(shape.batch, 2);
  EXPECT_EQ(shape.query_heads, 4);
  EXPECT_EQ(shape.kv_heads, 2);
  EXPECT_EQ(shape.query_length, 3);
  EXPECT_EQ(shape.key_length, 5);
  EXPECT_EQ(shape.head_dim, 8);
  EXPECT_EQ(shape.value_dim, 6);
  EXPECT_THAT(decoded->problem.options().query_starts, ElementsAre(0, 3, 3));
  EXPECT_THAT(decoded->problem.options().key_starts, ElementsAre(0, 5, 5));
}

// Defaults that are said mean the same as defaults that are not.
TEST(DecodeAttendRequestTest, AcceptsDefaultsSaidExplicitly) {
  const auto decoded = DecodeChanged([](v1::AttendRequest& r) {
    v1::AttentionOptions& options = *r.mutable_options();
    options.set_layout(v1::LAYOUT_BHND);
    options.set_softcap(-0.0F);
    options.set_causal(v1::CAUSAL_ALIGNMENT_NONE);
    options.set_window_left(-1);
    options.set_window_right(-1);
    options.set_output_type(v1::DATA_TYPE_FLOAT32);
    options.set_reject_non_finite(false);
    r.mutable_results()->set_scores(v1::SCORE_STAGE_NONE);
    r.mutable_results()->set_omit_output(false);
  });
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->problem.output_type(), core::ElementType::kFloat32);
  EXPECT_EQ(decoded->problem.options().window_left, -1);
}

// The position of the queries may be said beside a corner, which then is not asked.
TEST(DecodeAttendRequestTest, AcceptsAnOffsetWithACorner) {
  const auto decoded = DecodeChanged([](v1::AttendRequest& r) {
    r.mutable_options()->set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
    for (const int64_t offset : {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
      r.mutable_options()->add_query_offset(offset);
    }
  });
  ASSERT_TRUE(decoded.ok()) << decoded.status();
}

TEST(SupportedOptionsTest, AreAllOptionsAndResults) {
  const std::vector<std::string> names = SupportedOptions();
  EXPECT_EQ(names.size(), 23U) << "a new option needs its place in the codec, in its tests, and here";
  EXPECT_THAT(names, testing::IsSupersetOf({"layout", "mask", "sinks", "omit_output"}));
}

TEST(DecodeAttendRequestTest, FillsInTheDefaults) {
  const auto decoded = Decode(GoodRequest());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_FLOAT_EQ(decoded->problem.scale(), 1 / std::sqrt(8.0F));
  EXPECT_EQ(decoded->problem.options().causal, core::CausalAlignment::kNone);
  EXPECT_TRUE(decoded->problem.options().key_lengths.empty());
  EXPECT_FALSE(decoded->problem.results().weights);
  EXPECT_FALSE(decoded->problem.results().logsumexp);
  EXPECT_EQ(decoded->request_id, "");
  EXPECT_EQ(decoded->priority, 5);
}

TEST(DecodeAttendRequestTest, ReadsTheLayoutWithLengthsBeforeHeads) {
  const auto decoded = DecodeChanged(MakeBnhd);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->problem.options().layout, core::Layout::kBNHD);
  EXPECT_EQ(decoded->problem.shape().query_heads, 4);
  EXPECT_EQ(decoded->problem.shape().kv_heads, 2);
  EXPECT_EQ(decoded->problem.shape().query_length, 3);
  EXPECT_EQ(decoded->problem.shape().key_length, 5);
}

TEST(DecodeAttendRequestTest, ReadsEveryElementType) {
  for (const auto& [wire_type, type] : {std::pair(v1::DATA_TYPE_BFLOAT16, core::ElementType::kBFloat16),
                                        std::pair(v1::DATA_TYPE_FLOAT16, core::ElementType::kFloat16)}) {
    const auto decoded = DecodeChanged([wire_type = wire_type](v1::AttendRequest& r) {
      for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
        tensor->set_data_type(wire_type);
        tensor->mutable_data()->resize(tensor->data().size() / 2);
      }
    });
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->problem.type(), type);
  }
}

TEST(DecodeAttendRequestTest, AcceptsNoKeysNoQueriesAndNoBatch) {
  for (const Change& change : {
           Change([](v1::AttendRequest& r) {
             for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
               tensor->set_shape(0, 0);
               tensor->clear_data();
             }
           }),
           Change([](v1::AttendRequest& r) {
             r.mutable_query()->set_shape(2, 0);
             r.mutable_query()->clear_data();
           }),
           Change([](v1::AttendRequest& r) {
             for (v1::Tensor* tensor : {r.mutable_key(), r.mutable_value()}) {
               tensor->set_shape(2, 0);
               tensor->clear_data();
             }
           }),
       }) {
    EXPECT_TRUE(DecodeChanged(change).ok()) << DecodeChanged(change).status();
  }
}

TEST(DecodeAttendRequestTest, RefusesBytesThatAreNoMessage) {
  const absl::Status status = DecodeBytes("no message at all").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::optional<core::Violation> violation = core::GetViolation(status);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->field, "");
  EXPECT_EQ(violation->reason, "MALFORMED_MESSAGE");
  EXPECT_EQ(violation->value, "17 bytes");
}

TEST(DecodeAttendRequestTest, RefusesMoreThanOneMebibyteBesidesTensors) {
  const absl::Status status = DecodeChanged([](v1::AttendRequest& r) {
                                for (int i = 0; i < 200'000; ++i)
                                  r.mutable_options()->add_key_lengths(int64_t{1} << 40);
                              }).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::optional<core::Violation> violation = core::GetViolation(status);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->reason, "FIELDS_TOO_LARGE");
  EXPECT_EQ(violation->limit, "1048576 bytes besides tensor data");
}

TEST(DecodeAttendRequestTest, RefusesUnknownFieldsAtEveryDepth) {
  const auto add = [](google::protobuf::Message& message) {
    message.GetReflection()->MutableUnknownFields(&message)->AddVarint(77, 1);
  };
  struct Place {
    std::string field;
    Change change;
  };
  for (const Place& place : {
           Place{"77", [&](v1::AttendRequest& r) { add(r); }},
           Place{"query.77", [&](v1::AttendRequest& r) { add(*r.mutable_query()); }},
           Place{"options.77", [&](v1::AttendRequest& r) { add(*r.mutable_options()); }},
           Place{"options.bias.77", [&](v1::AttendRequest& r) { add(*r.mutable_options()->mutable_bias()); }},
           Place{"results.77", [&](v1::AttendRequest& r) { add(*r.mutable_results()); }},
       }) {
    const absl::Status status = DecodeChanged(place.change).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << place.field << ": " << status;
    EXPECT_EQ(core::GetViolation(status)->field, place.field);
    EXPECT_EQ(core::GetViolation(status)->reason, "UNKNOWN_FIELD");
    EXPECT_THAT(std::string(status.message()), HasSubstr("attend 1.2.3"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("77"));
  }
}

TEST(DecodeAttendRequestTest, RefusesAResponseThatIsTooLargeWhateverItsInputs) {
  // Without keys there are no inputs but the queries, and the output is 1024 times as large as they are.
  const absl::Status status = DecodeChanged([](v1::AttendRequest& r) {
                                for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
                                  tensor->clear_shape();
                                  tensor->clear_data();
                                }
                                for (const int64_t length : {1, 1, 1000, 1}) r.mutable_query()->add_shape(length);
                                r.mutable_query()->set_data(std::string(4000, '\0'));
                                for (const int64_t length : {1, 1, 0, 1}) r.mutable_key()->add_shape(length);
                                for (const int64_t length : {1, 1, 0, 1024}) r.mutable_value()->add_shape(length);
                              }).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(core::GetViolation(status)->field, "query.shape");
  EXPECT_EQ(core::GetViolation(status)->reason, "RESPONSE_TOO_LARGE");
  EXPECT_EQ(core::GetViolation(status)->limit, "1000000");
  EXPECT_THAT(std::string(status.message()), HasSubstr("output 4096000"));
}

TEST(DecodeAttendRequestTest, TheLimitOfAResponseIsItsPredictedSize) {
  const auto decoded = Decode(GoodRequest());
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  const int64_t predicted = PredictResponseBytes(decoded->problem);
  const grpc::Slice slice(GoodRequest().SerializeAsString());
  for (const int64_t limit : {predicted, predicted - 1}) {
    auto parts = ReadAttendRequest(grpc::ByteBuffer(&slice, 1));
    ASSERT_TRUE(parts.ok()) << parts.status();
    const auto held = DecodeAttendRequest(*std::move(parts), {.max_message_bytes = limit, .version = "1.2.3"});
    EXPECT_EQ(held.ok(), limit == predicted) << held.status();
  }
}

TEST(DecodeAttendRequestTest, RefusesWeightsThatAreTooLarge) {
  const Change change = [](v1::AttendRequest& r) {
    for (v1::Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
      tensor->clear_shape();
      for (const int64_t length : {1, 1, 1000, 1}) tensor->add_shape(length);
      tensor->set_data(std::string(4000, '\0'));
    }
  };
  ASSERT_TRUE(DecodeChanged(change).ok()) << DecodeChanged(change).status();
  const absl::Status status = DecodeChanged([&](v1::AttendRequest& r) {
                                change(r);
                                r.mutable_results()->set_weights(true);
                              }).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const std::optional<core::Violation> violation = core::GetViolation(status);
  EXPECT_EQ(violation->field, "results.weights");
  EXPECT_EQ(violation->reason, "RESPONSE_TOO_LARGE");
  EXPECT_EQ(violation->limit, "1000000");
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights 4000000"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(violation->value));
}

TEST(CheckRequestIdTest, AcceptsEverythingPrintableUpToTheLimit) {
  std::string all;
  for (char c = 0x20; c < 0x7f; ++c) all.push_back(c);
  EXPECT_TRUE(CheckRequestId(all).ok());
  EXPECT_TRUE(CheckRequestId("").ok());
  EXPECT_TRUE(CheckRequestId(std::string(128, 'x')).ok());
}

}  // namespace
}  // namespace attend::server
