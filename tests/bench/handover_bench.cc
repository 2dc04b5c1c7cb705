// Where the time of a tiny problem goes, from what describes it to its result.
//
//   attend_bench_handover [LENGTH [DIM [HEADS]]]          defaults: 16 64 1
//
// Every figure is in microseconds: the median, and what one call in a hundred exceeds. A call is submitted to a pool
// that sleeps, since the processors differ in how fast they wake: after a pause of a millisecond, of 100 and of 10 us.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "core/attention_engine.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "core/compute_pool.h"
#include "core/tile_kernels.h"
#include "core/tiled_attention.h"
#include "tests/bench/processor_time.h"

namespace attend::bench {
namespace {

using Time = std::chrono::steady_clock::time_point;

Time Now() { return std::chrono::steady_clock::now(); }

constexpr int kCalls = 2000;

// One part of a call, over all calls.
class Part {
 public:
  explicit Part(std::string name) : name_(std::move(name)) {}
  void Add(Time from, Time to) {
    microseconds_.push_back(std::chrono::duration<double, std::micro>(to - from).count());
  }
  void Print() {
    if (microseconds_.empty()) return;
    std::sort(microseconds_.begin(), microseconds_.end());
    std::cout << absl::StrFormat("  %-36s %7.2f %7.2f\n", name_, At(0.5), At(0.99));
  }

 private:
  double At(double share) const { return microseconds_[static_cast<size_t>(share * (microseconds_.size() - 1))]; }

  const std::string name_;
  std::vector<double> microseconds_;
};

// The times of one call's tiles. Workers write it, at most one at a time where there is one block.
struct TileTimes {
  Time first, last, packed;
};

// Forwards to attention and notes when.
class TimedSource final : public core::TileSource {
 public:
  TimedSource(std::unique_ptr<core::TileSource> source, TileTimes& times) : source_(std::move(source)), times_(times) {}

  StepResult Step(int worker) override {
    const Time begin = Now();
    const StepResult result = source_->Step(worker);
    if (result.outcome != Outcome::kAdvanced) return result;
    if (!begun_.exchange(true)) times_.first = begin;
    (result.packing ? times_.packed : times_.last) = Now();
    return result;
  }
  bool finished() const override { return source_->finished(); }
  absl::Status status() const override { return source_->status(); }
  int parallelism() const override { return source_->parallelism(); }
  int64_t total_multiply_adds() const override { return source_->total_multiply_adds(); }

 private:
  const std::unique_ptr<core::TileSource> source_;
  TileTimes& times_;
  std::atomic<bool> begun_ = false;
};

// One problem with its tensors, and all that computes it.
class Bench {
 public:
  Bench(const core::AttentionShape& shape, int workers) : shape_(shape) {
    const auto elements = static_cast<size_t>(shape.query_heads * shape.query_length * shape.head_dim);
    for (std::vector<float>* tensor : {&query_, &key_, &value_, &output_}) tensor->assign(elements, 0.5f);
    engine_ = *core::AttentionEngine::Create({.threads = workers});
    kernels_ = *core::TileKernels::Create({.workers = workers, .max_instruction_set = {}, .buffers = &buffers_});
    pool_ = *core::ComputePool::Create({.workers = workers});
  }

  // The caller alone, without a pool.
  void RunAlone() {
    Part describe("describe the problem"), cut("cut it into tiles"), pack("pack"), compute("compute"),
        drop("forget it"), all("all");
    omp_set_num_threads(1);
    for (int call = 0; call < kCalls; ++call) {
      const Time start = Now();
      core::AttentionProblem problem = Describe();
      const Time described = Now();
      auto source = Cut(std::move(problem));
      const Time cut_up = Now();
      TileTimes times;
      times.packed = cut_up;
      while (!source->finished()) {
        if (source->Step(0).packing) times.packed = Now();
      }
      const Time computed = Now();
      source.reset();
      const Time end = Now();
      describe.Add(start, described);
      cut.Add(described, cut_up);
      pack.Add(cut_up, times.packed);
      compute.Add(times.packed, computed);
      drop.Add(computed, end);
      all.Add(start, end);
    }
    std::cout << "one thread, no pool\n";
    for (Part* part : {&describe, &cut, &pack, &compute, &drop, &all}) part->Print();
  }

