#include "server/input_gatherer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>

namespace attend::server {
namespace {

core::AttentionProblem Problem(int64_t batch = 2) {
  const core::AttentionShape shape = {.batch = batch,
                                      .query_heads = 2,
                                      .kv_heads = 1,
                                      .query_length = 3,
                                      .key_length = 5,
                                      .head_dim = 4,
                                      .value_dim = 2};
  core::AttentionOptions options;
  if (batch > 0) {
    options.mask = core::BroadcastTensor{.shape = {batch, 1, 1, 5}};
    options.bias = core::BroadcastTensor{.shape = {3, 5}, .type = core::ElementType::kFloat16};
  }
  return *core::AttentionProblem::Create(shape, core::ElementType::kFloat32, options);
}

std::string Pattern(int64_t bytes, char seed) {
  std::string pattern(static_cast<size_t>(bytes), '\0');
  for (char& c : pattern) c = seed = static_cast<char>(seed * 5 + 1);
  return pattern;
}

wire::BulkBytes InSlices(const std::string& bytes, size_t slice_size) {
  wire::BulkBytes result;
  for (size_t start = 0; start < bytes.size(); start += slice_size) {
    result.Append(grpc::Slice(bytes.substr(start, slice_size)));
  }
  return result;
}

RequestTensors Tensors(const core::AttentionProblem& problem, size_t slice_size) {
  return {
      InSlices(Pattern(problem.QueryBytes(), 'q'), slice_size), InSlices(Pattern(problem.KeyBytes(), 'k'), slice_size),
      InSlices(Pattern(problem.ValueBytes(), 'v'), slice_size), InSlices(Pattern(problem.MaskBytes(), 'm'), slice_size),
      InSlices(Pattern(problem.BiasBytes(), 'b'), slice_size)};
}

void ExpectGathered(const core::AttentionProblem& problem, const core::AttentionInputs& inputs) {
  const auto bytes = [](const void* pointer, int64_t size) {
    return std::string(static_cast<const char*>(pointer), static_cast<size_t>(size));
  };
  EXPECT_EQ(bytes(inputs.query, problem.QueryBytes()), Pattern(problem.QueryBytes(), 'q'));
  EXPECT_EQ(bytes(inputs.key, problem.KeyBytes()), Pattern(problem.KeyBytes(), 'k'));
  EXPECT_EQ(bytes(inputs.value, problem.ValueBytes()), Pattern(problem.ValueBytes(), 'v'));
  EXPECT_EQ(bytes(inputs.mask, problem.MaskBytes()), Pattern(problem.MaskBytes(), 'm'));
  EXPECT_EQ(bytes(inputs.bias, problem.BiasBytes()), Pattern(problem.BiasBytes(), 'b'));
}

TEST(InputGathererTest, GathersInPiecesOfAnySize) {
  const core::AttentionProblem problem = Problem();
  core::BufferPool buffers(0);
  for (const int64_t step : {1, 7, 100, 1 << 20}) {
    auto gatherer = InputGatherer::Create(problem, Tensors(problem, 13), buffers);
    ASSERT_TRUE(gatherer.ok()) << gatherer.status();
    int64_t remaining = gatherer->remaining_bytes();
    // The mask is of 10 bytes, so in one piece of 13, and anywhere is where a byte may lie.
    EXPECT_EQ(remaining, problem.QueryBytes() + problem.KeyBytes() + problem.ValueBytes() + problem.BiasBytes());
    while (!gatherer->Step(step)) {
      EXPECT_EQ(gatherer->remaining_bytes(), remaining - step);
      remaining = gatherer->remaining_bytes();
    }
    EXPECT_TRUE(gatherer->done());
    ExpectGathered(problem, gatherer->inputs());
  }
}

TEST(InputGathererTest, LeavesInPlaceWhatIsWholeAndAligned) {
  const core::AttentionProblem problem = Problem();
  const std::string query = Pattern(problem.QueryBytes(), 'q');
  alignas(4) char memory[1024];
  std::memcpy(memory, query.data(), query.size());
  RequestTensors tensors = Tensors(problem, 13);
  tensors.query = wire::BulkBytes::Share(memory, problem.QueryBytes(), nullptr);
  core::BufferPool buffers(0);
  auto gatherer = InputGatherer::Create(problem, std::move(tensors), buffers);
  ASSERT_TRUE(gatherer.ok()) << gatherer.status();
  EXPECT_EQ(gatherer->inputs().query, memory);
  EXPECT_EQ(gatherer->remaining_bytes(), problem.KeyBytes() + problem.ValueBytes() + problem.BiasBytes());
  EXPECT_TRUE(gatherer->Step(1 << 20));
  ExpectGathered(problem, gatherer->inputs());
}

TEST(InputGathererTest, CopiesWhatIsWholeButNotAligned) {
  const core::AttentionProblem problem = Problem();
  const std::string query = Pattern(problem.QueryBytes(), 'q');
  alignas(4) char memory[1024];
  std::memcpy(memory + 2, query.data(), query.size());
  RequestTensors tensors = Tensors(problem, 13);
  tensors.query = wire::BulkBytes::Share(memory + 2, problem.QueryBytes(), nullptr);
  core::BufferPool buffers(0);
  auto gatherer = InputGatherer::Create(problem, std::move(tensors), buffers);
  ASSERT_TRUE(gatherer.ok()) << gatherer.status();
  EXPECT_TRUE(gatherer->Step(1 << 20));
  EXPECT_NE(gatherer->inputs().query, memory + 2);
  ExpectGathered(problem, gatherer->inputs());
}

TEST(InputGathererTest, InputsSurviveAMove) {
  const core::AttentionProblem problem = Problem();
  core::BufferPool buffers(0);
  auto created = InputGatherer::Create(problem, Tensors(problem, 1 << 20), buffers);
  ASSERT_TRUE(created.ok()) << created.status();
  InputGatherer first = *std::move(created);
  first.Step(10);
  InputGatherer second = std::move(first);
  EXPECT_TRUE(second.Step(1 << 20));
  ExpectGathered(problem, second.inputs());
}

TEST(InputGathererTest, NothingToGatherIsDone) {
  const core::AttentionProblem problem = Problem(0);
  core::BufferPool buffers(0);
  const auto gatherer = InputGatherer::Create(problem, {}, buffers);
  ASSERT_TRUE(gatherer.ok()) << gatherer.status();
  EXPECT_TRUE(gatherer->done());
  EXPECT_EQ(buffers.used_bytes(), 0);
}

}  // namespace
}  // namespace attend::server
