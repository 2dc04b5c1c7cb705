# grpcurl and promtool against the real server; scripts/setup --tools puts them where the test looks.
add_test(NAME external_tools_test
  COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/external_tools_test.py
          $<TARGET_FILE:attend-server> ${PROJECT_SOURCE_DIR}/build/tools/bin)
set_tests_properties(external_tools_test PROPERTIES LABELS "integration;external_tools" TIMEOUT 120)
