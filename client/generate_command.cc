// attend generate: a file of normal random numbers, for trying things out.
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/array.h"
#include "client/command_options.h"
#include "client/commands.h"
#include "client/element_rounding.h"
#include "client/pending_file.h"
#include "client/random_tensor.h"
#include "client/tensor_file.h"

namespace attend::client {
namespace {

struct GenerateOptions {
  std::string output;
  std::vector<int64_t> shape;
  uint64_t seed = 0;
  v1::DataType element_type = v1::DATA_TYPE_FLOAT32;
};

absl::Status RunGenerate(const GenerateOptions& options) {
  if (options.shape.size() > static_cast<size_t>(kMaxArrayRank)) {
    return UsageError(absl::StrCat("--shape has ", options.shape.size(), " axes, must have at most ", kMaxArrayRank));
  }
  const auto path = ParseTensorPath(options.output, "");
  if (!path.ok()) return path.status();
  auto tensor = MakeRandomTensor(options.element_type, options.shape, options.seed);
  if (!tensor.ok()) return tensor.status();
  auto file = PendingFile::Create(path->file);
  if (!file.ok()) return file.status();
  const TensorInFile written = {.path = *path, .tensor = *std::move(tensor)};
  if (const absl::Status status = WriteTensors({&written, 1}, *file); !status.ok()) return status;
  if (const absl::Status status = file->Commit(); !status.ok()) return status;
  std::cout << options.output << ": " << DataTypeName(options.element_type) << " " << ShapeText(options.shape)
            << ", seed " << options.seed << "\n";
  return absl::OkStatus();
}

}  // namespace

void AddGenerateCommand(Commands& commands) {
  auto options = std::make_shared<GenerateOptions>();  // shared: filled while parsing, read when run
  CLI::App& command = commands.AddLocal("generate", "Writes a file of normal random numbers, made from a seed",
                                        [options] { return RunGenerate(*options); });
  command
      .add_option("--output", options->output,
                  "Where to write them: an npy file, or FILE.npz:NAME or FILE.safetensors:NAME")
      ->required()
      ->type_name("FILE");
  AddListOption(command, "--shape", options->shape, "Lengths of the axes, such as 1,8,512,64", int64_t{0})->required();
  command.add_option("--seed", options->seed, "The same seed gives the same numbers")
      ->check(InRange<uint64_t>())
      ->capture_default_str()
      ->type_name("N");
  AddChoiceOption(command, "--element_type", options->element_type, FloatTypeChoices(),
                  "Type of the elements. Default: f32");
}

}  // namespace attend::client
