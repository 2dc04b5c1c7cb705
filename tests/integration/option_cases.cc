#include "tests/integration/option_cases.h"

#include <limits>
#include <utility>

#include "absl/strings/str_join.h"

namespace attend::testing {
namespace {

using core::AttentionOptions;
using core::CausalAlignment;
using core::ElementType;
using core::Layout;

v1::AttentionOptions& Options(v1::AttendRequest& request) { return *request.mutable_options(); }
v1::ResultSelection& Results(v1::AttendRequest& request) { return *request.mutable_results(); }

template <typename List, typename T>
void Assign(List* list, const std::vector<T>& numbers) {
  list->Assign(numbers.begin(), numbers.end());
}

// Sequences of 5 and 5 queries, 9 and 9 keys: the same bytes as kOptionShape in layout BNHD.
Setting Ragged() {
  return {[](v1::AttendRequest& request) {
            Options(request).set_layout(v1::LAYOUT_THD);
            Assign(Options(request).mutable_query_starts(), std::vector<int64_t>{0, 5, 10});
            Assign(Options(request).mutable_key_starts(), std::vector<int64_t>{0, 9, 18});
          },
          [](Meaning& told) {
            told.options.layout = Layout::kTHD;
            told.options.query_starts = {0, 5, 10};
            told.options.key_starts = {0, 9, 18};
          }};
}

Setting Causal() {
  return {[](v1::AttendRequest& request) { Options(request).set_causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT); },
          [](Meaning& told) { told.options.causal = CausalAlignment::kBottomRight; }};
}

Setting Weights() {
  return {[](v1::AttendRequest& request) { Results(request).set_weights(true); },
          [](Meaning& told) { told.results.weights = true; }};
}

Setting Logsumexp() {
  return {[](v1::AttendRequest& request) { Results(request).set_logsumexp(true); },
          [](Meaning& told) { told.results.logsumexp = true; }};
}

// A softcap that is felt, and masks, so that every stage of the scores differs.
Setting SoftcapAndCausal() {
  return {[](v1::AttendRequest& request) {
            Options(request).set_softcap(2);
            Causal().set(request);
          },
          [](Meaning& told) {
            told.options.softcap = 2;
            Causal().meaning(told);
          }};
}

void AddLayoutAndCausalCases(std::vector<OptionCase>* cases) {
  const auto layout = [cases](v1::Layout value, Effect effect, Layout meaning) {
    cases->push_back({"layout",
                      v1::Layout_Name(value),
                      effect,
                      {[value](v1::AttendRequest& request) { Options(request).set_layout(value); },
                       [meaning](Meaning& told) { told.options.layout = meaning; }}});
  };
  layout(v1::LAYOUT_UNSPECIFIED, Effect::kIsDefault, Layout::kBHND);
  layout(v1::LAYOUT_BHND, Effect::kIsDefault, Layout::kBHND);
  layout(v1::LAYOUT_BNHD, Effect::kChanges, Layout::kBNHD);
  layout(v1::LAYOUT_THD, Effect::kInvalid, Layout::kBHND);  // without starts; with them below
  const auto causal = [cases](v1::CausalAlignment value, Effect effect, CausalAlignment meaning) {
    cases->push_back({"causal",
                      v1::CausalAlignment_Name(value),
                      effect,
                      {[value](v1::AttendRequest& request) { Options(request).set_causal(value); },
                       [meaning](Meaning& told) { told.options.causal = meaning; }}});
  };
  causal(v1::CAUSAL_ALIGNMENT_UNSPECIFIED, Effect::kIsDefault, CausalAlignment::kNone);
  causal(v1::CAUSAL_ALIGNMENT_NONE, Effect::kIsDefault, CausalAlignment::kNone);
  causal(v1::CAUSAL_ALIGNMENT_TOP_LEFT, Effect::kChanges, CausalAlignment::kTopLeft);
  causal(v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT, Effect::kChanges, CausalAlignment::kBottomRight);
}

// A field that is one number.
template <typename T>
using SetNumber = void (v1::AttentionOptions::*)(T);

void AddNumberCases(std::vector<OptionCase>* cases) {
  const auto number = [cases]<typename T>(std::string field, T value, Effect effect, SetNumber<T> set,
                                          const std::function<void(AttentionOptions&)>& meaning) {
    cases->push_back({std::move(field),
                      std::to_string(value),
                      effect,
                      {[set, value](v1::AttendRequest& request) { (Options(request).*set)(value); },
                       [meaning](Meaning& told) { meaning(told.options); }}});
  };
  for (const float scale : {0.0F, -0.5F, 2.0F}) {
    number("scale", scale, Effect::kChanges, &v1::AttentionOptions::set_scale,
           [scale](AttentionOptions& options) { options.scale = scale; });
  }
  for (const auto& [softcap, effect] : {std::pair(2.0F, Effect::kChanges),
                                        {30.0F, Effect::kChanges},
                                        {0.0F, Effect::kIsDefault},
                                        {-1.0F, Effect::kInvalid}}) {
    number("softcap", softcap, effect, &v1::AttentionOptions::set_softcap,
           [softcap = softcap](AttentionOptions& options) { options.softcap = softcap; });
  }
  for (const auto& [keys, effect] : {std::pair(int64_t{0}, Effect::kChanges),
                                     {int64_t{3}, Effect::kChanges},
                                     {int64_t{-1}, Effect::kIsDefault},
                                     {int64_t{-2}, Effect::kInvalid}}) {
    number("window_left", keys, effect, &v1::AttentionOptions::set_window_left,
           [keys = keys](AttentionOptions& options) { options.window_left = keys; });
    number("window_right", keys, effect, &v1::AttentionOptions::set_window_right,
           [keys = keys](AttentionOptions& options) { options.window_right = keys; });
  }
}

void AddListCases(std::vector<OptionCase>* cases) {
  const auto list = [cases](std::string field, Effect effect, const auto& values, auto mutable_list, auto member,
                            const Setting& beside = {[](v1::AttendRequest&) {}}) {
    cases->push_back({std::move(field),
                      absl::StrJoin(values, ","),
                      effect,
                      {[=](v1::AttendRequest& request) { Assign((Options(request).*mutable_list)(), values); },
                       [=](Meaning& told) { told.options.*member = values; }},
                      beside});
  };
  using Wire = v1::AttentionOptions;
  using Integers = google::protobuf::RepeatedField<int64_t>* (Wire::*)();
  using Floats = google::protobuf::RepeatedField<float>* (Wire::*)();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto integers = [&](std::string field, Effect effect, const std::vector<int64_t>& values, Integers mutable_list,
                            std::vector<int64_t> AttentionOptions::*member,
                            const Setting& beside = {[](v1::AttendRequest&) {}}) {
    list(std::move(field), effect, values, mutable_list, member, beside);
  };
  const auto floats = [&](std::string field, Effect effect, const std::vector<float>& values, Floats mutable_list,
                          std::vector<float> AttentionOptions::*member) {
    list(std::move(field), effect, values, mutable_list, member);
  };
  integers("key_lengths", Effect::kChanges, {0, 7}, &Wire::mutable_key_lengths, &AttentionOptions::key_lengths);
  integers("key_lengths", Effect::kIsDefault, {9, 9}, &Wire::mutable_key_lengths, &AttentionOptions::key_lengths);
  integers("query_offset", Effect::kChanges, {-2, 3}, &Wire::mutable_query_offset, &AttentionOptions::query_offset,
           Causal());
  integers("query_offset", Effect::kIsDefault, {-2, 3}, &Wire::mutable_query_offset, &AttentionOptions::query_offset);
  integers("query_starts", Effect::kChanges, {0, 3, 10}, &Wire::mutable_query_starts, &AttentionOptions::query_starts,
           Ragged());
  integers("query_starts", Effect::kInvalid, {0, 3, 10}, &Wire::mutable_query_starts, &AttentionOptions::query_starts);
  integers("key_starts", Effect::kChanges, {0, 0, 18}, &Wire::mutable_key_starts, &AttentionOptions::key_starts,
           Ragged());
  integers("key_starts", Effect::kInvalid, {0, 0, 18}, &Wire::mutable_key_starts, &AttentionOptions::key_starts);
  floats("alibi_slopes", Effect::kChanges, {0.5F, 0.25F, -1, 0}, &Wire::mutable_alibi_slopes,
         &AttentionOptions::alibi_slopes);
  floats("sinks", Effect::kChanges, {1, -2, 0, -kInfinity}, &Wire::mutable_sinks, &AttentionOptions::sinks);
  floats("sinks", Effect::kIsDefault, {-kInfinity, -kInfinity, -kInfinity, -kInfinity}, &Wire::mutable_sinks,
         &AttentionOptions::sinks);
}

// The test reads mask and bias back from the request, for the oracle.
void AddTensorCases(std::vector<OptionCase>* cases) {
  const std::vector<int64_t> shape = {kOptionShape.query_length, kOptionShape.key_length};
  const int64_t count = kOptionShape.query_length * kOptionShape.key_length;
  cases->push_back({"mask",
                    "of two axes",
                    Effect::kChanges,
                    {[=](v1::AttendRequest& request) {
                       v1::Tensor& mask = *Options(request).mutable_mask();
                       mask.set_data_type(v1::DATA_TYPE_BOOL);
                       Assign(mask.mutable_shape(), shape);
                       for (int64_t i = 0; i < count; ++i) mask.mutable_data()->push_back(static_cast<char>(i % 3));
                     },
                     [=](Meaning& told) { told.options.mask = core::BroadcastTensor{.shape = shape}; }}});
  cases->push_back({"bias",
                    "of two axes",
                    Effect::kChanges,
                    {[=](v1::AttendRequest& request) {
                       v1::Tensor& bias = *Options(request).mutable_bias();
                       bias.set_data_type(v1::DATA_TYPE_FLOAT32);
                       Assign(bias.mutable_shape(), shape);
                       std::vector<float> elements(count);
                       for (int64_t i = 0; i < count; ++i) elements[i] = static_cast<float>(i % 7) / 4;
                       elements[5] = -std::numeric_limits<float>::infinity();
                       bias.set_data(elements.data(), count * sizeof(float));
                     },
                     [=](Meaning& told) { told.options.bias = core::BroadcastTensor{.shape = shape}; }}});
  // A tensor that is set and empty is no default.
  cases->push_back({"mask", "empty", Effect::kInvalid, {[](v1::AttendRequest& r) { Options(r).mutable_mask(); }}});
  cases->push_back({"bias", "empty", Effect::kInvalid, {[](v1::AttendRequest& r) { Options(r).mutable_bias(); }}});
}

void AddTypeCases(bool bfloat16_products, std::vector<OptionCase>* cases) {
  const auto compute_type = [cases](v1::ComputeType value, Effect effect, core::ComputeType meaning) {
    cases->push_back({"compute_type",
                      v1::ComputeType_Name(value),
                      effect,
                      {[value](v1::AttendRequest& request) { Options(request).set_compute_type(value); },
                       [meaning](Meaning& told) { told.options.compute_type = meaning; }}});
  };
  compute_type(v1::COMPUTE_TYPE_UNSPECIFIED, Effect::kIsDefault, core::ComputeType::kAsInputs);
  // Where the processor has no such products it is computed as ever.
  compute_type(v1::COMPUTE_TYPE_BF16, bfloat16_products ? Effect::kChanges : Effect::kIsDefault,
               core::ComputeType::kBFloat16);
  const auto output_type = [cases](v1::DataType value, ElementType inputs, Effect effect) {
    cases->push_back({"output_type",
                      v1::DataType_Name(value),
                      effect,
                      {[value](v1::AttendRequest& request) { Options(request).set_output_type(value); },
                       [effect](Meaning& told) {
                         if (effect == Effect::kChanges) told.options.output_type = ElementType::kFloat32;
                       }},
                      {[](v1::AttendRequest&) {}, [inputs](Meaning& told) { told.type = inputs; }}});
  };
  output_type(v1::DATA_TYPE_UNSPECIFIED, ElementType::kFloat32, Effect::kIsDefault);
  output_type(v1::DATA_TYPE_FLOAT32, ElementType::kFloat32, Effect::kIsDefault);
  output_type(v1::DATA_TYPE_FLOAT32, ElementType::kBFloat16, Effect::kChanges);
  output_type(v1::DATA_TYPE_FLOAT32, ElementType::kFloat16, Effect::kChanges);
  output_type(v1::DATA_TYPE_BFLOAT16, ElementType::kBFloat16, Effect::kIsDefault);
  output_type(v1::DATA_TYPE_FLOAT16, ElementType::kFloat16, Effect::kIsDefault);
  output_type(v1::DATA_TYPE_FLOAT16, ElementType::kFloat32, Effect::kInvalid);
  output_type(v1::DATA_TYPE_BOOL, ElementType::kFloat32, Effect::kInvalid);
  output_type(v1::DATA_TYPE_INT64, ElementType::kFloat32, Effect::kInvalid);
}

// reject_non_finite changes nothing for numbers, and refuses what is none even where no query sees it.
void AddNonFiniteCases(std::vector<OptionCase>* cases) {
  const Setting option = {[](v1::AttendRequest& request) { Options(request).set_reject_non_finite(true); }};
  cases->push_back({"reject_non_finite", "true, of numbers", Effect::kIsDefault, option});
  const Setting one_nan = {[](v1::AttendRequest& request) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    request.mutable_key()->mutable_data()->replace(8 * sizeof(float), sizeof(float),
                                                   reinterpret_cast<const char*>(&nan), sizeof(float));
    Assign(Options(request).mutable_key_lengths(), std::vector<int64_t>{1, 9});
  }};
  cases->push_back({"reject_non_finite", "true, of a NaN", Effect::kInvalid, option, one_nan});
}

