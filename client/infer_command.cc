// attend infer: attention on tensors in files.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/array.h"
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
    const std::string& text;
    const char* name;
    TensorView& tensor;
    std::string place;
  };
  AttendRequest& request = inputs.request;
  Part parts[] = {{options.query, "query", request.query, {}},
                  {options.key, "key", request.key, {}},
                  {options.value, "value", request.value, {}}};
  for (Part& part : parts) {
    const auto path = ParseTensorPath(part.text, part.name);
    if (!path.ok()) return path.status();
    part.place = path->Text();
    auto tensor = ReadTensorFile(*path, options.element_type);
    if (!tensor.ok()) return tensor.status();
    part.tensor = *std::move(tensor);
    if (!IsFloatType(part.tensor.data_type)) {
      return absl::InvalidArgumentError(
          absl::StrCat(part.place, ": holds ", DataTypeName(part.tensor.data_type), ", must be f32, bf16 or f16"));
    }
    if (part.tensor.data_type != request.query.data_type) {
      return absl::InvalidArgumentError(absl::StrCat(part.place, ": holds ", DataTypeName(part.tensor.data_type),
                                                     ", must be ", DataTypeName(request.query.data_type), " like ",
                                                     parts[0].place, " (--element_type converts f32 files)"));
    }
    if (options.layout == v1::LAYOUT_THD) continue;
    auto missing = LiftToRank4(part.place, part.tensor.shape);
    if (!missing.ok()) return missing.status();
    if (&part.tensor == &request.query) inputs.missing_axes = *missing;
  }
  return MatchShapes(options.layout, {parts[0].place, request.query.shape}, {parts[1].place, request.key.shape},
                     {parts[2].place, request.value.shape})
      .status();
}

absl::Status ReadMaskAndBias(const InferOptions& options, AttendRequest& request) {
  if (!options.mask.empty()) {
    const auto path = ParseTensorPath(options.mask, "mask");
    if (!path.ok()) return path.status();
    auto mask = ReadTensorFile(*path, v1::DATA_TYPE_BOOL);
    if (!mask.ok()) return mask.status();
    request.mask = *std::move(mask);
  }
  if (!options.bias.empty()) {
    const auto path = ParseTensorPath(options.bias, "bias");
    if (!path.ok()) return path.status();
    auto bias = ReadTensorFile(*path);
    if (!bias.ok()) return bias.status();
    if (!IsFloatType(bias->data_type)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path->Text(), ": holds ", DataTypeName(bias->data_type), ", must be f32, bf16 or f16"));
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
  const std::string& text;  // empty: not asked for
  const Tensor* tensor;
  TensorInFile written = {};
};

absl::StatusOr<std::vector<Destination>> Destinations(const InferOptions& options, const Inputs& inputs,
                                                      const AttendResult& result) {
  // Weights and their like have the heads before the length: where the query's file has no heads axis because of its
  // layout, theirs stays.
  const int missing = inputs.missing_axes;
  const int missing_in_weights = options.layout == v1::LAYOUT_BNHD ? std::min(missing, 1) : missing;
  std::vector<Destination> destinations;
  for (const Destination& each :
       {Destination{"output", options.output, &result.output}, Destination{"weights", options.weights, &result.weights},
        Destination{"scores", options.scores, &result.scores},
        Destination{"logsumexp", options.logsumexp, &result.logsumexp}}) {
    if (each.text.empty()) continue;
    if (!each.tensor->present()) return absl::DataLossError(absl::StrCat("the server's answer has no ", each.name));
    auto path = ParseTensorPath(each.text, each.name);
    if (!path.ok()) return path.status();
    const int dropped = each.tensor == &result.output ? missing : missing_in_weights;
    destinations.push_back(each);
    destinations.back().written = {.path = *std::move(path),
                                   .tensor = {.data_type = each.tensor->data_type(),
                                              .shape = DropLeadingAxes(each.tensor->shape(), dropped),
                                              .data = each.tensor->data()}};
  }
  return destinations;
}

// Those that go into one file, in the order of the first of each.
std::vector<std::vector<TensorInFile>> ByFile(const std::vector<Destination>& destinations) {
  std::vector<std::vector<TensorInFile>> files;
  for (const Destination& destination : destinations) {
    const auto same = std::find_if(files.begin(), files.end(), [&](const std::vector<TensorInFile>& tensors) {
      return tensors.front().path.Target() == destination.written.path.Target();
    });
    (same == files.end() ? files.emplace_back() : *same).push_back(destination.written);
  }
  return files;
}

// Writes all files, then renames all: what can fail comes before anything is replaced.
absl::Status WriteResults(const std::vector<Destination>& destinations) {
  std::vector<PendingFile> files;
  for (const std::vector<TensorInFile>& tensors : ByFile(destinations)) {
    auto file = PendingFile::Create(tensors.front().path.file);
    if (!file.ok()) return file.status();
    files.push_back(*std::move(file));
    if (const absl::Status status = WriteTensors(tensors, files.back()); !status.ok()) return status;
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
    const TensorView& tensor = destination.written.tensor;
    absl::StrAppend(&text,
                    TensorLine(destination.name, tensor.data_type, tensor.shape, destination.written.path.Text()));
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

// That the results can be expected to find room where they go.
absl::Status CheckDestinations(const InferOptions& options) {
  for (const std::string& text : {options.output, options.weights, options.scores, options.logsumexp}) {
    if (text.empty()) continue;
    const auto path = ParseTensorPath(text, "any");
    if (!path.ok()) return path.status();
    if (const absl::Status status = PendingFile::Check(path->file); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunInfer(const InferOptions& options, const Connection& connection) {
  if (const absl::Status status = options.Validate(); !status.ok()) return status;
  if (const absl::Status status = CheckDestinations(options); !status.ok()) return status;
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
  const auto destinations = Destinations(options, *inputs, *result);
  if (!destinations.ok()) return destinations.status();
  absl::Status written;
  {
    const Interruption interruption;
    written = WriteResults(*destinations);
  }
  Interruption::EndIfRequested();
  if (!written.ok()) return written;
  std::cout << Summary(options, *inputs, *result, *destinations) << verified;
  return absl::OkStatus();
}

}  // namespace

void AddInferCommand(Commands& commands) {
  auto options = std::make_shared<InferOptions>();  // shared: filled while parsing, read when run
  CLI::App& command = commands.Add("infer", "Computes attention on tensors in files",
                                   [options](const Connection& connection) { return RunInfer(*options, connection); });
  AddInferOptions(command, *options);
  command.footer(
      "FILE is an npy file, or FILE.npz or FILE.safetensors, which hold tensors by name:\n"
      "FILE.npz:NAME takes or writes NAME; without it, the name is that of the option\n"
      "(query, key, ..., output). Results that name one file are written into it\n"
      "together.\n\n"
      "At least one of --output, --weights, --scores and --logsumexp is needed; the\n"
      "server computes and sends what is asked for.\n");
}

}  // namespace attend::client
