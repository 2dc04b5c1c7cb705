// A whole server: what is listed in docs/architecture.md, made in the order in which it depends on each other.
#ifndef ATTEND_SERVER_SERVER_H_
#define ATTEND_SERVER_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/log.h"
#include "server/settings.h"

namespace attend::server {

// The life of a server: Create, then Housekeep now and then, then BeginDrain, StopAccepting, AwaitCalls, and its end.
class Server {
 public:
  // Starts everything: checks that the addresses are free, computes the warm-up problems, listens, and is ready.
  // `log` outlives the server. UNAVAILABLE: an address cannot be listened on. INVALID_ARGUMENT: certificates or tokens
  // that cannot be used. FAILED_PRECONDITION: the same of a file that cannot be read; the processor is too old. Any
  // other error of the first computations.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const Settings& settings, Log& log);

  // Cancels what is in flight, waits for that, and removes the ready file.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Where it listens, with the ports that port 0 became: the first TCP address of each, as in the ready file.
  const std::string& grpc_address() const;
  const std::string& http_address() const;

  // What must be done about once a second: drops requests that wait beyond their deadline, tells health when the
  // machine is stuck, gives idle memory back, looks after certificates and tokens.
  void Housekeep();

  // Reads certificates and tokens again if their files have changed, as Housekeep does every ten seconds.
  void Reload();

  // Health says NOT_SERVING and /readyz fails from now on; calls are still served.
  void BeginDrain();
  // New calls are answered with UNAVAILABLE from now on.
  void StopAccepting();
  // Waits until no call is in flight. False if some still are after `timeout`.
  bool AwaitCalls(absl::Duration timeout);

 private:
  class Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace attend::server

#endif  // ATTEND_SERVER_SERVER_H_
