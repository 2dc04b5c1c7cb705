// reject_non_finite: looks at every element of query, key and value, a bounded piece at a time.
#ifndef ATTEND_SERVER_NON_FINITE_SEARCH_H_
#define ATTEND_SERVER_NON_FINITE_SEARCH_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/attention_problem.h"
#include "core/element_type.h"

namespace attend::server {

// Movable. Not thread-safe; different threads may call Step in turn.
class NonFiniteSearch {
 public:
  // `inputs` are the problem's and outlive the search. Elements that no query sees, padding among them, count as well.
  NonFiniteSearch(const core::AttentionProblem& problem, const core::AttentionInputs& inputs);

  // Looks at up to `max_bytes` more, at least one element. INVALID_ARGUMENT with a Violation (ELEMENT_NOT_FINITE) for
  // the first element, of query, then key, then value, that is NaN or infinite: "key.data has nan at [0, 1, 17, 3]".
  absl::Status Step(int64_t max_bytes);
  bool done() const { return tensor_ == tensors_.size(); }

 private:
  struct Tensor {
    absl::string_view field;
    const void* elements;
    std::vector<int64_t> shape;
    int64_t count;
  };
  absl::Status Refuse(const Tensor& tensor, int64_t index) const;

  core::ElementType type_;
  std::array<Tensor, 3> tensors_;
  size_t tensor_ = 0;  // the tensor that is looked at
  int64_t next_ = 0;   // and its first element that was not
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_NON_FINITE_SEARCH_H_
