// One Attend request from its message to its response, whatever brought the message: it is taken apart, checked,
// admitted, gathered, computed and answered, on the threads of the compute pool. Small messages are taken apart on
// their caller's thread, and tiny problems computed there if a worker sleeps: waking one would take longer than they
// do.
#ifndef ATTEND_SERVER_ATTEND_WORK_H_
#define ATTEND_SERVER_ATTEND_WORK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/attention_problem.h"
#include "core/compute_pool.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/admission.h"
#include "server/attend_backend.h"
#include "server/input_gatherer.h"
#include "server/metrics.h"
#include "server/non_finite_search.h"
#include "server/response_writer.h"

namespace attend::server {

class AttendWork : public std::enable_shared_from_this<AttendWork> {
 public:
  // A message that has arrived.
  struct Arrival {
    grpc::ByteBuffer message;
    std::string client;      // whose turn admission takes
    std::string request_id;  // used if the request has none of its own
    absl::Time deadline;
    absl::Time last_byte;    // when it had arrived whole
    absl::Duration receive;  // from headers to last byte
  };

  struct Outcome {
    absl::Status status;
    grpc::ByteBuffer response;                      // if OK
    std::string request_id;                         // the request's, once it is known to be printable
    std::optional<core::AttentionProblem> problem;  // once it is decoded
    ResponseTimings timings;
    int64_t multiply_adds = 0;
    CallStage stage = CallStage::kQueued;  // where the work ended
  };

  struct Events {
    // The message is copied into memory of ours: what was charged for receiving it may go. Not at admission, which
    // comes before: gRPC holds the message till it is copied, and resets connections where its quota runs short.
    std::function<void()> gathered;
    // Called exactly once, last, on any thread, perhaps before Start returns; must not block.
    std::function<void(Outcome)> done;
  };

  // `backend` outlives the work. Shared: the work is held by its caller, which may cancel it, and by whatever will
  // advance it next (a task, admission, a job).
  static std::shared_ptr<AttendWork> Create(const AttendBackend& backend, Arrival arrival, Events events);

  // Begins, and returns at once, or after some 100 microseconds. Called once, and not by a worker.
  void Start();

  // Ends the work with CANCELLED, soon: queued work is dropped, running work abandoned within one tile.
  void Cancel();

  // Gives the reserved bytes back: for the caller, once the response has left. Only after `done`.
  void ReleaseMemory() { reservation_.Release(); }

 private:
  // What will happen next, and so what Cancel must do.
  enum class Stage {
    kTask,       // a task runs or will: it looks for cancellation
    kAdmitting,  // being handed to admission: whoever does that will look
    kWaiting,    // admission decides
    kWithdrawn,  // cancelled while waiting: a decision that comes all the same is ignored
    kComputing,  // the job will end
  };

  AttendWork(const AttendBackend& backend, Arrival arrival, Events events);

  // Steps, in order. Each runs on a worker, or before any was posted on the caller's thread, and calls, posts, or waits
  // for, the next.
  void Read();
  void Decode(wire::AttendRequestParts parts);
  void Reserve();
  void Admitted(const absl::Status& status);
  void Allocate();
  void Gather();
  void Search();  // only with reject_non_finite
  void Compute();
  void Computed(const absl::Status& status, const core::JobTimings& timings);
  void End(absl::Status status);

  bool IsTiny() const;
  void Withdraw();
  void SetStage(Stage stage);
  void Post(void (AttendWork::*step)());
  bool EndIfCancelled();

  const AttendBackend& backend_;
  Arrival arrival_;
  Events events_;
  Outcome outcome_;
  Admission::Reservation reservation_;
  RequestTensors tensors_;  // until they are gathered
  int priority_ = 5;
  std::optional<InputGatherer> gatherer_;
  bool reject_non_finite_ = false;
  std::optional<NonFiniteSearch> search_;
  std::optional<ResponseWriter> writer_;
  absl::Time submitted_;
  bool posted_ = false;  // some step: the thread is a worker's from then on

  std::mutex mutex_;  // guards what follows; never held while calling out
  Stage stage_ = Stage::kTask;
  bool cancelled_ = false;
  core::ComputePool::JobId job_ = 0;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_ATTEND_WORK_H_
