#include "server/response_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "attend/v1/attention.pb.h"

namespace attend::server {
namespace {

using ::testing::ElementsAre;

core::AttentionProblem Problem(core::Layout layout, const core::ResultSelection& results, int64_t query_length = 3) {
  const core::AttentionShape shape = {.batch = 2,
                                      .query_heads = 4,
                                      .kv_heads = 2,
                                      .query_length = query_length,
                                      .key_length = 5,
                                      .head_dim = 8,
                                      .value_dim = 6};
  return *core::AttentionProblem::Create(shape, core::ElementType::kBFloat16, {.layout = layout}, results);
}

v1::AttendResponse Parse(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  std::string all;
  for (const grpc::Slice& slice : slices) all.append(slice.begin(), slice.end());
  v1::AttendResponse response;
  EXPECT_TRUE(response.ParseFromString(all));
  return response;
}

ResponseTimings Timings() {
  return {.receive = absl::Milliseconds(1500),
          .queue = absl::Nanoseconds(7),
          .pack = absl::ZeroDuration(),
          .compute = absl::Seconds(3),
          .encode = absl::Nanoseconds(-1)};
}

TEST(ResponseWriterTest, SendsWhatWasWritten) {
  const core::AttentionProblem problem = Problem(core::Layout::kBHND, {.weights = true, .logsumexp = true});
  core::BufferPool buffers(0);
  auto writer = ResponseWriter::Create(problem, buffers);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const core::AttentionResults results = writer->results();
  std::memset(results.output, 'o', static_cast<size_t>(problem.OutputBytes()));
  std::memset(results.weights, 'w', static_cast<size_t>(problem.WeightsBytes()));
  std::memset(results.logsumexp, 'l', static_cast<size_t>(problem.LogsumexpBytes()));
  ResponseWriter moved = *std::move(writer);
  const v1::AttendResponse response = Parse(std::move(moved).Finish(Timings(), "an id"));

  EXPECT_EQ(response.output().data(), std::string(2 * 4 * 3 * 6 * 2, 'o'));
  EXPECT_EQ(response.output().data_type(), v1::DATA_TYPE_BFLOAT16);
  EXPECT_THAT(response.output().shape(), ElementsAre(2, 4, 3, 6));
  EXPECT_EQ(response.weights().data(), std::string(2 * 4 * 3 * 5 * 4, 'w'));
  EXPECT_EQ(response.weights().data_type(), v1::DATA_TYPE_FLOAT32);
  EXPECT_THAT(response.weights().shape(), ElementsAre(2, 4, 3, 5));
  EXPECT_EQ(response.logsumexp().data(), std::string(2 * 4 * 3 * 4, 'l'));
  EXPECT_EQ(response.logsumexp().data_type(), v1::DATA_TYPE_FLOAT32);
  EXPECT_THAT(response.logsumexp().shape(), ElementsAre(2, 4, 3));
  EXPECT_FALSE(response.has_scores());
  EXPECT_EQ(response.multiply_adds(), 2 * 4 * 3 * 5 * (8 + 6));
  EXPECT_EQ(response.request_id(), "an id");
  EXPECT_EQ(response.timings().receive().seconds(), 1);
  EXPECT_EQ(response.timings().receive().nanos(), 500'000'000);
  EXPECT_EQ(response.timings().queue().nanos(), 7);
  EXPECT_TRUE(response.timings().has_pack());
  EXPECT_EQ(response.timings().compute().seconds(), 3);
  EXPECT_EQ(response.timings().encode().nanos(), 0) << "a clock that steps back is no negative time";
}

TEST(ResponseWriterTest, SendsOnlyWhatWasAskedFor) {
  const core::AttentionProblem problem = Problem(core::Layout::kBNHD, {});
  core::BufferPool buffers(0);
  auto writer = ResponseWriter::Create(problem, buffers);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(writer->results().weights, nullptr);
  EXPECT_EQ(writer->results().logsumexp, nullptr);
  std::memset(writer->results().output, 'o', static_cast<size_t>(problem.OutputBytes()));
  const v1::AttendResponse response = Parse((*std::move(writer)).Finish({}, ""));
  EXPECT_THAT(response.output().shape(), ElementsAre(2, 3, 4, 6));
  EXPECT_FALSE(response.has_weights());
  EXPECT_FALSE(response.has_logsumexp());
}

TEST(ResponseWriterTest, SendsScoresAndWeightsOfSomeRowsWithoutAnOutput) {
  const core::AttentionProblem problem = Problem(core::Layout::kBHND, {.weights = true,
                                                                       .weight_query_rows = {2, 0},
                                                                       .average_weights_over_heads = true,
                                                                       .scores = core::ScoreStage::kMasked,
                                                                       .omit_output = true});
  core::BufferPool buffers(0);
  auto writer = ResponseWriter::Create(problem, buffers);
  ASSERT_TRUE(writer.ok()) << writer.status();
  EXPECT_EQ(writer->results().output, nullptr);
  std::memset(writer->results().weights, 'w', static_cast<size_t>(problem.WeightsBytes()));
  std::memset(writer->results().scores, 's', static_cast<size_t>(problem.ScoresBytes()));
  const v1::AttendResponse response = Parse((*std::move(writer)).Finish({}, ""));
  EXPECT_FALSE(response.has_output());
  EXPECT_THAT(response.weights().shape(), ElementsAre(2, 2, 5));
  EXPECT_EQ(response.weights().data(), std::string(2 * 2 * 5 * 4, 'w'));
  EXPECT_THAT(response.scores().shape(), ElementsAre(2, 4, 2, 5));
  EXPECT_EQ(response.scores().data_type(), v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(response.scores().data(), std::string(2 * 4 * 2 * 5 * 4, 's'));
}

TEST(ResponseWriterTest, SendsFloat32OutputOfRaggedBatches) {
  const core::AttentionShape shape = {
      .batch = 2, .query_heads = 4, .kv_heads = 2, .query_length = 3, .key_length = 5, .head_dim = 8, .value_dim = 6};
  const auto problem = core::AttentionProblem::Create(shape, core::ElementType::kBFloat16,
                                                      {.layout = core::Layout::kTHD,
                                                       .query_starts = {0, 1, 3},
                                                       .key_starts = {0, 0, 5},
                                                       .output_type = core::ElementType::kFloat32},
                                                      {.logsumexp = true});
  ASSERT_TRUE(problem.ok()) << problem.status();
  core::BufferPool buffers(0);
  auto writer = ResponseWriter::Create(*problem, buffers);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::memset(writer->results().output, 'o', static_cast<size_t>(problem->OutputBytes()));
  std::memset(writer->results().logsumexp, 'l', static_cast<size_t>(problem->LogsumexpBytes()));
  const v1::AttendResponse response = Parse((*std::move(writer)).Finish({}, ""));
  EXPECT_EQ(response.output().data_type(), v1::DATA_TYPE_FLOAT32);
  EXPECT_THAT(response.output().shape(), ElementsAre(3, 4, 6));
  EXPECT_EQ(response.output().data(), std::string(3 * 4 * 6 * 4, 'o'));
  EXPECT_THAT(response.logsumexp().shape(), ElementsAre(4, 3));
  EXPECT_EQ(response.logsumexp().data(), std::string(4 * 3 * 4, 'l'));
}

TEST(ResponseWriterTest, AnEmptyResultHasItsShape) {
  const core::AttentionProblem problem = Problem(core::Layout::kBHND, {.weights = true}, 0);
  core::BufferPool buffers(0);
  auto writer = ResponseWriter::Create(problem, buffers);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const v1::AttendResponse response = Parse((*std::move(writer)).Finish({}, ""));
  EXPECT_THAT(response.output().shape(), ElementsAre(2, 4, 0, 6));
  EXPECT_THAT(response.weights().shape(), ElementsAre(2, 4, 0, 5));
  EXPECT_EQ(response.output().data(), "");
}

TEST(ResponseWriterTest, SendsFromTheMemoryThatWasWrittenAndGivesItBack) {
  const core::AttentionProblem problem = Problem(core::Layout::kBHND, {}, 10'000);
  core::BufferPool buffers(int64_t{1} << 30);
  auto writer = ResponseWriter::Create(problem, buffers);
  ASSERT_TRUE(writer.ok()) << writer.status();
  const void* const output = writer->results().output;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(output) % 64, 0U);
  EXPECT_GE(buffers.used_bytes(), problem.OutputBytes());
  grpc::ByteBuffer bytes = (*std::move(writer)).Finish({}, "");
  {
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(bytes.Dump(&slices).ok());
    const bool in_place = std::any_of(slices.begin(), slices.end(),
                                      [output](const grpc::Slice& slice) { return slice.begin() == output; });
    EXPECT_TRUE(in_place);
  }
  EXPECT_GE(buffers.used_bytes(), problem.OutputBytes());
  bytes.Clear();
  EXPECT_EQ(buffers.used_bytes(), 0);
  EXPECT_GE(buffers.idle_bytes(), problem.OutputBytes());
}

TEST(PredictResponseBytesTest, IsAnUpperBoundThatIsClose) {
  for (const int64_t query_length : {0, 1, 3, 100, 5000}) {
    for (const core::ResultSelection& results :
         {core::ResultSelection{},
          core::ResultSelection{.weights = true, .scores = core::ScoreStage::kScaled, .logsumexp = true}}) {
      const core::AttentionProblem problem = Problem(core::Layout::kBHND, results, query_length);
      core::BufferPool buffers(0);
      auto writer = ResponseWriter::Create(problem, buffers);
      ASSERT_TRUE(writer.ok()) << writer.status();
      const absl::Duration long_time = absl::Hours(24 * 365 * 100) + absl::Nanoseconds(999'999'999);
      const std::string long_id(128, 'x');
      const grpc::ByteBuffer longest =
          (*std::move(writer)).Finish({long_time, long_time, long_time, long_time, long_time}, long_id);
      EXPECT_LE(static_cast<int64_t>(longest.Length()), PredictResponseBytes(problem));
      EXPECT_GT(static_cast<int64_t>(longest.Length()) + 512, PredictResponseBytes(problem));
    }
  }
}

TEST(PredictResponseBytesTest, Saturates) {
  const core::AttentionShape shape = {.batch = int64_t{1} << 30,
                                      .query_heads = 1,
                                      .kv_heads = 1,
                                      .query_length = int64_t{1} << 30,
                                      .key_length = 1,
                                      .head_dim = 1,
                                      .value_dim = 1};
  const auto problem =
      core::AttentionProblem::Create(shape, core::ElementType::kFloat32, {}, {.weights = true, .logsumexp = true});
  ASSERT_TRUE(problem.ok()) << problem.status();
  EXPECT_EQ(PredictResponseBytes(*problem), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace attend::server
