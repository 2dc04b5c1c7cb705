# Every package of the project, found in this one file. All come from Debian; docs/dependencies.md says what each is for.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON) # for a project that this one is a part of
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
if(ATTEND_CLIENT_ONLY)
  find_package(Protobuf REQUIRED)
  find_package(gRPC REQUIRED CONFIG)
  find_package(OpenSSL REQUIRED)
  return()
endif()

find_package(OneDNN REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(hwy REQUIRED CONFIG)

if(ATTEND_BUILD_SERVICE)
  find_package(Protobuf REQUIRED)
  find_package(gRPC REQUIRED CONFIG)
  find_package(OpenSSL REQUIRED)
  find_package(spdlog REQUIRED CONFIG)
  find_package(prometheus-cpp REQUIRED CONFIG)
  find_package(CLI11 REQUIRED CONFIG)
  find_package(nlohmann_json REQUIRED CONFIG)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(httplib REQUIRED IMPORTED_TARGET cpp-httplib)  # Debian ships no CMake package of it
  pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)  # its CMake package insists on the tools of libzip
endif()

if(ATTEND_BUILD_BENCHMARKS)
  find_package(benchmark REQUIRED CONFIG)
endif()

if(ATTEND_BUILD_TESTS)
  find_package(GTest REQUIRED CONFIG)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)  # for tests/lint
endif()
