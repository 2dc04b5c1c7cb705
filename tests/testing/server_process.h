// A real attend-server under test: started on free ports of 127.0.0.1, ready when Start returns, killed when it goes.
//
//   auto server = ServerProcess::Start({.flags = {"--receive_budget=256MiB"}});
//   ASSERT_TRUE(server.ok()) << server.status();
//   ... talk to (*server)->grpc_address() ...
//   EXPECT_EQ((*server)->Metric("attend_memory_reserved_bytes").value_or(-1), 0);
//   EXPECT_EQ((*server)->Stop(), 0) << (*server)->process().StandardError();
#ifndef ATTEND_TESTS_TESTING_SERVER_PROCESS_H_
#define ATTEND_TESTS_TESTING_SERVER_PROCESS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tests/testing/child_process.h"

namespace attend::testing {

// The paths of the programs under test: the environment variable ATTEND_SERVER_PROGRAM or ATTEND_CLIENT_PROGRAM if set,
// else those of this build.
std::string ServerProgram();
std::string ClientProgram();  // the `attend` command

struct HttpAnswer {
  int status = 0;
  std::string body;
};

class ServerProcess {
 public:
  struct Options {
    // Beyond --grpc_address, --http_address (127.0.0.1:0 each, unless given here) and --ready_file.
    std::vector<std::string> flags = {};
    // NAME=value.
    std::vector<std::string> environment = {};
    absl::Duration start_timeout = absl::Seconds(60);
    int64_t max_open_files = 0;  // the limit of descriptors, soft and hard; 0 leaves it
    int standard_error = -1;     // where it goes; -1: for ChildProcess::StandardError
  };

  // Starts the server and waits until it has written its ready file. FAILED_PRECONDITION, with what it wrote to
  // standard error, if it ends before; DEADLINE_EXCEEDED if it takes longer than start_timeout.
  static absl::StatusOr<std::unique_ptr<ServerProcess>> Start(Options options);

  // host:port, as the ready file names them.
  const std::string& grpc_address() const { return grpc_address_; }
  const std::string& http_address() const { return http_address_; }
  const std::string& ready_file() const { return ready_file_; }

  // Signals, exit status, standard error, resident memory.
  ChildProcess& process() { return *process_; }

  // Sends SIGTERM and waits. Returns the exit code; -1 if a signal ended it or it still runs after `timeout`.
  int Stop(absl::Duration timeout = absl::Seconds(30));

  // GET of a path on the HTTP port, such as "/metrics". UNAVAILABLE without an answer.
  absl::StatusOr<HttpAnswer> Get(const std::string& path, absl::Duration timeout = absl::Seconds(10)) const;

  // One sample of /metrics, named as in its text with all labels: `attend_requests_total{method="Attend",code="OK"}`.
  // Labels may be given in any order. NOT_FOUND without such a sample.
  absl::StatusOr<double> Metric(absl::string_view sample) const;

  // Waits until a sample satisfies `condition`. DEADLINE_EXCEEDED, with its last value, after `timeout`.
  absl::Status WaitForMetric(absl::string_view sample, const std::function<bool(double)>& condition,
                             absl::Duration timeout = absl::Seconds(20)) const;

  // Waits until standard error holds `text`. DEADLINE_EXCEEDED after `timeout`.
  absl::Status WaitForStandardError(absl::string_view text, absl::Duration timeout = absl::Seconds(20)) const;

 private:
  ServerProcess() = default;
  absl::Status WaitUntilReady(absl::Duration timeout);

  std::unique_ptr<TemporaryFolder> folder_;
  std::unique_ptr<ChildProcess> process_;
  std::string ready_file_;
  std::string grpc_address_;
  std::string http_address_;
};

// The value of `sample` in the Prometheus text `metrics`; NOT_FOUND without it.
absl::StatusOr<double> FindMetric(absl::string_view metrics, absl::string_view sample);

}  // namespace attend::testing

#endif  // ATTEND_TESTS_TESTING_SERVER_PROCESS_H_
