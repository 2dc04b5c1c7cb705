# attend::estimate: what a problem costs.
attend_add_library(attend_estimate
  ALIAS attend::estimate
  HEADERS estimate_options.h estimate_report.h problem_cost.h working_memory.h
  SOURCES estimate_command.cc estimate_options.cc estimate_report.cc problem_cost.cc working_memory.cc
  DEPS attend::commands attend::proto attend::verification CLI11::CLI11 absl::status absl::statusor absl::strings
  PRIVATE_DEPS attend::client attend::infer nlohmann_json::nlohmann_json absl::int128 absl::str_format)

attend_add_test(problem_cost_test SOURCES problem_cost_test.cc DEPS attend::estimate attend::client gRPC::grpc++)
attend_add_test(estimate_command_test
  SOURCES estimate_command_test.cc
  DEPS attend::commands attend::estimate attend::fake_server attend::verification absl::strings
       nlohmann_json::nlohmann_json)
