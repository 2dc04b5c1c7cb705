// Measures the core and the machine's limits, as it is asked on its standard input: tests/bench/bench.py asks, and lets
// other programs take turns with this one.
//
//   attend_bench [INSTRUCTION_SET]     caps what the core and oneDNN use, for the whole process
//
//   about                                        what computes here
//   attention workers=2 runs=5 type=f32 ...      the problem: tests/bench/bench_request.h; by the synchronous call
//   attention ... submit=1                       through the pool, as a server does
//   matmul workers=2 runs=5 type=bf16            LargeMatmul
//   tiles workers=2 type=f32                     TileMatmuls
//   read workers=2 runs=5                        PlainRead
//   memory workers=2 type=f32 ...                the problem, in a fresh process
//
// Each answer is one line of JSON; of a failure {"error": "..."}. Timed are `runs` runs after `warm` (1 unless said)
// that are not: "wall" and "processor" hold the seconds of each. Tensors of the last few problems are kept.
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tests/bench/bench_request.h"
#include "tests/bench/core_attention.h"
#include "tests/bench/machine_limits.h"
#include "tests/bench/processor_time.h"
#include "tests/bench/resident_memory.h"

namespace attend::bench {
namespace {

class BenchProgram {
 public:
  explicit BenchProgram(std::optional<core::InstructionSet> most) : most_(most) {}

  // A line of JSON, or why there is none.
  absl::StatusOr<std::string> Answer(absl::string_view line) {
    const auto request = BenchRequest::Parse(line);
    if (!request.ok()) return request.status();
    if (request->word == "about") return About();
    if (request->word == "attention") return Attention(*request);
    if (request->word == "matmul") return Matmul(*request);
    if (request->word == "tiles") return Tiles(*request);
    if (request->word == "read") return Read(*request);
    if (request->word == "memory") return Memory(*request);
    return absl::InvalidArgumentError(absl::StrCat("unknown word ", request->word));
  }

 private:
  static int Workers(const BenchRequest& request) {
    return static_cast<int>(request.Number("workers", omp_get_num_procs()));
  }

  absl::StatusOr<CoreEngine*> Engine(int workers) {
    std::unique_ptr<CoreEngine>& engine = engines_[workers];
    if (engine == nullptr) {
      auto made = CoreEngine::Create(workers, most_);
      if (!made.ok()) return made.status();
      engine = *std::move(made);
    }
    return engine.get();
  }

  absl::StatusOr<ProblemTensors*> Tensors(const BenchRequest& request) {
    constexpr int64_t kMostBytes = int64_t{3} << 30;
    constexpr size_t kMostProblems = 4;
    auto problem = request.Problem();
    if (!problem.ok()) return problem.status();
    std::map<std::string, std::string> key = request.values;
    for (const char* name : {"workers", "runs", "warm"}) key.erase(name);
    for (auto& [name, tensors] : tensors_) {
      if (name == key) return tensors.get();
    }
    tensors_.emplace_back(key, std::make_unique<ProblemTensors>(*std::move(problem)));
    int64_t bytes = 0;
    for (const auto& [name, tensors] : tensors_) bytes += tensors->bytes();
    while (tensors_.size() > kMostProblems || (tensors_.size() > 1 && bytes > kMostBytes)) {
      bytes -= tensors_.front().second->bytes();
      tensors_.pop_front();
    }
    return tensors_.back().second.get();
  }

  // Runs as often as `request` says; `more` are further members of the answer.
  static absl::StatusOr<std::string> Time(const BenchRequest& request, const std::string& more,
                                          const std::function<absl::Status()>& run) {
    absl::Status status;
    for (int64_t i = request.Number("warm", 1); i > 0; --i) status.Update(run());
    std::vector<double> wall, processor;
    for (int64_t i = request.Number("runs", 1); i > 0 && status.ok(); --i) {
      const double wall_start = WallSeconds(), processor_start = ProcessorSeconds();
      status.Update(run());
      wall.push_back(WallSeconds() - wall_start);
      processor.push_back(ProcessorSeconds() - processor_start);
    }
    if (!status.ok()) return status;
    const auto number = [](std::string* out, double seconds) { absl::StrAppendFormat(out, "%.9f", seconds); };
    return absl::StrCat("{", more, ", \"wall\": [", absl::StrJoin(wall, ", ", number), "], \"processor\": [",
                        absl::StrJoin(processor, ", ", number), "]}");
  }

