#include "client/load_run.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "client/random_tensor.h"

namespace attend::client {
namespace {

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.data_type() == b.data_type() && a.shape() == b.shape() &&
         std::equal(a.data().begin(), a.data().end(), b.data().begin(), b.data().end());
}

// The calls of one length, all with the same request. Thread-safe.
class LengthCalls {
 public:
  LengthCalls(const AttendRequest& request, const std::vector<std::unique_ptr<Client>>& clients,
              const CallOptions& options, bool keep_first)
      : request_(request), clients_(clients), options_(options), keep_first_(keep_first) {}

  std::function<void()> Start(int64_t call, LoadLoop::Done done) {
    Client& client = *clients_[static_cast<size_t>(call) % clients_.size()];
    const PendingCall pending = client.AttendAsync(
        request_, options_, [this, done = std::move(done)](const absl::StatusOr<AttendResult>& result) {
          if (!result.ok()) return done({.status = result.status()});
          if (keep_first_) Compare(*result);
          done({.status = absl::OkStatus(),
                .server = result->server,
                .multiply_adds = result->multiply_adds,
                .bytes = result->request_bytes + result->response_bytes});
        });
    return [pending] { pending.Cancel(); };
  }

  // The first answer, if it was to be kept and there was one, and how many of the others have other bits.
  std::optional<AttendResult> first() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return first_;
  }
  int64_t differing() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return differing_;
  }

 private:
  void Compare(const AttendResult& result) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!first_) {
      first_ = result;
      return;
    }
    const AttendResult first = *first_;
    lock.unlock();
    if (SameBits(first.output, result.output) && SameBits(first.weights, result.weights)) return;
    lock.lock();
    ++differing_;
  }

  const AttendRequest& request_;
  const std::vector<std::unique_ptr<Client>>& clients_;
  const CallOptions options_;
  const bool keep_first_;
  mutable std::mutex mutex_;
  std::optional<AttendResult> first_;
  int64_t differing_ = 0;
};

bool NoServer(const LengthFigures& figures) {
  return figures.ok == 0 && figures.errors.count(absl::StatusCode::kUnavailable) > 0 && figures.errors.size() == 1;
}

}  // namespace

absl::StatusOr<AttendRequest> MakeLoadRequest(const LoadOptions& options, int64_t length,
                                              const std::function<bool()>& interrupted) {
  const v1::DataType type = options.element_type;
  const auto make = [&](int64_t heads, int64_t rows, int64_t dim, uint64_t seed) {
    return MakeRandomTensor(type, {options.batch, heads, rows, dim}, seed, interrupted);
  };
  auto query = make(options.heads, options.QueryLength(length), options.head_dim, 3 * options.seed);
  auto key = make(options.KvHeads(), length, options.head_dim, 3 * options.seed + 1);
  auto value = make(options.KvHeads(), length, options.ValueDim(), 3 * options.seed + 2);
  for (const auto* tensor : {&query, &key, &value}) {
    if (!tensor->ok()) return tensor->status();
  }
  AttendRequest request;
  request.query = *std::move(query);
  request.key = *std::move(key);
  request.value = *std::move(value);
  request.options.set_causal(options.causal);
  if (options.window_left) request.options.set_window_left(*options.window_left);
  if (options.window_right) request.options.set_window_right(*options.window_right);
  request.options.set_softcap(options.softcap);
  request.options.set_compute_type(options.compute_type);
  request.results.set_weights(options.weights);
  return request;
}

LoadRun::LoadRun(const LoadOptions& options, const std::vector<std::unique_ptr<Client>>& clients,
                 const CallOptions& call, std::function<bool()> interrupted, LoadProgress& progress)
    : options_(options), clients_(clients), call_(call), interrupted_(std::move(interrupted)), progress_(progress) {}

LoadReport LoadRun::Run(const v1::GetServerInfoResponse& server) {
  LoadReport report{.address = clients_.front()->target(),
                    .server_version = server.version(),
                    .instruction_set = server.instruction_set(),
                    .compute_threads = server.compute_threads(),
                    .problem = options_.ProblemText(),
                    .load = options_.LoadText(),
                    .seed = options_.seed,
                    .lengths = {}};
  for (size_t i = 0; i < options_.lengths.size() && !report.interrupted; ++i) {
    progress_.StartLength(options_.lengths[i], i + 1, options_.lengths.size());
    auto figures = MeasureLength(options_.lengths[i], report.interrupted);
    if (!figures.ok()) {
      report.failure = figures.status();
      break;
    }
    if (report.interrupted && figures->ok + figures->failed == 0) break;
    report.lengths.push_back(*std::move(figures));
    if (NoServer(report.lengths.back())) break;
  }
  progress_.Clear();
  return report;
}

absl::StatusOr<LengthFigures> LoadRun::MeasureLength(int64_t length, bool& interrupted) {
  progress_.ShowPhase("making inputs");
  const auto request = MakeLoadRequest(options_, length, interrupted_);
  interrupted = interrupted_();
  if (interrupted) return LengthFigures{};
  if (!request.ok()) return request.status();
  LengthCalls calls(*request, clients_, call_, options_.verify);
  const auto starter = [&calls](int64_t call, LoadLoop::Done done) { return calls.Start(call, std::move(done)); };

  progress_.ShowPhase("warming up");
  constexpr int kMostWarming = 16;
  LoadLoop warming(starter, {.in_flight = std::min(options_.InFlight(), kMostWarming), .interrupted = interrupted_});
  interrupted = warming.Run({.duration = options_.warmup}).interrupted;
  if (interrupted) return LengthFigures{};

  LoadLoop loop(starter, {.in_flight = options_.InFlight(),
                          .rate = options_.rate,
                          .interrupted = interrupted_,
                          .progress = [this](const LoadMeasurement& seen, absl::Duration elapsed) {
                            progress_.ShowMeasurement(seen, elapsed);
                          }});
  LoopLimits limits;
  if (options_.count) limits.count = *options_.count;
  if (options_.duration || !options_.count) limits.duration = options_.duration.value_or(absl::Seconds(5));
  const LoopOutcome outcome = loop.Run(limits);
  interrupted = outcome.interrupted;

  LengthFigures figures = MakeLengthFigures(options_, length, outcome);
  const std::optional<AttendResult> first = calls.first();
  if (!first) return figures;
  progress_.ShowPhase("verifying");
  auto verification = VerifyResult(*request, *first, {.rows = options_.verify_rows, .seed = options_.seed});
  if (!verification.ok()) return verification.status();
  figures.verification = *std::move(verification);
  figures.differing_answers = calls.differing();
  return figures;
}

}  // namespace attend::client
