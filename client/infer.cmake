# attend::infer: the commands that work on tensors in files.
attend_add_library(attend_infer
  ALIAS attend::infer
  HEADERS choice_option.h infer_options.h interruption.h tensor_file.h
  SOURCES generate_command.cc infer_command.cc infer_options.cc interruption.cc tensor_file.cc
  DEPS attend::commands attend::npy attend::proto CLI11::CLI11 absl::status absl::statusor absl::strings
  PRIVATE_DEPS attend::client attend::verification absl::str_format)
