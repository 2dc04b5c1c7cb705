#include "client/interruption.h"

#include <csignal>

namespace attend::client {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

// Signal handlers reach nothing but globals.
volatile std::sig_atomic_t received_signal = 0;
struct sigaction former_actions[2];

void Receive(int signal) { received_signal = signal; }

}  // namespace

Interruption::Interruption() {
  received_signal = 0;
  struct sigaction action = {};
  action.sa_handler = Receive;
  action.sa_flags = SA_RESTART | SA_RESETHAND;  // the second signal finds the default again
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &action, &former_actions[i]);
}

Interruption::~Interruption() {
  for (int i = 0; i < 2; ++i) sigaction(kSignals[i], &former_actions[i], nullptr);
}

bool Interruption::requested() { return received_signal != 0; }

void Interruption::EndIfRequested() {
  const int signal = received_signal;
  if (signal == 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace attend::client
