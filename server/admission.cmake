# attend::server_admission: who may send and who may compute. No gRPC types, so that ThreadSanitizer can watch it (Debian's
# gRPC is not built for that): the tsan preset includes this file without the rest of the folder.
set(admission_folder ${CMAKE_CURRENT_LIST_DIR})
set(admission_sources admission.cc backlog.cc machine_limits.cc receive_gate.cc)
set(admission_headers admission.h backlog.h machine_limits.h receive_gate.h turn_queue.h)
list(TRANSFORM admission_sources PREPEND ${admission_folder}/)
list(TRANSFORM admission_headers PREPEND ${admission_folder}/)

attend_add_library(attend_server_admission
  ALIAS attend::server_admission
  HEADERS ${admission_headers}
  SOURCES ${admission_sources}
  DEPS attend::core_pool attend::core_problem absl::status absl::statusor absl::time
  PRIVATE_DEPS absl::cord absl::strings)

foreach(admission_test turn_queue_test backlog_test receive_gate_test admission_test machine_limits_test)
  attend_add_test(${admission_test}
    SOURCES ${admission_folder}/${admission_test}.cc DEPS attend::server_admission LABELS server)
endforeach()
