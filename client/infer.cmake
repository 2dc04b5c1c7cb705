# attend::infer: the commands that work on tensors in files.
attend_add_library(attend_infer
  ALIAS attend::infer
  HEADERS command_options.h infer_options.h interruption.h tensor_file.h tensor_path.h
  SOURCES generate_command.cc infer_command.cc infer_options.cc interruption.cc tensor_file.cc tensor_path.cc
  DEPS attend::commands attend::array_files attend::proto CLI11::CLI11 absl::status absl::statusor absl::strings
  PRIVATE_DEPS attend::client attend::verification absl::str_format nlohmann_json::nlohmann_json)

attend_add_test(tensor_file_test SOURCES tensor_file_test.cc DEPS attend::infer attend::array_files attend::verification)
attend_add_test(tensor_path_test SOURCES tensor_path_test.cc DEPS attend::infer)
attend_add_test(infer_options_test SOURCES infer_options_test.cc DEPS attend::infer protobuf::libprotobuf)
attend_add_test(interruption_test SOURCES interruption_test.cc DEPS attend::infer)
attend_add_test(infer_command_test
  SOURCES infer_command_test.cc
  DEPS attend::commands attend::fake_server attend::infer attend::verification absl::strings)
