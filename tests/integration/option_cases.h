// Every option of the contract, and every value of those that are enumerations: how it is said on the wire, what the
// oracle is told, and what becomes of a request that has it.
#ifndef ATTEND_TESTS_INTEGRATION_OPTION_CASES_H_
#define ATTEND_TESTS_INTEGRATION_OPTION_CASES_H_

#include <functional>
#include <string>
#include <vector>

#include "attend/v1/attention.pb.h"
#include "core/attention_problem.h"

namespace attend::testing {

// The problem that the options are for; in layout THD with both lengths times the batch.
inline constexpr core::AttentionShape kOptionShape = {
    .batch = 2, .query_heads = 4, .kv_heads = 2, .query_length = 5, .key_length = 9, .head_dim = 8, .value_dim = 6};

// What setting an option does.
enum class Effect {
  kChanges,    // other results, as the oracle says
  kIsDefault,  // the results of a request that does not set it
  kInvalid,    // refused, and only because of it
};

// What the oracle is told.
struct Meaning {
  core::ElementType type = core::ElementType::kFloat32;
  core::AttentionOptions options = {};
  core::ResultSelection results = {};
};

// A part of a request, in both languages.
struct Setting {
  std::function<void(v1::AttendRequest&)> set;
  std::function<void(Meaning&)> meaning = [](Meaning&) {};
};

struct OptionCase {
  std::string field;  // as in the proto
  std::string value;  // of an enumeration as in the proto, of anything else for reports
  Effect effect;
  Setting option;
  Setting beside = {[](v1::AttendRequest&) {}};  // what else is asked for, with the option and without
};

// `bfloat16_products`: whether the server's processor has them, without which compute_type BF16 changes nothing. Masks
// and biases that are set are of type BOOL and FLOAT32.
std::vector<OptionCase> AllOptionCases(bool bfloat16_products);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_INTEGRATION_OPTION_CASES_H_