void AddResultCases(std::vector<OptionCase>* cases) {
  cases->push_back({"weights", "true", Effect::kChanges, Weights()});
  cases->push_back({"logsumexp", "true", Effect::kChanges, Logsumexp()});
  const Setting rows = {[](v1::AttendRequest& request) {
                          Assign(Results(request).mutable_weight_query_rows(), std::vector<int64_t>{4, 1});
                        },
                        [](Meaning& told) {
                          told.results.weight_query_rows = {4, 1};
                        }};
  cases->push_back({"weight_query_rows", "4, 1", Effect::kChanges, rows, Weights()});
  cases->push_back({"weight_query_rows", "4, 1 of nothing", Effect::kInvalid, rows});
  const Setting average = {[](v1::AttendRequest& request) { Results(request).set_average_weights_over_heads(true); },
                           [](Meaning& told) { told.results.average_weights_over_heads = true; }};
  cases->push_back({"average_weights_over_heads", "true", Effect::kChanges, average, Weights()});
  cases->push_back({"average_weights_over_heads", "true of nothing", Effect::kInvalid, average});
  const Setting omit = {[](v1::AttendRequest& request) { Results(request).set_omit_output(true); },
                        [](Meaning& told) { told.results.omit_output = true; }};
  cases->push_back({"omit_output", "true", Effect::kChanges, omit, Logsumexp()});
  cases->push_back({"omit_output", "true of nothing else", Effect::kInvalid, omit});
  const auto scores = [cases](v1::ScoreStage value, Effect effect, core::ScoreStage stage) {
    cases->push_back({"scores",
                      v1::ScoreStage_Name(value),
                      effect,
                      {[value](v1::AttendRequest& request) { Results(request).set_scores(value); },
                       [stage](Meaning& told) { told.results.scores = stage; }},
                      SoftcapAndCausal()});
  };
  scores(v1::SCORE_STAGE_UNSPECIFIED, Effect::kIsDefault, core::ScoreStage::kNone);
  scores(v1::SCORE_STAGE_NONE, Effect::kIsDefault, core::ScoreStage::kNone);
  scores(v1::SCORE_STAGE_SCALED, Effect::kChanges, core::ScoreStage::kScaled);
  scores(v1::SCORE_STAGE_SOFTCAPPED, Effect::kChanges, core::ScoreStage::kSoftcapped);
  scores(v1::SCORE_STAGE_MASKED, Effect::kChanges, core::ScoreStage::kMasked);
}

}  // namespace

std::vector<OptionCase> AllOptionCases(bool bfloat16_products) {
  std::vector<OptionCase> cases;
  AddLayoutAndCausalCases(&cases);
  AddNumberCases(&cases);
  AddListCases(&cases);
  AddTensorCases(&cases);
  AddTypeCases(bfloat16_products, &cases);
  AddNonFiniteCases(&cases);
  AddResultCases(&cases);
  return cases;
}

}  // namespace attend::testing