  absl::StatusOr<std::string> About() {
    const int workers = omp_get_num_procs();
    const auto engine = Engine(workers);
    if (!engine.ok()) return engine.status();
    return absl::StrFormat("{\"instruction_set\": \"%s\", \"workers\": %d, \"onednn\": \"%s\"}",
                           core::InstructionSetName((*engine)->kernels().instruction_set()), workers,
                           core::TileKernels::OneDnnVersion());
  }

  absl::StatusOr<std::string> Attention(const BenchRequest& request) {
    const auto engine = Engine(Workers(request));
    if (!engine.ok()) return engine.status();
    const auto tensors = Tensors(request);
    if (!tensors.ok()) return tensors.status();
    const core::AttentionProblem& problem = (*tensors)->problem();
    const std::string more =
        absl::StrFormat("\"operations\": %.0f, \"key_value_bytes\": %d",
                        2.0 * static_cast<double>(problem.MultiplyAdds()), problem.KeyBytes() + problem.ValueBytes());
    const bool submit = request.Number("submit", 0) != 0;
    return Time(request, more, [&] { return submit ? (*engine)->Submit(**tensors) : (*engine)->Run(**tensors); });
  }

  absl::StatusOr<std::string> Matmul(const BenchRequest& request) {
    const auto type = request.Type();
    if (!type.ok()) return type.status();
    std::unique_ptr<LargeMatmul>& matmul = matmuls_[*type];
    if (matmul == nullptr) {
      auto made = LargeMatmul::Create(*type);
      if (!made.ok()) return made.status();
      matmul = *std::move(made);
    }
    return Time(request, absl::StrFormat("\"operations\": %.0f", LargeMatmul::kOperations), [&] {
      matmul->Run(Workers(request));
      return absl::OkStatus();
    });
  }

  absl::StatusOr<std::string> Tiles(const BenchRequest& request) {
    const auto type = request.Type();
    if (!type.ok()) return type.status();
    std::unique_ptr<TileMatmuls>& tiles = tiles_[{*type, Workers(request)}];
    if (tiles == nullptr) {
      auto made = TileMatmuls::Create(*type, Workers(request));
      if (!made.ok()) return made.status();
      tiles = *std::move(made);
    }
    return absl::StrFormat("{\"rate\": %.0f}", tiles->Rate());
  }

  absl::StatusOr<std::string> Read(const BenchRequest& request) {
    if (read_ == nullptr) read_ = std::make_unique<PlainRead>();
    uint64_t sum = 0;
    auto answer = Time(request, absl::StrFormat("\"bytes\": %d", PlainRead::kBytes), [&] {
      sum += read_->Run(Workers(request));
      return absl::OkStatus();
    });
    // Always true, which the compiler cannot know.
    if (sum % 2 > 1) return absl::InternalError("impossible");
    return answer;
  }

  absl::StatusOr<std::string> Memory(const BenchRequest& request) {
    const auto tensors = Tensors(request);
    if (!tensors.ok()) return tensors.status();
    const int64_t before = ResidentBytes();
    if (!ResetPeakResidentBytes()) return absl::UnavailableError("/proc/self/clear_refs cannot be written");
    const auto engine = Engine(Workers(request));
    if (!engine.ok()) return engine.status();
    const double start = WallSeconds();
    const absl::Status status = (*engine)->Run(**tensors);
    if (!status.ok()) return status;
    return absl::StrFormat("{\"beyond_tensors\": %d, \"tensors\": %d, \"seconds\": %.6f}", PeakResidentBytes() - before,
                           (*tensors)->bytes(), WallSeconds() - start);
  }

  const std::optional<core::InstructionSet> most_;
  std::map<int, std::unique_ptr<CoreEngine>> engines_;  // by the number of workers
  std::map<core::ElementType, std::unique_ptr<LargeMatmul>> matmuls_;
  std::map<std::pair<core::ElementType, int>, std::unique_ptr<TileMatmuls>> tiles_;
  std::unique_ptr<PlainRead> read_;
  std::deque<std::pair<std::map<std::string, std::string>, std::unique_ptr<ProblemTensors>>> tensors_;
};

int Run(int argc, char** argv) {
  std::optional<core::InstructionSet> most;
  if (argc > 1) {
    const auto set = core::ParseInstructionSet(argv[1]);
    if (!set.ok()) {
      std::cerr << "attend_bench: " << set.status() << "\n";
      return 2;
    }
    most = *set;
  }
  BenchProgram program(most);
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << JsonLine(program.Answer(line)) << "\n" << std::flush;
  }
  return 0;
}

}  // namespace
}  // namespace attend::bench

int main(int argc, char** argv) {
  // OpenMP's threads must not spin beside the workers while those compute. It reads this when it is loaded.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    execv("/proc/self/exe", argv);
  }
  return attend::bench::Run(argc, argv);
}
