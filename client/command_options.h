// Kinds of options that several subcommands have: one word of a list, lists of numbers, bounded numbers.
#ifndef ATTEND_CLIENT_COMMAND_OPTIONS_H_
#define ATTEND_CLIENT_COMMAND_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "attend/v1/attention.pb.h"

namespace attend::client {

template <typename T>
using Choices = std::vector<std::pair<std::string, T>>;

// Adds option `name`, which stores in `chosen` what belongs to the word given; other words are refused with the list.
template <typename T>
CLI::Option* AddChoiceOption(CLI::App& command, const std::string& name, T& chosen, const Choices<T>& choices,
                             const std::string& description) {
  std::vector<std::string> words;
  std::string type_name;
  for (const auto& [word, value] : choices) {
    words.push_back(word);
    type_name += (type_name.empty() ? "" : "|") + word;
  }
  CLI::Option* option = command.add_option_function<std::string>(
      name,
      [choices, &chosen](const std::string& word) {
        const auto found = std::find_if(choices.begin(), choices.end(), [&](const auto& c) { return c.first == word; });
        if (found != choices.end()) chosen = found->second;
      },
      description);
  option->type_name(type_name);
  option->check([words, type_name](const std::string& word) {
    const bool known = std::find(words.begin(), words.end(), word) != words.end();
    return known ? std::string() : "'" + word + "' is not one of " + type_name;
  });
  return option;
}

// Adds option `name`, a list such as "3,5".
template <typename T>
CLI::Option* AddListOption(CLI::App& command, const std::string& name, std::vector<T>& list,
                           const std::string& description) {
  return command.add_option(name, list, description)->delimiter(',')->type_name("N,N");
}

// A check that a number is not below `minimum`.
inline std::function<std::string(const std::string&)> AtLeast(double minimum) {
  return [minimum](const std::string& text) {
    double number = 0;
    const bool good = absl::SimpleAtod(text, &number) && number >= minimum;
    return good ? std::string() : absl::StrCat("'", text, "' is not a number of at least ", minimum);
  };
}

// The words for the element types of query, key, value and output.
inline Choices<v1::DataType> FloatTypeChoices() {
  return {{"f32", v1::DATA_TYPE_FLOAT32}, {"bf16", v1::DATA_TYPE_BFLOAT16}, {"f16", v1::DATA_TYPE_FLOAT16}};
}

inline Choices<v1::CausalAlignment> CausalChoices() {
  return {{"none", v1::CAUSAL_ALIGNMENT_NONE},
          {"top_left", v1::CAUSAL_ALIGNMENT_TOP_LEFT},
          {"bottom_right", v1::CAUSAL_ALIGNMENT_BOTTOM_RIGHT}};
}

}  // namespace attend::client

#endif  // ATTEND_CLIENT_COMMAND_OPTIONS_H_
