# attend::array_files: arrays in npy, npz and safetensors files. No gRPC, no protobuf.
attend_add_library(attend_array_files
  ALIAS attend::array_files
  HEADERS
    array.h input_file.h npy_file.h npy_header.h npz_file.h pending_file.h safetensors_file.h safetensors_header.h
  SOURCES
    array.cc input_file.cc npy_file.cc npy_header.cc npz_file.cc pending_file.cc safetensors_file.cc
    safetensors_header.cc
  DEPS absl::status absl::statusor absl::strings
  PRIVATE_DEPS nlohmann_json::nlohmann_json PkgConfig::libzip)

foreach(test IN ITEMS npy_header npy_file pending_file safetensors_header safetensors_file)
  attend_add_test(${test}_test SOURCES ${test}_test.cc DEPS attend::array_files absl::strings)
endforeach()
attend_add_test(npz_file_test SOURCES npz_file_test.cc DEPS attend::array_files absl::strings PkgConfig::libzip)
