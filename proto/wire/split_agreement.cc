#include "proto/wire/split_agreement.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "attend/v1/attention.pb.h"
#include "proto/wire/attend_messages.h"

namespace attend::wire {
namespace {

// Puts the bulk bytes back where the generated parser would have put them.
void FillIn(const BulkBytes& bytes, v1::Tensor* (*tensor)(v1::AttendRequest&), v1::AttendRequest& request) {
  if (bytes.empty()) return;
  std::string data(static_cast<size_t>(bytes.size()), '\0');
  bytes.CopyTo(data.data());
  tensor(request)->set_data(std::move(data));
}

v1::AttendRequest Whole(const AttendRequestParts& parts) {
  v1::AttendRequest request = parts.message;
  FillIn(
      parts.query, [](v1::AttendRequest& r) { return r.mutable_query(); }, request);
  FillIn(
      parts.key, [](v1::AttendRequest& r) { return r.mutable_key(); }, request);
  FillIn(
      parts.value, [](v1::AttendRequest& r) { return r.mutable_value(); }, request);
  FillIn(
      parts.mask, [](v1::AttendRequest& r) { return r.mutable_options()->mutable_mask(); }, request);
  FillIn(
      parts.bias, [](v1::AttendRequest& r) { return r.mutable_options()->mutable_bias(); }, request);
  return request;
}

}  // namespace

std::vector<grpc::Slice> SlicesOf(absl::string_view bytes, size_t slice_size) {
  std::vector<grpc::Slice> slices;
  for (size_t start = 0; start < bytes.size(); start += slice_size) {
    const absl::string_view piece = bytes.substr(start, slice_size);
    slices.emplace_back(piece.data(), piece.size());
  }
  return slices;
}

std::string SplitDisagreement(absl::string_view bytes, const std::vector<grpc::Slice>& slices) {
  const auto parts = SplitAttendRequest(grpc::ByteBuffer(slices.data(), slices.size()));
  if (absl::IsResourceExhausted(parts.status())) return "";
  v1::AttendRequest expected;
  const bool parsed = expected.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  const auto differ = [&bytes](absl::string_view how) {
    return absl::StrCat(how, " for the bytes ", absl::BytesToHexString(bytes));
  };
  if (parsed != parts.ok()) {
    return differ(absl::StrCat("parser ", parsed ? "accepts" : "refuses", ", split: ", parts.status().ToString()));
  }
  if (!parsed) return "";
  return Whole(*parts).SerializeAsString() == expected.SerializeAsString() ? "" : differ("they read differently");
}

}  // namespace attend::wire
