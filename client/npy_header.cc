// The header is the text of a Python dictionary. This reads exactly what NumPy writes, three keys in any order, and not
// Python: no nesting, no escapes, no expressions, so no input can make it recurse or grow.
#include "client/npy_header.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attend::client {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr absl::string_view kWantedTypes =
    "'<f4' (float32), '<f2' (float16), '<V2' (bfloat16), '|b1' (bool) and '<i8' (int64)";
constexpr size_t kAlignment = 64;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the npy header is malformed: ", what));
}

// A cursor over the dictionary's text.
class Literal {
 public:
  explicit Literal(absl::string_view text) : rest_(text) {}

  void SkipSpace() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t' || rest_[0] == '\r')) {
      rest_.remove_prefix(1);
    }
  }

  // Takes `token` if it comes next, after space.
  bool Take(absl::string_view token) {
    SkipSpace();
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  // What is left, for messages.
  std::string Here() const { return rest_.empty() ? "its end" : absl::StrCat("\"", Excerpt(rest_), "\""); }
  bool empty() const { return rest_.empty(); }

  absl::StatusOr<std::string> TakeString() {
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return Malformed("no quoted text at " + Here());
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return Malformed("no closing quote after " + Here());
    std::string text(rest_.substr(1, end - 1));
    if (text.find('\\') != std::string::npos) return Malformed("a backslash in " + Here());
    rest_.remove_prefix(end + 1);
    return text;
  }

  absl::StatusOr<bool> TakeBool() {
    if (Take("True")) return true;
    if (Take("False")) return false;
    return Malformed(absl::StrCat("fortran_order is neither True nor False at ", Here()));
  }

  // A tuple of lengths: "()", "(3,)", "(3, 4)".
  absl::StatusOr<std::vector<int64_t>> TakeShape() {
    if (!Take("(")) return Malformed(absl::StrCat("shape is no tuple at ", Here()));
    std::vector<int64_t> shape;
    bool comma = true;
    while (!Take(")")) {
      if (!comma) return Malformed(absl::StrCat("no comma or closing parenthesis in shape at ", Here()));
      if (shape.size() == kMaxArrayRank) {
        return absl::InvalidArgumentError(absl::StrCat("shape has more than ", kMaxArrayRank, " axes"));
      }
      auto length = TakeLength();
      if (!length.ok()) return length.status();
      shape.push_back(*length);
      comma = Take(",");
    }
    if (shape.size() == 1 && !comma) return Malformed("shape is a number in parentheses, not a tuple");
    return shape;
  }

 private:
  absl::StatusOr<int64_t> TakeLength() {
    SkipSpace();
    size_t end = !rest_.empty() && rest_[0] == '-' ? 1 : 0;
    while (end < rest_.size() && rest_[end] >= '0' && rest_[end] <= '9') ++end;
    const absl::string_view digits = rest_.substr(0, end);
    int64_t length = 0;
    if (digits.empty() || digits == "-") return Malformed(absl::StrCat("no number in shape at ", Here()));
    if (!absl::SimpleAtoi(digits, &length)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape has a length of ", Excerpt(digits), ", must fit 64 bits with its sign"));
    }
    if (length < 0) {
      return absl::InvalidArgumentError(absl::StrCat("shape has a length of ", length, ", must be at least 0"));
    }
    rest_.remove_prefix(end);
    if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // Python 2 wrote its long integers so
    return length;
  }

  absl::string_view rest_;
};

