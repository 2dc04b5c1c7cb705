// Runs the attend command within a test and catches what it prints. For tests.
#ifndef ATTEND_CLIENT_COMMAND_LINE_RUN_H_
#define ATTEND_CLIENT_COMMAND_LINE_RUN_H_

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "client/commands.h"

namespace attend::client {

struct CommandLineRun {
  int exit_code = 0;
  std::string output;
  std::string errors;
};

// "attend <arguments>" with the commands that `add` adds.
inline CommandLineRun RunCommandLine(void (*add)(Commands&), const std::vector<std::string>& arguments) {
  Commands commands;
  add(commands);
  std::vector<const char*> argv = {"attend"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  CommandLineRun run;
  run.exit_code = commands.Run(static_cast<int>(argv.size()), argv.data());
  run.errors = testing::internal::GetCapturedStderr();
  run.output = testing::internal::GetCapturedStdout();
  return run;
}

}  // namespace attend::client

#endif  // ATTEND_CLIENT_COMMAND_LINE_RUN_H_
