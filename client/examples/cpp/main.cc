// Attention from C++: health, a call small enough to check by hand, a large one in bfloat16, an error and a deadline.
//
// usage: attend_example [HOST:PORT], by default ATTEND_ADDRESS, else 127.0.0.1:8001
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "client/attend_client.h"
#include "client/error_details.h"
#include "client/tensor.h"

namespace {

using attend::client::AttendRequest;
using attend::client::AttendResult;
using attend::client::FloatTensorView;
using attend::client::Tensor;
using attend::client::TensorView;

// Tensors are sent from the program's own memory, which has to stay until the call is over.
constexpr float kQuery[] = {1, 0, 0.5, 1};
constexpr float kKey[] = {1, 0, 0.8, 1, 0, 1, 0.2, 0, 0.2, 0.2, 0.4, 0.1};
constexpr float kValue[] = {0.9, 0.1, 0.7, 0.8, 0.1, 0.9, 0.2, 0.1, 0.3, 0.3, 0.5, 0.2};

AttendRequest WorkedExample() {
  AttendRequest request;
  request.query = FloatTensorView({1, 1, 1, 4}, kQuery);
  request.key = FloatTensorView({1, 1, 3, 4}, kKey);
  request.value = FloatTensorView({1, 1, 3, 4}, kValue);
  request.results.set_weights(true);
  return request;
}

// `length` bfloat16 elements, quarters that rise and fall back: element i is (i mod period - period / 2) / 4. A
// bfloat16 is the upper half of a float32.
std::vector<uint16_t> Ramp(int period, int length) {
  std::vector<uint16_t> elements(length);
  for (int i = 0; i < length; ++i) {
    const float element = static_cast<float>(i % period - period / 2) / 4;
    elements[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(element) >> 16);
  }
  return elements;
}

TensorView Bfloat16TensorView(std::vector<int64_t> shape, std::span<const uint16_t> elements) {
  return {attend::v1::DATA_TYPE_BFLOAT16, std::move(shape), std::as_bytes(elements)};
}

std::vector<float> Bfloat16s(const Tensor& tensor) {
  std::vector<float> elements(tensor.data().size() / 2);
  for (size_t i = 0; i < elements.size(); ++i) {
    uint16_t upper_half;
    std::memcpy(&upper_half, &tensor.data()[2 * i], sizeof(upper_half));
    elements[i] = std::bit_cast<float>(uint32_t{upper_half} << 16);
  }
  return elements;
}

void PrintFloats(const char* name, std::span<const float> elements) {
  std::printf("%-11s", name);
  for (const float element : elements) std::printf(" %.4f", element);
  std::printf("\n");
}

void PrintLargeOutput(const Tensor& output) {
  const std::vector<float> elements = Bfloat16s(output);
  double sum = 0;
  for (const float element : elements) sum += std::abs(element);
  std::printf("large shape %s\n", absl::StrJoin(output.shape(), " ").c_str());
  std::printf("large mean  %.6f\n", sum / static_cast<double>(elements.size()));
  PrintFloats("large last", std::span(elements).last(4));
}

// Prints what a failed call says to people and, in its details, to programs.
void PrintError(const char* name, const absl::Status& status) {
  std::printf("%-11s %s\n", name, status.ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  if (const auto details = attend::client::GetErrorDetails(status); details && !details->field.empty()) {
    std::printf("field       %s\nvalue       %s\nlimit       %s\n", details->field.c_str(), details->value.c_str(),
                details->limit.c_str());
  }
}

absl::Status Run(const std::string& address) {
  // The client takes answers of any length, and sends a call again while the server is busy or away.
  auto client = attend::client::Client::Create({.target = address});
  if (!client.ok()) return client.status();

  const absl::StatusOr<attend::client::Health> health = (*client)->CheckHealth("", {.fail_fast = true});
  if (!health.ok()) return health.status();
  std::printf("health      %s\n", std::string(attend::client::HealthName(*health)).c_str());

  absl::StatusOr<AttendResult> result = (*client)->Attend(WorkedExample());
  if (!result.ok()) return result.status();
  PrintFloats("weights", result->weights.floats());
  PrintFloats("output", result->output.floats());

  // 32 sequences of 160 tokens, 8 query heads on 2 kv heads, causal: 7.9 MB there, 5.2 MB back.
  const std::vector<uint16_t> query = Ramp(31, 32 * 8 * 160 * 64);
  const std::vector<uint16_t> key = Ramp(29, 32 * 2 * 160 * 64);
  const std::vector<uint16_t> value = Ramp(37, 32 * 2 * 160 * 64);
  AttendRequest large;
  large.query = Bfloat16TensorView({32, 8, 160, 64}, query);
  large.key = Bfloat16TensorView({32, 2, 160, 64}, key);
  large.value = Bfloat16TensorView({32, 2, 160, 64}, value);
  large.options.set_causal(attend::v1::CAUSAL_ALIGNMENT_TOP_LEFT);
  result = (*client)->Attend(large);
  if (!result.ok()) return result.status();
  PrintLargeOutput(result->output);

  AttendRequest wrong = WorkedExample();
  wrong.options.add_key_lengths(4);  // there are 3 keys
  PrintError("error", (*client)->Attend(wrong).status());
  PrintError("deadline", (*client)->Attend(large, {.timeout = absl::Milliseconds(1)}).status());
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const char* variable = std::getenv("ATTEND_ADDRESS");
  const absl::Status status = Run(argc > 1 ? argv[1] : variable != nullptr ? variable : attend::client::kDefaultTarget);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString(absl::StatusToStringMode::kWithNoExtraData).c_str());
  return 1;
}
