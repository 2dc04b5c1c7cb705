// One Attend call as gRPC sees it: refused at its headers, or let in by the receive gate, received, handed to
// AttendWork, and finished exactly once.
//
// A unary call to its client, a stream here: gRPC 1.51 reads the message of a unary call before any handler is called,
// so that what is still arriving could not be held back, timed or refused. A second message is never read: flow control
// keeps it at its sender.
#ifndef ATTEND_SERVER_ATTEND_REACTOR_H_
#define ATTEND_SERVER_ATTEND_REACTOR_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/attend_backend.h"
#include "server/attend_work.h"
#include "server/deadline_watch.h"
#include "server/metrics.h"
#include "server/receive_gate.h"
#include "server/request_log.h"

namespace attend::server {

// Owned by itself until gRPC is done with it, and by whatever may still call it: the gate, a timeout, its work.
class AttendReactor final : public grpc::ServerGenericBidiReactor, public std::enable_shared_from_this<AttendReactor> {
 public:
  // The reactor of a new call; never null. `backend` outlives it, `context` is valid until OnDone.
  static grpc::ServerGenericBidiReactor* Start(const AttendBackend& backend,
                                               grpc::GenericCallbackServerContext* context, std::string request_id);

  void OnReadDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  AttendReactor(const AttendBackend& backend, grpc::GenericCallbackServerContext* context, std::string request_id);

  // What a call waits for.
  enum class Stage { kGate, kReceiving, kWorking, kFinished };

  // What can be refused at the headers; an error has been sent when it is returned.
  absl::Status CheckHeaders();
  void EnterGate();
  void BeginRead();
  absl::Duration ReceiveTimeout() const;
  void ReceiveExpired(absl::Duration timeout);

  void BeginWork();
  void WorkDone(AttendWork::Outcome outcome);

  // Whoever takes the call from `stage` to kFinished, and nobody else, finishes it.
  bool Claim(Stage stage);
  // Claims the call from `stage` and ends it with a refusal, decided upon since `since`.
  void Refuse(RejectReason reason, const absl::Status& status, absl::Time since, Stage stage);
  // Finishes a claimed call without a response.
  void SendStatus(const absl::Status& status);

  const AttendBackend& backend_;
  grpc::GenericCallbackServerContext* const context_;
  const absl::Time headers_;  // when they had arrived
  absl::Time last_byte_;
  absl::Time deadline_;
  std::optional<int64_t> announced_bytes_;
  int64_t expected_bytes_ = 0;  // at most, of the message, once it is being read
  bool entered_ = false;        // counted in the registry of calls
  ReceiveGate::Visit visit_;
  DeadlineWatch::Id receive_deadline_;
  grpc::ByteBuffer message_;
  grpc::ByteBuffer response_;
  RequestRecord record_;
  std::shared_ptr<AttendReactor> self_;  // until OnDone

  std::mutex mutex_;  // guards what follows
  Stage stage_ = Stage::kGate;
  std::shared_ptr<AttendWork> work_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_ATTEND_REACTOR_H_
