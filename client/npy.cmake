# attend::npy: arrays in npy files. No gRPC, no protobuf.
attend_add_library(attend_npy
  ALIAS attend::npy
  HEADERS npy_file.h npy_header.h pending_file.h
  SOURCES npy_file.cc npy_header.cc pending_file.cc
  DEPS absl::status absl::statusor absl::strings)

attend_add_test(npy_header_test SOURCES npy_header_test.cc DEPS attend::npy absl::strings)
attend_add_test(npy_file_test SOURCES npy_file_test.cc DEPS attend::npy absl::strings)
attend_add_test(pending_file_test SOURCES pending_file_test.cc DEPS attend::npy)
