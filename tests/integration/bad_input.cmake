# What bad requests, and senders that are no gRPC client, cost the server: nothing that lasts.
foreach(bad_test bad_request_test bad_option_test)
  attend_add_integration_test(${bad_test}
    SOURCES ${bad_test}.cc
    DEPS attend::client attend::client_proto attend::proto attend::server_process gRPC::grpc++)
endforeach()
attend_add_integration_test(random_request_test
  SOURCES random_request_test.cc
  DEPS attend::client attend::proto attend::server_process)
attend_add_integration_test(hostile_sender_test
  SOURCES hostile_sender_test.cc
  DEPS attend::client attend::proto attend::server_process gRPC::grpc++)
if(ATTEND_BUILD_TESTS)
  set_tests_properties(hostile_sender_test PROPERTIES RUN_SERIAL true)  # it measures how others fare meanwhile
endif()
if(ATTEND_SANITIZERS)
  target_compile_definitions(hostile_sender_test PRIVATE ATTEND_SANITIZED)
endif()
