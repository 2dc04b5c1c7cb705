# attend::load: measuring a server.
attend_add_library(attend_load
  ALIAS attend::load
  HEADERS
    arrival_schedule.h latency_record.h length_mix.h load_chart.h load_clock.h load_export.h load_loop.h load_measurement.h
    load_options.h load_progress.h load_report.h load_run.h load_table.h piped_program.h
  SOURCES
    latency_record.cc length_mix.cc load_chart.cc load_clock.cc load_command.cc load_export.cc load_loop.cc load_measurement.cc
    load_options.cc load_progress.cc load_report.cc load_run.cc load_table.cc piped_program.cc
  DEPS attend::client attend::commands attend::verification CLI11::CLI11 absl::status absl::statusor absl::strings absl::time
  PRIVATE_DEPS attend::infer attend::array_files nlohmann_json::nlohmann_json absl::str_format)

foreach(test IN ITEMS latency_record length_mix load_chart load_export load_loop load_options load_progress load_report load_table)
  attend_add_test(${test}_test
    SOURCES ${test}_test.cc
    DEPS attend::load absl::strings nlohmann_json::nlohmann_json)
endforeach()
attend_add_test(load_command_test
  SOURCES load_command_test.cc
  DEPS attend::commands attend::fake_server attend::load attend::verification absl::strings nlohmann_json::nlohmann_json)
