#include "server/attend_work.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/tiled_attention.h"
#include "server/attend_codec.h"

namespace attend::server {
namespace {

// How much one task copies: a fraction of a millisecond, so that neither tiles nor other requests wait for long.
constexpr int64_t kGatherBytes = int64_t{1} << 20;
// How much one task looks at for numbers that are not finite: likewise.
constexpr int64_t kSearchBytes = int64_t{1} << 20;

// What is small enough for a thread of its caller's: some 20 microseconds to take apart, gather and write, and as many
// to compute.
constexpr int64_t kSmallBytes = int64_t{64} << 10;
constexpr int64_t kTinyMultiplyAdds = int64_t{1} << 20;

constexpr char kCancelled[] = "cancelled by the caller";

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t InputBytes(const core::AttentionProblem& problem) {
  int64_t sum = 0;
  for (const int64_t bytes :
       {problem.QueryBytes(), problem.KeyBytes(), problem.ValueBytes(), problem.MaskBytes(), problem.BiasBytes()}) {
    sum = SaturatingAdd(sum, bytes);
  }
  return sum;
}

// Which field to name where a request can never be admitted.
std::string LargestField(const core::AttentionProblem& problem) {
  const std::pair<int64_t, const char*> fields[] = {
      {std::max(problem.QueryBytes(), problem.OutputBytes()), "query"},
      {SaturatingAdd(problem.KeyBytes(), problem.ValueBytes()), "key"},
      {problem.MaskBytes(), "options.mask"},
      {problem.BiasBytes(), "options.bias"},
      {problem.WeightsBytes(), "results.weights"},
      {problem.ScoresBytes(), "results.scores"},
  };
  const auto* largest = &fields[0];
  for (const auto& field : fields) {
    if (field.first > largest->first) largest = &field;
  }
  return largest->second;
}

}  // namespace

std::shared_ptr<AttendWork> AttendWork::Create(const AttendBackend& backend, Arrival arrival, Events events) {
  return std::shared_ptr<AttendWork>(new AttendWork(backend, std::move(arrival), std::move(events)));
}

AttendWork::AttendWork(const AttendBackend& backend, Arrival arrival, Events events)
    : backend_(backend), arrival_(std::move(arrival)), events_(std::move(events)) {
  outcome_.request_id = arrival_.request_id;
  outcome_.timings.receive = arrival_.receive;
}

void AttendWork::Start() {
  if (static_cast<int64_t>(arrival_.message.Length()) > kSmallBytes) return Post(&AttendWork::Read);
  Read();
}

void AttendWork::Post(void (AttendWork::*step)()) {
  posted_ = true;
  backend_.pool.Post([self = shared_from_this(), step] { (self.get()->*step)(); });
}

bool AttendWork::EndIfCancelled() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!cancelled_) return false;
  }
  End(absl::CancelledError(kCancelled));
  return true;
}

void AttendWork::SetStage(Stage stage) {
  std::lock_guard<std::mutex> lock(mutex_);
  stage_ = stage;
}

void AttendWork::Read() {
  if (EndIfCancelled()) return;
  absl::StatusOr<wire::AttendRequestParts> parts = ReadAttendRequest(arrival_.message);
  arrival_.message.Clear();
  if (!parts.ok()) return End(parts.status());
  if (absl::Status status = CheckRequestId(parts->message.request_id()); !status.ok()) return End(std::move(status));
  if (!parts->message.request_id().empty()) outcome_.request_id = parts->message.request_id();
  Decode(*std::move(parts));
}

void AttendWork::Decode(wire::AttendRequestParts parts) {
  absl::StatusOr<DecodedRequest> request = DecodeAttendRequest(std::move(parts), backend_.limits);
  if (!request.ok()) return End(request.status());
  outcome_.problem = request->problem;
  priority_ = request->priority;
  reject_non_finite_ = request->reject_non_finite;
  tensors_ = std::move(request->tensors);
  Reserve();
}

void AttendWork::Reserve() {
  const core::AttentionProblem& problem = *outcome_.problem;
  const int64_t scratch = core::PredictScratchBytes(problem, backend_.kernels);
  Admission::Request request{
      .client = arrival_.client,
      .bytes = SaturatingAdd(SaturatingAdd(InputBytes(problem), scratch), PredictResponseBytes(problem)),
      .multiply_adds = problem.MultiplyAdds(),
      .deadline = arrival_.deadline,
      .largest_field = LargestField(problem)};
  SetStage(Stage::kAdmitting);
  const absl::StatusOr<Admission::Decision> decision =
      backend_.admission.Admit(reservation_, std::move(request),
                               [self = shared_from_this()](const absl::Status& status) { self->Admitted(status); });
  if (!decision.ok()) return End(decision.status());
  if (*decision == Admission::Decision::kAdmitted) {
    SetStage(Stage::kTask);
    return Allocate();
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stage_ != Stage::kAdmitting) return;  // decided already
    stage_ = Stage::kWaiting;
    if (!cancelled_) return;
    stage_ = Stage::kWithdrawn;
  }
  Withdraw();
}

