// The rate of attention as a share of the machine's own limit, a large matrix product of the same run.
//
//   attend_bench [--quick] [--json FILE] [--length N] [--dim D] [--heads H] [--causal] [--window W]
//
// The two take turns. Of each turn's two runs back to back the second counts, and of all turns the median: by the clock
// on the wall, and by processor time, which neighbours on the machine spoil less. The share of the processors that
// others took meanwhile is printed: beyond 3 % the figures by the wall clock mean little.
//
// With a window the contestants are causal attention over the last W keys of each query and over all of them: the time
// of the first as a share of that of the second.
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "core/attention_problem.h"
#include "core/buffer_pool.h"
#include "core/tile_kernels.h"
#include "core/tiled_attention.h"
#include "tests/bench/onednn_sgemm.h"
#include "tests/bench/processor_time.h"

namespace attend::bench {
namespace {

struct Options {
  int rounds = 15;
  int64_t length = 2048;
  int64_t dim = 128;
  int64_t heads = 8;
  bool causal = false;
  int64_t window = 0;  // keys that a query sees; 0: no window
  std::string json;
};

// 2 for a bad command line.
int ParseOptions(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto number = [&](int64_t& to) { return ++i < argc && absl::SimpleAtoi(argv[i], &to) && to > 0; };
    bool good = true;
    if (flag == "--quick") {
      options.rounds = 3;
    } else if (flag == "--causal") {
      options.causal = true;
    } else if (flag == "--json") {
      good = ++i < argc;
      if (good) options.json = argv[i];
    } else if (flag == "--length") {
      good = number(options.length);
    } else if (flag == "--dim") {
      good = number(options.dim);
    } else if (flag == "--heads") {
      good = number(options.heads);
    } else if (flag == "--window") {
      good = number(options.window);
      options.causal = true;
    } else {
      good = false;
    }
    if (!good) {
      std::cerr << "attend_bench: bad argument " << flag << "\n";
      return 2;
    }
  }
  return 0;
}

// Attention on all processors, on tensors of its own.
class Attention {
 public:
  static absl::StatusOr<std::unique_ptr<Attention>> Create(const Options& options, int workers) {
    core::AttentionOptions attention_options;
    if (options.causal) attention_options.causal = core::CausalAlignment::kTopLeft;
    if (options.window > 0) attention_options.window_left = options.window - 1;
    auto problem = core::AttentionProblem::Create({.batch = 1,
                                                   .query_heads = options.heads,
                                                   .kv_heads = options.heads,
                                                   .query_length = options.length,
                                                   .key_length = options.length,
                                                   .head_dim = options.dim,
                                                   .value_dim = options.dim},
                                                  core::ElementType::kFloat32, attention_options);
    if (!problem.ok()) return problem.status();
    auto attention = std::unique_ptr<Attention>(new Attention(*std::move(problem)));
    auto kernels = core::TileKernels::Create(
        {.workers = workers, .max_instruction_set = std::nullopt, .buffers = &attention->buffers_});
    if (!kernels.ok()) return kernels.status();
    attention->kernels_ = *std::move(kernels);
    return attention;
  }

  double operations() const { return 2.0 * static_cast<double>(problem_.MultiplyAdds()); }
  absl::string_view instruction_set() const { return core::InstructionSetName(kernels_->instruction_set()); }

