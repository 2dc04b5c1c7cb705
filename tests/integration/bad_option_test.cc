// Every illegal value of an option or result, and every contradiction between them, through the wire.
#include <functional>
#include <initializer_list>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/bad_request_test.h"

namespace attend::testing {
namespace {

using attend::v1::AttendRequest;
using attend::v1::AttentionOptions;
using attend::v1::DataType;
using attend::v1::ResultSelection;
using attend::v1::Tensor;

TEST_P(BadFieldTest, IsRefusedByName) { ExpectRefusedByName(); }

// GoodRequest has 2 batch elements, 4 query heads on 2 kv heads, 3 queries and 5 keys.
AttentionOptions& Options(AttendRequest& request) { return *request.mutable_options(); }
ResultSelection& Results(AttendRequest& request) { return *request.mutable_results(); }

template <typename List, typename T>
void Assign(List* list, std::initializer_list<T> numbers) {
  list->Assign(numbers.begin(), numbers.end());
}

void SetTensor(Tensor* tensor, DataType type, std::initializer_list<int64_t> shape, size_t bytes) {
  tensor->set_data_type(type);
  Assign(tensor->mutable_shape(), shape);
  tensor->set_data(std::string(bytes, '\1'));
}

constexpr DataType kBool = attend::v1::DATA_TYPE_BOOL;
constexpr DataType kFloat = attend::v1::DATA_TYPE_FLOAT32;

// Two sequences of 1 and 2 queries, 5 and 0 keys.
void MakeRagged(AttendRequest& r) {
  Fill(*r.mutable_query(), {3, 4, 8});
  Fill(*r.mutable_key(), {5, 2, 8});
  Fill(*r.mutable_value(), {5, 2, 6});
  Options(r).set_layout(attend::v1::LAYOUT_THD);
  Assign(Options(r).mutable_query_starts(), {0, 1, 3});
  Assign(Options(r).mutable_key_starts(), {0, 5, 5});
}

struct Refusal {
  const char* field;
  const char* reason;
  const char* value;
  const char* limit;  // a part of it
};

// A row of the table: an INVALID_ARGUMENT.
BadRequestCase Row(const char* name, std::function<void(AttendRequest&)> spoil, const Refusal& refusal) {
  return {name, std::move(spoil), kInvalid, refusal.field, refusal.reason, refusal.value, refusal.limit};
}

// The same, of a ragged batch.
BadRequestCase RaggedRow(const char* name, std::function<void(AttendRequest&)> spoil, const Refusal& refusal) {
  const auto spoil_ragged = [spoil = std::move(spoil)](AttendRequest& r) {
    MakeRagged(r);
    spoil(r);
  };
  return Row(name, spoil_ragged, refusal);
}

const auto kNameOf = [](const auto& test) { return std::string(test.param.name); };

INSTANTIATE_TEST_SUITE_P(
    Numbers, BadFieldTest,
    ::testing::Values(Row("NegativeSoftcap", [](auto& r) { Options(r).set_softcap(-0.5F); },
                          {"options.softcap", "SOFTCAP_OUT_OF_RANGE", "-0.5", "finite, 0"}),
                      Row("NanSoftcap", [](auto& r) { Options(r).set_softcap(kNan); },
                          {"options.softcap", "SOFTCAP_OUT_OF_RANGE", "nan", "finite"}),
                      Row("InfiniteSoftcap", [](auto& r) { Options(r).set_softcap(kInfinity); },
                          {"options.softcap", "SOFTCAP_OUT_OF_RANGE", "inf", "finite"}),
                      Row("WindowLeft", [](auto& r) { Options(r).set_window_left(-2); },
                          {"options.window_left", "WINDOW_OUT_OF_RANGE", "-2", "at least -1"}),
                      Row("WindowRight",
                          [](auto& r) { Options(r).set_window_right(std::numeric_limits<int64_t>::min()); },
                          {"options.window_right", "WINDOW_OUT_OF_RANGE", "-9223372036854775808", "at least -1"}),
                      Row("TooFewOffsets", [](auto& r) { Options(r).add_query_offset(0); },
                          {"options.query_offset", "QUERY_OFFSET_COUNT", "1", "2"}),
                      Row("TooManyOffsets",
                          [](auto& r) {
                            Assign(Options(r).mutable_query_offset(), {0, 1, 2});
                          },
                          {"options.query_offset", "QUERY_OFFSET_COUNT", "3", "2"}),
                      Row("TooManyKeyLengths",
                          [](auto& r) {
                            Assign(Options(r).mutable_key_lengths(), {1, 2, 3});
                          },
                          {"options.key_lengths", "KEY_LENGTHS_COUNT", "3", "2"}),
                      Row("SlopesOfKvHeads",
                          [](auto& r) {
                            Assign(Options(r).mutable_alibi_slopes(), {1.0F, 1.0F});
                          },
                          {"options.alibi_slopes", "SLOPES_COUNT", "2", "4"}),
                      Row("NanSlope",
                          [](auto& r) {
                            Assign(Options(r).mutable_alibi_slopes(), {1.0F, 1.0F, 1.0F, kNan});
                          },
                          {"options.alibi_slopes[3]", "SLOPE_NOT_FINITE", "nan", "finite"}),
                      Row("InfiniteSlope",
                          [](auto& r) {
                            Assign(Options(r).mutable_alibi_slopes(), {-kInfinity, 1.0F, 1.0F, 1.0F});
                          },
                          {"options.alibi_slopes[0]", "SLOPE_NOT_FINITE", "-inf", "finite"}),
                      Row("TooManySinks", [](auto& r) { Options(r).mutable_sinks()->Resize(8, 1); },
                          {"options.sinks", "SINKS_COUNT", "8", "4"}),
                      Row("NanSink",
                          [](auto& r) {
                            Assign(Options(r).mutable_sinks(), {1.0F, kNan, 1.0F, 1.0F});
                          },
                          {"options.sinks[1]", "SINK_OUT_OF_RANGE", "nan", "finite or -inf"}),
                      Row("InfiniteSink",
                          [](auto& r) {
                            Assign(Options(r).mutable_sinks(), {-kInfinity, 1.0F, kInfinity, 1.0F});
                          },
                          {"options.sinks[2]", "SINK_OUT_OF_RANGE", "inf", "finite or -inf"})),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    MasksAndTypes, BadFieldTest,
    ::testing::Values(
        Row("EmptyMask", [](auto& r) { Options(r).mutable_mask(); },
            {"options.mask.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_UNSPECIFIED", "DATA_TYPE_BOOL"}),
        Row("MaskOfFloats",
            [](auto& r) {
              SetTensor(Options(r).mutable_mask(), kFloat, {3, 5}, 60);
            },
            {"options.mask.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_FLOAT32", "DATA_TYPE_BOOL"}),
        Row("BiasOfBools",
            [](auto& r) {
              SetTensor(Options(r).mutable_bias(), kBool, {3, 5}, 15);
            },
            {"options.bias.data_type", "UNSUPPORTED_TYPE", "DATA_TYPE_BOOL", "FLOAT32"}),
        Row("MaskOfRankOne", [](auto& r) { SetTensor(Options(r).mutable_mask(), kBool, {5}, 5); },
            {"options.mask.shape", "NOT_BROADCASTABLE", "of rank 1", "of rank 2"}),
        Row("MaskOfRankFive",
            [](auto& r) {
              SetTensor(Options(r).mutable_mask(), kBool, {1, 1, 1, 1, 5}, 5);
            },
            {"options.mask.shape", "NOT_BROADCASTABLE", "of rank 5", "of rank 2"}),
        Row("BiasOfRankZero", [](auto& r) { SetTensor(Options(r).mutable_bias(), kFloat, {}, 4); },
            {"options.bias.shape", "NOT_BROADCASTABLE", "of rank 0", "of rank 2"}),
        Row("PaddingMaskOfRankTwo",
            [](auto& r) {
              SetTensor(Options(r).mutable_mask(), kBool, {2, 5}, 10);
            },
            {"options.mask.shape[0]", "NOT_BROADCASTABLE", "2", "query_length, 3"}),
        Row("MaskOfOtherKeys",
            [](auto& r) {
              SetTensor(Options(r).mutable_mask(), kBool, {3, 4}, 12);
            },
            {"options.mask.shape[1]", "NOT_BROADCASTABLE", "4", "key_length, 5"}),
        Row("BiasOfKvHeads",
            [](auto& r) {
              SetTensor(Options(r).mutable_bias(), kFloat, {2, 3, 5}, 120);
            },
            {"options.bias.shape[0]", "NOT_BROADCASTABLE", "2", "query_heads, 4"}),
        Row("BiasOfOtherBatch",
            [](auto& r) {
              SetTensor(Options(r).mutable_bias(), kFloat, {3, 1, 1, 5}, 60);
            },
            {"options.bias.shape[0]", "NOT_BROADCASTABLE", "3", "batch, 2"}),
        Row("NegativeMaskAxis",
            [](auto& r) {
              SetTensor(Options(r).mutable_mask(), kBool, {-3, -5}, 15);
            },
            {"options.mask.shape[0]", "NOT_BROADCASTABLE", "-3", "query_length, 3"}),
        Row("MaskOfTooFewBytes",
            [](auto& r) {
              SetTensor(Options(r).mutable_mask(), kBool, {3, 5}, 14);
            },
            {"options.mask.data", "BYTE_COUNT_MISMATCH", "14", "15"}),
        Row("BiasOfTooManyBytes",
            [](auto& r) {
              SetTensor(Options(r).mutable_bias(), kFloat, {1, 5}, 21);
            },
            {"options.bias.data", "BYTE_COUNT_MISMATCH", "21", "20"}),
        Row("OutputTypeOfNoFloat", [](auto& r) { Options(r).set_output_type(attend::v1::DATA_TYPE_INT64); },
            {"options.output_type", "OUTPUT_TYPE_MISMATCH", "DATA_TYPE_INT64", "FLOAT32"}),
        Row("NarrowerOutput", [](auto& r) { Options(r).set_output_type(attend::v1::DATA_TYPE_BFLOAT16); },
            {"options.output_type", "OUTPUT_TYPE_MISMATCH", "DATA_TYPE_BFLOAT16", "type of query"}),
        Row("Bf16ProductsOfF16",
            [](auto& r) {
              for (Tensor* tensor : {r.mutable_query(), r.mutable_key(), r.mutable_value()}) {
                tensor->set_data_type(attend::v1::DATA_TYPE_FLOAT16);
                tensor->mutable_data()->resize(tensor->data().size() / 2);
              }
              Options(r).set_compute_type(attend::v1::COMPUTE_TYPE_BF16);
            },
            {"options.compute_type", "COMPUTE_TYPE_MISMATCH", "bf16", "f16"}),
        Row("NanRefused",
            [](auto& r) {
              r.mutable_value()->mutable_data()->replace(4 * 61, 4, reinterpret_cast<const char*>(&kNan), 4);
              Options(r).set_reject_non_finite(true);
            },
            {"value.data", "ELEMENT_NOT_FINITE", "nan at [1, 0, 0, 1]", "finite"}),
        Row("InfinityInPaddingRefused",
            [](auto& r) {
              r.mutable_key()->mutable_data()->replace(4 * 39, 4, reinterpret_cast<const char*>(&kInfinity), 4);
              Assign(Options(r).mutable_key_lengths(), {1, 5});
              Options(r).set_reject_non_finite(true);
            },
            {"key.data", "ELEMENT_NOT_FINITE", "inf at [0, 0, 4, 7]", "finite"})),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Ragged, BadFieldTest,
    ::testing::Values(Row("QueryStartsElsewhere",
                          [](auto& r) {
                            Assign(Options(r).mutable_query_starts(), {0, 1, 3});
                          },
                          {"options.query_starts", "OPTIONS_CONTRADICT", "present", "THD"}),
                      Row("KeyStartsElsewhere",
                          [](auto& r) {
                            Assign(Options(r).mutable_key_starts(), {0, 1, 5});
                          },
                          {"options.key_starts", "OPTIONS_CONTRADICT", "present", "THD"}),
                      Row("RankFourInThd", [](auto& r) { Options(r).set_layout(attend::v1::LAYOUT_THD); },
                          {"query.shape", "RANK_MISMATCH", "4", "3"}),
                      RaggedRow("NoQueryStarts", [](auto& r) { Options(r).clear_query_starts(); },
                                {"options.query_starts", "STARTS_COUNT", "0", "batch + 1"}),
                      RaggedRow("NoKeyStarts", [](auto& r) { Options(r).clear_key_starts(); },
                                {"options.key_starts", "STARTS_COUNT", "0", "batch + 1"}),
                      RaggedRow("MoreKeyStarts", [](auto& r) { Options(r).add_key_starts(5); },
                                {"options.key_starts", "STARTS_COUNT", "4", "batch + 1"}),
                      RaggedRow("FirstStart", [](auto& r) { Options(r).set_key_starts(0, -1); },
                                {"options.key_starts[0]", "STARTS_OUT_OF_ORDER", "-1", "0"}),
                      RaggedRow("DecreasingStarts", [](auto& r) { Options(r).set_query_starts(1, 4); },
                                {"options.query_starts[2]", "STARTS_OUT_OF_ORDER", "3", "4"}),
                      RaggedRow("StartsBeyondTheTotal", [](auto& r) { Options(r).set_query_starts(2, 4); },
                                {"options.query_starts[2]", "STARTS_OUT_OF_ORDER", "4", "3"}),
                      RaggedRow("StartsBeforeTheTotal",
                                [](auto& r) {
                                  Assign(Options(r).mutable_key_starts(), {0, 4, 4});
                                },
                                {"options.key_starts[2]", "STARTS_OUT_OF_ORDER", "4", "5"}),
                      RaggedRow("OffsetsOfOtherCount",
                                [](auto& r) {
                                  Assign(Options(r).mutable_query_offset(), {0, 1, 2});
                                },
                                {"options.query_offset", "QUERY_OFFSET_COUNT", "3", "2"}),
                      RaggedRow("KeyLengthsInThd",
                                [](auto& r) {
                                  Assign(Options(r).mutable_key_lengths(), {5, 0});
                                },
                                {"options.key_lengths", "OPTIONS_CONTRADICT", "present", "THD"}),
                      RaggedRow("MaskInThd",
                                [](auto& r) {
                                  SetTensor(Options(r).mutable_mask(), kBool, {1, 1}, 1);
                                },
                                {"options.mask", "OPTIONS_CONTRADICT", "present", "THD"}),
                      RaggedRow("BiasInThd",
                                [](auto& r) {
                                  SetTensor(Options(r).mutable_bias(), kFloat, {1, 1}, 4);
                                },
                                {"options.bias", "OPTIONS_CONTRADICT", "present", "THD"}),
                      RaggedRow("WeightsInThd", [](auto& r) { Results(r).set_weights(true); },
                                {"results.weights", "OPTIONS_CONTRADICT", "asked for", "THD"}),
                      RaggedRow("ScoresInThd", [](auto& r) { Results(r).set_scores(attend::v1::SCORE_STAGE_MASKED); },
                                {"results.scores", "OPTIONS_CONTRADICT", "asked for", "THD"}),
                      RaggedRow("NanRefusedInThd",
                                [](auto& r) {
                                  r.mutable_query()->mutable_data()->replace(4 * 41, 4,
                                                                             reinterpret_cast<const char*>(&kNan), 4);
                                  Options(r).set_reject_non_finite(true);
                                },
                                {"query.data", "ELEMENT_NOT_FINITE", "nan at [1, 1, 1]", "finite"})),
    kNameOf);

INSTANTIATE_TEST_SUITE_P(
    Results, BadFieldTest,
    ::testing::Values(Row("NegativeRow",
                          [](auto& r) {
                            Results(r).set_weights(true);
                            Assign(Results(r).mutable_weight_query_rows(), {0, -1});
                          },
                          {"results.weight_query_rows[1]", "QUERY_ROW_OUT_OF_RANGE", "-1", "[0, 3)"}),
                      Row("RowBeyond",
                          [](auto& r) {
                            Results(r).set_weights(true);
                            Assign(Results(r).mutable_weight_query_rows(), {3});
                          },
                          {"results.weight_query_rows[0]", "QUERY_ROW_OUT_OF_RANGE", "3", "[0, 3)"}),
                      Row("RowTwice",
                          [](auto& r) {
                            Results(r).set_scores(attend::v1::SCORE_STAGE_SCALED);
                            Assign(Results(r).mutable_weight_query_rows(), {1, 2, 1});
                          },
                          {"results.weight_query_rows[2]", "QUERY_ROW_TWICE", "1", "not listed before"}),
                      Row("RowsOfNothing", [](auto& r) { Results(r).add_weight_query_rows(0); },
                          {"results.weight_query_rows", "OPTIONS_CONTRADICT", "present", "weights nor scores"}),
                      Row("AverageOfNothing", [](auto& r) { Results(r).set_average_weights_over_heads(true); },
                          {"results.average_weights_over_heads", "OPTIONS_CONTRADICT", "true", "weights"}),
                      Row("AverageOfScores",
                          [](auto& r) {
                            Results(r).set_scores(attend::v1::SCORE_STAGE_SCALED);
                            Results(r).set_average_weights_over_heads(true);
                          },
                          {"results.average_weights_over_heads", "OPTIONS_CONTRADICT", "true", "weights"}),
                      Row("NothingAtAll", [](auto& r) { Results(r).set_omit_output(true); },
                          {"results.omit_output", "OPTIONS_CONTRADICT", "true", "no other result"})),
    kNameOf);

// What looks as if it contradicted something and does not.
struct LegalCase {
  const char* name;
  std::function<void(AttendRequest&)> change;
};

std::ostream& operator<<(std::ostream& out, const LegalCase& test) { return out << test.name; }

class LegalOptionTest : public BadRequestTest, public ::testing::WithParamInterface<LegalCase> {};

TEST_P(LegalOptionTest, IsComputed) {
  AttendRequest request = GoodRequest();
  GetParam().change(request);
  const grpc::Status status = Call(stub(), kAttend, request.SerializeAsString());
  EXPECT_TRUE(status.ok()) << status.error_message();
}

INSTANTIATE_TEST_SUITE_P(All, LegalOptionTest,
                         ::testing::Values(LegalCase{"OffsetWithACorner",
                                                     [](auto& r) {
                                                       Options(r).set_causal(attend::v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT);
                                                       Assign(Options(r).mutable_query_offset(),
                                                              {std::numeric_limits<int64_t>::min(),
                                                               std::numeric_limits<int64_t>::max()});
                                                     }},
                                           LegalCase{"OffsetAlone",
                                                     [](auto& r) {
                                                       Assign(Options(r).mutable_query_offset(), {-3, 7});
                                                     }},
                                           LegalCase{"LargestWindows",
                                                     [](auto& r) {
                                                       Options(r).set_window_left(std::numeric_limits<int64_t>::max());
                                                       Options(r).set_window_right(std::numeric_limits<int64_t>::max());
                                                     }},
                                           LegalCase{"MaskAndBiasOfOneElement",
                                                     [](auto& r) {
                                                       SetTensor(Options(r).mutable_mask(), kBool, {1, 1}, 1);
                                                       SetTensor(Options(r).mutable_bias(), kFloat, {1, 1, 1, 1}, 4);
                                                     }},
                                           LegalCase{"AllRowsInAnotherOrder",
                                                     [](auto& r) {
                                                       Results(r).set_weights(true);
                                                       Assign(Results(r).mutable_weight_query_rows(), {2, 0, 1});
                                                     }},
                                           LegalCase{"LogsumexpAlone",
                                                     [](auto& r) {
                                                       Results(r).set_logsumexp(true);
                                                       Results(r).set_omit_output(true);
                                                     }},
                                           LegalCase{"RaggedBatch", MakeRagged},
                                           LegalCase{"NoSequences",
                                                     [](auto& r) {
                                                       Fill(*r.mutable_query(), {0, 4, 8});
                                                       Fill(*r.mutable_key(), {0, 2, 8});
                                                       Fill(*r.mutable_value(), {0, 2, 6});
                                                       Options(r).set_layout(attend::v1::LAYOUT_THD);
                                                       Options(r).add_query_starts(0);
                                                       Options(r).add_key_starts(0);
                                                     }}),
                         kNameOf);

}  // namespace
}  // namespace attend::testing
