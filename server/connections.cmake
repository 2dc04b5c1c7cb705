# attend::server_connections: addresses that are listened on, and what accepts connections and reads from them. No gRPC
# types, so that ThreadSanitizer can watch it (see admission.cmake).
set(connections_folder ${CMAKE_CURRENT_LIST_DIR})
set(connections_sources
  connection_acceptor.cc connection_watch.cc descriptor_budget.cc http_request_collector.cc listening_address.cc open_sockets.cc
  socket_address.cc)
set(connections_headers
  connection_acceptor.h connection_watch.h descriptor.h descriptor_budget.h http_request_collector.h listening_address.h open_sockets.h
  socket_address.h)
list(TRANSFORM connections_sources PREPEND ${connections_folder}/)
list(TRANSFORM connections_headers PREPEND ${connections_folder}/)

attend_add_library(attend_server_connections
  ALIAS attend::server_connections
  HEADERS ${connections_headers}
  SOURCES ${connections_sources}
  DEPS absl::status absl::statusor absl::strings absl::time
  PRIVATE_DEPS Threads::Threads)

foreach(connections_test
    connection_acceptor_test connection_watch_test descriptor_budget_test http_request_collector_test listening_address_test
    open_sockets_test socket_address_test)
  attend_add_test(${connections_test}
    SOURCES ${connections_folder}/${connections_test}.cc DEPS attend::server_connections LABELS server)
endforeach()
