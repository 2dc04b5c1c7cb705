// The `attend` command.
#include "client/commands.h"

int main(int argc, char** argv) {
  attend::client::Commands commands;
  attend::client::AddDemoCommand(commands);
  attend::client::AddHealthCommand(commands);
  attend::client::AddServerInfoCommand(commands);
  return commands.Run(argc, argv);
}
