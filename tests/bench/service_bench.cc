// Calls attend-server and attend_bench_echo, as it is asked on its standard input: tests/bench/bench.py asks.
//
//   attend target=127.0.0.1:1234 runs=5 type=f32 ...   one call at a time; the problem: tests/bench/bench_request.h
//   beyond target=127.0.0.1:1234 runs=5 type=f32 ...   the same, less what the server says it packed and computed
//   echo target=127.0.0.1:1235 runs=5 request_bytes=3000 answer_bytes=1000
//   attend_crowd, echo_crowd ... clients=16 calls=8    so many clients at once, each with a connection of its own
//
// Each answer is one line of JSON: "wall" holds the seconds of each call, "rate" the calls per second of all clients
// together; of a failure {"error": "..."}.
#include <functional>
#include <iostream>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/attend_client.h"
#include "client/random_tensor.h"
#include "tests/bench/bench_request.h"
#include "tests/bench/echo_client.h"
#include "tests/bench/processor_time.h"

namespace attend::bench {
namespace {

// Makes one call. The seconds of it that count.
using Caller = std::function<absl::StatusOr<double>()>;

std::string Text(const BenchRequest& request, const std::string& name) {
  const auto found = request.values.find(name);
  return found == request.values.end() ? "" : found->second;
}

v1::DataType WireType(core::ElementType type) {
  switch (type) {
    case core::ElementType::kFloat32:
      return v1::DATA_TYPE_FLOAT32;
    case core::ElementType::kBFloat16:
      return v1::DATA_TYPE_BFLOAT16;
    case core::ElementType::kFloat16:
      return v1::DATA_TYPE_FLOAT16;
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

// Tensors alone: problems without options.
absl::StatusOr<client::AttendRequest> WireRequest(const core::AttentionProblem& problem) {
  const core::AttentionShape& shape = problem.shape();
  const v1::DataType type = WireType(problem.type());
  const auto query =
      client::MakeRandomTensor(type, {shape.batch, shape.query_heads, shape.query_length, shape.head_dim}, 1);
  const auto key = client::MakeRandomTensor(type, {shape.batch, shape.kv_heads, shape.key_length, shape.head_dim}, 2);
  const auto value =
      client::MakeRandomTensor(type, {shape.batch, shape.kv_heads, shape.key_length, shape.value_dim}, 3);
  for (const auto* tensor : {&query, &key, &value}) {
    if (!tensor->ok()) return tensor->status();
  }
  client::AttendRequest request;
  request.query = *query;
  request.key = *key;
  request.value = *value;
  return request;
}

absl::StatusOr<Caller> AttendCaller(const BenchRequest& request, const client::AttendRequest& attend) {
  auto made = client::Client::Create({.target = Text(request, "target")});
  if (!made.ok()) return made.status();
  const bool beyond = request.word == "beyond";
  // Shared, because a std::function is copied.
  std::shared_ptr<client::Client> client = *std::move(made);
  return Caller([client, attend, beyond]() -> absl::StatusOr<double> {
    const double start = WallSeconds();
    const auto result = client->Attend(attend, {.timeout = absl::Minutes(5), .retry = false});
    const double seconds = WallSeconds() - start;
    if (!result.ok()) return result.status();
    return beyond ? seconds - absl::ToDoubleSeconds(result->server.pack + result->server.compute) : seconds;
  });
}

Caller EchoCaller(const BenchRequest& request) {
  // Shared, because a std::function is copied.
  auto client = std::make_shared<EchoClient>(Text(request, "target"), request.Number("request_bytes", 0),
                                             request.Number("answer_bytes", 0));
  return [client]() -> absl::StatusOr<double> {
    const double start = WallSeconds();
    const absl::Status status = client->Call();
    const double seconds = WallSeconds() - start;
    if (!status.ok()) return status;
    return seconds;
  };
}

class ServiceProgram {
 public:
  absl::StatusOr<std::string> Answer(absl::string_view line) {
    const auto request = BenchRequest::Parse(line);
    if (!request.ok()) return request.status();
    if (request->word == "attend" || request->word == "beyond" || request->word == "echo") return Single(*request);
    if (request->word == "attend_crowd" || request->word == "echo_crowd") return Crowd(*request);
    return absl::InvalidArgumentError(absl::StrCat("unknown word ", request->word));
  }

 private:
  // The caller of the last request, if this one differs in warm and runs alone: connections stay.
  absl::StatusOr<Caller> SingleCaller(const BenchRequest& request) {
    BenchRequest key = request;
    for (const char* name : {"warm", "runs"}) key.values.erase(name);
    const std::string text = absl::StrCat(key.word, " ", absl::StrJoin(key.values, " ", absl::PairFormatter("=")));
    const auto found = callers_.find(text);
    if (found != callers_.end()) return found->second;
    constexpr size_t kMostCallers = 8;
    if (callers_.size() >= kMostCallers) callers_.clear();
    auto made = MakeCaller(request);
    if (made.ok()) callers_.emplace(text, *made);
    return made;
  }

  static absl::StatusOr<Caller> MakeCaller(const BenchRequest& request) {
    if (absl::StrContains(request.word, "echo")) return EchoCaller(request);
    const auto problem = request.Problem();
    if (!problem.ok()) return problem.status();
    const auto attend = WireRequest(*problem);
    if (!attend.ok()) return attend.status();
    return AttendCaller(request, *attend);
  }

  absl::StatusOr<std::string> Single(const BenchRequest& request) {
    const auto caller = SingleCaller(request);
    if (!caller.ok()) return caller.status();
    std::vector<double> wall;
    const int64_t warm = request.Number("warm", 1);
    for (int64_t i = 0; i < warm + request.Number("runs", 1); ++i) {
      const auto seconds = (*caller)();
      if (!seconds.ok()) return seconds.status();
      if (i >= warm) wall.push_back(*seconds);
    }
    const auto number = [](std::string* out, double seconds) { absl::StrAppendFormat(out, "%.9f", seconds); };
    return absl::StrCat("{\"wall\": [", absl::StrJoin(wall, ", ", number), "]}");
  }

  static absl::StatusOr<std::string> Crowd(const BenchRequest& request) {
    const int64_t clients = request.Number("clients", 16), calls = request.Number("calls", 8);
    std::vector<Caller> callers;
    for (int64_t i = 0; i < clients; ++i) {
      const auto caller = MakeCaller(request);
      if (!caller.ok()) return caller.status();
      callers.push_back(*caller);
    }
    std::vector<absl::Status> statuses(callers.size());
    std::latch connected(clients + 1);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < callers.size(); ++i) {
      threads.emplace_back([&, i] {
        statuses[i].Update(callers[i]().status());  // connects
        connected.arrive_and_wait();
        for (int64_t call = 0; call < calls && statuses[i].ok(); ++call) statuses[i].Update(callers[i]().status());
      });
    }
    connected.arrive_and_wait();
    const double start = WallSeconds();
    for (std::thread& thread : threads) thread.join();
    const double seconds = WallSeconds() - start;
    for (const absl::Status& status : statuses) {
      if (!status.ok()) return status;
    }
    return absl::StrFormat("{\"rate\": %.3f}", static_cast<double>(clients * calls) / seconds);
  }

  std::map<std::string, Caller> callers_;
};

}  // namespace
}  // namespace attend::bench

int main() {
  attend::bench::ServiceProgram program;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::cout << attend::bench::JsonLine(program.Answer(line)) << "\n" << std::flush;
  }
  return 0;
}
