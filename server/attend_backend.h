// Everything that the calls of one server share.
#ifndef ATTEND_SERVER_ATTEND_BACKEND_H_
#define ATTEND_SERVER_ATTEND_BACKEND_H_

#include "core/buffer_pool.h"
#include "core/clock.h"
#include "core/compute_pool.h"
#include "core/tile_kernels.h"
#include "server/admission.h"
#include "server/attend_codec.h"
#include "server/backlog.h"
#include "server/call_registry.h"
#include "server/connection_watch.h"
#include "server/deadline_watch.h"
#include "server/metrics.h"
#include "server/receive_gate.h"
#include "server/request_log.h"
#include "server/security.h"
#include "server/settings.h"

namespace attend::server {

// References to what outlives every call; all of it is thread-safe.
struct AttendBackend {
  const Settings& settings;
  const CodecLimits& limits;
  const core::Clock& clock;
  const Security& security;
  ConnectionWatch& connections;
  core::BufferPool& buffers;
  core::TileKernels& kernels;
  core::ComputePool& pool;
  Backlog& backlog;
  ReceiveGate& gate;
  Admission& admission;
  CallRegistry& calls;
  DeadlineWatch& deadlines;
  Metrics& metrics;
  RequestLog& request_log;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_ATTEND_BACKEND_H_
