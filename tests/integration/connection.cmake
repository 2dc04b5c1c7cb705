# Connections and addresses: limits, descriptors that run out, what a restart finds; and how a server ends.
foreach(connection_test address_test connection_limit_test descriptor_test drain_test)
  attend_add_integration_test(${connection_test}
    SOURCES ${connection_test}.cc
    DEPS attend::client attend::health_proto attend::proto attend::server_process gRPC::grpc++)
endforeach()
if(ATTEND_BUILD_TESTS)
  # A new client is served, an idle server has ended, within a second.
  set_tests_properties(descriptor_test drain_test PROPERTIES RUN_SERIAL true)
endif()
if(ATTEND_SANITIZERS)
  target_compile_definitions(descriptor_test PRIVATE ATTEND_SANITIZED)
  target_compile_definitions(drain_test PRIVATE ATTEND_SANITIZED)
endif()
