// The JSON is read event by event, so that nothing is made of what does not belong there: a reader of whole documents
// would build whatever a hostile header nests, and would take the last of two tensors with one name.
#include "client/safetensors_header.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace attend::client {
namespace {

struct DtypeName {
  const char* name;
  ArrayType type;
};
constexpr DtypeName kDtypes[] = {{"F32", ArrayType::kFloat32},
                                 {"F16", ArrayType::kFloat16},
                                 {"BF16", ArrayType::kBFloat16},
                                 {"BOOL", ArrayType::kBool},
                                 {"I64", ArrayType::kInt64}};

std::optional<ArrayType> TypeOf(absl::string_view dtype) {
  for (const DtypeName& known : kDtypes) {
    if (dtype == known.name) return known.type;
  }
  return std::nullopt;
}

const char* DtypeOf(ArrayType type) {
  const auto* const known =
      std::find_if(std::begin(kDtypes), std::end(kDtypes), [type](const DtypeName& each) { return each.type == type; });
  return known->name;
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the safetensors header is malformed: ", what));
}

absl::Status Misplaced(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("tensor '", Excerpt(name), "' ", what));
}

// Takes {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"KEY": "TEXT"}} and
// nothing else. Its methods are nlohmann's, which stops at the first that returns false.
class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  const absl::Status& status() const { return status_; }
  std::vector<SafetensorsEntry>& entries() { return entries_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a truth value"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a number that is not whole or does not fit 64 bits");
  }
  bool binary(binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t number) override {
    if (list_ == nullptr) return Unexpected("a number");
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Refuse(Malformed(absl::StrCat(Where(), " has ", number, ", must be less than 2^63")));
    }
    const size_t most = field_ == Field::kShape ? kMaxArrayRank : 2;
    if (list_->size() == most) return Refuse(Malformed(absl::StrCat(Where(), " has more than ", most, " numbers")));
    list_->push_back(static_cast<int64_t>(number));
    return true;
  }

  bool string(string_t& text) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (list_ != nullptr || depth_ != 2 || field_ != Field::kDtype) return Unexpected("text");
    entries_.back().dtype = text;
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ > 1 || list_ != nullptr) return Unexpected("an object");
    ++depth_;
    return true;
  }

  bool end_object() override {
    --depth_;
    if (depth_ != 1) return true;
    if (in_metadata_) {
      in_metadata_ = false;
      return true;
    }
    return FinishEntry();
  }

  bool start_array(size_t) override {
    if (list_ != nullptr || depth_ != 2 || in_metadata_) return Unexpected("a list");
    if (field_ == Field::kShape) list_ = &entries_.back().shape;
    if (field_ == Field::kOffsets) list_ = &offsets_;
    return list_ != nullptr || Unexpected("a list");
  }

  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool key(string_t& text) override {
    if (depth_ == 1) return BeginEntry(text);
    return in_metadata_ || BeginField(text);
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Refuse(Malformed(absl::StrCat("it is no JSON from byte ", position, " on")));
  }

 private:
  enum class Field { kNone = 0, kDtype = 1, kShape = 2, kOffsets = 4 };

  bool Refuse(absl::Status status) {
    status_ = std::move(status);
    return false;
  }

  bool Unexpected(absl::string_view what) { return Refuse(Malformed(absl::StrCat(Where(), " has ", what))); }

  // What is being read, for messages.
  std::string Where() const {
    if (depth_ == 0) return "it";
    if (in_metadata_ && depth_ == 2) return kSafetensorsMetadata;
    if (entries_.empty()) return "it";
    const char* field = "";
    if (field_ == Field::kDtype) field = "dtype of ";
    if (field_ == Field::kShape) field = "shape of ";
    if (field_ == Field::kOffsets) field = "data_offsets of ";
    return absl::StrCat(field, "tensor '", Excerpt(entries_.back().name), "'");
  }

  bool BeginEntry(const std::string& name) {
    if (!names_.insert(name).second) return Refuse(Malformed(absl::StrCat("it names '", Excerpt(name), "' twice")));
    in_metadata_ = name == kSafetensorsMetadata;
    if (in_metadata_) return true;
    entries_.emplace_back().name = name;
    field_ = Field::kNone;
    seen_ = 0;
    offsets_.clear();
    return true;
  }

  bool BeginField(const std::string& name) {
    field_ = Field::kNone;
    const std::string where = Where();
    if (name == "dtype") field_ = Field::kDtype;
    if (name == "shape") field_ = Field::kShape;
    if (name == "data_offsets") field_ = Field::kOffsets;
    const int bit = static_cast<int>(field_);
    if (bit == 0) return Refuse(Malformed(absl::StrCat(where, " has unknown key '", Excerpt(name), "'")));
    if ((seen_ & bit) != 0) return Refuse(Malformed(absl::StrCat(where, " has ", name, " twice")));
    seen_ |= bit;
    return true;
  }

  bool FinishEntry() {
    field_ = Field::kNone;
    constexpr int kAll =
        static_cast<int>(Field::kDtype) | static_cast<int>(Field::kShape) | static_cast<int>(Field::kOffsets);
    if (seen_ != kAll) return Refuse(Malformed(absl::StrCat(Where(), " lacks dtype, shape or data_offsets")));
    if (offsets_.size() != 2) return Refuse(Malformed(absl::StrCat(Where(), " has not two data_offsets")));
    SafetensorsEntry& entry = entries_.back();
    entry.type = TypeOf(entry.dtype);
    entry.begin = offsets_[0];
    entry.end = offsets_[1];
    return true;
  }

  absl::Status status_;
  std::vector<SafetensorsEntry> entries_;
  std::unordered_set<std::string> names_;
  int depth_ = 0;  // of objects
  bool in_metadata_ = false;
  Field field_ = Field::kNone;            // of the last entry
  int seen_ = 0;                          // its fields so far
  std::vector<int64_t> offsets_;          // its data_offsets
  std::vector<int64_t>* list_ = nullptr;  // being read
};