struct Dictionary {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

template <typename T>
absl::Status Store(absl::string_view key, absl::StatusOr<T> value, std::optional<T>& slot) {
  if (slot.has_value()) return Malformed(absl::StrCat("key '", key, "' comes twice"));
  if (!value.ok()) return value.status();
  slot = *std::move(value);
  return absl::OkStatus();
}

absl::Status ReadEntry(Literal& text, Dictionary& dictionary) {
  auto key = text.TakeString();
  if (!key.ok()) return key.status();
  if (!text.Take(":")) return Malformed(absl::StrCat("no colon after '", Excerpt(*key), "' at ", text.Here()));
  if (*key == "descr") {
    text.SkipSpace();
    if (text.Take("[")) {
      return absl::InvalidArgumentError(
          absl::StrCat("the elements are records (a structured descr), must be one of ", kWantedTypes));
    }
    return Store(*key, text.TakeString(), dictionary.descr);
  }
  if (*key == "fortran_order") return Store(*key, text.TakeBool(), dictionary.fortran_order);
  if (*key == "shape") return Store(*key, text.TakeShape(), dictionary.shape);
  return Malformed(absl::StrCat("unknown key '", Excerpt(*key), "'"));
}

absl::StatusOr<Dictionary> ReadDictionary(absl::string_view source) {
  Literal text(source);
  if (!text.Take("{")) return Malformed(absl::StrCat("no opening brace at ", text.Here()));
  Dictionary dictionary;
  bool comma = true;
  while (!text.Take("}")) {
    if (!comma) return Malformed(absl::StrCat("no comma or closing brace at ", text.Here()));
    absl::Status status = ReadEntry(text, dictionary);
    if (!status.ok()) return status;
    comma = text.Take(",");
  }
  text.SkipSpace();
  if (!text.empty()) return Malformed(absl::StrCat("more after the closing brace: ", text.Here()));
  if (!dictionary.descr) return Malformed("key 'descr' is missing");
  if (!dictionary.fortran_order) return Malformed("key 'fortran_order' is missing");
  if (!dictionary.shape) return Malformed("key 'shape' is missing");
  return dictionary;
}

absl::StatusOr<ArrayType> ReadType(absl::string_view descr, const NpyReadOptions& options) {
  if (descr == "<f4") return ArrayType::kFloat32;
  if (descr == "<f2") return ArrayType::kFloat16;
  if (descr == "bfloat16") return ArrayType::kBFloat16;
  if (descr == "|b1") return ArrayType::kBool;
  if (descr == "<i8") return ArrayType::kInt64;
  if (descr == "<V2" || descr == "|V2") {
    if (options.two_byte_void_is_bfloat16) return ArrayType::kBFloat16;
    return absl::InvalidArgumentError(
        absl::StrCat("the elements are two bytes of no type (descr '", descr,
                     "', which is how bfloat16 is written): say --element_type bf16 if that is what they are"));
  }
  absl::string_view hint;
  if (descr == "<f8") hint = " (float64: astype(\"float32\") converts it)";
  if (!descr.empty() && descr[0] == '>') hint = " (big-endian)";
  if (!descr.empty() && descr.find('O') != absl::string_view::npos) hint = " (Python objects)";
  return absl::InvalidArgumentError(
      absl::StrCat("the elements are '", Excerpt(descr), "'", hint, ", must be one of ", kWantedTypes));
}

// Where the dictionary lies in the file.
struct HeaderSpan {
  size_t begin = 0;
  size_t end = 0;
};

absl::StatusOr<HeaderSpan> FindDictionary(absl::string_view start, int64_t file_bytes) {
  if (start.substr(0, 2) == "PK") {
    return absl::InvalidArgumentError(
        "it is a zip archive, must be a single array in npy format (an archive of arrays is named .npz)");
  }
  if (start.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(absl::StrCat("it is no npy file: it starts with \"",
                                                   absl::CHexEscape(start.substr(0, kMagic.size())), "\", must be \"",
                                                   absl::CHexEscape(kMagic), "\""));
  }
  const auto byte = [start](size_t i) { return static_cast<uint8_t>(start[i]); };
  if (start.size() < 10) return absl::InvalidArgumentError("the file ends within the npy header");
  const int major = byte(6);
  const int minor = byte(7);
  if (major < 1 || major > 3 || minor != 0) {
    return absl::InvalidArgumentError(absl::StrCat("npy format version ", major, ".", minor, ", must be 1.0 to 3.0"));
  }
  HeaderSpan span;
  span.begin = major == 1 ? 10 : 12;
  if (start.size() < span.begin) return absl::InvalidArgumentError("the file ends within the npy header");
  uint64_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= static_cast<uint64_t>(byte(10)) << 16 | static_cast<uint64_t>(byte(11)) << 24;
  const uint64_t end = span.begin + length;
  if (end > static_cast<uint64_t>(file_bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("the npy header ends at byte ", end, ", the file at ", file_bytes));
  }
  if (end > static_cast<uint64_t>(kMaxNpyHeaderBytes) || end > start.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the npy header takes ", end, " bytes, must be at most ", kMaxNpyHeaderBytes));
  }
  span.end = end;
  return span;
}

absl::string_view DescrText(ArrayType type) {
  switch (type) {
    case ArrayType::kFloat32:
      return "<f4";
    case ArrayType::kFloat16:
      return "<f2";
    case ArrayType::kBFloat16:
      return "<V2";
    case ArrayType::kBool:
      return "|b1";
    case ArrayType::kInt64:
      return "<i8";
  }
  return "";
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view start, int64_t file_bytes, const NpyReadOptions& options) {
  auto span = FindDictionary(start, file_bytes);
  if (!span.ok()) return span.status();
  auto dictionary = ReadDictionary(start.substr(span->begin, span->end - span->begin));
  if (!dictionary.ok()) return dictionary.status();
  auto type = ReadType(*dictionary->descr, options);
  if (!type.ok()) return type.status();
  if (*dictionary->fortran_order && dictionary->shape->size() > 1) {
    return absl::InvalidArgumentError(
        "the elements are in Fortran order, must be in C order (numpy.ascontiguousarray makes them so)");
  }
  NpyHeader header;
  header.type = *type;
  header.shape = *std::move(dictionary->shape);
  header.data_offset = static_cast<int64_t>(span->end);
  const std::optional<int64_t> bytes = ArrayBytes(header.type, header.shape);
  if (!bytes || *bytes > std::numeric_limits<int64_t>::max() - header.data_offset) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", ShapeText(header.shape), " of ", ArrayTypeName(header.type), " overflows 64 bits"));
  }
  header.data_bytes = *bytes;
  if (header.data_offset + header.data_bytes != file_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", ShapeText(header.shape), " of ", ArrayTypeName(header.type), " takes ",
                     header.data_bytes, " bytes, the file has ", file_bytes - header.data_offset, " after its header"));
  }
  return header;
}

std::string EncodeNpyHeader(ArrayType type, const std::vector<int64_t>& shape) {
  std::string dictionary = absl::StrCat("{'descr': '", DescrText(type), "', 'fortran_order': False, 'shape': (",
                                        absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  constexpr size_t kPreamble = 10;
  const size_t used = kPreamble + dictionary.size() + 1;
  dictionary.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  dictionary.push_back('\n');
  std::string header(kMagic);
  header.push_back('\x01');
  header.push_back('\x00');
  header.push_back(static_cast<char>(dictionary.size() & 0xff));
  header.push_back(static_cast<char>(dictionary.size() >> 8));
  return header + dictionary;
}

}  // namespace attend::client