  void RunPool(std::chrono::microseconds pause) {
    Part cut("describe and cut"), submit("Submit returns"), wake("from Submit to the first tile"),
        tiles("tiles, packing included"), done("from the last tile to done"), known("from done to the caller"),
        result("from Submit to the result");
    for (int call = 0; call < kCalls; ++call) {
      Pause(pause);
      TileTimes times;
      Time done_at;
      std::atomic<int> over = 0;
      const Time start = Now();
      auto source = std::make_unique<TimedSource>(Cut(Describe()), times);
      const Time submitted = Now();
      pool_->Submit({.source = std::move(source), .done = [&](const absl::Status&, const core::JobTimings&) {
                       done_at = Now();
                       over.store(1);
                       over.notify_one();
                     }});
      const Time returned = Now();
      over.wait(0);
      const Time end = Now();
      cut.Add(start, submitted);
      submit.Add(submitted, returned);
      wake.Add(submitted, times.first);
      tiles.Add(times.first, times.last);
      done.Add(times.last, done_at);
      known.Add(done_at, end);
      result.Add(submitted, done_at);
    }
    std::cout << absl::StrFormat("pool of %d, submitted every %d us\n", pool_->workers(), pause.count());
    for (Part* part : {&cut, &submit, &wake, &tiles, &done, &known, &result}) part->Print();
  }

  // The caller computes.
  void RunCaller(std::chrono::microseconds pause) {
    Part all("Compute");
    for (int call = 0; call < kCalls; ++call) {
      Pause(pause);
      const Time start = Now();
      const absl::Status status = engine_->Compute(
          Describe(), {.query = query_.data(), .key = key_.data(), .value = value_.data()}, {.output = output_.data()});
      all.Add(start, Now());
      if (!status.ok()) std::cerr << status << "\n";
    }
    std::cout << absl::StrFormat("synchronous call, %d threads, every %d us\n", engine_->threads(), pause.count());
    all.Print();
  }

 private:
  core::AttentionProblem Describe() const {
    return *core::AttentionProblem::Create(shape_, core::ElementType::kFloat32);
  }
  std::unique_ptr<core::TileSource> Cut(core::AttentionProblem problem) {
    return *core::TiledAttention::Create(std::move(problem),
                                         {.query = query_.data(), .key = key_.data(), .value = value_.data()},
                                         {.output = output_.data()}, *kernels_);
  }
  // Short pauses are spent awake: the system's own wake-up would take as long.
  static void Pause(std::chrono::microseconds pause) {
    if (pause >= std::chrono::microseconds(100)) return std::this_thread::sleep_for(pause);
    const Time until = Now() + pause;
    while (Now() < until) {
    }
  }

  const core::AttentionShape shape_;
  core::BufferPool buffers_{int64_t{64} << 20};
  std::unique_ptr<core::TileKernels> kernels_;
  std::vector<float> query_, key_, value_, output_;
  std::unique_ptr<core::ComputePool> pool_;
  std::unique_ptr<core::AttentionEngine> engine_;
};

int Run(const core::AttentionShape& shape) {
  const OtherLoad load;
  Bench bench(shape, omp_get_num_procs());
  std::cout << absl::StrFormat("length %d, dim %d, %d heads: microseconds, median and 99th percentile of %d calls\n",
                               shape.query_length, shape.head_dim, shape.query_heads, kCalls);
  bench.RunAlone();
  for (const int pause : {1000, 100, 10}) bench.RunPool(std::chrono::microseconds(pause));
  for (const int pause : {1000, 100, 10}) bench.RunCaller(std::chrono::microseconds(pause));
  std::cout << absl::StrFormat("others took %.1f %% of the processors\n", 100 * load.Share());
  return 0;
}

}  // namespace
}  // namespace attend::bench

int main(int argc, char** argv) {
  int64_t numbers[] = {16, 64, 1};
  for (int i = 1; i < argc; ++i) {
    if (i > 3 || !absl::SimpleAtoi(argv[i], &numbers[i - 1]) || numbers[i - 1] < 1) {
      std::cerr << "usage: attend_bench_handover [LENGTH [DIM [HEADS]]]\n";
      return 2;
    }
  }
  const auto [length, dim, heads] = numbers;
  return attend::bench::Run({.batch = 1,
                             .query_heads = heads,
                             .kv_heads = heads,
                             .query_length = length,
                             .key_length = length,
                             .head_dim = dim,
                             .value_dim = dim});
}
