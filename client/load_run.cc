#include "client/load_run.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/random_tensor.h"

namespace attend::client {
namespace {

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.data_type() == b.data_type() && a.shape() == b.shape() &&
         std::equal(a.data().begin(), a.data().end(), b.data().begin(), b.data().end());
}

bool NoServer(const LengthFigures& figures) {
  return figures.ok == 0 && figures.errors.count(absl::StatusCode::kUnavailable) > 0 && figures.errors.size() == 1;
}

}  // namespace

// The calls of one length, all with the same request. Thread-safe.
class LoadRun::LengthCalls {
 public:
  LengthCalls(AttendRequest request, const std::vector<std::unique_ptr<Client>>& clients, const CallOptions& options,
              bool keep_first, size_t kind)
      : request_(std::move(request)), clients_(clients), options_(options), keep_first_(keep_first), kind_(kind) {}

  std::function<void()> Start(int64_t call, LoadLoop::Done done) {
    Client& client = *clients_[static_cast<size_t>(call) % clients_.size()];
    const PendingCall pending = client.AttendAsync(
        request_, options_, [this, done = std::move(done)](const absl::StatusOr<AttendResult>& result) {
          CallRecord record = {.status = result.status(), .kind = kind_};
          if (!result.ok()) return done(std::move(record));
          if (keep_first_) Compare(*result);
          record.server = result->server;
          record.multiply_adds = result->multiply_adds;
          record.bytes = result->request_bytes + result->response_bytes;
          done(std::move(record));
        });
    return [pending] { pending.Cancel(); };
  }

  const AttendRequest& request() const { return request_; }
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

  const AttendRequest request_;
  const std::vector<std::unique_ptr<Client>>& clients_;
  const CallOptions options_;
  const bool keep_first_;
  const size_t kind_;
  mutable std::mutex mutex_;
  std::optional<AttendResult> first_;
  int64_t differing_ = 0;
};

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
  MeasureAlone(report);
  const bool all = report.failure.ok() && !report.interrupted && report.lengths.size() == options_.lengths.size();
  if (all && !options_.mix.empty() && !NoServer(report.lengths.back())) MeasureMix(report);
  progress_.Clear();
  return report;
}

void LoadRun::MeasureAlone(LoadReport& report) {
  const size_t parts = options_.lengths.size() + (options_.mix.empty() ? 0 : 1);
  for (size_t i = 0; i < options_.lengths.size() && !report.interrupted; ++i) {
    const int64_t length = options_.lengths[i];
    progress_.StartPart(absl::StrCat("length ", length), i + 1, parts);
    std::optional<double> rate = options_.rate;
    if (rate && !options_.mix.empty()) *rate *= options_.mix[i].share;  // the calls that the mix has of it
    auto figures = Measure({{.length = length, .share = 1}}, rate, report.interrupted);
    if (!figures.ok()) {
      report.failure = figures.status();
      return;
    }
    if (figures->empty() || (report.interrupted && figures->front().ok + figures->front().failed == 0)) return;
    report.lengths.push_back(std::move(figures->front()));
    if (NoServer(report.lengths.back())) return;
  }
}

void LoadRun::MeasureMix(LoadReport& report) {
  progress_.StartPart("mix", options_.lengths.size() + 1, options_.lengths.size() + 1);
  auto figures = Measure(options_.mix, options_.rate, report.interrupted);
  if (!figures.ok()) {
    report.failure = figures.status();
    return;
  }
  for (size_t i = 0; i < figures->size(); ++i) {
    LengthFigures& length = (*figures)[i];
    report.mix_unsent = std::exchange(length.unsent, 0);  // of all lengths, like those in flight
    report.mix_abandoned = std::exchange(length.abandoned, 0);
    report.mix.push_back({.share = options_.mix[i].share, .figures = std::move(length)});
  }
}

absl::StatusOr<std::vector<LengthFigures>> LoadRun::Measure(const std::vector<MixedLength>& lengths,
                                                            std::optional<double> rate, bool& interrupted) {
  progress_.ShowPhase("making inputs");
  std::vector<std::unique_ptr<LengthCalls>> calls;
  for (const MixedLength& mixed : lengths) {
    auto request = MakeLoadRequest(options_, mixed.length, interrupted_);
    interrupted = interrupted_();
    if (interrupted) return std::vector<LengthFigures>();
    if (!request.ok()) return request.status();
    calls.push_back(std::make_unique<LengthCalls>(*std::move(request), clients_, call_, options_.verify, calls.size()));
  }
  MixOrder order(lengths);
  const auto starter = [&](int64_t call, LoadLoop::Done done) {
    return calls[order.Next()]->Start(call, std::move(done));
  };

  progress_.ShowPhase("warming up");
  constexpr int kMostWarming = 16;
  LoadLoop warming(starter, {.in_flight = std::min(options_.InFlight(), kMostWarming), .interrupted = interrupted_});
  interrupted = warming.Run({.duration = options_.warmup}).interrupted;
  if (interrupted) return std::vector<LengthFigures>();

  LoadLoop loop(starter, {.kinds = lengths.size(),
                          .in_flight = options_.InFlight(),
                          .rate = rate,
                          .interrupted = interrupted_,
                          .progress = [this](const LoadMeasurement& seen, absl::Duration elapsed) {
                            progress_.ShowMeasurement(seen, elapsed);
                          }});
  LoopLimits limits;
  if (options_.count) limits.count = *options_.count;
  if (options_.duration || !options_.count) limits.duration = options_.duration.value_or(absl::Seconds(5));
  const LoopOutcome outcome = loop.Run(limits);
  interrupted = outcome.interrupted;

  std::vector<LengthFigures> figures;
  for (size_t i = 0; i < lengths.size(); ++i) {
    const LoadMeasurement& seen = outcome.by_kind.empty() ? outcome.measurement : outcome.by_kind[i];
    figures.push_back(MakeLengthFigures(options_, lengths[i].length, outcome, seen));
    if (absl::Status status = Verify(*calls[i], figures.back()); !status.ok()) return status;
  }
  return figures;
}

// Compares the first answer of a length with the reference, if it was kept.
absl::Status LoadRun::Verify(const LengthCalls& calls, LengthFigures& figures) {
  const std::optional<AttendResult> first = calls.first();
  if (!first) return absl::OkStatus();
  progress_.ShowPhase("verifying");
  auto verification = VerifyResult(calls.request(), *first, {.rows = options_.verify_rows, .seed = options_.seed});
  if (!verification.ok()) return verification.status();
  figures.verification = *std::move(verification);
  figures.differing_answers = calls.differing();
  return absl::OkStatus();
}

}  // namespace attend::client