void AttendWork::Withdraw() {
  reservation_.Release();
  End(absl::CancelledError(kCancelled));
}

void AttendWork::Admitted(const absl::Status& status) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (stage_ == Stage::kWithdrawn) return;
    stage_ = Stage::kTask;
  }
  if (!status.ok()) return End(status);
  Post(&AttendWork::Allocate);
}

// Whether the problem is done sooner than a worker wakes.
bool AttendWork::IsTiny() const {
  return outcome_.problem->MultiplyAdds() <= kTinyMultiplyAdds &&
         PredictResponseBytes(*outcome_.problem) <= kSmallBytes;
}

void AttendWork::Allocate() {
  if (EndIfCancelled()) return;
  absl::StatusOr<ResponseWriter> writer = ResponseWriter::Create(*outcome_.problem, backend_.buffers);
  if (!writer.ok()) return End(writer.status());
  writer_ = *std::move(writer);
  absl::StatusOr<InputGatherer> gatherer =
      InputGatherer::Create(*outcome_.problem, std::move(tensors_), backend_.buffers);
  if (!gatherer.ok()) return End(gatherer.status());
  gatherer_ = *std::move(gatherer);
  Gather();
}

void AttendWork::Gather() {
  if (EndIfCancelled()) return;
  if (!gatherer_->Step(kGatherBytes)) return Post(&AttendWork::Gather);
  events_.gathered();
  if (!reject_non_finite_) return Compute();
  search_.emplace(*outcome_.problem, gatherer_->inputs());
  Post(&AttendWork::Search);
}

void AttendWork::Search() {
  if (EndIfCancelled()) return;
  if (absl::Status status = search_->Step(kSearchBytes); !status.ok()) return End(std::move(status));
  if (!search_->done()) return Post(&AttendWork::Search);
  Compute();
}

void AttendWork::Compute() {
  outcome_.stage = CallStage::kComputing;
  absl::StatusOr<std::unique_ptr<core::TiledAttention>> source =
      core::TiledAttention::Create(*outcome_.problem, gatherer_->inputs(), writer_->results(), backend_.kernels);
  if (!source.ok()) return End(source.status());
  submitted_ = backend_.clock.Now();
  // The work outlives the job, which holds it, so that its tensors stay where the tiles look for them.
  core::ComputePool::Job computation = {
      .source = *std::move(source),
      .priority = priority_,
      .deadline = arrival_.deadline,
      .done = [self = shared_from_this()](const absl::Status& status, const core::JobTimings& timings) {
        self->Computed(status, timings);
      }};
  core::ComputePool& pool = backend_.pool;
  const bool here = !posted_ && IsTiny();
  const core::ComputePool::JobId job =
      here ? pool.SubmitHere(std::move(computation)) : pool.Submit(std::move(computation));
  bool cancelled = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stage_ = Stage::kComputing;
    job_ = job;
    cancelled = cancelled_;
  }
  if (cancelled) pool.Cancel(job);
}

void AttendWork::Computed(const absl::Status& status, const core::JobTimings& timings) {
  gatherer_.reset();
  outcome_.timings.queue = submitted_ - arrival_.last_byte + timings.queue;
  outcome_.timings.pack = timings.pack;
  outcome_.timings.compute = timings.compute;
  if (!status.ok()) return End(status);
  // The problem's own, as the response gives them and as Admit() was told: not those of the tiles, which are padded.
  outcome_.multiply_adds = outcome_.problem->MultiplyAdds();
  backend_.backlog.RecordJob(outcome_.multiply_adds, timings.busy);
  outcome_.timings.encode = backend_.clock.Now() - submitted_ - timings.queue - timings.pack - timings.compute;
  outcome_.response = std::move(*writer_).Finish(outcome_.timings, outcome_.request_id);
  End(absl::OkStatus());
}

void AttendWork::End(absl::Status status) {
  // What the request held besides its reservation goes now; events_ is let go of because it holds the caller, which
  // holds this.
  gatherer_.reset();
  writer_.reset();
  tensors_ = {};
  outcome_.status = std::move(status);
  const Events events = std::exchange(events_, {});
  events.done(std::move(outcome_));
}

void AttendWork::Cancel() {
  core::ComputePool::JobId job = 0;
  bool withdraw = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    if (stage_ == Stage::kComputing) job = job_;
    if (stage_ == Stage::kWaiting) {
      stage_ = Stage::kWithdrawn;
      withdraw = true;
    }
  }
  if (job != 0) backend_.pool.Cancel(job);
  if (withdraw) Withdraw();
}

}  // namespace attend::server