absl::Status CheckSize(const SafetensorsEntry& entry) {
  if (!entry.type) return absl::OkStatus();
  const std::optional<int64_t> bytes = ArrayBytes(*entry.type, entry.shape);
  const std::string shape = absl::StrCat("has shape ", ShapeText(entry.shape), " of ", Excerpt(entry.dtype));
  if (!bytes) return Misplaced(entry.name, absl::StrCat(shape, ", which overflows 64 bits"));
  if (*bytes == entry.end - entry.begin) return absl::OkStatus();
  return Misplaced(entry.name, absl::StrCat(shape, ", which takes ", *bytes, " bytes, and data_offsets of ",
                                            entry.end - entry.begin));
}

// Every byte of the data is one tensor's.
absl::Status CheckPlaces(const std::vector<SafetensorsEntry>& entries, int64_t data_bytes) {
  std::vector<const SafetensorsEntry*> in_order;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin > entry.end || entry.end > data_bytes) {
      return Misplaced(entry.name, absl::StrCat("is at bytes ", entry.begin, " to ", entry.end,
                                                " of the data, which has ", data_bytes));
    }
    if (const absl::Status status = CheckSize(entry); !status.ok()) return status;
    in_order.push_back(&entry);
  }
  std::sort(in_order.begin(), in_order.end(), [](const SafetensorsEntry* a, const SafetensorsEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  int64_t end = 0;
  for (const SafetensorsEntry* entry : in_order) {
    if (entry->begin != end) {
      return Misplaced(entry->name, absl::StrCat("begins at byte ", entry->begin, " of the data, must begin at ", end,
                                                 ", where the one before it ends"));
    }
    end = entry->end;
  }
  if (end == data_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the tensors end at byte ", end, " of the data, which has ", data_bytes));
}

}  // namespace

absl::StatusOr<int64_t> SafetensorsHeaderBytes(absl::string_view start, int64_t file_bytes) {
  if (start.size() < kSafetensorsLengthBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is no safetensors file: it has ", file_bytes, " bytes, must begin with a length of 8"));
  }
  uint64_t length = 0;
  for (int i = kSafetensorsLengthBytes - 1; i >= 0; --i) length = length << 8 | static_cast<uint8_t>(start[i]);
  const int64_t after = file_bytes - kSafetensorsLengthBytes;
  if (length > static_cast<uint64_t>(after)) {
    return absl::InvalidArgumentError(absl::StrCat("it is no safetensors file, or a truncated one: its header has ",
                                                   length, " bytes, the file has ", after, " for it"));
  }
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the safetensors header takes ", length, " bytes, must be at most ", kMaxSafetensorsHeaderBytes));
  }
  return static_cast<int64_t>(length);
}

absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(absl::string_view json, int64_t data_bytes) {
  if (json.substr(0, 1) != "{") return Malformed(absl::StrCat("it starts with \"", Excerpt(json), "\", must be {"));
  // What follows one is no longer read by nlohmann's parser.
  if (json.find('\0') != absl::string_view::npos) return Malformed("it has a zero byte");
  HeaderReader reader;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return reader.status();
  if (const absl::Status status = CheckPlaces(reader.entries(), data_bytes); !status.ok()) return status;
  return std::move(reader.entries());
}

std::string EncodeSafetensorsHeader(std::span<const NamedArray> arrays) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  size_t offset = 0;
  for (const NamedArray& array : arrays) {
    const size_t end = offset + array.data.size();
    header[array.name] = {{"dtype", DtypeOf(array.type)}, {"shape", array.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string json = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  json.append((kSafetensorsLengthBytes - json.size() % kSafetensorsLengthBytes) % kSafetensorsLengthBytes, ' ');
  std::string start;
  for (int i = 0; i < kSafetensorsLengthBytes; ++i) start.push_back(static_cast<char>(json.size() >> (8 * i) & 0xff));
  return start + json;
}

}  // namespace attend::client
