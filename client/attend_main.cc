// The `attend` command.
#include <grpc/support/log.h>

#include <cstdlib>

#include "client/commands.h"

int main(int argc, char** argv) {
  // gRPC's lines would come before the one that says what went wrong; who wants them sets its variable.
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
  attend::client::Commands commands;
  attend::client::AddDemoCommand(commands);
  attend::client::AddGenerateCommand(commands);
  attend::client::AddInferCommand(commands);
  attend::client::AddLoadCommand(commands);
  attend::client::AddEstimateCommand(commands);
  attend::client::AddHealthCommand(commands);
  attend::client::AddServerInfoCommand(commands);
  return commands.Run(argc, argv);
}