  absl::Status Run() {
    auto job =
        core::TiledAttention::Create(problem_, {.query = query_.data(), .key = key_.data(), .value = value_.data()},
                                     {.output = output_.data(), .weights = nullptr, .logsumexp = nullptr}, *kernels_);
    if (!job.ok()) return job.status();
    std::vector<std::thread> threads;
    for (int worker = 0; worker < kernels_->workers(); ++worker) {
      threads.emplace_back([&source = **job, worker] {
        omp_set_num_threads(1);
        while (source.Step(worker).outcome != core::TileSource::Outcome::kExhausted) {
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return (*job)->status();
  }

 private:
  explicit Attention(core::AttentionProblem problem) : problem_(std::move(problem)) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& tensor, int64_t bytes) {
      tensor.resize(static_cast<size_t>(bytes) / sizeof(float));
      for (float& x : tensor) x = normal(random);
    };
    fill(query_, problem_.QueryBytes());
    fill(key_, problem_.KeyBytes());
    fill(value_, problem_.ValueBytes());
    fill(output_, problem_.OutputBytes());
  }

  core::AttentionProblem problem_;
  core::BufferPool buffers_{int64_t{1} << 30};
  std::unique_ptr<core::TileKernels> kernels_;
  std::vector<float> query_, key_, value_, output_;
};

// Medians of one contestant, in operations per second.
struct Rates {
  std::vector<double> wall, processor;
  double WallRate() { return Median(wall); }
  double ProcessorRate() { return Median(processor); }

  static double Median(std::vector<double>& rates) {
    std::nth_element(rates.begin(), rates.begin() + rates.size() / 2, rates.end());
    return rates[rates.size() / 2];
  }
};

// Runs twice and records the second run. Processor time counts as if the workers had shared it evenly.
void Measure(const std::function<void()>& run, double operations, int workers, Rates& rates) {
  run();
  const auto wall_start = std::chrono::steady_clock::now();
  const auto processor_start = OwnProcessorTime();
  run();
  const std::chrono::duration<double> processor = OwnProcessorTime() - processor_start;
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - wall_start;
  rates.wall.push_back(operations / wall.count());
  rates.processor.push_back(operations / processor.count() * workers);
}

struct Measurement {
  absl::string_view instruction_set;
  int workers = 0;
  Rates attention, sgemm;
  double others = 0;  // the share of the processors that went to other programs
};

std::string Json(const Options& options, Measurement& measured) {
  return absl::StrFormat(
      "{\"instruction_set\": \"%s\", \"workers\": %d, \"length\": %d, \"dim\": %d, \"heads\": %d, \"causal\": %s, "
      "\"onednn_version\": \"%s\", \"attention_gflops\": %.1f, \"sgemm_gflops\": %.1f, \"share_of_sgemm\": %.3f, "
      "\"share_of_sgemm_by_processor_time\": %.3f, \"others_share_of_processors\": %.3f}\n",
      measured.instruction_set, measured.workers, options.length, options.dim, options.heads,
      options.causal ? "true" : "false", core::TileKernels::OneDnnVersion(), measured.attention.WallRate() / 1e9,
      measured.sgemm.WallRate() / 1e9, measured.attention.WallRate() / measured.sgemm.WallRate(),
      measured.attention.ProcessorRate() / measured.sgemm.ProcessorRate(), measured.others);
}

int Fail(const absl::Status& status) {
  std::cerr << "attend_bench: " << status << "\n";
  return 1;
}

int WriteJson(const std::string& path, const std::string& json) {
  if (path.empty()) return 0;
  std::ofstream file(path);
  file << json;
  file.close();
  if (file.good()) return 0;
  std::cerr << "attend_bench: cannot write " << path << "\n";
  return 1;
}

// Times, not rates, are compared: what a window leaves out is work that need not be done.
int RunWindow(const Options& options) {
  constexpr double kGoal = 0.10;  // of length 16,384 and a window of 512
  const int workers = omp_get_num_procs();
  Options all = options;
  all.window = 0;
  auto window = Attention::Create(options, workers);
  auto causal = Attention::Create(all, workers);
  if (!window.ok()) return Fail(window.status());
  if (!causal.ok()) return Fail(causal.status());
  const OtherLoad load;
  Rates window_rates, causal_rates;  // of whole runs a second
  absl::Status status;
  for (int round = 0; round < options.rounds && status.ok(); ++round) {
    Measure([&] { status.Update((*window)->Run()); }, 1, workers, window_rates);
    Measure([&] { status.Update((*causal)->Run()); }, 1, workers, causal_rates);
  }
  const double others = load.Share();
  if (!status.ok()) return Fail(status);
  const double wall = causal_rates.WallRate() / window_rates.WallRate();
  const double processor = causal_rates.ProcessorRate() / window_rates.ProcessorRate();
  std::cout << absl::StrFormat("f32 causal attention, length %d, dim %d, %d heads, %d workers, %s, oneDNN %s\n",
                               options.length, options.dim, options.heads, workers, (*window)->instruction_set(),
                               core::TileKernels::OneDnnVersion());
  std::cout << absl::StrFormat("all keys        %8.1f ms\n", 1e3 / causal_rates.WallRate());
  std::cout << absl::StrFormat("window of %-5d %8.1f ms\n", options.window, 1e3 / window_rates.WallRate());
  std::cout << absl::StrFormat(
      "ratio           %8.3f, by processor time %.3f; goal at length 16384, window 512: %.2f\n", wall, processor,
      kGoal);
  std::cout << absl::StrFormat("others took     %8.1f %% of the processors\n", 100 * others);
  return WriteJson(options.json, absl::StrFormat("{\"length\": %d, \"dim\": %d, \"heads\": %d, \"window\": %d, "
                                                 "\"ratio\": %.4f, \"ratio_by_processor_time\": %.4f, "
                                                 "\"goal\": %.2f, \"others_share_of_processors\": %.3f}\n",
                                                 options.length, options.dim, options.heads, options.window, wall,
                                                 processor, kGoal, others));
}

int Run(const Options& options) {
  const int workers = omp_get_num_procs();
  auto attention = Attention::Create(options, workers);
  if (!attention.ok()) return Fail(attention.status());
  omp_set_num_threads(workers);
  OnednnSgemm sgemm;
  const OtherLoad load;
  Measurement measured;
  measured.instruction_set = (*attention)->instruction_set();
  measured.workers = workers;
  absl::Status status;
  for (int round = 0; round < options.rounds && status.ok(); ++round) {
    Measure([&] { sgemm.Run(); }, OnednnSgemm::kOperations, workers, measured.sgemm);
    Measure([&] { status.Update((*attention)->Run()); }, (*attention)->operations(), workers, measured.attention);
  }
  measured.others = load.Share();
  if (!status.ok()) return Fail(status);

  std::cout << absl::StrFormat("f32 attention, length %d, dim %d, %d heads%s, %d workers, %s, oneDNN %s\n",
                               options.length, options.dim, options.heads, options.causal ? ", causal" : "", workers,
                               (*attention)->instruction_set(), core::TileKernels::OneDnnVersion());
  std::cout << absl::StrFormat("attention       %7.1f GFLOP/s\n", measured.attention.WallRate() / 1e9);
  std::cout << absl::StrFormat("sgemm %4d^3    %7.1f GFLOP/s\n", OnednnSgemm::kSize, measured.sgemm.WallRate() / 1e9);
  std::cout << absl::StrFormat("share of sgemm  %5.1f %%, by processor time %.1f %%\n",
                               100 * measured.attention.WallRate() / measured.sgemm.WallRate(),
                               100 * measured.attention.ProcessorRate() / measured.sgemm.ProcessorRate());
  std::cout << absl::StrFormat("others took     %5.1f %% of the processors\n", 100 * measured.others);
  return WriteJson(options.json, Json(options, measured));
}

}  // namespace
}  // namespace attend::bench

int main(int argc, char** argv) {
  // OpenMP's threads must not spin beside the workers while those compute. It reads this when it is loaded.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    execv("/proc/self/exe", argv);
  }
  attend::bench::Options options;
  const int bad = attend::bench::ParseOptions(argc, argv, options);
  if (bad != 0) return bad;
  return options.window > 0 ? attend::bench::RunWindow(options) : attend::bench::Run(options);
}
