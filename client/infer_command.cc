// attend infer: attention on tensors in npy files.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/commands.h"
#include "client/element_rounding.h"
#include "client/infer_options.h"
#include "client/interruption.h"
#include "client/pending_file.h"
#include "client/result_verification.h"
#include "client/tensor_file.h"
#include "client/tensor_shapes.h"

namespace attend::client {
namespace {

struct Inputs {
  AttendRequest request;
  int missing_axes = 0;  // of the query's file: results are written without them
};

absl::Status ReadQueryKeyValue(const InferOptions& options, Inputs& inputs) {
  struct Part {
    const std::string& path;
    TensorView& tensor;
  };
  AttendRequest& request = inputs.request;
  const Part parts[] = {{options.query, request.query}, {options.key, request.key}, {options.value, request.value}};
  for (const Part& part : parts) {
    auto tensor = ReadTensorFile(part.path, options.element_type);
    if (!tensor.ok()) return tensor.status();
    part.tensor = *std::move(tensor);
    if (!IsFloatType(part.tensor.data_type)) {
      return absl::InvalidArgumentError(
          absl::StrCat(part.path, ": holds ", DataTypeName(part.tensor.data_type), ", must be f32, bf16 or f16"));
    }
    if (part.tensor.data_type != request.query.data_type) {
      return absl::InvalidArgumentError(absl::StrCat(part.path, ": holds ", DataTypeName(part.tensor.data_type),
                                                     ", must be ", DataTypeName(request.query.data_type), " like ",
                                                     options.query, " (--element_type converts f32 files)"));
    }
    if (options.layout == v1::LAYOUT_THD) continue;
    auto missing = LiftToRank4(part.path, part.tensor.shape);
    if (!missing.ok()) return missing.status();
    if (&part.tensor == &request.query) inputs.missing_axes = *missing;
  }
  return MatchShapes(options.layout, {options.query, request.query.shape}, {options.key, request.key.shape},
                     {options.value, request.value.shape})
      .status();
}

absl::Status ReadMaskAndBias(const InferOptions& options, AttendRequest& request) {
  if (!options.mask.empty()) {
    auto mask = ReadTensorFile(options.mask, v1::DATA_TYPE_BOOL);
    if (!mask.ok()) return mask.status();
    request.mask = *std::move(mask);
  }
  if (!options.bias.empty()) {
    auto bias = ReadTensorFile(options.bias);
    if (!bias.ok()) return bias.status();
    if (!IsFloatType(bias->data_type)) {
      return absl::InvalidArgumentError(
          absl::StrCat(options.bias, ": holds ", DataTypeName(bias->data_type), ", must be f32 or f16"));
    }
    request.bias = *std::move(bias);
  }
  return absl::OkStatus();
}

absl::StatusOr<Inputs> ReadInputs(const InferOptions& options) {
  Inputs inputs;
  if (const absl::Status status = ReadQueryKeyValue(options, inputs); !status.ok()) return status;
  if (const absl::Status status = ReadMaskAndBias(options, inputs.request); !status.ok()) return status;
  inputs.request.options = ToAttentionOptions(options);
  inputs.request.results = ToResultSelection(options);
  inputs.request.request_id = options.request_id;
  inputs.request.priority = options.priority;
  return inputs;
}

// A result and where it goes.
struct Destination {
  const char* name;
  std::string path;  // empty: not asked for
  const Tensor* tensor;
  std::vector<int64_t> shape;  // as written
};

std::vector<Destination> Destinations(const InferOptions& options, const Inputs& inputs, const AttendResult& result) {
  // Weights and their like have the heads before the length: where the query's file has no heads axis because of its
  // layout, theirs stays.
  const int missing = inputs.missing_axes;
  const int missing_in_weights = options.layout == v1::LAYOUT_BNHD ? std::min(missing, 1) : missing;
  std::vector<Destination> destinations = {{"output", options.output, &result.output, {}},
                                           {"weights", options.weights, &result.weights, {}},
                                           {"scores", options.scores, &result.scores, {}},
                                           {"logsumexp", options.logsumexp, &result.logsumexp, {}}};
  std::erase_if(destinations, [](const Destination& destination) { return destination.path.empty(); });
  for (Destination& destination : destinations) {
    destination.shape = DropLeadingAxes(destination.tensor->shape(),
                                        destination.tensor == &result.output ? missing : missing_in_weights);
  }
  return destinations;
}

// Writes all files, then renames all: what can fail comes before anything is replaced.
absl::Status WriteResults(const std::vector<Destination>& destinations) {
  std::vector<PendingFile> files;
  for (const Destination& destination : destinations) {
    if (!destination.tensor->present()) {
      return absl::DataLossError(absl::StrCat("the server's answer has no ", destination.name));
    }
    auto file = PendingFile::Create(destination.path);
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
    const absl::Status status = WriteTensor(*destination.tensor, destination.shape, files.back());
    if (!status.ok()) return status;
    if (Interruption::requested()) return absl::CancelledError("interrupted before the results were written");
  }
  for (PendingFile& file : files) {
    if (const absl::Status status = file.Commit(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

std::string TensorLine(absl::string_view name, v1::DataType type, const std::vector<int64_t>& shape,
                       absl::string_view path) {
  return absl::StrFormat("%-10s%-5s%-24s %s\n", name, DataTypeName(type), ShapeText(shape), path);
}

std::string Milliseconds(absl::Duration duration) {
  return absl::StrFormat("%.3g ms", absl::ToDoubleMilliseconds(duration));
}

std::string Summary(const InferOptions& options, const Inputs& inputs, const AttendResult& result,
                    const std::vector<Destination>& destinations) {
  const AttendRequest& request = inputs.request;
  std::string text = TensorLine("query", request.query.data_type, request.query.shape, options.query);
  absl::StrAppend(&text, TensorLine("key", request.key.data_type, request.key.shape, options.key),
                  TensorLine("value", request.value.data_type, request.value.shape, options.value));
  for (const Destination& destination : destinations) {
    absl::StrAppend(&text,
                    TensorLine(destination.name, destination.tensor->data_type(), destination.shape, destination.path));
  }
  const ServerTimings& server = result.server;
  const absl::Duration computing = server.pack + server.compute;
  absl::StrAppend(&text, "time      ", Milliseconds(result.duration), ", of it in the server: receive ",
                  Milliseconds(server.receive), ", queue ", Milliseconds(server.queue), ", pack ",
                  Milliseconds(server.pack), ", compute ", Milliseconds(server.compute), ", encode ",
                  Milliseconds(server.encode), "\n");
  if (result.attempts > 1) absl::StrAppend(&text, "attempts  ", result.attempts, "\n");
  if (computing > absl::ZeroDuration()) {
    absl::StrAppendFormat(&text, "rate      %.4g GFLOP/s while packing and computing\n",
                          2e-9 * static_cast<double>(result.multiply_adds) / absl::ToDoubleSeconds(computing));
  }
  return text;
}

absl::Status RunInfer(const InferOptions& options, const Connection& connection) {
  if (const absl::Status status = options.Validate(); !status.ok()) return status;
  for (const std::string& path : {options.output, options.weights, options.scores, options.logsumexp}) {
    if (path.empty()) continue;
    if (const absl::Status status = PendingFile::Check(path); !status.ok()) return status;
  }
  auto inputs = ReadInputs(options);
  if (!inputs.ok()) return inputs.status();
  auto client = connection.Connect();
  if (!client.ok()) return client.status();
  auto result = (*client)->Attend(inputs->request, connection.Call());
  if (!result.ok()) return result.status();

  std::string verified;
  if (options.verify) {
    auto verification = VerifyResult(inputs->request, *result, {.rows = options.verify_rows});
    if (!verification.ok()) return verification.status();
    if (!verification->passed()) {
      return absl::DataLossError(absl::StrCat("the answer is wrong, nothing was written: ", verification->Text()));
    }
    verified = absl::StrCat("verified  ", verification->Text(), "\n");
  }
  const std::vector<Destination> destinations = Destinations(options, *inputs, *result);
  absl::Status written;
  {
    const Interruption interruption;
    written = WriteResults(destinations);
  }
  Interruption::EndIfRequested();
  if (!written.ok()) return written;
  std::cout << Summary(options, *inputs, *result, destinations) << verified;
  return absl::OkStatus();
}

}  // namespace

void AddInferCommand(Commands& commands) {
  auto options = std::make_shared<InferOptions>();  // shared: filled while parsing, read when run
  CLI::App& command = commands.Add("infer", "Computes attention on tensors in npy files",
                                   [options](const Connection& connection) { return RunInfer(*options, connection); });
  AddInferOptions(command, *options);
  command.footer(
      "At least one of --output, --weights, --scores and --logsumexp is needed; the\n"
      "server computes and sends what is asked for.\n");
}

}  // namespace attend::client
