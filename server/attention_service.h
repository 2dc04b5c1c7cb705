// attend.v1.AttentionService: Attend by AttendReactor, GetServerInfo by itself, message by message as bytes: gRPC's own
// parser would drop unknown fields in silence and call other bytes an INTERNAL error.
#ifndef ATTEND_SERVER_ATTENTION_SERVICE_H_
#define ATTEND_SERVER_ATTENTION_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "attend/v1/attention.grpc.pb.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "server/attend_backend.h"

namespace attend::server {

// The part of the service that gRPC knows by name, so that reflection lists it. Thread-safe.
class AttentionService final
    : public v1::AttentionService::WithGenericMethod_Attend<
          v1::AttentionService::WithRawCallbackMethod_GetServerInfo<v1::AttentionService::Service>> {
 public:
  // `answer` is what GetServerInfo says, whatever the load; `backend` outlives the service.
  AttentionService(const AttendBackend& backend, v1::GetServerInfoResponse answer)
      : backend_(backend), answer_(std::move(answer)) {}

  // UNAUTHENTICATED for callers that have no right to call, INVALID_ARGUMENT for bytes that are no
  // GetServerInfoRequest, UNIMPLEMENTED for one with a field: there is none yet.
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;

 private:
  const AttendBackend& backend_;
  const v1::GetServerInfoResponse answer_;
};

// Where calls arrive whose method no other service has: Attend, and those that are not offered (UNIMPLEMENTED).
class GenericService final : public grpc::CallbackGenericService {
 public:
  explicit GenericService(const AttendBackend& backend);

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override;

 private:
  // Different for every call, also of two servers that started in the same second.
  std::string NextRequestId();

  const AttendBackend& backend_;
  const uint32_t request_id_prefix_;
  std::atomic<uint32_t> next_request_id_{0};
};

// What GetServerInfo says of `backend`, which computes `multiply_adds_per_second`.
v1::GetServerInfoResponse DescribeServer(const AttendBackend& backend, double multiply_adds_per_second);

}  // namespace attend::server

#endif  // ATTEND_SERVER_ATTENTION_SERVICE_H_
