// Kinds of options that several subcommands have: one word of a list, lists of numbers, bounded numbers.
#ifndef ATTEND_CLIENT_COMMAND_OPTIONS_H_
#define ATTEND_CLIENT_COMMAND_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
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

// A number as T holds it; CLI11's own conversion would saturate. False for a whole number beyond T; a real number
// beyond T is infinite.
template <typename T>
bool ParseNumber(absl::string_view text, T& number) {
  if constexpr (std::is_integral_v<T>) return absl::SimpleAtoi(text, &number);
  if constexpr (std::is_same_v<T, float>) return absl::SimpleAtof(text, &number);
  if constexpr (std::is_same_v<T, double>) return absl::SimpleAtod(text, &number);
}

// A check that a text is a number in [minimum, maximum]; without arguments, any that T holds but infinities.
template <typename T>
std::function<std::string(const std::string&)> InRange(T minimum = std::numeric_limits<T>::lowest(),
                                                       T maximum = std::numeric_limits<T>::max()) {
  return [minimum, maximum](const std::string& text) {
    T number = 0;
    const bool good = ParseNumber(text, number) && number >= minimum && number <= maximum;
    return good ? std::string()
                : absl::StrCat("'", text, "' is not a ", std::is_integral_v<T> ? "whole " : "", "number of at least ",
                               minimum, " and at most ", maximum);
  };
}

// What an option holds, which may be absent.
template <typename T>
struct Held {
  using Number = T;
};
template <typename T>
struct Held<std::optional<T>> {
  using Number = T;
};

// Adds option `name`, a whole number not below `minimum`.
template <typename T>
CLI::Option* AddNumberOption(CLI::App& command, const std::string& name, T& number, int minimum,
                             const std::string& description) {
  return command.add_option(name, number, description)
      ->check(InRange<typename Held<T>::Number>(minimum))
      ->type_name("N");
}

// Adds option `name`, a list such as "3,5" of numbers not below `minimum`. CLI11 would skip empty elements.
template <typename T>
CLI::Option* AddListOption(CLI::App& command, const std::string& name, std::vector<T>& list,
                           const std::string& description, T minimum = std::numeric_limits<T>::lowest()) {
  CLI::Option* option = command.add_option_function<std::string>(
      name,
      [&list](const std::string& text) {
        list.clear();
        for (const absl::string_view element : absl::StrSplit(text, ',')) ParseNumber(element, list.emplace_back());
      },
      description);
  return option->type_name("N,N")->check([minimum](const std::string& text) {
    for (const std::string& element : std::vector<std::string>(absl::StrSplit(text, ','))) {
      if (element.empty()) return absl::StrCat("'", text, "' has an empty element");
      if (std::string problem = InRange<T>(minimum)(element); !problem.empty()) return problem;
    }
    return std::string();
  });
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
