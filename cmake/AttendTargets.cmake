# One function per kind of target. A target names its exact dependencies; nothing is inherited from a folder.

# attend_add_library(NAME ALIAS attend::x HEADERS ... SOURCES ... DEPS ... [PRIVATE_DEPS ...])
# HEADERS are the public ones. That each compiles alone is proved by its own source, which includes it first
# (clang-format sees to that), or, where it has none, by CMAKE_VERIFY_INTERFACE_HEADER_SETS.
function(attend_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "ALIAS" "HEADERS;SOURCES;DEPS;PRIVATE_DEPS")
  add_library(${name} STATIC)
  add_library(${arg_ALIAS} ALIAS ${name})
  set(alone ${arg_HEADERS})
  set(included_first ${arg_HEADERS})
  list(TRANSFORM arg_SOURCES REPLACE "\\.cc$" ".h" OUTPUT_VARIABLE proved)
  list(REMOVE_ITEM alone ${proved})
  list(REMOVE_ITEM included_first ${alone})
  target_sources(${name}
    PRIVATE ${arg_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${alone}
    FILE_SET included_first TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${included_first})
  set_target_properties(${name} PROPERTIES INTERFACE_HEADER_SETS_TO_VERIFY HEADERS)
  target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE attend_warnings ${arg_PRIVATE_DEPS})
endfunction()

# attend_add_executable(NAME SOURCES ... DEPS ...)
function(attend_add_executable name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE attend_warnings ${arg_DEPS})
endfunction()

# attend_add_test(NAME SOURCES ... DEPS ... [LABELS ...] [TIMEOUT seconds])
# One ctest entry per program; GoogleTest's main is linked in. What may take longer starts earlier.
function(attend_add_test name)
  if(NOT ATTEND_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;DEPS;LABELS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE attend_warnings ${arg_DEPS} GTest::gmock GTest::gtest_main)
  # A test's own code is not what it measures or ships; this compiles in three quarters of the time.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  # Nor is its undefined behaviour looked for: that is a third of the time again, in the sanitizers' presets.
  if(ATTEND_SANITIZERS MATCHES "undefined")
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} COST ${arg_TIMEOUT})
endfunction()
